"""The command `tautrank theory check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

import tautrank as tr
from tautrank.arrays import Array
from tautrank.commands import options
from tautrank.commands.options import argument, flag, option, several
from tautrank.commands.output import OUT, print_json, say, show_reading
from tautrank.data import Lists
from tautrank.errors import OptionError
from tautrank.losses import Loss

theory_app = options.group("Check what the papers prove, on your data and your losses.")


@theory_app.command("check")
@options.takes_groups
def theory_check(
    *,
    data: Path | None = argument(
        "Labelled data, or the folder of a data set; default synthetic lists.", None
    ),
    loss: list[str] | None = several("Losses; default every loss.", "--loss", "-l"),
    scores: Path | None = option("Scores to check at, one per line; default random scores."),
    imported: list[str] | None = options.IMPORTED,
    checks: list[str] | None = several("Checks; default all.", "--checks", "-c"),
    queries: int = option("Maximum number of queries to check, spread over the data.", 1000),
    strict: bool = flag(
        "Exit with code 1 if a law or a theorem is broken, for continuous integration.", "--strict"
    ),
    reasons: bool = flag("Also list the checks that do not apply, and why.", "--reasons"),
    fold: int = option("Fold to read from a folder; all of its parts are used.", 1),
    seed: int = options.SEED,
    reader: options.ReaderOptions,
    as_json: bool = options.AS_JSON,
) -> None:
    """Check a loss, also your own, against laws and theorems.

    A law holds or is broken; a theorem holds for the losses that it is about; a measurement is a
    number. Laws are checked on synthetic lists, some of them on the data as well. A broken law is a
    result, not an error: the exit code is 0, or 1 with --strict.
    With --import and no --loss, the losses that were registered are checked. Their code is run:
    import only what you trust.

    Example: tautrank theory check train.txt --loss 'lambdarank(k=none)'

    Example: tautrank theory check --import my_loss.py
    """
    losses = _losses_to_check(loss, imported)
    names = options.names_of(checks, "--checks") or None
    lists, scores_to_check = _lists_and_scores(data, scores, fold, seed, reader)
    with show_reading("checking") as progress:
        reports = tr.checks.check_losses(
            losses,
            lists,
            scores=scores_to_check,
            names=names,
            queries=queries,
            seed=seed,
            progress=progress,
        )
    source = str(data or "synthetic lists")
    n_queries = lists.n_queries
    if as_json:
        report_by_loss = {str(report.loss): report.to_dict() for report in reports}
        print_json(
            {
                "data": source,
                "queries": n_queries,
                "looked_at": min(n_queries, queries),
                "losses": report_by_loss,
            }
        )
    else:
        only = "" if n_queries <= queries else f", {queries:,} of them checked"
        say(f"{source}: {n_queries:,} queries{only}")
        _print_reports(reports, reasons)
    if strict and not all(report.holds for report in reports):
        raise typer.Exit(1)


def _losses_to_check(names: list[str] | None, imported: list[str] | None) -> list[Loss] | None:
    """Return the losses to check: those named by --loss, or else the user's own losses that
    --import registers; None, for all losses of the library, if neither option was given.

    Args:
        names: values of --loss.
        imported: values of --import.
    """
    # The user's files are run, and the names of the losses that they register returned.
    registered = options.register_own_losses(imported)
    to_check = options.names_of(names, "--loss") or registered
    if imported and not to_check:
        raise OptionError(
            f"--import: found no loss registered by {', '.join(imported)}; "
            "expected one with @register"
        )
    # An empty list, without either option, becomes None.
    return [tr.loss(name) for name in to_check] or None


def _lists_and_scores(
    data: Path | None, scores: Path | None, fold: int, seed: int, reader: options.ReaderOptions
) -> tuple[Lists, Array | None]:
    """Read labelled lists to check losses on, and the scores to check them at (None for random
    scores).

    Args:
        data: file or folder; None for synthetic lists.
        scores: file of scores; None for random ones.
        fold: the fold of a folder.
        seed: seed of synthetic lists.
        reader: how the data is read.
    """
    if scores is not None:
        if data is None or data.is_dir():
            raise OptionError(
                f"--scores: found with {data or 'no data'}; "
                "expected the file of data they belong to"
            )
        # The data with the scores of its documents.
        judged = reader.scored(scores, data)
        return judged.lists, judged.scores
    if data is None:
        # Lists as small as this make a check fast; features are not looked at.
        synthetic = tr.simulate.simulate_web_search(200, n_features=16, mean_length=20, seed=seed)
        parts = [synthetic]
    else:
        parts = list(reader.parts(data, fold).values())
    # All parts are put together: labels of all documents, and the number of them in each list.
    labels = np.concatenate([part.labels for part in parts])
    sizes = np.concatenate([part.sizes for part in parts])
    return Lists.of(labels, group=sizes), None


def _print_reports(reports: Sequence[Any], reasons: bool) -> None:
    """Print what was found for each loss.

    Args:
        reports: one report per loss.
        reasons: whether checks that do not apply are listed as well.
    """
    from tautrank.report.theory import check_table

    for report in reports:
        say(f"\n{report.summary}")
        OUT.print(check_table(report, reasons))
