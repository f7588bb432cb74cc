"""Random ranking problems that the tests of every peer share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import tautrank.metrics as M

# What the discount of ranks 1, 2, 3, ... is worth, for closed forms.
LOG2 = [1 / np.log2(1 + rank) for rank in range(1, 20)]


@dataclass(frozen=True)
class Lists:
    """Scores and labels of several queries, one after the other."""

    scores: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.scores[start:stop], self.labels[start:stop]

    def qids(self) -> np.ndarray:
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    def ours(self, name: str, **options: object) -> np.ndarray:
        return M.metric(name, **options).per_query(self.scores, self.labels, self.offsets)


def random_lists(
    seed: int,
    *,
    queries: int = 80,
    shortest: int = 1,
    longest: int = 15,
    top_label: int = 4,
    tied: bool = False,
    empty: bool = True,
) -> Lists:
    """Lists of many lengths; with ``tied``, four distinct scores; with ``empty``, some without a
    relevant one.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(shortest, longest + 1, queries)
    sizes[:2] = shortest, longest
    labels, scores = [], []
    for query, size in enumerate(sizes):
        y = rng.binomial(top_label, rng.uniform(0, 0.8), size)
        if query % 7 == 3:
            y[:] = 0
        if not empty and y.max() == 0:
            y[rng.integers(size)] = 1
        labels.append(y)
        # Quarters are exact in every precision, so that equal means equal to every tool.
        scores.append((rng.integers(0, 4, size) if tied else rng.permutation(size)) / 4 - 1)
    lists = Lists(np.concatenate(scores), np.concatenate(labels), np.r_[0, np.cumsum(sizes)])
    filled = np.array([y.max() > 0 for _, y in lists])
    assert filled.all() != empty, "the lists must hold what the test is about"
    return lists


def one(name: str, scores: list[float], labels: list[float], **options: object) -> float:
    """The value of a single list, for closed forms."""
    return float(M.metric(name, **options).per_query(scores, labels, [0, len(labels)])[0])


def agree(found: object, expected: object, tolerance: float = 1e-12) -> None:
    """Assert equality up to rounding; NaN never agrees with anything."""
    assert not np.isnan(np.asarray(found, dtype=float)).any()
    assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
