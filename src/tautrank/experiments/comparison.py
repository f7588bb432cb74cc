"""Training several losses on the same data, several times, and asking which differences are real."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

import tautrank
from tautrank.arguments import choice, job_count, whole
from tautrank.data import RankingData, Splits
from tautrank.engines import DEFAULT_ENGINE, DEFAULTS, engine_for, read_loss
from tautrank.errors import DataError, OptionError
from tautrank.experiments.data_source import fingerprint
from tautrank.experiments.divide import HELD_OUT, hold_out
from tautrank.experiments.fit_best import Progress, train_best
from tautrank.experiments.processes import Ask, Lost, run_jobs
from tautrank.experiments.space import random_configurations
from tautrank.experiments.system import System
from tautrank.experiments.unit_store import UnitStore
from tautrank.json_values import or_nan, or_none
from tautrank.losses.own_losses import OwnLoss, import_own, own_losses, sendable
from tautrank.metrics import Metric, metric
from tautrank.significance.paired import holm
from tautrank.significance.repeated import repeated_runs_test

VARY = ("splits", "seeds")
DEFAULT_REPEATS = 5
_UNIT_VERSION = 1


@dataclass(frozen=True)
class Plan:
    """What a comparison does, apart from the data.

    Attributes:
        losses: what `Ranker` takes as `loss`, or a `System`; the same one twice is a self-comparison under other seeds.
        metrics: the first one stops training early and picks configurations, all of them are reported.
        repeats: how often every system is trained on every split.
        vary: what changes from one repeat to the next: ``"splits"`` divides training and validation queries anew (the
            first repeat keeps the division given), ``"seeds"`` changes only the random state.
        seed: where all randomness starts.
        parameters: given to every `Ranker`.
        tune: number of random configurations to choose from by validation score; 0 for none.
        n_jobs: threads in all.
        workers: processes that train side by side.
    """

    losses: tuple[str | System, ...]
    metrics: tuple[Metric, ...]
    repeats: int = DEFAULT_REPEATS
    vary: str = "splits"
    seed: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    tune: int = 0
    n_jobs: int | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        if not self.losses:
            raise OptionError("losses: found none; expected at least one, such as 'lambdarank'")
        if not self.metrics:
            raise OptionError("metrics: found none; expected at least one, such as 'ndcg@10'")
        for name, least in (("repeats", 1), ("seed", 0), ("tune", 0), ("workers", 1)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least))
        choice("vary", self.vary, VARY)

    def system(self, index: int) -> System:
        """One of the losses, as a system."""
        chosen = self.losses[index]
        return chosen if isinstance(chosen, System) else System(chosen)

    def occurrence(self, index: int) -> int:
        """How often the same system stands before this one."""
        return sum(self.system(i) == self.system(index) for i in range(index))

    def names(self) -> list[str]:
        """The systems as the table calls them: one that stands there twice is numbered."""
        names = list(map(str, self.losses))
        before = [names[:i].count(name) for i, name in enumerate(names)]
        return [f"{name} #{n + 1}" if n else name for name, n in zip(names, before, strict=True)]


@dataclass(frozen=True)
class Unit:
    """One system trained once: which split, which repeat, which of the plan's losses."""

    split: int
    repeat: int
    system: int


@dataclass(frozen=True)
class SystemResult:
    """What one system did in all repeats.

    Attributes:
        name: as in the table.
        values: per metric, float64 ``[repeats, queries]``; NaN where the metric skips a query.
        trees, seconds: of the model used, one for each repeat and split.
        valid: validation score of the model used, likewise.
        untuned: per metric, the test mean over all configurations tried, ``[repeats]``; None without tuning.
        histories: the first metric on the validation data after each tree of the model used, one list for each repeat
            and split; None where some training was stored without it.
        versions: of what trained, such as ``"lightgbm 4.7.0"``; empty where no stored training says.
    """

    name: str
    values: dict[str, npt.NDArray[np.float64]]
    trees: list[int]
    seconds: list[float]
    valid: list[float]
    untuned: dict[str, list[float]] | None
    histories: list[list[float]] | None = None
    versions: tuple[str, ...] = ()

    def means(self, name: str) -> npt.NDArray[np.float64]:
        """Mean of a metric over the queries, one for each repeat; NaN if every query was skipped."""
        values = self.values[name]
        used = values[:, ~np.isnan(values).any(axis=0)]
        return used.mean(axis=1) if used.shape[1] else np.full(values.shape[0], math.nan)


