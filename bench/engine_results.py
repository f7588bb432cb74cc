"""The same losses on other engines: XGBoost beside LightGBM, networks beside trees, and committees
of both.

Writes docs/results/engines.md. Finished trainings are kept in .bench/engines, so it can be stopped
and run again: python -m bench.engine_results [xgboost] [networks] --write docs/results/engines.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import KEPT, folds_of
from bench.measured_page import Lines, watched, write_page
from tautrank.arrays import F64
from tautrank.significance.paired import holm

METRIC = "ndcg@10"
LOSSES = sorted(
    name for name, kind in tr.losses.REGISTRY.items() if kind.__module__.startswith("tautrank.")
)
TREES: dict[str, Any] = {
    "n_estimators": 40,
    "learning_rate": 0.15,
    "num_leaves": 15,
    "colsample_bytree": 0.5,
}
LONGER: dict[str, Any] = {"n_estimators": 100, "learning_rate": 0.1, "early_stopping_rounds": 20}
EPOCHS = 20
NETWORK: dict[str, Any] = {
    **LONGER,
    "engine": "torch",
    "hidden": (64, 32),
    "epochs": EPOCHS,
    "device": "cpu",
}
MEMBER = f"(hidden=[64,32],epochs={EPOCHS},device=cpu)"
SYSTEMS: dict[str, dict[str, Any]] = {
    "trees: lambdarank": {"loss": "lambdarank", **LONGER},
    "trees: xendcg": {"loss": "xendcg", **LONGER},
    "network: lambdarank": {"loss": "lambdarank", **NETWORK},
    "network: xendcg": {"loss": "xendcg", **NETWORK},
    "network: xendcg, self-attention": {"loss": "xendcg", "attention": 4, **NETWORK},
    "committee of both trees": {"loss": ["lambdarank", "xendcg"], **LONGER},
    "committee of trees and networks": {
        "loss": ["lambdarank", "xendcg", f"torch:lambdarank{MEMBER}", f"torch:xendcg{MEMBER}"],
        **LONGER,
    },
}
# Of MSRD's folds only some queries are trained on and validated with; all are tested.
MOST = {"msrd": (1500, 1000)}
FOLDS = {"msrd": 3, "mq2007": 3}


def kept_in(data: str, system: str, repeat: int) -> Path:
    """The file of one system's values."""
    return KEPT / "engines" / f"{data}-{system.replace(':', '').replace(' ', '-')}-{repeat}.npy"


def finished(data: str, systems: Sequence[str], arguments: argparse.Namespace) -> bool:
    """Whether systems are there, or may be trained."""
    return not arguments.only_finished or all(
        kept_in(data, system, repeat).exists()
        for system in systems
        for repeat in range(arguments.repeats)
    )


def judged(data: str, system: str, parameters: Mapping[str, Any], repeat: int) -> F64:
    """The metric of every test query of the folds, trained with one seed; kept in a file."""
    kept = kept_in(data, system, repeat)
    kept.parent.mkdir(parents=True, exist_ok=True)
    if kept.exists():
        return np.asarray(np.load(kept))
    judge = tr.metric(METRIC, empty="zero")
    found = []
    by_validation = "early_stopping_rounds" in parameters
    for number, fold in enumerate(folds_of(data, FOLDS[data] if by_validation else 5)):
        ranker = tr.Ranker(
            metric=METRIC, random_state=1000 * repeat + number, verbose=0, n_jobs=1, **parameters
        )
        train, valid = fold.train, fold.valid
        assert valid is not None
        assert fold.test is not None
        if data in MOST:
            train, valid = (
                part.subset(np.random.default_rng(number).permutation(part.n_queries)[:most])
                for part, most in zip((train, valid), MOST[data], strict=True)
            )
        ranker.fit(train, valid if by_validation else None)
        found.append(
            judge.per_query(ranker.predict(fold.test), fold.test.labels, fold.test.offsets)
        )
    np.save(kept, np.concatenate(found))
    return np.concatenate(found)


