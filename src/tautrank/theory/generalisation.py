"""How far the loss on unseen queries may be from the loss on the training set: the paper's bound as a calculator."""

from __future__ import annotations

import math
from collections.abc import Callable

from tautrank.arguments import real, whole
from tautrank.errors import OptionError


def generalisation_error(
    n: int, lipschitz: float, log_covering: Callable[[float], float], confidence: float = 0.95
) -> float:
    """The deviation that Theorem 2 (with its proof's constant) promises with a given confidence.

    The smallest ``epsilon`` with ``2 N(epsilon / (4 L)) exp(-n epsilon^2 / (2 L^2)) <= 1 - confidence``.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Theorem 2.

    Args:
        n: training queries.
        lipschitz: constant of the loss, see `lipschitz`.
        log_covering: from a radius to the natural logarithm of the covering number, see `log_box_covering`.
        confidence: above 0 and below 1.

    >>> def ten_leaves(radius: float) -> float:
    ...     return log_box_covering(radius, 10)
    >>> round(generalisation_error(10_000, 2.0, ten_leaves), 3)
    0.168
    >>> round(generalisation_error(10_000, 100.0**2, ten_leaves), 1)  # proportional to the constant
    842.3
    """
    n = whole("n", n, 1)
    steep = real("lipschitz", lipschitz, 0.0, above=True)
    chance = real("confidence", confidence, 0.0, above=True, most=1.0)
    if chance == 1.0:
        raise OptionError("confidence: found 1; expected a number above 0 and below 1")

    def excess(epsilon: float) -> float:
        covering = real("log_covering", log_covering(epsilon / (4.0 * steep)), 0.0)
        return math.log(2.0) + covering - n * epsilon**2 / (2.0 * steep**2) - math.log1p(-chance)

    # In units of L the answer is between these for any class worth the name; the function falls with epsilon.
    low, high = 0.0, steep
    while excess(high) > 0:
        low, high = high, 2.0 * high
        if high > 1e100 * steep:  # a float is too small for the square of much more
            raise OptionError("log_covering: found a number that grows with the radius; expected one that falls")
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def log_box_covering(radius: float, dimensions: int) -> float:
    """Natural logarithm of the covering number of ``[0, 1]^d`` by balls of the infinity norm: ``d log ceil(1/(2r))``.

    The functions that are constant on each of ``d`` given parts of the documents (a tree with fixed splits and ``d``
    leaves) form such a box; a ball of radius ``r`` is a cube of side ``2r``, so this is exact.

    Args:
        radius: of the balls, above 0.
        dimensions: ``d``.

    >>> round(math.exp(log_box_covering(0.25, 3)))
    8
    """
    r = real("radius", radius, 0.0, above=True)
    # A cube's side that divides 1 up to rounding does not need one cube more.
    return whole("dimensions", dimensions, 1) * math.log(max(1, math.ceil(1.0 / (2.0 * r) * (1.0 - 1e-12))))
