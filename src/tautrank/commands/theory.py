"""The commands `tautrank theory ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer

import tautrank as tr
from tautrank.commands import options
from tautrank.commands.options import argument, flag, option
from tautrank.commands.output import OUT, print_json, reading_bar, say
from tautrank.data.arrays import offsets_from_sizes
from tautrank.errors import OptionError

theory_app = typer.Typer(
    help="Check what the papers prove, on your data and your losses.", no_args_is_help=True, rich_markup_mode=None
)


@theory_app.command("check")
@options.takes_groups
def theory_check(
    *,
    data: Path | None = argument("Labelled data, or the folder of a data set; default synthetic lists.", None),
    loss: list[str] | None = option(
        "Losses, separated by commas; may be repeated. Default every loss.", None, "--loss", "-l"
    ),
    scores: Path | None = option("Scores to check at, one per line; default random scores."),
    imported: list[str] | None = options.IMPORTED,
    checks: list[str] | None = option("Checks, separated by commas; default all.", None, "--checks", "-c"),
    queries: int = option("Maximum number of queries to check, spread over the data.", 1000),
    strict: bool = flag("Exit with code 1 if a check fails, for continuous integration.", "--strict"),
    reasons: bool = flag("Also list the checks that do not apply, and why.", "--reasons"),
    fold: int = option("Fold to read from a folder; all of its parts are used.", 1),
    seed: int = options.SEED,
    reading: options.Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Check a loss, yours included: laws that every loss obeys, measurements on the data, the papers' theorems.

    Laws are checked on synthetic lists, some of them on the data as well.
    A check that fails is a result, not an error: the exit code is 0, or 1 with --strict.
    With --import and no --loss, the losses that were registered are checked.
    Their code is run: import only what you trust.

    Example: tautrank theory check train.txt --loss 'lambdarank(k=none)'

    Example: tautrank theory check --import my_loss.py
    """
    own = options.import_losses(imported)
    names = options.names_of(loss, "--loss")
    if imported and not own and not names:
        raise OptionError(f"--import: found no loss registered by {', '.join(imported)}; expected one with @register")
    chosen = [tr.loss(name) for name in names or own] or None  # refuse a wrong name before reading the data
    wanted = options.names_of(checks, "--checks") or None
    if scores is not None:
        if data is None or data.is_dir():
            raise OptionError(f"--scores: found with {data or 'no data'}; expected the file of data they belong to")
        judged = reading.scored(scores, data)
        labels, offsets, given = judged.labels, judged.offsets, judged.scores
    else:
        synthetic = tr.simulate.simulate_web_search(200, n_features=16, mean_length=20, seed=seed)
        parts = [synthetic] if data is None else list(reading.parts(data, fold).values())
        labels, given = np.concatenate([part.labels for part in parts]), None
        offsets = offsets_from_sizes(np.concatenate([part.sizes for part in parts]))
    with reading_bar("checking") as report:
        how: dict[str, Any] = {"progress": lambda done, total, what: report(done / max(total, 1))}
        how |= {"scores": given, "names": wanted, "queries": queries, "seed": seed}
        reports = tr.checks.check_losses(chosen, labels, offsets, **how)
    count, source = len(offsets) - 1, str(data or "synthetic lists")
    if as_json:
        found = {"data": source, "queries": count, "looked_at": min(count, queries)}
        print_json({**found, "losses": {str(each.loss): each.to_dict() for each in reports}})
    else:
        kept = "" if count <= queries else f", {queries:,} of them checked"
        from tautrank.report.theory import check_table

        say(f"{source}: {count:,} queries{kept}")
        for each in reports:
            say(f"\n{each.summary}")
            OUT.print(check_table(each, reasons))
    if strict and not all(each.holds for each in reports):
        raise typer.Exit(1)
