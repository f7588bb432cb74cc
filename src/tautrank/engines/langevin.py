"""Stochastic gradient Langevin boosting: noise on every gradient, and a model that shrinks before every tree.

``F_{t+1} = s F_t + learning_rate tree_t`` with ``s = 1 - learning_rate shrink_rate``, where ``tree_t`` is fitted to the
gradients at ``F_t`` plus ``N(0, 2 / (learning_rate temperature))``. With many small steps the scores are drawn from
``exp(-temperature (loss + regulariser))``: training leaves local optima, and the higher the temperature, the closer it
stays to the global one.

Ustimenko and Prokhorenkova, *SGLB: Stochastic Gradient Langevin Boosting*, ICML 2021; Ustimenko and Prokhorenkova,
*StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020, section 6.

Engines cannot rescale the trees they have, and need not: see `boosting.boost`, which keeps one scale for the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautrank.arguments import real
from tautrank.arrays import F32, I64
from tautrank.errors import OptionError
from tautrank.kernels.threads import balanced_ranges, run

# A document costs about as much as this many of the pairs that `balanced_ranges` counts in.
_COST = 30.0
# Gradients travel as float32: sums of noise must not come near 3e38.
_LARGEST_DEVIATION = 1e30


@dataclass(frozen=True, repr=False)
class Langevin:
    """Strength of Langevin boosting: gradient noise and shrinkage. `Ranker(langevin=Langevin(...))`, with any loss.

    Every gradient gets noise of the variance ``2 / (learning_rate * temperature)``, drawn for each seed, tree, query
    and document, whatever the gradient and hessian are. Before each tree the model is scaled by
    ``1 - learning_rate * shrink_rate``. The authors tuned ``temperature`` between 1e8 and 1e11 and ``shrink_rate``
    between 1e-5 and 1e-2 for StochasticRank on web search, and used 1e3 and 1e-3 for a set of five documents. Trees
    divide sums of gradients by sums of hessians: the theory is for hessians of 1, smaller ones increase the noise.

    Ustimenko and Prokhorenkova, *SGLB: Stochastic Gradient Langevin Boosting*, ICML 2021.

    Args:
        temperature: inverse strength of the noise, above 0.
        shrink_rate: shrinkage of the model before each tree, in units of the learning rate; 0 for noise only.

    >>> Langevin(temperature=1e3)
    Langevin(temperature=1000, shrink_rate=0.0001)
    >>> Langevin(1e8, 1e-4) == Langevin()
    True
    >>> Langevin(temperature=0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: temperature: found 0; expected a number above 0
    """

    temperature: float = 1e8
    shrink_rate: float = 1e-4

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", real("temperature", self.temperature, least=0.0, above=True))
        object.__setattr__(self, "shrink_rate", real("shrink_rate", self.shrink_rate, least=0.0))

    def __repr__(self) -> str:
        return f"Langevin(temperature={_format(self.temperature)}, shrink_rate={_format(self.shrink_rate)})"

    def deviation(self, learning_rate: float) -> float:
        """Return the standard deviation of the noise, ``sqrt(2 / (learning_rate temperature))``.

        Args:
            learning_rate: learning rate of the training.

        >>> Langevin(temperature=200).deviation(learning_rate=0.01)
        1.0
        """
        return math.sqrt(2.0 / learning_rate / self.temperature)

    def factor(self, learning_rate: float) -> float:
        """Return the factor that the model is scaled by before each tree, ``1 - learning_rate shrink_rate``.

        Args:
            learning_rate: learning rate of the training.

        >>> Langevin(shrink_rate=0.5).factor(learning_rate=0.5)
        0.75
        """
        return 1.0 - learning_rate * self.shrink_rate


def check_langevin(langevin: Any, learning_rate: float) -> None:
    """Refuse a ``langevin`` that cannot be used for training.

    Args:
        langevin: what the user gave; None is off.
        learning_rate: learning rate of the training, above 0.

    >>> check_langevin(Langevin(shrink_rate=10.0), learning_rate=0.1)
    Traceback (most recent call last):
    tautrank.errors.OptionError: langevin: shrink_rate=10 times learning_rate=0.1 is 1; expected less than 1
    """
    if langevin is None:
        return
    if not isinstance(langevin, Langevin):
        raise OptionError(
            f"langevin: found {langevin!r}; expected None or tautrank.Langevin(temperature=..., shrink_rate=...)"
        )
    product = learning_rate * langevin.shrink_rate
    if product >= 1:
        raise OptionError(
            f"langevin: shrink_rate={_format(langevin.shrink_rate)} times learning_rate={_format(learning_rate)} is "
            f"{product:g}; expected less than 1"
        )
    deviation = langevin.deviation(learning_rate)
    if deviation > _LARGEST_DEVIATION:
        raise OptionError(
            f"langevin: temperature={_format(langevin.temperature)} with learning_rate={_format(learning_rate)} is "
            f"noise of the deviation {deviation:.1g}; expected at most {_LARGEST_DEVIATION:g}"
        )


def with_noise(gradients: F32, offsets: I64, deviation: float, seed: int, step: int, threads: int) -> F32:
    """Return gradients with the noise of Langevin boosting, which depends only on seed, step, query and document.

    Args:
        gradients: one per document.
        offsets: start of each query, and the number of documents at the end.
        deviation: standard deviation of the noise.
        seed: seed of the training.
        step: number of the tree.
        threads: number of threads; the numbers do not depend on it.

    >>> with_noise(np.ones(3, np.float32), np.array([0, 3]), 1e-4, seed=0, step=0, threads=1).round(3)
    array([1., 1., 1.], dtype=float32)
    """
    from tautrank.kernels.randomness import LANGEVIN_STREAM, add_noise

    out = np.empty_like(gradients)

    def task(first: int, last: int) -> None:
        add_noise(gradients, offsets, deviation, np.uint64(seed), step, LANGEVIN_STREAM, first, last, out)

    run(task, balanced_ranges(_COST * np.diff(offsets), threads), threads)
    return out


def _format(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
