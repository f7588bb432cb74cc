"""The page of a comparison: the answer, tables, figures, settings, and how to run it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import tautrank
from tautrank.experiments.comparison_figures import comparison_figures, difference_sections
from tautrank.experiments.comparison_tables import training_table
from tautrank.experiments.comparison_values import CellResult, ComparisonValues, PlannedValues
from tautrank.experiments.plan import System
from tautrank.report.page import (
    Code,
    Facts,
    FigureSection,
    Group,
    Page,
    Section,
    TableSection,
    Text,
)
from tautrank.report.plotly_script import require_plotly
from tautrank.significance.verdicts import HOLDS
from tautrank.tables import Table, difference_text

_MAX_SEEDS = 20  # shown on the page; the seed of the plan gives all of them
_PAIRS_TITLE = "Every pair"


class Subject(NamedTuple):
    """What is compared, as the page of a comparison presents it.

    Attributes:
        kind: what the title names, such as ``losses``.
        competitors: what the question names, such as ``systems``.
        settings: what a reader needs to trust the numbers.
        call: the call in Python that gives the comparison again.
    """

    kind: str
    competitors: str
    settings: Section
    call: str


def comparison_page(
    result: ComparisonValues,
    tables: Mapping[str, Table],
    subject: Subject,
    *,
    figures: bool = False,
    command: str | None = None,
) -> Page:
    """Build the HTML page of a comparison: the answer in words, tables, figures, trials that failed,
    settings, and how to run it again.

    Args:
        result: the values of the comparison.
        tables: its tables by title.
        subject: what is compared.
        figures: whether to draw figures; without them the page has no script, and Plotly is not
            needed.
        command: the command that reproduces it; by default the page shows the call in Python.
    """
    sections: list[Section] = [Text("Answer", answer(result))]
    if figures:
        require_plotly()
        sections += difference_sections(result)
    sections += result_sections(tables)
    if figures:
        sections += figure_sections(comparison_figures(result))
    sections += failure_sections(result)
    sections.append(subject.settings)
    # How to run it again: the command, or else the call in Python.
    sections.append(_reproduction(command, subject.call))

    lead = _question(result, subject.competitors)
    return Page(f"Comparison of {subject.kind}", sections, lead=lead, interactive=figures)


def _question(result: ComparisonValues, competitors: str) -> str:
    """Return the question that the page of a comparison answers.

    Args:
        result: the values of the comparison.
        competitors: what to call the systems that are compared, such as ``losses``.
    """
    values_by_metric = result.systems[0].values
    values_of_first_metric = next(iter(values_by_metric.values()))  # [repeats, queries]
    n_queries = values_of_first_metric.shape[1]
    # All systems are measured on the same test queries, so the first one stands for all.
    n_systems = len(result.systems)
    if n_systems == 1:
        return f"How well does {result.systems[0].name} rank {n_queries:,} test queries?"
    return f"Which of {n_systems} {competitors} wins on {n_queries:,} test queries, and is the win real?"


# ---- Sections that comparisons and studies share


def result_sections(tables: Mapping[str, Table]) -> list[Section]:
    """Return the sections of the tables of results: several tables of metrics in one group, and the
    table of every pair of systems folded, so that a click opens it.

    Args:
        tables: the tables by title.
    """
    metric_sections = []
    for title, table in tables.items():
        # The table of pairs of systems comes last, folded.
        if title != _PAIRS_TITLE:
            metric_sections.append(TableSection(title, table))
    sections: list[Section] = [*metric_sections]
    if len(metric_sections) > 1:
        sections = [Group("Results", metric_sections)]
    if _PAIRS_TITLE in tables:
        sections.append(TableSection(_PAIRS_TITLE, tables[_PAIRS_TITLE], folded=True))
    return sections


def figure_sections(figures: Sequence[FigureSection]) -> list[Section]:
    """Return one section with all figures under a heading; an empty list if there are none."""
    if not figures:
        return []
    return [Group("Figures", figures)]


def failure_sections(result: ComparisonValues) -> list[Section]:
    """Return one section with a table of the trials that raised an error; an empty list if none
    did.
    """
    if not result.failures:
        return []
    rows = [[failure.title, failure.error] for failure in result.failures]
    return [TableSection("Trials that failed", Table.of(["trial", "error"], rows))]


def settings_section(
    settings: Mapping[str, str], title: str, table: Table, data: Table | None = None
) -> Section:
    """Return the section of a page on what was run: settings, a folded table of the systems that
    were compared, and a table of the data.

    Args:
        settings: texts by name; an empty text is left out.
        title: the title of the table of systems.
        table: the table of systems.
        data: the sizes of the data; None if the data was not in memory.
    """
    applicable = {name: text for name, text in settings.items() if text}
    sections: list[Section] = [
        Facts("What was run", applicable),
        TableSection(title, table, folded=True),
    ]
    if data is not None:
        sections.append(TableSection("Data", data))
    return Group("Settings", sections)


def trials_section(result: PlannedValues, settings: Mapping[str, str]) -> Section:
    """Return the section of a page on the settings, trainings (or measurements) and data of a
    comparison or a study.

    Args:
        result: the values of a comparison or a study.
        settings: texts by name; an empty text is left out.
    """
    title = "What was measured" if result.measures_only else "What was trained"
    data = _data_table(result) if result.plan.data.held else None
    return settings_section(settings, title, training_table(result), data)


def _data_table(result: PlannedValues) -> Table:
    """Return a table of the numbers of queries, documents and features of the data: one row for the
    training, validation and test part of each split.
    """
    rows = []
    # `held` are the splits in memory, named tuples of train, valid and test.
    for split_number, split in enumerate(result.plan.data.held, 1):
        for part_name, part in split._asdict().items():
            if part is not None:
                sizes = (part.n_queries, part.n_documents, part.n_features)
                rows.append((split_number, part_name, *sizes))
    return Table.of(["split", "part", "queries", "documents", "features"], rows)


# ---- The answer


def answer(result: ComparisonValues) -> list[str]:
    """Return the sentences that answer which system is best on each metric, and whether its lead
    is significant, after warnings of trials that are missing.

    Args:
        result: the values of the comparison.
    """
    condition = result.condition_names[0]
    sentences = caveats(result)
    leaders = leaders_of(result, condition)
    verdicts = _verdicts(result, condition)
    nothing_is_significant = bool(verdicts) and HOLDS not in verdicts
    if nothing_is_significant and len(leaders) > 1:
        sentences += skipped_metrics(result, condition)
        sentences.append(_leads_by_chance(leaders, result.baseline))
    else:
        sentences += lead_sentences(result, condition)
    return sentences


def _verdicts(result: ComparisonValues, condition: str) -> list[str]:
    """Return the verdicts of the tests against the baseline under a condition, for every system and
    metric: whether the system is significantly better, worse, or neither.
    """
    verdicts = []
    for metric in result.metrics_under(condition):
        for cell in result.across(condition, metric):
            # No means: the metric skipped every query, or no trial is done.
            if cell.means.size and cell.tested:
                verdicts.append(cell.tested.verdict)
    return verdicts


def caveats(result: ComparisonValues) -> list[str]:
    """Return warnings of trials that are not done, and of models that give every document the same
    score; empty if there are none.

    Args:
        result: the values of a comparison or a study.
    """
    sentences = []
    n_planned = result.n_planned
    if result.n_done < n_planned:
        kind = "measurements" if result.measures_only else "trainings"
        failures = f", {len(result.failures)} failed" if result.failures else ""
        sentences.append(
            f"{result.n_done:,} of {n_planned:,} {kind} are done{failures};"
            " all numbers are about these."
        )
    if result.n_constant:
        sentences.append(f"{result.n_constant} of the models found no split and rank nothing.")
    return sentences


def lead_sentences(result: ComparisonValues, condition: str) -> list[str]:
    """Return a sentence for each metric on which system is best under a condition, after those on
    metrics without values.

    Args:
        result: the values of a comparison or a study.
        condition: the name of the condition.
    """
    sentences = skipped_metrics(result, condition)
    for leader in leaders_of(result, condition):
        sentences.append(_describe_leader(leader, result.baseline))
    return sentences


def leaders_of(result: ComparisonValues, condition: str) -> list[CellResult]:
    """Return for each metric the values of the system with the best mean under a condition; a metric
    without values is left out.
    """
    leaders = []
    for metric in result.metrics_under(condition):
        cells = [cell for cell in result.across(condition, metric) if cell.means.size]
        if cells:
            leaders.append(_best_cell(cells))
    return leaders


def _best_cell(cells: Sequence[CellResult]) -> CellResult:
    """Return the system with the best mean among the values of several systems on one metric; the
    first of equal ones.
    """
    if cells[0].higher_is_better:
        return max(cells, key=lambda cell: cell.mean)
    return min(cells, key=lambda cell: cell.mean)


def skipped_metrics(result: ComparisonValues, condition: str) -> list[str]:
    """Return a sentence for each metric that has no values under a condition although trials are
    done: it skipped every query.
    """
    sentences = []
    for metric in result.metrics_under(condition):
        has_values = any(cell.means.size for cell in result.across(condition, metric))
        if result.n_done and not has_values:
            sentences.append(f"{metric}: every query was skipped.")
    return sentences


def _leads_by_chance(leaders: Sequence[CellResult], baseline: str) -> str:
    """Return the answer where no system is significantly better than the baseline: the best means
    of all metrics, by system.

    Args:
        leaders: for each metric, the values of the system with the best mean.
        baseline: the name of the baseline.
    """
    means_by_system: dict[str, list[str]] = {}
    for leader in leaders:
        mean = f"{leader.mean:.4f} {leader.metric}"
        means_by_system.setdefault(leader.system, []).append(mean)
    texts = []
    for system, means in means_by_system.items():
        texts.append(f"{system} with {', '.join(means)}")
    return (
        f"No system is significantly better than {baseline} on any metric."
        f" The best means, which may be chance: {'; '.join(texts)}."
    )


def _describe_leader(leader: CellResult, baseline: str) -> str:
    """Return the sentence on the system with the best mean on a metric: the mean, its difference
    from the baseline, and whether that is significant.

    Args:
        leader: the values of the system on the metric.
        baseline: the name of the baseline; it may be the leader itself, which is not tested.
    """
    sentence = f"{leader.metric}: {leader.system} has the best mean, {leader.mean:.4f}"
    if leader.tested is None:
        return f"{sentence}."
    # HOLDS is the verdict that the system is significantly better than the baseline.
    certainty = "significant" if leader.tested.verdict == HOLDS else "which may be chance"
    # `own` is the significance test that the reproduced paper prescribes, if it has one.
    if leader.own and leader.own.verdict != leader.tested.verdict:
        certainty += f" (by the paper's own test: {leader.own.verdict})"
    return f"{sentence}: {difference_text(leader.difference)} against {baseline}, {certainty}."


# ---- Settings: what a reader needs to trust the numbers, or to doubt them


def comparison_settings(result: PlannedValues) -> dict[str, str]:
    """Return the settings, seeds and versions of a comparison of losses as texts by name.

    Args:
        result: the values of the comparison.
    """
    configurations = "none: parameters as given"
    if result.plan.budget.configurations:
        configurations = str(result.plan.budget.configurations)
    return {
        "repeats": f"{result.n_repeats}, other {result.varied} in each",
        "level": f"{result.alpha:g}",
        "configurations tried": configurations,
        **measured_settings(result),
        **seed_settings(result),
        **plan_settings(result),
        **version_settings(result),
    }


def measured_settings(result: ComparisonValues) -> dict[str, str]:
    """Return the metrics and the baseline of a comparison as texts by name."""
    metrics = dict.fromkeys(cell.metric for cell in result.cells)
    return {"metrics": ", ".join(metrics), "baseline": result.baseline}


def seed_settings(result: PlannedValues) -> dict[str, str]:
    """Return the random seed of a plan and the seeds of its trials as texts by name; of many seeds,
    the first ones.
    """
    seeds_of_trials = [str(trial.spec["seed"]) for trial in result.plan.trials()]
    # A dictionary keeps each seed once, in the order of the trials.
    unique_seeds = list(dict.fromkeys(seeds_of_trials))
    text = ", ".join(unique_seeds[:_MAX_SEEDS])
    n_left_out = len(unique_seeds) - _MAX_SEEDS
    if n_left_out > 0:
        text += f" and {n_left_out} more"
    return {"seed": str(result.plan.seed), "seeds of the trials": text}


def plan_settings(result: PlannedValues) -> dict[str, str]:
    """Return the settings of a plan besides seeds and metrics as texts by name: overlap of training
    data, threads, hash of the data, and where the trials are stored. Settings that do not apply are
    empty.
    """
    overlap = f"{result.overlap:.4g}" if result.overlap else ""
    n_threads = str(result.plan.n_jobs) if result.plan.n_jobs else ""
    hashes = [fingerprint for _fold, fingerprint in result.plan.fingerprints]
    return {
        "overlap of trials": overlap,
        "threads of a trial": n_threads,
        "hash of the data": ", ".join(hashes),
        "store created": result.meta.get("created", ""),
        "command as typed": result.meta.get("command", ""),
    }


def version_settings(result: ComparisonValues) -> dict[str, str]:
    """Return as texts by name the versions of the tools that trained, and of those that write the
    page.
    """
    version_now = tautrank.__version__
    # `meta` is what the store notes about the run; a comparison without a store ran just now.
    version_of_run = result.meta.get("tautrank", version_now)
    training_tools = [f"tautrank {version_of_run}", *result.trained_with]
    python_version = platform.python_version()
    return {
        "run with": ", ".join(training_tools),
        "page written with": (
            f"tautrank {version_now}, Python {python_version}, NumPy {np.__version__}"
        ),
    }


# ---- How to run it again


def _reproduction(command: str | None, call: str) -> Code:
    """Return the section with the terminal command that runs the comparison again, or without a
    command the call in Python.
    """
    if command:
        remark = "The same command on the same files gives the same numbers."
        return Code("Run it again", command, [remark])
    remark = "The same call on the same data gives the same numbers."
    return Code("Run it again", call, [remark])


def python_call(result: PlannedValues) -> str:
    """Return the text of the call of `tautrank.compare` that runs a comparison again.

    Args:
        result: the values of the comparison.
    """
    return call_text(
        "tr.compare",
        "train, valid, test",
        # A loss without parameters of its own is written as its name alone.
        losses=[_shortest_form(system) for system in result.plan.study.systems],
        metrics=list(result.metric_names),
        repeats=result.n_repeats,
        vary=result.varied,
        seed=result.plan.seed,
        tune=result.plan.budget.configurations,
        **arguments_of_tests(result),
        **result.plan.study.parameters,
    )


def arguments_of_tests(result: ComparisonValues) -> dict[str, Any]:
    """Return the keyword arguments of `tautrank.compare` that decide how systems are tested."""
    return {"alpha": result.alpha, "baseline": result.baseline, "pairs": result.pairs}


def _shortest_form(system: Any) -> Any:
    """Return the shortest argument that stands for a compared system: the text of its loss, if the
    system has no name or parameters of its own; else the system itself.
    """
    if not isinstance(system, System):
        return system
    is_loss_alone = system == System(system.loss)
    return system.loss if is_loss_alone else system


def call_text(function: str, data: str, **options: Any) -> str:
    """Return the text of a call in Python, with one keyword argument per line.

    Args:
        function: the name of the function.
        data: its positional arguments, as text.
        **options: its keyword arguments, as values.

    >>> print(call_text("tr.compare", "train, valid, test", repeats=5))
    tr.compare(
        train, valid, test,
        repeats=5,
    )
    """
    lines = [f"    {name}={value!r},\n" for name, value in options.items()]
    return f"{function}(\n    {data},\n{''.join(lines)})"
