"""Langevin boosting of any learner whose leaves can be filled again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tautrank.arrays import F64, Array
from tautrank.engines.base import RefillableLearner
from tautrank.engines.model import FittedModel
from tautrank.engines.task import Part, Task


class LangevinLearner:
    """A learner that fills the leaves of each tree again, and keeps the scores of what they hold.

    Args:
        learner: grows the trees; its own scores do not follow.
        task: what to learn from what.
        leaf_values: from the leaf of each training document (numbers from 0) and the engine's L2
            regularisation to the value of each leaf for the last gradients, not yet scaled by the
            learning rate.
    """

    def __init__(
        self,
        learner: RefillableLearner,
        task: Task,
        leaf_values: Callable[[Array, float], F64],
    ) -> None:
        self._learner = learner
        self._leaf_values = leaf_values
        # Trees whose leaves have got values with noise; those of the model to continue count.
        self._n_filled = 0 if task.start is None else task.start.n_trees
        # Kept here, since the learner's own scores do not follow the changed leaves.
        self._scores: dict[Part, F64] = {}
        for part in task.parts:
            self._scores[part] = learner.scores(part).astype(np.float64)

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
        """Grow one tree for noisy gradients, then give its leaves values with noise of their own.

        Without a tree, where no split is found, nothing changes.

        Args:
            gradients: function from scores to the gradients that splits are chosen by.
            rate: factor to scale the tree by.
        """
        # The learner's own scores do not follow the leaves that are filled here.
        self._learner.grow(lambda _own_scores: gradients(self._scores["train"]), rate)
        has_new_tree = self._learner.rounds != self._n_filled
        if not has_new_tree:
            return
        self._n_filled = self._learner.rounds

        leaf_of_document = {part: self._learner.leaves(part) for part in self._scores}
        train_leaves = leaf_of_document["train"]
        # Only leaves that training documents reach have gradients to be filled by.
        reached_leaves = np.flatnonzero(np.bincount(train_leaves))
        number_among_reached = np.searchsorted(reached_leaves, train_leaves)
        values = rate * self._leaf_values(number_among_reached, self._learner.l2)

        highest_leaf = max(int(leaves.max(initial=0)) for leaves in leaf_of_document.values())
        value_of_leaf = np.zeros(1 + highest_leaf)
        value_of_leaf[reached_leaves] = self._learner.fill(reached_leaves, values)
        for part, scores in self._scores.items():
            scores += value_of_leaf[leaf_of_document[part]]  # in place
