"""The scores and lists that checks look at: all, some or short ones of the data, and synthetic
ones.
"""

from __future__ import annotations

import numpy as np

from tautrank.arrays import F64, Bools
from tautrank.data import Lists
from tautrank.data.queries import offsets_from_sizes

# Lists up to this length are short enough for checks that compare every pair of documents many
# times.
_SHORT = 200


def some_lists(scores: F64, lists: Lists, documents: int = 2000) -> tuple[F64, Lists]:
    """Return the scores and the lists of some queries at regular distances, with about as many
    documents as asked for; checks that take long look at these alone.

    Args:
        scores: one per document.
        lists: the labelled lists.
        documents: approximate number of documents to take.

    >>> six = Lists.of([1, 0, 0, 1, 1, 0], [0, 2, 4, 6])
    >>> scores, lists = some_lists(np.arange(6.0), six, documents=4)
    >>> scores, lists.offsets
    (array([0., 1., 4., 5.]), array([0, 2, 4]))
    """
    # Every stride-th query; -(-a // b) is a / b rounded up.
    stride = max(1, -(-scores.size // documents))
    return only_queries(scores, lists, np.arange(lists.sizes.size) % stride == 0)


def short_lists(scores: F64, lists: Lists) -> tuple[F64, Lists]:
    """Take `some_lists` of at most 200 documents, for checks whose time grows with the square of
    that number.

    >>> short_lists(np.zeros(302), Lists.of(np.ones(302), [0, 1, 302]))[1].offsets
    array([0, 1])
    """
    return some_lists(*only_queries(scores, lists, lists.sizes <= _SHORT))


def only_queries(scores: F64, lists: Lists, queries: Bools) -> tuple[F64, Lists]:
    """Take scores and lists, and return those of the chosen queries alone, in the same order.

    Args:
        scores: one per document.
        lists: the labelled lists.
        queries: whether to take each query.

    >>> two = Lists.of([1, 0, 2], [0, 2, 3])
    >>> only_queries(np.array([5.0, 6.0, 7.0]), two, np.array([False, True]))[0]
    array([7.])
    """
    # Whether to take each document.
    rows = np.repeat(queries, lists.sizes)
    offsets = offsets_from_sizes(lists.sizes[queries])
    return scores[rows], Lists.of(lists.labels[rows], offsets)


def synthetic_lists(seed: int = 0) -> tuple[F64, Lists]:
    """Return scores with ties (multiples of 1/8, so that shifts are exact) and six labelled lists.

    One list has a single document, one has none, and one has no relevant document.

    Args:
        seed: seed of scores and labels.

    >>> scores, lists = synthetic_lists()
    >>> scores[:4], lists.labels[:4]
    (array([ 0.625,  1.   , -1.   , -1.25 ]), array([4., 3., 2., 1.]))
    >>> lists.sizes
    array([ 5,  1, 12,  3,  0,  8])
    """
    rng = np.random.default_rng(seed)
    offsets = offsets_from_sizes(np.array([5, 1, 12, 3, 0, 8]))
    labels = rng.integers(0, 5, offsets[-1]).astype(np.float64)
    labels[offsets[3] : offsets[4]] = 0.0  # the fourth list has no relevant document
    labels[offsets[1]] = 2.0  # the single document of the second one is relevant
    scores = rng.integers(-12, 12, offsets[-1]) / 8.0
    return scores, Lists.of(labels, offsets)


def scorings_with_ties(scores: F64) -> tuple[F64, F64]:
    """Take scores and return two scorings with ties: the scores rounded to whole numbers of their
    standard deviation, and a score of 0 for every document.

    >>> scorings_with_ties(np.array([0.0, 1.0, 5.0]))
    (array([0., 0., 2.]), array([0., 0., 0.]))
    """
    equal = np.zeros_like(scores)
    spread = float(scores.std())
    coarse = np.round(scores / spread) if spread > 0 else equal
    return coarse, equal
