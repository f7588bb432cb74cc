"""How long a training takes until it ranks as well as LightGBM's own lambdarank does at its end.

All trainings have the same leaves, learning rate and number of trees. What counts is the processor time of one thread,
binning and judging included: on a shared machine it is steadier than the clock.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import data_folder
from bench.side_by_side import Claims
from tautrank.data import Splits
from tautrank.engines.base import Step

TREES, RATE, LEAVES = 100, 0.1, 127
REFERENCE = "lightgbm:lambdarank"
# Name, loss, parameters; the reference first.
SYSTEMS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("LightGBM's lambdarank", REFERENCE, {}),
    ("LightGBM's lambdarank, fast", REFERENCE, {"speed": "fast"}),
    ("lambdarank", "lambdarank", {}),
    ("lambdarank, fast", "lambdarank", {"speed": "fast"}),
    ("ndcg-loss2++, fast", "ndcg-loss2++", {"speed": "fast"}),
    ("xendcg, fast", "xendcg", {"speed": "fast"}),
)


def simulated(queries: int = 1800) -> Splits:
    """Synthetic web search: 1,800 training queries are 216 thousand documents of 136 features."""
    data = tr.simulate.simulate_web_search(2 * queries, n_features=136, mean_length=120, seed=3)
    return Splits(*data.split([0.5, 0.25, 0.25], seed=0))


def msrd() -> Splits:
    return tr.read_folder(data_folder() / "msrd", 1)


DATA = {"simulated": simulated, "MSRD": msrd}


def trained(splits: Splits, loss: str, trees: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """Train once; the seconds and the validation value after each tree, and the test value of each query."""
    times: list[float] = []

    def note(step: Step) -> None:
        times.append(time.process_time() - start)

    how = {"n_estimators": trees, "learning_rate": RATE, "num_leaves": LEAVES, "early_stopping_rounds": None}
    ranker = tr.Ranker(loss=loss, metric="ndcg@10", n_jobs=1, verbose=0, **how, **parameters)
    start = time.process_time()
    ranker.fit(splits.train, splits.valid, callbacks=[note])
    test = tr.metric("ndcg@10").per_query(ranker.predict(splits.test), splits.test.labels, splits.test.offsets)
    return {"seconds": times, "valid": ranker.evals_result_["valid"]["ndcg@10"], "test": test}


def curves(name: str, splits: Splits, trees: int = TREES) -> dict[str, dict[str, Any]]:
    """All systems on one data set, after one short training of each that compiles and warms up."""
    few = splits.train.subset(np.arange(min(200, splits.train.n_queries)))
    found = {}
    for system, loss, parameters in SYSTEMS:
        trained(Splits(few, few, few), loss, 2, parameters)
        found[system] = trained(splits, loss, trees, parameters)
        last = found[system]
        said = f"{name} {system}: {last['seconds'][-1]:.1f} s, valid {last['valid'][-1]:.4f}"
        print(f"{said}, test {np.nanmean(last['test']):.4f}", file=sys.stderr, flush=True)
    return found


def rows(name: str, found: dict[str, dict[str, Any]]) -> Claims:
    """Time to the reference's final validation value over its whole time, and the difference on test queries."""
    reference = next(iter(found.values()))
    goal, total = reference["valid"][-1], reference["seconds"][-1]
    judged = [~np.isnan(reference["test"])]
    tested = tr.systems_test(np.array([[each["test"][judged[0]]] for each in found.values()]), baseline=0)
    shares, worse = {}, {}
    for at, (system, each) in enumerate(found.items()):
        reached = next((s for s, value in zip(each["seconds"], each["valid"], strict=True) if value >= goal), None)
        shares[system] = np.inf if reached is None else reached / total
        difference = float(np.mean(each["test"][judged[0]] - reference["test"][judged[0]]))
        p = 1.0 if at == 0 else float(tested.p_values[at, 0])
        worse[system] = difference < 0 and p < 0.05
        what = f"{name}, {system}: to NDCG@10 {goal:.4f} on validation data (all {len(each['valid'])} trees: "
        what += (
            f"{each['seconds'][-1] / total:.2f}x, end at {each['valid'][-1]:.4f}; test {difference:+.4f}, p {p:.2f})"
        )
        yield what, "not reached" if reached is None else f"{shares[system]:.2f}x", "reported", True
    best = min((system for system in shares if not system.startswith("LightGBM")), key=shares.__getitem__)
    for what, system, limit in (("the best of our losses", best, 0.4), ("lambdarank, fast", "lambdarank, fast", 0.6)):
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
    splits = simulated(given.queries) if given.queries else DATA[given.data]()
    json.dump(list(rows(given.data, curves(given.data, splits, given.trees))), sys.stdout, indent=1, default=bool)


if __name__ == "__main__":
    main()
