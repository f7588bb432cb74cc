"""Systems that may all grow as many trees: a tool spends them on configurations, a committee on
members.

A trial trains one system on one fold. It keeps what each of its models reaches, and what their sum
reaches, each divided by the spread of its scores within the training queries as the members of a
committee are.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import KEPT
from bench.measured_page import store_of
from tautrank.arguments import job_count
from tautrank.arrays import F64
from tautrank.commands.output import show_trainings
from tautrank.data import RankingData, Splits
from tautrank.engines import Task
from tautrank.engines.member_factors import member_factors
from tautrank.engines.task import DEFAULT_COMMITTEE
from tautrank.errors import DataError
from tautrank.experiments.data_source import MEMORY, fingerprint_of
from tautrank.experiments.plan import trial_key
from tautrank.experiments.protocols import Draw, GivenSplits, part_sizes
from tautrank.experiments.space import parameters_of, random_configurations
from tautrank.experiments.store import DONE, Store, Trial
from tautrank.experiments.trial import TrialContext
from tautrank.experiments.workers import run_trials
from tautrank.json_values import or_nan, or_none
from tautrank.metrics import Metric

PROTOCOL = GivenSplits("splits")


@dataclass(frozen=True)
class Contender:
    """A system and what it spends the budget on.

    Args:
        name: the name in tables.
        loss: as `Ranker` takes it.
        configurations: the number of models; the first has the parameters below, the others random
            ones on top.
        parameters: parameters of its `Ranker`.
    """

    name: str
    loss: str
    configurations: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What a contender reaches on all folds, repeat by repeat.

    Args:
        best: values per test query of the model that validates best, ``[repeats, queries]`` by
            metric.
        added: those of the sum of its models.
        grown: trees grown by a training, on average; of all models.
        trees: trees of the model that validates best.
        all_trees: trees of all models.
        seconds: seconds of processor time of a training.
    """

    best: dict[str, F64]
    added: dict[str, F64]
    grown: float
    trees: float
    all_trees: float
    seconds: float


def trials_of(
    contenders: Sequence[Contender],
    splits: Sequence[Splits],
    metrics: Sequence[str],
    repeats: int,
    parameters: Any,
) -> dict[str, list[list[Trial]]]:
    """The trials of every contender, repeat by repeat and fold by fold."""
    marks = [fingerprint_of(each) for each in splits]
    found: dict[str, list[list[Trial]]] = {}
    for contender in contenders:
        found[contender.name] = [[] for _ in range(repeats)]
        for repeat, (fold, mark) in itertools.product(range(repeats), enumerate(marks, 1)):
            drawn = random_configurations(contender.configurations - 1, (0, repeat, fold))
            spec = {
                "tautrank": tr.__version__,
                "data": {"given": [MEMORY], "fold": fold, "fingerprint": mark},
                "trial": repeat,
                "seed": 1000 * repeat,
                "metrics": list(metrics),
                "loss": contender.loss,
                "parameters": {**parameters, **contender.parameters},
                "configurations": [
                    {},
                    *({k: v for k, v in one.items() if k not in parameters} for one in drawn),
                ],
                **({"of": DEFAULT_COMMITTEE} if contender.loss == "committee" else {}),
                **({"stops": "together"} if contender.loss.startswith("committee") else {}),
            }
            title = f"repeat {repeat + 1}, fold {fold}, {contender.name}"
            found[contender.name][repeat].append(Trial(repeat, trial_key(spec), spec, title))
    return found


def train(spec: Mapping[str, Any], context: TrialContext) -> dict[str, Any]:
    """Train every configuration; judge each of them, and their sum."""
    data, repeat = spec["data"], spec["trial"]
    draw = Draw(repeat, 0, spec["seed"], data["fold"])
    splits = PROTOCOL.divide(context.data[data["fingerprint"]], draw)
    assert splits.valid is not None
    metrics = [tr.metric(name) for name in spec["metrics"]]
    each, models, scores = [], [], []
    for number, configuration in enumerate(spec["configurations"]):
        start, trees = time.process_time(), itertools.count()
        fixed = {
            "random_state": spec["seed"] + number,
            "n_jobs": 1,
            "verbose": 0,
            **spec["parameters"],
        }
        ranker = tr.Ranker(
            metric=metrics[0], **parameters_of({"loss": spec["loss"], **configuration}, fixed)
        )
        ranker.fit(splits.train, splits.valid, callbacks=[partial(_counted, trees)])
        seconds = time.process_time() - start
        models.append(ranker.model_)
        scores.append(ranker.predict(splits.test))
        # A committee also reports its sum, once.
        grown = next(trees) - spec["loss"].startswith("committee")
        each.append(
            {
                "configuration": configuration,
                "valid": or_none(ranker.score(splits.valid)),
                "test": _judged(scores[-1], splits.test, metrics),
                "trees": int(ranker.n_trees_),
                "grown": grown,
                "seconds": seconds,
            }
        )
    if len(each) == 1:
        return {"each": each}
    factors = member_factors(models, Task(splits.train, tr.loss("mse"), metrics[0]))
    return {"each": each, "added": _judged(factors @ np.array(scores), splits.test, metrics)}


