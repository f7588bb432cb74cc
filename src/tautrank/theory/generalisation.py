"""How far the loss on unseen queries may be from the loss on the training set: the paper's bound as a calculator."""

from __future__ import annotations

import math
from collections.abc import Callable

from tautrank.arguments import real, whole
from tautrank.errors import OptionError


def generalisation_probability(epsilon: float, n: int, lipschitz: float, log_covering: float) -> float:
    """A lower bound on the probability that no function of a class generalises worse than ``epsilon``.

    ``P(E(f) <= epsilon for all f) >= 1 - 2 N exp(-n epsilon^2 / (2 L^2))``, where ``E`` is the expected loss minus the
    mean loss over ``n`` training queries, ``L`` the Lipschitz constant of the loss and ``N`` the covering number of the
    class by balls of radius ``epsilon / (4 L)`` in the largest difference of scores, which lie in [0, 1].

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Theorem 2, with the constant its proof gives:
    Lemma B.2 leaves a deviation of ``epsilon / 2`` to McDiarmid's inequality, which squares it. The statement in the
    paper, `generalisation_probability_as_stated`, has ``epsilon`` in its place and so an exponent four times as large.
    (The proof also counts a change of a query as a change of its scores alone. For cross entropy over lists of one
    length this is right: scores in [0, 1] keep the loss within ``log((1 + (m-1) e) / (1 + (m-1)/e)) < 2``.)

    Args:
        epsilon: the deviation, above 0.
        n: training queries.
        lipschitz: constant of the loss, see `lipschitz`.
        log_covering: natural logarithm of the covering number at the radius ``epsilon / (4 lipschitz)``.

    >>> round(generalisation_probability(0.2, 1000, lipschitz=2.0, log_covering=0.0), 4)
    0.9865
    """
    return _probability(epsilon, n, lipschitz, log_covering, 0.5)


def generalisation_probability_as_stated(epsilon: float, n: int, lipschitz: float, log_covering: float) -> float:
    """What Theorem 2 states: ``1 - 2 N exp(-2 n epsilon^2 / L^2)``; `generalisation_probability` says why it differs.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Theorem 2.

    Args:
        epsilon: the deviation, above 0.
        n: training queries.
        lipschitz: constant of the loss, see `lipschitz`.
        log_covering: natural logarithm of the covering number at the radius ``epsilon / (4 lipschitz)``.

    >>> stated = generalisation_probability_as_stated(0.1, 1000, lipschitz=2.0, log_covering=0.0)
    >>> stated == generalisation_probability(0.2, 1000, lipschitz=2.0, log_covering=0.0)
    True
    """
    return _probability(epsilon, n, lipschitz, log_covering, 2.0)


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


def _probability(epsilon: float, n: int, lipschitz: float, log_covering: float, factor: float) -> float:
    deviation = real("epsilon", epsilon, 0.0, above=True)
    steep = real("lipschitz", lipschitz, 0.0, above=True)
    covering = real("log_covering", log_covering, 0.0)
    exponent = math.log(2.0) + covering - factor * whole("n", n, 1) * (deviation / steep) ** 2
    return max(0.0, -math.expm1(exponent)) if exponent < 0 else 0.0
