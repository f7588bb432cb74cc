"""Print a table of claims: what was measured, the target, whether it is reached. Exit code 1 if one
is not.

`python -m bench reading metrics` runs only some parts; `--write FILE` also writes the tables as
Markdown, one section per part, and leaves the sections of other parts in the file as they are.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

from tautrank.arguments import job_count
from tautrank.files import write_whole
from tautrank.tables import Table

# Module, function and title; imported when they are measured: a machine for one part need not have
# all tools.
PARTS = {
    "start": ("start_up", "claims", "Starting up"),
    "metrics": ("metric_speed", "claims", "Metrics"),
    "reading": ("reading", "claims", "Reading LETOR text"),
    "losses": ("loss_speed", "claims", "Gradients"),
    "smoothed": ("smoothed_speed", "claims", "Gradients of smoothed metrics"),
    "training": ("loss_speed", "training_claims", "Training 100 trees"),
    "quality": ("quality", "claims", "Time until it ranks as well as LightGBM"),
    "committees": ("committee_speed", "claims", "Committees"),
    "engines": ("engine_speed", "claims", "Training on XGBoost"),
    "scoring": ("scoring_speed", "claims", "Scoring"),
    "binned": ("binned", "claims", "A comparison that shares bins"),
    "studies": ("study_size", "claims", "Studies on data of WEB30K's size"),
    "distributed": ("large_data", "claims", "Dask clusters and data in files"),
    "gpu": ("gpu_speed", "claims", "Gradients on a GPU"),
}
HEADINGS = ("what", "measured", "target", "reached")
NO_TARGET = ("", "reported")
PEERS = ("tautrank", "numpy", "numba", "scikit-learn", "ranx", "lightgbm", "catboost")

Row = tuple[str, str, str, bool]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench", description="Speed and memory compared with other tools."
    )
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(PARTS)} (default: all)")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="also write the table as Markdown"
    )
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.parts) - set(PARTS)):
        parser.error(f"unknown part '{unknown[0]}'; expected some of: {', '.join(PARTS)}")

    found: dict[str, list[Row]] = {}
    for name in arguments.parts or PARTS:
        if name == "gpu" and not has_device():
            print("gpu: skipped, there is no CUDA device with PyTorch and Triton", file=sys.stderr)
            continue
        print(f"measuring: {name} ...", file=sys.stderr)
        module, function, _ = PARTS[name]
        found[name] = list(getattr(importlib.import_module(f"bench.{module}"), function)())
    rows = [row for part in found.values() for row in part]
    print(table(rows).to_markdown())
    if arguments.write:
        kept = sections_of(arguments.write.read_text()) if arguments.write.exists() else {}
        page = as_markdown(kept | {name: section(name, part) for name, part in found.items()})
        write_whole(arguments.write, page)
    return 0 if all(row[3] for row in rows) else 1


def table(rows: list[Row]) -> Table:
    cells = [
        (*row[:2], "", "") if row[2] in NO_TARGET else (*row[:3], "yes" if row[3] else "no")
        for row in rows
    ]
    return Table.of(HEADINGS, cells)


def has_device() -> bool:
    """Whether PyTorch and Triton are installed and there is a CUDA device."""
    try:
        import torch
        import triton  # noqa: F401
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def section(name: str, rows: list[Row]) -> str:
    """One part's table, with where and with what it was measured."""
    if name == "gpu":
        return f"{importlib.import_module('bench.gpu_speed').where()}\n\n{table(rows).to_markdown().rstrip()}"
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    where = f"One run on {job_count(None)} cores ({platform.machine()}) with Python {platform.python_version()},"
    return f"{where}\n{versions}.\n\n{table(rows).to_markdown().rstrip()}"


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page by the parts that their headings name."""
    names = {title: name for name, (*_, title) in PARTS.items()}
    pieces = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)[1:]
    return {
        names[title]: text.strip() for title, text in zip(pieces[::2], pieces[1::2], strict=True)
    }


def as_markdown(sections: dict[str, str]) -> str:
    """A page of sections, in the order of the parts."""
    lines = [
        "# Speed compared with other tools",
        "",
        "Measured by `make bench`, or one part by `python -m bench PART --write docs/results/speed.md`. Ratios are",
        "medians of interleaved rounds of one run; the machine was shared, so compare ratios, not seconds. Rows",
        "without a target are for information. [Performance](../performance.md) explains the numbers.",
        "",
    ]
    if set(sections) == {"gpu"}:
        lines = [
            "# Speed on a GPU",
            "",
            "Medians, measured by `python -m bench gpu --write docs/results/gpu.md`.",
            "",
        ]
    for name in PARTS:
        if name in sections:
            lines += [f"## {PARTS[name][2]}", "", sections[name], ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