def _counted(trees: Iterator[int], _: Any) -> bool:
    next(trees)
    return False


def _judged(
    scores: F64, test: RankingData, metrics: Sequence[Metric]
) -> dict[str, list[float | None]]:
    return {
        str(m): [or_none(x) for x in m.per_query(scores, test.labels, test.offsets).tolist()]
        for m in metrics
    }


def measured(
    title: str,
    splits: Sequence[Splits],
    contenders: Sequence[Contender],
    metrics: Sequence[str],
    repeats: int,
    parameters: Mapping[str, Any],
    *,
    only_finished: bool = False,
) -> dict[str, Measured]:
    """Train what is not kept yet, unless only what is finished is asked for; return what is
    complete.
    """
    planned = trials_of(contenders, splits, metrics, repeats, parameters)
    held = dict(zip((fingerprint_of(each) for each in splits), splits, strict=True))
    if only_finished and not store_of(title).is_file():
        return {}
    KEPT.mkdir(parents=True, exist_ok=True)
    with Store(store_of(title), kind="budgets") as store:
        if not only_finished:
            _train_waiting(title, planned, TrialContext(data=held), store)
        results = {
            trial.key: json.loads(outcome.result)
            for trial, outcome in store.finished()
            if outcome.status == DONE
        }
    return {
        name: _gathered([[results[trial.key] for trial in folds] for folds in by_repeat], metrics)
        for name, by_repeat in planned.items()
        if all(trial.key in results for folds in by_repeat for trial in folds)
    }


def _train_waiting(
    title: str, planned: Mapping[str, list[list[Trial]]], context: TrialContext, store: Store
) -> None:
    # Whole repeats first, so that a run that is stopped has something to compare.
    rows = zip(
        *([trial for folds in by_repeat for trial in folds] for by_repeat in planned.values()),
        strict=True,
    )
    trials = [trial for row in rows for trial in row]
    with store.running(), show_trainings() as progress:
        statuses = store.statuses()
        waiting = [trial for trial in trials if statuses.get(trial.key) != DONE]
        done = len(trials) - len(waiting)
        for trial, outcome in run_trials(job_count(None), train, waiting, context):
            if outcome.status != DONE:
                raise DataError(f"{title}, {trial.title}: {outcome.error}")
            store.record(trial, outcome)
            done += 1
            progress.update(done, len(trials), f"{title} {trial.title}")


def _gathered(by_repeat: Sequence[Sequence[dict[str, Any]]], metrics: Sequence[str]) -> Measured:
    def values(of: Callable[[dict[str, Any]], dict[str, list[float | None]]]) -> dict[str, F64]:
        return {
            m: np.array(
                [[or_nan(x) for fold in folds for x in of(fold)[m]] for folds in by_repeat],
                np.float64,
            )
            for m in metrics
        }

    def best(fold: dict[str, Any]) -> dict[str, Any]:
        return max(
            fold["each"], key=lambda one: -math.inf if one["valid"] is None else one["valid"]
        )

    folds = [fold for row in by_repeat for fold in row]
    return Measured(
        best=values(lambda fold: best(fold)["test"]),
        added=values(lambda fold: fold["added"]) if "added" in folds[0] else {},
        grown=float(np.mean([sum(one["grown"] for one in fold["each"]) for fold in folds])),
        trees=float(np.mean([best(fold)["trees"] for fold in folds])),
        all_trees=float(np.mean([sum(one["trees"] for one in fold["each"]) for fold in folds])),
        seconds=float(np.mean([sum(one["seconds"] for one in fold["each"]) for fold in folds])),
    )


def overlap(splits: Sequence[Splits]) -> float:
    """Held out over trained on, since every repeat divides training and validation queries
    again.
    """
    return float(np.mean([PROTOCOL.overlap(part_sizes(each)) for each in splits]))
