"""Proposing the configurations of a search, and judging their curves: the one module that uses Optuna.

The study lives in memory. Trials that have ended are told to it, those of an earlier run too, so it needs no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.errors import MissingDependencyError
from tautrank.experiments.space import Choice, Dimension, WholeNumber

if TYPE_CHECKING:
    from optuna.trial import Trial

    from tautrank.experiments.search_plan import SearchPlan
    from tautrank.experiments.tune import TunedTrial

SAMPLERS = ("random", "tpe")
DONE, PRUNED, FAILED, UNFINISHED = "done", "pruned", "failed", "unfinished"
# The first trials are never pruned: a median of fewer says little.
_FIRST = 5


def require_optuna() -> None:
    """Raise an error that says how to install Optuna, if it is missing."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise MissingDependencyError("tune needs Optuna; install it with: pip install 'tautrank[tune]'") from None


class Proposer:
    """Proposes configurations, and learns from the trials that have ended.

    Args:
        plan: The search.
    """

    def __init__(self, plan: SearchPlan) -> None:
        import optuna

        self._plan = plan
        self._running: dict[int, Trial] = {}
        pruner: Any = optuna.pruners.NopPruner()
        if plan.prune:
            pruner = optuna.pruners.MedianPruner(_FIRST, plan.first_checkpoint, n_min_trials=_FIRST)
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            best = "maximize" if plan.metric.higher_is_better else "minimize"
            self._study = optuna.create_study(direction=best, pruner=pruner)  # type: ignore[arg-type]
        finally:
            optuna.logging.set_verbosity(verbosity)

    def propose(self, number: int) -> dict[str, Any]:
        """Return the configuration of a trial: the loss, and a value for every range of its space.

        The random numbers depend on the seed and on `number` alone, so a search that is continued draws what it would
        have drawn in one run.

        Args:
            number: The number of the trial, from 0.
        """
        import optuna

        seed = int(np.random.SeedSequence((self._plan.seed, number)).generate_state(1)[0])
        kind = optuna.samplers.TPESampler if self._plan.sampler == "tpe" else optuna.samplers.RandomSampler
        self._study.sampler = kind(seed=seed)
        trial = self._running[number] = self._study.ask()
        losses = self._plan.losses
        loss = losses[0] if len(losses) == 1 else str(trial.suggest_categorical("loss", losses))
        space = self._plan.spaces[losses.index(loss)]
        values = {name: _suggest(trial, key, space[name]) for name, key in self._plan.keys(loss).items()}
        return {"loss": loss, **values}

    def falls_behind(self, number: int, trees: int, best: float) -> bool:
        """Return whether a trial is worse than the median of the others after as many trees.

        Args:
            number: The number of the trial.
            trees: The number of its trees so far.
            best: Its best validation value so far.
        """
        trial = self._running[number]
        trial.report(best, trees)
        # A trial that has all its trees may as well finish.
        return trees < self._plan.most_trees and trial.should_prune()

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
        self.end(trial.number, trial)

    def end(self, number: int, ended: TunedTrial | None) -> None:
        """Learn from a trial that has ended; one that failed, or was given up, says nothing.

        Args:
            number: The number of the trial.
            ended: The trial; None if it was given up.
        """
        from optuna.trial import TrialState

        trial = self._running.pop(number)
        if ended is None or ended.state == FAILED:
            self._study.tell(trial, state=TrialState.FAIL)
        elif ended.state == PRUNED:
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            assert ended.score is not None
            # A training that stopped early has found its best value: its curve stays there.
            for trees in self._plan.checkpoints[len(ended.curve) :]:
                trial.report(ended.score, trees)
            self._study.tell(trial, ended.score)


def _suggest(trial: Trial, key: str, given: Dimension) -> Any:
    if isinstance(given, Choice):
        return trial.suggest_categorical(key, given.values)
    if isinstance(given, WholeNumber):
        return trial.suggest_int(key, given.low, given.high, log=given.log)
    return trial.suggest_float(key, given.low, given.high, log=given.log)
