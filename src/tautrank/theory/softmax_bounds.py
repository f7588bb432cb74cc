"""What cross entropy with a softmax bounds: NDCG for any labels (XE-NDCG), MRR and NDCG for binary ones (ListNet).

Every theorem here rests on one inequality: the rank of a document is at most ``sum_j exp(s_j - s_i) = 1/rho_i``. A tied
document adds ``exp(0) = 1`` to the sum, and at most 1 to the rank, so the theorems hold for every tie policy of the
metric. They need the full list: past a cutoff a document earns nothing, however large its ``rho``.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from tautrank.losses import XENDCG, ListNet, Loss, SoftmaxLoss
from tautrank.metrics import Gain, Metric, gain_values, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.metrics.ordering import F64, query_sums
from tautrank.theory.bound import Bound, loss_without_noise, negative_log
from tautrank.theory.distributions import check_gamma, check_scored_lists, gamma_targets, log_softmax
from tautrank.theory.gamma import cross_entropy, gammas_of
from tautrank.theory.jensen import log_expected_probability


def xe_ndcg_bound(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    loss: Loss | str = "xendcg",
    *,
    refined: bool = False,
    gamma: ArrayLike | None = None,
    ties: str = "worst",
    seed: int = 0,
    step: int = 0,
) -> Bound:
    """Compare XE-NDCG with translated NDCG on a log scale; it is a bound for all labels and all gammas.

    ``mean XE >= -log(mean NDCG + mean 1/maxDCG)``, and for each query ``XE >= -log(NDCG + 1/maxDCG)``.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Theorem 1. The steps are those of its
    proof: Jensen's inequality (eq. 12 and 13), ``rho <= 1/rank`` (eq. 9), ``log2(1 + rank) <= rank`` (eq. 11) and
    ``maxDCG <= sum 2^y - gamma`` (eq. 10). Holds for every tie policy, and for full lists
    only: ``NDCG@k`` may fall below.

    With ``refined``, NDCG is translated only as much as gamma requires, not at all if every gamma is 1:
    ``mean XE >= -log mean(NDCG + sum_i (1 - gamma_i) rho_i / maxDCG)``, for each query and on average. It follows from
    the same proof, where eq. 11 replaces ``sum (1 - gamma_i) rho_i`` by 1. With ``gamma = 1`` this is
    ``XE >= -log NDCG`` for graded labels, which Theorem 3 of the binary paper says for binary ones.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        loss: a ``xendcg`` loss, or its name.
        refined: whether to translate NDCG only as much as gamma requires.
        gamma: numbers in [0, 1], one per document or one for all, instead of those of the loss.
        ties: tie policy of the metric.
        seed, step: as in `Loss.bind` and `Objective.values`, for gammas that are drawn.

    >>> xe_ndcg_bound([1.0, 2.0, 0.0], [3, 0, 1], [0, 3], gamma=0.5)
    XE >= -log(NDCG + 1/maxDCG): 1.513 >= 0.2545 on average over 1 query, the smallest gap 1.258; holds
    >>> bound = xe_ndcg_bound([1.0, 2.0, 0.0], [3, 0, 1], [0, 3], gamma=1.0, refined=True)
    >>> bool(bound.lower[0] == -np.log(metric("ndcg").mean([1.0, 2.0, 0.0], [3, 0, 1], [0, 3])))
    True
    """
    chosen = loss_without_noise(loss, XENDCG, "a xendcg loss")
    s, lists = check_scored_lists(scores, labels, offsets)
    y, cuts = lists.labels, lists.offsets
    if gamma is None:
        value = chosen.bind(y, cuts, seed=seed).values(s, step)
        used = gammas_of(chosen, s, y, cuts, seed=seed, step=step)
    else:
        used = check_gamma(gamma, lists)
        value = cross_entropy(s, y, cuts, used)
    ideal = metric("dcg").per_query(y, y, cuts)
    ndcg, dcg = (metric(name, ties=ties).per_query(s, y, cuts) for name in ("ndcg", "dcg"))
    reciprocal = metric("dcg", discount="reciprocal", ties=ties).per_query(s, y, cuts)
    total = query_sums(gain_values(y) + (1.0 - used), cuts)
    if refined:
        added = query_sums((1.0 - used) * np.exp(log_softmax(s, cuts)), cuts)
        name = "XE >= -log(NDCG + sum (1 - gamma) rho / maxDCG)"
        mean = mean_over_queries(ndcg + added / ideal)
    else:
        added = np.ones_like(ideal)
        name = "XE >= -log(NDCG + 1/maxDCG)"
        mean = mean_over_queries(ndcg) + mean_over_queries(added / ideal)
    return Bound(
        name=name,
        upper=value,
        lower=negative_log(ndcg + added / ideal),
        mean_lower=float(negative_log(mean)),
        steps={
            "Jensen's inequality (13)": -log_expected_probability(s, gamma_targets(y, cuts, used), cuts),
            "rho <= 1/rank (9)": negative_log((reciprocal + added) / total),
            "log2(1 + rank) <= rank (11)": negative_log((dcg + added) / total),
        },
    )


def softmax_mrr_bound(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, loss: Loss | str = "listnet", *, ties: str = "worst"
) -> Bound:
    """Compare softmax cross entropy with the reciprocal rank on a log scale, which it bounds.

    ``mean XE >= -log MRR``, and ``XE >= -log RR`` for each query.

    Bruch et al., *An Analysis of the Softmax Cross Entropy Loss for Learning-to-Rank with Binary Relevance*, ICTIR
    2019, Theorem 1 (one relevant document) and Theorem 2 (any number), for binary labels. It also holds for graded
    ones: the reciprocal rank is at least ``sum phi_i / rank_i`` for any target on the relevant documents, and the
    softmax target, which gives irrelevant documents equal and smallest shares, keeps ``sum phi_i rho_i`` below it too.
    Holds for every tie policy, and for full lists only.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        loss: a ``listnet`` loss, or its name.
        ties: tie policy of the metric.

    >>> softmax_mrr_bound([1.0, 2.0, 0.0], [1, 0, 0], [0, 3])
    XE >= -log RR: 1.408 >= 0.6931 on average over 1 query, the smallest gap 0.7145; holds
    """
    return _listnet_bound("XE >= -log RR", scores, labels, offsets, loss, metric("mrr", ties=ties))


def softmax_ndcg_bound(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    loss: Loss | str = "listnet",
    *,
    gain: Gain = "exp2",
    ties: str = "worst",
) -> Bound:
    """Compare softmax cross entropy with NDCG on a log scale, which it bounds for binary labels.

    ``mean XE >= -log mean NDCG``, and ``XE >= -log NDCG`` for each query.

    Bruch et al., *An Analysis of the Softmax Cross Entropy Loss for Learning-to-Rank with Binary Relevance*, ICTIR
    2019, Theorem 3. Its proof needs the target to be the gain over the sum of gains: binary labels, or graded ones with
    ``target="linear"`` and ``gain="linear"``. The paper says that it fails for graded labels; with the
    softmax target and labels far apart it does (`docs/theory.md` has the numbers). Holds for every tie policy, and
    for full lists only.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        loss: a ``listnet`` loss, or its name.
        gain: gain of the metric.
        ties: tie policy of the metric.

    >>> softmax_ndcg_bound([1.0, 2.0, 0.0], [1, 0, 1], [0, 3])
    XE >= -log NDCG: 1.908 >= 0.3661 on average over 1 query, the smallest gap 1.541; holds
    """
    judge = metric("ndcg", ties=ties, gain=gain)
    return _listnet_bound("XE >= -log NDCG", scores, labels, offsets, loss, judge)


def _listnet_bound(
    name: str, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, loss: Loss | str, judge: Metric
) -> Bound:
    """Compare the loss with ``-log`` of a metric; ``-log sum phi rho`` is between them."""
    chosen = loss_without_noise(loss, ListNet, "a listnet loss")
    s, lists = check_scored_lists(scores, labels, offsets)
    y, cuts = lists.labels, lists.offsets
    judged = judge.per_query(s, y, cuts)
    expected = log_expected_probability(s, targets_of(chosen, s, y, cuts), cuts)
    return Bound(
        name=name,
        upper=chosen.bind(y, cuts).values(s),
        lower=negative_log(judged),
        mean_lower=float(negative_log(mean_over_queries(judged))),
        steps={"Jensen's inequality": -expected},
    )


def targets_of(
    loss: SoftmaxLoss, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, *, seed: int = 0, step: int = 0
) -> F64:
    """Return the target distribution ``phi`` of a softmax loss, read off its gradient ``rho - phi``.

    Args:
        loss: the loss.
        scores, labels, offsets: the lists, see `tautrank.theory`.
        seed, step: as in `Loss.bind` and `Objective.values`, for targets that are drawn.

    >>> targets_of(ListNet(), [0.0, 0.0, 0.0], [1, 3, 0], [0, 3])
    array([0.25, 0.75, 0.  ])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    plain = dataclasses.replace(loss, hessian="diagonal")
    grad, _ = plain.bind(lists.labels, lists.offsets, seed=seed).gradients(s, step)
    phi = np.exp(log_softmax(s, lists.offsets)) - grad
    # What is left of rho - (rho - 0) is rounding.
    phi[phi < 1e-15] = 0.0
    return np.where(np.repeat(lists.has_relevant, lists.sizes), phi, 0.0)
