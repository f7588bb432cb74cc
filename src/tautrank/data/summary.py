"""Summary statistics of a data set, to check before training on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tautrank.arrays import I64, Bools
from tautrank.data.feature_store import row_ranges
from tautrank.data.ranking_data import RankingData

_MOST_LABELS_LISTED = 20


@dataclass(frozen=True)
class DataSummary:
    """Counts that describe a data set; made by :meth:`RankingData.describe`.

    Attributes:
        queries, documents, features: sizes.
        labels: documents of each label, by label; at most 20 distinct labels are listed, else None.
        label_range: smallest and largest label.
        list_length: shortest, median, mean and longest number of documents of a query.
        empty_queries: queries with no label above 0; most metrics cannot judge them.
        constant_queries: queries whose labels are all equal (empty ones included): no order is better than another.
        duplicate_rows: documents whose features equal those of an earlier document of the same query.
        contradicting_rows: duplicates whose label differs from that of the first document with those features.
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
        result["list_length"] = {"min": shortest, "median": median, "mean": mean, "max": longest}
        result["label_range"] = list(self.label_range)
        return result

    def rows(self) -> list[tuple[str, str]]:
        """Return (name, value) pairs as readable text."""
        shortest, median, mean, longest = self.list_length
        low, high = self.label_range
        if self.labels is None:
            labels = f"{low:g} to {high:g}"
        else:
            labels = "  ".join(
                f"{label:g}: {count:,} ({count / max(1, self.documents):.1%})" for label, count in self.labels.items()
            )
        contradicting = f" ({self.contradicting_rows:,} with another label)" if self.contradicting_rows else ""
        return [
            ("queries", f"{self.queries:,}"),
            ("documents", f"{self.documents:,}"),
            ("features", f"{self.features:,}" + (" (sparse)" if self.sparse else "")),
            ("labels", labels),
            ("list length", f"{shortest:,} to {longest:,}, median {median:g}, mean {mean:.1f}"),
            ("empty queries", f"{self.empty_queries:,} (no label > 0)"),
            ("constant queries", f"{self.constant_queries:,} (all labels equal)"),
            ("duplicate rows", f"{self.duplicate_rows:,}{contradicting}"),
            ("missing values", f"{self.missing_values:,}"),
            ("constant features", f"{self.constant_features:,}"),
            ("density", f"{self.density:.1%}"),
        ]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def summarise(data: RankingData) -> DataSummary:
    """Count what :class:`DataSummary` lists, in one pass over the features and a sort of their row hashes."""
    sizes = data.sizes
    values, counts = np.unique(data.labels, return_counts=True)
    filled = sizes > 0
    highest, lowest = np.zeros((2, sizes.size))
    if filled.any():
        for extreme, of in ((highest, np.maximum), (lowest, np.minimum)):
            extreme[filled] = of.reduceat(data.labels, data.offsets[:-1][filled])
    duplicates, contradicting = _duplicates(data)
    stored = data.X if isinstance(data.X, np.ndarray) else data.X.data
    parts = list(row_ranges(stored.shape[0], stored.size // max(1, stored.shape[0])))
    cells = max(1, data.n_documents * data.n_features)
    return DataSummary(
        queries=data.n_queries,
        documents=data.n_documents,
        features=data.n_features,
        labels=None if values.size > _MOST_LABELS_LISTED else dict(zip(values.tolist(), counts.tolist(), strict=True)),
        label_range=(float(values[0]), float(values[-1])) if values.size else (0.0, 0.0),
        list_length=(int(sizes.min()), float(np.median(sizes)), float(sizes.mean()), int(sizes.max()))
        if sizes.size
        else (0, 0.0, 0.0, 0),
        empty_queries=int(np.count_nonzero(highest == 0)),
        constant_queries=int(np.count_nonzero(highest == lowest)),
        duplicate_rows=duplicates,
        contradicting_rows=contradicting,
        missing_values=sum(int(np.isnan(stored[part]).sum()) for part in parts),
        constant_features=_constant_features(data.X),
        sparse=not isinstance(data.X, np.ndarray),
        density=sum(int(np.count_nonzero(stored[part])) for part in parts) / cells,
    )


def _constant_features(X: Any) -> int:
    if X.shape[0] == 0:
        return int(X.shape[1])
    if isinstance(X, np.ndarray):
        same = np.ones(X.shape[1], bool)
        for rows in row_ranges(*X.shape):
            same &= np.all((X[rows] == X[0]) | (np.isnan(X[rows]) & np.isnan(X[0])), axis=0)
        return int(same.sum())
    highest, lowest = (np.asarray(extreme.todense()).ravel() for extreme in (X.max(axis=0), X.min(axis=0)))
    return int(np.count_nonzero(highest == lowest))


def _row_hashes(X: Any) -> npt.NDArray[np.uint64]:
    """One 64-bit hash per row, from the bits of its entries: equal rows get equal hashes."""
    weights = np.random.default_rng(0).integers(1, 2**63, X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.zeros(X.shape[0], np.uint64)
    if isinstance(X, np.ndarray):
        for rows in row_ranges(*X.shape):
            bits = (X[rows] + np.float32(0)).view(np.uint32)  # adding 0 makes -0 and 0 the same bits
            hashes[rows] = (_mixed(bits) * weights).sum(axis=1, dtype=np.uint64)
        return hashes
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    keep = X.data != 0
    terms = (_mixed(X.data.view(np.uint32)) - _mixed(np.zeros(1, np.uint32))) * weights[X.indices]
    np.add.at(hashes, row[keep], terms[keep])
    return hashes


def _mixed(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    wide = bits.astype(np.uint64)
    return (wide ^ (wide << np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)


def _duplicates(data: RankingData) -> tuple[int, int]:
    """Count documents equal to an earlier one of their query, and those among them with another label."""
    if data.n_documents == 0 or data.n_features == 0:
        return 0, 0
    query = np.repeat(np.arange(data.n_queries), data.sizes)
    hashes = _row_hashes(data.X)
    order = np.lexsort((hashes, query))  # stable: earlier documents come first among equals
    same = (hashes[order[1:]] == hashes[order[:-1]]) & (query[order[1:]] == query[order[:-1]])
    head = np.maximum.accumulate(np.where(np.append(False, same), 0, np.arange(order.size)))
    later = np.flatnonzero(np.append(False, same))
    first, second = order[head[later]], order[later]
    equal = _rows_equal(data.X, first, second)  # a hash is a hint, the features decide
    other_label = data.labels[first] != data.labels[second]
    return int(equal.sum()), int((equal & other_label).sum())


def _rows_equal(X: Any, first: I64, second: I64) -> Bools:
    result = np.zeros(first.size, bool)
    for pairs in row_ranges(first.size, X.shape[1]):
        a, b = X[first[pairs]], X[second[pairs]]
        if isinstance(X, np.ndarray):
            result[pairs] = np.all((a == b) | (np.isnan(a) & np.isnan(b)), axis=1)
        else:
            result[pairs] = np.asarray((a != b).sum(axis=1)).ravel() == 0
    return result
