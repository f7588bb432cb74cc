"""Directness: Theorem 1 for every loss, Theorem 2's bounds against SoftRank itself, and what is
wrong in both.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfc

from tautrank.data import Lists
from tautrank.errors import OptionError
from tautrank.losses import MSE, REGISTRY, loss
from tautrank.metrics import metric
from tautrank.theory import (
    Directness,
    Surrogate,
    directness,
    directness_among,
    softrank_bound,
    softrank_bound_as_stated,
    softrank_curve,
    softrank_ndcg_bound,
    softrank_sigma_limit,
    softrank_sigma_limit_as_stated,
    spread_scorings,
    surrogate,
)
from tautrank.theory.directness import best_scorings
from tautrank.theory.softrank_bounds import least_distances
from tests.theory_lists import Scored, lists, make_lists

many = settings(max_examples=40, deadline=None, derandomize=True)
WITH_SCALE = sorted(set(REGISTRY) - {"mse", "ranknet", "yetiloss"})


# Theorem 1


def premises_hold(found: Directness) -> bool:
    """Whether the first ranker is no worse by the loss, and the second by the metric, than the
    other.
    """
    by_loss, by_metric = (
        np.nanmean(found.loss_costs, axis=1),
        np.nanmean(found.metric_costs, axis=1),
    )
    return bool(by_loss[0] <= by_loss[1] and by_metric[1] <= by_metric[0])


@pytest.mark.parametrize("name", WITH_SCALE)
def test_the_guarantee_holds_for_every_loss_on_the_queries_chosen_by(name: str) -> None:
    for seed in range(3):
        _, lists = make_lists(seed, "normal", "graded", queries=40, longest=9)
        measured = directness_among(name, spread_scorings(lists, seed=seed), lists)
        assert premises_hold(measured)
        assert 0.0 <= measured.difference <= measured.guarantee_of_means + 1e-12
        assert (
            measured.guarantee_of_means
            <= measured.eps1 + measured.eps2 + 1e-12
            <= measured.guarantee + 1e-12
        )
        assert measured.margin >= 0.0


@many
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 6))
def test_the_guarantee_holds_for_any_two_costs(seed: int, queries: int, scorings: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (
        rng.normal(size=(2, scorings, queries)) * rng.choice([0.01, 1.0], 2)[:, None, None]
    )
    best = [int(np.argmin(first.mean(axis=1))), int(np.argmin(second.mean(axis=1)))]
    measured = Directness(first[best], second[best])
    assert premises_hold(measured)
    assert measured.difference <= measured.guarantee_of_means + 1e-12
    assert measured.margin >= -1e-12


def test_the_numbers_by_hand() -> None:
    # O1 of softrank is 1 - SoftNDCG; with two documents SoftNDCG is known in closed form.
    def cost(gap: float) -> float:
        wrong = 0.5 * math.erfc(gap / 2)
        return wrong * (1 - 1 / math.log2(3))

    lists = Lists.of([1, 0, 0, 1], group=[2, 2])
    by_loss, by_metric = [2.0, 0.0, 0.0, 1.0], [1.0, 0.0, 3.0, 0.0]
    measured = directness("softrank", by_loss, by_metric, lists)
    np.testing.assert_allclose(
        measured.loss_costs, [[cost(2), cost(1)], [cost(1), cost(-3)]], atol=1e-9
    )
    low = 1 - 1 / math.log2(3)
    np.testing.assert_allclose(measured.metric_costs, [[0, 0], [0, low]], atol=1e-12)
    assert measured.eps1 == pytest.approx(cost(1), abs=1e-9)
    assert measured.eps2 == pytest.approx(cost(1), abs=1e-9)
    assert measured.guarantee == pytest.approx(3 * cost(1), abs=1e-9)
    assert measured.difference == pytest.approx(-low / 2)
    assert not premises_hold(measured)  # by the metric the second ranker is the worse one
    assert "measured -0.1845" in repr(measured)


def test_theorem_1_as_stated_fails_on_unseen_queries() -> None:
    # Two rankers of lists of 40 documents, one of them relevant; softrank is within 0.0021 of 1 -
    # NDCG throughout.
    # By NDCG the second is better on the two queries they are chosen by (rank 39 instead of 40 in
    # the first), by softrank the first one is (its scores in the second query are further apart); a
    # third query is unseen.
    y = np.zeros(40)
    y[0] = 1.0
    ladder = -10.0 * np.arange(40)

    def with_rank(rank: int) -> np.ndarray:
        return np.concatenate((ladder[rank - 1 : rank], np.delete(ladder, rank - 1)))

    narrow = with_rank(1)
    narrow[0] = ladder[1] + 3.6  # 3.6 above the second
    first = [with_rank(40), with_rank(1), with_rank(40)]
    second = [with_rank(39), narrow, with_rank(1)]
    seen_lists = Lists.of(np.tile(y, 2), group=[40, 40])
    best = best_scorings("softrank", [np.concatenate(r[:2]) for r in (first, second)], seen_lists)
    assert best == (0, 1)
    trained = directness(
        "softrank", np.concatenate(first[:2]), np.concatenate(second[:2]), seen_lists
    )
    assert premises_hold(trained)
    assert 0 < trained.difference <= trained.guarantee_of_means
    everywhere = Lists.of(np.tile(y, 3), group=[40, 40, 40])
    measured = directness("softrank", np.concatenate(first), np.concatenate(second), everywhere)
    assert measured.guarantee < 0.003
    assert measured.difference > 0.27
    assert measured.margin < -0.26


@pytest.mark.parametrize("name", WITH_SCALE)
def test_what_a_loss_is_read_as(name: str) -> None:
    s, lists = make_lists(4, "normal", "binary", queries=30, longest=8)
    subject = surrogate(name)
    o1, o2 = subject.costs(s, lists, 0), subject.metric_costs(s, lists)
    kept = ~np.isnan(o2)
    if name in {
        "lambdarank",
        "ndcg-loss1",
        "ndcg-loss2",
        "ndcg-loss2++",
        "listnet",
        "arp-loss1",
        "arp-loss2",
    }:
        assert (o1[kept] >= o2[kept] - 1e-12).all()  # an upper bound of the cost
    if name == "xendcg":
        ideal = metric("dcg").per_query(lists.labels, lists)
        assert (o1[kept] >= (o2 - 1 / ideal)[kept]).all()
    if name in {"softrank", "stochasticrank", "reinforce", "plrank", "approxndcg"}:
        assert ((o1[kept] >= -1e-9) & (o1[kept] <= 1)).all()
        far = subject.costs(1e6 * s, lists, 0)
        np.testing.assert_allclose(far[kept], o2[kept], atol=1e-9)  # smoothing ends
    # A perfect ranking far apart costs nothing, but for the losses that never reach their bound.
    best = subject.costs(1e3 * lists.labels, lists, 0) - subject.metric_costs(lists.labels, lists)
    if name in {
        "lambdarank",
        "ndcg-loss2",
        "ndcg-loss2++",
        "arp-loss2",
        "stochasticrank",
        "plrank",
        "neuralndcg",
    }:
        assert (np.abs(best[kept]) <= 1e-9).all()


def test_readings_in_terms_of_the_losses() -> None:
    s, lists = make_lists(9, "normal", "graded", queries=30, longest=8)
    kept = ~np.isnan(metric("ndcg").per_query(s, lists))

    def value(text: str) -> np.ndarray:
        return loss(text).bind(lists).values(s)[kept]

    def read(text: str) -> np.ndarray:
        return surrogate(text).costs(s, lists, 0)[kept]

    np.testing.assert_allclose(
        read("ndcg-loss2++(mu=3)"), (value("lambdarank") + 3 * value("ndcg-loss2")) / 4, rtol=1e-9
    )
    np.testing.assert_allclose(
        read("xendcg(gamma=1)"), 1 - np.exp(-value("xendcg(gamma=1)")), rtol=1e-12
    )
    gains = np.array(
        [np.sum(2.0 ** lists.labels[a:b] - 1) for a, b in itertools.pairwise(lists.offsets)]
    )
    ideal = metric("dcg@3").per_query(lists.labels, lists)
    np.testing.assert_allclose(
        read("ndcg-loss1(k=3)"), value("ndcg-loss1(k=3)") - (gains / ideal)[kept] + 1, rtol=1e-9
    )
    totals = np.array([np.sum(lists.labels[a:b]) for a, b in itertools.pairwise(lists.offsets)])
    np.testing.assert_allclose(read("arp-loss1"), value("arp-loss1") + totals[kept], rtol=1e-9)


def test_losses_without_a_scale_and_of_ones_own() -> None:
    with pytest.raises(OptionError, match=r"expected one of tautrank\.metrics$"):
        surrogate(loss("stochasticrank", metric=_Own()))

    @dataclass(frozen=True, kw_only=True, repr=False)
    class Squares(MSE):
        name = "squares"

    with pytest.raises(OptionError):
        surrogate(Squares())

    @surrogate.register(Squares)
    def _(item: Squares) -> Surrogate:
        return Surrogate(
            item, metric("ndcg"), "squares", lambda s, lists, seed: item.bind(lists).values(s)
        )

    assert repr(surrogate(Squares())) == "squares read as squares, compared with 1 - ndcg"
    assert directness_among(Squares(), [[0.0, 1.0], [0.0, 2.0]], [0, 1]).eps1 == 0.0


class _Own:
    breaks_at, k = "scores", None

    def document_values(self, labels):
        return labels

    def sums(self, values, scores, k):
        return values

    def moved(self, values, sums, document, place, k):
        return 0.0


def test_queries_without_a_relevant_document_are_left_out() -> None:
    measured = directness(
        "softrank", [0.0, 1.0, 5.0, 5.0], [1.0, 0.0, 5.0, 5.0], Lists.of([1, 0, 0, 0], [0, 2, 4])
    )
    assert np.isnan(measured.loss_costs[:, 1]).all()
    assert np.isnan(measured.metric_costs[:, 1]).all()
    nothing = directness("softrank", [0.0], [0.0], [0])
    assert math.isnan(nothing.margin)
    assert repr(nothing) == "no query with a relevant document"


# Theorem 2


def spaced(seed: int, exactly: bool, longest: int = 14, labels: str = "graded") -> Scored:
    """Lists without ties, whose scores are exactly or at least 1 apart."""
    _, lists = make_lists(seed, "normal", labels, queries=60, longest=longest)
    rng = np.random.default_rng(seed + 1)
    s = np.empty(lists.labels.size)
    for start, stop in itertools.pairwise(lists.offsets):
        gaps = np.ones(stop - start) + (0.0 if exactly else 1.0) * rng.exponential(
            size=stop - start
        )
        s[start:stop] = rng.permutation(np.cumsum(gaps))
    return s, lists


@many
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.floats(0.01, 0.9999),
    st.sampled_from(["graded", "binary", "single"]),
)
def test_the_proofs_bound_and_the_stated_one_hold(
    seed: int, exactly: bool, share: float, labels: str
) -> None:
    s, lists = spaced(seed, exactly, labels=labels)
    sizes = np.diff(lists.offsets)
    delta = least_distances(s, lists.offsets)
    for limit, version in (
        (softrank_sigma_limit, "proof"),
        (softrank_sigma_limit_as_stated, "stated"),
    ):
        # Each query at the same share of its own limit: stretching the scores is shrinking sigma.
        at = np.minimum(limit(1.0, np.maximum(sizes, 1)), 2.0)
        stretch = np.where(np.isfinite(delta), 1.0 / (share * at * delta), 1.0)
        bound = softrank_ndcg_bound(
            s * np.repeat(stretch, sizes), lists, "softrank(sigma=1)", version=version
        )
        spoken = ~np.isnan(bound.gap)
        if version == "proof":
            relevant = np.array(
                [
                    lists.labels[a:b].max(initial=0.0) > 0
                    for a, b in itertools.pairwise(lists.offsets)
                ]
            )
            assert (spoken == relevant).all()
        assert bound.holds(), bound
        # It is not even near: the difference is about a hundredth of the bound, or less, but for
        # rounding.
        assert (bound.lower[spoken] <= 0.0105 * bound.upper[spoken] + 1e-9).all()


@many
@given(
    lists(longest=9), st.floats(0.01, 100.0), st.sampled_from([None, 1, 3, 10]), st.integers(0, 3)
)
def test_the_sharper_bound_holds_everywhere(
    data: Scored, sigma: float, k: int | None, kind: int
) -> None:
    discount = ["log2", "reciprocal", (1.0, 0.9, 0.1), "log2"][kind]
    gain = "linear" if kind == 3 else "exp2"
    subject = loss("softrank", sigma=sigma, k=k, discount=discount, gain=gain)
    bound = softrank_ndcg_bound(*data, subject, version="contests")
    assert bound.holds(1e-7), bound
    # For every tie policy, since a tied contest is as likely to go either way.
    s, lists = data
    soft = 1.0 - subject.bind(lists).values(s)
    for ties in ("best", "expected", "input"):
        ndcg = metric("ndcg", k=k, gain=gain, discount=discount, ties=ties).per_query(s, lists)
        assert not (np.abs(ndcg - soft) > bound.upper + 1e-7).any()


def test_the_sharper_bound_is_reached() -> None:
    # Two tied documents: half of the step, whichever way the metric ranks them.
    bound = softrank_ndcg_bound([1.0, 1.0], [1, 0], version="contests")
    assert bound.upper[0] == pytest.approx(0.5 * (1 - 1 / math.log2(3)))
    assert bound.gap[0] == pytest.approx(0.0, abs=1e-9)


def test_the_bounds_in_order() -> None:
    # With five documents (N - 1)/4 is 1; with more the stated bound is the smaller one, with fewer
    # the larger one.
    sigma = np.linspace(0.05, 0.4, 50)
    for n in (2, 3, 4, 5, 6, 20, 100):
        proof, stated = softrank_bound(sigma, 1.0, n, 2), softrank_bound_as_stated(sigma, 1.0, n, 2)
        numbers = np.isfinite(proof) & np.isfinite(stated)
        assert numbers.any()
        if n <= 5:
            assert (proof <= stated + 1e-15)[numbers].all()
        if n >= 5:
            assert (proof >= stated - 1e-15)[numbers].all()
        assert (np.diff(proof[np.isfinite(proof)]) > 0).all()  # it falls with sigma
    np.testing.assert_allclose(
        softrank_bound(0.2, 1.0, 9, 3),
        8
        * 9
        * (
            8 * 0.1 / math.sqrt(math.pi) * math.exp(-6.25)
            + math.sqrt(_v(9) / (1 - 5 * _v(9)))
            + 5 * _v(9)
        ),
        rtol=1e-12,
    )


def _v(n: int) -> float:
    return (n - 1) / 4 * (1 - math.erf(2.5) ** 2)


def test_the_stated_limit_is_not_the_one_the_proof_needs() -> None:
    n = np.array([3, 4, 5, 6, 10, 100, 10_000])
    proof, stated = softrank_sigma_limit(1.0, n), softrank_sigma_limit_as_stated(1.0, n)
    assert (stated > proof).all()
    # At the stated limit the variance that should be below 1/5 may be 1/4, and the root is of a
    # negative number.
    np.testing.assert_allclose((n - 1) / 4 * (1 - _erf(0.5 / stated) ** 2), 0.25, rtol=1e-6)
    np.testing.assert_allclose((n - 1) / 4 * (1 - _erf(0.5 / proof) ** 2), 0.2, rtol=1e-6)
    assert np.isinf(softrank_bound(0.999 * stated, 1.0, n, 1)).all()
    assert np.isfinite(softrank_bound(0.999 * proof, 1.0, n, 1)).all()
    # The stated bound itself: no number near its limit with up to five documents, a number from six
    # on.
    at = softrank_bound_as_stated(0.999 * stated, 1.0, n, 1)
    assert np.isnan(at[n <= 5]).all()
    assert np.isfinite(at[n >= 6]).all()
    assert np.isnan(softrank_bound_as_stated([0.5, 5.0, 1e6], 1.0, 2, 1)).all()
    assert np.isinf(softrank_sigma_limit_as_stated(1.0, 2))
    assert np.isinf(softrank_sigma_limit(1.0, 1))


def _erf(x: np.ndarray) -> np.ndarray:
    return 1.0 - erfc(x)


@many
@given(st.integers(0, 2**32), st.booleans(), st.floats(0.05, 0.43))
def test_the_variance_is_below_the_stated_epsilon_although_the_proof_does_not_say_so(
    seed: int, exactly: bool, sigma: float
) -> None:
    # The k-th neighbours of a document are k delta away, so (N - 1)/4 is not needed where 1 - erf^2
    # < 1/5.
    s, lists = spaced(seed, exactly)
    tails = erfc(0.5 / sigma * np.arange(1, 50))
    spreads = tails * (2.0 - tails)  # 1 - erf^2 of the k-th neighbours, one on either side
    for start, stop in itertools.pairwise(lists.offsets):
        _, variances = rank_moments(s[start:stop], sigma)
        assert (variances <= spreads.sum() / 2 * (1 + 1e-12)).all()
    assert spreads.sum() / 2 <= spreads[0] < 0.2


def rank_moments(s: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each document's noisy rank, a sum of independent contests."""
    lost = 0.5 * erfc((s - s[:, None]) / (2 * sigma))
    np.fill_diagonal(lost, 0.0)
    return lost.sum(axis=0), (lost * lost.T).sum(axis=0)


