"""Every loss and the objectives of other tools on five data sets, and which of the differences are
real.

Writes docs/results/losses.md; run with `make results`. Finished trainings are kept, so the command
can be stopped and run again; with ``--only-finished`` it trains nothing and writes what there is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from bench.data_sets import folds_of, simulated
from bench.measured_page import (
    EARLY_STOPPING,
    TREES,
    Lines,
    compared,
    finished_systems,
    store_of,
    write_page,
)
from tautrank.data import Splits
from tautrank.experiments.result import Comparison
from tautrank.significance.paired import holm
from tautrank.significance.systems import SystemsTest, combined_test, systems_test

BASELINE = "lightgbm:lambdarank"
SLOW_PEER = "catboost:StochasticRank:metric=NDCG;top=5"
SYSTEMS = (
    BASELINE,
    "lightgbm:rank_xendcg",
    "lightgbm:regression",
    "xgboost:rank:ndcg",
    "catboost:YetiRank",
    SLOW_PEER,
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
REPEATS = 5
# The pairs of systems that the page of version 0.1.0 decided, by NDCG@5 (two repeats, 12
# configurations).
BEFORE = {"MQ2008": (0, 190), "ClueWeb09": (0, 190)}


@dataclass(frozen=True)
class DataSet:
    """A data set and what is trained on it.

    Args:
        folds: reads its splits.
        systems: what is compared.
        tune: the number of configurations to choose from; 0 for fixed parameters.
        parameters: fixed parameters.
        cut: what was left out for lack of time, in a sentence.
    """

    folds: Callable[[], list[Splits]]
    systems: Sequence[str] = SYSTEMS
    tune: int = 2
    parameters: dict[str, Any] = field(default_factory=dict)
    cut: str = ""


def _without(*systems: str) -> tuple[str, ...]:
    return tuple(system for system in SYSTEMS if system not in systems)


SETS = {
    "MQ2007": DataSet(
        partial(folds_of, "mq2007"),
        _without(SLOW_PEER),
        cut="CatBoost's StochasticRank, which takes as long as all losses of this library together, is left out.",
    ),
    "MQ2008": DataSet(partial(folds_of, "mq2008")),
    "ClueWeb09": DataSet(
        partial(folds_of, "clueweb09"),
        _without(SLOW_PEER),
        cut="CatBoost's StochasticRank is left out.",
    ),
    "MSRD": DataSet(
        partial(folds_of, "msrd", folds=1),
        (
            BASELINE,
            "lightgbm:rank_xendcg",
            "xgboost:rank:ndcg",
            "mse",
            "ranknet",
            "lambdarank",
            "ndcg-loss1",
            "ndcg-loss2++",
            "listnet",
            "xendcg",
            "softrank",
            "stochasticrank",
        ),
        tune=0,
        parameters={"learning_rate": 0.1},
        cut=(
            "Cut for lack of time: twelve systems, one fold (3,256 test queries) instead of five, no search (learning "
            "rate 0.1, 31 leaves)."
        ),
    ),
    "simulated": DataSet(
        simulated,
        (BASELINE, "lambdarank", "ndcg-loss2++", "xendcg", "mse"),
        tune=0,
        parameters={"learning_rate": 0.2, "n_estimators": 60},
        cut=(
            "10,000 synthetic queries of about 120 documents with 136 features, like MSLR-WEB10K. Cut for lack of "
            "time: five systems, one division into 60/20/20 % (2,000 test queries), no search (learning rate 0.2, 31 "
            "leaves), 60 trees."
        ),
    ),
}


@cache
def result_on(name: str, repeats: int, only_finished: bool) -> Comparison | None:
    """All systems on one data set, or those whose trainings are all there; None if there are fewer
    than two.
    """
    one = SETS[name]
    arguments = argparse.Namespace(repeats=repeats, tune=one.tune)
    if only_finished and not store_of(name).is_file():
        return None
    systems, splits = tuple(one.systems), one.folds()
    if only_finished:
        systems = finished_systems(name, splits, systems, METRICS, arguments, **one.parameters)
    if len(systems) < 2:
        return None
    return compared(name, lambda: splits, systems, METRICS, arguments, **one.parameters)


def significance(result: Comparison, m: str, baseline: str | None = None) -> SystemsTest:
    """The test of all pairs of systems, or of all with a baseline."""
    names = [system.name for system in result.systems]
    values = np.array([system.values[m] for system in result.systems])
    return systems_test(
        values, result.overlap, baseline=names.index(baseline) if baseline else None
    )


def pairs_decided(test: SystemsTest) -> tuple[int, int]:
    """How many pairs differ, and how many there are."""
    adjusted = test.adjusted[np.triu_indices_from(test.adjusted, 1)]
    return int(np.count_nonzero(adjusted <= test.level)), int(np.count_nonzero(~np.isnan(adjusted)))


def protocol(arguments: argparse.Namespace) -> Lines:
    """How all systems are compared."""
    yield from (
        "One protocol for every system. A training tries two random configurations of learning rate, leaves,",
        "documents per leaf, feature and row sampling and L2, the same for all systems (without those a tool does not",
        f"have). Each has at most {TREES} trees, and stops after {EARLY_STOPPING} without a better validation",
        f"{METRICS[0]}. The one with the best validation {METRICS[0]} is evaluated on the test queries. There are five",
        f"folds, so that every query is tested once per repeat, and {arguments.repeats} repeats: each splits training",
        "and validation queries anew and draws other configurations. What the larger sets leave out is said with their",
        "tables.",
        "",
        "The test is [`systems_test`](../significance.md): repeats and queries are counted as two sources of chance,",
        "and Holm's correction counts all pairs of a table. 'could be found' is the smallest true difference that is",
        "found with a probability of 80 %: a pair that does not differ here may still differ by less than that.",
        "",
    )


def overview(arguments: argparse.Namespace) -> Lines:
    """What is decided on each data set, next to what version 0.1.0 decided."""
    yield from (
        "## Pairs decided",
        "",
        f"By {METRICS[0]}; in brackets, what the test of version 0.1.0 decided on the same data with two repeats.",
        "",
        "| data | queries | pairs that differ | (0.1.0) | could be found: one pair | could be found: all pairs "
        f"| differ from {BASELINE} |",
        "|---|---|---|---|---|---|---|",
    )
    missing = []
    for name in SETS:
        result = result_on(name, arguments.repeats, arguments.only_finished)
        if result is None:
            missing.append(name)
            continue
        test = significance(result, METRICS[0])
        with_baseline = significance(result, METRICS[0], BASELINE)
        before = "{} of {}".format(*BEFORE[name]) if name in BEFORE else "-"
        row = [name, f"{test.queries:,}", "{} of {}".format(*pairs_decided(test)), before]
        row += [f"{test.detectable:.4f}", f"{test.detectable_adjusted:.4f}"]
        yield f"| {' | '.join([*row, '{} of {}'.format(*pairs_decided(with_baseline))])} |"
    yield ""
    if missing:
        yield f"Not finished yet: {', '.join(missing)}."
        yield ""


def section(name: str, arguments: argparse.Namespace) -> Lines:
    """All systems on one data set, and what differs by each metric."""
    result = result_on(name, arguments.repeats, arguments.only_finished)
    if result is None:
        return
    left = [
        system
        for system in SETS[name].systems
        if system not in {one.name for one in result.systems}
    ]
    yield from (f"## {name}", "", *([SETS[name].cut, ""] if SETS[name].cut else []))
    if left:
        yield from (f"Not finished yet: {', '.join(left)}.", "")
    names = [system.name for system in result.systems]
    yield from table(result)
    for m in METRICS:
        test = significance(result, m)
        won, pairs = pairs_decided(test)
        clearest = int(np.nanargmin(np.where(test.differences > 0, test.p_values, np.nan)))
        better, worse = divmod(clearest, len(names))
        difference, low, high, p = (
            values[better, worse]
            for values in (test.differences, test.low, test.high, test.adjusted)
        )
        yield (
            f"- {m}: {won} of {pairs} pairs differ; the clearest is {names[better]} over {names[worse]}, "
            f"{difference:+.4f} (95 % interval {low:+.4f} to {high:+.4f}), p = {p:.2g} after Holm. "
            f"A difference of {test.detectable_adjusted:.4f} could be found."
        )
    yield ""


def table(result: Comparison) -> Lines:
    """A row per system: means, and by the first metric the systems that it is better than, of all
    pairs.
    """
    test, letters = significance(result, METRICS[0]), "abcdefghijklmnopqrstuvwxyz"
    yield f"|  | system | {METRICS[0]} | better than | {' | '.join(METRICS[1:])} | all tried | trees | seconds |"
    yield f"|{'---|' * (len(METRICS) + 6)}"
    for i, system in enumerate(result.systems):
        means = {m: system.means(m) for m in METRICS}
        won = [
            j
            for j in range(len(result.systems))
            if test.adjusted[i, j] <= test.level and test.differences[i, j] > 0
        ]
        first, *others = (float(mean.mean()) for mean in means.values())
        tried = f"{np.mean(system.untuned[METRICS[0]]):.4f}" if system.untuned else "-"
        cells = [
            letters[i],
            f"`{system.name}`",
            f"{first:.4f} ±{np.std(means[METRICS[0]], ddof=1):.4f}",
        ]
        cells += ["".join(letters[j] for j in won), *(f"{mean:.4f}" for mean in others), tried]
        yield f"| {' | '.join([*cells, f'{np.mean(system.trees):.0f}', f'{np.mean(system.seconds):.1f}'])} |"
    yield from (
        "",
        f"Mean ± standard deviation of {METRICS[0]} over the repeats. 'better than': rows that it is significantly",
        "better than, Holm-adjusted over all pairs. 'all tried': the mean over all configurations, chosen or not.",
        "'seconds': of a training with all its configurations, on a machine that was busy with other work.",
        "",
    )


def together(arguments: argparse.Namespace) -> Lines:
    """Every system against LightGBM's LambdaMART, on each data set and on all together."""
    m = METRICS[0]
    tests, places = {}, {}
    for name in SETS:
        result = result_on(name, arguments.repeats, arguments.only_finished)
        if result is not None and BASELINE in (names := [system.name for system in result.systems]):
            tests[name], places[name] = significance(result, m, BASELINE), names
    if not tests:
        return
    rows = {}
    for system in SYSTEMS[1:]:
        found = {
            name: tuple(
                float(values[places[name].index(system), places[name].index(BASELINE)])
                for values in (test.differences, test.standard_errors, test.degrees, test.adjusted)
            )
            for name, test in tests.items()
            if system in places[name]
        }
        if found:
            rows[system] = (
                found,
                combined_test(*np.array([values[:3] for values in found.values()]).T),
            )
    adjusted = dict(zip(rows, holm([both.p_value for _, both in rows.values()]), strict=True))
    yield from (
        f"## All data sets together: {m} minus {BASELINE}'s",
        "",
        "The last columns weigh every data set by how sure its difference is (`combined_test`), with a 95 % interval;",
        "p is Holm-adjusted over the rows. **Bold** differs significantly (on one set: after Holm's correction over",
        "its rows).",
        "",
        f"| system | {' | '.join(tests)} | together | interval | p | could be found |",
        f"|---|{'---|' * (len(tests) + 4)}",
    )
    for system, (found, both) in sorted(rows.items(), key=lambda item: -item[1][1].difference):
        cells = []
        for name in tests:
            if name not in found:
                cells.append("-")
                continue
            difference, p = found[name][0], found[name][3]
            cells.append(f"**{difference:+.4f}**" if p <= 0.05 else f"{difference:+.4f}")
        sure = f"{both.difference:+.4f}"
        cells += [
            f"**{sure}**" if adjusted[system] <= 0.05 else sure,
            f"{both.low:+.4f} to {both.high:+.4f}",
        ]
        cells += [
            "<.0001" if adjusted[system] < 1e-4 else f"{adjusted[system]:.4f}",
            f"{both.detectable:.4f}",
        ]
        yield f"| `{system}` | {' | '.join(cells)} |"
    yield ""


PARTS = {
    "protocol": protocol,
    "overview": overview,
    "together": together,
    **{name: partial(section, name) for name in SETS},
}


if __name__ == "__main__":
    sys.exit(
        write_page(
            "bench.results", "All losses and other tools on five data sets", PARTS, repeats=REPEATS
        )
    )
