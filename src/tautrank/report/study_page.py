"""The page of a study: the verdict, claims, results with significance, figures, settings, how to run it again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from tautrank.experiments.plain_values import to_plain
from tautrank.json_values import digest
from tautrank.papers.catalogue import CATALOGUE
from tautrank.papers.judging import AGREES, DOES_NOT, UNDECIDED
from tautrank.papers.results import StudyResult
from tautrank.report.figures import require_plotly
from tautrank.report.page import Code, Facts, Group, Page, Section, TableSection, Text
from tautrank.report.reproduction import call_text, written_with
from tautrank.report.study_figures import study_figures
from tautrank.report.study_tables import claim_table, facts, printed_table, result_tables, run_table
from tautrank.report.table import ReportTable, difference_text

_MOST_SEEDS = 20  # shown on the page; the seed of the plan gives all of them
_WHOLE = {
    AGREES: "The numbers agree with the claim",
    DOES_NOT: "The numbers do not agree with the claim",
    UNDECIDED: "The numbers do not decide the claim",
}


def study_page(result: StudyResult) -> Page:
    """Build the page of a study; it needs Plotly (``pip install 'tautrank[report]'``).

    Args:
        result: the result of `run_study` or `read_results`; the study need not be finished.

    >>> from tautrank.papers.catalogue import find_study
    >>> from tautrank.papers.run import run_study
    >>> from tautrank.experiments.plan import Budget
    >>> result = run_study(find_study("xe-figure1"), budget=Budget(trials=1))
    >>> [section.title for section in study_page(result).sections]
    ['Answer', 'Claims', 'Results', 'Figures', 'Settings', 'Run it again']
    """
    require_plotly()
    study = result.plan.study
    sections: list[Section] = [Text("Answer", answer(result))]
    if result.verdicts:
        sections.append(TableSection("Claims", claim_table(result)))
    results = [TableSection(title, table) for title, table in result_tables(result).items()]
    sections.append(results[0] if len(results) == 1 else Group("Results", results))
    printed = printed_table(result)
    if printed is not None:
        sections.append(TableSection("Beside the paper's numbers", printed))
    figures = study_figures(result)
    if figures:
        sections.append(Group("Figures", figures))
    if result.failures:
        failures = [[failure.title, failure.error] for failure in result.failures]
        sections.append(TableSection("Trials that failed", ReportTable.of(["trial", "error"], failures)))
    ran = "What was measured" if study.measures_only else "What was trained"
    settings: list[Section] = [
        Facts("What was run", settings_of(result)),
        TableSection(ran, run_table(result), folded=True),
    ]
    sections += [Group("Settings", settings), _reproduction(result)]
    return Page(study.title, sections, lead=study.claim)


def answer(result: StudyResult) -> list[str]:
    """Return the result in words: the verdict, what is missing, and which system is best.

    Args:
        result: the result of a study.
    """
    plan, study = result.plan, result.plan.study
    found = []
    if result.n_done and result.verdicts:
        own, corrected = (_counts([getattr(v, test).verdict for v in result.verdicts]) for test in ("own", "corrected"))
        counts = f"by both tests: {own}"
        if own != corrected:
            counts = f"by the corrected test: {corrected}; by the paper's own test: {own}"
        comparisons = "1 comparison" if len(result.verdicts) == 1 else f"{len(result.verdicts)} comparisons"
        found.append(f"{_WHOLE[result.verdict]}. Verdicts on {comparisons} {counts}.")
    if result.n_done < plan.size:
        things = "measurements" if study.measures_only else "trainings"
        failed = f", {len(result.failures)} failed" if result.failures else ""
        found.append(f"{result.n_done:,} of {plan.size:,} {things} are done{failed}; all numbers are about these.")
    if result.n_constant:
        found.append(f"{result.n_constant} of the models found no split and rank nothing.")
    if len(study.systems) > 1 and len(study.conditions) == 1 and not study.measures_only:
        condition = study.condition_names[0]
        found += [_best(result, condition, name) for name in study.metrics_under(condition)]
    return [sentence for sentence in found if sentence]


def _counts(verdicts: Sequence[str]) -> str:
    """'agrees 2, not decidable 3'."""
    counts = Counter(verdicts)
    return ", ".join(f"{verdict} {counts[verdict]}" for verdict in _WHOLE if counts[verdict])


def _best(result: StudyResult, condition: str, name: str) -> str:
    study = result.plan.study
    cells = [result.cell(condition, system, name) for system in study.system_names]
    cells = [cell for cell in cells if cell.means.size]
    if len(cells) < 2:
        return ""
    best = max(cells, key=lambda cell: cell.mean if cell.higher_is_better else -cell.mean)
    leader = f"{name}: {best.system} has the best mean, {best.mean:.4f}"
    if best.system == study.baseline or best.corrected is None or best.own is None:
        return f"{leader}."
    tests = {"the corrected test": best.corrected.verdict, "the paper's own test": best.own.verdict}
    sure = [test for test, verdict in tests.items() if verdict == AGREES]
    how = f"significant by {' and '.join(sure)}" if sure else "which may be chance"
    return f"{leader}: {difference_text(best.difference)} against {study.baseline}, {how}."


def settings_of(result: StudyResult) -> dict[str, str]:
    """Return settings, versions and seeds: what a reader needs to trust the numbers, or to doubt them.

    Args:
        result: the result of a study.
    """
    plan, study = result.plan, result.plan.study
    seeds = list(dict.fromkeys(str(trial.spec["seed"]) for trial in plan.trials()))
    more = f" and {len(seeds) - _MOST_SEEDS} more" if len(seeds) > _MOST_SEEDS else ""
    settings = {
        "study": f"{study.name}, version {study.version}",
        # The claim and the verdict are at the top of the page.
        **{what: how for what, how in facts(result) if what not in ("claim", "verdict", "note")},
        "conditions": f"{study.axis}: {', '.join(study.condition_names)}" if study.axis else "",
        "metrics": ", ".join(dict.fromkeys(cell.metric for cell in result.cells)),
        "baseline": study.baseline,
        "seed": str(plan.seed),
        "seeds of the trials": ", ".join(seeds[:_MOST_SEEDS]) + more,
        "overlap of trials": f"{result.overlap:.4g}" if result.overlap else "",
        "threads of a trial": str(plan.n_jobs),
        "hash of the data": result.meta.get("data_fingerprint", ""),
        "store created": result.meta.get("created", ""),
        "command as typed": result.meta.get("command", ""),
        "run with": ", ".join((f"tautrank {result.meta.get('tautrank', '')}", *result.trained_with)),
        "page written with": written_with(),
        "what the paper leaves open": study.note,
    }
    return {name: text for name, text in settings.items() if text}


def _reproduction(result: StudyResult) -> Code:
    plan = result.plan
    known = CATALOGUE.get(plan.study.name)
    if known is None or digest(to_plain(known)) != digest(to_plain(plan.study)):
        how = (
            "This study is not in the catalogue of this version. `study` is its declaration, or "
            "tautrank.papers.results.read_results(STORE).plan.study:"
        )
        return Code("Run it again", python_call(result), [how])
    how = "The same command on the same data gives the same numbers"
    return Code("Run it again", command(result), [f"{how}; if {plan.study.name}.db exists, it continues that run."])


def command(result: StudyResult) -> str:
    """Return the commands that run a study of the catalogue again, with every option given, and write this page.

    Args:
        result: the result of a study.
    """
    plan, name = result.plan, result.plan.study.name
    words = ["tautrank", "study", "run", name]
    for given in plan.data.given:
        words += ["--data", given]
    words += [] if plan.data.fold is None else ["--fold", str(plan.data.fold)]
    words += ["--recipe", plan.recipe] if plan.recipe else []
    words += ["--trials", str(plan.budget.trials)]
    if not plan.study.measures_only:
        words += ["--configs", str(plan.budget.configurations), "--trees", str(plan.budget.trees)]
    words += ["--seed", str(plan.seed), "--jobs", str(plan.n_jobs)]
    report = ["tautrank", "study", "report", f"{name}.db", "-o", f"{name}.html"]
    return f"{shlex.join(words)}\n{shlex.join(report)}"


def python_call(result: StudyResult) -> str:
    """Return the Python call that runs a user's own study again.

    Args:
        result: the result of a study.
    """
    plan = result.plan
    data = repr(plan.data.given[0] if len(plan.data.given) == 1 else list(plan.data.given))
    given = {
        "budget": repr(plan.budget),
        "fold": repr(plan.data.fold) if plan.data.fold is not None else "",
        "recipe": repr(plan.recipe) if plan.recipe else "",
        "seed": repr(plan.seed),
        "n_jobs": repr(plan.n_jobs),
    }
    return call_text("run_study", f"study, {data}", {name: value for name, value in given.items() if value})
