"""Every study of the catalogue with a real budget: on published data, and on synthetic data like WEB30K.

Run with `python -m bench.study_runs`; finished trainings are kept in .bench/studies, so it can be stopped and run
again. The budgets are what about two hours on two cores allow.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.data_sets import KEPT, data_folder

STORES = KEPT / "studies"
# 320 queries as in WEB30K: about 38,000 documents of 136 features, so that a training takes seconds.
SIMULATED = "simulated:mslr:320"


@dataclass(frozen=True)
class StudyRun:
    """A study, data and a budget; `data` is a folder of the data sets, or synthetic data, or empty."""

    study: str
    data: str = ""
    options: str = ""

    @property
    def name(self) -> str:
        """Of its store and of its page."""
        where = "simulated" if self.data.startswith("simulated") else self.data
        return f"{self.study}-{where}" if where else self.study

    @property
    def store(self) -> Path:
        return STORES / f"{self.name}.db"

    def words(self, data: str) -> list[str]:
        """The command as it is typed, with the data where it lies."""
        return ["tautrank", "study", "run", self.study, *(["--data", data] if data else []), *self.options.split()]


# On MQ2008, and on the synthetic data.
_BUDGETS = {
    "xe-table1": ("--trials 100", "--trials 10"),
    "xe-figure2": ("--trials 20", "--trials 5"),
    "binary-table1": ("--trials 20", "--trials 5"),
    "lambdaloss-table3": ("--trials 10", "--trials 5"),
    "lambdaloss-table4": ("--trials 10", "--trials 5"),
    "lambdaloss-table5": ("--trials 10", "--trials 5"),
    "lambdaloss-figure3": ("--trials 5", "--trials 3"),
    "lambdaloss-figure4": ("--trials 5", "--trials 3"),
    "lambdaloss-figure5": ("--trials 10", "--trials 3"),
    "xe-figure4": ("--trials 20", "--trials 3"),
    "xe-figure3-labels": ("--trials 20", "--trials 3"),
    "xe-figure3-negatives": ("--trials 20", "--trials 3"),
    "stochasticrank-table2-ndcg": ("--trials 3 --configs 10 --trees 300", "--trials 1 --configs 4 --trees 200"),
    "stochasticrank-table2-mrr": ("--trials 3 --configs 10 --trees 300", "--trials 1 --configs 4 --trees 200"),
    "stochasticrank-table3": ("--trials 3 --configs 10 --trees 300", "--trials 1 --configs 4 --trees 200"),
}
_LONG_LISTS = {"xe-table1": "--trials 10", "binary-table1": "--trials 5", "lambdaloss-table3": "--trials 5"}
RUNS = (
    *(StudyRun(study) for study in ("xe-figure1", "directness-sigma", "directness-losses", "stochasticrank-table1")),
    *(StudyRun(study, "mq2008", options) for study, (options, _) in _BUDGETS.items()),
    *(StudyRun(study, SIMULATED, options) for study, (_, options) in _BUDGETS.items()),
    *(StudyRun(study, "clueweb09", options) for study, options in _LONG_LISTS.items()),
)


def run(one: StudyRun) -> int:
    """Run a study, or go on with it, as its user would."""
    folder = data_folder() / one.data
    data = str(folder) if one.data and folder.is_dir() else one.data
    words = [str(Path(sys.executable).with_name("tautrank")), *one.words(data)[1:], "--store", str(one.store)]
    return subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.study_runs", description=__doc__)
    parser.add_argument("names", nargs="*", help="some of them, as their stores are called (default: all)")
    names = parser.parse_args().names
    if unknown := sorted(set(names) - {one.name for one in RUNS}):
        parser.error(f"unknown run '{unknown[0]}'; expected some of: {', '.join(one.name for one in RUNS)}")
    STORES.mkdir(parents=True, exist_ok=True)
    chosen = [one for one in RUNS if not names or one.name in names]
    for i, one in enumerate(chosen, 1):
        print(f"{i}/{len(chosen)} {one.name}", file=sys.stderr, flush=True)
        if code := run(one):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
