"""The pages of results: the answer, tables, figures, settings, and what reproduces them."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

import tautrank
from tautrank.errors import counted
from tautrank.experiments.data_source import MEMORY
from tautrank.experiments.plan import System
from tautrank.experiments.result import CellResult, Comparison, Result
from tautrank.papers.catalogue import CATALOGUE
from tautrank.papers.results import StudyResult
from tautrank.report.page import Code, Facts, Group, Page, Section, TableSection, Text
from tautrank.report.plotly_script import require_plotly
from tautrank.report.study_figures import difference_sections, study_figures
from tautrank.report.tables import facts, power_note, run_table, tables, vary
from tautrank.report.terminal import command_line
from tautrank.significance.verdicts import FAILS, HOLDS, UNDECIDED
from tautrank.tables import Table, difference_text

_MOST_SEEDS = 20  # shown on the page; the seed of the plan gives all of them
_WHOLE = {HOLDS: "The claim holds", FAILS: "The claim fails", UNDECIDED: "The claim is undecided"}


def result_page(result: Result, *, figures: bool = False, command: str | None = None) -> Page:
    """Build the page of a comparison, a search or a study.

    Args:
        result: the result of `tautrank.compare`, `tautrank.tune` or `run_study`; a study need not
            be finished.
        figures: whether to draw figures; without them the page has no script, and Plotly is not
            needed. The page of a study always has them.
        command: the command that reproduces a comparison; by default the page shows the call in
            Python.

    >>> from tautrank.papers import Budget, find_study, run_study
    >>> result = run_study(find_study("xe-figure1"), budget=Budget(trials=1))
    >>> [section.title for section in result_page(result).sections]
    ['Answer', 'Claims', 'Results', 'Figures', 'Settings', 'Run it again']
    """
    if not isinstance(result, Comparison):
        best = TableSection("Best trials", result.table())
        return Page("Search for parameters", [best], lead=result.note(), interactive=False)
    results = tables(result)
    claims, pairs = results.pop("Claims", None), results.pop("Every pair", None)
    sections: list[Section] = [Text("Answer", answer(result))]
    figures = figures or isinstance(result, StudyResult)
    if figures:
        require_plotly()
        sections += difference_sections(result)
    sections += [TableSection("Claims", claims)] if claims else []
    shown = [TableSection(title, table) for title, table in results.items()]
    sections.append(shown[0] if len(shown) == 1 else Group("Results", shown))
    sections += [TableSection("Every pair", pairs, folded=True)] if pairs else []
    if figures and (drawn := study_figures(result)):
        sections.append(Group("Figures", drawn))
    if result.failures:
        failures = [[failure.title, failure.error] for failure in result.failures]
        sections.append(TableSection("Trials that failed", Table.of(["trial", "error"], failures)))
    study = result.plan.study
    ran = (
        "What was measured"
        if study.measures_only
        else "What was compared"
        if study.given
        else "What was trained"
    )
    settings: list[Section] = [Facts("What was run", settings_of(result))]
    settings.append(TableSection(ran, run_table(result), folded=True))
    if result.plan.data.held:
        settings.append(TableSection("Data", _data_table(result)))
    sections += [Group("Settings", settings), _reproduction(result, command)]
    if isinstance(result, StudyResult):
        return Page(result.plan.study.title, sections, lead=result.plan.study.claim)
    title = f"Comparison of {'runs' if study.given else 'losses'}"
    return Page(title, sections, lead=_question(result), interactive=figures)


def _question(result: Comparison) -> str:
    queries = next(iter(result.systems[0].values.values())).shape[1]
    if len(result.systems) == 1:
        return f"How well does {result.systems[0].name} rank {queries:,} test queries?"
    what = "systems" if result.plan.study.given else "losses"
    return f"Which of {len(result.systems)} {what} wins on {queries:,} test queries, and is the win real?"


def _data_table(result: Comparison) -> Table:
    rows = []
    for number, split in enumerate(result.plan.data.held, 1):
        parts = {name: part for name, part in split._asdict().items() if part is not None}
        rows += [
            (number, name, part.n_queries, part.n_documents, part.n_features)
            for name, part in parts.items()
        ]
    return Table.of(["split", "part", "queries", "documents", "features"], rows)


def answer(result: Comparison) -> list[str]:
    """Return the result in words: the verdict on a claim, what is missing, and which system is
    best.

    Args:
        result: the result of a comparison or a study.
    """
    plan, study = result.plan, result.plan.study
    found = []
    if isinstance(result, StudyResult) and result.n_done and result.verdicts:
        own, tested = (
            _counts([getattr(v, test).verdict for v in result.verdicts])
            for test in ("own", "tested")
        )
        counts = tested if own == tested else f"{tested}; by the paper's own test: {own}"
        comparisons = counted(len(result.verdicts), "comparison")
        found.append(f"{_WHOLE[result.verdict]}. Verdicts on {comparisons}: {counts}.")
        found.append(power_note({"": [v.tested for v in result.verdicts]}, result.alpha))
    if result.n_done < plan.size:
        things = "measurements" if study.measures_only else "trainings"
        failed = f", {len(result.failures)} failed" if result.failures else ""
        found.append(
            f"{result.n_done:,} of {plan.size:,} {things} are done{failed}; all numbers are about these."
        )
    if result.n_constant:
        found.append(f"{result.n_constant} of the models found no split and rank nothing.")
    if len(study.conditions) == 1 and not study.measures_only:
        condition = study.condition_names[0]
        found += _leads(result, condition, study.metrics_under(condition))
    return [sentence for sentence in found if sentence]


def _counts(verdicts: Sequence[str]) -> str:
    """'holds 2, undecided 3'."""
    counts = Counter(verdicts)
    return ", ".join(f"{verdict} {counts[verdict]}" for verdict in _WHOLE if counts[verdict])


def _leads(result: Comparison, condition: str, names: Sequence[str]) -> list[str]:
    """Which system is best on each metric; one sentence for all of them where none is shown to be
    better.
    """
    study = result.plan.study
    known = {
        name: [cell for cell in result.across(condition, name) if cell.means.size] for name in names
    }
    skipped = [
        f"{name}: every query was skipped."
        for name, cells in known.items()
        if not cells and result.n_done
    ]
    best = [
        max(cells, key=lambda c: c.mean if c.higher_is_better else -c.mean)
        for cells in known.values()
        if cells
    ]
    tested = [cell.tested for cells in known.values() for cell in cells if cell.tested]
    if (
        len(best) > 1
        and tested
        and not isinstance(result, StudyResult)
        and all(t.verdict != HOLDS for t in tested)
    ):
        leaders = {
            cell.system: [f"{c.mean:.4f} {c.metric}" for c in best if c.system == cell.system]
            for cell in best
        }
        means = "; ".join(f"{system} with {', '.join(found)}" for system, found in leaders.items())
        none = f"No system is significantly better than {study.baseline} on any metric."
        return [*skipped, f"{none} The best means, which may be chance: {means}."]
    return [*skipped, *(_lead(cell, study.baseline) for cell in best)]


def _lead(best: CellResult, baseline: str) -> str:
    leader = f"{best.metric}: {best.system} has the best mean, {best.mean:.4f}"
    if best.tested is None:
        return f"{leader}."
    how = "significant" if best.tested.verdict == HOLDS else "which may be chance"
    if best.own and best.own.verdict != best.tested.verdict:
        how += f" (by the paper's own test: {best.own.verdict})"
    return f"{leader}: {difference_text(best.difference)} against {baseline}, {how}."


def settings_of(result: Comparison) -> dict[str, str]:
    """Return settings, versions and seeds: what a reader needs to trust the numbers, or to doubt
    them.

    Args:
        result: the result of a comparison or a study.
    """
    plan, study = result.plan, result.plan.study
    seeds = list(dict.fromkeys(str(trial.spec["seed"]) for trial in plan.trials()))
    now = tautrank.__version__
    more = f" and {len(seeds) - _MOST_SEEDS} more" if len(seeds) > _MOST_SEEDS else ""
    if isinstance(result, StudyResult):
        # The claim and the verdict are at the top of the page.
        ran = result.plan.study
        own = {"study": f"{ran.name}, version {ran.version}"}
        own |= {
            what: how
            for what, how in facts(result).items()
            if what not in ("claim", "verdict", "note")
        }
        own["conditions"] = f"{ran.axis}: {', '.join(study.condition_names)}" if ran.axis else ""
        own["what the paper leaves open"] = ran.note
    elif study.given:
        own, seeds = {"judgments": ", ".join(plan.data.given), "level": f"{result.alpha:g}"}, []
    else:
        repeats = f"{plan.budget.trials}" + (
            f", other {vary(result)} in each" if vary(result) else ""
        )
        own = {"repeats": repeats, "level": f"{result.alpha:g}"}
        own["configurations tried"] = str(plan.budget.configurations or "none: parameters as given")
    settings = {
        **own,
        "metrics": ", ".join(dict.fromkeys(cell.metric for cell in result.cells)),
        "baseline": study.baseline,
        "seed": "" if study.given else str(plan.seed),
        "seeds of the trials": ", ".join(seeds[:_MOST_SEEDS]) + more,
        "overlap of trials": f"{result.overlap:.4g}" if result.overlap else "",
        "threads of a trial": str(plan.n_jobs or ""),
        "hash of the data": ", ".join(mark for _, mark in plan.fingerprints),
        "store created": result.meta.get("created", ""),
        "command as typed": result.meta.get("command", ""),
        "run with": ", ".join(
            (f"tautrank {result.meta.get('tautrank', now)}", *result.trained_with)
        ),
        "page written with": f"tautrank {now}, Python {platform.python_version()}, NumPy {np.__version__}",
    }
    return {name: text for name, text in settings.items() if text}


def _reproduction(result: Comparison, typed: str | None) -> Code:
    again, how = (
        typed or python_call(result),
        "The same command on the same files gives the same numbers.",
    )
    if not isinstance(result, StudyResult):
        how = how if typed else "The same call on the same data gives the same numbers."
    elif CATALOGUE.get(result.plan.study.name) == result.plan.study:
        again, name = command(result), result.plan.study.name
        how = f"The same command on the same data gives the same numbers; if {name}.db exists, it continues that run."
    else:
        how = "This study is not in the catalogue of this version. `study` is its declaration, or "
        how += "tautrank.papers.results.read_results(STORE).plan.study:"
    return Code("Run it again", again, [how])


def command(result: StudyResult) -> str:
    """Return the commands that run a study of the catalogue again, with every option given, and
    write this page.

    Args:
        result: the result of a study.
    """
    plan, budget, name = result.plan, result.plan.budget, result.plan.study.name
    how: dict[str, Any] = {
        "data": plan.data.given,
        "fold": plan.data.fold,
        "recipe": plan.recipe or None,
    }
    trees = (
        {}
        if plan.study.measures_only
        else {"configs": budget.configurations, "trees": budget.trees}
    )
    how |= {"trials": budget.trials, **trees, "seed": plan.seed, "jobs": plan.n_jobs}
    return f"{command_line('tautrank', 'study', 'run', name, **how)}\ntautrank study report {name}.db -o {name}.html"


def python_call(result: Comparison) -> str:
    """Return the call in Python that gives a comparison, or a study of the user's own, again.

    Args:
        result: the result of `tautrank.compare` or `run_study`.
    """
    plan, study = result.plan, result.plan.study
    if isinstance(result, StudyResult):
        data = plan.data.given[0] if len(plan.data.given) == 1 else list(plan.data.given)
        chosen = {"fold": plan.data.fold, "recipe": result.plan.recipe or None}
        given = {
            "budget": plan.budget,
            **{name: value for name, value in chosen.items() if value is not None},
        }
        return _call("run_study", f"study, {data!r}", **given, seed=plan.seed, n_jobs=plan.n_jobs)
    tested = {
        "alpha": result.alpha,
        "baseline": study.baseline,
        "pairs": result.pairs,
        **study.parameters,
    }
    if study.given:
        runs = repr({s.name: s.runs[0] if len(s.runs) == 1 else list(s.runs) for s in study.given})
        runs = (
            "runs" if any(run.startswith("runs[") for s in study.given for run in s.runs) else runs
        )  # no files
        judged = "judged" if plan.data.given == (MEMORY,) else repr(plan.data.given[0])
        return _call(
            "tr.compare_runs", f"{runs},\n    {judged}", metrics=list(study.metrics), **tested
        )
    losses = [s.loss if isinstance(s, System) and s == System(s.loss) else s for s in study.systems]
    how = {
        "repeats": plan.budget.trials,
        "vary": vary(result),
        "seed": plan.seed,
        "tune": plan.budget.configurations,
    }
    return _call(
        "tr.compare",
        "train, valid, test",
        losses=losses,
        metrics=list(study.metrics),
        **how,
        **tested,
    )


def _call(function: str, data: str, **options: Any) -> str:
    """Format a call in Python, one option per line."""
    lines = "".join(f"    {name}={value!r},\n" for name, value in options.items())
    return f"{function}(\n    {data},\n{lines})"
