"""Every loss and the objectives of other tools on the real data sets, with one tuning budget.

Writes docs/results/losses.md; run with `make results`. Finished trainings are kept in .bench/results, so the command
can be stopped and run again.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from bench.data_sets import DATA
from bench.measured_page import EARLY_STOPPING, TREES, Lines, compared, write_page

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


def protocol(arguments: argparse.Namespace) -> Lines:
    """How all systems are compared."""
    yield from (
        f"One protocol for every system: {arguments.tune} random configurations of learning rate, leaves, documents",
        "per leaf, feature and row sampling and L2, the same for all systems (without those a tool does not have);",
        f"at most {TREES} trees, stopped after {EARLY_STOPPING} without a better validation {METRICS[0]}; the one with",
        f"the best validation {METRICS[0]} is evaluated on the test queries. Five folds; every query is tested once",
        "per repeat. Each repeat splits training and validation queries anew and draws other configurations.",
        "",
    )


def section(name: str, arguments: argparse.Namespace) -> Lines:
    """All systems on one data set, and the clearest difference by each metric."""
    result = compared(name, DATA[name], SYSTEMS, METRICS, arguments)
    queries = next(iter(result.systems[0].values.values())).shape[1]
    yield from (f"## {name} ({queries} queries)", "", result.to_markdown(), "")
    for m in result.metrics:
        tests = sorted(result.tests(m), key=lambda test: test.p_value)
        won = sum(test.adjusted < result.alpha for test in tests)
        first = tests[0]
        better, worse = (result.systems[i].name for i in (first.better, first.worse))
        yield (
            f"- {m}: {won} of {len(tests)} comparisons are significant; the clearest is {better} over {worse}, "
            f"+{first.difference:.4f}, p = {first.p_value:.2g} ({first.adjusted:.2g} after Holm)."
        )
    yield ""


PARTS = {"protocol": protocol, **{name: partial(section, name) for name in DATA}}


if __name__ == "__main__":
    sys.exit(write_page("bench.results", "All losses and other tools on real data", PARTS, tune=12, repeats=2))
