"""Memory and time of one trial of a study on synthetic data of WEB30K's size."""

from __future__ import annotations

import json
import sys
import time

from bench.side_by_side import Claims, alone, peak_memory
from tautrank.arguments import job_count

# Fold 1 of WEB30K trains on 18,919 queries.
_DATA = "simulated:mslr:18919"
_STUDY, _SYSTEM, _TREES = "lambdaloss-table4", "ndcg-loss2++", 100


def generate() -> dict[str, float]:
    from tautrank.experiments.data_source import read_source

    start = time.perf_counter()
    data = read_source(_DATA).read()
    return {
        "seconds": time.perf_counter() - start,
        "peak": peak_memory() / 2**30,
        "features": data.X.nbytes / 2**30,
        "queries": data.n_queries,
        "documents": data.n_documents,
        "columns": data.n_features,
    }


def trial() -> dict[str, float]:
    from tautrank.experiments.plan import Budget
    from tautrank.experiments.trial import run_trial
    from tautrank.papers.catalogue import find_study
    from tautrank.papers.plan import make_plan

    budget = Budget(repeats=1, trees=_TREES)
    plan = make_plan(
        find_study(_STUDY), _DATA, budget=budget, recipe="web30k", n_jobs=job_count(None)
    )
    spec = next(one.spec for one in plan.trials() if one.spec["system"] == _SYSTEM)
    start = time.perf_counter()
    result = run_trial(spec)
    return {
        "seconds": time.perf_counter() - start,
        "peak": peak_memory() / 2**30,
        "trees": result["trees"],
        "queries": result["queries"]["train"],
        "ndcg": next(iter(result["means"]["test"].values())),
    }


def claims() -> Claims:
    made = alone("-m", "bench.study_size", "generate")
    size = f"{made['queries']:,} queries, {made['documents'] / 1e6:.2f} M documents, {made['columns']} features"
    yield (
        f"synthetic data of WEB30K's size ({size})",
        f"{made['seconds']:.0f} s, peak {made['peak']:.1f} GiB for {made['features']:.1f} GiB of features",
        "reported",
        True,
    )
    ran = alone("-m", "bench.study_size", "trial")
    yield (
        f"one trial of {_STUDY} on it: {_SYSTEM}, {ran['trees']} trees, trained on {ran['queries']:,} queries",
        f"{ran['seconds']:.0f} s with reading and testing, peak {ran['peak']:.1f} GiB, test NDCG@5 {ran['ndcg']:.3f}",
        "reported",
        True,
    )


if __name__ == "__main__":
    print(json.dumps({"generate": generate, "trial": trial}[sys.argv[1]]()))
