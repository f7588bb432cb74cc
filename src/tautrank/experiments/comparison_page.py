"""The page of a comparison: the answer, tables, figures, settings, and what reproduces them."""

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

_MOST_SEEDS = 20  # shown on the page; the seed of the plan gives all of them


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
    """Build the page of a comparison.

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
    sections.append(_reproduction(command, subject.call))

    lead = _question(result, subject.competitors)
    return Page(f"Comparison of {subject.kind}", sections, lead=lead, interactive=figures)


def _question(result: ComparisonValues, competitors: str) -> str:
    """Return the question that the page answers."""
    n_queries = next(iter(result.systems[0].values.values())).shape[1]
    n_systems = len(result.systems)
    if n_systems == 1:
        return f"How well does {result.systems[0].name} rank {n_queries:,} test queries?"
    return f"Which of {n_systems} {competitors} wins on {n_queries:,} test queries, and is the win real?"


# ---- Sections that comparisons and studies share


def result_sections(tables: Mapping[str, Table]) -> list[Section]:
    """Return the sections of the tables: one group for the metrics, and every pair folded.

    Args:
        tables: the tables by title.
    """
    results = []
    for title, table in tables.items():
        if title != "Every pair":
            results.append(TableSection(title, table))
    sections: list[Section] = [*results]
    if len(results) > 1:
        sections = [Group("Results", results)]
    if "Every pair" in tables:
        sections.append(TableSection("Every pair", tables["Every pair"], folded=True))
    return sections


def figure_sections(figures: Sequence[FigureSection]) -> list[Section]:
    """Return figures under one heading; nothing where there are none."""
    return [Group("Figures", figures)] if figures else []


def failure_sections(result: ComparisonValues) -> list[Section]:
    """Return the table of the trials that failed; nothing where none did."""
    if not result.failures:
        return []
    rows = [[failure.title, failure.error] for failure in result.failures]
    return [TableSection("Trials that failed", Table.of(["trial", "error"], rows))]


def settings_section(
    settings: Mapping[str, str], title: str, table: Table, data: Table | None = None
) -> Section:
    """Return what was run: settings, what was compared, and the data.

    Args:
        settings: texts by name; an empty text is left out.
        title: the title of the table.
        table: what was compared.
        data: the parts of data in memory.
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
    """Return what was run in the trials of a plan.

    Args:
        result: the values of a comparison or a study.
        settings: texts by name; an empty text is left out.
    """
    title = "What was measured" if result.measures_only else "What was trained"
    data = _data_table(result) if result.plan.data.held else None
    return settings_section(settings, title, training_table(result), data)


def _data_table(result: PlannedValues) -> Table:
    """Return the sizes of the parts of each split."""
    rows = []
    for number, split in enumerate(result.plan.data.held, 1):
        for name, part in split._asdict().items():
            if part is not None:
                sizes = (part.n_queries, part.n_documents, part.n_features)
                rows.append((number, name, *sizes))
    return Table.of(["split", "part", "queries", "documents", "features"], rows)


# ---- The answer


