"""The documents of a training, divided among the workers of a cluster."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tautrank.arrays import I64
from tautrank.data import RankingData, StreamedRows


def data_shares(data: RankingData, n_shares: int) -> list[Any]:
    """Divide data into consecutive shares of whole queries with about equally many documents each.

    Data that stays in files is divided at the ends of files, if there are enough files.

    Returns:
        The data of each share, in order; None for a share without queries.
    """
    # The first query of each share, and the number of all queries at the end.
    query_bounds = _balanced_query_bounds(data, n_shares)
    has_empty_share = bool((np.diff(query_bounds) <= 0).any())
    if has_empty_share:
        # Files or queries have very different lengths: share out the queries instead.
        query_bounds = np.linspace(0, data.n_queries, n_shares + 1).astype(np.int64)

    shares: list[Any] = []
    for first_query, end_query in pairwise(query_bounds.tolist()):
        if first_query < end_query:
            share = data.subset(range(first_query, end_query))
        else:
            share = None
        shares.append(share)
    return shares


def _balanced_query_bounds(data: RankingData, n_shares: int) -> I64:
    """Return the number of the first query of each share of the data, and the number of all queries
    at the end.

    Each bound is the place nearest to an equal share of the documents where the data may be cut:
    the end of a file if there are at least as many files as shares, else the end of a query. Two
    bounds are equal where both are nearest to the same place.
    """
    # A cut is given by the number of documents before it. `offsets` holds the number of documents
    # before each query, and that of all at the end: without the first 0, it has the cuts after each
    # query.
    documents_before_cuts = data.offsets[1:]
    if isinstance(data.X, StreamedRows) and len(data.X.pieces) >= n_shares:
        # The rows of a file are one piece: cuts are at the ends of files instead.
        rows_per_file = []
        for _path, first_row, end_row in data.X.pieces:
            rows_per_file.append(end_row - first_row)
        documents_before_cuts = np.cumsum(rows_per_file)

    chosen_cuts = []
    for share in range(1, n_shares):
        documents_wanted = data.n_documents * share / n_shares
        distances = np.abs(documents_before_cuts - documents_wanted)
        chosen_cuts.append(documents_before_cuts[np.argmin(distances)])

    # From a number of documents back to the query that begins there.
    first_queries = np.searchsorted(data.offsets, chosen_cuts)
    return np.array([0, *first_queries, data.n_queries])


def placed_after(share: RankingData, n_queries: int) -> RankingData:
    """Return a share of the data with empty queries put before it, one for each query of the shares
    before.

    Its own queries then have the numbers that they have in the whole data, by which random numbers
    are keyed.

    Args:
        share: some consecutive queries of the data.
        n_queries: number of queries before them.
    """
    # Offsets say where each query's documents begin: an empty query begins and ends at 0.
    offsets_of_empty = np.zeros(n_queries, np.int64)
    qids_of_empty = np.zeros(n_queries, share.qids.dtype)
    offsets = np.concatenate((offsets_of_empty, share.offsets))
    qids = np.concatenate((qids_of_empty, share.qids))
    return replace(share, offsets=offsets, qids=qids)
