"""Print a table of claims: what was measured, what was asked for, whether it holds. Exit code 1 if one does not.

`python -m bench reading metrics` runs only some parts; `--write FILE` also writes the tables as Markdown, a section a
part, and leaves the sections of other parts in the file as they are.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from bench import loss_speed, metric_speed, reading, smoothed_speed, start_up, study_size
from tautrank.arguments import job_count
from tautrank.atomic import atomic_write

PARTS = {
    "start": start_up.claims,
    "metrics": metric_speed.claims,
    "reading": reading.claims,
    "losses": loss_speed.claims,
    "smoothed": smoothed_speed.claims,
    "training": loss_speed.training_claims,
    "studies": study_size.claims,
}
HEADINGS = ("what", "measured", "asked for", "holds")
PEERS = ("tautrank", "numpy", "numba", "scikit-learn", "ranx", "lightgbm", "catboost")

Row = tuple[str, str, str, bool]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description="Speed and memory beside the peers.")
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(PARTS)} (default: all)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table as Markdown")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.parts) - set(PARTS)):
        parser.error(f"unknown part '{unknown[0]}'; expected some of: {', '.join(PARTS)}")

    console = Console()
    found: dict[str, list[Row]] = {}
    for name in arguments.parts or PARTS:
        console.print(f"measuring: {name} ...", style="dim")
        found[name] = list(PARTS[name](console))
    table = Table(*HEADINGS, box=box.SIMPLE_HEAD)
    rows = [row for part in found.values() for row in part]
    for what, measured, asked, holds in rows:
        table.add_row(what, measured, asked, "yes" if holds else "[bold red]NO[/bold red]")
    console.print(table)
    if arguments.write:
        kept = sections_of(arguments.write.read_text()) if arguments.write.exists() else {}
        page = as_markdown(kept | {name: section(part) for name, part in found.items()})
        with atomic_write(arguments.write) as file:
            file.write(page.encode())
    return 0 if all(row[3] for row in rows) else 1


def section(rows: list[Row]) -> str:
    """One part's table, with where and with what it was measured."""
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    lines = [
        f"One run on {job_count(None)} cores ({platform.machine()}) with Python {platform.python_version()},",
        f"{versions}.",
        "",
        f"| {' | '.join(HEADINGS)} |",
        "|---|---|---|---|",
        *(f"| {what} | {measured} | {asked} | {'yes' if holds else 'no'} |" for what, measured, asked, holds in rows),
    ]
    return "\n".join(lines)


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page by their headings."""
    pieces = re.split(r"^## (\S+)\n", page, flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(pieces[::2], pieces[1::2], strict=True)}


def as_markdown(sections: dict[str, str]) -> str:
    """A page of sections, in the order of the parts."""
    lines = [
        "# Speed beside the peers",
        "",
        "Measured by `make bench`, or one part by `python -m bench PART --write docs/results/speed.md`. Ratios are",
        "medians of interleaved rounds of one run; the machine was shared, so compare ratios, not seconds.",
        "",
    ]
    for name in PARTS:
        if name in sections:
            lines += [f"## {name}", "", sections[name], ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
