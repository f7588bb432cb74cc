"""`tautrank.compare_runs`: existing runs or scores, judged and tested like trainings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tautrank.arguments import choice, one_or_more
from tautrank.arrays import F64, Bools
from tautrank.data import JudgedRun
from tautrank.data.trec import judge_given, read_judgments
from tautrank.errors import DataError, OptionError
from tautrank.experiments.compare import DEFAULT_METRICS
from tautrank.experiments.plan import PLAIN
from tautrank.experiments.run_comparison import GivenRuns, RunComparison
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
    **reader_options: Any,
) -> RunComparison:
    """Judge existing runs or scores, and test which differences are real.

    Documents of a run without a judgment count as not relevant. Judged documents that a run did not
    retrieve count in the ideal ranking and among the relevant documents. If only some runs answer a
    judged query, it counts for the other runs as if they had retrieved nothing (as ``trec_eval -c``
    does); one that no run answers is left out, and so are queries without judgments. The result's
    note says how many there are.

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
        like: another tool whose rules to follow, so that the numbers are the same as its own: None,
            or ``"trec_eval"``.
        alpha: the significance level.
        baseline: the name of the system that the others are compared with; by default the first.
        pairs: ``"baseline"`` compares every system with the baseline, ``"all"`` every two systems.
        **reader_options: options of the reader of a data file, such as ``zero_based=True``.

    >>> qrels = {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 2, "d7": 1}, "q3": {"d3": 1}}
    >>> bm25 = {"q1": {"d1": 3.5, "d2": 2.0}, "q2": {"d7": 1.5, "d8": 1.0}, "q3": {"d4": 2.0, "d3": 1.0}}
    >>> dense = {"q1": {"d1": 0.9, "d5": 0.8}, "q2": {"d1": 0.7, "d7": 0.2}, "q3": {"d3": 0.5}}
    >>> result = compare_runs({"bm25": bm25, "dense": dense}, qrels, metrics=["ndcg@10", "mrr"])
    >>> result.systems[1].values["mrr"].tolist()
    [[1.0, 1.0, 1.0]]
    """
    choice("pairs", pairs, ("baseline", "all"))
    runs_by_system = _checked_runs(runs)
    # The metrics take the rules of the other tool as an option; without one, none is set.
    options = {} if like is None else {"like": like}
    checked_metrics = [metric(name, **options) for name in one_or_more(metrics)]
    if not checked_metrics:
        raise OptionError("metrics: found none; expected at least one, such as 'ndcg@10'")
    if baseline:
        choice("system", baseline, tuple(runs_by_system))

    judgments = read_judgments(judged, **reader_options)
    evaluated_runs: dict[str, _EvaluatedRun] = {}
    for runs_of_system in runs_by_system.values():
        for label, run in runs_of_system.items():
            judged_run = judge_given(run, judgments, label, label_of(judged, "judged"))
            evaluated_runs[label] = _evaluate_run(judged_run, checked_metrics, like)

    judged_runs = {label: run.judged for label, run in evaluated_runs.items()}
    # Queries that no run answers are left out of all values.
    is_answered = _find_answered_queries(judged_runs)
    remarks = _remarks_on_queries(judged_runs, is_answered)
    if like == "trec_eval":
        remarks.append(_remark_on_trec_eval(judged_runs))

    given_runs = GivenRuns(
        labels={system: tuple(labels) for system, labels in runs_by_system.items()},
        are_files=_are_all_files(runs_by_system),
        judgments=os.fspath(judged) if _is_path(judged) else None,
        metrics=tuple(map(str, checked_metrics)),
        baseline=baseline,
        options=options,
    )
    values = _values_by_cell(runs_by_system, evaluated_runs, is_answered, given_runs.metrics)
    return RunComparison(
        runs=given_runs,
        values=values,
        n_done=sum(len(runs_of_system) for runs_of_system in runs_by_system.values()),
        alpha=alpha,
        pairs=pairs,
        remarks=tuple(remarks),
    )


class _EvaluatedRun(NamedTuple):
    """A run with its judgments, and the values of each metric, one per judged query."""

    judged: JudgedRun
    values: list[F64]


def _evaluate_run(
    judged_run: JudgedRun, metrics: Sequence[Metric], like: str | None
) -> _EvaluatedRun:
    """Return a run with the values of all metrics, one per judged query.

    Args:
        judged_run: the scores of a run and the labels of its documents.
        metrics: the metrics.
        like: "trec_eval" for the order of that tool where documents have equal scores; None for
            the rule of each metric.
    """
    if like == "trec_eval":
        judged_run = judged_run.for_trec_eval()
    values = [metric.per_query(judged_run.scores, judged_run.lists) for metric in metrics]
    return _EvaluatedRun(judged_run, values)


def _values_by_cell(
    runs_by_system: Mapping[str, Mapping[str, Any]],
    evaluated_runs: Mapping[str, _EvaluatedRun],
    is_answered: Bools,
    metric_names: Sequence[str],
) -> dict[tuple[str, str, str], list[F64]]:
    """Return the values of the metrics by (condition, system, metric): one array per run of the
    system, with one value per answered query. The condition is `PLAIN`, as runs have no others.

    Args:
        runs_by_system: for each system, its runs by label.
        evaluated_runs: by label, the values of each metric on all judged queries.
        is_answered: whether any run answers a query, one per judged query.
        metric_names: the names of the metrics in their order.
    """
    values_by_cell = {}
    for system, runs_of_system in runs_by_system.items():
        for metric_index, metric_name in enumerate(metric_names):
            values_of_runs = []
            for label in runs_of_system:
                values_of_judged = evaluated_runs[label].values[metric_index]
                values_of_runs.append(values_of_judged[is_answered])
            values_by_cell[PLAIN, system, metric_name] = values_of_runs
    return values_by_cell


def _checked_runs(runs: Any) -> dict[str, dict[str, Any]]:
    """Check the argument of `compare_runs`, and return for each system its runs by label (what a
    run is called in sentences). Systems with different numbers of runs are an error.

    Args:
        runs: what the user passed: a dictionary from names of systems to a run or a list of runs.
    """
    if not isinstance(runs, Mapping):
        raise OptionError(
            f"runs: found a {type(runs).__name__}; expected a dictionary from names to runs"
        )
    if len(runs) < 2:
        raise OptionError(f"runs: found {len(runs)}; expected at least two systems to compare")

    runs_by_system = {}
    for system, argument in runs.items():
        runs_by_system[str(system)] = _label_runs(f"runs['{system}']", argument)

    first_runs = next(iter(runs_by_system.values()))
    n_expected = len(first_runs)
    for system, runs_of_system in runs_by_system.items():
        if len(runs_of_system) != n_expected:
            raise OptionError(
                f"runs['{system}']: found {len(runs_of_system)} runs;"
                f" expected {n_expected}, as the first system has"
            )
    return runs_by_system


def _label_runs(argument_name: str, argument: Any) -> dict[str, Any]:
    """Return the runs of one system by label: the path of a file, or where a run stands in the
    argument, such as ``runs['bm25'][0]``.

    Args:
        argument_name: what to call the argument, such as ``runs['bm25']``.
        argument: a run, or a list of runs.
    """
    if not _has_several_runs(argument):
        return {label_of(argument, argument_name): argument}
    if not len(argument):
        raise OptionError(f"{argument_name}: found no run; expected at least one")
    runs_by_label: dict[str, Any] = {}
    for index, run in enumerate(argument):
        # `label_of` returns the path of a file, and the second argument for other runs.
        label = label_of(run, f"{argument_name}[{index}]")
        if label in runs_by_label:  # the same file may stand in the list twice
            label = f"{label} #{index}"
        runs_by_label[label] = run
    return runs_by_label


def _has_several_runs(argument: Any) -> bool:
    """Return whether the argument for a system holds several runs: a list of them, or an array with
    one run per row. A list of numbers is one run, its scores.
    """
    if isinstance(argument, np.ndarray):
        return argument.ndim == 2
    if not isinstance(argument, list | tuple):
        return False
    is_list_of_scores = len(argument) > 0 and isinstance(argument[0], int | float | np.number)
    return not is_list_of_scores


def _are_all_files(runs_by_system: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether all runs of all systems are paths of files, rather than scores in memory."""
    runs: list[Any] = []
    for runs_of_system in runs_by_system.values():
        runs += runs_of_system.values()
    return all(_is_path(run) for run in runs)


