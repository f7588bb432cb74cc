"""`tautrank.tune`: the parameters that rank best on your validation data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tautrank.arguments import choice
from tautrank.data import RankingData
from tautrank.experiments.fit_best import Progress
from tautrank.experiments.tuning_plan import TuningPlan, make_tuning_plan
from tautrank.experiments.tuning_search import REFITS, Budget, best_of, refitted, run_search
from tautrank.experiments.tuning_store import checked_path, require_optuna
from tautrank.losses import Loss
from tautrank.metrics import Metric
from tautrank.report.tuning import Tuning


def tune(
    train: RankingData,
    valid: RankingData,
    *,
    loss: str | Loss | Sequence[str | Loss] = "lambdarank",
    metric: str | Metric = "ndcg@10",
    n_trials: int = 50,
    sampler: str = "random",
    space: str | Mapping[str, Any] | None = None,
    storage: str | os.PathLike[str] | None = None,
    prune: bool = True,
    n_jobs: int | None = None,
    workers: int = 1,
    seed: int = 0,
    timeout: float | None = None,
    refit: str | None = "train",
    progress: Progress | None = None,
    **fixed: Any,
) -> Tuning:
    """Search for the parameters that rank best on the validation data, with Optuna.

    Every trial trains on `train` and is judged by its best validation value of `metric`; test data is not asked for.
    Random trials are a function of `seed` and of their number, so a search that was stopped and goes on, or is given
    more trials later, is the same as one that ran in one go. So is one by ``tpe``, with one worker. Pruning compares
    curves with those of trials before, so with several workers what is pruned depends on who is first.

    Akiba et al., *Optuna: A Next-generation Hyperparameter Optimization Framework*, KDD 2019; Bergstra and Bengio,
    *Random Search for Hyper-Parameter Optimization*, JMLR 2012; Bergstra et al., *Algorithms for Hyper-Parameter
    Optimization*, NIPS 2011 (``tpe``); Golovin et al., *Google Vizier*, KDD 2017 (stopping by the median).

    Args:
        train, valid: what to train and to judge on.
        loss: what `Ranker` takes, or several to choose from.
        metric: what is optimised, and stops each training early.
        n_trials: trials in all, those that the storage holds included.
        sampler: ``"random"``, or ``"tpe"``, which looks where it was good before.
        space: ranges by name: parameters of `Ranker` and of its engine, ``loss.NAME`` for those of the loss,
            ``langevin.temperature`` and ``langevin.shrink_rate``; each ``("float", low, high)`` or ``("int", low,
            high)``, with ``"log"`` behind if wanted, or ``("choice", a, b, ...)``. Or the name of a space:
            ``"default"`` (also None: tree parameters, and those of the loss that matter), ``"trees"``, or
            ``"stochasticrank"``, that paper's. A space with a name leaves out what is fixed.
        storage: a file for all trials, to go on from; SQLite, or text where it ends in ``.log`` or ``.journal``.
        prune: stop a trial when its best value, from a quarter of the trees on, is below the median of what trials
            that were trained to the end had after as many trees. The first five are never stopped.
        n_jobs, workers: threads in all, and processes that train side by side.
        seed: where all randomness starts, that of the trainings too.
        timeout: seconds; no trial starts after it, and those under way are given up.
        refit: ``"train"`` trains the best model again, for `Tuning.ranker`; ``"train+valid"`` lets it learn from the
            validation data too, with as many trees; None trains none.
        progress: called with (ended trials, all, what ended last).
        **fixed: parameters of `Ranker` that are the same in all trials; 500 trees at most and 50 rounds of early
            stopping, unless given here or in `space`.

    Returns:
        A `Tuning`: ``best_params``, ``best_score``, ``trials``, ``ranker``, ``table()``, ``to_csv()``, ``to_dict()``.

    >>> from tautrank.simulate import simulate_web_search
    >>> train, valid = simulate_web_search(60, n_features=16, mean_length=10).split([0.7, 0.3])
    >>> space = {"num_leaves": ("int", 2, 15), "loss.k": ("choice", 5, None)}
    >>> found = tune(train, valid, space=space, n_trials=3, n_estimators=5, n_jobs=1)
    >>> found.best_score == max(trial.outcome.score for trial in found.trials)
    True
    >>> found.ranker.score(valid) == found.best_score
    True
    """
    plan, budget = tuning_plan(
        loss=loss,
        metric=metric,
        n_trials=n_trials,
        sampler=sampler,
        space=space,
        storage=storage,
        prune=prune,
        n_jobs=n_jobs,
        workers=workers,
        seed=seed,
        timeout=timeout,
        refit=refit,
        **fixed,
    )
    records = run_search(plan, train, valid, budget, storage, progress)
    best = best_of(plan, records)
    assert best is not None
    ranker = None if refit is None else refitted(plan, best, train, valid, refit, n_jobs)
    return Tuning(plan, tuple(records), ranker)


def tuning_plan(
    *,
    loss: Any,
    metric: Any,
    space: Any,
    sampler: str,
    prune: bool,
    seed: int,
    n_trials: int,
    timeout: float | None,
    n_jobs: int | None,
    workers: int,
    storage: str | os.PathLike[str] | None,
    refit: str | None,
    **fixed: Any,
) -> tuple[TuningPlan, Budget]:
    """Check the arguments of `tune`, all but the data."""
    require_optuna()
    if refit is not None:
        choice("refit", refit, REFITS)
    checked_path(storage)
    budget = Budget(n_trials, timeout, n_jobs, workers)
    return make_tuning_plan(loss, metric, space, fixed, sampler=sampler, prune=prune, seed=seed), budget
