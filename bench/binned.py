"""What a comparison saves by binning each split once: the same comparison with and without
sharing.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import tautrank as tr
from bench.side_by_side import Claims
from tautrank.data import Splits
from tautrank.engines.lightgbm_binning import LightGBMBinning

LOSSES = (
    "lightgbm:lambdarank",
    "lambdarank",
    "ndcg-loss1",
    "ndcg-loss2++",
    "ranknet",
    "listnet",
    "xendcg",
    "mse",
)
QUERIES, LENGTH, FEATURES, REPEATS, TREES = 6000, 120, 136, 3, 20
_MOST = 0.75


def compared(splits: Splits, repeats: int, *, shared: bool) -> tuple[float, int]:
    """Processor seconds of a comparison in this process, with one thread, and the number of
    binnings.
    """
    count = 0
    make = LightGBMBinning.make

    def counting(self: LightGBMBinning) -> Any:
        nonlocal count
        count += 1
        return make(self)

    with ExitStack() as stack:
        stack.enter_context(patch.object(LightGBMBinning, "make", counting))
        if not shared:
            stack.enter_context(patch("tautrank.engines.training.shared_bins", lambda: None))
        how = {
            "losses": LOSSES,
            "metrics": ["ndcg@10"],
            "repeats": repeats,
            "n_jobs": 1,
            "workers": 1,
        }
        start = time.process_time()
        tr.compare(*splits, **how, n_estimators=TREES, early_stopping_rounds=None)
        return time.process_time() - start, count


def claims(queries: int = QUERIES, repeats: int = REPEATS) -> Claims:
    data = tr.simulate.simulate_web_search(
        queries * 5 // 3, n_features=FEATURES, mean_length=LENGTH, seed=0
    )
    splits = Splits(*data.split([0.6, 0.2, 0.2], seed=0))
    few = splits.train.subset(range(100))
    compared(Splits(few, few, few), 1, shared=True)  # compiles
    (own, many), (shared, once) = (
        compared(splits, repeats, shared=is_shared) for is_shared in (False, True)
    )
    what = f"compare, {len(LOSSES)} losses x {repeats} repeats, {splits.train.n_documents:,} documents, {TREES} trees"
    yield (
        f"{what}: binnings (each training its own: {many})",
        f"{once}",
        f"at most {repeats}",
        once <= repeats,
    )
    ratio = shared / own
    yield (
        f"{what}: time ({shared:.0f} s / {own:.0f} s)",
        f"{ratio:.2f}x",
        f"at most {_MOST}x",
        ratio <= _MOST,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    for row in claims(given.queries, given.repeats):
        print(row, flush=True)


if __name__ == "__main__":
    main()
