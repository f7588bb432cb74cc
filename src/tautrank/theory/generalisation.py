"""How far the loss on unseen queries may be from the loss on the training set: the paper's bound as a calculator."""

from __future__ import annotations

import math
from collections.abc import Callable

from tautrank.arguments import real, whole
from tautrank.errors import OptionError


def generalisation_error(
    n: int,
    lipschitz: float,
    log_covering: Callable[[float], float],
    confidence: float = 0.95,
    difference: float | None = None,
) -> float:
    """Return how far the expected loss can be above the mean loss of the training queries, for a class of models.

    It is the smallest ``epsilon`` with ``2 N(epsilon / (4 L)) exp(-n epsilon^2 / (2 d^2)) <= 1 - confidence``: with
    that confidence no model of the class, whose scores lie in [0, 1], is worse on unseen queries by more than
    ``epsilon``. ``N`` is the covering number of the class by balls of the given radius in the largest difference of
    scores.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Theorem 2, with the constant of its proof:
    Lemma B.2 leaves a deviation of ``epsilon / 2`` to McDiarmid's inequality, which squares it, where the statement in
    the paper has ``epsilon`` and so an exponent four times as large. The proof also counts a change of a query as a
    change of its scores alone, so that ``d = L``. For cross entropy over lists of one length this is right: scores in
    [0, 1] keep the loss within ``log((1 + (m-1) e) / (1 + (m-1)/e)) < 2``.

    Args:
        n: number of training queries.
        lipschitz: Lipschitz constant ``L`` of the loss, see `lipschitz`.
        log_covering: from a radius to the natural logarithm of the covering number, see `log_box_covering`.
        confidence: number above 0 and below 1.
        difference: largest difference ``d`` between the losses of two queries; None for the Lipschitz constant.

    >>> def ten_leaves(radius: float) -> float:
    ...     return log_box_covering(radius, 10)
    >>> round(generalisation_error(10_000, 2.0, ten_leaves), 3)
    0.168
    >>> round(generalisation_error(10_000, 100.0**2, ten_leaves), 1)  # proportional to the constant
    842.3
    """
    n = whole("n", n, 1)
    steep = real("lipschitz", lipschitz, 0.0, above=True)
    most = steep if difference is None else real("difference", difference, 0.0, above=True)
    chance = real("confidence", confidence, 0.0, above=True, most=1.0)
    if chance == 1.0:
        raise OptionError("confidence: found 1; expected a number above 0 and below 1")

    def excess(epsilon: float) -> float:
        covering = real("log_covering", log_covering(epsilon / (4.0 * steep)), 0.0)
        return math.log(2.0) + covering - n * epsilon**2 / (2.0 * most**2) - math.log1p(-chance)

    # The function falls with epsilon, so halving an interval finds its root.
    low, high = 0.0, most
    while excess(high) > 0:
        low, high = high, 2.0 * high
        if high > 1e100 * most:  # a float is too small for the square of much more
            raise OptionError("log_covering: found a number that grows with the radius; expected one that falls")
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def log_box_covering(radius: float, dimensions: int) -> float:
    """Return the log of the covering number of ``[0, 1]^d`` by balls of the infinity norm, ``d log ceil(1/(2r))``.

    The functions that are constant on each of ``d`` given parts of the documents (a tree with fixed splits and ``d``
    leaves) form such a box. A ball of radius ``r`` is a cube of side ``2r``, so this is exact.

    Args:
        radius: radius of the balls, above 0.
        dimensions: ``d``.

    >>> round(math.exp(log_box_covering(0.25, 3)))
    8
    """
    r = real("radius", radius, 0.0, above=True)
    # A cube's side that divides 1 up to rounding does not need one cube more.
    return whole("dimensions", dimensions, 1) * math.log(max(1, math.ceil(1.0 / (2.0 * r) * (1.0 - 1e-12))))
