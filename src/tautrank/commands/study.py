"""The command group `tautrank study`: list, run, resume, status, report."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from tautrank.arguments import job_count
from tautrank.commands.options import (
    AS_JSON,
    IMPORTED,
    SEED,
    argument,
    flag,
    group,
    option,
    register_own_losses,
)
from tautrank.commands.output import OUT, json_text, print_json, say, show, show_trainings
from tautrank.errors import TautrankError, unknown
from tautrank.experiments.data_source import DataSource, read_source
from tautrank.experiments.plan import Budget
from tautrank.experiments.store import owner_of
from tautrank.experiments.workers import choose_workers
from tautrank.files import write_whole
from tautrank.papers.catalogue import CATALOGUE, find_study
from tautrank.papers.plan import make_plan
from tautrank.papers.results import collect
from tautrank.papers.store import StudyStore
from tautrank.papers.study import Study

study_app = group(
    "Repeat the papers' tables and figures on your data. Stop, resume, distribute over a cluster."
)

# The method of a study's result that writes each kind of file.
_METHOD_BY_ENDING = {
    ".html": "to_html",
    ".md": "to_markdown",
    ".tex": "to_latex",
    ".csv": "to_csv",
    ".json": "to_dict",
}
_MOST_FAILURES = 5  # on the terminal; a report lists all of them

_STORE = argument("Store of a study.", shown="STORE")
_DATA = option(
    "Folder, file, or simulated:mslr:200 (200 queries like MSLR); "
    "three times for train, valid, test."
)
_FOLD = option("The only fold (or set) to use from a folder.")
_WORKERS = option("Number of processes that train in parallel; default one per core.")
_DASK = option(
    "Run on Dask: address or file of a scheduler, "
    "or 'local' for --workers processes on this machine.",
    "",
)


@study_app.command("list")
def list_studies(as_json: bool = AS_JSON) -> None:
    """List the studies.

    Example: tautrank study list
    """
    studies = CATALOGUE.values()
    if as_json:
        descriptions = []
        for study in studies:
            description = {
                "name": study.name,
                "title": study.title,
                "paper": study.paper,
                "claim": study.claim,
            }
            descriptions.append(description)
        print_json(descriptions)
        return
    for paper, table in _tables_by_paper(list(studies)).items():
        say(paper, style="bold")
        OUT.print(table, "")


def _tables_by_paper(studies: Sequence[Study]) -> dict[str, Table]:
    """Return one table per paper, by the paper's name, with a row per study: its name, and where it
    stands in the paper, its title and its size.
    """
    longest_name = max(len(study.name) for study in studies)
    tables: dict[str, Table] = {}
    for study in studies:
        # 'Author, Title, 2020, Table 1' is cut after the year. The second part may be missing.
        paper, *where_in_paper = re.split(r"(?<=\b\d{4}), ", study.paper, maxsplit=1)
        if paper not in tables:
            # A table of the library Rich, which prints it on a terminal.
            tables[paper] = Table(box=None, pad_edge=False, show_header=False)
            tables[paper].add_column(min_width=longest_name, no_wrap=True)
            tables[paper].add_column(overflow="fold")
        # A condition is what a study varies besides the systems it compares, such as the data.
        n_runs = study.repeats * len(study.conditions) * len(study.systems)
        kind = "measurements" if study.measures_only else "trainings"
        title = ": ".join([*where_in_paper, study.title])
        tables[paper].add_row(study.name, f"{title} ({n_runs:,} {kind})")
    return tables


@study_app.command("run")
def run(
    name: str = argument("Name of a study; see 'tautrank study list'.", shown="NAME"),
    data: list[str] | None = _DATA,
    store: Path | None = option("File that stores finished trials; default NAME.db."),
    repeats: int | None = option("Number of repetitions; default the paper's."),
    configs: int | None = option(
        "Number of configurations to choose from on validation data; 0 for no tuning."
    ),
    trees: int | None = option("Maximum number of trees; default the paper's."),
    workers: int | None = _WORKERS,
    dask: str = _DASK,
    fold: int | None = _FOLD,
    recipe: str = option(
        "Data set whose parameters to use; default the one the data resembles.", ""
    ),
    seed: int = SEED,
    jobs: int = option("Number of threads per training.", 1, "--jobs", "-j"),
    as_json: bool = AS_JSON,
) -> None:
    """Run a study, or continue it. Every finished training is stored at once.

    Example: tautrank study run xe-table1 --data MSLR-WEB30K

    Example: tautrank study run xe-table1 --data simulated:mslr:200 --repeats 5 --trees 50
    """
    study = find_study(name)
    budget = Budget(repeats, configs, trees)
    plan = make_plan(
        study, data or "", budget=budget, fold=fold, recipe=recipe, seed=seed, n_jobs=jobs
    )
    path = store or Path(f"{name}.db")
    with StudyStore(path, plan, shlex.join(["tautrank", *sys.argv[1:]])) as opened:
        _run(opened, workers, dask, as_json)


@study_app.command("resume")
def resume(
    store: Path = _STORE,
    workers: int | None = _WORKERS,
    dask: str = _DASK,
    data: list[str] | None = _DATA,
    fold: int | None = _FOLD,
    retry_failed: bool = flag("Also run failed trials again.", "--retry-failed"),
    imported: list[str] | None = IMPORTED,
    as_json: bool = AS_JSON,
) -> None:
    """Continue a study where it stopped. The result is the same as without the stop.

    Example: tautrank study resume xe-table1.db
    """
    moved = read_source(data, fold) if data else None
    with _open(store, imported, moved) as opened:
        _run(opened, workers, dask, as_json, retry_failed=retry_failed)


@study_app.command("status")
def status(
    store: Path = _STORE, imported: list[str] | None = IMPORTED, as_json: bool = AS_JSON
) -> None:
    """Show the progress of a study, even while it runs.

    Example: tautrank study status xe-table1.db
    """
    with _open(store, imported) as opened:
        counts = opened.counts()
        meta = opened.meta
        failures = opened.failures()
        running = owner_of(store)  # the process that runs it; empty if none does
    waiting = counts["planned"] - counts["done"] - counts["failed"]
    if as_json:
        description: dict[str, Any] = {
            **counts,
            "waiting": waiting,
            "running": running or None,
        }
        for name in ("study", "data", "data_fingerprint", "tautrank", "command", "created"):
            description[name] = meta[name]
        print_json(description)
        return
    say(f"{meta['study']} on {meta['data']}")
    say(
        f"{counts['done']:,} of {counts['planned']:,} trainings are done, "
        f"{counts['failed']} failed, {waiting:,} waiting"
    )
    say(f"running: {running}" if running else "not running")
    _print_failures(failures)
    if waiting and not running:
        say(f"Continue with: tautrank study resume {shlex.quote(str(store))}")


@study_app.command("report")
def report(
    store: Path = _STORE,
    output: Path | None = option(
        "File to write: .html, .md, .tex, .csv or .json.", None, "--output", "-o"
    ),
    imported: list[str] | None = IMPORTED,
    as_json: bool = AS_JSON,
) -> None:
    """Show the results of a study next to the paper's own numbers. This also works while the study
    runs.

    Example: tautrank study report xe-table1.db -o report.html

    Example: tautrank study report xe-table1.db -o table1.tex
    """
    if output is not None and output.suffix.lower() not in _METHOD_BY_ENDING:
        raise unknown("ending of --output", output.suffix or output.name, _METHOD_BY_ENDING)
    with _open(store, imported) as opened:
        if output is None:
            _show(opened, as_json)
            return
        method_name = _METHOD_BY_ENDING[output.suffix.lower()]
        write_result = getattr(collect(opened), method_name)
        content = write_result()
        text = content if isinstance(content, str) else json_text(content)
        write_whole(output, text)
    say(f"{output}: written")


def _open(store: Path, imported: list[str] | None, data: DataSource | None = None) -> StudyStore:
    """Open the store of a study that exists, after importing the user's own losses.

    Args:
        store: file of the store.
        imported: Python files and modules that register losses.
        data: where the data is now, if it has been moved.
    """
    register_own_losses(imported)
    return StudyStore(store, data=data)


def _run(
    store: StudyStore, workers: int | None, dask: str, as_json: bool, *, retry_failed: bool = False
) -> None:
    """Run all trainings of a study that are not finished, and print the results.

    Args:
        store: the open store, which keeps every finished training.
        workers: number of processes; None for one per core.
        dask: address of a Dask scheduler; empty for processes of this machine.
        as_json: whether the results are printed as JSON.
        retry_failed: whether failed trainings are run again.
    """
    command = f"tautrank study resume {shlex.quote(str(store.path))}"
    # One process per core unless the user has said how many.
    n_workers = job_count(None) if workers is None else workers
    with show_trainings(hint=f"; continue with: {command}") as progress:
        try:
            store.run(choose_workers(n_workers, dask), progress, retry_failed=retry_failed)
        except TautrankError as error:
            if not progress.done:  # nothing is finished that could be kept
                raise
            # The same kind of error, with a hint at the end of its sentence.
            sentence = f"{error} (finished trials are kept; continue with: {command})"
            raise type(error)(sentence) from None
    _show(store, as_json)


def _show(store: StudyStore, as_json: bool) -> None:
    """Print the results of a study from its store, the file that keeps finished trainings: facts,
    tables and failures, or all of it as JSON.
    """
    result = collect(store)
    if as_json:
        print_json(result.to_dict())
        return
    say(result.plan.study.title, style="bold")
    for title, fact in result.facts().items():
        say(f"{title}: {fact}")
    show(result, result.note())
    _print_failures([f"{failure.title}: {failure.error}" for failure in result.failures])
    say(f"All trainings: {store.path}")


def _print_failures(failures: list[str]) -> None:
    """Print the first failed trainings, and how many more there are."""
    for failure in failures[:_MOST_FAILURES]:
        say(f"failed: {failure}")
    if len(failures) > _MOST_FAILURES:
        say(f"... and {len(failures) - _MOST_FAILURES} more that failed")
