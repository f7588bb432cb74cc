"""Draws what the losses do to one list, for docs/losses.md: `python -m bench.loss_pictures` writes
docs/pictures/*.svg.

Every number comes from the losses and metrics of the library; nothing is trained, and the same
pictures come out every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tautrank as tr
from bench.drawing import Series, write_picture

FAMILIES = {
    "pairwise": ("ranknet", "lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++"),
    "softmax": ("listnet", "xendcg(gamma=1)", "xendcg(gamma=0)"),
    "smoothed": (
        "softrank(sigma=0.5)",
        "softrank(sigma=2)",
        "stochasticrank(sigma=0.5,metric=ndcg)",
    ),
}
# Full lists, so that a cutoff does not hide what the weights do; the derivative itself, not an
# approximate Newton step.
OPTIONS: dict[str, dict[str, Any]] = {
    "pairwise": {"k": None},
    "softmax": {"hessian": "diagonal"},
    "smoothed": {},
}

# A list of twenty documents, half a point of score apart, with four relevant ones.
STEP = 0.5
LABELS = np.zeros(20)
LABELS[[1, 5, 10, 17]] = 1, 3, 1, 2
# StochasticRank is a mean over draws of noise.
DRAWS = 2000

Judge = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]]


def push(loss: tr.losses.Loss) -> NDArray[np.float64]:
    """How hard each document of the list is pushed up (minus the gradient), the largest push being
    1.
    """
    objective = loss.bind(LABELS, [0, LABELS.size])
    scores = -STEP * np.arange(LABELS.size)
    down = np.mean([objective.gradients(scores, step=step)[0] for step in steps(loss)], axis=0)
    return -down / np.abs(down).max()


def climb(loss: tr.losses.Loss, places: NDArray[np.float64]) -> NDArray[np.float64]:
    """The loss of a list of twenty whose one relevant document climbs, over its value at the
    bottom.
    """

    def judge(
        scores: NDArray[np.float64], labels: NDArray[np.float64], offsets: NDArray[np.int64]
    ) -> Any:
        objective = loss.bind(labels, offsets)
        return np.mean([objective.values(scores, step=step) for step in steps(loss)], axis=0)

    values = over_the_climb(judge, places)
    if isinstance(loss, tr.losses.StochasticRank):
        values += 1.0  # its value is minus the metric; drawn is the cost
    return values / values[0]


def cost(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 - NDCG on the way, over its value at the bottom."""
    values = 1 - over_the_climb(tr.metric("ndcg").per_query, places)
    return values / values[0]


def steps(loss: tr.losses.Loss) -> range:
    return range(DRAWS if loss.is_random else 1)


def over_the_climb(judge: Judge, places: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is said of one list for each place: the relevant document there, nineteen others in a
    row of their own.
    """
    others = -STEP * np.arange(1, 20)
    scores = np.concatenate([[-STEP * (place - 0.5), *others] for place in places])
    labels = np.tile([1.0] + [0.0] * 19, places.size)
    return np.array(judge(scores, labels, np.arange(0, labels.size + 1, 20)))


def draw_pushes(family: str) -> None:
    names = FAMILIES[family]
    ranks = np.arange(1, LABELS.size + 1)
    relevant = ", ".join(f"{int(LABELS[i])} at rank {i + 1}" for i in np.flatnonzero(LABELS))
    beside = np.linspace(-0.2, 0.2, len(names))
    write_picture(
        f"push-{family}.svg",
        [
            Series(name, ranks + shift, push(tr.loss(name, **OPTIONS[family])))
            for name, shift in zip(names, beside, strict=True)
        ],
        title=f"What the {family} losses do to each document of one list",
        x_label=f"rank (labels: {relevant}, all others 0)",
        y_label="push up (down below 0), largest = 1",
    )


def draw_climb(family: str) -> None:
    places = np.arange(20.0, 0.95, -0.1)
    # With binary labels and a gamma of 1, xendcg is listnet.
    names = [name for name in FAMILIES[family] if name != "xendcg(gamma=1)"]
    curves = [
        Series(name, places, climb(tr.loss(name, **OPTIONS[family]), places), line=True)
        for name in names
    ]
    write_picture(
        f"climb-{family}.svg",
        [Series("1 - NDCG", places, cost(places), line=True), *curves],
        title=f"What the {family} losses say as one relevant document climbs the list",
        x_label="rank of the one relevant document among twenty (scores 0.5 apart)",
        y_label="loss over its value at the bottom",
    )


if __name__ == "__main__":
    for family in FAMILIES:
        draw_pushes(family)
        draw_climb(family)
