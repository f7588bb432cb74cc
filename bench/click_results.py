"""Rankers trained on biased clicks, with and without propensities, tested on true labels.

Writes docs/results/clicks.md; run with `make results` (about ten minutes of one core).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import folds_of
from bench.measured_page import Lines, watched, write_page
from tautrank.data import RankingData, Splits
from tautrank.significance.systems import systems_test
from tautrank.simulate import simulate_position_clicks

USERS = (2, 10, 100)
REPEATS = 5
METRICS = ("ndcg@5", "ndcg@10")
# Users who look at a document click it by its label 0, 1 or 2.
CLICKS = (0.05, 0.5, 0.95)
LOGGED = 0.03
LOSSES = ("listnet", "xendcg")
SYSTEMS = tuple((loss, corrected) for loss in LOSSES for corrected in (False, True))
TREES: dict[str, Any] = {
    "n_estimators": 50,
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_child_samples": 50,
}
QUIET: dict[str, Any] = {"n_jobs": 1, "verbose": 0}


def clicks(arguments: argparse.Namespace) -> Lines:
    """Every system on every fold and every number of users, with new clicks for every repeat."""
    folds = folds_of("mq2007")
    judges = [tr.metric(name) for name in METRICS]
    loggers = [_logger(fold) for fold in folds]
    shown = _values(
        [logger.predict(fold.test.X) for logger, fold in zip(loggers, folds, strict=True)],
        folds,
        judges,
    )
    labelled = np.array([_trained_on_labels(loss, folds, judges) for loss in LOSSES])
    yield from (
        f"MQ2007, five folds, {arguments.repeats} repeats. A weak ranker (20 small trees on {LOGGED:.0%} of the",
        "training queries) orders the lists that users see. A user looks at rank r with probability 1/r and clicks a",
        f"document of label 0, 1 or 2 with probability {', '.join(map(str, CLICKS))} if they look at it. Rankers of",
        "50 trees are trained on these clicks (one list per query, all users together), without and with propensities,",
        "and tested on the true labels of the test queries. Each repeat has new clicks. The p-values are those of",
        "`systems_test` for the two rankers of one loss, over queries and repeats, before and after Holm's correction",
        "over all pairs; the interval is at 95 %.",
        "",
        f"The weak ranker itself reaches {_means(shown, judges)}; trained on the true labels,",
        *(
            f"`{loss}` reaches {_means(values, judges)}."
            for loss, values in zip(LOSSES, labelled, strict=True)
        ),
        "",
    )
    for users in USERS:
        runs = [
            [
                _trained_on_clicks(system, folds, loggers, judges, users, repeat)
                for system in SYSTEMS
            ]
            for repeat in watched(range(arguments.repeats), f"{users} users")
        ]
        values = np.array(runs).transpose(2, 1, 0, 3)  # metric, system, repeat, query
        yield from (
            f"## {users} users per list",
            "",
            "| metric | loss | without propensities | with propensities | difference | interval | p | p after Holm |",
            "|---|---|---|---|---|---|---|---|",
        )
        for judge, of_metric in zip(judges, values, strict=True):
            test = systems_test(of_metric)
            means = np.nanmean(of_metric, axis=(1, 2))
            for loss in LOSSES:
                plain, corrected = SYSTEMS.index((loss, False)), SYSTEMS.index((loss, True))
                at = corrected, plain
                interval = f"{test.low[at]:+.4f} to {test.high[at]:+.4f}"
                yield (
                    f"| {judge} | `{loss}` | {means[plain]:.4f} | {means[corrected]:.4f} | {test.differences[at]:+.4f} "
                    f"| {interval} | {test.p_values[at]:.2g} | {test.adjusted[at]:.2g} |"
                )
        smallest = systems_test(values[0])
        yield from (
            "",
            f"Smallest difference found with 80 % power in {judges[0]}: {smallest.detectable:.4f}.",
            "",
        )
    yield from (
        "A propensity makes the training unbiased and its gradients noisier: a click at rank 20 counts as much as",
        "twenty at the top. With few clicks the noise may cost more than the bias did.",
        "",
    )


def _logger(fold: Splits) -> tr.Ranker:
    few, _ = fold.train.split([LOGGED, 1 - LOGGED], seed=0)
    small = {"n_estimators": 20, "learning_rate": 0.1, "num_leaves": 4, "min_child_samples": 5}
    return tr.Ranker("lambdarank", **small, **QUIET).fit(few)


def _trained_on_labels(loss: str, folds: list[Splits], judges: list[Any]) -> Any:
    rankers = [tr.Ranker(loss, **TREES, **QUIET).fit(fold.train) for fold in folds]
    return _values(
        [ranker.predict(fold.test.X) for ranker, fold in zip(rankers, folds, strict=True)],
        folds,
        judges,
    )


def _trained_on_clicks(
    system: tuple[str, bool],
    folds: list[Splits],
    loggers: list[tr.Ranker],
    judges: list[Any],
    users: int,
    repeat: int,
) -> Any:
    loss, corrected = system
    scores = []
    for number, (fold, logger) in enumerate(zip(folds, loggers, strict=True)):
        seen, propensities = simulate_position_clicks(
            fold.train,
            logger.predict(fold.train.X),
            users,
            probabilities=CLICKS,
            merged=True,
            seed=5 * repeat + number,
        )
        # Linear in the label, or in 2^label: the mean of the losses of all users.
        labels = np.log2(1 + seen.labels) if loss == "xendcg" else seen.labels
        data = RankingData(seen.X, labels, seen.offsets, seen.qids, seen.feature_names)
        ranker = tr.Ranker(loss, random_state=repeat, **TREES, **QUIET)
        ranker.fit(data, propensities=propensities if corrected else None)
        scores.append(ranker.predict(fold.test.X))
    return _values(scores, folds, judges)


def _values(scores: list[Any], folds: list[Splits], judges: list[Any]) -> Any:
    """The metrics of every test query of all folds, ``[metric, query]``."""
    pairs = list(zip(scores, (fold.test for fold in folds), strict=True))
    return np.array(
        [
            np.concatenate([j.per_query(s, test.labels, test.offsets) for s, test in pairs])
            for j in judges
        ]
    )


def _means(values: Any, judges: list[Any]) -> str:
    return " and ".join(
        f"{judge} {np.nanmean(of):.4f}" for judge, of in zip(judges, values, strict=True)
    )


if __name__ == "__main__":
    sys.exit(
        write_page(
            "bench.click_results",
            "Clicks and propensities",
            {"clicks": clicks},
            tune=0,
            repeats=REPEATS,
        )
    )
