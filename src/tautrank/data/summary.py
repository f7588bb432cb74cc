"""Summary statistics of a data set, to check before training on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tautrank.arrays import Array, query_of
from tautrank.data.ranking_data import RankingData
from tautrank.notebooks import html_table

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
        result["list_length"] = {"min": shortest, "median": median, "mean": mean, "max": longest}
        result["label_range"] = list(self.label_range)
        return result

    def rows(self) -> list[tuple[str, str]]:
        """Return (name, value) pairs as readable text."""
        shortest, median, mean, longest = self.list_length
        low, high = self.label_range
        n = max(1, self.documents)
        counts = [
            f"{label:g}: {count:,} ({count / n:.1%})"
            for label, count in (self.labels or {}).items()
        ]
        labels = f"{low:g} to {high:g}" if self.labels is None else "  ".join(counts)
        contradicting = (
            f" ({self.contradicting_rows:,} with another label)" if self.contradicting_rows else ""
        )
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

    def _repr_html_(self) -> str:
        return html_table((), self.rows())

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def summarise(data: RankingData) -> DataSummary:
    """Count what :class:`DataSummary` lists, by passes over the features and a sort of hashes of
    their rows.
    """
    sizes = data.sizes
    lengths = sizes if sizes.size else np.zeros(1, np.int64)
    values, counts = np.unique(data.labels, return_counts=True)
    filled = sizes > 0
    highest, lowest = np.zeros((2, sizes.size))
    for extreme, of in ((highest, np.maximum), (lowest, np.minimum)):
        extreme[filled] = of.reduceat(data.labels, data.offsets[:-1][filled])
    duplicates, contradicting = _duplicates(data)
    stored = data.X if isinstance(data.X, np.ndarray) else data.X.data
    return DataSummary(
        queries=data.n_queries,
        documents=data.n_documents,
        features=data.n_features,
        labels=None
        if values.size > _MOST_LABELS_LISTED
        else dict(zip(values.tolist(), counts.tolist(), strict=True)),
        label_range=(float(values[0]), float(values[-1])) if values.size else (0.0, 0.0),
        list_length=(
            int(lengths.min()),
            float(np.median(lengths)),
            float(lengths.mean()),
            int(lengths.max()),
        ),
        empty_queries=int(np.count_nonzero(highest == 0)),
        constant_queries=int(np.count_nonzero(highest == lowest)),
        duplicate_rows=duplicates,
        contradicting_rows=contradicting,
        missing_values=sum(int(np.isnan(part).sum()) for part in _pieces(stored)),
        constant_features=_constant_features(data.X),
        sparse=not isinstance(data.X, np.ndarray),
        density=int(np.count_nonzero(stored)) / max(1, data.n_documents * data.n_features),
    )


def _pieces(X: Array) -> list[Array]:
    """Cut an array into ranges of rows of about four million entries, so that temporaries stay
    small beside it.
    """
    return np.array_split(X, X.size // 2**22 + 1)


def _constant_features(X: Any) -> int:
    if X.shape[0] == 0:
        return int(X.shape[1])
    if isinstance(X, np.ndarray):
        same = (X.max(axis=0) == X.min(axis=0)) | np.isnan(np.fmax.reduce(X, axis=0))
    else:
        same = X.max(axis=0).toarray() == X.min(axis=0).toarray()
    return int(np.count_nonzero(same))


def _row_hashes(X: Any) -> npt.NDArray[np.uint64]:
    """Return two 64-bit hashes per row from the bits of its entries, so that other rows have other
    hashes.
    """
    weights = np.random.default_rng(0).integers(
        2**64, size=(X.shape[1], 2), dtype=np.uint64
    ) | np.uint64(1)
    if isinstance(X, np.ndarray):
        return np.concatenate([_bits(part) @ weights for part in _pieces(X)])
    return np.asarray(type(X)((_bits(X.data), X.indices, X.indptr), X.shape) @ weights)


def _bits(values: Array) -> npt.NDArray[np.uint64]:
    positive = values + np.float32(0)  # makes -0 and 0 the same bits
    return positive.view(np.uint32 if values.itemsize == 4 else np.uint64).astype(np.uint64)


def _duplicates(data: RankingData) -> tuple[int, int]:
    """Count documents equal to an earlier one of their query, and those among them with another
    label.
    """
    if data.n_documents == 0 or data.n_features == 0:
        return 0, 0
    keys = np.column_stack([query_of(data.offsets).astype(np.uint64), _row_hashes(data.X)])
    order = np.lexsort(keys.T)  # stable: earlier documents come first among equals
    same = np.append(False, (keys[order[1:]] == keys[order[:-1]]).all(axis=1))
    first = order[np.maximum.accumulate(np.where(same, 0, np.arange(order.size)))]
    return int(same.sum()), int((same & (data.labels[first] != data.labels[order])).sum())
