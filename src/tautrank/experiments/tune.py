"""`tautrank.tune`: search for the parameters that rank best on the validation data, with Optuna."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tautrank
from tautrank.arguments import job_count
from tautrank.data import RankingData, Splits
from tautrank.errors import DataError, OptionError
from tautrank.experiments.data_source import MEMORY, DataSource
from tautrank.experiments.plan import Experiment, Plan
from tautrank.experiments.proposer import Proposer
from tautrank.experiments.search import (
    SearchOptions,
    check_data,
    declare_search,
    search_content,
)
from tautrank.experiments.store import FAILED, IMPOSSIBLE, Store
from tautrank.experiments.trial import PRUNED, UNFINISHED, TrialContext, run_trial
from tautrank.experiments.tuning import TriedConfiguration, Tuning
from tautrank.experiments.workers import RunOptions, run_trials
from tautrank.files import PathLike
from tautrank.json_values import canonical
from tautrank.losses import Loss
from tautrank.losses.own_losses import OwnLoss, sendable
from tautrank.metrics import Metric
from tautrank.progress import Progress, Silent

_SEARCH = "search"
"""The name under which a store keeps what decides the results of its search."""


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
    final_fit: str | None = "train",
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
        final_fit: The data for the final training of the best model, `Tuning.ranker`: ``"train"``, or
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
    options = SearchOptions(
        sampler=sampler,
        prune=prune,
        n_trials=n_trials,
        timeout=timeout,
        seed=seed,
        n_jobs=n_jobs,
        workers=workers,
        store=store,
        final_fit=final_fit,
    )
    experiment = declare_search(loss, metric, space, fixed, options.seed)
    return run_search(experiment, options, train, valid, progress)


class SearchInterrupted(KeyboardInterrupt):
    """A search was stopped by hand.

    Args:
        result: The search with the trials that have ended.
    """

    def __init__(self, result: Tuning) -> None:
        super().__init__("the search was stopped")
        self.result = result


def run_search(
    experiment: Experiment,
    options: SearchOptions,
    train: RankingData,
    valid: RankingData,
    progress: Progress | None = None,
) -> Tuning:
    """Run the trials of a search that its store does not hold yet, and train the best model.

    Args:
        experiment: The losses, and the ranges to search.
        options: How configurations are proposed and trained.
        train, valid: The data to train and to validate on.
        progress: What is told how many trials have ended, and a line about the last one.
    """
    check_data(experiment, train, valid)
    deadline = None
    if options.timeout is not None:
        deadline = time.monotonic() + options.timeout
    empty_test_data = train.subset([])
    splits = Splits(train, valid, empty_test_data)
    source = DataSource((MEMORY,), held=(splits,))
    plan = Plan.of(experiment, source, seed=options.seed)

    search = _RunningSearch(plan, options, progress or Silent())
    with _open_store(plan, options) as store, store.running():
        search.take_up(store)
        try:
            search.run(store, deadline)
        except KeyboardInterrupt:
            raise SearchInterrupted(search.result()) from None

    result = search.result()
    if not result.has_best:
        raise search.nothing_found()
    if options.final_fit is None:
        return result
    return dataclasses.replace(result, ranker=_final_model(result, train, valid))


class _RunningSearch:
    """A search, and what its trials have found so far.

    Args:
        plan: The search on its data.
        options: How configurations are proposed and trained.
        progress: What is told about each trial that ends.
    """

    def __init__(self, plan: Plan, options: SearchOptions, progress: Progress) -> None:
        self._plan = plan
        self._options = options
        self._progress = progress
        self._proposer = Proposer(plan.study, options)
        self._ended: dict[int, TriedConfiguration] = {}
        self._reason_unfinished = ""

    def take_up(self, store: Store) -> None:
        """Tell the proposer of configurations the finished trials of an earlier run, as the store
        has them.
        """
        for trial, outcome in store.finished():
            tried = TriedConfiguration.of(trial, outcome)
            self._ended[tried.number] = tried
            self._proposer.repeat(tried)

    def run(self, store: Store, deadline: float | None) -> None:
        """Run the trials that have not ended, store each as it ends, and report progress.

        Args:
            store: the store of finished trials.
            deadline: the time, by `time.monotonic`, at which to give up running trials.
        """
        all_numbers = range(self._options.n_trials)
        waiting_numbers = [number for number in all_numbers if number not in self._ended]
        text = ""
        if self._ended:
            text = f"continuing after {self._n_ended} trials"
        self._show_progress(text)

        n_processes = min(self._options.workers, len(waiting_numbers))
        trials = self._proposer.trials(self._plan, waiting_numbers, deadline)
        run_options = RunOptions(
            answer=self._proposer.falls_behind,
            deadline=deadline,
            # A trial that lost its process is left unfinished; the next run proposes it again.
            most_deaths=1,
            status_if_lost=IMPOSSIBLE,
        )
        context = self._trial_context(n_processes)
        for trial, outcome in run_trials(n_processes, run_trial, trials, context, run_options):
            tried = TriedConfiguration.of(trial, outcome)
            self._proposer.end(tried)
            if tried.state == UNFINISHED:
                self._reason_unfinished = tried.error or self._reason_unfinished
                continue
            store.record(trial, outcome)
            self._ended[tried.number] = tried
            self._show_progress(_trial_text(self.result(), tried))

    def _trial_context(self, n_processes: int) -> TrialContext:
        """Return what all trials need: the data, the user's own losses, and the number of threads
        for each process.
        """
        experiment = self._plan.study
        # Only other processes have to import the user's own losses.
        custom_losses: tuple[OwnLoss, ...] = ()
        if n_processes > 1:
            custom_losses = sendable([*experiment.losses, *experiment.metrics])

        n_threads = job_count(self._options.n_jobs)
        # The threads are shared out among the processes.
        threads_per_process = max(1, n_threads // self._options.workers)
        return TrialContext(
            custom_losses=custom_losses,
            data=self._plan.data_by_fingerprint,
            threads=threads_per_process,
        )

    @property
    def _n_ended(self) -> int:
        """The number of trials that have ended."""
        return len(self.result().trials)

    def _show_progress(self, text: str) -> None:
        """Report how many trials have ended, with a line of text."""
        self._progress.update(self._n_ended, self._options.n_trials, text)

    def result(self) -> Tuning:
        """Return the result of the search so far: the trials that have ended, by number, without a
        trained model.
        """
        ended_trials = []
        for number in sorted(self._ended):
            # The store may hold more trials than this run asks for.
            if number < self._options.n_trials:
                ended_trials.append(self._ended[number])
        return Tuning(self._plan.study, self._options, tuple(ended_trials))

    def nothing_found(self) -> Exception:
        """Return the error to raise if no trial was trained to the end; it says why: trials failed,
        lost their process, or ran out of time.
        """
        for trial in self.result().trials:
            if trial.state == FAILED:
                return DataError(
                    "space: found no trial that can be trained,"
                    f" trial {trial.number} failed: {trial.error}"
                )
        if self._reason_unfinished:
            return DataError(
                f"trials: found none that ended, {self._reason_unfinished}; expected at least one"
            )
        return OptionError(
            f"timeout: found no trial that ended in {self._options.timeout:g} seconds;"
            " expected more time, or fewer trees"
        )


def _final_model(result: Tuning, train: RankingData, valid: RankingData) -> tautrank.Ranker:
    """Return a model with the best hyperparameters and number of trees of a search, trained on the
    training data or, if the search says so, on training and validation data together.
    """
    # `best_params` include the best number of trees.
    parameters = {**result.best_params, "n_jobs": result.options.n_jobs}
    ranker = tautrank.Ranker(**parameters)
    if result.options.final_fit == "train":
        return ranker.fit(train, valid)
    all_data = RankingData.concat([train, valid], repeated="separate")
    return ranker.fit(all_data)


def _trial_text(result: Tuning, trial: TriedConfiguration) -> str:
    """Return a line of progress about a trial that has just ended: its score or error, and the best
    score so far.
    """
    if trial.state == FAILED:
        outcome = f"failed: {trial.error}"
    else:
        outcome = f"{result.metric} {trial.score:.4f}"
        if trial.state == PRUNED:
            outcome = f"pruned after {trial.grown} trees at {outcome}"
    text = f"trial {trial.number} {outcome}"
    if result.has_best and result.best is not trial:
        text += f" (best {result.best_score:.4f}, trial {result.best.number})"
    return text


def _open_store(plan: Plan, options: SearchOptions) -> Store:
    """Open the file in which a search keeps its finished trials; a file that holds the trials of
    another search is refused.
    """
    content = search_content(plan, options)
    path = None if options.store is None else Path(options.store)
    store = Store(path, {_SEARCH: canonical(content)}, kind="search")
    # A new file has just got the settings of this search; an old one keeps its own.
    stored_content = json.loads(store.meta[_SEARCH])
    if stored_content != content:
        store.close()
        difference = _difference(stored_content, content)
        raise DataError(f"{path}: holds another search, {difference}, or another file")
    return store


def _difference(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return in words the first setting in which the search that a file holds differs from the one
    that is asked for.

    Args:
        stored: the settings of the search in the file, by name.
        wanted: the settings of the search that is asked for.
    """
    # A setting may be missing on either side.
    names = [*wanted, *stored]
    differing_names = [name for name in names if stored.get(name) != wanted.get(name)]
    first_name = differing_names[0]
    if first_name == "data":
        return "on other data; expected the same data"
    stored_text = _value_text(stored, first_name)
    wanted_text = _value_text(wanted, first_name)
    return f"with {first_name} {stored_text}; found {wanted_text}, expected the same"


def _value_text(content: Mapping[str, Any], name: str) -> str:
    """Return the setting of a search as text, ``none`` if it has no such setting."""
    value = content.get(name, "none")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
