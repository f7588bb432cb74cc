"""Collect feature rows block by block into one dense or compressed-row matrix, without a second copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.arrays import F32, Array

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# `sparse="auto"` keeps a dense array unless it is both large and at least this many times the compressed size.
_DENSE_ALWAYS_FINE = 64 * 2**20
_DENSE_AT_MOST = 8
_GROWTH = 1.125

Sparse = bool | str


def prefers_sparse(rows: int, width: int, stored: int) -> bool:
    """Return whether compressed rows are the better store: dense rows take over 64 MiB and over 8 times as much."""
    dense = 4 * rows * width
    return dense > _DENSE_ALWAYS_FINE and dense > _DENSE_AT_MOST * (8 * stored + 8 * rows)


def row_ranges(rows: int, width: int) -> Iterator[slice]:
    """Cut a matrix into ranges of rows of about four million entries, so that temporaries stay small beside it.

    >>> list(row_ranges(5, 2**21))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, 2**22 // max(1, width))
    return (slice(start, start + step) for start in range(0, rows, step))


class _Growing:
    """A flat array that grows in place (`realloc`) by an eighth at a time, so that the peak stays near the end size."""

    def __init__(self, dtype: Any) -> None:
        self.array: Array = np.zeros(0, dtype)
        self.used = 0

    def reserve(self, more: int) -> None:
        """Make room for `more` elements after `used`; what is added is zero."""
        needed = self.used + more
        if needed > self.array.size:
            if not self.array.flags.owndata:  # loaded from the cache
                self.array = self.array.copy()
            self.array.resize(max(needed, int(self.array.size * _GROWTH)), refcheck=False)

    def append(self, values: Array) -> None:
        self.reserve(values.size)
        self.array[self.used : self.used + values.size] = values
        self.used += values.size

    def finished(self) -> Array:
        self.array.resize(self.used, refcheck=False)
        return self.array


class FeatureStore:
    """Collects rows given as compressed rows; dense until `sparse` or the data itself says otherwise.

    ``sparse=True`` collects compressed rows from the start, ``False`` never does, ``"auto"`` decides by
    :func:`prefers_sparse` on the whole data, so the result does not depend on how the text was cut into blocks.
    """

    def __init__(self, sparse: Sparse = "auto", width: int | None = None) -> None:
        self._auto = sparse == "auto"
        self.width = width or 0
        self._laid_width = self.width  # columns the dense buffer is laid out for; may run ahead of `width`
        self.rows = 0
        self._stored = 0
        self._compressed = sparse is True
        self._dense = _Growing(np.float32)
        self._values = _Growing(np.float32)
        self._indices = _Growing(np.int32)
        self._indptr = _Growing(np.int64)
        self._indptr.append(np.zeros(1, np.int64))

    def append(self, indptr: Array, indices: Array, values: Array, width: int) -> None:
        """Add ``len(indptr) - 1`` compressed rows."""
        nonzero = int(np.count_nonzero(values))
        if not self._compressed and self._becomes_sparse(indptr.size - 1, width, nonzero):
            dense = self._dense_matrix()
            self._compressed, self._dense, self.rows, self._stored = True, _Growing(np.float32), 0, 0
            self.append_matrix(dense)
        self.width = max(self.width, width)
        if self._compressed:
            self._append_compressed(indptr, indices, values)
        else:
            self._append_dense(indptr, indices, values)
        self.rows += indptr.size - 1
        self._stored += nonzero

    def append_matrix(self, X: Any) -> None:
        """Add the rows of a matrix, dense or CSR; a dense one that comes first is adopted as it is."""
        rows, width = X.shape
        if not isinstance(X, np.ndarray):
            self.append(X.indptr, X.indices, X.data, width)
            return
        stored = int(np.count_nonzero(X))
        adoptable = self.rows == 0 and self.width <= width and not self._compressed
        if adoptable and not self._becomes_sparse(rows, width, stored):
            self._dense.array, self._dense.used = X.reshape(-1), X.size
            self.width = self._laid_width = width
            self.rows, self._stored = rows, stored
            return
        from scipy.sparse import csr_matrix

        for part in row_ranges(rows, width):
            self.append_matrix(csr_matrix(X[part]))

    def _becomes_sparse(self, rows: int, width: int, stored: int) -> bool:
        """Return whether so many more rows make compressed rows the better store."""
        return self._auto and prefers_sparse(self.rows + rows, max(self.width, width), self._stored + stored)

    def _append_dense(self, indptr: Any, indices: Any, values: Any) -> None:
        from tautrank.data._letor_kernel import scatter_rows

        if self.width > self._laid_width:
            self._widen()
        added = (indptr.size - 1) * self._laid_width
        self._dense.reserve(added)
        scatter_rows(indptr, indices, values, self._dense.array[self._dense.used :], self._laid_width)
        self._dense.used += added

    def _widen(self) -> None:
        """Lay the dense rows out for more columns, inside the same array."""
        # Some columns to spare, so that a file whose width creeps up is re-laid a few times, not once per block.
        old, new = self._laid_width, max(self.width, int(self._laid_width * _GROWTH) if self.rows else 0)
        self._dense.reserve(self.rows * (new - old))
        flat, used = self._dense.array, self.rows * new
        rows, places = flat[: self.rows * old].reshape(self.rows, old), flat[:used].reshape(self.rows, new)
        for part in reversed([*row_ranges(self.rows, new)]):  # no row is moved to where one is still to be moved from
            places[part, :old] = rows[part].copy()
            places[part, old:] = 0
        flat[used:] = 0
        self._dense.used, self._laid_width = used, new

    def _append_compressed(self, indptr: Any, indices: Any, values: Any) -> None:
        if self._auto:  # a stored zero says nothing that an absent one does not
            keep = values != 0
            if not keep.all():
                kept = np.zeros(values.size + 1, np.int64)
                np.cumsum(keep, out=kept[1:])
                indptr, indices, values = kept[indptr], indices[keep], values[keep]
        self._indptr.append(indptr[1:].astype(np.int64) + self._values.used)
        self._values.append(values)
        self._indices.append(indices)

    def _dense_matrix(self) -> F32:
        matrix = self._dense.finished().reshape(self.rows, self._laid_width)
        return np.ascontiguousarray(matrix[:, : self.width])

    def finished(self) -> F32 | csr_matrix:
        """Return the matrix: float32, C order, or SciPy CSR; the store must not be used afterwards."""
        if not self._compressed:
            return self._dense_matrix()
        from scipy.sparse import csr_matrix

        parts = (self._values.finished(), self._indices.finished(), self._indptr.finished())
        matrix = csr_matrix(parts, shape=(self.rows, self.width))
        if self._auto and not prefers_sparse(self.rows, self.width, self._stored):
            return np.asarray(matrix.todense(order="C"))
        return matrix
