"""Measurements: figures that need lists and scores, but no model.

Each is a function of data, seed and parameters that returns ``values``, numbers by name, one per
example or query, and perhaps ``points`` for a figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tautrank.arrays import F64
from tautrank.data import Lists, RankingData
from tautrank.errors import DataError
from tautrank.json_values import or_none
from tautrank.metrics.base import mean_over_queries


def measure_jensen_clouds(data: RankingData | None, seed: int, **parameters: Any) -> dict[str, Any]:
    """Figure 1 of the XE-NDCG paper: the Jensen gap against the loss, one cloud per example.

    Quantities: ``smallest-gap``, ``mean-gap``, ``smallest-loss`` and ``mean-loss``, one value per
    example; and ``gap-saved``, the share of the mean gap that the best gamma saves.

    >>> sorted(measure_jensen_clouds(None, 0, examples=3, draws=5)["values"])
    ['gap-saved', 'mean-gap', 'mean-loss', 'smallest-gap', 'smallest-loss']
    """
    from tautrank.theory.gamma import jensen_clouds

    clouds = jensen_clouds(**{**parameters, "seed": seed})
    mean_gaps = clouds.gaps.mean(axis=1)
    # Where the mean gap is 0, because scores are equal, the share that is left stays 1: there is
    # nothing to save.
    shares_left = np.ones_like(mean_gaps)
    np.divide(clouds.smallest_gaps, mean_gaps, out=shares_left, where=mean_gaps > 0)
    arrays = {
        "smallest-gap": clouds.smallest_gaps,
        "mean-gap": mean_gaps,
        "gap-saved": 1.0 - shares_left,
        "smallest-loss": clouds.smallest_losses,
        "mean-loss": clouds.losses.mean(axis=1),
    }
    values = {name: array.tolist() for name, array in arrays.items()}
    points = {"gaps": clouds.gaps.tolist(), "losses": clouds.losses.tolist()}
    return {"values": values, "points": points}


def measure_softrank_distance(
    data: RankingData | None,
    seed: int,
    sigma: float = 0.1,
    delta: float = 1.0,
    lists: int = 100,
    documents: int = 10,
) -> dict[str, Any]:
    """He and Liu's Theorem 2: how far SoftNDCG is from NDCG, and whether that is within its bounds.

    Each list is in random order, its scores ``delta`` apart, as the theorem requires. Quantities,
    one value per query: ``nearness``, ``1 - |NDCG - SoftNDCG|``; and whether the distance is within
    the bound, 1 or 0, or nothing if the bound is not a number: ``within-bound`` as in the proof,
    ``within-bound-as-stated`` as in the theorem, ``within-bound-by-contests`` for the sharper one
    of `tautrank.theory.softrank_ndcg_bound`. Points: the means of the distance and of each bound.

    Args:
        data: lists with labels; None draws them as for Figure 1 of the XE-NDCG paper.
        seed: the seed of orders and labels.
        sigma: the standard deviation of each score.
        delta: the distance between scores.
        lists, documents: the number of lists to draw, and their length.

    >>> values = measure_softrank_distance(None, 0, sigma=0.1, lists=5)["values"]
    >>> min(values["nearness"]) > 0.999, values["within-bound"]
    (True, [1.0, 1.0, 1.0, 1.0, 1.0])
    """
    from tautrank.theory.gamma import draw_labels
    from tautrank.theory.softrank_bounds import softrank_curve

    rng = np.random.default_rng(seed)
    if data is None:
        labels = draw_labels(rng, (lists * documents,))
        labelled = Lists.of(labels, np.arange(lists + 1) * documents)
    else:
        labelled = Lists.of(data)
    orders = [rng.permutation(length) for length in labelled.sizes]
    scores = delta * np.concatenate([np.zeros(0), *orders])

    curve = softrank_curve(scores, labelled, [sigma])
    distance = curve.difference[0]
    bounds = {
        "within-bound": curve.bound[0],
        "within-bound-as-stated": curve.bound_as_stated[0],
        "within-bound-by-contests": curve.bound_by_contests[0],
    }
    values = {"nearness": _or_none(1.0 - distance)}
    for name, bound in bounds.items():
        is_known = np.isfinite(bound - distance)
        is_within = np.where(is_known, distance <= bound, np.nan)
        values[name] = _or_none(is_within)
    points = {"distance": _finite_mean(distance)}
    for name, bound in bounds.items():
        points[name] = _finite_mean(bound)
    return {"values": values, "points": points}


def _or_none(values: F64) -> list[float | None]:
    """Return numbers with None in place of NaN and infinities, which JSON does not have."""
    return [or_none(value) for value in values.tolist()]


def _finite_mean(values: F64) -> float | None:
    """Return the mean of the finite values; None if there are none."""
    # A mean over queries leaves out NaN.
    finite_or_nan = np.where(np.isfinite(values), values, np.nan)
    return or_none(mean_over_queries(finite_or_nan))


def measure_directness(
    data: RankingData | None, seed: int, *, loss: str = "softrank"
) -> dict[str, Any]:
    """He and Liu's Theorem 1: what choosing a ranker by a loss costs in the metric, and what is
    guaranteed.

    The rankers to choose from are `tautrank.theory.spread_scorings`. Quantities, one value in all:
    ``directness``, ``-(2 eps1 + eps2)``, so that more is more direct; ``by-means``, minus the same
    guarantee from means over queries; ``cost``, how much worse the ranker that is best by the loss
    is by the metric; ``within-guarantee``, 1 or 0.

    Args:
        data: lists with labels.
        seed: the seed of the rankers, and of losses that draw random numbers.
        loss: the loss.

    >>> data = RankingData.from_arrays([[0.0]] * 4, [0, 1, 2, 0], group=[4])
    >>> measure_directness(data, 0, loss="softrank(sigma=0.1)")["values"]["within-guarantee"]
    [1.0]
    """
    from tautrank.theory.directness import directness_among, spread_scorings

    if data is None:
        raise DataError("data: found none; expected lists with labels, for rankers to rank")
    scorings = spread_scorings(data, seed=seed)
    result = directness_among(loss, scorings, data, seed=seed)
    is_within = math.nan
    if not math.isnan(result.margin):
        is_within = float(result.margin >= 0)
    quantities = {
        "directness": -result.guarantee,
        "by-means": -result.guarantee_of_means,
        "cost": result.difference,
        "within-guarantee": is_within,
    }
    values = {name: [or_none(quantity)] for name, quantity in quantities.items()}
    return {"values": values}


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "jensen-clouds": measure_jensen_clouds,
    "softrank-distance": measure_softrank_distance,
    "directness": measure_directness,
}
"""Every measurement by name."""
