"""Clicks of simulated users: the cascade model, and the position-based model with known
propensities.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import real, whole
from tautrank.arrays import F64, I64, Bools, check_each, check_finite_scores, query_of, ranks_in
from tautrank.data import RankingData
from tautrank.data.arrays import offsets_from_sizes
from tautrank.data.ranking_data import checked_data
from tautrank.metrics.ordering import query_maxima
from tautrank.simulate.perturbations import checked_seed, probabilities_by_label

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

    For each impression a list is shuffled, and a user reads it from the top and clicks a document
    of label ``y`` with probability ``probabilities[y]``. The first click ends the impression: it
    holds the documents read so far, in the order they were read, with label 1 for the clicked one
    (the last) and 0 for the others. Each becomes a query of its own: impression 3 of query ``q7``
    has the id ``q7.3``.

    What the paper leaves open: a user who reaches the end without a click leaves no list "up to the
    first click", and such an impression would have no relevant document, so it is dropped. An
    impression whose first document is clicked has one document, and stays. With one seed, the first
    impressions are the same for any number of them.

    The paper's noise is the click probability of label 0: .05, .1, .15, ...

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, appendix E, Figure 4;
    Craswell, Zoeter, Taylor and Ramsey, *An Experimental Comparison of Click Position-Bias Models*,
    WSDM 2008.

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
    count, chance, query, seed = _checked(data, impressions, probabilities, seed)
    seen = [
        _impression(data, query, chance, keep_unclicked, (seed, number)) for number in range(count)
    ]
    return _impressions(data, query, seen, keep_empty=False)[0]


def simulate_position_clicks(
    data: RankingData,
    scores: ArrayLike,
    impressions: int = 10,
    *,
    severity: float = 1.0,
    probabilities: Sequence[float] = CLICK_PROBABILITIES,
    merged: bool = False,
    seed: int = 0,
) -> tuple[RankingData, F64]:
    """Show lists in the order of a ranker to users who look less often at lower places; return
    clicks and propensities.

    The position-based model: a user looks at the document at rank ``r`` with probability
    ``(1/r)^severity``, independently of all others, and clicks a document of label ``y`` that is
    looked at with probability ``probabilities[y]``. Each impression becomes a query of its own: the
    whole list in the order in which it was shown, with label 1 for clicked documents and 0 for all
    others, also where nothing was clicked; impression 3 of query ``q7`` has the id ``q7.3``. With
    one seed, the first impressions are the same for any number of them.

    All users see a list in the same order, so ``merged=True`` can put its impressions together: one
    list per query, whose labels ``c`` are the shares of users who clicked. With propensities the
    loss of ``listnet`` is linear in the label, and that of ``xendcg`` in ``2^label``: with the
    labels ``c``, and ``log2(1 + c)``, they are the mean of the losses of all impressions.

    Joachims, Swaminathan and Schnabel, *Unbiased Learning-to-Rank with Biased Feedback*, WSDM 2017,
    sec. 6.1.

    Args:
        data: the data, with labels 0, 1, 2, ...; it is not changed.
        scores: of the ranker whose lists users saw, one per document; equal scores keep their
            order.
        impressions: number of users who see each list.
        severity: how fast attention falls with the rank; 0 is no bias.
        probabilities: click probabilities of the labels 0, 1, 2, ... for documents that are looked
            at.
        merged: one list per query instead of one per impression.
        seed: the same seed gives the same clicks.

    Returns:
        the impressions, and the probability that a user looked at each of their documents, for
        `Ranker.fit(propensities=)`.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [4, 4, 0], qid=["q7"] * 3)
    >>> clicks, propensities = simulate_position_clicks(data, [0.1, 0.3, 0.2], impressions=2, seed=1)
    >>> for qid, x, label, p in zip(clicks.qid_of_document, clicks.X[:, 0], clicks.labels, propensities.round(3)):
    ...     print(qid, x, label, p)
    q7.1 2.0 1.0 1.0
    q7.1 3.0 0.0 0.5
    q7.1 1.0 1.0 0.333
    q7.2 2.0 1.0 1.0
    q7.2 3.0 0.0 0.5
    q7.2 1.0 0.0 0.333
    """
    count, chance, query, seed = _checked(data, impressions, probabilities, seed)
    fall = real("severity", severity)
    order = np.lexsort((-check_finite_scores(scores, data.offsets), query))
    looked_at = ranks_in(data.offsets).astype(np.float64) ** -fall
    draws = (np.random.default_rng((seed, number)).random(query.size) for number in range(count))
    clicks = (draw < looked_at * chance[order] for draw in draws)
    if merged:
        shares = (sum(clicks, np.zeros(query.size)) / count).astype(np.float32)
        return data.with_rows(order, data.offsets, data.qids, shares), looked_at
    seen, places = _impressions(
        data, query, [(order, clicked) for clicked in clicks], keep_empty=True
    )
    return seen, np.tile(looked_at, count)[places]


def _checked(
    data: RankingData, impressions: int, probabilities: Sequence[float], seed: int
) -> tuple[int, F64, I64, int]:
    """Return the number of impressions, each document's probability of a click and query, and the
    seed.
    """
    checked_data("data", data)
    count = whole("impressions", impressions, 1)
    table = probabilities_by_label("probabilities", probabilities)
    has_chance = (data.labels == np.floor(data.labels)) & (data.labels < table.size)
    expected = f"a whole number from 0 to {table.size - 1}, one with a click probability"
    check_each("labels", data.labels, has_chance, expected, data.offsets)
    query = query_of(data.offsets)
    return count, table[data.labels.astype(np.int64)], query, checked_seed(seed)


def _impressions(
    data: RankingData, query: I64, seen: Sequence[tuple[I64, Bools]], keep_empty: bool
) -> tuple[RankingData, I64]:
    """Return impressions as queries, those of a list side by side, and the place that each document
    had in `seen`.

    Args:
        data: the lists.
        query: the query of each document.
        seen: the rows of the documents read in each impression of all lists, and whether they were
            clicked.
        keep_empty: keep impressions without documents.
    """
    count = len(seen)
    rows, clicked = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    of_list = query[rows] * count + np.repeat(np.arange(count), [read.size for read, _ in seen])
    # The sort is stable, so each impression stays in the order it was read in.
    order = np.argsort(of_list, kind="stable")
    sizes = np.bincount(of_list, minlength=data.n_queries * count)
    lists = np.flatnonzero((sizes > 0) | keep_empty)
    names = zip(data.qids[lists // count].tolist(), (lists % count + 1).tolist(), strict=True)
    qids = np.array([f"{qid}.{number}" for qid, number in names], str)
    labels = clicked[order].astype(np.float32)
    return data.with_rows(rows[order], offsets_from_sizes(sizes[lists]), qids, labels), order


def _impression(
    data: RankingData, query: I64, chance: F64, keep_unclicked: bool, key: tuple[int, int]
) -> tuple[I64, Bools]:
    """Simulate one impression of every list: return the rows of the documents read, list by list,
    and the clicks.

    Whether a document would be clicked does not depend on its place, so the coins can be thrown for
    all of them; the first click is the clicked document that comes first in the shuffled order, and
    only what was read up to there has to be sorted.
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
    return rows, clicked[rows]
