"""What Optuna does for a search: it proposes configurations, and says which trials to give up.

Optuna's study lives in memory: trials that have ended are told to it, those of an earlier run too,
so it needs no file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tautrank.errors import require
from tautrank.experiments.plan import Experiment, Plan
from tautrank.experiments.search import (
    SearchOptions,
    checkpoints_of,
    most_trees_of,
    range_names,
    space_of,
)
from tautrank.experiments.space import Choice, Dimension, WholeNumber
from tautrank.experiments.store import DONE, Trial
from tautrank.experiments.trial import PRUNED
from tautrank.experiments.tuning import TriedConfiguration
from tautrank.metrics import metric

# The first trials are never pruned, and none at its first checkpoints; docs/tuning.md has the
# measurements.
_N_UNPRUNED = 5


class Proposer:
    """Proposes configurations, and learns from the trials that have ended.

    Args:
        experiment: The search.
        options: How configurations are proposed.
    """

    def __init__(self, experiment: Experiment, options: SearchOptions) -> None:
        self._optuna = require("optuna", "tune needs Optuna", "tune")
        self._experiment = experiment
        self._options = options
        self.checkpoints = checkpoints_of(experiment)
        self._running: dict[int, Any] = {}
        self._study = self._new_study()

    def _new_study(self) -> Any:
        """Return an empty study of Optuna; its logging is silent meanwhile."""
        optuna = self._optuna
        first = self.checkpoints[min(_N_UNPRUNED, len(self.checkpoints)) - 1]
        pruner = optuna.pruners.MedianPruner(_N_UNPRUNED, first, n_min_trials=_N_UNPRUNED)
        higher_is_better = metric(self._experiment.metrics[0]).higher_is_better
        direction = "maximize" if higher_is_better else "minimize"
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            return optuna.create_study(direction=direction, pruner=pruner)
        finally:
            optuna.logging.set_verbosity(verbosity)

    def propose(self, number: int) -> dict[str, Any]:
        """Return the configuration of a trial: the loss, and a value for every range of its space.

        The random numbers depend on the seed and on `number` alone, so a search that is continued
        draws what it would have drawn in one run.

        Args:
            number: The number of the trial, from 0.
        """
        self._study.sampler = self._sampler(number)
        trial = self._running[number] = self._study.ask()
        losses = self._experiment.losses
        loss = losses[0]
        if len(losses) > 1:
            loss = str(trial.suggest_categorical("loss", losses))
        space = space_of(self._experiment, loss)
        configuration = {"loss": loss}
        for name, key in range_names(self._experiment, loss).items():
            configuration[name] = _suggest(trial, key, space[name])
        return configuration

    def _sampler(self, number: int) -> Any:
        """Return Optuna's sampler for one trial."""
        state = np.random.SeedSequence((self._options.seed, number)).generate_state(1)
        samplers = self._optuna.samplers
        if self._options.sampler == "tpe":
            return samplers.TPESampler(seed=int(state[0]))
        return samplers.RandomSampler(seed=int(state[0]))

    def trials(self, plan: Plan, numbers: Sequence[int], deadline: float | None) -> Iterator[Trial]:
        """Yield trials of a plan as they are asked for, each with a new configuration.

        Args:
            plan: The search on its data.
            numbers: The numbers of the trials.
            deadline: When to stop, by `time.monotonic`.
        """
        for number in numbers:
            if deadline is not None and time.monotonic() > deadline:
                return
            yield plan.configured_trial(number, self.propose(number), self.checkpoints)

    def falls_behind(self, trial: Trial, told: tuple[int, float]) -> bool:
        """Return whether a trial is worse than the median of the others after as many trees.

        Args:
            trial: The trial.
            told: The number of its trees so far, and its best validation value so far.
        """
        if not self._options.prune:
            return False
        n_trees, best = told
        running = self._running[trial.number]
        running.report(best, n_trees)
        # A trial that has all its trees may as well finish.
        has_more_trees = n_trees < most_trees_of(self._experiment)
        return bool(has_more_trees and running.should_prune())

    def repeat(self, tried: TriedConfiguration) -> None:
        """Take a trial of an earlier run into account.

        Args:
            tried: The configuration and its result.
        """
        keys = {"loss": "loss", **range_names(self._experiment, tried.configuration["loss"])}
        values = {keys[name]: value for name, value in tried.configuration.items()}
        self._study.enqueue_trial(values)
        self.propose(tried.number)
        for n_trees, best in zip(self.checkpoints, tried.curve, strict=False):
            self._running[tried.number].report(best, n_trees)
        self.end(tried)

    def end(self, tried: TriedConfiguration) -> None:
        """Learn from a trial that has ended; one that failed, or was given up, says nothing.

        Args:
            tried: The configuration and its result.
        """
        trial = self._running.pop(tried.number)
        states = self._optuna.trial.TrialState
        if tried.state != DONE:
            state = states.PRUNED if tried.state == PRUNED else states.FAIL
            self._study.tell(trial, state=state)
            return
        # A training that stopped early has found its best value: its curve stays there.
        for n_trees in self.checkpoints[len(tried.curve) :]:
            trial.report(tried.score, n_trees)
        self._study.tell(trial, tried.score)


def _suggest(trial: Any, key: str, dimension: Dimension) -> Any:
    """Return the value that Optuna suggests for a range."""
    if isinstance(dimension, Choice):
        return trial.suggest_categorical(key, dimension.values)
    suggest = trial.suggest_float
    if isinstance(dimension, WholeNumber):
        suggest = trial.suggest_int
    return suggest(key, dimension.low, dimension.high, log=dimension.log)
