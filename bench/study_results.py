"""The results of every study next to the paper's: docs/results/studies.md and one page per study
and data set.

Runs what is missing first (`python -m bench.study_runs`); run with `make studies`. With
``--only-finished`` it trains nothing and writes what there is.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.data_sets import data_folder
from bench.results import BEFORE, METRICS, REPEATS, SETS, pairs_decided, result_on, significance
from bench.study_runs import RUNS, StudyRun, run
from tautrank.experiments.result import Cell
from tautrank.experiments.store import Store
from tautrank.files import write_whole
from tautrank.papers.catalogue import CATALOGUE, find_study
from tautrank.papers.claims import Claim
from tautrank.papers.results import StudyResult, collect
from tautrank.papers.store import StudyStore
from tautrank.papers.study import Study
from tautrank.significance.paired import holm
from tautrank.significance.systems import combined_test
from tautrank.significance.verdicts import FAILS, HOLDS, UNDECIDED, TestOutcome, verdict_of
from tautrank.tables import difference_text, p_text

_SAID = {HOLDS: "holds", FAILS: "**fails**", UNDECIDED: "undecided"}
# What version 0.1.0 decided on at least one data set: main claims, and all comparisons.
_MAIN_BEFORE, _ALL_BEFORE = (6, 19), (48, 120)

_HEAD = """\
# The papers' claims: their tables and figures, repeated

Written by `make studies`: every study of `tautrank study list`. Each study and data set has its own page in `studies/`,
with all numbers and the command (the links of the data sets). [studies.md](../studies.md) explains how claims are
tested.

- **in print** is the paper's own difference on each of its data sets if it prints numbers; *figure* if it only draws
  them; *proof* if it proves them.
- **found** is the mean of the quantity that should be positive according to the claim, with its confidence interval
  (95 %; 99 % for the studies of XE-NDCG, which test at the level of its paper, .01).
- *holds*: significant in the claimed direction; *fails*: significant in the other direction; *undecided*: neither. p is
  Holm-adjusted over all comparisons of the study. **could be found** is the smallest true difference that a test of one
  comparison finds with a probability of 80 %: an undecided claim may still be true by less than that.
- Where the paper trains on published parts, every fold of MQ2007 and MQ2008 is taken in turn, five trainings each, and
  the folds are put together. *all together* combines the data sets, weighted by how sure each is
  (`combined_test`).
- The papers' data (WEB30K, Yahoo!) may not be redistributed; MQ2007 (1,692 queries; 85 % of its documents) and MQ2008
  (784) are smaller.
- At 0 %, both studies of XE-NDCG's Figure 3 repeat the main claim of its Table 1, with the same trainings. Their own
  claim, that the lead grows, is their last comparison.
- Cut for lack of time: figures are run at the two ends of their axis, which the claims compare; the StochasticRank
  tables with the paper's parameters as they are, instead of 500 configurations.
"""


def comparisons(study: Study) -> Iterator[tuple[Claim, tuple[Cell, ...]]]:
    """What the claims compare, in the order of a result's verdicts."""
    for claim in study.claims:
        for cells in claim.cells(study.condition_names):
            yield claim, cells


def together(parts: Sequence[TestOutcome], level: float) -> TestOutcome:
    """One outcome from those of folds or data sets; Holm's correction is left to `adjusted`."""
    sure = [part for part in parts if part.standard_error > 0 and part.degrees > 0]
    if len(parts) == 1 or not sure:
        return parts[0]
    one = combined_test(
        *np.array([(p.difference, p.standard_error, p.degrees) for p in sure]).T, level=level
    )
    return replace(
        parts[0],
        difference=one.difference,
        standard_error=one.standard_error,
        degrees=one.degrees,
        p_value=one.p_value,
        low=one.low,
        high=one.high,
        detectable=one.detectable,
    )


