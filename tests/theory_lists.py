"""Random lists for the tests of the theory: ties, far and near scores, binary, graded, fractional
and large labels.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tautrank.data import Lists

Scored = tuple[np.ndarray, Lists]

SCORES = ("tied", "normal", "near", "far", "equal", "upside down", "ideal")
LABELS = ("graded", "binary", "single", "fractional", "large")


def make_lists(seed: int, scores: str, labels: str, queries: int = 50, longest: int = 12) -> Scored:
    """Scores, and lists with 0 to ``longest`` documents."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, longest + 1, queries)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    n = int(offsets[-1])
    if labels == "graded":
        y = rng.choice(5, n, p=[0.5, 0.2, 0.15, 0.1, 0.05]).astype(np.float64)
    elif labels == "binary":
        y = (rng.random(n) < 0.3).astype(np.float64)
    elif labels == "single":
        y = np.zeros(n)
        filled = np.flatnonzero(sizes)
        y[offsets[filled] + rng.integers(0, sizes[filled])] = 1.0
    elif labels == "fractional":
        y = np.maximum(rng.normal(0.5, 1.0, n), 0.0)
    else:
        y = rng.choice([0, 0, 1, 5, 12, 40], n).astype(np.float64)
    s = {
        "tied": rng.integers(-3, 4, n).astype(np.float64),
        "normal": rng.normal(size=n),
        "near": 1e-3 * rng.normal(size=n),
        "far": 300.0 * rng.normal(size=n),
        "equal": np.zeros(n),
        "upside down": -y + 0.1 * rng.normal(size=n),
        "ideal": y + 0.1 * rng.normal(size=n),
    }[scores]
    return s, Lists.of(y, offsets)


def lists(labels: tuple[str, ...] = LABELS, longest: int = 12) -> st.SearchStrategy[Scored]:
    return st.builds(
        make_lists,
        st.integers(0, 2**32),
        st.sampled_from(SCORES),
        st.sampled_from(labels),
        longest=st.just(longest),
    )
