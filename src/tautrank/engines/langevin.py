"""Stochastic gradient Langevin boosting: noise on every gradient, and a model that shrinks before every tree.

``F_{t+1} = s F_t + learning_rate tree_t`` with ``s = 1 - learning_rate shrink_rate``, where ``tree_t`` is fitted to the
gradients at ``F_t`` plus ``N(0, 2 / (learning_rate temperature))``. With many small steps the scores are drawn from
``exp(-temperature (loss + regulariser))``: training walks out of local optima, and the greater the temperature, the
closer it stays to the global one.

Ustimenko and Prokhorenkova, *SGLB: Stochastic Gradient Langevin Boosting*, ICML 2021; Ustimenko and Prokhorenkova,
*StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020, section 6.

Engines cannot rescale the trees they have, and need not. They keep ``G_t = F_t / s^t``, to which ``tree_t`` is added at
the rate ``learning_rate / s^(t + 1)``; the loss and the metric see ``s^t G_t``; and the leaves are rescaled once, at
the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tautrank.arguments import real
from tautrank.errors import DataError, OptionError
from tautrank.kernels.threads import balanced_ranges, run

F64 = NDArray[np.float64]

# An engine's leaves grow as the model's shrink; here their ratio ends, far from where floats do.
_SMALLEST_SCALE = 2.0**-256
# A document costs about as much as so many of the pairs that `balanced_ranges` counts in.
_COST = 30.0
# Gradients travel as float32: sums of noise must not come near 3e38.
_LARGEST_DEVIATION = 1e30


@dataclass(frozen=True, repr=False)
class Langevin:
    """How strongly training is shaken and held back: `Ranker(langevin=Langevin(...))`, with any loss of this library.

    Every gradient gets noise of the variance ``2 / (learning_rate * temperature)``, drawn anew for each seed, tree,
    query and document, whatever its gradient and hessian are; and before a tree is added the model is scaled by
    ``1 - learning_rate * shrink_rate``. The authors tuned ``temperature`` between 1e8 and 1e11 and ``shrink_rate``
    between 1e-5 and 1e-2 for StochasticRank on web search, and took 1e3 and 1e-3 for a set of five documents. Trees
    divide sums of gradients by sums of hessians: the theory is for hessians of 1, smaller ones let the noise grow.

    Ustimenko and Prokhorenkova, *SGLB: Stochastic Gradient Langevin Boosting*, ICML 2021.

    Args:
        temperature: the inverse strength of the noise, above 0.
        shrink_rate: what the model shrinks by, in units of the learning rate; 0 for noise alone.

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
        return f"Langevin(temperature={_written(self.temperature)}, shrink_rate={_written(self.shrink_rate)})"

    def deviation(self, learning_rate: float) -> float:
        """The standard deviation of the noise, ``sqrt(2 / (learning_rate temperature))``.

        Args:
            learning_rate: of the training.

        >>> Langevin(temperature=200).deviation(learning_rate=0.01)
        1.0
        """
        return math.sqrt(2.0 / learning_rate / self.temperature)

    def factor(self, learning_rate: float) -> float:
        """What the model is scaled by before each tree, ``1 - learning_rate shrink_rate``.

        Args:
            learning_rate: of the training.

        >>> Langevin(shrink_rate=0.5).factor(learning_rate=0.5)
        0.75
        """
        return 1.0 - learning_rate * self.shrink_rate


