"""What the losses bound: cross entropy NDCG and MRR, the LambdaLoss family ARP, NDCG's cost and
LambdaRank's metric.

The theorems about cross entropy (XE-NDCG for any labels, ListNet for binary ones) rest on one
inequality: the rank of a document is at most ``sum_j exp(s_j - s_i) = 1/rho_i``. A tied document
adds ``exp(0) = 1`` to the sum, and at most 1 to the rank, so they hold for every tie policy of the
metric. They need the full list: past a cutoff a document earns nothing, however large its ``rho``.

Those about the LambdaLoss family rest on another: a document ``j`` that stands above ``i`` counts
1, and ``log2(1 + exp(-sigma (s_i - s_j)))`` is at least that, since ``s_j >= s_i``. A tie gives
exactly 1, so they hold for every tie policy too. The constants belong to the current ranking, whose
ties are the worst case's.

Wang, Li, Golbandi, Bendersky and Najork, *The LambdaLoss Framework for Ranking Metric
Optimization*, CIKM 2018, sec. 5.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank import losses
from tautrank.arrays import F64, I32
from tautrank.data import Lists
from tautrank.losses import XENDCG, LambdaLoss, LambdaRank, ListNet, Loss, SoftmaxLoss
from tautrank.losses.pairwise import _PairObjective
from tautrank.metrics import DCG, NDCG, discount_values, gain_values, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.metrics.ordering import query_sums
from tautrank.theory import gamma as gammas
from tautrank.theory.theorem import (
    Bound,
    Labelled,
    check_scored_lists,
    document_pairs,
    has_relevant,
    in_scope,
    negative_log,
    sees_scores,
)

ARP_LOSSES = (losses.ARPLoss1, losses.ARPLoss2)
NDCG_LOSSES = (losses.NDCGLoss1, losses.NDCGLoss2, losses.NDCGLoss2PP)


def not_about_xendcg(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a theorem about XE-NDCG.

    >>> not_about_xendcg(ListNet(), np.zeros(1), Lists.of([1]))
    'it is about xendcg without noise'
    """
    if isinstance(loss, XENDCG) and sees_scores(loss):
        return None
    return "it is about xendcg without noise"


