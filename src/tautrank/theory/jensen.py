"""The Jensen gap of XE-NDCG, the part of the bound's looseness that gamma moves most, and the paper's Figure 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import whole
from tautrank.errors import OptionError
from tautrank.metrics.ordering import F64, query_maxima, query_sums
from tautrank.theory.distributions import check_scored_lists, gamma_targets, log_softmax
from tautrank.theory.gamma import cross_entropy, optimal_gamma, smallest_jensen_gap

LABEL_PROBABILITIES = (0.5, 0.2, 0.15, 0.1, 0.05)
"""Of the labels 0 to 4: what the paper draws labels from in sec. 5.4; Figure 1 does not say its own."""


def log_expected_probability(scores: ArrayLike, targets: ArrayLike, offsets: ArrayLike) -> F64:
    """Return ``log sum_i phi_i rho_i``, one per query (eq. 12 in the proof of Theorem 1); 0 without targets.

    Args:
        scores: one finite number per document.
        targets: ``phi``, one number of at least 0 per document.
        offsets: start of each query, and the number of documents at the end.

    >>> log_expected_probability([0.0, 0.0], [0.25, 0.75], [0, 2])  # log 1/2
    array([-0.69314718])
    """
    log_rho = log_softmax(scores, offsets)
    phi = np.asarray(targets, dtype=np.float64)
    cuts = np.asarray(offsets, dtype=np.int64)
    # Measured by the best document with a target: next to a far better one all the others may underflow.
    top = query_maxima(np.where(phi > 0, log_rho, -np.inf), cuts)
    top = np.where(np.isfinite(top), top, 0.0)
    shares = query_sums(phi * np.exp(np.minimum(log_rho - np.repeat(top, np.diff(cuts)), 0.0)), cuts)
    return np.log(shares, out=np.zeros_like(shares), where=shares > 0) + top


def jensen_gap(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, gamma: ArrayLike) -> F64:
    """Return ``log sum_i phi_i rho_i - sum_i phi_i log rho_i >= 0``, one per query; NaN without a relevant document.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 4.2.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        gamma: numbers in [0, 1], one per document or one for all.

    >>> jensen_gap([0.0, 0.0], [1, 0], [0, 2], 0.5)  # equal scores leave Jensen nothing to lose
    array([0.])
    >>> jensen_gap([1.0, 0.0], [1, 0], [0, 2], [0.5, 0.0]).round(4)
    array([0.1085])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    phi = gamma_targets(lists.labels, lists.offsets, gamma)
    gap = log_expected_probability(s, phi, lists.offsets) + cross_entropy(s, lists.labels, lists.offsets, gamma)
    # The difference of two equal numbers rounds either way.
    return np.maximum(gap, 0.0)


@dataclass(frozen=True, eq=False)
class JensenClouds:
    """The data of the paper's Figure 1: one cloud of points per example, one point per gamma.

    Args:
        scores: float64 ``[examples, documents]``.
        labels: float64 ``[examples, documents]``.
        gaps: the Jensen gap, float64 ``[examples, draws]``.
        losses: the loss at the same gammas, float64 ``[examples, draws]``.
        smallest_gaps: the smallest Jensen gap over all gammas, one per example.
        smallest_losses: the smallest loss over all gammas, one per example.
        gaps_at_smallest_losses: the Jensen gap where the loss is smallest, one per example.
        losses_at_smallest_gaps: the loss where the Jensen gap is smallest, one per example.

    >>> jensen_clouds(examples=2, documents=5, draws=3).losses.shape
    (2, 3)
    """

    scores: F64
    labels: F64
    gaps: F64
    losses: F64
    smallest_gaps: F64
    smallest_losses: F64
    gaps_at_smallest_losses: F64
    losses_at_smallest_gaps: F64


def jensen_clouds(
    examples: int = 20,
    documents: int = 100,
    draws: int = 200,
    label_probabilities: tuple[float, ...] = LABEL_PROBABILITIES,
    seed: int = 0,
) -> JensenClouds:
    """Draw lists and gammas as the paper's Figure 1 does: scores uniform in [0, 1], gammas uniform in [0, 1]^m.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Figure 1. Every list has at least one
    relevant document: its first label is 1 where it would have none.

    Args:
        examples: number of lists.
        documents: documents per list.
        draws: gammas per list.
        label_probabilities: probabilities of the labels 0, 1, 2, ...
        seed: seed of all random numbers.

    >>> clouds = jensen_clouds(examples=5, draws=50)
    >>> bool((clouds.smallest_gaps[:, None] <= clouds.gaps).all())
    True
    >>> bool((clouds.smallest_losses[:, None] <= clouds.losses).all())
    True
    """
    examples, documents, draws = (
        whole(name, value, 1) for name, value in (("examples", examples), ("documents", documents), ("draws", draws))
    )
    p = np.asarray(label_probabilities, dtype=np.float64)
    if p.ndim != 1 or p.size < 2 or not (p >= 0).all() or abs(p.sum() - 1.0) > 1e-9:
        raise OptionError(
            f"label_probabilities: found {label_probabilities!r}; expected at least two numbers that add up to 1"
        )
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    scores = rng.random((examples, documents))
    labels = rng.choice(p.size, (examples, documents), p=p).astype(np.float64)
    labels[labels.max(axis=1) == 0, 0] = 1.0
    each = np.arange(examples + 1) * documents
    # A gamma is one list: an example's list repeated for each of its gammas.
    many = np.arange(examples * draws + 1) * documents
    gamma = rng.random(examples * draws * documents)
    repeated = (np.repeat(scores, draws, axis=0).ravel(), np.repeat(labels, draws, axis=0).ravel(), many)
    single = (scores.ravel(), labels.ravel(), each)
    tight, narrow = optimal_gamma(*single), smallest_jensen_gap(*single)
    return JensenClouds(
        scores=scores,
        labels=labels,
        gaps=jensen_gap(*repeated, gamma).reshape(examples, draws),
        losses=cross_entropy(*repeated, gamma).reshape(examples, draws),
        smallest_gaps=narrow.value,
        smallest_losses=tight.value,
        gaps_at_smallest_losses=jensen_gap(*single, tight.gamma),
        losses_at_smallest_gaps=cross_entropy(*single, narrow.gamma),
    )
