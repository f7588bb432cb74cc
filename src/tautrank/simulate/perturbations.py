"""Perturb given data: longer lists, mistakes of judges, binary judgments; and the checks that
simulations share.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tautrank.arguments import real, whole
from tautrank.arrays import F64, I64
from tautrank.data.queries import offsets_from_sizes
from tautrank.data.ranking_data import RankingData, checked_data
from tautrank.errors import DataError, OptionError

# Probabilities of the labels 0 to 4 that a perturbed document gets: Bruch 2020, sec. 5.4.
PERTURBED_SHARES = (0.5, 0.2, 0.15, 0.1, 0.05)


def perturb_labels(
    data: RankingData,
    probability: float,
    *,
    distribution: Sequence[float] | None = None,
    seed: int = 0,
) -> RankingData:
    """Set a share of the labels to random values, as judges' mistakes would.

    Every label is chosen with the given probability, independently of all others, and a chosen
    label becomes ``0, 1, 2, ...`` with the probabilities of ``distribution``, whatever it was (so
    it may stay what it was): ``P(new = b | old = a) = probability * distribution[b] + (1 -
    probability) * [a = b]``.

    The paper chooses "a subset" of each list's documents and leaves open how; here the size of the
    subset is binomial. With one seed, the labels chosen at a probability are among those chosen at
    any higher one, and they get the same new values, so a curve over probabilities is not blurred
    by the choice of documents.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 5.4, Figures 3c and
    3d.

    Args:
        data: the data; it is not changed, and the result shares its features.
        probability: probability that a label is chosen.
        distribution: probabilities of the new labels 0, 1, 2, ...; ``None`` is the paper's .5, .2,
            .15, .1, .05, up to the highest grade of the data: with labels 0, 1 and 2, the first
            three over their sum. A label of 4 among labels up to 2 would not be a judge's mistake:
            it would have five times the gain of any document.
        seed: the same seed gives the same labels.

    >>> data = RankingData.from_arrays([[0.0]] * 8, [4] * 8, group=[8])
    >>> perturb_labels(data, 0.5).labels.tolist()
    [4.0, 3.0, 2.0, 0.0, 4.0, 4.0, 4.0, 4.0]
    """
    checked_data("data", data)
    chance = real("probability", probability, most=1)
    if distribution is None:
        highest_label = int(data.labels.max(initial=0))
        shares = np.array(PERTURBED_SHARES[: highest_label + 1])
        distribution = (shares / shares.sum()).tolist()
    table = probabilities_by_label("distribution", distribution)
    if abs(table.sum() - 1) > 1e-6:
        raise OptionError(
            f"distribution: found a sum of {table.sum():g}; expected probabilities that sum to 1"
        )
    rng = np.random.default_rng(checked_seed(seed))
    is_mistaken = rng.random(data.n_documents) < chance
    # Values are drawn for all documents, so that a document gets the same one at any probability.
    drawn = rng.choice(table.size, data.n_documents, p=table / table.sum())
    labels = np.where(is_mistaken, drawn.astype(np.float32), data.labels)
    return dataclasses.replace(data, labels=labels)


def binarise(data: RankingData, threshold: float = 0.0) -> RankingData:
    """Turn graded labels into relevant or not: 1 where the label is above the threshold, else 0.

    The default sets every label that is not 0 to 1, which makes Web30K-b of Web30K and Yahoo!-b of
    Yahoo!: Bruch, Wang, Bendersky and Najork, *An Analysis of the Softmax Cross Entropy Loss for
    Learning-to-Rank with Binary Relevance*, ICTIR 2019, sec. 4. It is also what `mrr`, `map`,
    `precision` and `recall` call relevant.

    Args:
        data: the data; it is not changed, and the result shares its features.
        threshold: the highest label that is not relevant.

    >>> data = RankingData.from_arrays([[0.0]] * 4, [0, 1, 2, 4], group=[4])
    >>> binarise(data).labels.tolist(), binarise(data, threshold=1).labels.tolist()
    ([0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0])
    """
    checked_data("data", data)
    is_relevant = data.labels > real("threshold", threshold)
    return dataclasses.replace(data, labels=is_relevant.astype(np.float32))


def add_negatives(data: RankingData, share: float, *, seed: int = 0) -> RankingData:
    """Append documents of other queries to every list, with label 0.

    Each list ``(x, y)`` becomes ``(x + x', y + 0)``. Every document of ``x'`` is drawn in two
    steps, as the paper writes it: a query other than this one, all equally likely, then one of its
    documents, all equally likely.

    What the paper leaves open: draws are independent, so a document may be drawn twice; a list of
    ``m`` documents gets ``share * m`` more, rounded up or down at random so that the mean is exact
    on lists of any length.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 5.4, Figures 3a and
    3b.

    Args:
        data: the data; it is not changed.
        share: number of documents to add, as a share of the list; 0.4 makes lists 40% longer, 2
            three times as long.
        seed: the same seed gives the same documents.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0], [4.0]], [0, 2, 1, 1], group=[2, 2])
    >>> longer = add_negatives(data, 0.5)
    >>> longer.X.ravel().tolist(), longer.labels.tolist(), longer.offsets.tolist()
    ([1.0, 2.0, 3.0, 3.0, 4.0, 1.0], [0.0, 2.0, 0.0, 1.0, 1.0, 0.0], [0, 3, 6])
    """
    checked_data("data", data)
    share = real("share", share)
    rng = np.random.default_rng(checked_seed(seed))
    mean_added = share * data.sizes
    # Rounded up with the probability of the fraction, so that the mean is exact.
    n_added = np.floor(mean_added + rng.random(mean_added.size)).astype(np.int64)
    negatives = _draw_negatives(data, n_added, rng)

    end_of_list = np.repeat(data.offsets[1:], n_added)  # where each negative is inserted
    rows = np.insert(np.arange(data.n_documents), end_of_list, negatives)
    is_added = np.insert(np.zeros(data.n_documents, bool), end_of_list, True)
    labels = np.where(is_added, np.float32(0), data.labels[rows])
    return data.with_rows(rows, offsets_from_sizes(data.sizes + n_added), data.qids, labels)


def _draw_negatives(data: RankingData, n_added: I64, rng: np.random.Generator) -> I64:
    """Draw documents of other queries for each query, and return their rows in the data.

    A donor query is drawn among all others that have documents, then one of its documents.

    Args:
        data: the documents of all queries.
        n_added: number of documents to draw for each query.
        rng: source of random numbers.
    """
    n_negatives = int(n_added.sum())
    if n_negatives == 0:
        return np.zeros(0, np.int64)
    donors = np.flatnonzero(data.sizes)
    if donors.size < 2:
        raise DataError(
            "data: found 1 query with documents; expected at least 2, since negatives come from"
            " others"
        )

    receiving_query = np.repeat(np.arange(n_added.size), n_added)
    # One of the other queries: draw among one fewer, and step over the receiving query.
    donor_number = rng.integers(0, donors.size - 1, n_negatives)
    # `searchsorted` gives the receiving query's number among the donors; numbers from there on rise
    # by one.
    donor_number += donor_number >= np.searchsorted(donors, receiving_query)
    donor_query = donors[donor_number]
    document_in_donor = rng.integers(0, data.sizes[donor_query])
    return data.offsets[donor_query] + document_in_donor


def checked_seed(seed: object) -> int:
    """Return ``seed`` as a whole number; NumPy's generators take one of any size.

    >>> checked_seed(-1)
    Traceback (most recent call last):
    tautrank.errors.OptionError: seed: found -1; expected a whole number of at least 0
    """
    return whole("seed", seed, most=math.inf)


def probabilities_by_label(name: str, values: Sequence[float]) -> F64:
    """Return probabilities for the labels 0, 1, 2, ... as an array; refuse an empty sequence and
    numbers below 0 or above 1.

    Args:
        name: name of the user's argument, for errors.
        values: one probability per label.

    >>> probabilities_by_label("probabilities", (0.05, 1.3))
    Traceback (most recent call last):
    tautrank.errors.OptionError: probabilities: found 1.3 for label 1; expected numbers from 0 to 1, one per label
    """
    expected = "numbers from 0 to 1, one per label"
    try:
        table = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        table = np.zeros(0)  # refused by the next check
    if table.ndim != 1 or table.size == 0:
        raise OptionError(f"{name}: found {values!r}; expected {expected}")
    is_probability = (table >= 0) & (table <= 1)
    if not is_probability.all():
        label = int(np.argmin(is_probability))  # the first false one
        raise OptionError(f"{name}: found {table[label]:g} for label {label}; expected {expected}")
    return table
