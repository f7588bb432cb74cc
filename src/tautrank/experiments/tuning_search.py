"""Searching for the parameters that validate best: trials one after the other, or side by side, kept as they end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tautrank.arguments import job_count, real, whole
from tautrank.data import RankingData, Splits
from tautrank.errors import DataError, OptionError
from tautrank.experiments.configuration import parameters_of
from tautrank.experiments.data_source import fingerprint_of
from tautrank.experiments.fit_best import Progress
from tautrank.experiments.processes import Lost, run_jobs
from tautrank.experiments.tuning_plan import TuningPlan, check_data
from tautrank.experiments.tuning_store import TuningStore
from tautrank.experiments.tuning_trial import (
    DONE,
    FAILED,
    PRUNED,
    UNFINISHED,
    Outcome,
    TrialRecord,
    TuningTrial,
    run_tuning_trial,
)
from tautrank.losses.own_losses import sendable
from tautrank.ranker.estimator import Ranker

REFITS = ("train", "train+valid")


@dataclass(frozen=True)
class Budget:
    """How long a search may go on.

    Args:
        n_trials: trials in all, those of an earlier run included.
        timeout: seconds of this run; trials under way are then given up. None for no limit.
        n_jobs: threads in all.
        workers: processes that train side by side.
    """

    n_trials: int = 50
    timeout: float | None = None
    n_jobs: int | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        whole("n_trials", self.n_trials, least=1)
        whole("workers", self.workers, least=1)
        job_count(self.n_jobs)
        if self.timeout is not None:
            real("timeout", self.timeout, least=0.0, above=True)

    @property
    def threads(self) -> int:
        """Threads of each training."""
        return max(1, job_count(self.n_jobs) // self.workers)


class SearchInterrupted(KeyboardInterrupt):
    """A search was stopped by hand.

    Args:
        plan: the search.
        trials: those that have ended.
    """

    def __init__(self, plan: TuningPlan, trials: list[TrialRecord]) -> None:
        super().__init__("the search was stopped")
        self.plan = plan
        self.trials = trials


def run_search(
    plan: TuningPlan,
    train: RankingData,
    valid: RankingData,
    budget: Budget,
    storage: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[TrialRecord]:
    """Run the trials that the storage does not hold yet; all that have ended come back, by number.

    Args:
        plan: the search.
        train, valid: what to train and to judge on.
        budget: how long.
        storage: a file, see `TuningStore`; None keeps nothing.
        progress: called with (ended, all, what ended last).
    """
    check_data(plan, train, valid)
    deadline = None if budget.timeout is None else time.monotonic() + budget.timeout
    data = "" if storage is None else fingerprint_of(Splits(train, valid, train.subset([])))
    died = ""
    with TuningStore(storage, plan, plan.spec(data)) as store:
        ended = {record.number: record for record in store.finished() if record.number < budget.n_trials}
        waiting = [number for number in range(budget.n_trials) if number not in ended]

        def tell(what: str) -> None:
            if progress is not None:
                progress(len(ended), budget.n_trials, what)

        tell(f"going on from {len(ended)} trials" if ended else "")
        try:
            for record in _run(plan, store, waiting, (train, valid), budget, deadline):
                if record.outcome.state == UNFINISHED:
                    died = record.outcome.error or died
                    continue
                ended[record.number] = record
                tell(described(plan, record, best_of(plan, list(ended.values()))))
        except KeyboardInterrupt:
            raise SearchInterrupted(plan, [ended[number] for number in sorted(ended)]) from None
    records = [ended[number] for number in sorted(ended)]
    if best_of(plan, records) is None:
        raise _nothing_found(records, budget, died)
    return records


def best_of(plan: TuningPlan, records: list[TrialRecord]) -> TrialRecord | None:
    """The trial with the best validation value, the first of equals; None where none was done.

    Args:
        plan: the search.
        records: trials.
    """
    sign = 1.0 if plan.metric.higher_is_better else -1.0
    done = [record for record in records if record.outcome.state == DONE and record.outcome.score is not None]
    return max(done, key=lambda record: (sign * (record.outcome.score or 0.0), -record.number), default=None)


def best_parameters(plan: TuningPlan, best: TrialRecord) -> dict[str, Any]:
    """What `Ranker` takes to train the best trial's model: as many trees as validated best, no early stopping.

    Args:
        plan: the search.
        best: its best trial.
    """
    parameters = {"metric": str(plan.metric), **parameters_of(best.configuration, plan.fixed)}
    return {**parameters, "n_estimators": best.outcome.trees, "early_stopping_rounds": None}


def refitted(
    plan: TuningPlan, best: TrialRecord, train: RankingData, valid: RankingData, refit: str, n_jobs: int | None
) -> Ranker:
    """Train the model of the best trial once more.

    Args:
        plan: the search.
        best: its best trial.
        train, valid: its data.
        refit: ``train`` gives the model that was judged; ``train+valid`` learns from the validation data too, so that
            no data is left to judge it by.
        n_jobs: threads.
    """
    ranker = Ranker(**{**best_parameters(plan, best), "metric": plan.metric, "n_jobs": n_jobs})
    if refit == "train":
        return ranker.fit(train, valid)
    return ranker.fit(RankingData.concat([train, valid], repeated="separate"))


def described(plan: TuningPlan, record: TrialRecord, best: TrialRecord | None) -> str:
    """A trial that has just ended, in a line.

    Args:
        plan: the search.
        record: the trial.
        best: the best so far.
    """
    outcome = record.outcome
    said = f"trial {record.number}"
    if outcome.state == FAILED:
        said += f" failed: {outcome.error}"
    elif outcome.state == PRUNED:
        said += f" pruned after {outcome.grown} trees at {plan.metric} {outcome.score:.4f}"
    else:
        said += f" {plan.metric} {outcome.score:.4f}"
    if best is not None and best is not record:
        said += f" (best {best.outcome.score:.4f}, trial {best.number})"
    return said


def _run(
    plan: TuningPlan,
    store: TuningStore,
    waiting: list[int],
    data: tuple[RankingData, RankingData],
    budget: Budget,
    deadline: float | None,
) -> Iterator[TrialRecord]:
    def drawn() -> Iterator[TuningTrial]:
        for number in waiting:
            if deadline is not None and time.monotonic() > deadline:
                return
            configuration = store.draw(number)
            parameters = {**parameters_of(configuration, plan.fixed), "n_jobs": budget.threads}
            yield TuningTrial(number, configuration, parameters)

    def is_hopeless(trial: TuningTrial, told: tuple[int, float]) -> bool:
        return store.is_hopeless(trial.number, *told)

    def outcomes() -> Iterator[tuple[TuningTrial, Outcome | Lost]]:
        every = plan.every if plan.prune else None
        work = partial(run_tuning_trial, metric=plan.metric, train=data[0], valid=data[1], every=every)
        if budget.workers > 1 and len(waiting) > 1:
            n, work = min(budget.workers, len(waiting)), partial(work, own=sendable(plan.losses))
            # One that lost its process is left unfinished, to be drawn again by the next run.
            yield from run_jobs(n, work, drawn(), answer=is_hopeless, deadline=deadline, most_losses=1)
            return
        for trial in drawn():
            yield trial, work(trial, partial(is_hopeless, trial), deadline=deadline)

    for trial, outcome in outcomes():
        if isinstance(outcome, Lost):
            died = f"its process ended with {outcome.how}; perhaps there is not enough memory"
            outcome = Outcome(UNFINISHED, error=died)
        store.end(trial.number, outcome)
        yield TrialRecord(trial.number, trial.configuration, outcome)


def _nothing_found(records: list[TrialRecord], budget: Budget, died: str) -> Exception:
    failed = next((record for record in records if record.outcome.state == FAILED), None)
    if failed is not None:
        return DataError(
            f"space: found no trial that can be trained, trial {failed.number} for one: {failed.outcome.error}"
        )
    if died:
        return DataError(f"trials: found none that ended, {died}; expected one at least")
    return OptionError(
        f"timeout: found no trial that ended in {budget.timeout:g} seconds; expected more time, or fewer trees"
    )
