"""Clicks of simulated users: the cascade model, and the position-based model with known
propensities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import real, whole
from tautrank.arrays import F64, I64, Bools, check_each, check_finite_scores, query_of, ranks_in
from tautrank.data import RankingData
from tautrank.data.queries import offsets_from_sizes
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
    chances = _click_chances(data, probabilities)
    n_impressions = whole("impressions", impressions, 1)
    seed = checked_seed(seed)
    impressions_by_user = []
    for user in range(n_impressions):
        rng = np.random.default_rng((seed, user))
        impressions_by_user.append(_read_to_first_click(data, chances, rng, keep_unclicked))
    return _as_queries(data, impressions_by_user, keep_empty=False).data


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
    chances = _click_chances(data, probabilities)
    n_impressions = whole("impressions", impressions, 1)
    seed = checked_seed(seed)
    severity = real("severity", severity)

    # Rows in the order in which users see them: list by list, by falling scores.
    checked_scores = check_finite_scores(scores, data.offsets)
    shown_rows = np.lexsort((-checked_scores, query_of(data.offsets)))
    ranks = ranks_in(data.offsets).astype(np.float64)
    propensities = ranks**-severity
    chances_of_click = propensities * chances[shown_rows]

    n_clicks = np.zeros(shown_rows.size)
    impressions_by_user = []
    for user in range(n_impressions):
        rng = np.random.default_rng((seed, user))
        is_clicked = rng.random(shown_rows.size) < chances_of_click
        if merged:
            n_clicks += is_clicked
        else:
            impressions_by_user.append(_Impression(shown_rows, is_clicked))

    if merged:
        click_shares = (n_clicks / n_impressions).astype(np.float32)
        clicked_data = data.with_rows(shown_rows, data.offsets, data.qids, click_shares)
        return clicked_data, propensities
    queries = _as_queries(data, impressions_by_user, keep_empty=True)
    propensities_of_all = np.tile(propensities, n_impressions)
    return queries.data, propensities_of_all[queries.places]


def _click_chances(data: RankingData, probabilities: Sequence[float]) -> F64:
    """Return the probability that a user who looks at a document clicks it, one per document, from
    the documents' labels.

    Args:
        data: documents with labels 0, 1, 2, ...
        probabilities: click probabilities of the labels 0, 1, 2, ...
    """
    checked_data("data", data)
    chance_of_label = probabilities_by_label("probabilities", probabilities)
    is_whole = data.labels == np.floor(data.labels)
    has_chance = is_whole & (data.labels < chance_of_label.size)
    highest_label = chance_of_label.size - 1
    expected = f"a whole number from 0 to {highest_label}, one with a click probability"
    check_each("labels", data.labels, has_chance, expected, data.offsets)
    return chance_of_label[data.labels.astype(np.int64)]


class _Impression(NamedTuple):
    """What one user saw of every list.

    Attributes:
        rows: the rows of the documents that were read, list by list, in the order of reading.
        is_clicked: whether each of them was clicked.
    """

    rows: I64
    is_clicked: Bools


class _ImpressionQueries(NamedTuple):
    """Impressions as queries.

    Attributes:
        data: one query per impression, those of a list side by side.
        places: the place of each document among the rows of all impressions, one after the other.
    """

    data: RankingData
    places: I64


def _as_queries(
    data: RankingData, impressions: list[_Impression], *, keep_empty: bool
) -> _ImpressionQueries:
    """Return data in which what one user saw of one list is a query of its own, with label 1 for
    clicked documents and 0 for the others.

    Args:
        data: the lists that users saw.
        impressions: what each user saw of all lists.
        keep_empty: whether to keep queries without documents.
    """
    n_users = len(impressions)
    rows = np.concatenate([impression.rows for impression in impressions])
    is_clicked = np.concatenate([impression.is_clicked for impression in impressions])
    rows_per_user = [impression.rows.size for impression in impressions]
    user_of_row = np.repeat(np.arange(n_users), rows_per_user)

    # New queries are numbered by list, then by user.
    list_of_row = query_of(data.offsets)[rows]
    new_query_of_row = list_of_row * n_users + user_of_row
    # The sort is stable, so each impression stays in the order it was read in.
    places = np.argsort(new_query_of_row, kind="stable")
    sizes = np.bincount(new_query_of_row, minlength=data.n_queries * n_users)
    kept_queries = np.flatnonzero((sizes > 0) | keep_empty)

    qids = []
    for new_query in kept_queries.tolist():
        list_number, user = divmod(new_query, n_users)
        qids.append(f"{data.qids[list_number]}.{user + 1}")
    labels = is_clicked[places].astype(np.float32)
    offsets = offsets_from_sizes(sizes[kept_queries])
    queries = data.with_rows(rows[places], offsets, np.array(qids, str), labels)
    return _ImpressionQueries(queries, places)


def _read_to_first_click(
    data: RankingData, chances: F64, rng: np.random.Generator, keep_unclicked: bool
) -> _Impression:
    """Simulate a user who reads every list in random order up to the first click; return the
    documents read and which were clicked.

    Each document gets a random key, and a list is read by rising keys. Whether a document would be
    clicked does not depend on its place, so this is drawn for all documents; only those up to the
    first click have to be sorted.

    Args:
        data: the lists.
        chances: probability of each document to be clicked when it is read.
        rng: source of random numbers.
        keep_unclicked: whether a list without a click is read to its end instead of left out.
    """
    query = query_of(data.offsets)
    shuffle_key = rng.random(query.size)
    would_click = rng.random(query.size) < chances

    # The smallest key of a clicked document of each list; infinity in a list without a click.
    click_key = np.where(would_click, shuffle_key, np.inf)
    # The minimum of each query is minus the maximum of the negated keys.
    first_click_key = -query_maxima(-click_key, data.offsets)
    if not keep_unclicked:
        first_click_key[np.isinf(first_click_key)] = -1  # below all keys: nothing is read

    is_read = shuffle_key <= first_click_key[query]
    read_rows = np.flatnonzero(is_read)
    reading_order = np.lexsort((shuffle_key[read_rows], query[read_rows]))
    rows = read_rows[reading_order]
    return _Impression(rows, would_click[rows])
