"""Rounds that learn from some of the queries: all documents of a query are in or out together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tautrank.arguments import real, whole
from tautrank.arrays import Bools


@dataclass(frozen=True)
class QueryBagging:
    """Which queries a round learns from: a new draw without replacement every ``every`` rounds.

    A round is grown for gradients and hessians of 0 in all other queries: they add nothing to any sum.

    Args:
        share: share of the queries that are drawn.
        every: number of rounds with the same queries.
        seed: seed of the draws, which depend on it and on the number of the round only.

    >>> half = QueryBagging(share=0.5, every=2, seed=0)
    >>> [half.drawn(6, step).nonzero()[0].tolist() for step in range(3)]
    [[2, 3, 5], [2, 3, 5], [1, 3, 4]]
    """

    share: float
    every: int
    seed: int

    @classmethod
    def of(cls, fraction: Any, frequency: Any, seed: int) -> QueryBagging | None:
        """Check LightGBM's parameters; None where they say that nothing is sampled.

        Args:
            fraction: ``bagging_fraction``.
            frequency: ``bagging_freq``.
            seed: seed of the draws.
        """
        share = real("bagging_fraction", fraction, least=0.0, above=True, most=1.0)
        every = whole("bagging_freq", frequency)
        return cls(share, every, seed) if every > 0 and share < 1 else None

    def drawn(self, queries: int, step: int) -> Bools:
        """Return which queries the round learns from.

        Args:
            queries: number of queries.
            step: number of the round.
        """
        mask = np.zeros(queries, bool)
        order = np.random.default_rng((self.seed, step // self.every)).permutation(queries)
        mask[order[: max(1, round(self.share * queries))]] = True
        return mask
