"""Running a study, or continuing it, and collecting its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tautrank.experiments.plan import Budget
from tautrank.experiments.workers import choose_workers
from tautrank.files import PathLike
from tautrank.papers.plan import make_plan
from tautrank.papers.results import StudyResult, collect
from tautrank.papers.store import StudyStore
from tautrank.papers.study import Study
from tautrank.progress import Progress


def run_study(
    study: Study,
    data: str | Sequence[str] = "",
    *,
    store: PathLike | None = None,
    budget: Budget | None = None,
    fold: int | None = None,
    recipe: str = "",
    seed: int = 0,
    workers: int = 1,
    dask: str = "",
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> StudyResult:
    """Run a study, or continue it, and return its results.

    Args:
        study: the study.
        data: a folder, a file, or synthetic data such as ``"simulated:mslr:200"``; by default the
            study's own.
        store: the file for finished trials; None for memory.
        budget: how much to run.
        fold: the only fold of a folder to use.
        recipe: the data set whose parameters to use; by default the one that the data looks like.
        seed: the seed of all random numbers.
        workers: the number of processes that train in parallel; with one, trials run in this
            process.
        dask: the address of a Dask scheduler to run the trials on instead, or ``"local"``.
        n_jobs: threads of one trial.
        progress: what is told how many trials are finished, and the title of the last one.

    >>> from tautrank.papers.catalogue import find_study
    >>> budget = Budget(repeats=2, trees=3)
    >>> result = run_study(find_study("xe-table1"), "simulated:mslr:20,mean_length=20", budget=budget)
    >>> len(result.cells), result.failures
    (6, ())
    """
    plan = make_plan(study, data, budget=budget, fold=fold, recipe=recipe, seed=seed, n_jobs=n_jobs)
    # The store keeps each finished trial: those that it holds already are not run again.
    with StudyStore(None if store is None else Path(store), plan) as opened:
        opened.run(choose_workers(workers, dask), progress)
        return collect(opened)