@pytest.mark.parametrize("seed", range(20))
def test_lemma_2_and_the_last_line_of_its_proof(seed: int) -> None:
    # Pr(R = nearest to the mean) >= 1 - 5 variance for a sum of independent trials.
    p = np.array([1.0])
    for lost in np.random.default_rng(seed).uniform(0, 0.3, 6):
        p = np.append(p * (1 - lost), 0.0) + np.append(0.0, p * lost)
    r = np.arange(p.size)
    mean, variance = p @ r, p @ r**2 - (p @ r) ** 2
    assert p[np.argmin(np.abs(r - mean))] >= 1 - 5 * variance - 1e-12
    # The proof ends in 1 - variance, which a coin that falls on 1 with probability 0.3 refutes.
    assert 0.7 < 1 - 0.3 * 0.7


def test_inequality_1_of_the_proof_fails_with_two_documents() -> None:
    # |D(mean rank) - D(rank)| <= epsilon_1 needs a discount whose slope is at most 1/2. With
    # logarithms to base 2 it is 1/(2 log 2) = 0.72, with natural ones 1/(2 log(2)^2) = 1.04; the
    # derivative in the paper has lost this factor.
    sigma = 0.1
    mean = rank_moments(np.array([1.0, 0.0]), sigma)[0][0]
    epsilon_1 = sigma / (2 * math.sqrt(math.pi)) * math.exp(-1 / (4 * sigma**2))
    base_2 = 1 / math.log2(2) - 1 / math.log2(2 + mean)
    assert base_2 > 1.4 * epsilon_1
    assert 1 / math.log(2) - 1 / math.log(2 + mean) > 2.0 * epsilon_1
    assert base_2 <= epsilon_1 / math.log(2)
    # The theorem survives: the rest of the bound is far larger.
    assert softrank_bound(sigma, 1.0, 2, 0) > 1e4 * base_2


def test_the_theorem_holds_with_the_papers_own_gain() -> None:
    # 2^lists.labels gives irrelevant documents a gain of 1; the bound does not care.
    s, lists = spaced(5, True)
    subject = loss("softrank", sigma=0.2, gain=(1, 2, 4, 8, 16))
    for version in ("proof", "stated", "contests"):
        bound = softrank_ndcg_bound(s, lists, subject, version=version)
        assert bound.holds(1e-7)
        assert np.count_nonzero(~np.isnan(bound.gap)) > 20


def test_the_curve() -> None:
    s, lists = spaced(3, True, longest=8)
    curve = softrank_curve(s, lists, [0.4, 0.2, 0.1, 0.05])
    kept = ~np.isnan(curve.difference[0])
    assert kept.any()
    assert (np.diff(curve.difference[:, kept], axis=0) <= 1e-9).all()
    assert (curve.difference[-1, kept] < 1e-9).all()
    for bound in (curve.bound, curve.bound_as_stated, curve.bound_by_contests):
        assert not (curve.difference > bound + 1e-8).any()
    assert not (curve.bound_by_contests > curve.bound + 1e-12).any()
