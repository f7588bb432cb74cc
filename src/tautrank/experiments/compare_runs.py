"""`tautrank.compare_runs`: existing runs or scores, judged and tested like trainings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tautrank.arguments import choice, one_or_more
from tautrank.arrays import F64, Bools
from tautrank.data import Judged
from tautrank.data.trec import judge_given, read_judgments
from tautrank.errors import DataError, OptionError
from tautrank.experiments.compare import DEFAULT_METRICS
from tautrank.experiments.data_source import MEMORY, DataSource
from tautrank.experiments.plan import PLAIN, Budget, Existing, Experiment, Plan
from tautrank.experiments.protocols import GivenSplits
from tautrank.experiments.result import Comparison
from tautrank.metrics import Metric, metric


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
