"""What the LambdaLoss family bounds: the average relevance position, the cost of NDCG, and LambdaRank's own metric.

Every theorem here rests on one inequality: a document ``j`` that stands above ``i`` counts 1, and
``log2(1 + exp(-sigma (s_i - s_j)))`` is at least that, since ``s_j >= s_i``. A tie gives exactly 1, so the theorems
hold for every tie policy of the metric. The constants belong to the current ranking, whose ties are the worst case's.

Wang, Li, Golbandi, Bendersky and Najork, *The LambdaLoss Framework for Ranking Metric Optimization*, CIKM 2018, sec. 5.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.errors import OptionError
from tautrank.losses import ARPLoss1, ARPLoss2, LambdaLoss, LambdaRank, Loss, NDCGLoss1, NDCGLoss2, NDCGLoss2PP, RankNet
from tautrank.losses.base import Lists
from tautrank.losses.pairwise import _PairObjective
from tautrank.metrics import DCG, NDCG, discount_values, gain_values, metric
from tautrank.metrics.ordering import F64, query_sums
from tautrank.theory.bound import Bound, loss_without_noise
from tautrank.theory.distributions import check_scored_lists


def ndcg_cost(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, **options: Any) -> F64:
    """Return NDCG as a cost, ``sum_i G_i - NDCG``, one per query; NaN without a relevant document.

    It is ``1 - NDCG`` plus ``sum_i G_i - 1``, which is at least 0 and does not depend on the ranking.

    Wang et al., CIKM 2018, eq. 14.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        options: ``k``, ``gain``, ``discount`` and ``ties`` of the metric.

    >>> ndcg_cost([1.0, 2.0], [1, 0], [0, 2]).round(4)  # 1 - 1/log2(3)
    array([0.3691])
    >>> ndcg_cost([1.0, 2.0], [1, 1], [0, 2]).round(4)  # a perfect ranking: 2/(1 + 1/log2(3)) - 1
    array([0.2263])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    y, cuts = lists.labels, lists.offsets
    judge = NDCG(**options)
    ideal = DCG(k=judge.k, gain=judge.gain, discount=judge.discount).per_query(y, y, cuts)
    return query_sums(gain_values(y, judge.gain), cuts) / ideal - judge.per_query(s, y, cuts)


def lambdaloss_bound(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, loss: Loss | str, *, ties: str = "worst"
) -> Bound:
    """Compare a LambdaLoss plus the constants of its derivation with the cost that it was derived from.

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

    With ``w_ij`` the rank part of the weight (1 for ARP) and ``u`` the label or ``G``: ``C1 = sum u_i``;
    ``C2 = sum w_ij u_j`` over the unordered pairs of equal labels; ``C3 = sum w_ij min(u_i, u_j)`` over the unordered
    pairs of unlike labels. All but ARP's depend on the ranking, and are constant in the M-step only. (The paper prints
    ARP's C2 as half a sum over all ``i`` and ``j`` of equal labels; the terms ``i = j`` in it are C1/2 too much.)

    Holds for every sigma, every tie policy, and every discount that starts at 1 (``ndcg-loss1`` needs ``1/D_r >= 1/r``
    as well). With a cutoff ``k`` the ARP losses bound ``arp@k`` and ``lambdarank`` bounds ``lambdarank-metric@k``; the
    losses made from NDCG's cost bound neither it nor ``NDCG@k``, and are refused.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        loss: one of the family, or its name, with the hard assignment and without ``norm`` or noise.
        ties: tie policy of the metric.

    >>> lambdaloss_bound([0.0, 3.0, 1.0, 2.0], [0, 0, 1, 2], [0, 4], "ndcg-loss2(k=none)")
    ndcg-loss2 + C2 + C3 >= sum G - NDCG: 0.9477 >= 0.4426 on average over 1 query, the smallest gap 0.505; holds
    >>> lambdaloss_bound([0.0, 3.0], [1, 0], [0, 2], "arp-loss1").constants
    {'C1': array([1.])}
    """
    chosen = _plain_lambdaloss(loss)
    s, lists = check_scored_lists(scores, labels, offsets)
    y, cuts = lists.labels, lists.offsets
    sums = _pair_sums(chosen, s, lists)
    constants: dict[str, F64] = {}
    if isinstance(chosen, ARPLoss1 | ARPLoss2):
        constants["C1"] = query_sums(y, cuts)
    if not (chosen.every_pair or isinstance(chosen, RankNet)):
        constants |= {"C2": sums[:, 1], "C3": sums[:, 2]}
    added = sum(constants.values(), start=np.zeros(cuts.size - 1))
    lower_name, lower = _lower_side(chosen, s, lists, sums, ties)
    return Bound(
        name=f"{' + '.join([chosen.name, *constants])} >= {lower_name}",
        upper=chosen.bind(y, cuts).values(s) + added,
        lower=np.where(lists.has_relevant, lower, np.nan),
        steps={"0-1 loss <= logistic loss (12)": sums[:, 0] + added},
        constants=constants,
    )


