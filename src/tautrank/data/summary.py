"""Summary statistics of a data set, to check before training on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tautrank.arrays import F32, I64, Array, query_of
from tautrank.tables import Table

_MOST_LABELS_LISTED = 20
_ENTRIES_PER_PIECE = 2**22


@dataclass(frozen=True)
class DataSummary:
    """Counts that describe a data set; made by :meth:`RankingData.describe`.

    Attributes:
        queries, documents, features: sizes.
        labels: documents of each label, by label; at most 20 distinct labels are listed, else None.
        label_range: smallest and largest label.
        list_length: shortest, median, mean and longest number of documents of a query.
        empty_queries: queries with no label above 0; most metrics cannot judge them.
        constant_queries: queries whose labels are all equal (empty ones included): no order is
            better than another.
        duplicate_rows: documents whose features equal those of an earlier document of the same
            query.
        contradicting_rows: duplicates whose label differs from that of the first document with
            those features.
        missing_values: NaN entries of the features.
        constant_features: columns with a single value.
        sparse: whether the features are stored as CSR.
        density: share of entries that are not 0.
    """

    queries: int
    documents: int
    features: int
    labels: dict[float, int] | None
    label_range: tuple[float, float]
    list_length: tuple[int, float, float, int]
    empty_queries: int
    constant_queries: int
    duplicate_rows: int
    contradicting_rows: int
    missing_values: int
    constant_features: int
    sparse: bool
    density: float

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain Python values, ready for JSON."""
        result = asdict(self)
        if self.labels is not None:
            result["labels"] = {f"{label:g}": count for label, count in self.labels.items()}
        shortest, median, mean, longest = self.list_length
        result["list_length"] = {
            "min": shortest,
            "median": median,
            "mean": mean,
            "max": longest,
        }
        result["label_range"] = list(self.label_range)
        return result

    def rows(self) -> list[tuple[str, str]]:
        """Return (name, value) pairs as readable text."""
        shortest, median, mean, longest = self.list_length
        sparse = " (sparse)" if self.sparse else ""
        contradicting = ""
        if self.contradicting_rows:
            contradicting = f" ({self.contradicting_rows:,} with another label)"
        return [
            ("queries", f"{self.queries:,}"),
            ("documents", f"{self.documents:,}"),
            ("features", f"{self.features:,}{sparse}"),
            ("labels", self._labels_text()),
            ("list length", f"{shortest:,} to {longest:,}, median {median:g}, mean {mean:.1f}"),
            ("empty queries", f"{self.empty_queries:,} (no label > 0)"),
            ("constant queries", f"{self.constant_queries:,} (all labels equal)"),
            ("duplicate rows", f"{self.duplicate_rows:,}{contradicting}"),
            ("missing values", f"{self.missing_values:,}"),
            ("constant features", f"{self.constant_features:,}"),
            ("density", f"{self.density:.1%}"),
        ]

    def _labels_text(self) -> str:
        """Return the labels with their shares, or their range where there are many."""
        if self.labels is None:
            lowest, highest = self.label_range
            return f"{lowest:g} to {highest:g}"
        texts = []
        for label, count in self.labels.items():
            share = count / max(1, self.documents)
            texts.append(f"{label:g}: {count:,} ({share:.1%})")
        return "  ".join(texts)

    def _repr_html_(self) -> str:
        return self._table().to_html(titles=False)

    def __str__(self) -> str:
        return self._table().to_text(titles=False)

    def _table(self) -> Table:
        return Table.of(["", ""], self.rows())


def summarise(X: Any, labels: F32, offsets: I64) -> DataSummary:
    """Return the summary statistics of a data set: sizes, labels, list lengths, and irregularities
    such as duplicate rows and constant features.

    Args:
        X: the features, dense or CSR.
        labels: one per document.
        offsets: ``n_queries + 1`` positions: where the documents of each query begin.
    """
    highest_labels, lowest_labels = _extreme_labels(labels, offsets)
    duplicate_rows, contradicting_rows = _duplicates(X, labels, offsets)
    is_dense = isinstance(X, np.ndarray)
    stored = X if is_dense else X.data
    # In pieces, so that temporary arrays stay small.
    n_missing = 0
    for piece in _split_in_pieces(stored):
        n_missing += int(np.isnan(piece).sum())
    n_documents, n_features = X.shape
    n_entries = max(1, n_documents * n_features)
    return DataSummary(
        queries=offsets.size - 1,
        documents=n_documents,
        features=n_features,
        labels=_label_counts(labels),
        label_range=_label_range(labels),
        list_length=_list_lengths(offsets),
        empty_queries=int(np.count_nonzero(highest_labels == 0)),
        constant_queries=int(np.count_nonzero(highest_labels == lowest_labels)),
        duplicate_rows=duplicate_rows,
        contradicting_rows=contradicting_rows,
        missing_values=n_missing,
        constant_features=_constant_features(X),
        sparse=not is_dense,
        density=int(np.count_nonzero(stored)) / n_entries,
    )


def _label_range(labels: F32) -> tuple[float, float]:
    """Return the smallest and the largest label, 0 where there are none."""
    if not labels.size:
        return 0.0, 0.0
    return float(labels.min()), float(labels.max())


