"""XE-NDCG and its gamma: the distributions that cross entropy compares, the Jensen gap, and the
best gammas.

The loss bounds a number that does not depend on gamma (`xe_ndcg_bound`), so the gamma that
minimises the loss gives the tightest bound. The paper asks for the gamma with the smallest Jensen
gap instead, the part of the bound's looseness that gamma moves most, and leaves finding it open;
both have exact answers here, and they differ.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import whole
from tautrank.arrays import F64, I64, check_each, numbers
from tautrank.data import Lists
from tautrank.losses import XENDCG
from tautrank.metrics.ordering import query_maxima, query_sums
from tautrank.theory.theorem import (
    Labelled,
    check_list_scores,
    check_lists,
    check_scored_lists,
    float_labels,
    has_relevant,
)

LABEL_PROBABILITIES = (0.5, 0.2, 0.15, 0.1, 0.05)
"""Of the labels 0 to 4: what the paper draws labels from in sec. 5.4; Figure 1 does not say its
own.
"""


def log_softmax(scores: ArrayLike, offsets: ArrayLike) -> F64:
    """Return ``log rho``, where ``rho_i = exp(s_i) / sum_j exp(s_j)`` over the documents of the
    query.

    Args:
        scores, offsets: the lists, see `tautrank.theory`.

    >>> log_softmax([0.0, 0.0, 7.0], [0, 2, 3])
    array([-0.69314718, -0.69314718,  0.        ])
    """
    scores, offsets = check_list_scores(scores, offsets)
    sizes = np.diff(offsets)
    # A shift of all scores of a query changes nothing, and exp cannot overflow below 0.
    highest_scores = query_maxima(scores, offsets)
    shifted_scores = scores - np.repeat(highest_scores, sizes)
    sums = query_sums(np.exp(shifted_scores), offsets)
    # The sum of a query without documents is 0, and so is what stands for its logarithm.
    log_sums = np.log(sums, out=np.zeros_like(sums), where=sums > 0)
    return np.asarray(shifted_scores - np.repeat(log_sums, sizes))


def gamma_targets(lists: Labelled, gamma: ArrayLike) -> F64:
    """Return the target of each document in the loss XE-NDCG, ``phi_i = (2^y_i - gamma_i) / sum_j (2^y_j - gamma_j)``.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Definition 1.

    Args:
        lists: the lists, see `tautrank.theory`.
        gamma: numbers in [0, 1], one per document, or one for all.

    >>> gamma_targets([2, 1, 0], 1.0)
    array([0.75, 0.25, 0.  ])
    >>> gamma_targets([2, 1], [0.0, 1.5])
    Traceback (most recent call last):
    tautrank.errors.DataError: gamma[1] (query 0, document 1): found 1.5; expected a number from 0 to 1
    """
    lists = check_lists(lists)
    gamma = check_gamma(gamma, lists)
    # Divided by 2^highest, the query's largest 2^y, so that no label overflows; this leaves the
    # targets as they are. In these units the number 1 is 2^-highest.
    labels = float_labels(lists)
    highest = np.repeat(query_maxima(labels, lists.offsets), lists.sizes)
    one = np.exp2(-highest)
    gains = np.exp2(labels - highest) - one
    # 2^y - gamma is the gain 2^y - 1 plus 1 - gamma.
    numerators = gains + one * (1.0 - gamma)

    sums = query_sums(numerators, lists.offsets)
    # Where all numerators are 0 (no relevant document, gamma of 1) the targets are 0.
    reciprocal_sums = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return np.asarray(numerators * np.repeat(reciprocal_sums, lists.sizes))


def check_gamma(gamma: ArrayLike, lists: Lists) -> F64:
    """Return gamma as float64, one per document.

    Args:
        gamma: numbers in [0, 1], one per document, or one for all.
        lists: the labelled lists.

    >>> check_gamma(0.5, Lists.of([1, 0]))
    array([0.5, 0.5])
    """
    if np.ndim(gamma) == 0:
        gamma = np.broadcast_to(gamma, lists.labels.shape)
    checked = numbers("gamma", gamma, size=lists.n_documents)
    is_share = (checked >= 0) & (checked <= 1)
    check_each("gamma", checked, is_share, "a number from 0 to 1", lists.offsets)
    return checked


def cross_entropy(scores: ArrayLike, lists: Labelled, gamma: ArrayLike) -> F64:
    """Return the loss XE-NDCG of scores with any gamma, ``-sum_i phi_i log rho_i``, one per query;
    NaN without a relevant document.

    ``rho`` is the softmax of the scores, and ``phi`` are the targets ``2^y_i - gamma_i`` over their
    sum, for labels ``y``.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Definition 1.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        gamma: numbers in [0, 1], one per document or one for all.

    >>> cross_entropy([0.0, 0.0], [1, 0], [0.25, 0.5])  # any target costs log 2 here
    array([0.69314718])
    """
    scores, lists = check_scored_lists(scores, lists)
    phi = gamma_targets(lists, gamma)
    log_rho = log_softmax(scores, lists.offsets)
    values = -query_sums(phi * log_rho, lists.offsets)
    return np.where(has_relevant(lists), values, np.nan)


def gammas_of(loss: XENDCG, scores: ArrayLike, lists: Labelled) -> F64:
    """Return the gamma of each document that a ``xendcg`` loss uses in its targets
    ``2^y - gamma``; gammas that are drawn are those of seed 0 and step 0.

    Args:
        loss: the loss, with a fixed, uniform or tight gamma.
        scores: one finite number per document; the tight gamma depends on them.
        lists: the lists, see `tautrank.theory`.

    >>> gammas_of(XENDCG(gamma=0.25), [0.0, 0.0], [1, 0])
    array([0.25, 0.25])
    """
    scores, lists = check_scored_lists(scores, lists)
    if isinstance(loss.gamma, float):
        return check_gamma(loss.gamma, lists)
    if loss.gamma == "tight":
        return optimal_gamma(scores, lists).gamma
    from tautrank.kernels.randomness import fill_uniform
    from tautrank.kernels.streams import GAMMA_STREAM

    # The random stream of each query is its own, as in training; fill_uniform writes into the part
    # of the array that it is given. The two zeros are the seed and the step.
    gamma = np.empty(scores.size)
    for query, (start, stop) in enumerate(pairwise(lists.offsets)):
        fill_uniform(gamma[start:stop], np.uint64(0), 0, query, GAMMA_STREAM)
    return gamma


def log_expected_probability(scores: ArrayLike, targets: ArrayLike, offsets: ArrayLike) -> F64:
    """Return ``log sum_i phi_i rho_i`` for each query, where ``phi`` are targets and ``rho`` is the
    softmax of the scores (eq. 12 in the proof of Theorem 1); 0 without targets.

    Args:
        scores: one finite number per document.
        targets: ``phi``, one number of at least 0 per document.
        offsets: where each query's documents begin, and the number of documents at the end.

    >>> log_expected_probability([0.0, 0.0], [0.25, 0.75], [0, 2])  # log 1/2
    array([-0.69314718])
    """
    log_rho = log_softmax(scores, offsets)
    phi = np.asarray(targets, dtype=np.float64)
    offsets = np.asarray(offsets, dtype=np.int64)
    # The largest rho among the documents with a target is taken out of the sum: beside a document
    # without a target and with a far higher score, all terms of the sum may underflow.
    log_rho_of_targets = np.where(phi > 0, log_rho, -np.inf)
    largest = query_maxima(log_rho_of_targets, offsets)
    largest = np.where(np.isfinite(largest), largest, 0.0)  # without targets
    # Documents without a target may be above the largest: they count nothing, and must not overflow.
    relative_log_rho = np.minimum(log_rho - np.repeat(largest, np.diff(offsets)), 0.0)
    sums = query_sums(phi * np.exp(relative_log_rho), offsets)
    log_sums = np.log(sums, out=np.zeros_like(sums), where=sums > 0)
    return log_sums + largest


def jensen_gap(scores: ArrayLike, lists: Labelled, gamma: ArrayLike) -> F64:
    """Return the Jensen gap ``log sum_i phi_i rho_i - sum_i phi_i log rho_i >= 0`` of scores, one
    per query; NaN without a relevant document.

    ``rho`` is the softmax of the scores, and ``phi`` are the targets of XE-NDCG,
    ``2^y_i - gamma_i`` over their sum, for labels ``y``. The gap is what the proof that XE-NDCG
    bounds NDCG loses by Jensen's inequality.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 4.2.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        gamma: numbers in [0, 1], one per document or one for all.

    >>> jensen_gap([0.0, 0.0], [1, 0], 0.5)  # equal scores leave Jensen nothing to lose
    array([0.])
    >>> jensen_gap([1.0, 0.0], [1, 0], [0.5, 0.0]).round(4)
    array([0.1085])
    """
    scores, lists = check_scored_lists(scores, lists)
    phi = gamma_targets(lists, gamma)
    expected = log_expected_probability(scores, phi, lists.offsets)
    # Cross entropy is -sum phi log rho, so it is added.
    gap = expected + cross_entropy(scores, lists, gamma)
    # The difference of two equal numbers rounds either way.
    return np.maximum(gap, 0.0)


class BestGamma(NamedTuple):
    """A minimiser over all gammas in [0, 1], and the minimum.

    Args:
        gamma: one per document; 1 in queries without a relevant document.
        value: the minimum, one per query; NaN in queries without a relevant document.

    >>> BestGamma(np.array([0.0, 1.0]), np.array([0.5])).value
    array([0.5])
    """

    gamma: F64
    value: F64


def optimal_gamma(scores: ArrayLike, lists: Labelled) -> BestGamma:
    """Return the gamma that minimises the loss and so gives the tightest bound on NDCG, and that
    minimum.

    With ``c = -log rho`` the loss is ``sum t_i c_i / sum t_i`` with ``t_i = 2^y_i - gamma_i``, a
    ratio of linear functions over a box. Its minimum ``v`` is at a corner: ``gamma_i = 0`` where
    ``c_i < v``, and 1 elsewhere, found in one sort from the highest score down
    (``xendcg(gamma=tight)``). Where ``c_i = v`` any gamma is as good.

    The problem is that of Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020,
    sec. 4.2, which leaves it open.

    Args:
        scores, lists: the lists, see `tautrank.theory`.

    >>> gamma, value = optimal_gamma([2.0, 0.0, 1.0], [0, 2, 1])
    >>> gamma  # the irrelevant document with the highest score is cheap: it gets all it can
    array([0., 1., 0.])
    >>> bool(value[0] == XENDCG(gamma="tight").bind([0, 2, 1], [0, 3]).values([2.0, 0.0, 1.0])[0])
    True
    """
    scores, lists = check_scored_lists(scores, lists)
    value = XENDCG(gamma="tight").bind(lists).values(scores)
    value[~has_relevant(lists)] = np.nan
    cost = -log_softmax(scores, lists.offsets)
    # NaN compares false: a query without a relevant document gets gammas of 1.
    is_cheap = cost < value[lists.query]
    return BestGamma(np.where(is_cheap, 0.0, 1.0), value)


def smallest_jensen_gap(scores: ArrayLike, lists: Labelled) -> BestGamma:
    """Return the gamma with the smallest Jensen gap ``log sum phi_i rho_i - sum phi_i log rho_i``,
    and that gap.

    The gap is concave in ``phi``, so a corner of the box minimises it. At that corner ``phi`` also
    minimises the tangent of the gap, whose slopes ``rho_i / sum phi rho - log rho_i`` are convex in
    ``rho_i``: the documents with a gamma of 0 are consecutive in the order of the scores. Trying
    every such window takes ``n^2`` steps per query.

    The problem is that of Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020,
    sec. 4.2.

    Args:
        scores, lists: the lists, see `tautrank.theory`.

    >>> gamma, gap = smallest_jensen_gap([2.0, 0.0, 1.0], [0, 2, 1])
    >>> gamma, gap.round(4)
    (array([1., 0., 1.]), array([0.0954]))
    """
    scores, lists = check_scored_lists(scores, lists)
    labels = float_labels(lists)
    gamma = np.ones(scores.size)
    for query in np.flatnonzero(has_relevant(lists)):
        documents = np.arange(lists.offsets[query], lists.offsets[query + 1])
        # Indices within this query; all other gammas stay at 1.
        with_gamma_0 = _find_best_window(scores[documents], labels[documents])
        gamma[documents[with_gamma_0]] = 0.0
    return BestGamma(gamma, jensen_gap(scores, lists, gamma))


def _find_best_window(scores: F64, labels: F64) -> I64:
    """Find the documents of one list that must have a gamma of 0, and all others 1, to make the
    Jensen gap of XE-NDCG as small as it can be.

    These documents are neighbours in the order of the scores, so every window of that order is
    tried. With ``rho`` the softmax of the scores, ``t = 2^y - gamma`` the targets before they are
    normalised (in units of ``2^highest label``), ``T`` their sum, ``P = sum t rho`` and
    ``C = -sum t log rho``, the gap is ``log(P / T) + C / T``. A gamma of 0 instead of 1 adds ``u``
    to a document's ``t``, so all windows with the same first document are one cumulative sum.
    """
    order = np.argsort(-scores, kind="stable")
    log_rho = log_softmax(scores, [0, scores.size])[order]
    highest = labels.max()
    u = np.exp2(-highest)
    t = np.exp2(labels - highest)[order] - u  # at a gamma of 1
    # Probabilities are measured by the highest one in the sum: next to a far better document all
    # may underflow.
    top = log_rho[t > 0.0].max()
    T = t.sum()
    P = t @ np.exp(np.minimum(log_rho - top, 0.0))
    C = -t @ log_rho

    smallest_gap = np.log(P / T) + top + C / T
    best_window = slice(0)
    for begin in range(log_rho.size):
        # T, P and C of all windows that begin here, by their last document.
        inside = log_rho[begin:]
        reference = max(top, inside[0])
        added_to_P = u * np.cumsum(np.exp(inside - reference))
        Ts = T + u * np.arange(1, inside.size + 1)
        Ps = P * np.exp(top - reference) + added_to_P
        Cs = C - u * np.cumsum(inside)
        gaps = np.log(Ps / Ts) + reference + Cs / Ts
        if gaps.min() < smallest_gap:
            smallest_gap = gaps.min()
            end = begin + int(np.argmin(gaps)) + 1
            best_window = slice(begin, end)
    return order[best_window]


class JensenClouds(NamedTuple):
    """The data of the paper's Figure 1: one cloud of points per example, one point per gamma.

    Args:
        gaps: the Jensen gap, float64 ``[examples, draws]``.
        losses: the loss at the same gammas, float64 ``[examples, draws]``.
        smallest_gaps: the smallest Jensen gap over all gammas, one per example.
        smallest_losses: the smallest loss over all gammas, one per example.
        gaps_at_smallest_losses: the Jensen gap where the loss is smallest, one per example.

    >>> jensen_clouds(examples=2, documents=5, draws=3).losses.shape
    (2, 3)
    """

    gaps: F64
    losses: F64
    smallest_gaps: F64
    smallest_losses: F64
    gaps_at_smallest_losses: F64


def jensen_clouds(
    examples: int = 20, documents: int = 100, draws: int = 200, seed: int = 0
) -> JensenClouds:
    """Draw lists and gammas as the paper's Figure 1 does: scores uniform in [0, 1], gammas uniform
    in [0, 1]^m.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Figure 1. Labels are
    drawn with the probabilities of its sec. 5.4. Every list has at least one relevant document: its
    first label is 1 where it would have none.

    Args:
        examples: number of lists.
        documents: documents per list.
        draws: gammas per list.
        seed: seed of all random numbers.

    >>> clouds = jensen_clouds(examples=5, draws=50)
    >>> bool((clouds.smallest_gaps[:, None] <= clouds.gaps).all())
    True
    >>> bool((clouds.smallest_losses[:, None] <= clouds.losses).all())
    True
    """
    examples = whole("examples", examples, 1)
    documents = whole("documents", documents, 1)
    draws = whole("draws", draws, 1)
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    scores = rng.random((examples, documents))
    labels = draw_labels(rng, (examples, documents))
    labels[labels.max(axis=1) == 0, 0] = 1.0
    lists = Lists.of(labels.ravel(), np.arange(examples + 1) * documents)

    # A gamma is one list: an example's list repeated for each of its gammas.
    repeated_scores = np.repeat(scores, draws, axis=0).ravel()
    repeated_labels = np.repeat(labels, draws, axis=0).ravel()
    repeated_lists = Lists.of(repeated_labels, np.arange(examples * draws + 1) * documents)
    gamma = rng.random(repeated_scores.size)
    gaps = jensen_gap(repeated_scores, repeated_lists, gamma)
    losses = cross_entropy(repeated_scores, repeated_lists, gamma)

    scores = scores.ravel()
    tight = optimal_gamma(scores, lists)
    return JensenClouds(
        gaps=gaps.reshape(examples, draws),
        losses=losses.reshape(examples, draws),
        smallest_gaps=smallest_jensen_gap(scores, lists).value,
        smallest_losses=tight.value,
        gaps_at_smallest_losses=jensen_gap(scores, lists, tight.gamma),
    )


def draw_labels(rng: np.random.Generator, shape: tuple[int, ...]) -> F64:
    """Draw labels with the paper's `LABEL_PROBABILITIES`.

    >>> draw_labels(np.random.default_rng(0), (4,))
    array([1., 0., 0., 0.])
    """
    labels = rng.choice(len(LABEL_PROBABILITIES), shape, p=LABEL_PROBABILITIES)
    return labels.astype(np.float64)