def ndcg_cost_bound(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, loss: Loss | str, *, ties: str = "worst"
) -> Bound:
    """Compare a LambdaLoss alone, without constants, with ``1 - NDCG``.

    The constants of `lambdaloss_bound` move with the ranking, which says little about the loss itself. Without them:

    - ``ndcg-loss1`` is above ``sum G - NDCG``, and so above ``1 - NDCG``;
    - ``lambdarank``: the ideal ranking swaps the irrelevant documents above some rank for the relevant ones below it.
      Each such swap is a pair that is out of order, so the sum over all of those is at least ``1 - NDCG``; a graded
      gain is a sum of binary ones;
    - ``ndcg-loss2``: ``1 - NDCG`` is the 0-1 loss plus what ``C2 + C3`` has more than in the ideal ranking. That is
      never positive: ``delta`` falls with the distance, and the ideal ranking has all relevant documents side by side;
    - ``ndcg-loss2++`` contains ``lambdarank``.

    The last three are not in the paper: Wang et al., CIKM 2018, sec. 5. They hold for every sigma and every tie
    policy, for full lists; ``ndcg-loss2`` needs a discount whose steps shrink, as those of ``log2`` and ``reciprocal``
    do. With a cutoff ``k`` no member is above ``1 - NDCG@k``; a discount table that ends at ``k``, with ``k=None``,
    gives ``lambdarank`` that property.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        loss: ``ndcg-loss1``, ``ndcg-loss2``, ``ndcg-loss2++`` or ``lambdarank``, or its name, as in `lambdaloss_bound`.
        ties: tie policy of the metric.

    >>> ndcg_cost_bound([0.0, 3.0, 1.0, 2.0], [0, 0, 1, 2], [0, 4], "ndcg-loss2(k=none)")
    ndcg-loss2 >= 1 - NDCG: 0.846 >= 0.341 on average over 1 query, the smallest gap 0.505; holds
    """
    chosen = _plain_lambdaloss(loss)
    if not isinstance(chosen, NDCGLoss1 | NDCGLoss2 | NDCGLoss2PP | LambdaRank):
        raise OptionError(f"loss: found {chosen}; expected a LambdaLoss made from gains")
    s, lists = check_scored_lists(scores, labels, offsets)
    check_full_lists(chosen, lists)
    y, cuts = lists.labels, lists.offsets
    ndcg = metric("ndcg", gain=chosen.gain, discount=chosen.discount, ties=ties).per_query(s, y, cuts)
    return Bound(
        name=f"{chosen.name} >= 1 - NDCG",
        upper=chosen.bind(y, cuts).values(s),
        lower=1.0 - ndcg,
        steps={"0-1 loss <= logistic loss (12)": _pair_sums(chosen, s, lists)[:, 0]},
    )


