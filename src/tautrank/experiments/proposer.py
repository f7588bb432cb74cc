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
        """Return a new study of Optuna, in memory, that prunes by the median of other trials;
        Optuna's logging is silenced while the study is made.
        """
        optuna = self._optuna
        # Pruning begins at the fifth checkpoint (a number of trees), or at the last one of fewer.
        first_pruning_index = min(_N_UNPRUNED, len(self.checkpoints)) - 1
        first_checkpoint = self.checkpoints[first_pruning_index]
        # Nor is a trial pruned while there are fewer than five earlier ones to compare it with.
        pruner = optuna.pruners.MedianPruner(
            _N_UNPRUNED, first_checkpoint, n_min_trials=_N_UNPRUNED
        )
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
        self._study.sampler = self._new_sampler(number)
        optuna_trial = self._study.ask()
        # Kept until the trial ends, when Optuna is told its result.
        self._running[number] = optuna_trial

        losses = self._experiment.losses
        loss = losses[0]
        if len(losses) > 1:
            loss = str(optuna_trial.suggest_categorical("loss", losses))

        # Optuna knows each range by a name that is unique among the ranges of all losses.
        space = space_of(self._experiment, loss)
        configuration = {"loss": loss}
        for name, unique_name in range_names(self._experiment, loss).items():
            configuration[name] = _suggest(optuna_trial, unique_name, space[name])
        return configuration

    def _new_sampler(self, number: int) -> Any:
        """Return a sampler of Optuna for one trial, seeded by the search's seed and the number of
        the trial.
        """
        seeds = (self._options.seed, number)
        # A seed of its own for each trial: what earlier trials drew does not matter.
        random_state = np.random.SeedSequence(seeds).generate_state(1)
        seed = int(random_state[0])
        samplers = self._optuna.samplers
        if self._options.sampler == "tpe":
            return samplers.TPESampler(seed=seed)
        return samplers.RandomSampler(seed=seed)

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
        """Return whether to stop a trial early, because its best validation score is worse than the
        median of the earlier trials after as many trees.

        Args:
            trial: The trial.
            told: The number of its trees so far, and its best validation score so far.
        """
        if not self._options.prune:
            return False
        n_trees, best_score = told
        # Optuna compares the values that its trials report for the same number of trees.
        optuna_trial = self._running[trial.number]
        optuna_trial.report(best_score, n_trees)
        # A trial that has all its trees may as well finish.
        if n_trees >= most_trees_of(self._experiment):
            return False
        return bool(optuna_trial.should_prune())

    def repeat(self, tried: TriedConfiguration) -> None:
        """Tell Optuna a trial of an earlier run: its configuration, its validation curve and its
        result.

        The configuration is put in Optuna's queue, from where `propose` takes it.

        Args:
            tried: The configuration and its result.
        """
        loss = tried.configuration["loss"]
        unique_names = {"loss": "loss", **range_names(self._experiment, loss)}
        values_by_unique_name = {}
        for name, value in tried.configuration.items():
            values_by_unique_name[unique_names[name]] = value
        self._study.enqueue_trial(values_by_unique_name)
        # What is queued is what Optuna suggests next, so this repeats the configuration.
        self.propose(tried.number)

        optuna_trial = self._running[tried.number]
        # The curve of a trial that was stopped has fewer values than there are checkpoints.
        for n_trees, best_score in zip(self.checkpoints, tried.curve, strict=False):
            optuna_trial.report(best_score, n_trees)
        self.end(tried)

    def end(self, tried: TriedConfiguration) -> None:
        """Tell Optuna the result of a trial that has ended: its score, or that it was pruned, or
        that it failed and says nothing about its configuration.

        Args:
            tried: The configuration and its result.
        """
        optuna_trial = self._running.pop(tried.number)
        states = self._optuna.trial.TrialState
        if tried.state != DONE:
            # To Optuna, a trial that did not end has failed.
            state = states.PRUNED if tried.state == PRUNED else states.FAIL
            self._study.tell(optuna_trial, state=state)
            return
        # A training that stopped early has found its best value: its curve stays there.
        # `curve` has the best score at each checkpoint (a number of trees) that the trial reached.
        missing_checkpoints = self.checkpoints[len(tried.curve) :]
        for n_trees in missing_checkpoints:
            optuna_trial.report(tried.score, n_trees)
        self._study.tell(optuna_trial, tried.score)


def _suggest(optuna_trial: Any, unique_name: str, dimension: Dimension) -> Any:
    """Return the value that a trial of Optuna suggests for a range of hyperparameter values.

    Args:
        optuna_trial: the trial.
        unique_name: the name by which Optuna knows the range.
        dimension: the range: a choice of values, whole numbers or real numbers.
    """
    if isinstance(dimension, Choice):
        return optuna_trial.suggest_categorical(unique_name, dimension.values)
    # Both methods of Optuna take the ends of the range, and whether its scale is logarithmic.
    suggest = optuna_trial.suggest_float
    if isinstance(dimension, WholeNumber):
        suggest = optuna_trial.suggest_int
    return suggest(unique_name, dimension.low, dimension.high, log=dimension.log)
