"""Make lists longer with irrelevant documents of other queries."""

from __future__ import annotations

import dataclasses

import numpy as np

from tautrank.arguments import real
from tautrank.data import RankingData
from tautrank.data.grouping import offsets_from_sizes
from tautrank.errors import DataError
from tautrank.simulate.arguments import checked_seed, ranking_data


def add_negatives(data: RankingData, share: float, *, seed: int = 0) -> RankingData:
    """Append documents of other queries to every list, with label 0.

    Each list ``(x, y)`` becomes ``(x + x', y + 0)``. Every document of ``x'`` is drawn in two steps, as the paper
    writes it: a query other than this one, all equally likely, then one of its documents, all equally likely.

    What the paper leaves open: draws are independent, so a document may be drawn twice; a list of ``m`` documents
    gets ``share * m`` more, rounded up or down at random so that the mean is exact on lists of any length.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 5.4, Figures 3a and 3b.

    Args:
        data: the data; it is not changed.
        share: number of documents to add, as a share of the list; 0.4 makes lists 40% longer, 2 three times as long.
        seed: the same seed gives the same documents.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0], [4.0]], [0, 2, 1, 1], group=[2, 2])
    >>> longer = add_negatives(data, 0.5)
    >>> longer.X.ravel().tolist(), longer.labels.tolist(), longer.offsets.tolist()
    ([1.0, 2.0, 3.0, 3.0, 4.0, 1.0], [0.0, 2.0, 0.0, 1.0, 1.0, 0.0], [0, 3, 6])
    """
    ranking_data(data)
    rate = real("share", share)
    rng = np.random.default_rng(checked_seed(seed))
    sizes = data.sizes
    added = np.floor(rate * sizes + rng.random(sizes.size)).astype(np.int64)
    total = int(added.sum())
    filled = np.flatnonzero(sizes)
    if total and filled.size < 2:
        raise DataError("data: found 1 query with documents; expected at least 2, since negatives come from others")

    receiver = np.repeat(np.arange(sizes.size), added)
    # One of the other queries: draw among one fewer, and step over the receiver.
    donor = rng.integers(0, max(1, filled.size - 1), total)
    donor += donor >= np.searchsorted(filled, receiver)
    donor = filled[donor] if total else donor
    negatives = data.offsets[donor] + rng.integers(0, np.maximum(1, sizes[donor]))

    offsets = offsets_from_sizes(sizes + added)
    rows = np.insert(np.arange(data.n_documents), np.repeat(data.offsets[1:], added), negatives)
    is_added = np.insert(np.zeros(data.n_documents, bool), np.repeat(data.offsets[1:], added), True)
    labels = np.where(is_added, np.float32(0), data.labels[rows])
    return dataclasses.replace(data, X=data.X[rows], labels=labels, offsets=offsets, source_rows=None)