def answer(result: ComparisonValues) -> list[str]:
    """Return a comparison in words: what is missing, and which system is best on each metric.

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
    """Return the verdicts on all differences from the baseline, of all metrics."""
    verdicts = []
    for metric in result.metrics_under(condition):
        for cell in result.across(condition, metric):
            if cell.means.size and cell.tested:
                verdicts.append(cell.tested.verdict)
    return verdicts


def caveats(result: ComparisonValues) -> list[str]:
    """Return how many trials are missing, and how many models rank nothing.

    Args:
        result: the values of a comparison or a study.
    """
    sentences = []
    n_planned = result.n_planned
    if result.n_done < n_planned:
        kind = "measurements" if result.measures_only else "trainings"
        failed = f", {len(result.failures)} failed" if result.failures else ""
        sentences.append(
            f"{result.n_done:,} of {n_planned:,} {kind} are done{failed};"
            " all numbers are about these."
        )
    if result.n_constant:
        sentences.append(f"{result.n_constant} of the models found no split and rank nothing.")
    return sentences


def lead_sentences(result: ComparisonValues, condition: str) -> list[str]:
    """Return which system is best on each metric under a condition, in a sentence per metric.

    Args:
        result: the values of a comparison or a study.
        condition: the condition.
    """
    leads = [_lead(leader, result.baseline) for leader in leaders_of(result, condition)]
    return [*skipped_metrics(result, condition), *leads]


def leaders_of(result: ComparisonValues, condition: str) -> list[CellResult]:
    """Return the cell with the best mean on each metric for which there are values."""
    leaders = []
    for metric in result.metrics_under(condition):
        cells = [cell for cell in result.across(condition, metric) if cell.means.size]
        if cells:
            leaders.append(_leader(cells))
    return leaders


def _leader(cells: Sequence[CellResult]) -> CellResult:
    """Return the cell with the best mean, the first of several."""
    if cells[0].higher_is_better:
        return max(cells, key=lambda cell: cell.mean)
    return min(cells, key=lambda cell: cell.mean)


def skipped_metrics(result: ComparisonValues, condition: str) -> list[str]:
    """Return a sentence for each metric that skipped every query."""
    sentences = []
    for metric in result.metrics_under(condition):
        has_values = any(cell.means.size for cell in result.across(condition, metric))
        if result.n_done and not has_values:
            sentences.append(f"{metric}: every query was skipped.")
    return sentences


def _leads_by_chance(leaders: Sequence[CellResult], baseline: str) -> str:
    """Return one sentence for all metrics, where no system is shown to be better."""
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


def _lead(leader: CellResult, baseline: str) -> str:
    """Return which system is best on a metric, and whether it is better than the baseline."""
    sentence = f"{leader.metric}: {leader.system} has the best mean, {leader.mean:.4f}"
    if leader.tested is None:
        return f"{sentence}."
    certainty = "significant" if leader.tested.verdict == HOLDS else "which may be chance"
    if leader.own and leader.own.verdict != leader.tested.verdict:
        certainty += f" (by the paper's own test: {leader.own.verdict})"
    return f"{sentence}: {difference_text(leader.difference)} against {baseline}, {certainty}."


# ---- Settings: what a reader needs to trust the numbers, or to doubt them


def comparison_settings(result: PlannedValues) -> dict[str, str]:
    """Return settings, versions and seeds of a comparison, by name.

    Args:
        result: the values of the comparison.
    """
    configurations = result.plan.budget.configurations or "none: parameters as given"
    return {
        "repeats": f"{result.n_repeats}, other {result.varied} in each",
        "level": f"{result.alpha:g}",
        "configurations tried": str(configurations),
        **measured_settings(result),
        **seed_settings(result),
        **plan_settings(result),
        **version_settings(result),
    }


def measured_settings(result: ComparisonValues) -> dict[str, str]:
    """Return the metrics and the baseline."""
    metrics = dict.fromkeys(cell.metric for cell in result.cells)
    return {"metrics": ", ".join(metrics), "baseline": result.baseline}


def seed_settings(result: PlannedValues) -> dict[str, str]:
    """Return the seed of the plan, and those of its trials as far as there is room for them."""
    seeds = list(dict.fromkeys(str(trial.spec["seed"]) for trial in result.plan.trials()))
    text = ", ".join(seeds[:_MOST_SEEDS])
    if len(seeds) > _MOST_SEEDS:
        text += f" and {len(seeds) - _MOST_SEEDS} more"
    return {"seed": str(result.plan.seed), "seeds of the trials": text}


def plan_settings(result: PlannedValues) -> dict[str, str]:
    """Return what else decides the numbers of trials: overlap, threads and data."""
    plan, meta = result.plan, result.meta
    return {
        "overlap of trials": f"{result.overlap:.4g}" if result.overlap else "",
        "threads of a trial": str(plan.n_jobs or ""),
        "hash of the data": ", ".join(fingerprint for _, fingerprint in plan.fingerprints),
        "store created": meta.get("created", ""),
        "command as typed": meta.get("command", ""),
    }


def version_settings(result: ComparisonValues) -> dict[str, str]:
    """Return the versions that made the numbers and the page."""
    version = tautrank.__version__
    tools = (f"tautrank {result.meta.get('tautrank', version)}", *result.trained_with)
    return {
        "run with": ", ".join(tools),
        "page written with": (
            f"tautrank {version}, Python {platform.python_version()}, NumPy {np.__version__}"
        ),
    }


# ---- What gives the result again


def _reproduction(command: str | None, call: str) -> Code:
    """Return the command or the call that gives the numbers again."""
    if command:
        remark = "The same command on the same files gives the same numbers."
        return Code("Run it again", command, [remark])
    remark = "The same call on the same data gives the same numbers."
    return Code("Run it again", call, [remark])


def python_call(result: PlannedValues) -> str:
    """Return the call of `tautrank.compare` that gives a comparison again.

    Args:
        result: the values of the comparison.
    """
    return call_text(
        "tr.compare",
        "train, valid, test",
        losses=[_as_typed(system) for system in result.plan.study.systems],
        metrics=list(result.metric_names),
        repeats=result.n_repeats,
        vary=result.varied,
        seed=result.plan.seed,
        tune=result.plan.budget.configurations,
        **test_arguments(result),
        **result.plan.study.parameters,
    )


def test_arguments(result: ComparisonValues) -> dict[str, Any]:
    """Return the arguments of the tests, as one types them."""
    return {"alpha": result.alpha, "baseline": result.baseline, "pairs": result.pairs}


def _as_typed(system: Any) -> Any:
    """Return a system as one types it: a loss without parameters by its name alone."""
    if isinstance(system, System):
        is_plain = system == System(system.loss)
        return system.loss if is_plain else system
    return system


def call_text(function: str, data: str, **options: Any) -> str:
    """Return a call in Python, one option per line.

    Args:
        function: the function.
        data: its first arguments.
        **options: the others by name.

    >>> print(call_text("tr.compare", "train, valid, test", repeats=5))
    tr.compare(
        train, valid, test,
        repeats=5,
    )
    """
    lines = [f"    {name}={value!r},\n" for name, value in options.items()]
    return f"{function}(\n    {data},\n{''.join(lines)})"
