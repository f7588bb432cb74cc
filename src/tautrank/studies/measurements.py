"""What a study measures without training: the figures that need lists and scores, but no model.

A measurement is a function of (data, parameters, seed) that returns numbers by name, lists of one value an example or
query, and curves or points for a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tautrank.data import RankingData
from tautrank.errors import DataError
from tautrank.metrics.evaluation import or_none


@dataclass(frozen=True)
class Measurement:
    """Stands in a study in the place of a system.

    Args:
        kind: one of `MEASUREMENTS`.
        name: what the table calls it; the kind where it is empty.
        parameters: of the function.

    >>> str(Measurement("jensen-clouds", parameters={"examples": 20}))
    'jensen-clouds'
    """

    kind: str
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name or self.kind


def jensen_clouds(data: RankingData | None, seed: int, **parameters: Any) -> dict[str, Any]:
    """Figure 1 of the XE-NDCG paper: the Jensen gap against the loss, a cloud an example.

    Quantities: ``smallest-gap``, ``mean-gap``, ``smallest-loss`` and ``mean-loss``, one value an example.

    >>> sorted(jensen_clouds(None, 0, examples=3, draws=5)["values"])
    ['mean-gap', 'mean-loss', 'smallest-gap', 'smallest-loss']
    """
    from tautrank.theory.jensen import jensen_clouds as draw_clouds

    clouds = draw_clouds(**{**parameters, "seed": seed})
    values = {
        "smallest-gap": clouds.smallest_gaps,
        "mean-gap": clouds.gaps.mean(axis=1),
        "smallest-loss": clouds.smallest_losses,
        "mean-loss": clouds.losses.mean(axis=1),
    }
    points = {"gaps": clouds.gaps.tolist(), "losses": clouds.losses.tolist()}
    return {"values": {name: v.tolist() for name, v in values.items()}, "points": points}


def em_iterations(data: RankingData | None, seed: int, **parameters: Any) -> dict[str, Any]:
    """Figure 5 of the LambdaLoss paper on scores directly: the metric and the loss after each EM iteration.

    Quantities: ``metric``, ``objective`` and ``start`` (the metric before), one value a query. The parameters are
    those of `tautrank.theory.em.majorise_minimise`; scores start from noise.

    >>> data = RankingData.from_arrays([[0.0]] * 4, [0, 1, 2, 0], group=[4])
    >>> len(em_iterations(data, 0, loss="lambdarank", iterations=3)["curves"]["metric"])
    4
    """
    from tautrank.theory.em import majorise_minimise

    if data is None:
        raise DataError("data: found none; expected lists with labels, for EM to rank")
    scores = np.random.default_rng(seed).standard_normal(data.n_documents)
    given = {"loss": "ndcg-loss2++", **parameters}
    trace = majorise_minimise(scores=scores, labels=data.labels, offsets=data.offsets, seed=seed, **given)
    values = {"metric": trace.metric[-1], "objective": trace.objective[-1], "start": trace.metric[0]}
    return {
        "values": {name: [or_none(x) for x in v.tolist()] for name, v in values.items()},
        "curves": {"metric": trace.mean_metric.tolist(), "objective": trace.mean_objective.tolist()},
    }


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "jensen-clouds": jensen_clouds,
    "em-iterations": em_iterations,
}
"""Every measurement by name."""