def make_plan(losses: Sequence[Any], metrics: Sequence[str | Metric], **options: Any) -> Plan:
    """Check what a user asked for and make a plan of it: a wrong name is said before anything is trained."""
    chosen = tuple(map(metric, metrics))
    options["parameters"] = {**DEFAULTS, **options.get("parameters", {})}
    plan = Plan(tuple(loss if isinstance(loss, System) else str(loss) for loss in losses), chosen, **options)
    for system in map(plan.system, range(len(plan.losses))):
        parameters = {**plan.parameters, **system.parameters}
        engine_for(str(parameters.get("engine", DEFAULT_ENGINE)), read_loss(system.loss))
    return plan


def run_comparison(
    plan: Plan, splits: Sequence[Splits], store: UnitStore, progress: Progress | None = None
) -> list[SystemResult]:
    """Train and judge every unit of the plan that the store does not hold yet, and put the results together."""
    if not splits:
        raise DataError("splits: found none; expected at least one of (train, valid, test)")
    places = product(range(plan.repeats), range(len(splits)), range(len(plan.losses)))
    units = [Unit(split, repeat, system) for repeat, split, system in places]
    fingerprints = [fingerprint(split) for split in splits]
    names = plan.names()

    def key(unit: Unit) -> dict[str, Any]:
        return _unit_key(plan, unit, fingerprints[unit.split])

    def title(unit: Unit) -> str:
        fold = f" fold {unit.split + 1}" if len(splits) > 1 else ""
        return f"{names[unit.system]}{fold} repeat {unit.repeat + 1}"

    results: dict[Unit, dict[str, Any]] = {}
    for unit in units:
        found = store.load(title(unit), key(unit))
        if found is not None:
            results[unit] = found
    waiting = [unit for unit in units if unit not in results]

    def finish(unit: Unit, result: dict[str, Any]) -> None:
        store.save(title(unit), key(unit), result)
        results[unit] = result

    if plan.workers == 1 or len(waiting) < 2:
        for unit in waiting:
            if progress:
                progress(len(results), len(units), title(unit))
            finish(unit, run_unit(plan, splits[unit.split], unit, job_count(plan.n_jobs)))
    else:
        threads = max(1, job_count(plan.n_jobs) // plan.workers)
        if progress:
            progress(len(results), len(units), "")
        own = sendable(plan.system(unit.system).loss for unit in waiting)
        work = partial(_run_in_process, plan, tuple(splits), threads, own)
        for unit, result in run_jobs(min(plan.workers, len(waiting)), work, waiting):
            if isinstance(result, Lost):
                raise DataError(f"{title(unit)}: {result}")
            finish(unit, result)
            if progress:
                progress(len(results), len(units), title(unit))
    if progress:
        progress(len(units), len(units), "")
    return [_collect(plan, len(splits), system, name, results) for system, name in enumerate(names)]


def _run_in_process(
    plan: Plan, splits: Sequence[Splits], threads: int, own: tuple[OwnLoss, ...], unit: Unit, _: Ask
) -> dict[str, Any]:
    import_own(own)
    return run_unit(plan, splits[unit.split], unit, threads)


def _unit_key(plan: Plan, unit: Unit, data: str) -> dict[str, Any]:
    system = plan.system(unit.system)
    parameters = {**plan.parameters, **system.parameters}
    key = {
        "version": _UNIT_VERSION,
        "data": data,
        "loss": system.loss,
        "occurrence": plan.occurrence(unit.system),
        "metrics": [str(m) for m in plan.metrics],
        "repeat": unit.repeat,
        "vary": plan.vary,
        "seed": plan.seed,
        "parameters": {name: repr(value) for name, value in sorted(parameters.items())},
        "tune": plan.tune,
    }
    # The text of a loss says all of one of this library; of one's own it may mean something else tomorrow.
    for own in own_losses([system.loss]):
        key["code"] = own.code
    return key


def run_unit(plan: Plan, splits: Splits, unit: Unit, n_jobs: int) -> dict[str, Any]:
    """Train one system once (or once for each configuration) and judge it on the test queries."""
    train, valid = divided(plan, splits, unit)
    system = plan.system(unit.system)
    configurations: list[dict[str, Any]] = [{}]
    if plan.tune:
        seed = (plan.seed, unit.repeat, unit.split, plan.occurrence(unit.system))
        configurations = random_configurations(plan.tune, seed)
    fixed = {"random_state": random_state_of(plan, unit), "n_jobs": n_jobs, "verbose": 0}
    fixed |= {**plan.parameters, **system.parameters}
    start = time.perf_counter()
    best = train_best(system.loss, configurations, fixed, Splits(train, valid, splits.test), plan.metrics)
    return {
        "valid": or_none(best.valid),
        "configuration": best.configuration,
        "trees": int(best.ranker.n_trees_),
        "seconds": time.perf_counter() - start,
        "values": {name: [or_none(x) for x in v.tolist()] for name, v in best.values.items()},
        "tried": best.tried if plan.tune else [],
        "history": [or_none(x) for x in best.ranker.evals_result_["valid"][str(plan.metrics[0])]],
        "versions": {"tautrank": tautrank.__version__, best.ranker.model_.tool: best.ranker.model_.version()},
    }


def random_state_of(plan: Plan, unit: Unit) -> int:
    """The seed of a unit's engine and loss: another one in each repeat, and where a system stands there again."""
    return plan.seed + 1000 * unit.repeat + 1_000_000 * plan.occurrence(unit.system)


def divided(plan: Plan, splits: Splits, unit: Unit) -> tuple[RankingData, RankingData]:
    """Return the training and validation data of a unit; all systems of one repeat get the same."""
    train, valid = splits.train, splits.valid
    as_given = unit.repeat == 0 or plan.vary == "seeds"
    if valid is not None and as_given:
        return train, valid
    repeat = 0 if as_given else unit.repeat
    return hold_out(train, valid, plan.seed + 7919 * repeat + 104729 * unit.split)


@dataclass(frozen=True)
class PartSize:
    """How large a part of the data is: of which split, ``train``, ``valid`` or ``test``, and its counts."""

    split: int
    part: str
    queries: int
    documents: int
    features: int


def part_sizes(splits: Sequence[Splits]) -> tuple[PartSize, ...]:
    """The size of every part there is, splits counted from 1."""
    return tuple(
        PartSize(number, name, part.n_queries, part.n_documents, part.n_features)
        for number, split in enumerate(splits, 1)
        for name, part in zip(split._fields, split, strict=True)
        if part is not None
    )


def overlap_of(plan: Plan, splits: Sequence[Splits]) -> float:
    """Nadeau and Bengio's n_held_out / n_train for repeated splits; 0 for seeds."""
    if plan.vary == "seeds" or plan.repeats == 1:
        return 0.0
    ratios = [HELD_OUT / (1 - HELD_OUT) if s.valid is None else s.valid.n_queries / s.train.n_queries for s in splits]
    return float(np.mean(ratios))


def _collect(plan: Plan, n_splits: int, system: int, name: str, results: dict[Unit, dict[str, Any]]) -> SystemResult:
    grid = [[results[Unit(split, repeat, system)] for split in range(n_splits)] for repeat in range(plan.repeats)]
    names = [str(m) for m in plan.metrics]
    # NumPy takes None for NaN.
    values = {m: np.array([[x for unit in row for x in unit["values"][m]] for row in grid], np.float64) for m in names}
    flat = [unit for row in grid for unit in row]
    untuned = {m: [_mean_over_tried(row, m) for row in grid] for m in names} if plan.tune else None
    # A mean needs all of them, and what was stored in earlier times has none.
    histories = all("history" in unit for unit in flat) and [list(map(or_nan, unit["history"])) for unit in flat]
    return SystemResult(
        name,
        values,
        [unit["trees"] for unit in flat],
        [unit["seconds"] for unit in flat],
        [or_nan(unit["valid"]) for unit in flat],
        untuned,
        histories or None,
        tuple(sorted({f"{tool} {v}" for unit in flat for tool, v in unit.get("versions", {}).items()})),
    )


def _mean_over_tried(row: list[dict[str, Any]], name: str) -> float:
    """A query counts once, so a split's mean counts by its queries."""
    total, weight = 0.0, 0
    for unit in row:
        counted = sum(x is not None for x in unit["values"][name])
        tests = [t["test"][name] for t in unit["tried"] if t["test"][name] is not None]
        if tests and counted:
            total += counted * float(np.mean(tests))
            weight += counted
    return total / weight if weight else math.nan


@dataclass(frozen=True)
class PairTest:
    """System `better` against system `worse` on one metric: mean difference and Holm-adjusted p-value."""

    better: int
    worse: int
    difference: float
    p_value: float
    adjusted: float


def pair_tests(systems: Sequence[SystemResult], m: Metric, overlap: float) -> list[PairTest]:
    """Compare every two systems on a metric; Holm's correction counts all of the metric's pairs."""
    values = [system.values[str(m)] for system in systems]
    testable = [np.count_nonzero(~np.isnan(v).any(axis=0)) > 1 for v in values]
    pairs = [(i, j) for i, j in combinations(range(len(systems)), 2) if testable[i]]
    tests = [repeated_runs_test(values[i], values[j], overlap=overlap) for i, j in pairs]
    adjusted = holm([test.p_value for test in tests]).tolist() if tests else []
    result = []
    for pair, test, corrected in zip(pairs, tests, adjusted, strict=True):
        better, worse = pair if (test.difference > 0) == m.higher_is_better else reversed(pair)
        result.append(PairTest(better, worse, abs(test.difference), test.p_value, corrected))
    return result
