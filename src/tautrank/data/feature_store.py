"""Collect feature rows block by block into one dense or compressed-row matrix, without a second
copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tautrank.arrays import Array
from tautrank.data.queries import offsets_from_sizes

_DENSE_ALWAYS_FINE = 64 * 2**20
_DENSE_AT_MOST = 8

Sparse = bool | str


class FeatureStore:
    """Collects rows, and puts them together as one matrix.

    Args:
        sparse: ``True`` for CSR, ``False`` for dense, ``"auto"`` for CSR without zeros if dense
            rows take over 64 MiB and over eight times as much: of the whole data, so it does not
            matter how the text was cut into blocks.
        width: number of columns, if known.
    """

    def __init__(self, sparse: Sparse = "auto", width: int | None = None) -> None:
        self._sparse = sparse
        self._width = width or 0
        self.rows = 0
        # Each part is the number of columns of rows (0: compressed) and the bytes of their arrays;
        # or -1 and a matrix.
        self._parts: list[tuple[int, Any]] = []

    def append(self, indptr: Array, indices: Array, values: Array, width: int) -> None:
        """Add ``len(indptr) - 1`` compressed rows."""
        rows = indptr.size - 1
        self.rows, self._width = self.rows + rows, max(self._width, width)
        cells = rows * self._width
        if self._sparse is True or cells == 0 or _is_much_more(cells, values.size, rows):
            for grown, array in zip(
                self._growing(0), (values, indices, np.diff(indptr)), strict=True
            ):
                grown += array.data
            return
        grown, *_ = self._growing(self._width)
        grown += bytes(4 * cells)
        _scatter(
            indptr, indices, values, np.frombuffer(grown, np.float32)[-cells:].reshape(rows, -1)
        )

    def _growing(self, columns: int) -> Any:
        """Return the arrays of the last part, if it has so many columns, or those of a new one."""
        if not self._parts or self._parts[-1][0] != columns:
            self._parts.append((columns, (bytearray(), bytearray(), bytearray())))
        return self._parts[-1][1]

    def append_matrix(self, X: Any) -> None:
        """Add the rows of a matrix, dense or CSR."""
        self.rows, self._width = self.rows + X.shape[0], max(self._width, X.shape[1])
        self._parts.append((-1, X))

    def finished(self) -> Any:
        """Return the matrix: float32, C order, or SciPy CSR; the store must not be used
        afterwards.
        """
        parts = [self._matrix(*part) for part in self._parts]
        self._parts.clear()
        cells, sparse = self.rows * self._width, self._sparse
        if sparse == "auto":
            stored = sum(
                int(np.count_nonzero(part if isinstance(part, np.ndarray) else part.data))
                for part in parts
            )
            sparse = 4 * cells > _DENSE_ALWAYS_FINE and _is_much_more(cells, stored, self.rows)
        if sparse:
            return self._compressed(parts)
        if (
            len(parts) == 1
            and isinstance(parts[0], np.ndarray)
            and parts[0].shape[1] == self._width
        ):
            return parts[0]
        X, row = np.zeros((self.rows, self._width), np.float32), self.rows
        while parts:  # from the end, so that memory is free again while the rest is filled
            part = parts.pop()
            row -= part.shape[0]
            place = X[row : row + part.shape[0]]
            if isinstance(part, np.ndarray):
                place[:, : part.shape[1]] = part
            else:
                _scatter(part.indptr, part.indices, part.data, place)
        return X

    def _matrix(self, columns: int, arrays: Any) -> Any:
        if columns < 0:
            return arrays
        if columns:
            return np.frombuffer(arrays[0], np.float32).reshape(-1, columns)
        from scipy.sparse import csr_matrix

        kinds = np.float32, np.int32, np.int64
        values, indices, sizes = (
            np.frombuffer(array, kind) for array, kind in zip(arrays, kinds, strict=True)
        )
        return csr_matrix((values, indices, offsets_from_sizes(sizes)), (sizes.size, self._width))

    def _compressed(self, parts: list[Any]) -> Any:
        from scipy.sparse import csr_matrix, vstack

        parts = [csr_matrix(part) for part in parts]
        for part in parts:
            part.resize(part.shape[0], self._width)
            if self._sparse == "auto":  # a stored zero says nothing that an absent one does not
                part.eliminate_zeros()
        return vstack(parts, format="csr") if len(parts) > 1 else parts[0]


def _scatter(indptr: Array, indices: Array, values: Array, place: Array) -> None:
    """Write compressed rows into zeros; unlike SciPy, with the sign of a zero."""
    from tautrank.data._letor_kernel import scatter_rows

    scatter_rows(indptr, indices, values, place)


def _is_much_more(cells: int, stored: int, rows: int) -> bool:
    """Return whether dense rows take over eight times the memory of compressed ones."""
    return 4 * cells > _DENSE_AT_MOST * 8 * (stored + rows)
