"""Langevin boosting of any learner whose leaves can be filled again."""

from __future__ import annotations

from collections.abc import Callable
from typing import (
    Any,
)

import numpy as np

from tautrank.arrays import F64, Array
from tautrank.engines.base import RefillableLearner
from tautrank.engines.model import FittedModel
from tautrank.engines.task import Part, Task


class LangevinLearner:
    """The scores of a model whose leaves are filled again; those of the tool that grows it do not
    follow.

    Args:
        learner: what grows the trees, and whose leaves can be filled again.
        task: what to learn from what.
        values: from the leaf of each training document (numbers from 0) and the engine's L2
            regularisation to the value of each leaf for the last gradients, not yet scaled by the
            learning rate.
    """

    def __init__(
        self, learner: RefillableLearner, task: Task, values: Callable[[Array, float], F64]
    ) -> None:
        self._learner, self._values = learner, values
        self._filled = 0 if task.start is None else task.start.n_trees
        self._scores: dict[Part, F64] = {
            part: learner.scores(part).astype(np.float64) for part in task.parts
        }

    @property
    def rounds(self) -> int:
        """Rounds of the learner."""
        return self._learner.rounds

    def model(self, rounds: int) -> FittedModel:
        """Return the model of the first ``rounds`` rounds."""
        return self._learner.model(rounds)

    def scores(self, part: Part) -> F64:
        """Return the score of each document of a part."""
        return self._scores[part]

    def grow(self, gradients: Any, rate: float) -> None:
        """Add one tree to these scores, if a split is found, and fill its leaves again.

        Args:
            gradients: the gradients to choose the splits by, a function of scores.
            rate: factor to scale the tree by.
        """
        self._learner.grow(lambda _: gradients(self._scores["train"]), rate)
        if self._learner.rounds == self._filled:
            return
        self._filled = self._learner.rounds
        leaves = {part: self._learner.leaves(part) for part in self._scores}
        reached = np.flatnonzero(np.bincount(leaves["train"]))
        new = rate * self._values(np.searchsorted(reached, leaves["train"]), self._learner.l2)
        added = np.zeros(1 + max(int(found.max(initial=0)) for found in leaves.values()))
        added[reached] = self._learner.fill(reached, new)
        for part, scores in self._scores.items():
            scores += added[leaves[part]]
