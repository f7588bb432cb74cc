"""Proposing the configurations of a search, and judging their curves: the one module that uses Optuna.

The study lives in memory. Trials that have ended are told to it, those of an earlier run too, so it needs no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.errors import require
from tautrank.experiments.space import Choice, Dimension, WholeNumber

if TYPE_CHECKING:
    from tautrank.experiments.result import TunedTrial
    from tautrank.experiments.search_plan import SearchPlan
    from tautrank.experiments.store import Trial

SAMPLERS = ("random", "tpe")
DONE, PRUNED, FAILED, UNFINISHED = "done", "pruned", "failed", "unfinished"
# The first trials are never pruned: a median of fewer says little.
_FIRST = 5


def require_optuna() -> Any:
    """Return Optuna, or raise an error that says how to install it."""
    return require("optuna", "tune needs Optuna", "tune")


class Proposer:
    """Proposes configurations, and learns from the trials that have ended.

    Args:
        plan: The search.
    """

    def __init__(self, plan: SearchPlan) -> None:
        optuna = self._optuna = require_optuna()
        self._plan = plan
        self._running: dict[int, Any] = {}
        pruner = optuna.pruners.MedianPruner(_FIRST, plan.first_checkpoint, n_min_trials=_FIRST)
        if not plan.prune:
            pruner = optuna.pruners.NopPruner()
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            best = "maximize" if plan.metric.higher_is_better else "minimize"
            self._study = optuna.create_study(direction=best, pruner=pruner)
        finally:
            optuna.logging.set_verbosity(verbosity)

    def propose(self, number: int) -> dict[str, Any]:
        """Return the configuration of a trial: the loss, and a value for every range of its space.

        The random numbers depend on the seed and on `number` alone, so a search that is continued draws what it would
        have drawn in one run.

        Args:
            number: The number of the trial, from 0.
        """
        seed = int(np.random.SeedSequence((self._plan.seed, number)).generate_state(1)[0])
        samplers = self._optuna.samplers
        kind = samplers.TPESampler if self._plan.sampler == "tpe" else samplers.RandomSampler
        self._study.sampler = kind(seed=seed)
        trial = self._running[number] = self._study.ask()
        losses = self._plan.losses
        loss = losses[0] if len(losses) == 1 else str(trial.suggest_categorical("loss", losses))
        space = self._plan.spaces[losses.index(loss)]
        values = {name: _suggest(trial, key, space[name]) for name, key in self._plan.keys(loss).items()}
        return {"loss": loss, **values}

    def falls_behind(self, trial: Trial, told: tuple[int, float]) -> bool:
        """Return whether a trial is worse than the median of the others after as many trees.

        Args:
            trial: The trial.
            told: The number of its trees so far, and its best validation value so far.
        """
        running, (trees, best) = self._running[trial.number], told
        running.report(best, trees)
        # A trial that has all its trees may as well finish.
        return bool(trees < self._plan.most_trees and running.should_prune())

    def repeat(self, trial: TunedTrial) -> None:
        """Take a trial of an earlier run into account.

        Args:
            trial: The trial.
        """
        keys = {"loss": "loss", **self._plan.keys(trial.configuration["loss"])}
        self._study.enqueue_trial({keys[name]: value for name, value in trial.configuration.items()})
        self.propose(trial.number)
        for trees, best in zip(self._plan.checkpoints, trial.curve, strict=False):
            self._running[trial.number].report(best, trees)
        self.end(trial)

    def end(self, ended: TunedTrial) -> None:
        """Learn from a trial that has ended; one that failed, or was given up, says nothing.

        Args:
            ended: The trial.
        """
        trial, states = self._running.pop(ended.number), self._optuna.trial.TrialState
        if ended.state != DONE:
            self._study.tell(trial, state=states.PRUNED if ended.state == PRUNED else states.FAIL)
        else:
            assert ended.score is not None
            # A training that stopped early has found its best value: its curve stays there.
            for trees in self._plan.checkpoints[len(ended.curve) :]:
                trial.report(ended.score, trees)
            self._study.tell(trial, ended.score)


def _suggest(trial: Any, key: str, given: Dimension) -> Any:
    if isinstance(given, Choice):
        return trial.suggest_categorical(key, given.values)
    if isinstance(given, WholeNumber):
        return trial.suggest_int(key, given.low, given.high, log=given.log)
    return trial.suggest_float(key, given.low, given.high, log=given.log)
