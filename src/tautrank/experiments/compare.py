"""`tautrank.compare` and `compare_runs`: which loss, or which run, wins on this data, and whether
the win is real.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arguments import choice, job_count, one_or_more, whole
from tautrank.arrays import F64, Bools
from tautrank.data import Judged, RankingData, Splits
from tautrank.data.ranking_data import checked_data
from tautrank.data.trec import judge_given, read_judgments
from tautrank.engines import DEFAULTS, read_loss
from tautrank.errors import DataError, OptionError
from tautrank.experiments.data_source import MEMORY, DataSource
from tautrank.experiments.divide import GivenSplits
from tautrank.experiments.finished_trials import FinishedTrials
from tautrank.experiments.plan import PLAIN, Budget, Existing, Experiment, Plan, System, settle
from tautrank.experiments.result import Comparison
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
_SMALL = 5e7  # numbers in the features; less trains faster side by side than on several threads


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
) -> Comparison:
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
    for name, part in (
        ("train", train),
        ("valid", train if valid is None else valid),
        ("test", test),
    ):
        checked_data(name, part)
    declared = comparison(losses, metrics, repeats, vary, tune, baseline, parameters)
    return compare_splits(
        declared, [Splits(train, valid, test)], seed, alpha, pairs, store, n_jobs, workers, progress
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
    """Declare a comparison: a wrong name is reported before any data is read. Arguments as those of
    `compare`.

    >>> comparison(["mse", "mse"], ["ndcg@5"]).system_names
    ('mse', 'mse #2')
    """
    if not losses:
        raise OptionError("losses: found none; expected at least one, such as 'lambdarank'")
    systems = (
        loss if isinstance(loss, str | System) else str(read_loss(loss))
        for loss in one_or_more(losses)
    )
    return Experiment(
        systems=tuple(System(each) if isinstance(each, str) else each for each in systems),
        metrics=tuple(str(metric(m)) for m in one_or_more(metrics)),
        parameters={**DEFAULTS, **(parameters or {})},
        trials=whole("repeats", repeats, 1),
        configurations=whole("tune", tune, 0),
        protocol=GivenSplits(vary),
        curves=("valid",),
        baseline=baseline,
    )


def compare_splits(
    declared: Experiment,
    splits: Sequence[Splits],
    seed: int = 0,
    alpha: float = 0.05,
    pairs: str = "baseline",
    store: PathLike | None = None,
    n_jobs: int | None = None,
    workers: int | None = 1,
    progress: Progress | None = None,
) -> Comparison:
    """Run a comparison over several folds: every test query counts once per repeat.

    Args:
        declared: the comparison.
        splits: training, validation and test data of each fold.
        seed, alpha, pairs, store, n_jobs, workers, progress: as those of `compare`.
    """
    choice("pairs", pairs, ("baseline", "all"))
    if workers is None:
        size = sum(part.n_documents * part.n_features for part in splits[0] if part is not None)
        workers = job_count(n_jobs) if size < _SMALL else 1
    chosen, source = choose_workers(workers), DataSource((MEMORY,), held=tuple(splits))
    plan = Plan(**settle(declared, source, declared.planned(Budget())), seed=whole("seed", seed, 0))
    bar = show_progress("trainings") if progress is None else nullcontext(progress)
    with Store(None if store is None else Path(store), kind="comparison") as opened, bar as shown:
        run_waiting(plan, opened, chosen, shown, threads=max(1, job_count(n_jobs) // workers))
        return Comparison(**FinishedTrials(plan, opened).fields(), alpha=alpha, pairs=pairs)


def compare_runs(
    runs: Mapping[str, Any],
    judged: Any,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    like: str | None = None,
    alpha: float = 0.05,
    baseline: str = "",
    pairs: str = "baseline",
    **reading: Any,
) -> Comparison:
    """Judge existing runs or scores, and test which differences are real.

    Documents of a run without a judgment count as not relevant. Judged documents that a run did not
    retrieve count in the ideal ranking and among the relevant documents. A judged query that only
    some runs answer counts with nothing retrieved for the others (as ``trec_eval -c`` does); one
    that no run answers is left out, and so are queries without judgments. The result's note says
    how many there are.

    One run per system says which of these models is better on queries like these. Several runs, of
    models that were trained again, say which method is: give them as a list, as many for each
    system.

    Args:
        runs: by name of the system a TREC run (a file, or ``{query: {document: score}}``); for
            labelled data, a file of one score per line, in the order of the data's file, or an
            array of one score per document, in the data's order.
        judged: qrels (a file, or ``{query: {document: label}}``), or labelled data (`RankingData`,
            or its file).
        metrics: names or metric objects.
        like: a tool whose rules to follow, such as ``"trec_eval"``, whose numbers these then are.
        alpha: the significance level.
        baseline: the name of the system that the others are compared with; by default the first.
        pairs: ``"baseline"`` compares every system with the baseline, ``"all"`` every two systems.
        **reading: options of the reader of a data file, such as ``zero_based=True``.

    >>> qrels = {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 2, "d7": 1}, "q3": {"d3": 1}}
    >>> bm25 = {"q1": {"d1": 3.5, "d2": 2.0}, "q2": {"d7": 1.5, "d8": 1.0}, "q3": {"d4": 2.0, "d3": 1.0}}
    >>> dense = {"q1": {"d1": 0.9, "d5": 0.8}, "q2": {"d1": 0.7, "d7": 0.2}, "q3": {"d3": 0.5}}
    >>> result = compare_runs({"bm25": bm25, "dense": dense}, qrels, metrics=["ndcg@10", "mrr"])
    >>> result.systems[1].values["mrr"].tolist()
    [[1.0, 1.0, 1.0]]
    """
    if not isinstance(runs, Mapping):
        raise OptionError(
            f"runs: found a {type(runs).__name__}; expected a dictionary from names to runs"
        )
    if len(runs) < 2:
        raise OptionError(f"runs: found {len(runs)}; expected at least two systems to compare")
    choice("pairs", pairs, ("baseline", "all"))
    options = {} if like is None else {"like": like}
    judges = [metric(m, **options) for m in one_or_more(metrics)]
    by_system = {str(name): _separate(f"runs['{name}']", given) for name, given in runs.items()}
    repeats = len(next(iter(by_system.values())))
    for name, given in by_system.items():
        if len(given) != repeats:
            raise OptionError(
                f"runs['{name}']: found {len(given)} runs; expected {repeats}, as the first system has"
            )
    systems = tuple(Existing(name, tuple(given)) for name, given in by_system.items())
    names, seeds = tuple(map(str, judges)), GivenSplits("seeds")
    study = Experiment(
        systems=systems,
        metrics=names,
        protocol=seeds,
        trials=repeats,
        parameters=options,
        baseline=baseline,
    )
    judgments = read_judgments(judged, **reading)

    def values_of(name: str, run: Any) -> tuple[Judged, list[F64]]:
        found = judge_given(run, judgments, name, called(judged, "judged"))
        found = found.for_trec_eval() if like == "trec_eval" else found
        return found, [m.per_query(found.scores, found.lists) for m in judges]

    judged_runs = {
        name: values_of(name, run) for given in by_system.values() for name, run in given.items()
    }
    counted, remarks = _counted({name: found for name, (found, _) in judged_runs.items()})
    if like == "trec_eval":
        named = all(found.names is not None for found, _ in judged_runs.values())
        order = (
            "by name, the last of the alphabet first"
            if named
            else "in the order of the data, for want of names"
        )
        remarks.append(f"As trec_eval does: scores in 32 bits, tied documents {order}.")
    values = {
        (PLAIN, system, name): [judged_runs[run][1][i][counted] for run in by_system[system]]
        for system in by_system
        for i, name in enumerate(names)
    }
    source, n_queries = DataSource((called(judged, MEMORY),)), int(np.count_nonzero(counted))
    plan = Plan(study=study, data=source, n_queries=n_queries, budget=Budget(repeats, 0))
    return Comparison(
        plan=plan, values=values, n_done=plan.size, alpha=alpha, pairs=pairs, remarks=tuple(remarks)
    )


def called(given: Any, otherwise: str) -> str:
    """Return what to call something in a sentence: a file by its path.

    >>> called("bm25.trec", "run"), called({"q1": {"d1": 1.0}}, "run")
    ('bm25.trec', 'run')
    """
    return os.fspath(given) if isinstance(given, str | os.PathLike) else otherwise


def _separate(name: str, given: Any) -> dict[str, Any]:
    """Return the runs of one system by what they are called: several stand in a list, or in the
    rows of an array.
    """
    several = isinstance(given, np.ndarray) and given.ndim == 2
    several |= isinstance(given, list | tuple) and not (
        given and isinstance(given[0], int | float | np.number)
    )
    if not several:
        return {called(given, name): given}
    if not len(given):
        raise OptionError(f"{name}: found no run; expected at least one")
    # A file may be named twice: its path alone would not tell the two apart.
    names = [called(run, f"{name}[{i}]") for i, run in enumerate(given)]
    names = [f"{run} #{i}" if run in names[:i] else run for i, run in enumerate(names)]
    return dict(zip(names, given, strict=True))


def _counted(runs: Mapping[str, Judged]) -> tuple[Bools, list[str]]:
    """Return which judged queries count, those that any run answers, and what to say about the
    others.
    """
    first, *_ = names = list(runs)
    answered = {name: found.answered for name, found in runs.items()}
    counted = np.logical_or.reduce(list(answered.values()))
    left_out = {"judged queries in no run": int(np.count_nonzero(~counted))}
    missing = {}
    for name in names:
        if not (answered[name] & answered[first]).any():
            raise DataError(
                f"{name}: answers no judged query that {first} answers; expected the same queries"
            )
        left_out[f"queries of {name} without judgments"] = runs[name].not_judged
        missing[f"queries missing from {name}"] = int(np.count_nonzero(counted & ~answered[name]))
    kinds = {"Left out": left_out, "Counted with nothing retrieved": missing}
    found = {
        kind: [f"{what}: {n}" for what, n in counts.items() if n] for kind, counts in kinds.items()
    }
    return counted, [f"{kind}: {'; '.join(what)}." for kind, what in found.items() if what]