def _is_path(argument: Any) -> bool:
    """Return whether an argument names a file."""
    return isinstance(argument, str | os.PathLike)


def label_of(argument: Any, otherwise: str) -> str:
    """Return what to call an argument in a sentence: the path of a file, or for any other value the
    words `otherwise`.

    >>> label_of("bm25.trec", "run"), label_of({"q1": {"d1": 1.0}}, "run")
    ('bm25.trec', 'run')
    """
    return os.fspath(argument) if _is_path(argument) else otherwise


def _find_answered_queries(judged_runs: Mapping[str, JudgedRun]) -> Bools:
    """Return whether any run answers a query, one truth value per judged query.

    A run that answers no query in common with the first run is an error.

    Args:
        judged_runs: the runs with their judgments by label.
    """
    first_label, first_run = next(iter(judged_runs.items()))
    is_answered = np.zeros_like(first_run.answered)
    for label, run in judged_runs.items():
        # `answered` has one truth value per judged query.
        is_common = run.answered & first_run.answered
        if not is_common.any():
            raise DataError(
                f"{label}: answers no judged query that {first_label} answers;"
                " expected the same queries"
            )
        is_answered |= run.answered
    return is_answered


def _remarks_on_queries(judged_runs: Mapping[str, JudgedRun], is_answered: Bools) -> list[str]:
    """Return sentences on how many queries are left out, and how many are missing from single runs.

    Args:
        judged_runs: the runs with their judgments by label.
        is_answered: whether any run answers a query, one per judged query.
    """
    counts_left_out = {"judged queries in no run": int(np.count_nonzero(~is_answered))}
    counts_missing = {}
    for label, run in judged_runs.items():
        is_missing = is_answered & ~run.answered
        # `not_judged` is the number of queries of the run that have no judgments.
        counts_left_out[f"queries of {label} without judgments"] = run.not_judged
        counts_missing[f"queries missing from {label}"] = int(np.count_nonzero(is_missing))

    counts_by_title = {
        "Left out": counts_left_out,
        "Counted with nothing retrieved": counts_missing,
    }
    remarks = []
    for title, counts in counts_by_title.items():
        texts = [f"{name}: {count}" for name, count in counts.items() if count]
        if texts:
            remarks.append(f"{title}: {'; '.join(texts)}.")
    return remarks


def _remark_on_trec_eval(judged_runs: Mapping[str, JudgedRun]) -> str:
    """Return the sentence on how numbers follow the rules of trec_eval: it orders documents with
    equal scores by their names, which labelled data does not have.
    """
    order = "by name, the last of the alphabet first"
    if any(run.names is None for run in judged_runs.values()):
        order = "in the order of the data, for want of names"
    return f"As trec_eval does: scores in 32 bits, tied documents {order}."
