"""What the pages of results share: options, progress, the comparison of systems, and differences in words."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tautrank as tr
from bench.data_sets import KEPT
from tautrank.arguments import job_count
from tautrank.commands.output import trainings_bar
from tautrank.data import Splits
from tautrank.experiments.compare import compare_splits, comparison
from tautrank.experiments.result import Comparison
from tautrank.files import write_whole

TREES, EARLY_STOPPING = 150, 30
Lines = Iterator[str]
Part = Callable[[argparse.Namespace], Lines]
T = TypeVar("T")


def write_page(program: str, title: str, parts: Mapping[str, Part], *, tune: int, repeats: int) -> int:
    """Parse the command line, run the requested parts, print their lines, and write them to a page."""
    parser = argparse.ArgumentParser(prog=program, description=title)
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(parts)} (default: all)")
    parser.add_argument("--tune", type=int, default=tune)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--write", type=Path, help="write the page here")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.parts) - set(parts)):
        parser.error(f"unknown part '{unknown[0]}'; expected some of: {', '.join(parts)}")
    lines = [
        f"# {title}",
        "",
        f"Written by `python -m {program} --tune {arguments.tune} --repeats {arguments.repeats}` (`make results`).",
        "",
    ]
    for part in arguments.parts or parts:
        for line in parts[part](arguments):
            print(line, flush=True)
            lines.append(line)
    if arguments.write:
        write_whole(arguments.write, "\n".join(lines))
    return 0


def watched(items: Sequence[T], title: str) -> Iterator[T]:
    """Iterate over the items with a progress bar."""
    with trainings_bar() as report:
        for done, item in enumerate(items):
            report(done, len(items), title)
            yield item


def compared(
    title: str,
    folds: Callable[[], list[Splits]],
    systems: Sequence[Any],
    metrics: Sequence[str],
    arguments: argparse.Namespace,
) -> Comparison:
    """Compare systems on the folds of a data set, tuned and repeated; trainings are kept in .bench."""
    parameters = {"n_estimators": TREES, "early_stopping_rounds": EARLY_STOPPING}
    declared = comparison(systems, metrics, repeats=arguments.repeats, tune=arguments.tune, parameters=parameters)
    with trainings_bar() as report:
        return compare_splits(
            declared,
            folds(),
            store=KEPT / "results.db",
            progress=lambda done, total, what: report(done, total, f"{title} {what}"),
            workers=job_count(None),
        )


def protocol(arguments: argparse.Namespace, first: str) -> str:
    """Describe how `compared` compares."""
    return (
        f"Five folds, {arguments.repeats} repeats; each training is the best of {arguments.tune} random configurations "
        f"(the same for all systems) by validation {first}, at most {TREES} trees, stopped after {EARLY_STOPPING}. "
        "Intervals and p-values of steps: test over queries and repeats, of one comparison. A t-test over the queries "
        "alone ignores the variation between trainings; it is shown for comparison with the papers."
    )


def steps(result: Comparison, pairs: Sequence[tuple[int, int]]) -> Lines:
    """Describe differences between systems on the first metric, by this library's test and by the papers'."""
    m = result.metrics[0]
    found = result.test(m)
    assert found is not None
    for i, j in pairs:
        later, before = (result.systems[system].values[str(m)].mean(axis=0) for system in (j, i))
        one_tailed = tr.paired_t_test(later, before, alternative="greater").p_value
        yield (
            f"- {result.systems[j].name} minus {result.systems[i].name}: {found.differences[j, i]:+.4f} "
            f"[{found.low[j, i]:+.4f}, {found.high[j, i]:+.4f}], p = {found.p_values[j, i]:.2g}; the paper's "
            f"one-tailed t-test over queries: p = {one_tailed:.2g}"
        )
    yield ""
