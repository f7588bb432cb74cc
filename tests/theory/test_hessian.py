"""The Hessian of cross entropy against dense linear algebra."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautrank.errors import DataError, OptionError
from tautrank.losses import loss
from tautrank.theory import newton_steps, smallest_eigenvalue, spectral_gap, targets_of
from tautrank.theory.hessian import DampedSoftmax
from tests.theory_lists import Scored, lists, make_lists


def dense(scores: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """rho, the Hessian and S of one query, as the paper writes them."""
    e = np.exp(scores)
    rho = e / (e.sum() + epsilon)
    s = rho[np.newaxis, :] / (1 - rho[:, np.newaxis])
    np.fill_diagonal(s, 0.0)
    return rho, np.diag(rho) - np.outer(rho, rho), s


CASES = [(seed, scale, epsilon) for seed in range(5) for scale in (0.1, 1.0, 3.0) for epsilon in (1e-3, 1.0, 50.0)]


@pytest.mark.parametrize(("seed", "scale", "epsilon"), CASES)
def test_eigenvalues_and_steps_are_those_of_the_matrices(seed: int, scale: float, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, 8)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    scores = scale * rng.normal(size=offsets[-1])
    targets = np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes])
    smallest, gap = smallest_eigenvalue(scores, offsets, epsilon), spectral_gap(scores, offsets, epsilon)
    for terms in (1, 2, 3, 6):
        steps = newton_steps(scores, targets, offsets, epsilon, terms)
        for query, (start, stop) in enumerate(itertools.pairwise(offsets)):
            rho, hessian, s = dense(scores[start:stop], epsilon)
            assert smallest[query] == pytest.approx(np.linalg.eigvalsh(hessian)[0], rel=1e-6, abs=1e-14)
            assert 1 - gap[query] == pytest.approx(np.abs(np.linalg.eigvals(s)).max(), abs=1e-10)
            gradient = rho - targets[start:stop]
            exact = np.linalg.solve(hessian, gradient)
            series = sum(np.linalg.matrix_power(s, power) for power in range(terms)) @ (gradient / (rho * (1 - rho)))
            np.testing.assert_allclose(steps.exact[start:stop], exact, rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(steps.series[start:stop], series, rtol=1e-7, atol=1e-7)
            error = np.linalg.norm(series - exact) / np.linalg.norm(exact)
            assert steps.relative_error[query] == pytest.approx(error, rel=1e-6, abs=1e-10)
            if stop - start > 1:
                centred = np.linalg.norm(series - series.mean() - exact + exact.mean())
                centred /= np.linalg.norm(exact - exact.mean())
                assert steps.relative_error_of_differences[query] == pytest.approx(centred, rel=1e-6, abs=1e-9)


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
        # Below 1, between the smallest and the largest row sum of S (Perron and Frobenius).
        rows = damped.missing[query] / rest
        assert rows.min() * (1 - 1e-9) <= gap[query] <= min(1.0, rows.max() * (1 + 1e-9))


def test_series_of_the_paper_is_the_step_of_the_loss() -> None:
    scores, labels, offsets = make_lists(4, "normal", "graded")
    subject = loss("xendcg", gamma=0.5)
    grad, hess = subject.bind(labels, offsets).gradients(scores)
    targets = targets_of(subject, scores, labels, offsets)
    relevant = np.add.reduceat(np.append(targets, 0.0), offsets[:-1]) > 0.5
    kept = np.repeat(relevant & (np.diff(offsets) > 1), np.diff(offsets))
    some = np.concatenate(([0], np.cumsum(np.diff(offsets)[relevant & (np.diff(offsets) > 1)])))
    steps = newton_steps(scores[kept], targets[kept], some, epsilon=1e-300)
    np.testing.assert_allclose(grad[kept] / hess[kept], steps.series, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("lead", [5.0, 40.0, 90.0])
def test_series_keeps_its_digits_when_one_document_leads(lead: float) -> None:
    scores, labels = np.array([0.5, -0.2, 1.5, 0.0, lead]), np.array([0.0, 3.0, 1.0, 0.0, 2.0])
    grad, hess = loss("xendcg", gamma=0.5).bind(labels, [0, 5]).gradients(scores)
    targets = (2**labels - 0.5) / (2**labels - 0.5).sum()
    steps = newton_steps(scores, targets, [0, 5], epsilon=1e-300)
    np.testing.assert_allclose(steps.series, grad / hess, rtol=1e-7)


def test_exact_step_is_the_loss_with_the_exact_hessian_up_to_a_constant() -> None:
    scores, labels = np.array([0.5, -0.2, 1.5, 0.0]), np.array([0.0, 3.0, 1.0, 0.0])
    subject = loss("xendcg", gamma=0.5, hessian="exact")
    grad, hess = subject.bind(labels, [0, 4]).gradients(scores)
    steps = newton_steps(scores, targets_of(subject, scores, labels, [0, 4]), [0, 4])
    assert np.ptp(grad / hess - steps.exact) < 1e-8


def test_of_two_documents_the_series_goes_twice_as_far_as_newton() -> None:
    # On their difference S is -1: 1 - 1 + 1 stands for 1/(1 + 1).
    steps = newton_steps([0.4, -0.3], [0.9, 0.1], [0, 2], epsilon=1e-12)
    assert np.diff(steps.series)[0] == pytest.approx(2 * np.diff(steps.exact)[0], rel=1e-9)
    assert steps.relative_error_of_differences[0] == pytest.approx(1.0, rel=1e-9)


def test_more_terms_help_differences_and_leave_the_constant() -> None:
    scores, labels, offsets = make_lists(6, "normal", "graded", queries=200, longest=40)
    targets = targets_of(loss("xendcg", gamma=0.5), scores, labels, offsets)
    sizes = np.diff(offsets)
    kept = (np.add.reduceat(np.append(targets, 0.0), offsets[:-1]) > 0.5) & (sizes >= 20)
    rows = np.repeat(kept, sizes)
    some = np.concatenate(([0], np.cumsum(sizes[kept])))
    errors = [newton_steps(scores[rows], targets[rows], some, terms=terms) for terms in (1, 3, 6)]
    differences = [float(np.median(e.relative_error_of_differences)) for e in errors]
    assert differences[0] > 10 * differences[1] > 50 * differences[2]
    constants = [float(np.median(e.relative_error)) for e in errors]
    assert min(constants) > 0.9 * max(constants)
    assert min(constants) > 0.1


def test_far_scores_lose_no_digits() -> None:
    scores = np.array([0.0, 40.0, -0.5])
    damped = DampedSoftmax.of(scores, [0, 3], 1e-300)
    tail = np.exp(-40.0) + np.exp(-40.5)
    assert damped.rest[1] == pytest.approx(tail / (1 + tail), rel=1e-12)
    far = DampedSoftmax.of([-800.0, -801.0], [0, 2], 1.0)
    assert far.rho.tolist() == [0.0, 0.0]
    assert far.missing.tolist() == [1.0]
    assert np.isfinite(spectral_gap([-800.0, -801.0], [0, 2], 1.0)).all()


def test_bad_input_is_named() -> None:
    with pytest.raises(OptionError, match=r"^epsilon: found 0; expected a number above 0$"):
        spectral_gap([0.0], [0, 1], 0)
    with pytest.raises(DataError, match=r"^targets: those of query 1 add up to 0.5; expected numbers of at least 0"):
        newton_steps([0.0, 0.0], [1.0, 0.5], [0, 1, 2])
    with pytest.raises(DataError, match=r"^targets: found length 1; expected 2, one per document$"):
        newton_steps([0.0, 0.0], [1.0], [0, 2])
