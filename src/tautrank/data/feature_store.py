"""Collect feature rows block by block into one dense or compressed-row matrix, without a second
copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tautrank.arrays import Array
from tautrank.data.queries import offsets_from_sizes

# A dense matrix of at most so many bytes is fine, however many zeros it has;
_DENSE_ALWAYS_FINE = 64 * 2**20
# a larger one, if it takes at most so many times the memory of a compressed one.
_DENSE_AT_MOST = 8
_IS_MATRIX = -1

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
        # Each part is a number of columns and three growing buffers of bytes. Dense rows fill the
        # first buffer; 0 columns mean compressed rows: their values, indices and row sizes. The
        # number _IS_MATRIX means that the part is a matrix instead.
        self._parts: list[tuple[int, Any]] = []

    def append(self, indptr: Array, indices: Array, values: Array, width: int) -> None:
        """Append rows of features in compressed form (CSR) to the store, which keeps them as dense
        rows unless compressed ones take far less memory.

        Args:
            indptr, indices, values: the rows as in SciPy's CSR matrices.
            width: number of columns that the rows need at least.
        """
        n_rows = indptr.size - 1
        self.rows += n_rows
        self._width = max(self._width, width)
        n_cells = n_rows * self._width
        must_stay_compressed = self._sparse is True or n_cells == 0
        if must_stay_compressed or _dense_takes_much_more(n_cells, values.size, n_rows):
            sizes = np.diff(indptr)
            buffers = self._buffers_to_extend(0)  # 0 columns stand for compressed rows
            for buffer, array in zip(buffers, (values, indices, sizes), strict=True):
                buffer += array.data  # appends the bytes in place
            return

        # The buffer gets room for the new rows, filled with zeros, and they are written into it.
        buffer = self._buffers_to_extend(self._width)[0]
        buffer += bytes(4 * n_cells)  # a float32 has 4 bytes
        all_values = np.frombuffer(buffer, np.float32)
        new_rows = all_values[-n_cells:].reshape(n_rows, self._width)
        _write_rows(indptr, indices, values, new_rows)

    def _buffers_to_extend(self, n_columns: int) -> Any:
        """Return the three byte buffers of the last part if its rows have `n_columns` columns;
        otherwise those of a new, empty part.
        """
        # `self._parts` has the number of columns and the buffers of each part.
        can_extend_last = bool(self._parts) and self._parts[-1][0] == n_columns
        if not can_extend_last:
            empty_buffers = (bytearray(), bytearray(), bytearray())
            self._parts.append((n_columns, empty_buffers))
        _n_columns, buffers = self._parts[-1]
        return buffers

    def append_matrix(self, X: Any) -> None:
        """Append the rows of a dense or CSR matrix to the store as a part of its own, without
        copying them.
        """
        n_rows, n_columns = X.shape
        self.rows += n_rows
        self._width = max(self._width, n_columns)
        self._parts.append((_IS_MATRIX, X))

    def finished(self) -> Any:
        """Return all rows as one matrix: dense float32 in C order, or SciPy CSR.

        The store gives its memory away and must not be used afterwards.
        """
        parts = [self._part_as_matrix(*part) for part in self._parts]
        self._parts.clear()
        if self._is_sparse(parts):
            return self._join_compressed(parts)
        if len(parts) == 1 and _is_dense_of_width(parts[0], self._width):
            return parts[0]

        X = np.zeros((self.rows, self._width), np.float32)
        end = self.rows
        while parts:  # from the end, so that memory is free again while the others are copied
            part = parts.pop()
            n_rows, n_columns = part.shape
            start = end - n_rows
            rows = X[start:end]
            if isinstance(part, np.ndarray):
                rows[:, :n_columns] = part
            else:
                _write_rows(part.indptr, part.indices, part.data, rows)
            end = start
        return X

    def _is_sparse(self, parts: list[Any]) -> bool:
        """Return whether the finished matrix of these parts is to be CSR instead of dense."""
        if self._sparse != "auto":
            return bool(self._sparse)
        n_cells = self.rows * self._width
        n_stored = 0  # entries that CSR would have to keep
        for part in parts:
            entries = part if isinstance(part, np.ndarray) else part.data
            n_stored += int(np.count_nonzero(entries))
        is_large = 4 * n_cells > _DENSE_ALWAYS_FINE
        return is_large and _dense_takes_much_more(n_cells, n_stored, self.rows)

    def _part_as_matrix(self, n_columns: int, content: Any) -> Any:
        """Return a part of the store as a matrix, dense or CSR, without copying its values.

        Args:
            n_columns: number of columns of dense rows; 0 for compressed rows, `_IS_MATRIX` for a
                matrix.
            content: the matrix, or three buffers of bytes.
        """
        if n_columns == _IS_MATRIX:
            return content
        first_buffer, second_buffer, third_buffer = content
        values = np.frombuffer(first_buffer, np.float32)
        if n_columns > 0:
            return values.reshape(-1, n_columns)
        from scipy.sparse import csr_matrix

        indices = np.frombuffer(second_buffer, np.int32)
        sizes = np.frombuffer(third_buffer, np.int64)
        arrays = values, indices, offsets_from_sizes(sizes)
        return csr_matrix(arrays, (sizes.size, self._width))

    def _join_compressed(self, parts: list[Any]) -> Any:
        """Return the rows of all parts, dense or CSR, as one CSR matrix."""
        from scipy.sparse import csr_matrix, vstack

        compressed_parts = []
        for part in parts:
            compressed: Any = csr_matrix(part)
            n_rows = compressed.shape[0]
            compressed.resize(n_rows, self._width)  # in place
            if self._sparse == "auto":  # a stored zero says nothing that an absent one does not
                compressed.eliminate_zeros()
            compressed_parts.append(compressed)
        if len(compressed_parts) == 1:
            return compressed_parts[0]
        return vstack(compressed_parts, format="csr")


def _is_dense_of_width(matrix: Any, width: int) -> bool:
    """Return whether a matrix is a dense array of so many columns."""
    return isinstance(matrix, np.ndarray) and matrix.shape[1] == width


def _write_rows(indptr: Array, indices: Array, values: Array, dense_rows: Array) -> None:
    """Write compressed rows into a dense matrix of zeros, keeping the sign of -0 unlike SciPy."""
    from tautrank.data._letor_kernel import scatter_rows

    scatter_rows(indptr, indices, values, dense_rows)


def _dense_takes_much_more(n_cells: int, n_stored: int, n_rows: int) -> bool:
    """Return whether dense rows take over eight times the memory of compressed ones."""
    dense_bytes = 4 * n_cells
    compressed_bytes = 8 * (n_stored + n_rows)
    return dense_bytes > _DENSE_AT_MOST * compressed_bytes