def adjusted(judged: Sequence[TestOutcome], level: float) -> list[TestOutcome]:
    """The outcomes of all comparisons of a study, Holm-adjusted, and their verdicts."""
    known = [i for i, one in enumerate(judged) if not math.isnan(one.p_value)]
    corrected = (
        dict(zip(known, holm([judged[i].p_value for i in known]).tolist(), strict=True))
        if known
        else {}
    )
    return [
        replace(one, adjusted=p, verdict=verdict_of(p, one.difference, level))
        for i, one in enumerate(judged)
        for p in [corrected.get(i, math.nan)]
    ]


def decided(study: Study, by_part: Sequence[Sequence[TestOutcome]]) -> list[TestOutcome]:
    """The comparisons of a study over folds or data sets: for each part one outcome per
    comparison.
    """
    return adjusted(
        [together(parts, study.test.level) for parts in zip(*by_part, strict=True)],
        study.test.level,
    )


def results_of(one: StudyRun) -> list[StudyResult]:
    """What the store holds of a run, one result per fold; folds without a finished trial are left
    out.
    """
    found = []
    with Store(one.store, kind="study trials") as store:
        finished = list(store.finished())
    for plan in one.plans():
        keys = {trial.key for trial in plan.trials()}
        with StudyStore(None, plan) as memory:
            for trial, outcome in finished:
                if trial.key in keys:
                    memory.record(trial, outcome)
            result = collect(memory)
        if result.verdicts and result.verdicts[0].trials:
            found.append(result)
    return found


def in_print(study: Study, claim: Claim, cells: tuple[Cell, ...]) -> str:
    """The paper's own advantage, by data set."""
    found = []
    for recipe in study.recipes:
        printed = {(p.condition, p.system, p.metric, p.part): p.value for p in recipe.printed}
        if not claim.of_curves and all((*cell, claim.part) in printed for cell in cells):
            value = claim.advantage(
                lambda cell, p=printed: np.array([p[(*cell, claim.part)]]), cells
            )
            found.append(f"{recipe.title} {difference_text(float(value[0]))}")
    if found:
        return ", ".join(found)
    return (
        "proof"
        if study.measures_only and "Theorem" in study.paper
        else "figure"
        if "Figure" in study.paper
        else "-"
    )


def counted(verdicts: Sequence[str]) -> str:
    """'holds' or, of several, how many do."""
    if len(verdicts) == 1:
        return _SAID[verdicts[0]]
    counts = Counter(verdicts)
    several = {
        HOLDS: "hold" if counts[HOLDS] > 1 else "holds",
        FAILS: "**fail**" if counts[FAILS] > 1 else "**fails**",
    }
    said = ", ".join(f"{counts[v]} {several.get(v, v)}" for v in _SAID if counts[v])
    return f"of {len(verdicts)}: {said}"


def numbers(judged: TestOutcome) -> list[str]:
    """The cells of a row: found, its interval, verdict, p, and what could be found."""
    interval = f"{difference_text(judged.low)} to {difference_text(judged.high)}"
    found = difference_text(judged.difference)
    known = judged.standard_error > 0
    return [
        f"{found} ({interval})" if known else found,
        _SAID[judged.verdict],
        p_text(judged.adjusted),
        f"{judged.detectable:.4f}".lstrip("0") if known else "-",
    ]


