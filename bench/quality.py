"""How long a training takes until it ranks as well as LightGBM's own lambdarank does at its end.

All trainings have the same leaves and learning rate. What counts is the processor time of one
thread, binning included: on a shared machine it is steadier than the clock. Every fifth tree is
judged after the training, on thousands of validation queries: on 900, differences between such
models are mostly chance. MSRD is trained on its five folds: seconds are added up, and every query
validates one of the five models and tests another.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import folds_of
from bench.side_by_side import Claims
from tautrank.arrays import F64
from tautrank.compat import LGBMRanker
from tautrank.data import Splits
from tautrank.engines import Step

TREES, MOST_TREES, RATE, LEAVES = 100, 120, 0.1, 127
EVERY = 5
REFERENCE = "lightgbm:lambdarank"
# As LightGBM's own has it: with it, a training learns more from its first trees.
NORMALISED = "lambdarank(norm=lightgbm)"
# Name, loss, parameters; the reference first.
SYSTEMS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("LightGBM's lambdarank", REFERENCE, {}),
    ("LightGBM's lambdarank, fast", REFERENCE, {"speed": "fast"}),
    ("lambdarank, fast", NORMALISED, {"speed": "fast"}),
    ("lambdarank without norm, fast", "lambdarank", {"speed": "fast"}),
    ("ndcg-loss2++, fast", "ndcg-loss2++", {"speed": "fast"}),
    ("xendcg, fast", "xendcg", {"speed": "fast"}),
)


def simulated(queries: int = 1800) -> list[Splits]:
    """Synthetic web search: 1,800 training queries are 216 thousand documents of 136 features."""
    data = tr.simulate.simulate_web_search(5 * queries, n_features=136, mean_length=120, seed=3)
    return [Splits(*data.split([0.2, 0.4, 0.4], seed=0))]


DATA = {"simulated": simulated, "MSRD": partial(folds_of, "msrd")}


def trained_on(
    splits: Splits, loss: str, trees: int, parameters: dict[str, Any]
) -> tuple[F64, F64, F64]:
    """Train once: after every fifth tree, the seconds, and the value of each validation and of each
    test query.
    """
    times: list[float] = []

    def note(step: Step) -> None:
        times.append(time.process_time() - start)

    how = {
        "n_estimators": trees,
        "learning_rate": RATE,
        "num_leaves": LEAVES,
        "early_stopping_rounds": None,
    }
    ranker = LGBMRanker(loss=loss, metric="ndcg@10", n_jobs=1, verbose=0, **how, **parameters)
    start = time.process_time()
    ranker.fit(splits.train, callbacks=[note])
    at = range(min(EVERY, trees), trees + 1, EVERY)
    metric = tr.metric("ndcg@10")
    valid, test = (
        np.array(
            [
                metric.per_query(ranker.predict(part, num_iteration=n), part.labels, part.offsets)
                for n in at
            ]
        )
        for part in (splits.valid, splits.test)
    )
    return np.array([times[n - 1] for n in at]), valid, test


def trained(folds: Sequence[Splits], *how: Any) -> dict[str, Any]:
    """Train on every fold: the seconds of all, the validation value over all, and the test value of
    each query.
    """
    seconds, valid, test = zip(*(trained_on(splits, *how) for splits in folds), strict=True)
    means = np.nanmean(np.concatenate(valid, axis=1), axis=1)
    return {
        "seconds": np.sum(seconds, axis=0).tolist(),
        "valid": means.tolist(),
        "test": np.concatenate(test, axis=1),
    }


def curves(name: str, folds: Sequence[Splits], trees: int = TREES) -> dict[str, dict[str, Any]]:
    """All systems on one data set, after one short training of each that compiles and warms up."""
    few = folds[0].train.subset(np.arange(min(200, folds[0].train.n_queries)))
    found = {}
    for system, loss, parameters in SYSTEMS:
        trained([Splits(few, few, few)], loss, 2, parameters)
        more = trees if not found else trees * MOST_TREES // TREES
        last = found[system] = trained(folds, loss, more, parameters)
        said = f"{name} {system}: {last['seconds'][-1]:.1f} s, valid {last['valid'][-1]:.4f}"
        print(f"{said}, test {np.nanmean(last['test'][-1]):.4f}", file=sys.stderr, flush=True)
    return found


def rows(name: str, found: dict[str, dict[str, Any]]) -> Claims:
    """Time to the reference's final validation value over its whole time; that model's difference
    on test queries.
    """
    reference = next(iter(found.values()))
    goal, total = reference["valid"][-1], reference["seconds"][-1]
    # The model that first ranks as well, or the last one.
    reached = [
        next((i for i, value in enumerate(each["valid"]) if value >= goal), -1)
        for each in found.values()
    ]
    tests = np.array(
        [each["test"][at] for each, at in zip(found.values(), (-1, *reached[1:]), strict=True)]
    )
    tests = tests[:, ~np.isnan(tests[0])]
    tested = tr.systems_test(tests[:, np.newaxis], baseline=0)
    shares, worse = {}, {}
    for i, (system, each) in enumerate(found.items()):
        shares[system] = np.inf if reached[i] < 0 else each["seconds"][reached[i]] / total
        difference = float(np.mean(tests[i] - tests[0]))
        p = 1.0 if i == 0 else float(tested.p_values[i, 0])
        worse[system] = difference < 0 and p < 0.05
        every = EVERY * len(each["valid"])
        trees = every if reached[i] < 0 else EVERY * (reached[i] + 1)
        what = f"{name}, {system}: to NDCG@10 {goal:.4f} on validation data ({trees} trees; all {every} "
        what += f"{each['seconds'][-1] / total:.2f}x, to {each['valid'][-1]:.4f}; test {difference:+.4f}, p {p:.2f})"
        yield what, "not reached" if reached[i] < 0 else f"{shares[system]:.2f}x", "reported", True
    best = min(
        (system for system in shares if not system.startswith("LightGBM")), key=shares.__getitem__
    )
    for what, system, limit in (
        ("the best of our losses", best, 0.4),
        ("lambdarank, fast", "lambdarank, fast", 0.6),
    ):
        share = shares[system]
        said = f"{share:.2f}x" if np.isfinite(share) else "not reached"
        end = ", worse on test" if worse[system] else ""
        yield (
            f"{name}, {what} ({system})",
            said + end,
            f"at most {limit:g}x, not worse",
            share <= limit and not worse[system],
        )


def claims() -> Claims:
    for name, make in DATA.items():
        yield from rows(name, curves(name, make()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=DATA)
    parser.add_argument("--trees", type=int, default=TREES)
    parser.add_argument("--queries", type=int, help="number of simulated training queries")
    given = parser.parse_args()
    folds = simulated(given.queries) if given.queries else DATA[given.data]()
    json.dump(
        list(rows(given.data, curves(given.data, folds, given.trees))),
        sys.stdout,
        indent=1,
        default=bool,
    )


if __name__ == "__main__":
    main()