def _label_counts(labels: F32) -> dict[float, int] | None:
    """Return the number of documents of each label; None if there are too many labels to list."""
    values, counts = np.unique(labels, return_counts=True)
    if values.size > _MOST_LABELS_LISTED:
        return None
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _list_lengths(offsets: I64) -> tuple[int, float, float, int]:
    """Return the shortest, median, mean and longest number of documents of a query."""
    lengths = np.diff(offsets)
    if not lengths.size:
        return 0, 0.0, 0.0, 0
    median, mean = float(np.median(lengths)), float(lengths.mean())
    return int(lengths.min()), median, mean, int(lengths.max())


def _extreme_labels(labels: F32, offsets: I64) -> tuple[Array, Array]:
    """Return the highest and the lowest label of each query, 0 where a query has no documents.

    Args:
        labels: one per document, the documents of a query adjacent.
        offsets: where the documents of each query begin, and the number of documents at the end.
    """
    n_queries = offsets.size - 1
    has_documents = np.diff(offsets) > 0
    # `reduceat` cannot handle a query without documents: these are left out.
    starts = offsets[:-1][has_documents]
    highest = np.zeros(n_queries)
    lowest = np.zeros(n_queries)
    highest[has_documents] = np.maximum.reduceat(labels, starts)
    lowest[has_documents] = np.minimum.reduceat(labels, starts)
    return highest, lowest


def _split_in_pieces(X: Array) -> list[Array]:
    """Split an array by rows into pieces of about four million entries, so that temporary arrays
    stay small compared with it.
    """
    n_pieces = X.size // _ENTRIES_PER_PIECE + 1
    return np.array_split(X, n_pieces)


def _constant_features(X: Any) -> int:
    """Return the number of columns that have a single value, or only missing ones."""
    n_documents, n_features = X.shape
    if n_documents == 0:
        return int(n_features)
    highest = X.max(axis=0)
    lowest = X.min(axis=0)
    if isinstance(X, np.ndarray):
        # fmax leaves NaN out: it is NaN only where a column has nothing else.
        is_all_missing = np.isnan(np.fmax.reduce(X, axis=0))
        is_constant = (highest == lowest) | is_all_missing
    else:
        # Entries that CSR does not store count as 0 in both.
        is_constant = highest.toarray() == lowest.toarray()
    return int(np.count_nonzero(is_constant))


def _row_hashes(X: Any) -> npt.NDArray[np.uint64]:
    """Return two 64-bit hashes per row: equal rows have equal hashes, different rows almost surely
    different ones.

    A hash is a sum over the columns, modulo 2^64: the bits of an entry times a random odd weight.
    Zeros add nothing, so dense and CSR rows have the same hashes.
    """
    rng = np.random.default_rng(0)
    weights = rng.integers(2**64, size=(X.shape[1], 2), dtype=np.uint64)
    weights |= np.uint64(1)  # odd, so that no bit of an entry is lost
    if isinstance(X, np.ndarray):
        hashes_of_pieces = [_bits(piece) @ weights for piece in _split_in_pieces(X)]
        return np.concatenate(hashes_of_pieces)
    csr_matrix = type(X)  # rows of another CSR matrix with the bits of the stored entries
    bits = csr_matrix((_bits(X.data), X.indices, X.indptr), X.shape)
    return np.asarray(bits @ weights)


def _bits(values: Array) -> npt.NDArray[np.uint64]:
    """Return the bit patterns of float32 or float64 numbers as whole numbers; -0 counts as 0."""
    without_negative_zeros = values + np.float32(0)  # -0 + 0 is 0; other numbers do not change
    integer_of_same_size = np.uint32 if values.itemsize == 4 else np.uint64
    return without_negative_zeros.view(integer_of_same_size).astype(np.uint64)


def _duplicates(X: Any, labels: F32, offsets: I64) -> tuple[int, int]:
    """Return two counts: documents with the same features as an earlier document of their query,
    and those of them whose label differs from that of the first such document.

    Rows are compared by query and hash: sorted by both, duplicates stand next to each other.
    """
    n_documents, n_features = X.shape
    if n_documents == 0 or n_features == 0:
        return 0, 0

    queries = query_of(offsets).astype(np.uint64)
    keys = np.column_stack([queries, _row_hashes(X)])
    # A key is the query and the two hashes of a row; `lexsort` wants them as rows.
    order = np.lexsort(keys.T)  # stable: earlier documents come first among equals
    sorted_keys = keys[order]
    equals_previous = (sorted_keys[1:] == sorted_keys[:-1]).all(axis=1)
    is_duplicate = np.append(False, equals_previous)

    # The running maximum carries the position of the first of equal rows to its duplicates.
    positions = np.arange(n_documents)
    # `order` makes documents with equal keys neighbours, so the first of them is the last position
    # so far at which something new began.
    own_position_if_first = np.where(is_duplicate, 0, positions)
    position_of_first = np.maximum.accumulate(own_position_if_first)
    first_document = order[position_of_first]
    has_other_label = labels[first_document] != labels[order]
    return int(is_duplicate.sum()), int((is_duplicate & has_other_label).sum())
