"""What every study shows, beside what its paper printed: docs/results/studies.md and a page a study and data set.

Runs what is missing first (`python -m bench.study_runs`); run with `make studies`.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.data_sets import data_folder
from bench.study_runs import RUNS, StudyRun, run
from tautrank.files import write_whole
from tautrank.papers.catalogue import CATALOGUE, find_study
from tautrank.papers.claims import Cell, Claim
from tautrank.papers.judging import AGREES, DOES_NOT, UNDECIDED
from tautrank.papers.results import StudyResult, Verdict, read_results
from tautrank.papers.study import Study
from tautrank.report.table import difference_text, p_text

_NAMES = {"mq2008": "MQ2008", "clueweb09": "ClueWeb09", "simulated": "simulated", "": "made up by the study"}
_SAID = {AGREES: "agrees", DOES_NOT: "**does not**", UNDECIDED: "not decidable"}

_HEAD = """\
# The papers' tables and figures, run again

Written by `make studies`: every study of `tautrank study list`, with what about two hours on two cores allow. A page a
study and data set, with all its numbers and its command, stands in `studies/` beside this one (the links of the data
sets); how claims are judged is in [studies.md](../studies.md).

- **in print** is the paper's own difference, by its data set, where it prints numbers; *figure* where it only draws
  them; *proof* where it proves.
- **found** is the mean of what the claim says should be positive. **p** and the verdict are of the corrected test,
  Holm-adjusted over all comparisons of the study; **p own** is of the paper's test, as it is. *agrees*: significant in
  the direction claimed; *does not*: significant in the other direction.
- MQ2008 (784 queries) and ClueWeb09 (61) are real, and small beside the papers' WEB30K and Yahoo!, which may not be
  passed on; *simulated* is 320 queries made up with WEB30K's list lengths, labels and number of features. A difference
  of .002 cannot be decided on hundreds of queries: most of *not decidable* is that.
"""


def comparisons(study: Study) -> Iterator[tuple[Claim, tuple[Cell, ...]]]:
    """What the claims compare, in the order of a result's verdicts."""
    for claim in study.claims:
        for cells in claim.cells(study.condition_names):
            yield claim, cells


def in_print(study: Study, claim: Claim, cells: tuple[Cell, ...]) -> str:
    """The paper's own advantage, by data set."""
    found = []
    for recipe in study.recipes:
        printed = {(p.condition, p.system, p.metric, p.part): p.value for p in recipe.printed}
        if not claim.of_curves and all((*cell, claim.part) in printed for cell in cells):
            value = claim.advantage(lambda cell, p=printed: np.array([p[(*cell, claim.part)]]), cells)
            found.append(f"{recipe.title} {difference_text(float(value[0]))}")
    if found:
        return ", ".join(found)
    return "proof" if study.measures_only and "Theorem" in study.paper else "figure" if "Figure" in study.paper else "-"


def where(one: StudyRun) -> str:
    """The data of a run, as a row names it."""
    return f"[{_NAMES[one.data.partition(':')[0]]}](studies/{one.name}.md)"


def counted(verdicts: list[str]) -> str:
    """'agrees' or, of several, how many do."""
    if len(verdicts) == 1:
        return _SAID[verdicts[0]]
    counts = Counter(verdicts)
    several = {**_SAID, **({AGREES: "agree"} if counts[AGREES] > 1 else {})}
    several |= {DOES_NOT: "**do not**"} if counts[DOES_NOT] > 1 else {}
    said = ", ".join(f"{counts[v]} {words}" for v, words in several.items() if counts[v])
    return f"of {len(verdicts)}: {said}"


def summary(results: dict[StudyRun, StudyResult]) -> list[str]:
    """A row a study and data set: its first comparison, and what becomes of all of them."""
    lines = [
        "## Summary",
        "",
        "The numbers are of each study's first comparison, its main claim; 'verdicts' counts all of them.",
        "",
        "| study | main claim | in print | our data | found | p | verdicts | p own | verdicts by the paper's test |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one, result in results.items():
        study = result.plan.study
        first = result.verdicts[0]
        claim, cells = next(comparisons(study))
        row = [f"[{study.name}](#{study.name})", first.sentence, in_print(study, claim, cells), where(one)]
        row += [difference_text(first.advantage), p_text(first.corrected.p_value)]
        row += [counted([v.corrected.verdict for v in result.verdicts]), p_text(first.own.p_value)]
        lines.append(f"| {' | '.join([*row, counted([v.own.verdict for v in result.verdicts])])} |")
    return [*lines, ""]


def section(study: Study, runs: dict[StudyRun, StudyResult]) -> list[str]:
    """All comparisons of a study, on every data set it was run on."""
    lines = [f"### {study.name}", "", f"{study.paper}. {study.claim}.", ""]
    lines += ["| comparison | in print | our data | found | verdict | p | p own |", "|---|---|---|---|---|---|---|"]
    for i, (claim, cells) in enumerate(comparisons(study)):
        for one, result in runs.items():
            verdict: Verdict = result.verdicts[i]
            row = [verdict.sentence, in_print(study, claim, cells), where(one), difference_text(verdict.advantage)]
            row += [_SAID[verdict.corrected.verdict], p_text(verdict.corrected.p_value), p_text(verdict.own.p_value)]
            lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def page(one: StudyRun, result: StudyResult) -> str:
    """The study's own page, with the command that made it; data is named as its folder is."""
    command = " ".join(one.words(one.data))
    seconds = sum(itertools.chain.from_iterable(result.seconds.values()))
    text = result.to_markdown().replace(f"{data_folder().resolve()}/", "")
    on = f", {_NAMES[one.data.partition(':')[0]]}" if one.data else ""
    text = text.replace("# ", f"# {one.study}{on}: ", 1)
    used = f"All trials, one after the other, would take {math.ceil(seconds / 60):,} minutes." if seconds >= 60 else ""
    return f"{text}\n```\n{command}\n```\n\n{used}\n".replace("\n\n\n", "\n\n").rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.study_results", description=__doc__)
    parser.add_argument("--write", type=Path, required=True, help="the page to write; those of the studies beside it")
    parser.add_argument("--only-finished", action="store_true", help="run nothing; leave out what is not there")
    arguments = parser.parse_args()
    results: dict[StudyRun, StudyResult] = {}
    for one in RUNS:
        if arguments.only_finished:
            if not one.store.is_file():
                continue
        elif code := run(one):
            return code
        results[one] = read_results(one.store)
    folder = arguments.write.parent / arguments.write.stem
    folder.mkdir(parents=True, exist_ok=True)
    order = list(CATALOGUE)
    results = dict(sorted(results.items(), key=lambda item: order.index(item[0].study)))
    lines = [_HEAD, *summary(results), "## All comparisons", ""]
    for name in dict.fromkeys(one.study for one in results):
        lines += section(find_study(name), {one: result for one, result in results.items() if one.study == name})
    write_whole(arguments.write, "\n".join(lines))
    for one, result in results.items():
        write_whole(folder / f"{one.name}.md", page(one, result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
