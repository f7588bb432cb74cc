"""`tautrank.tune`: search for the parameters that rank best on the validation data, with Optuna.

Optuna's study lives in memory: trials that have ended are told to it, those of an earlier run too,
so it needs no file.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

import tautrank
from tautrank.arguments import job_count
from tautrank.data import RankingData, Splits
from tautrank.engines import Step
from tautrank.errors import DataError, OptionError, require
from tautrank.experiments.data_source import MEMORY, fingerprint_of
from tautrank.experiments.search import SearchPlan, check_data, plan_search
from tautrank.experiments.space import Choice, Dimension, WholeNumber, parameters_of
from tautrank.experiments.store import DONE, FAILED, IMPOSSIBLE, Store, Trial
from tautrank.experiments.trial import Surroundings
from tautrank.experiments.tuning import PRUNED, UNFINISHED, TunedTrial, Tuning
from tautrank.experiments.workers import run_trials
from tautrank.files import PathLike
from tautrank.json_values import canonical, digest
from tautrank.losses import Loss
from tautrank.losses.own_losses import sendable
from tautrank.metrics import Metric
from tautrank.progress import Progress, Silent

# The first trials are never pruned, and none at its first checkpoints; docs/tuning.md has the
# measurements.
_FIRST = 5
_SEARCH = (
    "search"  # the name under which a store keeps the specification of the search it belongs to
)


def tune(
    train: RankingData,
    valid: RankingData,
    *,
    loss: str | Loss | Sequence[str | Loss] = "lambdarank",
    metric: str | Metric = "ndcg@10",
    n_trials: int = 50,
    sampler: str = "random",
    space: str | Mapping[str, Any] | None = None,
    store: PathLike | None = None,
    prune: bool = True,
    n_jobs: int | None = None,
    workers: int = 1,
    seed: int = 0,
    timeout: float | None = None,
    refit: str | None = "train",
    progress: Progress | None = None,
    **fixed: Any,
) -> Tuning:
    """Search for the parameters that rank best on the validation data, with Optuna.

    Every trial trains on `train` and is judged by its best validation value of `metric`; no test
    data is needed. Random trials depend only on `seed` and on their number, so a search that was
    stopped and continued, or is given more trials later, is the same as one that ran in one go. The
    same holds for ``tpe`` with one worker. Pruning compares the curve of a trial with those of
    earlier trials, so with several workers it depends on their timing.

    Akiba et al., *Optuna: A Next-generation Hyperparameter Optimization Framework*, KDD 2019;
    Bergstra and Bengio, *Random Search for Hyper-Parameter Optimization*, JMLR 2012; Bergstra et
    al., *Algorithms for Hyper-Parameter Optimization*, NIPS 2011 (``tpe``); Golovin et al., *Google
    Vizier*, KDD 2017 (stopping by the median).

    Args:
        train, valid: The data to train and to validate on.
        loss: The loss, as `Ranker` takes it, or several to choose from.
        metric: The metric to optimise; it also stops each training early.
        n_trials: The number of trials, including those that the store holds.
        sampler: ``"random"``, or ``"tpe"``, which samples near good earlier trials.
        space: Ranges by name: parameters of `Ranker` and of its engine, ``loss.NAME`` for
            parameters of the loss, ``langevin.temperature`` and ``langevin.shrink_rate``; each
            ``("float", low, high)`` or ``("int", low, high)``, with ``"log"`` at the end for a
            logarithmic range, or ``("choice", a, b, ...)``. Or the name of a space: ``"default"``
            (also None: the parameters of trees and of the loss that matter most), ``"trees"``, or
            ``"stochasticrank"``, the one of that paper. A space with a name leaves out what is
            fixed.
        store: A file that keeps every trial, to continue from.
        prune: Whether to stop a trial when its best value, from a quarter of the trees on, is below
            the median of the completed trials after as many trees. The first five trials are never
            stopped.
        n_jobs, workers: The number of threads in all, and of processes that train in parallel.
        seed: The seed of all randomness, that of the trainings included.
        timeout: The time limit in seconds; trials still running then are given up.
        refit: The data for the final training of the best model, `Tuning.ranker`: ``"train"``, or
            ``"train+valid"`` with the same number of trees; None trains no final model.
        progress: What is told how many trials have ended, and a line about the last one.
        **fixed: Parameters of `Ranker` that are the same in all trials; up to 500 trees and early
            stopping after 50, unless given here or in `space`.

    Returns:
        A `Tuning`: ``best_params``, ``best_score``, ``trials``, ``ranker``, ``table()``,
        ``to_csv()``, ``to_dict()``.

    >>> from tautrank.simulate import simulate_web_search
    >>> train, valid = simulate_web_search(60, n_features=16, mean_length=10).split([0.7, 0.3])
    >>> space = {"num_leaves": ("int", 2, 15), "loss.k": ("choice", 5, None)}
    >>> found = tune(train, valid, space=space, n_trials=3, n_estimators=5, n_jobs=1)
    >>> found.best_score == max(trial.score for trial in found.trials)
    True
    >>> found.ranker.score(valid) == found.best_score
    True
    """
    how: dict[str, Any] = {
        "sampler": sampler,
        "prune": prune,
        "n_trials": n_trials,
        "timeout": timeout,
        "seed": seed,
    }
    how |= {"n_jobs": n_jobs, "workers": workers, "store": store, "refit": refit}
    return run_search(plan_search(loss, metric, space, fixed, **how), train, valid, progress)


class SearchInterrupted(KeyboardInterrupt):
    """A search was stopped by hand.

    Args:
        result: The search with the trials that have ended.
    """

    def __init__(self, result: Tuning) -> None:
        super().__init__("the search was stopped")
        self.result = result


def run_search(
    plan: SearchPlan, train: RankingData, valid: RankingData, progress: Progress | None = None
) -> Tuning:
    """Run the trials of a plan that its store does not hold yet, and train the best model.

    Args:
        plan: The search.
        train, valid: The data to train and to validate on.
        progress: What is told how many trials have ended, and a line about the last one.
    """
    check_data(plan, train, valid)
    deadline = None if plan.timeout is None else time.monotonic() + plan.timeout
    data = Splits(train, valid, train.subset([]))
    spec = plan.spec("" if plan.store is None else fingerprint_of(data))
    ended: dict[int, TunedTrial] = {}
    unfinished = ""
    progress = progress or Silent()

    def result() -> Tuning:
        return Tuning(
            plan, tuple(ended[number] for number in sorted(ended) if number < plan.n_trials)
        )

    with _open_store(plan, spec) as store, store.running():
        proposer = Proposer(plan)
        for trial in starmap(TunedTrial.of, store.finished()):
            ended[trial.number] = trial
            proposer.repeat(trial)
        waiting = [number for number in range(plan.n_trials) if number not in ended]
        progress.update(
            len(result().trials),
            plan.n_trials,
            f"continuing after {len(result().trials)} trials" if ended else "",
        )
        n = min(plan.workers, len(waiting))
        own = sendable([*plan.losses, plan.metric]) if n > 1 else ()
        threads = max(1, job_count(plan.n_jobs) // plan.workers)
        around = Surroundings(own=own, held={spec["data"]: data}, threads=threads)
        run = partial(run_search_trial, plan=plan, deadline=deadline if n == 1 else None)
        trials = proposer.trials(waiting, spec, deadline)
        # A trial that lost its process is left unfinished; the next run proposes it again.
        how: dict[str, Any] = {"deadline": deadline, "most_losses": 1, "lost": IMPOSSIBLE}
        try:
            for job, outcome in run_trials(
                n, run, trials, around, answer=proposer.falls_behind, **how
            ):
                trial = TunedTrial.of(job, outcome)
                proposer.end(trial)
                if trial.state == UNFINISHED:
                    unfinished = trial.error or unfinished
                    continue
                store.record(job, outcome)
                ended[job.number] = trial
                progress.update(len(result().trials), plan.n_trials, _describe(result(), trial))
        except KeyboardInterrupt:
            raise SearchInterrupted(result()) from None
    found = result()
    if not found.has_best:
        raise _nothing_found(found, unfinished)
    return (
        found
        if plan.refit is None
        else dataclasses.replace(found, ranker=_refit(found, train, valid))
    )


def run_search_trial(
    spec: Mapping[str, Any],
    around: Surroundings,
    *,
    plan: SearchPlan,
    deadline: float | None = None,
) -> dict[str, Any]:
    """Train the configuration of a trial, and return the fields of a `TunedTrial`.

    Args:
        spec: The specification of the trial.
        around: The data, and what all trials need; it is told the number of trees and the best
            validation value so far at each checkpoint, and the trial is pruned if it answers True.
        plan: The search.
        deadline: When to stop, by `time.monotonic`.
    """
    found: dict[str, Any] = {"state": DONE, "score": math.nan, "trees": 0, "grown": 0, "curve": []}

    def watch(step: Step) -> bool:
        score = step.history["valid"][str(plan.metric)][step.best_step]
        found.update(score=score, trees=step.best_step + 1, grown=step.step + 1)
        if deadline is not None and time.monotonic() > deadline:
            found["state"] = UNFINISHED
        elif found["grown"] in plan.checkpoints:
            found["curve"].append(score)
            if plan.prune and around.ask((found["grown"], score)):
                found["state"] = PRUNED
        return bool(found["state"] != DONE)

    data = around.held[spec["data"]["fingerprint"]]
    parameters = {**parameters_of(spec["configuration"], plan.fixed), "n_jobs": around.threads}
    tautrank.Ranker(metric=plan.metric, **parameters).fit(data.train, data.valid, callbacks=[watch])
    if math.isnan(found["score"]):
        raise DataError(
            f"{plan.metric} of the validation data is not a number; expected a query that counts"
        )
    return found


def _refit(found: Tuning, train: RankingData, valid: RankingData) -> tautrank.Ranker:
    ranker = tautrank.Ranker(
        **{**found.best_params, "metric": found.metric, "n_jobs": found.plan.n_jobs}
    )
    if found.plan.refit == "train":
        return ranker.fit(train, valid)
    return ranker.fit(RankingData.concat([train, valid], repeated="separate"))


def _describe(found: Tuning, trial: TunedTrial) -> str:
    """Return a line about a trial that has just ended."""
    pruned = f"pruned after {trial.grown} trees at " if trial.state == PRUNED else ""
    how = (
        f"failed: {trial.error}"
        if trial.state == FAILED
        else f"{pruned}{found.metric} {trial.score:.4f}"
    )
    text = f"trial {trial.number} {how}"
    if found.has_best and found.best is not trial:
        text += f" (best {found.best_score:.4f}, trial {found.best.number})"
    return text


def _nothing_found(found: Tuning, unfinished: str) -> Exception:
    failed = next((trial for trial in found.trials if trial.state == FAILED), None)
    if failed is not None:
        return DataError(
            f"space: found no trial that can be trained, trial {failed.number} failed: {failed.error}"
        )
    if unfinished:
        return DataError(f"trials: found none that ended, {unfinished}; expected at least one")
    late = f"found no trial that ended in {found.plan.timeout:g} seconds"
    return OptionError(f"timeout: {late}; expected more time, or fewer trees")


def _open_store(plan: SearchPlan, spec: Mapping[str, Any]) -> Store:
    """Open the store of a search; one that holds anything else is refused."""
    path = None if plan.store is None else Path(plan.store)
    store = Store(path, {_SEARCH: canonical(spec)}, kind="search")
    found = json.loads(store.meta[_SEARCH])
    if found != spec:
        store.close()
        raise DataError(
            f"{path}: holds another search, {_difference(found, spec)}, or another file"
        )
    return store


def _difference(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Return the first difference between two specifications of searches, in words."""
    name = next(name for name in [*expected, *found] if found.get(name) != expected.get(name))
    if name == "data":
        return "on other data; expected the same data"
    old, new = (spec.get(name, "none") for spec in (found, expected))
    old, new = (
        ", ".join(map(str, value)) if isinstance(value, list) else value for value in (old, new)
    )
    return f"with {name} {old}; found {new}, expected the same"


