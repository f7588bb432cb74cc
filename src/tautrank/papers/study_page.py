"""The page of a study: the verdict, claims, results beside the paper's, figures, settings, and the
commands that run it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tautrank.errors import counted
from tautrank.experiments.comparison_figures import difference_sections
from tautrank.experiments.comparison_page import (
    call_text,
    caveats,
    failure_sections,
    figure_sections,
    lead_sentences,
    measured_settings,
    plan_settings,
    result_sections,
    seed_settings,
    trials_section,
    version_settings,
)
from tautrank.experiments.comparison_tables import power_note
from tautrank.papers.catalogue import CATALOGUE
from tautrank.papers.study_figures import conditions_on_axis, study_figures
from tautrank.papers.study_tables import facts
from tautrank.papers.study_values import StudyValues
from tautrank.report.page import Code, Page, Section, TableSection, Text
from tautrank.report.plotly_script import require_plotly
from tautrank.report.terminal import command_line
from tautrank.significance.verdicts import FAILS, HOLDS, UNDECIDED
from tautrank.tables import Table

_VERDICTS = {
    HOLDS: "The claim holds",
    FAILS: "The claim fails",
    UNDECIDED: "The claim is undecided",
}
# Of what was run, the texts that the page shows outside of its settings.
_SHOWN_ELSEWHERE = ("claim", "verdict", "note")


def study_page(
    result: StudyValues,
    tables: Mapping[str, Table],
    claims: Table | None,
    typed: str | None = None,
) -> Page:
    """Return the page (HTML report) of a study, section by section: the answer, differences, claims,
    results, figures, failures, trials, and how to run it again. It need not be finished.

    Args:
        result: the values of the study.
        tables: the tables of its results by title.
        claims: the table of its claims; None without.
        typed: the command that runs a study that is not in the catalogue.
    """
    require_plotly()
    sections: list[Section] = [Text("Answer", answer(result))]
    # Conditions that are numbers are drawn as curves instead.
    if not result.measures_only and not conditions_on_axis(result):
        sections += difference_sections(result)
    if claims is not None:
        sections.append(TableSection("Claims", claims))
    sections += result_sections(tables)
    sections += figure_sections(study_figures(result))
    sections += failure_sections(result)
    sections.append(trials_section(result, study_settings(result)))
    sections.append(_reproduction_section(result, typed))
    study = result.plan.study
    return Page(study.title, sections, lead=study.claim)


def answer(result: StudyValues) -> list[str]:
    """Return the outcome of a study as sentences: the verdict on the claim, what is missing, and, if
    there is a single condition, which system leads.

    Args:
        result: the values of the study.
    """
    sentences = []
    if result.n_done and result.verdicts:
        # `tested` is the outcome of this library's test; a verdict has the paper's own test too.
        tests = [verdict.tested for verdict in result.verdicts]
        comparisons = counted(len(tests), "comparison")
        sentences = [
            f"{_VERDICTS[result.verdict]}. Verdicts on {comparisons}: {_verdict_counts(result)}.",
            power_note({"": tests}, result.alpha),
        ]
    sentences += caveats(result)
    if len(result.condition_names) == 1 and not result.measures_only:
        sentences += lead_sentences(result, result.condition_names[0])
    # What does not apply is an empty sentence.
    return [sentence for sentence in sentences if sentence]


def _verdict_counts(result: StudyValues) -> str:
    """Return in words how many comparisons of a paper's claims hold, fail and are undecided by this
    library's test; and by the paper's own test, if its counts differ.
    """
    counts = _count_text([verdict.tested.verdict for verdict in result.verdicts])
    counts_by_paper = _count_text([verdict.own.verdict for verdict in result.verdicts])
    if counts_by_paper == counts:
        return counts
    return f"{counts}; by the paper's own test: {counts_by_paper}"


def _count_text(verdicts: Sequence[str]) -> str:
    """Return in words how often each verdict occurs, such as 'holds 2, undecided 3'; verdicts that
    do not occur are left out.
    """
    counts = Counter(verdicts)
    # The keys of `_VERDICTS` are all verdicts, in the order in which they are named.
    texts = [f"{verdict} {counts[verdict]}" for verdict in _VERDICTS if counts[verdict]]
    return ", ".join(texts)


def study_settings(result: StudyValues) -> dict[str, str]:
    """Return the settings of a study as texts by title: what was run on which data, how it was
    measured, seeds and versions.

    Args:
        result: the values of the study.
    """
    study = result.plan.study
    settings = {"study": f"{study.name}, version {study.version}"}
    for title, text in facts(result).items():
        if title not in _SHOWN_ELSEWHERE:
            settings[title] = text
    if study.axis:
        settings["conditions"] = f"{study.axis}: {', '.join(study.condition_names)}"
    settings["what the paper leaves open"] = study.note
    settings |= measured_settings(result)
    settings |= seed_settings(result)
    settings |= plan_settings(result)
    settings |= version_settings(result)
    return settings


# ---- What gives the result again


def _reproduction_section(result: StudyValues, typed: str | None) -> Code:
    """Return the section of a page that says how to run a study again: by commands if it is in the
    catalogue, else by a call in Python or by the command that was typed.
    """
    study = result.plan.study
    # A study of that name that was changed since is not the one that the command would run.
    if CATALOGUE.get(study.name) == study:
        remark = (
            "The same command on the same data gives the same numbers; if"
            f" {study.name}.db exists, it continues that run."
        )
        return Code("Run it again", command(result), [remark])
    remark = (
        "This study is not in the catalogue of this version. `study` is its declaration, or"
        " tautrank.papers.results.read_results(STORE).plan.study:"
    )
    return Code("Run it again", typed or python_call(result), [remark])


def command(result: StudyValues) -> str:
    """Return the commands that run a study of the catalogue again, with every option given, and
    write this page.

    Args:
        result: the values of the study.
    """
    plan, budget, name = result.plan, result.plan.budget, result.plan.study.name
    options: dict[str, Any] = {
        "data": plan.data.given,
        "fold": plan.data.fold,
        "recipe": plan.recipe or None,
        "repeats": budget.repeats,
    }
    # A study that only measures trains nothing: no configurations to choose from, no trees.
    if not plan.study.measures_only:
        options |= {"configs": budget.configurations, "trees": budget.trees}
    options |= {"seed": plan.seed, "jobs": plan.n_jobs}
    run = command_line("tautrank", "study", "run", name, **options)
    return f"{run}\ntautrank study report {name}.db -o {name}.html"


def python_call(result: StudyValues) -> str:
    """Return the call in Python that runs a study of the user's own again.

    Args:
        result: the values of the study.
    """
    plan = result.plan
    data: str | list[str] = list(plan.data.given)
    # One source of data is written as plain text, several as a list.
    if len(data) == 1:
        data = data[0]
    options: dict[str, Any] = {"budget": plan.budget}
    if plan.data.fold is not None:
        options["fold"] = plan.data.fold
    if plan.recipe:
        options["recipe"] = plan.recipe
    return call_text("run_study", f"study, {data!r}", **options, seed=plan.seed, n_jobs=plan.n_jobs)
