"""The folders of the real data sets and of what the measurements keep."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import tautrank as tr
from tautrank.data import Splits

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / ".bench"


def data_folder() -> Path:
    return Path(os.environ.get("TAUTRANK_DATA", ROOT.parent / "shared" / "data"))


def folds_of(name: str) -> list[Splits]:
    """The five folds of a data set in five parts."""
    folder = data_folder() / name
    return [tr.read_folder(folder, fold) for fold in tr.list_folds(folder)]


DATA = {"MQ2008": partial(folds_of, "mq2008"), "ClueWeb09": partial(folds_of, "clueweb09")}
