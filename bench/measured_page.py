"""What the pages of results share: options, progress, the comparison of systems, and differences in
words.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tautrank as tr
from bench.data_sets import KEPT
from tautrank.arguments import job_count
from tautrank.commands.output import show_trainings
from tautrank.data import Splits
from tautrank.experiments.compare import compare_splits, comparison
from tautrank.experiments.data_source import MEMORY, DataSource
from tautrank.experiments.plan import Experiment, Plan
from tautrank.experiments.result import Comparison
from tautrank.experiments.store import Store
from tautrank.experiments.workers import unfinished
from tautrank.files import write_whole

TREES, EARLY_STOPPING = 150, 30
Lines = Iterator[str]
Part = Callable[[argparse.Namespace], Lines]
T = TypeVar("T")


def write_page(
    program: str, title: str, parts: Mapping[str, Part], *, repeats: int, tune: int | None = None
) -> int:
    """Parse the command line, run the requested parts, print their lines, and write them to a page.

    Args:
        program: the module that is run.
        title: the title of the page.
        parts: what makes the lines of each part.
        repeats: the default number of repeats.
        tune: the default number of configurations; None if every part has its own.
    """
    parser = argparse.ArgumentParser(prog=program, description=title)
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(parts)} (default: all)")
    if tune is not None:
        parser.add_argument("--tune", type=int, default=tune)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument(
        "--only-finished", action="store_true", help="train nothing; leave out what is not there"
    )
    parser.add_argument("--write", type=Path, help="write the page here")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.parts) - set(parts)):
        parser.error(f"unknown part '{unknown[0]}'; expected some of: {', '.join(parts)}")
    budget = f" --tune {arguments.tune}" if tune is not None else ""
    kept = " --only-finished" if arguments.only_finished else ""
    command = f"python -m {program}{budget} --repeats {arguments.repeats}{kept}"
    lines = [f"# {title}", "", f"Written by `{command}` (`make results`).", ""]
    for part in arguments.parts or parts:
        for line in parts[part](arguments):
            print(line, flush=True)
            lines.append(line)
    if arguments.write:
        write_whole(arguments.write, "\n".join(lines))
    return 0


def watched(items: Sequence[T], title: str) -> Iterator[T]:
    """Iterate over the items with a progress bar."""
    with show_trainings() as progress:
        for done, item in enumerate(items):
            progress.update(done, len(items), title)
            yield item


def compared(
    title: str,
    folds: Callable[[], list[Splits]],
    systems: Sequence[Any],
    metrics: Sequence[str],
    arguments: argparse.Namespace,
    **parameters: Any,
) -> Comparison:
    """Compare systems on the folds of a data set, tuned and repeated; trainings are kept in a file
    per title.
    """
    declared = _declared(systems, metrics, arguments, parameters)
    KEPT.mkdir(parents=True, exist_ok=True)
    with show_trainings(title) as progress:
        return compare_splits(
            declared,
            folds(),
            store=store_of(title),
            progress=progress,
            workers=job_count(None),
            pairs="all",
        )


def finished_systems(
    title: str,
    splits: Sequence[Splits],
    systems: Sequence[Any],
    metrics: Sequence[str],
    arguments: argparse.Namespace,
    **parameters: Any,
) -> tuple[Any, ...]:
    """The systems of a comparison whose trainings are all kept."""
    declared = _declared(systems, metrics, arguments, parameters)
    source = DataSource((MEMORY,), held=tuple(splits))
    plan = Plan.of(declared, source)
    with Store(store_of(title), kind="comparison") as store:
        missing = {trial.spec["system"] for trial in unfinished(plan, store)}
    return tuple(
        s for s, name in zip(systems, declared.system_names, strict=True) if name not in missing
    )


def _declared(
    systems: Sequence[Any],
    metrics: Sequence[str],
    arguments: argparse.Namespace,
    parameters: Mapping[str, Any],
) -> Experiment:
    parameters = {"n_estimators": TREES, "early_stopping_rounds": EARLY_STOPPING, **parameters}
    return comparison(
        systems, metrics, repeats=arguments.repeats, tune=arguments.tune, parameters=parameters
    )


def store_of(title: str) -> Path:
    """The file that keeps the trainings of a comparison."""
    return KEPT / f"{title.replace(',', '').replace(' ', '-')}.db"


def protocol(arguments: argparse.Namespace, first: str) -> str:
    """Describe how `compared` compares."""
    return (
        f"Five folds, {arguments.repeats} repeats; each training is the best of {arguments.tune} random configurations "
        f"(the same for all systems) by validation {first}, at most {TREES} trees, stopped after {EARLY_STOPPING}. "
        "p-values: test over queries and repeats, before and after Holm's correction over all pairs. A t-test over the "
        "queries alone ignores the variation between trainings; it is shown for comparison with the papers."
    )


def steps(result: Comparison, pairs: Sequence[tuple[int, int]]) -> Lines:
    """Describe differences between systems on the first metric, by this library's test and by the
    papers'.
    """
    m = result.metrics[0]
    test = result.test(m)
    assert test is not None
    for i, j in pairs:
        difference, low, high, p, adjusted = (
            float(values[j, i])
            for values in (test.differences, test.low, test.high, test.p_values, test.adjusted)
        )
        later, before = (result.systems[system].values[str(m)].mean(axis=0) for system in (j, i))
        one_tailed = tr.significance.paired_t_test(later, before, alternative="greater").p_value
        yield (
            f"- {result.systems[j].name} minus {result.systems[i].name}: {difference:+.4f} (95 % interval "
            f"{low:+.4f} to {high:+.4f}), p = {p:.2g} ({adjusted:.2g} after Holm); the paper's one-tailed t-test over "
            f"queries: p = {one_tailed:.2g}"
        )
    yield ""
