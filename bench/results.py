"""Every loss and peer on the real data sets, under one tuning budget.

Writes docs/results/losses.md; run with `make results`. Finished trainings are kept in .bench/results, so the command
can be stopped and run again.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import tautrank as tr
from tautrank.arguments import job_count
from tautrank.atomic import atomic_write
from tautrank.comparing import compare_splits
from tautrank.data import Splits
from tautrank.report.comparison import Comparison

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / ".bench" / "results"
SYSTEMS = (
    "lightgbm:lambdarank",
    "lightgbm:rank_xendcg",
    "lightgbm:regression",
    "xgboost:rank:ndcg",
    "catboost:YetiRank",
    "catboost:StochasticRank:metric=NDCG;top=5",
    "mse",
    "ranknet",
    "lambdarank",
    "lambdarank(norm=lightgbm)",
    "arp-loss1",
    "arp-loss2",
    "ndcg-loss1",
    "ndcg-loss2",
    "ndcg-loss2++",
    "listnet",
    "xendcg",
    "xendcg(gamma=tight)",
    "softrank",
    "stochasticrank",
)
METRICS = ("ndcg@5", "ndcg@10", "map")
TREES, EARLY_STOPPING = 150, 30


def data_folder() -> Path:
    return Path(os.environ.get("TAUTRANK_DATA", ROOT.parent / "shared" / "data"))


def folds_of(name: str) -> list[Splits]:
    """The five folds of a data set in five parts."""
    folder = data_folder() / name
    return [tr.read_folder(folder, fold) for fold in tr.list_folds(folder)]


DATA = {"MQ2008": partial(folds_of, "mq2008"), "ClueWeb09": partial(folds_of, "clueweb09")}


def page(results: dict[str, Comparison], arguments: argparse.Namespace) -> str:
    lines = [
        "# All losses and peers on real data",
        "",
        f"Written by `python -m bench.results --tune {arguments.tune} --repeats {arguments.repeats}` (`make results`).",
        "",
        f"One protocol for every system: {arguments.tune} random configurations of learning rate, leaves, documents a",
        "leaf, feature and row sampling and L2, the same for all systems (what a tool does not have is left out); at",
        f"most {TREES} trees, stopped after {EARLY_STOPPING} without a better validation {METRICS[0]}; the one",
        f"with the best validation {METRICS[0]} is judged on the test queries. Five folds, every query tested once a",
        "repeat; a repeat divides training and validation queries anew and draws other configurations.",
        "",
    ]
    for name, result in results.items():
        queries = next(iter(result.systems[0].values.values())).shape[1]
        lines += [f"## {name} ({queries} queries)", "", result.to_markdown(), ""]
        for m in result.plan.metrics:
            tests = sorted(result.tests(m), key=lambda test: test.p_value)
            won = sum(test.adjusted < result.alpha for test in tests)
            first = tests[0]
            better, worse = (result.systems[i].name for i in (first.better, first.worse))
            lines.append(
                f"- {m}: {won} of {len(tests)} pairs differ significantly; the clearest is {better} over {worse}, "
                f"+{first.difference:.4f}, p = {first.p_value:.2g} ({first.adjusted:.2g} after Holm)."
            )
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.results", description=__doc__)
    parser.add_argument("--data", choices=DATA, action="append", help="which data set (default: both)")
    parser.add_argument("--systems", help="separated by spaces (default: all)")
    parser.add_argument("--tune", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--write", type=Path, help="write the page here")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    results = {}
    for name in arguments.data or DATA:
        columns = (TextColumn("{task.completed:.0f}/{task.total:.0f}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, TextColumn(name + " {task.description}"), console=console) as bar:
            task = bar.add_task("")
            results[name] = compare_splits(
                DATA[name](),
                arguments.systems.split() if arguments.systems else SYSTEMS,
                METRICS,
                store=STORE,
                progress=lambda done, total, what, bar=bar, task=task: bar.update(
                    task, completed=done, total=total, description=what
                ),
                repeats=arguments.repeats,
                tune=arguments.tune,
                workers=job_count(None),
                parameters={"n_estimators": TREES, "early_stopping_rounds": EARLY_STOPPING},
            )
        print(results[name])
    if arguments.write:
        with atomic_write(arguments.write) as file:
            file.write(page(results, arguments).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