def xgboost(arguments: argparse.Namespace) -> Lines:
    yield from (
        "## Every loss on XGBoost and on LightGBM",
        "",
        f"{TREES['n_estimators']} trees of {TREES['num_leaves']} leaves, learning rate {TREES['learning_rate']}, half",
        "of the features per tree, no early stopping; test NDCG@10 of all five folds,",
        f"{arguments.repeats} trainings each. Unlike on the other pages, queries without a relevant document count",
        "as 0. p-values: test over queries and trainings (`tr.systems_test`), before and after Holm's correction over",
        "the losses.",
        "",
    )
    for data in ("mq2008", "mq2007"):
        repeats = arguments.repeats
        losses = [x for x in LOSSES if finished(data, [f"lightgbm {x}", f"xgboost {x}"], arguments)]
        systems = [(engine, loss) for loss in losses for engine in ("lightgbm", "xgboost")]
        values = np.array([
            [judged(data, f"{engine} {loss}", {"engine": engine, "loss": loss, **TREES}, i) for i in range(repeats)]
            for engine, loss in watched(systems, data)
        ])  # fmt: skip
        test = tr.systems_test(values)
        pairs = [(2 * place + 1, 2 * place) for place in range(len(losses))]
        adjusted = holm(np.array([test.p_values[pair] for pair in pairs]))
        level = sum(p >= 0.05 for p in adjusted)
        yield from (
            f"### {data.upper()}",
            "",
            f"{level} of {len(losses)} losses do not differ significantly between the engines. A difference of",
            f"{test.detectable:.4f} would have been found with 80 % power.",
            "",
            "| loss | LightGBM | XGBoost | difference | 95 % interval | p | after Holm |",
            "|---|---|---|---|---|---|---|",
        )  # fmt: skip
        for loss, (x, lgb), after in zip(losses, pairs, adjusted, strict=True):
            means = values[[lgb, x]].mean((1, 2))
            interval = f"{test.low[x, lgb]:+.4f} to {test.high[x, lgb]:+.4f}"
            yield (
                f"| {loss} | {means[0]:.4f} | {means[1]:.4f} | {test.differences[x, lgb]:+.4f} | {interval} | "
                f"{test.p_values[x, lgb]:.2g} | {after:.2g} |"
            )
        yield ""


def networks(arguments: argparse.Namespace) -> Lines:
    most = MOST["msrd"]
    yield from (
        "## Networks, trees and committees of both",
        "",
        f"Trees: at most {LONGER['n_estimators']}, learning rate {LONGER['learning_rate']}, stopped after",
        f"{LONGER['early_stopping_rounds']} without a better validation value. Networks: layers of 64 and 32 units,",
        f"the best of {EPOCHS} epochs. Test NDCG@10 of {FOLDS['msrd']} folds, {arguments.repeats} trainings each;",
        f"MSRD: {most[0]:,} queries to train on and {most[1]:,} to validate with per fold. Differences are those from",
        "the trees of lambdarank; NDCG@10 and p-values are as above.",
        "",
    )
    for data in ("mq2007", "msrd"):
        chosen = [
            (name, given) for name, given in SYSTEMS.items() if finished(data, [name], arguments)
        ]
        values = np.array([
            [judged(data, name, given, repeat) for repeat in range(arguments.repeats)]
            for name, given in watched(chosen, data)
        ])  # fmt: skip
        test = tr.systems_test(values, baseline=0)
        yield from (
            f"### {data.upper()}",
            "",
            f"A difference of {test.detectable:.4f} would have been found with 80 % power.",
            "",
            "| system | NDCG@10 | difference | 95 % interval | p | after Holm |",
            "|---|---|---|---|---|---|",
        )
        for place, (name, _) in enumerate(chosen):
            said = "| | | |"
            if place:
                interval = f"{test.low[place, 0]:+.4f} to {test.high[place, 0]:+.4f}"
                numbers = f"{test.p_values[place, 0]:.2g} | {test.adjusted[place, 0]:.2g} |"
                said = f"{test.differences[place, 0]:+.4f} | {interval} | {numbers}"
            yield f"| {name} | {values[place].mean():.4f} | {said}"
        yield ""


PARTS = {"xgboost": xgboost, "networks": networks}

if __name__ == "__main__":
    sys.exit(
        write_page("bench.engine_results", "The same losses on other engines", PARTS, repeats=2)
    )