class Proposer:
    """Proposes configurations, and learns from the trials that have ended.

    Args:
        plan: The search.
    """

    def __init__(self, plan: SearchPlan) -> None:
        optuna = self._optuna = require("optuna", "tune needs Optuna", "tune")
        self._plan = plan
        self._running: dict[int, Any] = {}
        first = plan.checkpoints[min(_FIRST, len(plan.checkpoints)) - 1]
        pruner = optuna.pruners.MedianPruner(_FIRST, first, n_min_trials=_FIRST)
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            best = "maximize" if plan.metric.higher_is_better else "minimize"
            self._study = optuna.create_study(direction=best, pruner=pruner)
        finally:
            optuna.logging.set_verbosity(verbosity)

    def propose(self, number: int) -> dict[str, Any]:
        """Return the configuration of a trial: the loss, and a value for every range of its space.

        The random numbers depend on the seed and on `number` alone, so a search that is continued
        draws what it would have drawn in one run.

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
        values = {
            name: _suggest(trial, key, space[name]) for name, key in self._plan.keys(loss).items()
        }
        return {"loss": loss, **values}

    def trials(
        self, numbers: list[int], search: Mapping[str, Any], deadline: float | None
    ) -> Iterator[Trial]:
        """Propose trials, as they are asked for.

        Args:
            numbers: Their numbers.
            search: The specification of the search.
            deadline: When to stop, by `time.monotonic`.
        """
        source = {"given": [MEMORY], "fold": 1, "fingerprint": search["data"]}
        for number in numbers:
            if deadline is not None and time.monotonic() > deadline:
                return
            spec = {
                "search": digest(search),
                "data": source,
                "number": number,
                "configuration": self.propose(number),
            }
            yield Trial(number, digest(spec), spec)

    def falls_behind(self, trial: Trial, progress: tuple[int, float]) -> bool:
        """Return whether a trial is worse than the median of the others after as many trees.

        Args:
            trial: The trial.
            progress: The number of its trees so far, and its best validation value so far.
        """
        running, (trees, best) = self._running[trial.number], progress
        running.report(best, trees)
        # A trial that has all its trees may as well finish.
        return bool(trees < self._plan.most_trees and running.should_prune())

    def repeat(self, trial: TunedTrial) -> None:
        """Take a trial of an earlier run into account.

        Args:
            trial: The trial.
        """
        keys = {"loss": "loss", **self._plan.keys(trial.configuration["loss"])}
        self._study.enqueue_trial(
            {keys[name]: value for name, value in trial.configuration.items()}
        )
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
    suggest = trial.suggest_int if isinstance(given, WholeNumber) else trial.suggest_float
    return suggest(key, given.low, given.high, log=given.log)
