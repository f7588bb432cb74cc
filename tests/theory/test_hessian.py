"""The Hessian of cross entropy against dense linear algebra."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautrank.theory import smallest_eigenvalue, spectral_gap
from tautrank.theory.hessian import DampedSoftmax
from tests.theory_lists import Scored, lists


def dense(scores: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """rho, the Hessian and S of one query, as the paper writes them."""
    e = np.exp(scores)
    rho = e / (e.sum() + epsilon)
    s = rho[np.newaxis, :] / (1 - rho[:, np.newaxis])
    np.fill_diagonal(s, 0.0)
    return rho, np.diag(rho) - np.outer(rho, rho), s


CASES = [(seed, scale, epsilon) for seed in range(5) for scale in (0.1, 1.0, 3.0) for epsilon in (1e-3, 1.0, 50.0)]


@pytest.mark.parametrize(("seed", "scale", "epsilon"), CASES)
def test_eigenvalues_are_those_of_the_matrices(seed: int, scale: float, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 12, 8))))
    scores = scale * rng.normal(size=offsets[-1])
    smallest, gap = smallest_eigenvalue(scores, offsets, epsilon), spectral_gap(scores, offsets, epsilon)
    for query, (start, stop) in enumerate(itertools.pairwise(offsets)):
        _, hessian, s = dense(scores[start:stop], epsilon)
        assert smallest[query] == pytest.approx(np.linalg.eigvalsh(hessian)[0], rel=1e-6, abs=1e-14)
        assert 1 - gap[query] == pytest.approx(np.abs(np.linalg.eigvals(s)).max(), abs=1e-10)


@pytest.mark.parametrize("lead", [40.0, 299.0, 301.0, 740.0, 900.0, 1e6])
def test_however_far_the_best_document_leads_the_gap_has_a_limit(lead: float) -> None:
    # Two documents far below the best: 2 x / (1 - x) + x (2 + epsilon) = epsilon, whatever the lead.
    assert spectral_gap([0.0, lead, 0.0], [0, 3], 2.0) == pytest.approx(1 - np.sqrt(0.5), rel=1e-12)
    assert spectral_gap([0.0, lead, 0.0], [0, 3], 1e-10) == pytest.approx(2.5e-11, rel=1e-9, abs=0)
    # One document: S is 0. Two equal ones: S has rho / (1 - rho) beside the diagonal.
    gap = spectral_gap([lead, -lead, lead, lead], [0, 1, 2, 2, 4], 1.0)
    assert gap[:2].tolist() == [1.0, 1.0]
    assert np.isnan(gap[2])
    assert gap[3] == pytest.approx(np.exp(-lead) / (1 + np.exp(-lead)), rel=1e-9, abs=1e-300)


def test_of_two_documents_the_series_goes_twice_as_far_as_newton() -> None:
    # On their difference S is -1: 1 - 1 + 1 stands for 1/(1 + 1).
    phi = np.array([0.9, 0.1])
    rho, _, s = dense(np.array([0.4, -0.3]), 1e-12)
    series = (np.eye(2) + s + s @ s) @ ((rho - phi) / (rho * (1 - rho)))
    assert np.diff(series)[0] == pytest.approx(2 * np.diff(-phi / rho)[0], rel=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(lists(longest=20), st.sampled_from([1e-10, 1e-3, 1.0]))
def test_claims_1_and_2(data: Scored, epsilon: float) -> None:
    scores, _, offsets = data
    damped = DampedSoftmax.of(scores, offsets, epsilon)
    smallest, gap = smallest_eigenvalue(scores, offsets, epsilon), spectral_gap(scores, offsets, epsilon)
    for query, (start, stop) in enumerate(itertools.pairwise(offsets)):
        if start == stop:
            assert np.isnan(smallest[query])
            assert np.isnan(gap[query])
            continue
        rho, rest = damped.rho[start:stop], damped.rest[start:stop]
        floor = rho.min() * damped.missing[query]
        # Positive definite, by at least Gershgorin's circles, where floats can hold the number.
        assert floor * (1 - 1e-9) <= smallest[query] <= rho.min()
        assert smallest[query] > 0 or floor < 1e-300
        # Below 1, between the smallest and the largest row sum of S (Perron and Frobenius), where floats can hold them.
        assert 0.0 <= gap[query] <= 1.0
        if damped.missing[query] > 1e-300:
            rows = damped.missing[query] / rest
            assert rows.min() * (1 - 1e-9) <= gap[query] <= rows.max() * (1 + 1e-9)


def test_far_scores_lose_no_digits() -> None:
    scores = np.array([0.0, 40.0, -0.5])
    damped = DampedSoftmax.of(scores, [0, 3], 1e-300)
    tail = np.exp(-40.0) + np.exp(-40.5)
    assert damped.rest[1] == pytest.approx(tail / (1 + tail), rel=1e-12)
    far = DampedSoftmax.of([-800.0, -801.0], [0, 2], 1.0)
    assert far.rho.tolist() == [0.0, 0.0]
    assert far.missing.tolist() == [1.0]
    assert np.isfinite(spectral_gap([-800.0, -801.0], [0, 2], 1.0)).all()
