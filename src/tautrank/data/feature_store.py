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
        n_rows = indptr.size - 1
        self.rows += n_rows
        self._width = max(self._width, width)
        n_cells = n_rows * self._width
        keeps_compressed = self._sparse is True or n_cells == 0
        if keeps_compressed or _is_much_more(n_cells, values.size, n_rows):
            new_arrays = values, indices, np.diff(indptr)
            for buffer, array in zip(self._last_buffers(0), new_arrays, strict=True):
                buffer += array.data
            return
        buffer, *_ = self._last_buffers(self._width)
        buffer += bytes(4 * n_cells)
        zeros = np.frombuffer(buffer, np.float32)[-n_cells:].reshape(n_rows, -1)
        _scatter(indptr, indices, values, zeros)

    def _last_buffers(self, n_columns: int) -> Any:
        """Return the arrays of the last part, if it has so many columns, or those of a new one."""
        if not self._parts or self._parts[-1][0] != n_columns:
            self._parts.append((n_columns, (bytearray(), bytearray(), bytearray())))
        return self._parts[-1][1]

    def append_matrix(self, X: Any) -> None:
        """Add the rows of a matrix, dense or CSR."""
        n_rows, n_columns = X.shape
        self.rows += n_rows
        self._width = max(self._width, n_columns)
        self._parts.append((-1, X))

    def finished(self) -> Any:
        """Return the matrix: float32, C order, or SciPy CSR; the store must not be used
        afterwards.
        """
        parts = [self._matrix(*part) for part in self._parts]
        self._parts.clear()
        if self._is_sparse(parts):
            return self._compressed(parts)
        if len(parts) == 1 and _is_dense_of_width(parts[0], self._width):
            return parts[0]

        X = np.zeros((self.rows, self._width), np.float32)
        end = self.rows
        while parts:  # from the end, so that memory is free again while the others are copied
            part = parts.pop()
            rows = X[end - part.shape[0] : end]
            end -= part.shape[0]
            if isinstance(part, np.ndarray):
                rows[:, : part.shape[1]] = part
            else:
                _scatter(part.indptr, part.indices, part.data, rows)
        return X

    def _is_sparse(self, parts: list[Any]) -> bool:
        """Return whether the matrix is to be CSR."""
        if self._sparse != "auto":
            return bool(self._sparse)
        n_cells = self.rows * self._width
        n_stored = 0
        for part in parts:
            entries = part if isinstance(part, np.ndarray) else part.data
            n_stored += int(np.count_nonzero(entries))
        is_large = 4 * n_cells > _DENSE_ALWAYS_FINE
        return is_large and _is_much_more(n_cells, n_stored, self.rows)

    def _matrix(self, n_columns: int, buffers: Any) -> Any:
        """Return a part as a matrix, dense or CSR."""
        if n_columns < 0:
            return buffers
        if n_columns:
            return np.frombuffer(buffers[0], np.float32).reshape(-1, n_columns)
        from scipy.sparse import csr_matrix

        values = np.frombuffer(buffers[0], np.float32)
        indices = np.frombuffer(buffers[1], np.int32)
        sizes = np.frombuffer(buffers[2], np.int64)
        arrays = values, indices, offsets_from_sizes(sizes)
        return csr_matrix(arrays, (sizes.size, self._width))

    def _compressed(self, parts: list[Any]) -> Any:
        """Return the parts as one CSR matrix."""
        from scipy.sparse import csr_matrix, vstack

        parts = [csr_matrix(part) for part in parts]
        for part in parts:
            part.resize(part.shape[0], self._width)
            if self._sparse == "auto":  # a stored zero says nothing that an absent one does not
                part.eliminate_zeros()
        return vstack(parts, format="csr") if len(parts) > 1 else parts[0]


def _is_dense_of_width(matrix: Any, width: int) -> bool:
    """Return whether a matrix is a dense array of so many columns."""
    return isinstance(matrix, np.ndarray) and matrix.shape[1] == width


def _scatter(indptr: Array, indices: Array, values: Array, place: Array) -> None:
    """Write compressed rows into zeros; unlike SciPy, with the sign of a zero."""
    from tautrank.data._letor_kernel import scatter_rows

    scatter_rows(indptr, indices, values, place)


def _is_much_more(n_cells: int, n_stored: int, n_rows: int) -> bool:
    """Return whether dense rows take over eight times the memory of compressed ones."""
    dense_bytes = 4 * n_cells
    compressed_bytes = 8 * (n_stored + n_rows)
    return dense_bytes > _DENSE_AT_MOST * compressed_bytes