def not_about_listnet(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a theorem about ListNet.

    >>> not_about_listnet(XENDCG(), np.zeros(1), Lists.of([1]))
    'it is about listnet without noise'
    """
    if isinstance(loss, ListNet) and sees_scores(loss):
        return None
    return "it is about listnet without noise"


def not_about_lambdaloss(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Return why the theorem that a LambdaLoss plus its constants bounds a cost is not about a loss
    and lists; None where it is.

    >>> not_about_lambdaloss(LambdaRank(norm="lightgbm"), np.zeros(1), Lists.of([1]))
    'it is about losses without norm'
    """
    # Each helper returns a reason or None. The losses made from NDCG's cost need full lists, without
    # a cutoff, and a discount of 1 at the first rank.
    reason = not_of_family(loss, (losses.RankNet, *ARP_LOSSES, *NDCG_LOSSES, LambdaRank))
    if reason is None and isinstance(loss, NDCG_LOSSES):
        reason = not_on_full_lists(loss, lists) or discount_not_from_1(loss)
    return reason


def not_about_ndcg_cost(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of the theorem about a LambdaLoss without constants.

    >>> not_about_ndcg_cost(LambdaRank(k=2), np.zeros(3), Lists.of([1, 0, 0]))
    'it is about full lists: k is 2, the longest list has 3 documents'
    """
    reason = not_of_family(loss, (*NDCG_LOSSES, LambdaRank))
    if reason is None:
        reason = not_on_full_lists(loss, lists)
    return reason


def not_of_family(loss: Any, kinds: tuple[type[LambdaLoss], ...]) -> str | None:
    """Return why a loss is not one of some kinds of LambdaLoss as the paper defines them, or None.

    Args:
        loss: any loss.
        kinds: the classes that a theorem is about.

    >>> not_of_family(LambdaRank(assignment="soft"), (LambdaRank,))
    'it is about the hard assignment'
    """
    if not isinstance(loss, kinds) or not sees_scores(loss):
        return f"it is about {', '.join(kind.name for kind in kinds)} without noise"
    if loss.norm is not None:
        return "it is about losses without norm"
    if loss._draws_rankings:
        return "it is about the hard assignment"
    return None


def not_on_full_lists(loss: Any, lists: Lists) -> str | None:
    """Return why a theorem that does not hold with a cutoff is not about a loss, or None.

    Args:
        loss: a loss with a cutoff ``k``.
        lists: the labelled lists.

    >>> not_on_full_lists(LambdaRank(k=3), Lists.of([1, 0, 0])) is None
    True
    """
    if loss.k is None or loss.k >= lists.longest:
        return None
    return f"it is about full lists: k is {loss.k}, the longest list has {lists.longest} documents"


def discount_not_from_1(loss: Any) -> str | None:
    """Return why a theorem about discounts whose first one is 1 is not about a loss, or None.

    >>> discount_not_from_1(LambdaRank(discount=(2.0, 1.0)))
    'it is about discounts that start at 1'
    """
    if discount_values(1, loss.discount)[0] == 1.0:
        return None
    return "it is about discounts that start at 1"


def xe_ndcg_bound(
    scores: ArrayLike,
    lists: Labelled,
    loss: Loss | str = "xendcg",
    *,
    refined: bool = False,
    gamma: ArrayLike | None = None,
    ties: str = "worst",
) -> Bound:
    """Compare XE-NDCG with translated NDCG on a log scale; it is a bound for all labels and all
    gammas.

    ``mean XE >= -log(mean NDCG + mean 1/maxDCG)``, and for each query
    ``XE >= -log(NDCG + 1/maxDCG)``.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Theorem 1. The steps are
    those of its proof: Jensen's inequality (eq. 12 and 13), ``rho <= 1/rank`` (eq. 9),
    ``log2(1 + rank) <= rank`` (eq. 11) and ``maxDCG <= sum 2^y - gamma`` (eq. 10). Holds for every
    tie policy, and for full lists only: ``NDCG@k`` may fall below.

    With ``refined``, NDCG is translated only as much as gamma requires, not at all if every gamma
    is 1: ``mean XE >= -log mean(NDCG + sum_i (1 - gamma_i) rho_i / maxDCG)``, for each query and on
    average. It follows from the same proof, where eq. 11 replaces ``sum (1 - gamma_i) rho_i`` by 1.
    With ``gamma = 1`` this is ``XE >= -log NDCG`` for graded labels, which Theorem 3 of the binary
    paper says for binary ones.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        loss: a ``xendcg`` loss, or its name; gammas that are drawn are those of seed 0 and step 0.
        refined: whether to translate NDCG only as much as gamma requires.
        gamma: numbers in [0, 1], one per document or one for all, instead of those of the loss.
        ties: tie policy of the metric.

    >>> xe_ndcg_bound([1.0, 2.0, 0.0], [3, 0, 1], gamma=0.5)
    XE >= -log(NDCG + 1/maxDCG): 1.513 >= 0.2545 on average over 1 query, the smallest gap 1.258; holds
    >>> bound = xe_ndcg_bound([1.0, 2.0, 0.0], [3, 0, 1], gamma=1.0, refined=True)
    >>> bool(bound.lower[0] == -np.log(metric("ndcg").mean([1.0, 2.0, 0.0], [3, 0, 1], [0, 3])))
    True
    """
    xendcg: Any = losses.REGISTRY.make(loss)
    scores, lists = in_scope(xendcg, scores, lists, not_about_xendcg)
    if gamma is None:
        value = xendcg.bind(lists).values(scores)
        gamma = gammas.gammas_of(xendcg, scores, lists)
    else:
        gamma = gammas.check_gamma(gamma, lists)
        value = gammas.cross_entropy(scores, lists, gamma)

    ideal = metric("dcg").per_query(lists.labels, lists)
    if refined:
        shift_name = "sum (1 - gamma) rho / maxDCG"
        rho = np.exp(gammas.log_softmax(scores, lists.offsets))
        shift = query_sums((1.0 - gamma) * rho, lists.offsets)
    else:
        shift_name = "1/maxDCG"
        shift = np.ones_like(ideal)
    ndcg = metric("ndcg", ties=ties).per_query(scores, lists)
    translated = ndcg + shift / ideal

    # The terms of the proof are sums over documents, divided by the query's sum of targets.
    targets = gammas.gamma_targets(lists, gamma)
    log_expected = gammas.log_expected_probability(scores, targets, lists.offsets)
    target_sum = query_sums(gain_values(lists.labels) + (1.0 - gamma), lists.offsets)
    dcg_by_rank = metric("dcg", discount="reciprocal", ties=ties).per_query(scores, lists)
    dcg = metric("dcg", ties=ties).per_query(scores, lists)
    steps = {
        "Jensen's inequality (13)": -log_expected,
        "rho <= 1/rank (9)": negative_log((dcg_by_rank + shift) / target_sum),
        "log2(1 + rank) <= rank (11)": negative_log((dcg + shift) / target_sum),
    }
    return Bound(
        name=f"XE >= -log(NDCG + {shift_name})",
        upper=value,
        lower=negative_log(translated),
        mean_lower=float(negative_log(mean_over_queries(translated))),
        steps=steps,
    )


def softmax_mrr_bound(
    scores: ArrayLike,
    lists: Labelled,
    loss: Loss | str = "listnet",
    *,
    ties: str = "worst",
) -> Bound:
    """Compare softmax cross entropy with the reciprocal rank on a log scale, which it bounds.

    ``mean XE >= -log MRR``, and ``XE >= -log RR`` for each query.

    Bruch et al., *An Analysis of the Softmax Cross Entropy Loss for Learning-to-Rank with Binary
    Relevance*, ICTIR 2019, Theorem 1 (one relevant document) and Theorem 2 (any number), for binary
    labels. It also holds for graded ones: the reciprocal rank is at least ``sum phi_i / rank_i``
    for any target on the relevant documents, and the softmax target, which gives irrelevant
    documents equal and smallest shares, keeps ``sum phi_i rho_i`` below it too. Holds for every tie
    policy, and for full lists only.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        loss: a ``listnet`` loss, or its name.
        ties: tie policy of the metric.

    >>> softmax_mrr_bound([1.0, 2.0, 0.0], [1, 0, 0])
    XE >= -log RR: 1.408 >= 0.6931 on average over 1 query, the smallest gap 0.7145; holds
    """
    listnet = losses.REGISTRY.make(loss)
    scores, lists = in_scope(listnet, scores, lists, not_about_listnet)
    reciprocal_rank = metric("mrr", ties=ties).per_query(scores, lists)
    return _listnet_bound("XE >= -log RR", listnet, scores, lists, reciprocal_rank)


def softmax_ndcg_bound(
    scores: ArrayLike,
    lists: Labelled,
    loss: Loss | str = "listnet",
    **options: Any,
) -> Bound:
    """Compare softmax cross entropy with NDCG on a log scale, which it bounds for binary labels.

    ``mean XE >= -log mean NDCG``, and ``XE >= -log NDCG`` for each query.

    Bruch et al., *An Analysis of the Softmax Cross Entropy Loss for Learning-to-Rank with Binary
    Relevance*, ICTIR 2019, Theorem 3. Its proof needs the target to be the gain over the sum of
    gains: binary labels, or graded ones with ``target="linear"`` and ``gain="linear"``. The paper
    says that it fails for graded labels; with the softmax target and labels far apart it does
    (`docs/theory.md` has the numbers). Holds for every tie policy, and for full lists only.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        loss: a ``listnet`` loss, or its name.
        options: ``gain`` and ``ties`` of the metric.

    >>> softmax_ndcg_bound([1.0, 2.0, 0.0], [1, 0, 1])
    XE >= -log NDCG: 1.908 >= 0.3661 on average over 1 query, the smallest gap 1.541; holds
    """
    listnet = losses.REGISTRY.make(loss)
    scores, lists = in_scope(listnet, scores, lists, not_about_listnet)
    ndcg = metric("ndcg", **options).per_query(scores, lists)
    return _listnet_bound("XE >= -log NDCG", listnet, scores, lists, ndcg)


def _listnet_bound(name: str, loss: Any, scores: F64, lists: Lists, values: F64) -> Bound:
    """Return the bound ``loss >= -log(metric)`` for softmax cross entropy.

    With ``phi`` the target distribution and ``rho`` the softmax of the scores, the proof passes
    through ``-log sum_i phi_i rho_i`` (Jensen's inequality), which is kept as its step.

    Args:
        name: the inequality in words.
        loss: a ``listnet`` loss.
        scores: one per document.
        lists: the labelled lists.
        values: the metric of each query, NaN where the query is skipped.
    """
    targets = targets_of(loss, scores, lists)
    # log sum_i phi_i rho_i, one per query.
    expected = gammas.log_expected_probability(scores, targets, lists.offsets)
    return Bound(
        name=name,
        upper=loss.bind(lists).values(scores),
        lower=negative_log(values),
        mean_lower=float(negative_log(mean_over_queries(values))),
        steps={"Jensen's inequality": -expected},
    )


def targets_of(loss: SoftmaxLoss, scores: ArrayLike, lists: Labelled) -> F64:
    """Return the target distribution ``phi`` that a softmax loss gives the documents of each query,
    read off its gradient ``rho - phi``, where ``rho`` is the softmax of the scores.

    Args:
        loss: the loss; targets that are drawn are those of seed 0 and step 0.
        scores, lists: the lists, see `tautrank.theory`.

    >>> targets_of(ListNet(), [0.0, 0.0, 0.0], [1, 3, 0])
    array([0.25, 0.75, 0.  ])
    """
    scores, lists = check_scored_lists(scores, lists)
    objective = dataclasses.replace(loss, hessian="diagonal").bind(lists)
    gradient, _ = objective.gradients(scores)
    phi = np.exp(gammas.log_softmax(scores, lists.offsets)) - gradient
    # Where the target is 0, subtracting rho - 0 from rho leaves rounding.
    phi[phi < 1e-15] = 0.0
    is_in_relevant_query = has_relevant(lists)[lists.query]
    return np.where(is_in_relevant_query, phi, 0.0)


def ndcg_cost(scores: ArrayLike, lists: Labelled, **options: Any) -> F64:
    """Return NDCG as a cost of scores, ``sum_i G_i - NDCG``, one per query; NaN without a relevant
    document.

    ``G_i`` is the gain of document ``i`` over the DCG of the best ranking. The cost is ``1 - NDCG`` plus ``sum_i G_i - 1``, which is at least 0 and does not depend on the
    ranking.

    Wang et al., CIKM 2018, eq. 14.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        options: ``k``, ``gain``, ``discount`` and ``ties`` of the metric.

    >>> ndcg_cost([1.0, 2.0], [1, 0]).round(4)  # 1 - 1/log2(3)
    array([0.3691])
    >>> ndcg_cost([1.0, 2.0], [1, 1]).round(4)  # a perfect ranking: 2/(1 + 1/log2(3)) - 1
    array([0.2263])
    """
    scores, lists = check_scored_lists(scores, lists)
    ndcg = NDCG(**options)
    dcg = DCG(k=ndcg.k, gain=ndcg.gain, discount=ndcg.discount)
    # The best ranking has the labels themselves as scores.
    ideal = dcg.per_query(lists.labels, lists)
    total_gain = query_sums(gain_values(lists.labels, ndcg.gain), lists.offsets)
    return total_gain / ideal - ndcg.per_query(scores, lists)


def lambdaloss_bound(
    scores: ArrayLike,
    lists: Labelled,
    loss: Loss | str,
    *,
    ties: str = "worst",
) -> Bound:
    """Compare a LambdaLoss plus the constants of its derivation with the cost that it was derived
    from.

    ================  ===================  ===============================================  =========
    loss              upper side           lower side                                       where
    ================  ===================  ===============================================  =========
    ``ranknet``       loss                 pairs that are out of order                      eq. 12
    ``arp-loss1``     loss + C1            ``sum y_i rank_i``                               sec. 5.1
    ``arp-loss2``     loss + C1 + C2 + C3  ``sum y_i rank_i``                               sec. 5.1
    ``ndcg-loss1``    loss                 ``sum G_i - NDCG``                               sec. 5.2
    ``ndcg-loss2``    loss + C2 + C3       ``sum G_i - NDCG``                               eq. 16
    ``lambdarank``    loss + C2 + C3       ``sum_i G_i sum_{j<i} abs(1/D_i - 1/D_j)``       Prop. 5.1
    ``ndcg-loss2++``  loss + C2 + C3       LambdaRank's metric + mu times the cost of NDCG  eq. 19
    ================  ===================  ===============================================  =========

    With ``w_ij`` the rank part of the weight (1 for ARP) and ``u`` the label or ``G``:
    ``C1 = sum u_i``; ``C2 = sum w_ij u_j`` over the unordered pairs of equal labels;
    ``C3 = sum w_ij min(u_i, u_j)`` over the unordered pairs of different labels. All but ARP's
    depend on the ranking, and are constant in the M-step only. (The paper prints ARP's C2 as half a
    sum over all ``i`` and ``j`` of equal labels; the terms ``i = j`` in it are C1/2 too much.)

    Holds for every sigma, every tie policy, and every discount that starts at 1 (``ndcg-loss1``
    needs ``1/D_r >= 1/r`` as well). With a cutoff ``k`` the ARP losses bound ``arp@k`` and
    ``lambdarank`` bounds ``lambdarank-metric@k``; the losses made from NDCG's cost bound neither it
    nor ``NDCG@k``, and are refused.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        loss: one of the family, or its name, with the hard assignment and without ``norm`` or
            noise.
        ties: tie policy of the metric.

    >>> lambdaloss_bound([0.0, 3.0, 1.0, 2.0], [0, 0, 1, 2], "ndcg-loss2(k=none)")
    ndcg-loss2 + C2 + C3 >= sum G - NDCG: 0.9477 >= 0.4426 on average over 1 query, the smallest gap 0.505; holds
    >>> lambdaloss_bound([0.0, 3.0], [1, 0], "arp-loss1").constants
    {'C1': array([1.])}
    """
    lambdaloss: Any = losses.REGISTRY.make(loss)
    scores, lists = in_scope(lambdaloss, scores, lists, not_about_lambdaloss)
    pair_sums = _sum_pairs(lambdaloss, scores, lists)
    constants: dict[str, F64] = {}
    if isinstance(lambdaloss, ARP_LOSSES):
        constants["C1"] = query_sums(lists.labels, lists.offsets)
    compares_labels = not lambdaloss.every_pair
    if compares_labels and not isinstance(lambdaloss, losses.RankNet):
        constants["C2"] = pair_sums.of_equal_labels
        constants["C3"] = pair_sums.of_smaller_weights
    total_of_constants = sum(constants.values(), start=np.zeros(lists.n_queries))

    cost_name, cost = _cost_below(lambdaloss, scores, lists, pair_sums, ties)
    upper_name = " + ".join([lambdaloss.name, *constants])
    zero_one_loss = pair_sums.out_of_order
    return Bound(
        name=f"{upper_name} >= {cost_name}",
        upper=lambdaloss.bind(lists).values(scores) + total_of_constants,
        lower=np.where(has_relevant(lists), cost, np.nan),
        steps={"0-1 loss <= logistic loss (12)": zero_one_loss + total_of_constants},
        constants=constants,
    )


def ndcg_cost_bound(
    scores: ArrayLike,
    lists: Labelled,
    loss: Loss | str,
    *,
    ties: str = "worst",
) -> Bound:
    """Compare a LambdaLoss alone, without constants, with ``1 - NDCG``.

    The constants of `lambdaloss_bound` move with the ranking, which says little about the loss
    itself. Without them:

    - ``ndcg-loss1`` is above ``sum G - NDCG``, and so above ``1 - NDCG``;
    - ``lambdarank``: the ideal ranking swaps the irrelevant documents above some rank for the
      relevant ones below it. Each such swap is a pair that is out of order, so the sum over all of
      those is at least ``1 - NDCG``; a graded gain is a sum of binary ones;
    - ``ndcg-loss2``: ``1 - NDCG`` is the 0-1 loss plus what ``C2 + C3`` has more than in the ideal
      ranking. That is never positive: ``delta`` falls with the distance, and the ideal ranking has
      all relevant documents side by side;
    - ``ndcg-loss2++`` contains ``lambdarank``.

    The last three are not in the paper: Wang et al., CIKM 2018, sec. 5. They hold for every sigma
    and every tie policy, for full lists; ``ndcg-loss2`` needs a discount whose steps shrink, as
    those of ``log2`` and ``reciprocal`` do. With a cutoff ``k`` no member is above ``1 - NDCG@k``;
    a discount table that ends at ``k``, with ``k=None``, gives ``lambdarank`` that property.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        loss: ``ndcg-loss1``, ``ndcg-loss2``, ``ndcg-loss2++`` or ``lambdarank``, or its name, as in
            `lambdaloss_bound`.
        ties: tie policy of the metric.

    >>> ndcg_cost_bound([0.0, 3.0, 1.0, 2.0], [0, 0, 1, 2], "ndcg-loss2(k=none)")
    ndcg-loss2 >= 1 - NDCG: 0.846 >= 0.341 on average over 1 query, the smallest gap 0.505; holds
    """
    lambdaloss: Any = losses.REGISTRY.make(loss)
    scores, lists = in_scope(lambdaloss, scores, lists, not_about_ndcg_cost)
    ndcg = NDCG(gain=lambdaloss.gain, discount=lambdaloss.discount, ties=ties)
    zero_one_loss = _sum_pairs(lambdaloss, scores, lists).out_of_order
    return Bound(
        name=f"{lambdaloss.name} >= 1 - NDCG",
        upper=lambdaloss.bind(lists).values(scores),
        lower=1.0 - ndcg.per_query(scores, lists),
        steps={"0-1 loss <= logistic loss (12)": zero_one_loss},
    )


def lambdarank_metric_bound(scores: ArrayLike, lists: Labelled, **options: Any) -> Bound:
    """Compare the metric that LambdaRank bounds with the cost of NDCG, which it bounds in turn.

    ``sum_i G_i sum_{j<i} abs(1/D_i - 1/D_j) >= sum_i G_i (1 - 1/D_i)``, because the sum holds the
    term ``j = 1``.

    Wang et al., CIKM 2018, sec. 5.3, after eq. 17. Holds for every tie policy (the same on both
    sides), for full lists, and for discounts that start at 1.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        options: ``gain``, ``discount`` and ``ties`` of both metrics.

    >>> lambdarank_metric_bound([1.0, 2.0, 3.0], [1, 0, 0])
    LambdaRank's metric >= sum G - NDCG: 0.6309 >= 0.5 on average over 1 query, the smallest gap 0.1309; holds
    """
    scores, lists = check_scored_lists(scores, lists)
    lambdarank_metric = metric("lambdarank-metric", k=None, **options)
    return Bound(
        name="LambdaRank's metric >= sum G - NDCG",
        upper=lambdarank_metric.per_query(scores, lists),
        lower=ndcg_cost(scores, lists, **options),
    )


class _PairSums(NamedTuple):
    """Sums over the pairs of documents of each query, where ``w_ij`` is the part of the pair's
    weight that depends on the ranks, and ``u_i`` the document's label or gain.

    Attributes:
        out_of_order: ``sum w_ij min(|u_i - u_j|, cap)`` over the pairs that are out of order.
        of_equal_labels: ``sum w_ij u_j`` over the pairs with equal labels; 0 for losses over every
            pair.
        of_smaller_weights: ``sum w_ij min(u_i, u_j)`` over the pairs with different labels; 0 for
            losses over every pair.
    """

    out_of_order: F64
    of_equal_labels: F64
    of_smaller_weights: F64


def _sum_pairs(loss: LambdaLoss, scores: F64, lists: Lists) -> _PairSums:
    """Return, for each query, the 0-1 loss of a LambdaLoss (the weights of the pairs that are out
    of order, added up) and the sums over pairs that its constants C2 and C3 are made of.

    A loss over every pair has no such constants. For it a document counts once for each document
    ranked above it, up to the cutoff, so its 0-1 loss needs no loop over pairs.
    """
    objective = loss.bind(lists)
    assert isinstance(objective, _PairObjective)  # as of every LambdaLoss; said for the types
    ranks = objective._ranks(scores)  # from 0, so the number of documents above
    if not loss.every_pair:
        return _sum_pairs_of_labels(objective, ranks, lists)

    # The tables hold the parts of the weights. The weight of a document is its label or gain (`documents`) times the part `v` of its rank.
    tables = objective._tables
    cutoff = objective._n_rows
    n_documents_above = np.minimum(ranks, cutoff)
    document_weights = tables.documents * tables.v[ranks]
    zero_one_loss = query_sums(document_weights * n_documents_above, lists.offsets)
    no_constant = np.zeros(lists.n_queries)
    return _PairSums(
        out_of_order=zero_one_loss,
        of_equal_labels=no_constant,
        of_smaller_weights=no_constant,
    )


def _sum_pairs_of_labels(objective: _PairObjective, ranks: I32, lists: Lists) -> _PairSums:
    """Return sums over the pairs of documents of each query, for a loss over the pairs of
    different labels.

    Document ``i`` is ranked above ``j`` in each pair; ``w`` is the part of the pair's weight that
    depends on the two ranks, ``u`` the part that depends on a document, its label or gain.

    Args:
        objective: the loss, bound to the lists; its arrays are in the order of its arrangement.
        ranks: ranks from 0, in that order.
        lists: the lists.
    """
    by_rank = np.lexsort((ranks, lists.query))
    rank = ranks[by_rank]
    label_level = objective._levels[by_rank]
    tables = objective._tables
    u = tables.documents[by_rank]
    cutoff = objective._n_rows

    sums = _PairSums(*np.zeros((3, lists.n_queries)))
    for above, below in document_pairs(lists.offsets):
        is_within_cutoff = rank[above] < cutoff
        i = above[is_within_cutoff]
        j = below[is_within_cutoff]
        query = lists.query[i]
        # In the table the weight of the distance d is entry d + 2.
        weight_by_distance = tables.gap[rank[j] - rank[i] + 2]
        w = tables.v[rank[i]] - tables.v[rank[j]] + weight_by_distance

        is_out_of_order = label_level[i] < label_level[j]
        difference = np.minimum(u[j] - u[i], objective.loss._cap)
        np.add.at(sums.out_of_order, query, np.where(is_out_of_order, difference, 0.0) * w)

        is_equal = label_level[i] == label_level[j]
        np.add.at(sums.of_equal_labels, query, np.where(is_equal, u[j], 0.0) * w)

        smaller = np.minimum(u[i], u[j])
        np.add.at(sums.of_smaller_weights, query, np.where(is_equal, 0.0, smaller) * w)
    return sums


def _cost_below(
    loss: Any, scores: F64, lists: Lists, pair_sums: _PairSums, ties: str
) -> tuple[str, F64]:
    """Return the ranking cost that a LambdaLoss (plus its constants) is never below: its name, and
    its value for each query.

    Args:
        loss: a member of the LambdaLoss family.
        scores: one per document.
        lists: the labelled lists.
        pair_sums: sums over the pairs of each query; RankNet's cost is one of them.
        ties: tie policy of the metric that the cost is made of.
    """
    if isinstance(loss, losses.RankNet):
        return "pairs out of order", pair_sums.out_of_order
    if isinstance(loss, ARP_LOSSES):
        arp = metric("arp", k=loss.k, ties=ties)
        # A metric prints the options that differ from its defaults; "worst" is the default of ties.
        name_without_ties = str(dataclasses.replace(arp, ties="worst"))
        return name_without_ties, arp.per_query(scores, lists)

    options = {"gain": loss.gain, "discount": loss.discount, "ties": ties}
    lambdarank_metric = metric("lambdarank-metric", k=loss.k, **options)
    lambdarank_cost = lambdarank_metric.per_query(scores, lists)
    if isinstance(loss, LambdaRank):
        return "LambdaRank's metric", lambdarank_cost

    cost = ndcg_cost(scores, lists, **options)
    if isinstance(loss, losses.NDCGLoss2PP):
        return "LambdaRank's metric + mu (sum G - NDCG)", lambdarank_cost + loss.mu * cost
    return "sum G - NDCG", cost
