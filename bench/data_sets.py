"""The data sets of the measurements, and the folder that keeps finished trainings."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import tautrank as tr
from tautrank.data import Splits

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(os.environ.get("TAUTRANK_KEPT", ROOT / ".bench"))
# As many queries, features and documents per list as MSLR-WEB10K has.
WEB10K = 10_000


def data_folder() -> Path:
    return Path(os.environ.get("TAUTRANK_DATA", ROOT.parent / "shared" / "data"))


def folds_of(name: str, folds: int = 5) -> list[Splits]:
    """The first folds of a data set in five parts."""
    folder = data_folder() / name
    return [tr.data.read_folder(folder, fold) for fold in tr.data.list_folds(folder)[:folds]]


def simulated() -> list[Splits]:
    """Synthetic web search of the size of WEB10K, divided once as its folds are."""
    data = tr.simulate.simulate_web_search(WEB10K, like="mslr")
    return [Splits(*data.split([0.6, 0.2, 0.2], seed=0))]


# Small enough for all systems, five folds and a search.
DATA = {"MQ2008": partial(folds_of, "mq2008"), "ClueWeb09": partial(folds_of, "clueweb09")}
