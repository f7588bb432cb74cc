"""`tautrank.compare`: which loss wins on this data, and whether the win is real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tautrank.arguments import choice, job_count, one_or_more, whole
from tautrank.data import RankingData, Splits
from tautrank.data.ranking_data import checked_data
from tautrank.engines import DEFAULTS, read_loss
from tautrank.errors import OptionError
from tautrank.experiments.data_source import MEMORY, DataSource
from tautrank.experiments.finished_trials import FinishedTrials
from tautrank.experiments.plan import Experiment, Plan, System
from tautrank.experiments.protocols import GivenSplits
from tautrank.experiments.result import TrainedComparison
from tautrank.experiments.store import Store
from tautrank.experiments.workers import choose_workers, run_waiting
from tautrank.files import PathLike
from tautrank.metrics import Metric, metric
from tautrank.progress import Progress, show_progress

DEFAULT_LOSSES = (
    "lightgbm:lambdarank",
    "lambdarank",
    "ndcg-loss2++",
    "xendcg",
    "stochasticrank",
    "listnet",
    "ranknet",
    "mse",
)
DEFAULT_METRICS = ("ndcg@5", "ndcg@10", "map")
DEFAULT_REPEATS = 5
# Data with fewer feature values trains faster in several processes with one thread each than in one
# process with several threads.
_MAX_VALUES_SIDE_BY_SIDE = 5e7


def compare(
    train: RankingData,
    valid: RankingData | None,
    test: RankingData,
    *,
    losses: Sequence[Any] = DEFAULT_LOSSES,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    repeats: int = DEFAULT_REPEATS,
    vary: str = "splits",
    seed: int = 0,
    tune: int = 0,
    alpha: float = 0.05,
    baseline: str = "",
    pairs: str = "baseline",
    store: PathLike | None = None,
    n_jobs: int | None = None,
    workers: int | None = 1,
    progress: Progress | None = None,
    **parameters: Any,
) -> TrainedComparison:
    """Train every loss on the same data, several times, and test which differences are real.

    Args:
        train, valid, test: the data; `valid` None holds out a fifth of the training queries.
        losses: losses as :class:`Ranker` takes them, objectives of other tools such as
            ``"lightgbm:lambdarank"``, or a `tautrank.experiments.System`, a loss with parameters of
            its own.
        metrics: the first one stops training early; all are reported.
        repeats: the number of trainings per loss; a single one says nothing about another seed or
            split.
        vary: ``"splits"`` divides training and validation queries again in each repeat, ``"seeds"``
            changes only the seed.
        seed: the seed of all random numbers.
        tune: the number of random configurations to choose from by validation score, the same for
            all losses; 0 for none.
        alpha: the significance level.
        baseline: the name of the system that the others are compared with; by default the first.
        pairs: ``"baseline"`` compares every system with the baseline, ``"all"`` every two systems,
            which needs larger differences: Holm's correction counts every comparison.
        store: a file for finished trainings; a re-run continues from there.
        n_jobs: threads in all; by default all cores.
        workers: processes that train in parallel; None chooses by the size of the data.
        progress: what is told how many trainings are finished; by default a bar, in a
            terminal or a notebook.
        **parameters: parameters of every :class:`Ranker`, such as ``n_estimators=300``.

    >>> from tautrank.simulate import simulate_web_search
    >>> train, valid, test = simulate_web_search(60, n_features=16, mean_length=15).split([.5, .25, .25])
    >>> result = compare(train, valid, test, losses=["mse", "listnet"], metrics=["ndcg@5"], repeats=2, n_estimators=5)
    >>> [system.name for system in result.systems]
    ['mse', 'listnet']
    """
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        # Without validation data, a part of the training queries is held out.
        can_be_missing = name == "valid"
        if part is None and can_be_missing:
            continue
        checked_data(name, part)
    return compare_splits(
        comparison(losses, metrics, repeats, vary, tune, baseline, parameters),
        [Splits(train, valid, test)],
        seed=seed,
        alpha=alpha,
        pairs=pairs,
        store=store,
        n_jobs=n_jobs,
        workers=workers,
        progress=progress,
    )


def comparison(
    losses: Sequence[Any],
    metrics: Sequence[str | Metric],
    repeats: int = DEFAULT_REPEATS,
    vary: str = "splits",
    tune: int = 0,
    baseline: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Experiment:
    """Return the declaration of a comparison of losses, without its data: wrong names are reported
    before any data is read. The arguments are those of `compare`.

    >>> comparison(["mse", "mse"], ["ndcg@5"]).system_names
    ('mse', 'mse #2')
    """
    if not losses:
        raise OptionError("losses: found none; expected at least one, such as 'lambdarank'")
    return Experiment(
        # `one_or_more` makes a list of a single item; `_as_system` puts a name on a loss.
        systems=tuple(_as_system(loss) for loss in one_or_more(losses)),
        metrics=tuple(str(metric(name)) for name in one_or_more(metrics)),
        # Later entries override earlier ones: the given parameters win over the defaults.
        parameters={**DEFAULTS, **(parameters or {})},
        repeats=whole("repeats", repeats, 1),
        configurations=whole("tune", tune, 0),
        # The test queries stay as given; trainings differ in the split or the seed.
        protocol=GivenSplits(vary),
        curves=("valid",),
        baseline=baseline,
    )


def _as_system(loss: Any) -> System:
    """Return the system that an argument of `compare` stands for: a `System` itself, or a loss
    without parameters of its own.
    """
    if isinstance(loss, System):
        return loss
    if isinstance(loss, str):
        return System(loss)
    return System(str(read_loss(loss)))


def compare_splits(
    declared: Experiment,
    splits: Sequence[Splits],
    *,
    seed: int = 0,
    alpha: float = 0.05,
    pairs: str = "baseline",
    store: PathLike | None = None,
    n_jobs: int | None = None,
    workers: int | None = 1,
    progress: Progress | None = None,
) -> TrainedComparison:
    """Train and compare all losses on several folds of the data: every test query counts once per
    repeat.

    Args:
        declared: the losses, metrics and repeats, as `comparison` returns them.
        splits: training, validation and test data of each fold.
        seed, alpha, pairs, store, n_jobs, workers, progress: as those of `compare`.
    """
    choice("pairs", pairs, ("baseline", "all"))
    if workers is None:
        workers = job_count(n_jobs) if _trains_faster_side_by_side(splits[0]) else 1
    run_trials = choose_workers(workers)
    source = DataSource((MEMORY,), held=tuple(splits))
    plan = Plan.of(declared, source, seed=seed)
    store_path = None if store is None else Path(store)
    progress_context = show_progress("trainings") if progress is None else nullcontext(progress)
    with Store(store_path, kind="comparison") as opened_store, progress_context as shown_progress:
        threads_per_worker = max(1, job_count(n_jobs) // workers)
        run_waiting(plan, opened_store, run_trials, shown_progress, threads=threads_per_worker)
        values = FinishedTrials(plan, opened_store).fields()
        return TrainedComparison(**values, alpha=alpha, pairs=pairs)


def _trains_faster_side_by_side(splits: Splits) -> bool:
    """Return whether data is so small that trainings in several processes with one thread each are
    faster than one training after the other with several threads.
    """
    parts = [part for part in splits if part is not None]
    n_values = sum(part.n_documents * part.n_features for part in parts)
    return n_values < _MAX_VALUES_SIDE_BY_SIDE
