"""`tautrank.compare`: which loss wins on this data, and whether the win is real."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tautrank.data import RankingData, Splits
from tautrank.experiments.comparison import DEFAULT_REPEATS, make_plan, overlap_of, part_sizes, run_comparison
from tautrank.experiments.fit_best import Progress
from tautrank.experiments.unit_store import UnitStore
from tautrank.metrics import Metric
from tautrank.report.comparison import Comparison

DEFAULT_LOSSES = (
    "lightgbm:lambdarank",
    "lambdarank",
    "ndcg-loss2++",
    "xendcg",
    "stochasticrank",
    "listnet",
    "ranknet",
    "mse",
)
DEFAULT_METRICS = ("ndcg@5", "ndcg@10", "map")


def compare(
    train: RankingData,
    valid: RankingData | None,
    test: RankingData,
    *,
    losses: Sequence[Any] = DEFAULT_LOSSES,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    repeats: int = DEFAULT_REPEATS,
    vary: str = "splits",
    seed: int = 0,
    tune: int = 0,
    alpha: float = 0.05,
    store: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    **parameters: Any,
) -> Comparison:
    """Train every loss on the same data, several times, and say which differences are real.

    Args:
        train, valid, test: `valid` None holds a fifth of the training queries out.
        losses: what :class:`Ranker` takes; peers too, such as ``"lightgbm:lambdarank"``; or a
            `tautrank.experiments.comparison.System`, a loss with parameters of its own.
        metrics: the first one stops training early; all are reported.
        repeats: how often to train each; one training says nothing of what another seed or split would give.
        vary: ``"splits"`` divides training and validation queries anew in each repeat, ``"seeds"`` changes only the
            seed.
        seed: where all randomness starts.
        tune: choose among this many random configurations by validation score, the same for all losses; 0 for none.
        alpha: level of significance.
        store: a folder for finished trainings; a re-run goes on where the last one stopped.
        n_jobs, workers: threads in all, and processes that train side by side.
        progress: called with (finished, all, what is trained now).
        parameters: given to every :class:`Ranker`, such as ``n_estimators=300``.

    >>> from tautrank.simulate import simulate_web_search
    >>> train, valid, test = simulate_web_search(60, n_features=16, mean_length=15).split([.5, .25, .25])
    >>> result = compare(train, valid, test, losses=["mse", "listnet"], metrics=["ndcg@5"], repeats=2, n_estimators=5)
    >>> [system.name for system in result.systems]
    ['mse', 'listnet']
    """
    return compare_splits(
        [Splits(train, valid, test)],
        losses,
        metrics,
        alpha,
        store,
        progress,
        repeats=repeats,
        vary=vary,
        seed=seed,
        tune=tune,
        n_jobs=n_jobs,
        workers=workers,
        parameters=parameters,
    )


def compare_splits(
    splits: Sequence[Splits],
    losses: Sequence[Any],
    metrics: Sequence[str | Metric],
    alpha: float = 0.05,
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """The same over several folds: every test query counts once a repeat. Options as those of `compare`."""
    plan = make_plan(losses, metrics, **options)
    systems = run_comparison(plan, splits, UnitStore(store), progress)
    return Comparison(plan, tuple(systems), overlap_of(plan, splits), alpha, part_sizes(splits))