class Page:
    """All results of a study, by run, and over the data sets.

    Args:
        study: the study.
        runs: for each run one result per fold.
    """

    def __init__(self, study: Study, runs: dict[StudyRun, list[StudyResult]]) -> None:
        self.study, self.runs = study, runs
        self.by_run: dict[StudyRun, dict[str, TestOutcome]] = {}
        for one, results in runs.items():
            judged = decided(study, [[v.tested for v in result.verdicts] for result in results])
            self.by_run[one] = dict(
                zip([v.sentence for v in results[0].verdicts], judged, strict=True)
            )
        shared = [
            s for s in self.sentences if sum(s in judged for judged in self.by_run.values()) > 1
        ]
        parts = [
            together([j[s] for j in self.by_run.values() if s in j], study.test.level)
            for s in shared
        ]
        self.all_together = dict(zip(shared, adjusted(parts, study.test.level), strict=True))

    @property
    def sentences(self) -> list[str]:
        """The comparisons, in the order of the study."""
        order = [claim.sentence(cells) for claim, cells in comparisons(self.study)]
        known = {sentence for judged in self.by_run.values() for sentence in judged}
        return [sentence for sentence in order if sentence in known]

    def rows(self, sentence: str) -> Iterator[tuple[str, TestOutcome]]:
        """The outcome of a comparison on each data set, then on all together."""
        for one, judged in self.by_run.items():
            if sentence in judged:
                yield f"[{one.where}](studies/{one.name}.md)", judged[sentence]
        if sentence in self.all_together:
            yield "all together", self.all_together[sentence]

    def is_decided(self, sentence: str) -> bool:
        """Whether a comparison is decided on at least one data set."""
        return any(judged.verdict != UNDECIDED for _, judged in self.rows(sentence))

    def printed(self, sentence: str) -> str:
        """The paper's own number for a comparison."""
        claim, cells = next(
            pair for pair in comparisons(self.study) if pair[0].sentence(pair[1]) == sentence
        )
        return in_print(self.study, claim, cells)


def overview(pages: Sequence[Page]) -> list[str]:
    """How many pairs of systems and how many claims are decided, before and after."""
    lines = ["## Decided, before and after", "", "| | version 0.1.0 | now |", "|---|---|---|"]
    for name in SETS:
        result = result_on(name, REPEATS, True)
        if result is not None:
            before = "{} of {}".format(*BEFORE[name]) if name in BEFORE else "not run"
            now = "{} of {}".format(*pairs_decided(significance(result, METRICS[0])))
            lines.append(
                f"| pairs of losses and tools that differ on {name} ([all](losses.md)) | {before} | {now} |"
            )
    sentences = [(page, sentence) for page in pages for sentence in page.sentences]
    main = sum(page.is_decided(page.sentences[0]) for page in pages)
    of_all = sum(page.is_decided(sentence) for page, sentence in sentences)
    whole = sum(
        (page.all_together.get(s) or next(iter(page.by_run.values()))[s]).verdict != UNDECIDED
        for page, s in sentences
    )
    lines += [
        "| main claims of the studies decided on at least one data set | {} of {} | {} of {} |".format(
            *_MAIN_BEFORE, main, len(pages)
        ),
        "| all comparisons of the studies decided on at least one data set | {} of {} | {} of {} |".format(
            *_ALL_BEFORE, of_all, len(sentences)
        ),
        f"| all comparisons of the studies decided over all data sets together | - | {whole} of {len(sentences)} |",
        "",
    ]
    left = [study for study in CATALOGUE if study not in {page.study.name for page in pages}]
    return [*lines, *([f"Not finished yet: {', '.join(left)}.", ""] if left else [])]


