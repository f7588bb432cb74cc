"""The documents of a training, divided among the workers of a cluster."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tautrank.arrays import I64
from tautrank.data import RankingData


def data_shares(data: RankingData, n_shares: int) -> list[Any]:
    """Divide data into consecutive parts of whole queries: at the ends of files, if there are
    enough of them. A part without queries is None.

    Args:
        data: the data.
        n_shares: number of parts.
    """
    bounds = _nearest_bounds(data, n_shares)
    if (np.diff(bounds) <= 0).any():  # files or queries of very different lengths
        bounds = np.linspace(0, data.n_queries, n_shares + 1).astype(np.int64)
    shares: list[Any] = []
    for first, end in pairwise(bounds.tolist()):
        shares.append(data.subset(range(first, end)) if first < end else None)
    return shares


def _nearest_bounds(data: RankingData, n_shares: int) -> I64:
    """Return the first query of each part, and the number of queries at the end, such that parts
    have about as many documents; they may be equal.
    """
    pieces = getattr(data.X, "pieces", ())
    ends = data.offsets[1:]
    if len(pieces) >= n_shares:
        ends = np.cumsum([last - first for _, first, last in pieces])
    ends_of_shares = []
    for target in data.n_documents * np.arange(1, n_shares) / n_shares:
        ends_of_shares.append(ends[np.argmin(np.abs(ends - target))])
    first_queries = np.searchsorted(data.offsets, ends_of_shares)
    return np.array([0, *first_queries, data.n_queries])


def placed_after(share: RankingData, n_queries: int) -> RankingData:
    """Return a part with the queries before it as empty ones: its own then have the numbers that
    they have in the whole.

    Args:
        share: the part.
        n_queries: number of queries before it.
    """
    offsets = np.concatenate((np.zeros(n_queries, np.int64), share.offsets))
    qids = np.concatenate((np.zeros(n_queries, share.qids.dtype), share.qids))
    return replace(share, offsets=offsets, qids=qids)