def check_langevin(langevin: Any, learning_rate: float) -> None:
    """Say why ``langevin`` cannot be trained with, if so.

    Args:
        langevin: what the user gave; None is off.
        learning_rate: of the training, above 0.

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
            f"langevin: shrink_rate={_written(langevin.shrink_rate)} times learning_rate={_written(learning_rate)} is "
            f"{product:g}; expected less than 1"
        )
    deviation = langevin.deviation(learning_rate)
    if deviation > _LARGEST_DEVIATION:
        raise OptionError(
            f"langevin: temperature={_written(langevin.temperature)} with learning_rate={_written(learning_rate)} is "
            f"noise of the deviation {deviation:.1g}; expected at most {_LARGEST_DEVIATION:g}"
        )


class GradientNoise:
    """What Langevin boosting adds to gradients: normal numbers that depend on seed, step, query and document alone.

    Args:
        langevin: how much of it.
        learning_rate: of the training.
        offsets: where each query starts, and the number of documents at the end.
        seed: of the training.
        threads: how many may share the work; the numbers do not depend on it.

    >>> noise = GradientNoise(Langevin(temperature=2e10), 0.01, np.array([0, 3]), seed=0, threads=1)
    >>> noise.added_to(np.ones(3, np.float32), step=0).round(3)
    array([1., 1., 1.], dtype=float32)
    """

    def __init__(
        self, langevin: Langevin, learning_rate: float, offsets: NDArray[np.int64], seed: int, threads: int
    ) -> None:
        self._deviation = langevin.deviation(learning_rate)
        self._offsets = offsets
        self._seed = np.uint64(seed)
        self._threads = threads
        self._ranges = balanced_ranges(_COST * np.diff(offsets), threads)

    def added_to(self, gradients: NDArray[np.float32], step: int) -> NDArray[np.float32]:
        """The gradients with noise, in a new array.

        Args:
            gradients: one a document.
            step: the number of the tree.
        """
        from tautrank.kernels.randomness import LANGEVIN_STREAM, add_normal

        out = np.empty_like(gradients)

        def task(first: int, last: int) -> None:
            add_normal(
                gradients, self._offsets, self._deviation, self._seed, step, LANGEVIN_STREAM, first, last, out
            )  # fmt: skip

        run(task, self._ranges, self._threads)
        return out


@dataclass(frozen=True)
class Shrunk:
    """What a shrunk model must remember, beside its leaves, for training to go on at the same bits.

    Args:
        factor: what it was scaled by before each tree.
        since: the step from which on the engine's leaves grew instead.
        lost: what `shrink` lost in rounding, one of ``-0+`` a number.
    """

    factor: float
    since: int
    lost: str

    def __post_init__(self) -> None:
        if not 0 < self.factor < 1 or self.since < 0 or self.lost.strip("-0+"):
            raise ValueError("no description of a shrunk model")


class Shrinking:
    """How far the engine's scores ``G`` are from the model's ``F``, before and after each tree: ``F = scale * G``.

    ``scale`` falls by ``factor`` a step. Before it gets out of hand a new stretch begins: the engine starts anew from
    the model as it is, with ``G = F``. Stretches end at fixed steps, so that continued training meets the same ones.

    Args:
        factor: what the model is scaled by before each tree.
        learning_rate: of the training.
        since: the first step of a stretch.

    >>> shrinking = Shrinking(factor=0.5, learning_rate=0.1, since=0)
    >>> shrinking.before(3), shrinking.after(3), shrinking.rate(3)
    (0.125, 0.0625, 1.6)
    >>> shrinking.stretch(255), shrinking.stretch(256), shrinking.before(256)
    (0, 256, 1.0)
    """

    def __init__(self, factor: float, learning_rate: float, since: int) -> None:
        self.factor = factor
        self._learning_rate = learning_rate
        self._since = since
        self._length = max(1, math.floor(math.log(_SMALLEST_SCALE) / math.log(factor)))

    @classmethod
    def of(
        cls, langevin: Langevin | None, learning_rate: float, start_step: int, start: Shrunk | None
    ) -> Shrinking | None:
        """The shrinking of a training; None if its model does not shrink.

        Args:
            langevin: of the training.
            learning_rate: of the training.
            start_step: its first step.
            start: what the model it starts from remembers.
        """
        factor = 1.0 if langevin is None else langevin.factor(learning_rate)
        if factor == 1:
            return None
        goes_on = start is not None and start.factor == factor and start.since < start_step
        return cls(factor, learning_rate, start.since if start is not None and goes_on else start_step)

    def stretch(self, step: int) -> int:
        """The step that began the stretch of ``step``."""
        return step - (step - self._since) % self._length

    def before(self, step: int) -> float:
        """``F / G`` before the tree of this step, when the loss is asked for gradients."""
        return float(self.factor ** (step - self.stretch(step)))

    def after(self, step: int) -> float:
        """``F / G`` after the tree of this step."""
        return float(self.factor ** (step + 1 - self.stretch(step)))

    def rate(self, step: int) -> float:
        """The learning rate at which the engine must add the tree of this step to ``G``."""
        return self._learning_rate / self.after(step)


def shrink(numbers: F64, scale: float) -> tuple[F64, str]:
    """``numbers * scale``, and what `unshrink` needs beside them to find every bit of ``numbers`` again.

    A product is rounded, and its quotient with ``scale`` is one of three neighbouring floats: which, is what is lost.

    Args:
        numbers: leaves of the engine.
        scale: above 0.

    >>> numbers = np.array([0.1, 0.2, 0.7])
    >>> shrunk, lost = shrink(numbers, 0.9)
    >>> bool((unshrink(shrunk, 0.9, lost) == numbers).all())
    True
    """
    shrunk = numbers * scale
    steps = numbers.view(np.int64) - (shrunk / scale).view(np.int64)
    # What is that small that it underflows is nothing beside any other leaf.
    steps[np.abs(steps) > 1] = 0
    return shrunk, np.frombuffer(b"-0+", np.uint8)[steps + 1].tobytes().decode()


def unshrink(shrunk: F64, scale: float, lost: str) -> F64:
    """The numbers that `shrink` was given.

    Args:
        shrunk: its result.
        scale: as given to it.
        lost: its other result.
    """
    if len(lost) != shrunk.size:
        raise DataError(f"init_model: remembers the rounding of {len(lost)} leaves; expected {shrunk.size}, as it has")
    codes = np.frombuffer(lost.encode(), np.uint8)
    steps = (codes == ord("+")).astype(np.int64) - (codes == ord("-"))
    found: F64 = ((shrunk / scale).view(np.int64) + steps).view(np.float64)
    return found


def _written(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