def summary(pages: Sequence[Page]) -> list[str]:
    """A row per study and data set: its first comparison, and what becomes of all of them."""
    lines = [
        "## Summary",
        "",
        "The numbers are of each study's first comparison, its main claim; 'all' counts the verdicts of all of them.",
        "",
        "| study | main claim | in print | our data | found | verdict | p | could be found | all |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for page in pages:
        main = page.sentences[0]
        everywhere = [*page.by_run.values(), page.all_together]
        for (where, judged), verdicts in zip(page.rows(main), everywhere, strict=False):
            start = [f"[{page.study.name}](#{page.study.name})", main, page.printed(main), where]
            rest = [*numbers(judged), counted([v.verdict for v in verdicts.values()])]
            lines.append(f"| {' | '.join([*start, *rest])} |")
    return [*lines, ""]


def section(page: Page) -> list[str]:
    """All comparisons of a study, on every data set it was run on."""
    study = page.study
    lines = [f"### {study.name}", "", f"{study.paper}. {study.claim}.", ""]
    lines += [
        "| comparison | in print | our data | found | verdict | p | could be found |",
        "|---|---|---|---|---|---|---|",
    ]
    for sentence in page.sentences:
        for where, judged in page.rows(sentence):
            lines.append(
                f"| {' | '.join([sentence, page.printed(sentence), where, *numbers(judged)])} |"
            )
    return [*lines, ""]


def run_page(one: StudyRun, page: Page) -> str:
    """The page of one run, with the command that makes it."""
    results = page.runs[one]
    trials = [result.verdicts[0].trials for result in results]
    seconds = sum(
        itertools.chain.from_iterable(s for result in results for s in result.seconds.values())
    )
    used = (
        f"All trials, one after the other, took {math.ceil(seconds / 60):,} minutes."
        if seconds >= 60
        else ""
    )
    if len(results) == 1:
        text = results[0].to_markdown().replace(f"{data_folder().resolve()}/", "")
        text = text.replace("# ", f"# {one.study}{f', {one.where}' if one.data else ''}: ", 1)
    else:
        lines = [f"# {one.study}, {one.where}: {page.study.title}", "", f"{page.study.paper}.", ""]
        each = (
            f"{trials[0]} trials each"
            if len(set(trials)) == 1
            else f"{', '.join(map(str, trials))} trials"
        )
        lines += [f"{len(results)} folds with {each}."]
        if one.conditions:
            lines[-1] += f" Of the study's conditions only {' and '.join(one.conditions)} were run."
        lines += [
            "",
            "| comparison | found | verdict | p | could be found | by fold |",
            "|---|---|---|---|---|---|",
        ]
        for i, (sentence, judged) in enumerate(page.by_run[one].items()):
            folds = ", ".join(
                difference_text(result.verdicts[i].tested.difference) for result in results
            )
            lines.append(f"| {' | '.join([sentence, *numbers(judged), folds])} |")
        lines += [
            "",
            "Means over folds and trials:",
            "",
            "| condition | system | metric | queries | mean | in print |",
        ]
        lines.append("|---|---|---|---|---|---|")
        for cells in zip(*(result.cells for result in results), strict=True):
            first = cells[0]
            printed = "-" if first.printed is None else f"{first.printed:.4f}"
            mean = f"{float(np.mean([cell.mean for cell in cells])):.4f}"
            lines.append(
                f"| {first.condition} | {first.system} | {first.metric} | {first.part} | {mean} | {printed} |"
            )
        text = "\n".join([*lines, "", page.study.note, ""])
    used = f"And the same with the other folds. {used}" if len(one.folds) > 1 else used
    return f"{text}\n```\n{one.command}\n```\n\n{used}\n".replace("\n\n\n", "\n\n").rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.study_results", description=__doc__)
    parser.add_argument(
        "--write",
        type=Path,
        required=True,
        help="the page to write; those of the studies go to a folder next to it",
    )
    parser.add_argument(
        "--only-finished", action="store_true", help="run nothing; leave out what is not there"
    )
    arguments = parser.parse_args()
    runs: dict[str, dict[StudyRun, list[StudyResult]]] = {name: {} for name in CATALOGUE}
    for one in RUNS:
        if not arguments.only_finished:
            run(one)
        if one.store.is_file() and (results := results_of(one)):
            runs[one.study][one] = results
    pages = [Page(find_study(name), found) for name, found in runs.items() if found]
    folder = arguments.write.parent / arguments.write.stem
    folder.mkdir(parents=True, exist_ok=True)
    lines = [_HEAD, *overview(pages), *summary(pages), "## All comparisons", ""]
    write_whole(
        arguments.write, "\n".join([*lines, *itertools.chain.from_iterable(map(section, pages))])
    )
    kept = {one.name for page in pages for one in page.runs}
    for file in folder.glob("*.md"):
        if file.stem not in kept:
            file.unlink()
    for page in pages:
        for one in page.runs:
            write_whole(folder / f"{one.name}.md", run_page(one, page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
