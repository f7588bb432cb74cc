"""Committees against other tools, where everybody may grow as many trees.

Writes docs/results/committees.md; run with `make results`. Finished trainings are kept, so the
command can be stopped and run again; with ``--only-finished`` it trains nothing and writes what
there is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from bench.data_sets import folds_of
from bench.equal_budget import Contender, measured, overlap
from bench.measured_page import Lines, write_page
from tautrank.arrays import F64
from tautrank.data import Splits
from tautrank.engines import DEFAULTS
from tautrank.engines.task import DEFAULT_COMMITTEE
from tautrank.significance.paired import holm
from tautrank.significance.systems import Combined, SystemsTest, combined_test, systems_test

METRICS = ("ndcg@5", "ndcg@10", "map")
REPEATS = 5
AIM = 0.01  # p-value against the best single peers, over all sets
MODELS = 6
PARAMETERS = {
    name: DEFAULTS[name] for name in ("n_estimators", "learning_rate", "early_stopping_rounds")
}
PEERS = (
    "lightgbm:lambdarank",
    "lightgbm:rank_xendcg",
    "xgboost:rank:ndcg",
    "catboost:YetiRank",
    "catboost:QuerySoftMax",
)
# On the largest set the trees of a committee have as many leaves; the random configurations try up
# to 63.
MORE_LEAVES = 124
LARGE_TREES = f"lightgbm:lambdarank, {MORE_LEAVES} leaves"
SINGLE = tuple(DEFAULT_COMMITTEE.split("|"))
COMMITTEE, WITH_LISTS = "committee", "committee, list features"
BAGGED = "lightgbm:lambdarank, bagged"
BAGGED_YETI = "catboost:YetiRank, bagged"
# LightGBM's own models are not sampled by a committee; these parameters do to them what it does to
# ours.
SAMPLED = {
    "feature_fraction": 0.8,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "bagging_by_query": True,
}
BEST_PEER = "the best single model of another tool on each set"


@dataclass(frozen=True)
class DataSet:
    """A data set and what is trained on it.

    Args:
        folds: reads its splits.
        repeats: the number of repeats, if it is not the page's.
        fewer: the number of models of single systems that train too slowly for all.
        cut: what differs or was left out for lack of time, in a sentence.
    """

    folds: Callable[[], list[Splits]]
    repeats: int | None = None
    fewer: Mapping[str, int] = field(default_factory=dict)
    cut: str = ""


SETS = {
    "MQ2007": DataSet(partial(folds_of, "mq2007")),
    "MQ2008": DataSet(partial(folds_of, "mq2008")),
    "ClueWeb09": DataSet(
        partial(folds_of, "clueweb09"),
        fewer={"catboost:YetiRank": 3},
        cut="Cut for lack of time: three configurations of YetiRank.",
    ),
    "MSRD": DataSet(
        partial(folds_of, "msrd"),
        repeats=2,
        fewer={
            "lightgbm:rank_xendcg": 2,
            "xgboost:rank:ndcg": 1,
            "catboost:YetiRank": 1,
            "catboost:QuerySoftMax": 0,
            BAGGED_YETI: 0,
        },
        cut=(
            "Cut for lack of time: two repeats, fewer configurations of all objectives but LightGBM's lambdarank, no "
            "QuerySoftMax, no bagged YetiRank."
        ),
    ),
}
# Too slow for as many models as the others.
SLOW = {"xgboost:rank:ndcg": 3, "catboost:QuerySoftMax": 2}


def contenders(name: str) -> list[Contender]:
    """What is compared on a data set."""
    fewer, lists = {**SLOW, **SETS[name].fewer}, {"list_features": True}
    bagged, yeti = (
        f"committee(of={loss},members={MODELS})"
        for loss in ("lightgbm:lambdarank", "catboost:YetiRank")
    )
    return [
        Contender(COMMITTEE, "committee"),
        Contender(WITH_LISTS, "committee", parameters=lists),
        *(
            Contender(loss, loss, fewer.get(loss, MODELS))
            for loss in PEERS
            if fewer.get(loss, MODELS)
        ),
        Contender(BAGGED, bagged, parameters=SAMPLED),
        *(
            [Contender(LARGE_TREES, PEERS[0], parameters={"num_leaves": MORE_LEAVES})]
            if name == "MSRD"
            else []
        ),
        *([Contender(BAGGED_YETI, yeti)] if fewer.get(BAGGED_YETI, 1) else []),
        *(Contender(loss, loss) for loss in SINGLE),
    ]


@cache
def result_on(name: str, repeats: int, only_finished: bool) -> tuple[list[Row], float]:
    """Everything that was measured on one data set, and how much the repeats' training queries
    overlap.
    """
    one, splits = SETS[name], SETS[name].folds()
    runs = min(repeats, one.repeats or repeats)
    title, systems = f"committees {name}", contenders(name)
    found = measured(title, splits, systems, METRICS, runs, PARAMETERS, only_finished=only_finished)
    rows = []
    for system in systems:
        if system.name not in found:
            continue
        one_found, models = found[system.name], system.configurations
        rows.append(
            Row(
                system.name,
                one_found.best,
                one_found.grown,
                one_found.trees,
                one_found.seconds,
                models,
            )
        )
    for peer in PEERS:
        if peer in found and found[peer].added:
            one_found, models = found[peer], {**SLOW, **SETS[name].fewer}.get(peer, MODELS)
            # All its configurations are part of the sum.
            total = f"{peer}, {models} configurations added up"
            rows.append(
                Row(
                    total,
                    one_found.added,
                    one_found.grown,
                    one_found.all_trees,
                    one_found.seconds,
                    models,
                )
            )
    return rows, overlap(splits)


@dataclass(frozen=True)
class Row:
    """A row of a table: values by metric, and what they cost."""

    name: str
    values: dict[str, F64]
    grown: float
    trees: float
    seconds: float
    models: int

    def mean(self, m: str) -> float:
        """The mean over repeats and queries."""
        return float(np.nanmean(self.values[m]))


def spread(values: F64) -> str:
    """The standard deviation over the repeats, if there are several."""
    return f" ±{np.std(np.nanmean(values, axis=1), ddof=1):.4f}" if len(values) > 1 else ""


def against(rows: Sequence[Row], share: float, baseline: str, m: str) -> SystemsTest:
    """The test of one system against all others."""
    at = [row.name for row in rows].index(baseline)
    return systems_test(np.array([row.values[m] for row in rows]), share, baseline=at)


def best_peer(rows: Sequence[Row]) -> Row:
    """The single peer with the best test values: chosen with hindsight, in favour of the peers."""
    return max(
        (row for row in rows if row.name in {*PEERS, LARGE_TREES}),
        key=lambda row: row.mean(METRICS[0]),
    )


def protocol(arguments: argparse.Namespace) -> Lines:
    """How everything is compared."""
    yield from (
        f"**One budget for everybody: {MODELS} models of at most {PARAMETERS['n_estimators']} trees**, with a learning",
        f"rate of {PARAMETERS['learning_rate']}. A training stops after {PARAMETERS['early_stopping_rounds']} trees",
        f"without a better validation {METRICS[0]}; the members of a committee stop together, by the value of their",
        "sum.",
        "",
        f'- `committee` is `Ranker(loss="committee")`: one model of each of its {len(SINGLE)} losses, added up, with',
        '  all parameters at their defaults. With list features: `Ranker(loss="committee", list_features=True)`.',
        f"- Every objective of another tool is trained with {MODELS} configurations: the defaults of this library",
        f"  and {MODELS - 1} random ones (of the parameters that `tune` searches, without the learning rate).",
        f"  'best of' is the one with the best validation {METRICS[0]}; 'added up' is the sum of all of them, scaled",
        "  as the members of a committee are. Cut for lack of time: three configurations of XGBoost's objective, two",
        "  of QuerySoftMax.",
        f"- 'bagged' is a committee of {MODELS} models of the same objective with the same parameters and other",
        "  seeds. Every tree sees 80 % of the queries and of the features, and LightGBM draws thresholds at random,",
        "  as in ours.",
        "- The committee's own losses are trained once each, with the defaults.",
        "- 'seconds' is processor time on one core, of everything that a row trains. 'trees grown' includes those",
        "  after the best one, 'trees' is what the model keeps.",
        "",
        f"There are five folds, so that every query is tested once per repeat, and {arguments.repeats} repeats, each",
        "with other training and validation queries, configurations and seeds. The test is",
        "[`systems_test`](../significance.md), with Holm's correction over the rows of a table.",
        "",
        "The committee was chosen on training and validation queries ([how](../committees.md)). The number of leaves",
        "was too, but after a first measurement on these test queries: with 31 leaves everywhere the committee was",
        f".0006 below LightGBM's lambdarank on MSRD. There its trees now have up to {MORE_LEAVES} leaves, more than",
        "the random configurations try, so LightGBM's lambdarank is also trained with as many.",
        "",
    )


def together(arguments: argparse.Namespace) -> Lines:
    """Both committees against everything else, on each data set and on all together."""
    m = METRICS[0]
    found = {name: result_on(name, arguments.repeats, arguments.only_finished) for name in SETS}
    for committee in (COMMITTEE, WITH_LISTS):
        names = {name: {row.name for row in rows} for name, (rows, _) in found.items()}
        sets = {
            name: each
            for name, each in found.items()
            if committee in names[name] and names[name] & {*PEERS}
        }
        if not sets:
            continue
        tests = {name: against(*each, committee, m) for name, each in sets.items()}
        rows: dict[str, tuple[dict[str, tuple[float, ...]], Combined]] = {}
        opponents = dict.fromkeys(
            [BEST_PEER, *(_common(row.name) for rows_of, _ in sets.values() for row in rows_of)]
        )
        for opponent in opponents:
            values = {}
            for name, (rows_of, _) in sets.items():
                places = [_common(row.name) for row in rows_of]
                wanted = best_peer(rows_of).name if opponent == BEST_PEER else opponent
                if wanted in places and wanted != committee:
                    test, i, j = tests[name], places.index(committee), places.index(wanted)
                    parts = (test.differences, test.standard_errors, test.degrees, test.adjusted)
                    values[name] = tuple(float(part[i, j]) for part in parts)
            if values:
                rows[opponent] = (
                    values,
                    combined_test(*np.array([each[:3] for each in values.values()]).T),
                )
        adjusted = dict(zip(rows, holm([both.p_value for _, both in rows.values()]), strict=True))
        yield from (
            f"## {committee[:1].upper()}{committee[1:]}: {m} minus that of the others",
            "",
            verdict(*rows[BEST_PEER]),
            "",
            "The last columns weigh every data set by how sure its difference is (`combined_test`), with a 95 %",
            "interval, and p before and after Holm's correction over the rows. **Bold** is significant after it. The",
            "best model of another tool is the one with the best *test* value, which favours the other tools: "
            + ", ".join(
                f"{best_peer(rows_of).name} ({name})" for name, (rows_of, _) in sets.items()
            )
            + ".",
            "",
            f"| minus | {' | '.join(sets)} | together | interval | p | after Holm |",
            f"|---|{'---|' * (len(sets) + 4)}",
        )
        for opponent, (values, both) in rows.items():
            cells = []
            for name in sets:
                if name not in values:
                    cells.append("-")
                    continue
                cell = f"{values[name][0]:+.4f}"
                cells.append(f"**{cell}**" if values[name][3] <= 0.05 else cell)
            sure = f"{both.difference:+.4f}"
            cells += [
                f"**{sure}**" if adjusted[opponent] <= 0.05 else sure,
                f"{both.low:+.4f} to {both.high:+.4f}",
            ]
            cells += [f"{both.p_value:.2g}", f"{adjusted[opponent]:.2g}"]
            yield f"| {opponent if opponent == BEST_PEER else f'`{opponent}`'} | {' | '.join(cells)} |"
        yield ""


def verdict(values: Mapping[str, tuple[float, ...]], both: Combined) -> str:
    """Say where a committee is above the best single model, how sure that is over all sets, and
    what was aimed at.
    """
    above = [name for name, (difference, *_) in values.items() if difference > 0]
    below = [name for name in values if name not in above]
    where = f"Above the best single model of another tool on {', '.join(above) or 'no set'}"
    if below:
        where += f"; not on {', '.join(below)}"
    reached = "reached" if not below and both.p_value < AIM else "not reached"
    if missing := [name for name in SETS if name not in values]:
        reached += f" without {', '.join(missing)}"
    return (
        f"{where}. Over these sets the difference is {both.difference:+.4f} (p = {both.p_value:.2g}). The aim, "
        f"above it on every set and p < {AIM:g} over all, is **{reached}**."
    )


def _common(name: str) -> str:
    """The name of a row whatever the number of its configurations, which differs between sets."""
    peer, _, rest = name.partition(", ")
    return f"{peer}, configurations added up" if rest.endswith("configurations added up") else name


def section(name: str, arguments: argparse.Namespace) -> Lines:
    """All rows of one data set, with what they cost."""
    rows, share = result_on(name, arguments.repeats, arguments.only_finished)
    if len(rows) < 2:
        return
    m = METRICS[0]
    yield from (f"## {name}", "", *([SETS[name].cut, ""] if SETS[name].cut else []))
    missing = [
        system.name for system in contenders(name) if system.name not in {row.name for row in rows}
    ]
    if missing:
        yield from (f"Not finished yet: {', '.join(missing)}.", "")
    shown = [
        committee
        for committee in (COMMITTEE, WITH_LISTS)
        if committee in {row.name for row in rows}
    ]
    tests = {committee: against(rows, share, committee, m) for committee in shown}
    minus = " | ".join(f"{each} minus it" for each in shown)
    yield f"| system | {m} | {' | '.join(METRICS[1:])} | {minus} | trees grown | trees | seconds |"
    yield f"|{'---|' * (len(METRICS) + len(shown) + 4)}"
    for j, row in sorted(enumerate(rows), key=lambda item: -item[1].mean(m)):
        best = f", best of {row.models}" if row.name in PEERS and row.models > 1 else ""
        cells = [f"`{row.name}`{best}", f"{row.mean(m):.4f}{spread(row.values[m])}"]
        cells += [f"{row.mean(other):.4f}" for other in METRICS[1:]]
        for committee in shown:
            test, i = tests[committee], [each.name for each in rows].index(committee)
            difference = f"{test.differences[i, j]:+.4f}"
            sure = (
                ""
                if i == j
                else f"**{difference}**"
                if test.adjusted[i, j] <= test.level
                else difference
            )
            cells.append(sure)
        yield f"| {' | '.join([*cells, f'{row.grown:,.0f}', f'{row.trees:,.0f}', f'{row.seconds:.1f}'])} |"
    some = tests[shown[0]] if shown else None
    yield ""
    if some is not None:
        yield (
            f"{some.queries:,} queries with a relevant document, {some.runs} repeats. With 80 % power a difference of "
            f"{some.detectable:.4f} could be found between two systems, {some.detectable_adjusted:.4f} after Holm's "
            "correction."
        )
        yield ""


PARTS = {
    "protocol": protocol,
    "together": together,
    **{name: partial(section, name) for name in SETS},
}


if __name__ == "__main__":
    sys.exit(
        write_page(
            "bench.committee_results",
            "Committees and other tools with one budget",
            PARTS,
            repeats=REPEATS,
        )
    )
