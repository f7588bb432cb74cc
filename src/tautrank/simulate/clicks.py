"""Clicks of simulated users who read a shuffled list from the top: the cascade model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tautrank.arguments import whole
from tautrank.arrays import F32, F64, I64, check_each
from tautrank.data import RankingData
from tautrank.data.grouping import offsets_from_sizes
from tautrank.metrics.ordering import query_maxima
from tautrank.simulate.arguments import checked_seed, probabilities_by_label, ranking_data

# Click probabilities of the labels 0 to 4 that the noise starts from: Bruch 2020, appendix E.
CLICK_PROBABILITIES = (0.05, 0.3, 0.5, 0.7, 0.95)


def simulate_clicks(
    data: RankingData,
    impressions: int = 10,
    *,
    probabilities: Sequence[float] = CLICK_PROBABILITIES,
    keep_unclicked: bool = False,
    seed: int = 0,
) -> RankingData:
    """Replace judged lists by impressions: what users saw up to their first click.

    For each impression a list is shuffled, and a user reads it from the top and clicks a document of label ``y`` with
    probability ``probabilities[y]``. The first click ends the impression: it holds the documents read so far, in the
    order they were read, with label 1 for the clicked one (the last) and 0 for the others. Each becomes a query of its
    own: impression 3 of query ``q7`` has the id ``q7.3``.

    What the paper leaves open: a user who reaches the end without a click leaves no list "up to the first click", and
    such an impression would have no relevant document, so it is dropped. An impression whose first document is
    clicked has one document, and stays. With one seed, the first impressions are the same for any number of them.

    The paper's noise is the click probability of label 0: .05, .1, .15, ...

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, appendix E, Figure 4; Craswell, Zoeter,
    Taylor and Ramsey, *An Experimental Comparison of Click Position-Bias Models*, WSDM 2008.

    Args:
        data: the data, with labels 0, 1, 2, ...; it is not changed.
        impressions: number of users who see each list.
        probabilities: click probabilities of the labels 0, 1, 2, ... for documents that are read.
        keep_unclicked: keep impressions without a click, the whole list with labels 0.
        seed: the same seed gives the same clicks.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 4, 0], qid=["q7"] * 3)
    >>> clicks = simulate_clicks(data, impressions=2, probabilities=(0, 1, 1, 1, 1))
    >>> for qid, x, label in zip(clicks.qid_of_document, clicks.X[:, 0], clicks.labels):
    ...     print(qid, x, label)
    q7.1 3.0 0.0
    q7.1 2.0 1.0
    q7.2 2.0 1.0
    """
    ranking_data(data)
    count = whole("impressions", impressions, 1)
    table = probabilities_by_label("probabilities", probabilities)
    has_chance = (data.labels == np.floor(data.labels)) & (data.labels < table.size)
    expected = f"a whole number from 0 to {table.size - 1}, one with a click probability"
    check_each("labels", data.labels, has_chance, expected, data.offsets)
    chance = table[data.labels.astype(np.int64)]
    seed = checked_seed(seed)

    query = np.repeat(np.arange(data.n_queries), data.sizes)
    seen = [_impression(data, query, chance, keep_unclicked, (seed, number)) for number in range(count)]
    rows, labels = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    number = np.repeat(np.arange(count), [read.size for read, _ in seen])
    # The impressions of a query side by side; the sort is stable, so each stays in the order it was read in.
    of_list = query[rows] * count + number
    order = np.argsort(of_list, kind="stable")
    lists, sizes = np.unique(of_list, return_counts=True)
    offsets = offsets_from_sizes(sizes)
    names = zip(data.qids[lists // count].tolist(), (lists % count + 1).tolist(), strict=True)
    qids = np.array([f"{qid}.{number}" for qid, number in names], str)
    return RankingData(data.X[rows[order]], labels[order], offsets, qids, data.feature_names)


def _impression(
    data: RankingData, query: I64, chance: F64, keep_unclicked: bool, key: tuple[int, int]
) -> tuple[I64, F32]:
    """Simulate one impression of every list: return the rows of the documents read, list by list, and their labels.

    Whether a document would be clicked does not depend on its place, so the coins can be thrown for all of them; the
    first click is the clicked document that comes first in the shuffled order, and only what was read up to there
    has to be sorted.
    """
    rng = np.random.default_rng(key)
    place = rng.random(query.size)
    clicked = rng.random(query.size) < chance
    # The lowest place of a click, infinity without one.
    end = -query_maxima(np.where(clicked, -place, -np.inf), data.offsets)
    if not keep_unclicked:
        end[np.isinf(end)] = -1
    read = np.flatnonzero(place <= end[query])
    rows = read[np.lexsort((place[read], query[read]))]
    return rows, clicked[rows].astype(np.float32)