def lambdarank_metric_bound(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, **options: Any) -> Bound:
    """Compare the metric that LambdaRank bounds with the cost of NDCG, which it bounds in turn.

    ``sum_i G_i sum_{j<i} abs(1/D_i - 1/D_j) >= sum_i G_i (1 - 1/D_i)``, because the sum holds the term ``j = 1``.

    Wang et al., CIKM 2018, sec. 5.3, after eq. 17. Holds for every tie policy (the same on both sides), for full
    lists, and for discounts that start at 1.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        options: ``gain``, ``discount`` and ``ties`` of both metrics.

    >>> lambdarank_metric_bound([1.0, 2.0, 3.0], [1, 0, 0], [0, 3])
    LambdaRank's metric >= sum G - NDCG: 0.6309 >= 0.5 on average over 1 query, the smallest gap 0.1309; holds
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    y, cuts = lists.labels, lists.offsets
    return Bound(
        name="LambdaRank's metric >= sum G - NDCG",
        upper=metric("lambdarank-metric", k=None, **options).per_query(s, y, cuts),
        lower=ndcg_cost(s, y, cuts, **options),
    )


def check_full_lists(loss: LambdaLoss, lists: Lists) -> None:
    """Refuse a cutoff that shortens a list.

    Args:
        loss: the loss.
        lists: the labelled lists.

    >>> check_full_lists(LambdaRank(k=2), Lists.of([1, 0, 0], [0, 3], None))
    Traceback (most recent call last):
    tautrank.errors.OptionError: loss: found k=2 and a list of 3 documents; expected k=None or at least 3, because with
    a cutoff the loss bounds neither NDCG nor NDCG@k
    """
    if loss.k is not None and loss.k < lists.longest:
        raise OptionError(
            f"loss: found k={loss.k} and a list of {lists.longest} documents; expected k=None or at least "
            f"{lists.longest}, because with a cutoff the loss bounds neither NDCG nor NDCG@k"
        )


def _plain_lambdaloss(loss: Loss | str) -> LambdaLoss:
    # The class itself is abstract, which is no hindrance to asking for its kind.
    chosen = loss_without_noise(loss, LambdaLoss, "one of the LambdaLoss family")
    if chosen.norm is not None:
        raise OptionError(f"loss: found norm={chosen.norm}; expected norm=None, which is the loss of the paper")
    if chosen._draws_rankings:
        raise OptionError("loss: found assignment=soft; expected assignment=hard, for which the bound was derived")
    return chosen


def _pair_sums(loss: LambdaLoss, scores: F64, lists: Lists) -> F64:
    """Return the columns of `pair_sums`; only the first one for losses over every pair."""
    from tautrank.theory._kernels import pair_sums

    objective = loss.bind(lists.labels, lists.offsets)
    assert isinstance(objective, _PairObjective)
    ranks = objective._ranks(scores)
    v, gap = objective._tables
    if loss.every_pair:
        above = np.minimum(ranks, objective._rows)
        sums = np.zeros((lists.sizes.size, 3))
        sums[:, 0] = query_sums(objective._weights * v[ranks] * above, lists.offsets)
    else:
        weights, levels = objective._weights, objective._levels
        sums = pair_sums(ranks, weights, levels, lists.offsets, v, gap, loss._cap, objective._rows)
    return sums


def _lower_side(loss: LambdaLoss, scores: F64, lists: Lists, sums: F64, ties: str) -> tuple[str, F64]:
    """Return the name of the cost that the loss bounds, and its values."""
    y, cuts = lists.labels, lists.offsets
    if isinstance(loss, RankNet):
        return "pairs out of order", sums[:, 0]
    if isinstance(loss, ARPLoss1 | ARPLoss2):
        arp = metric("arp", k=loss.k, ties=ties)
        return str(dataclasses.replace(arp, ties="worst")), arp.per_query(scores, y, cuts)
    if isinstance(loss, LambdaRank):
        m = metric("lambdarank-metric", k=loss.k, gain=loss.gain, discount=loss.discount, ties=ties)
        return "LambdaRank's metric", m.per_query(scores, y, cuts)
    if not isinstance(loss, NDCGLoss1 | NDCGLoss2 | NDCGLoss2PP):
        raise OptionError(
            f"loss: found {loss}; expected a loss whose cost is known: ranknet, lambdarank, arp or ndcg-loss"
        )
    check_full_lists(loss, lists)
    if discount_values(1, loss.discount)[0] != 1.0:
        raise OptionError("loss: found a discount that does not start at 1; expected 1 for the first rank")
    cost = ndcg_cost(scores, y, cuts, gain=loss.gain, discount=loss.discount, ties=ties)
    if isinstance(loss, NDCGLoss1 | NDCGLoss2):
        return "sum G - NDCG", cost
    m = metric("lambdarank-metric", gain=loss.gain, discount=loss.discount, ties=ties)
    return "LambdaRank's metric + mu (sum G - NDCG)", m.per_query(scores, y, cuts) + loss.mu * cost
