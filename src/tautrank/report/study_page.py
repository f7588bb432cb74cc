"""The page of a study: the claim, the verdict, results with significance, figures, settings, what reproduces it."""

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

_MOST_SEEDS = 20  # shown; the plan's own seed gives all of them
_WHOLE = {
    AGREES: "The numbers agree with the claim",
    DOES_NOT: "The numbers do not agree with the claim",
    UNDECIDED: "The numbers do not decide the claim",
}
_ALONE = {AGREES: "agrees", DOES_NOT: "does not agree", UNDECIDED: "is not decidable"}


def study_page(result: StudyResult) -> Page:
    """Build the page of a study; it needs Plotly (``pip install 'tautrank[report]'``).

    Args:
        result: what `run_study` and `read_results` return; the study need not be finished.

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
    sections.append(_results(result))
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
    """The result in words: the verdict, what is missing, and which system is best.

    Args:
        result: of a study.
    """
    plan, study = result.plan, result.plan.study
    things = "measurements" if study.measures_only else "trainings"
    said = []
    if result.n_done and result.verdicts:
        corrected, own = (_counts([getattr(v, by).verdict for v in result.verdicts]) for by in ("corrected", "own"))
        told = f"by the corrected test {corrected}; by the paper's own test {own}"
        said.append(f"{_WHOLE[result.verdict]}: {f'by both tests {own}' if own == corrected else told}.")
    missing = plan.size - result.n_done
    if missing:
        failed = f", {len(result.failures)} failed" if result.failures else ""
        said.append(f"{result.n_done:,} of {plan.size:,} {things} are done{failed}: numbers are of what is done.")
    if result.n_constant:
        said.append(f"{result.n_constant} of the models found nothing to split, and rank nothing.")
    if len(study.systems) > 1 and len(study.conditions) == 1 and not study.measures_only:
        said += [
            _best(result, study.condition_names[0], name) for name in study.metrics_under(study.condition_names[0])
        ]
    return [sentence for sentence in said if sentence]


def _counts(verdicts: Sequence[str]) -> str:
    """'2 of 6 comparisons agree, 1 does not, 3 are not decidable'."""
    if len(verdicts) == 1:
        return f"the one comparison {_ALONE[verdicts[0]]}"
    counts = Counter(verdicts)
    said = [f"{counts[AGREES]} of {len(verdicts)} comparisons {'agrees' if counts[AGREES] == 1 else 'agree'}"]
    if counts[DOES_NOT]:
        said.append(f"{counts[DOES_NOT]} {'does' if counts[DOES_NOT] == 1 else 'do'} not")
    if counts[UNDECIDED]:
        said.append(f"{counts[UNDECIDED]} {'is' if counts[UNDECIDED] == 1 else 'are'} not decidable")
    return ", ".join(said)


def _best(result: StudyResult, condition: str, name: str) -> str:
    study = result.plan.study
    cells = [result.cell(condition, system, name) for system in study.system_names]
    cells = [cell for cell in cells if cell.means.size]
    if len(cells) < 2:
        return ""
    best = max(cells, key=lambda cell: cell.mean if cell.higher_is_better else -cell.mean)
    said = f"{name}: {best.system} has the best mean, {best.mean:.4f}"
    if best.system == study.baseline or best.corrected is None or best.own is None:
        return f"{said}."
    tests = {"the corrected test": best.corrected.verdict, "the paper's own test": best.own.verdict}
    sure = [test for test, verdict in tests.items() if verdict == AGREES]
    how = f"significant by {' and '.join(sure)}" if sure else "which may be chance"
    return f"{said}: {difference_text(best.difference)} against {study.baseline}, {how}."


def _results(result: StudyResult) -> Section:
    tables = [TableSection(title, table) for title, table in result_tables(result).items()]
    return tables[0] if len(tables) == 1 else Group("Results", tables)


def settings_of(result: StudyResult) -> dict[str, str]:
    """Settings, versions and seeds: what somebody needs to know to believe the numbers, or to doubt them.

    Args:
        result: of a study.
    """
    plan, study = result.plan, result.plan.study
    told = {"study": f"{study.name}, version {study.version}"}
    # The claim and the verdict stand at the top of the page.
    told |= {what: how for what, how in facts(result) if what not in ("claim", "verdict", "note")}
    if study.axis:
        told["conditions"] = f"{study.axis}: {', '.join(study.condition_names)}"
    seeds = list(dict.fromkeys(str(trial.spec["seed"]) for trial in plan.trials()))
    more = f" and {len(seeds) - _MOST_SEEDS} more" if len(seeds) > _MOST_SEEDS else ""
    told |= {
        "metrics": ", ".join(dict.fromkeys(cell.metric for cell in result.cells)),
        "baseline": study.baseline,
        "seed": str(plan.seed),
        "seeds of the trials": ", ".join(seeds[:_MOST_SEEDS]) + more,
        "overlap of trials": f"{result.overlap:.4g}" if result.overlap else "",
        "threads of a trial": str(plan.n_jobs),
        "hash of the data": result.meta.get("data_fingerprint", ""),
        "store made": result.meta.get("created", ""),
        "as it was typed": result.meta.get("command", ""),
        "run with": ", ".join((f"tautrank {result.meta.get('tautrank', '')}", *result.trained_with)),
        "page written with": written_with(),
        "what the paper leaves open": study.note,
    }
    return {name: text for name, text in told.items() if text}


def _reproduction(result: StudyResult) -> Code:
    plan = result.plan
    known = CATALOGUE.get(plan.study.name)
    if known is None or digest(to_plain(known)) != digest(to_plain(plan.study)):
        how = (
            "This is no study of this version's catalogue. With `study` as it was declared, or as "
            "tautrank.papers.results.read_results(STORE).plan.study gives it:"
        )
        return Code("Run it again", python_call(result), [how])
    how = "The same command on the same data gives the same numbers"
    return Code("Run it again", command(result), [f"{how}; where {plan.study.name}.db is there, it goes on with that."])


def command(result: StudyResult) -> str:
    """What runs a study of the catalogue again in a terminal, with nothing left to defaults, and writes this page.

    Args:
        result: of a study.
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
    """What runs a study of one's own again in Python.

    Args:
        result: of a study.
    """
    plan = result.plan
    data = repr(plan.data.given[0] if len(plan.data.given) == 1 else list(plan.data.given))
    budget = plan.budget
    given = {
        "budget": f"Budget(trials={budget.trials}, configurations={budget.configurations}, trees={budget.trees})",
        "fold": repr(plan.data.fold) if plan.data.fold is not None else "",
        "recipe": repr(plan.recipe) if plan.recipe else "",
        "seed": repr(plan.seed),
        "n_jobs": repr(plan.n_jobs),
    }
    return call_text("run_study", f"study, {data}", {name: value for name, value in given.items() if value})
