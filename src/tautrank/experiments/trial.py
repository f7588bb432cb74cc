"""A trial, a training or a measurement: a pure function of its specification, the same on every
machine.
"""

from __future__ import annotations

import json
import math
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import tautrank
from tautrank.arrays import F64
from tautrank.data import RankingData, Splits
from tautrank.engines import Step
from tautrank.engines.binned import forget_bins, sharing_bins
from tautrank.errors import DataError, OptionError, TautrankError, TautrankWarning
from tautrank.experiments.changes import apply_changes
from tautrank.experiments.data_source import MEMORY, DataSource, fingerprint_of
from tautrank.experiments.measurements import MEASUREMENTS
from tautrank.experiments.protocols import Draw, part_sizes, pooled
from tautrank.experiments.space import Search, parameters_of, random_configurations
from tautrank.experiments.store import DONE, FAILED, IMPOSSIBLE, TrialOutcome
from tautrank.json_values import canonical, from_json, or_none
from tautrank.losses.own_losses import OwnLoss, import_own
from tautrank.metrics import Metric, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.ranker.stored_names import with_present_names

PRUNED, UNFINISHED = "pruned", "unfinished"
"""The states of a searched configuration that fell behind, and of one that ran out of time."""

Spec: TypeAlias = Mapping[str, Any]
"""What the result of a trial depends on, as JSON values; `Plan.trials` makes it."""

_Values: TypeAlias = dict[str, F64]


def no_answer(*_: Any) -> None:
    """Answer a trial that asks nothing."""


@dataclass(frozen=True)
class TrialContext:
    """What all trials of a run need besides their specifications; results do not depend on it.

    Args:
        version: the version of tautrank that runs the plan; a worker of another version would mix
            unlike numbers.
        custom_losses: losses that are not of this library, to be imported.
        data: data in memory, by its fingerprint.
        threads: threads of one trial, unless its specification says how many.
        bins: folder where the processes that run trials share binned data; empty for nowhere.
        ask: sends something to the process that gave the trial, and returns its answer.
        deadline: when a searched configuration is given up, by `time.monotonic`; None for never.
    """

    version: str = field(default_factory=lambda: tautrank.__version__)
    custom_losses: tuple[OwnLoss, ...] = ()
    data: Mapping[str, Splits] = field(default_factory=dict)
    threads: int = 1
    bins: str = ""
    ask: Callable[[Any], Any] = no_answer
    deadline: float | None = None


RunTrial: TypeAlias = Callable[[Spec, TrialContext], dict[str, Any]]
"""A function of a specification, and of what all trials need, that returns the result of a trial as
JSON values.
"""


def run_trial(spec: Spec, context: TrialContext | None = None) -> dict[str, Any]:
    """Run a trial: read and divide the data, apply the condition, then train or measure.

    Args:
        spec: the specification.
        context: data in memory, and threads.

    Returns:
        For a training: ``test``, per metric one value per test query (None if it is skipped);
        ``means`` by part and metric; ``valid``, the validation score; ``trees``; ``trained_with``,
        tool and version; ``constant`` if all scores are equal; ``configuration`` and ``tried`` if
        there was a search; ``curves`` by part; ``queries`` by part, before the condition's changes.
        For a measurement: ``test``, ``means``, and its ``curves`` and ``points``. For a
        configuration of a search: ``state``, ``score``, ``trees``, ``grown`` and ``curve``.
    """
    context = context or TrialContext()
    data = _load(spec, context)
    if "measure" in spec:
        return _measure(spec, data)
    if data is None:
        raise DataError("data: found none; expected data to train on")
    divided = _divided(spec, data)
    if "configuration" in spec:
        return _try_configuration(spec, context, divided.splits)

    # The configuration that validates best by the first metric is the result.
    metrics = [metric(name) for name in spec["metrics"]]
    sign = metrics[0].sign
    best: _Candidate | None = None
    summaries = []
    for configuration in _configurations(spec):
        ranker = _new_ranker(spec, context, configuration, metrics[0])
        ranker.fit(divided.splits.train, divided.splits.valid)
        candidate = _evaluated(ranker, configuration, divided.splits, metrics)
        summaries.append(candidate.summary())
        if best is None or sign * candidate.valid > sign * best.valid:
            best = candidate
    assert best is not None

    result = _result_of(best, spec, divided, metrics)
    if spec["configurations"]:
        result |= {"configuration": best.configuration, "tried": summaries}
    return result


def attempt(spec: Spec, context: TrialContext, run: RunTrial = run_trial) -> TrialOutcome:
    """Run a trial and return its outcome; never raises.

    Args:
        spec: the specification.
        context: what all trials of the run need.
        run: the function that runs it.
    """
    start = time.perf_counter()
    host = socket.gethostname()

    def outcome(status: str, **content: Any) -> TrialOutcome:
        return TrialOutcome(status, seconds=time.perf_counter() - start, host=host, **content)

    try:
        _prepare(spec, context)
    except Exception as error:
        return outcome(IMPOSSIBLE, error=f"{host}: {in_a_sentence(error)}")
    try:
        with sharing_bins(context.bins), warnings.catch_warnings():
            # What is worth a warning in one training is counted over all of them by the report.
            warnings.simplefilter("ignore", TautrankWarning)
            return outcome(DONE, result=canonical(run(spec, context)))
    except Exception as error:
        is_option = isinstance(error, OptionError)
        return outcome(FAILED, error=in_a_sentence(error), is_option=is_option)


def _prepare(spec: Spec, context: TrialContext) -> None:
    """Make sure that this machine can run a trial: the version, the losses and the data."""
    if context.version != tautrank.__version__:
        raise DataError(
            f"found tautrank {tautrank.__version__}; expected {context.version}, as in the study"
        )
    import_own(context.custom_losses)
    _load(spec, context)


def in_a_sentence(error: Exception) -> str:
    """Turn an error into one sentence.

    Args:
        error: an error of this library is a sentence already; of another, its type and first line
            are used.

    >>> in_a_sentence(ValueError("no such thing\\nat all"))
    'ValueError: no such thing'
    """
    if isinstance(error, TautrankError):
        return str(error)
    first_line = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first_line}".rstrip(": ")


# ---- Training the systems of a comparison or a study


class _Candidate(NamedTuple):
    """A trained configuration.

    Attributes:
        configuration: the values that were tried, by name.
        ranker: the model.
        valid: its validation score, by the first metric.
        test: per metric, one value per test query.
        is_constant: whether all test documents have the same score.
    """

    configuration: dict[str, Any]
    ranker: tautrank.Ranker
    valid: float
    test: _Values
    is_constant: bool

    def summary(self) -> dict[str, Any]:
        """Return what is stored of every configuration, the best one or not."""
        return {
            "configuration": self.configuration,
            "valid": or_none(self.valid),
            "test": _means(self.test),
        }


def _configurations(spec: Spec) -> list[dict[str, Any]]:
    """Return the configurations to choose from; a single one without values if none are searched."""
    n = spec["configurations"]
    if not n:
        return [{}]
    if "draws" in spec:
        return random_configurations(n, tuple(spec["draws"]))
    search = Search(from_json(spec["search"]))
    return search.draw("", n, (spec["study_seed"], spec["trial"]))


def _new_ranker(
    spec: Spec, context: TrialContext, configuration: Mapping[str, Any], first_metric: Metric
) -> tautrank.Ranker:
    """Return the ranker of a configuration, not trained yet."""
    fixed = {
        "random_state": spec["seed"],
        "n_jobs": spec.get("n_jobs", context.threads),
        "verbose": 0,
        "eval_train": "train" in spec["curves"],
        **from_json(spec["parameters"]),
    }
    parameters = parameters_of({"loss": spec["loss"], **configuration}, fixed)
    return tautrank.Ranker(metric=first_metric, **with_present_names(parameters))


def _evaluated(
    ranker: tautrank.Ranker,
    configuration: dict[str, Any],
    splits: Splits,
    metrics: Sequence[Metric],
) -> _Candidate:
    """Evaluate a trained configuration on the validation and the test queries."""
    valid = _per_query(ranker, splits.valid, metrics[:1])
    scores = ranker.predict(splits.test)
    test = {str(metric): metric.per_query(scores, splits.test) for metric in metrics}
    return _Candidate(
        configuration=configuration,
        ranker=ranker,
        valid=mean_over_queries(valid[str(metrics[0])]),
        test=test,
        is_constant=bool(np.ptp(scores) == 0),
    )


def _result_of(
    best: _Candidate, spec: Spec, divided: _Divided, metrics: Sequence[Metric]
) -> dict[str, Any]:
    """Return what is stored of a training."""
    ranker = best.ranker
    means = {"test": _means(best.test)}
    for part in spec["judged"]:
        if part != "test":
            data = getattr(divided.splits, part)
            means[part] = _means(_per_query(ranker, data, metrics))

    result = {
        "valid": or_none(best.valid),
        "trees": int(ranker.n_trees_),
        "queries": divided.sizes,
        "test": {name: _or_none(values.tolist()) for name, values in best.test.items()},
        "means": means,
        # Nothing could be split, and such a model ranks nothing; a report has to say so.
        "constant": best.is_constant,
        "trained_with": f"{ranker.model_.tool} {ranker.model_.version()}",
    }
    if spec["curves"]:
        result["curves"] = {part: _first_curve(ranker, part) for part in spec["curves"]}
    return result


def _first_curve(ranker: tautrank.Ranker, part: str) -> list[float | None]:
    """Return the values of the first metric after each tree."""
    curves = ranker.evals_result_[part].values()
    return _or_none(next(iter(curves)))


def _per_query(
    ranker: tautrank.Ranker, part: RankingData | None, metrics: Sequence[Metric]
) -> _Values:
    """Return the values of each metric on a part of the data, one per query."""
    assert part is not None
    scores = ranker.predict(part)
    return {str(metric): metric.per_query(scores, part) for metric in metrics}


def _means(values: _Values) -> dict[str, float | None]:
    return {name: or_none(mean_over_queries(of_queries)) for name, of_queries in values.items()}


def _or_none(values: Iterable[float]) -> list[float | None]:
    return [or_none(value) for value in values]


# ---- Training one configuration of a search


def _try_configuration(spec: Spec, context: TrialContext, splits: Splits) -> dict[str, Any]:
    """Train one configuration, unless it falls behind the others on its way."""
    fixed = from_json(spec["parameters"])
    parameters = parameters_of(spec["configuration"], fixed)
    parameters["n_jobs"] = spec.get("n_jobs", context.threads)
    (metric_name,) = spec["metrics"]
    watch = _ConfigurationWatch(metric_name, spec["checkpoints"], context)
    ranker = tautrank.Ranker(metric=metric(metric_name), **with_present_names(parameters))
    ranker.fit(splits.train, splits.valid, callbacks=[watch])
    if math.isnan(watch.score):
        raise DataError(
            f"{metric_name} of the validation data is not a number; expected a query that counts"
        )
    return {
        "state": watch.state,
        "score": watch.score,
        "trees": watch.trees,
        "grown": watch.grown,
        "curve": watch.curve,
    }


class _ConfigurationWatch:
    """A callback that notes how a training goes, and stops it where it falls behind.

    Args:
        metric_name: the metric that decides.
        checkpoints: the numbers of trees after which the process that gave the trial is asked
            whether it falls behind.
        context: whom to ask, and when to give up.

    Attributes:
        state: ``done``, ``pruned`` or ``unfinished``.
        score: the best validation value so far.
        trees: the number of trees that gives it.
        grown: the number of trees.
        curve: the best value so far, at each checkpoint.
    """

    def __init__(self, metric_name: str, checkpoints: Sequence[int], context: TrialContext) -> None:
        self._metric_name = metric_name
        self._checkpoints = frozenset(checkpoints)
        self._context = context
        self.state = DONE
        self.score = math.nan
        self.trees = 0
        self.grown = 0
        self.curve: list[float] = []

    def __call__(self, step: Step) -> bool:
        """Note the values after a tree, and return whether to stop."""
        self.score = step.history["valid"][self._metric_name][step.best_step]
        self.trees = step.best_step + 1
        self.grown = step.step + 1
        deadline = self._context.deadline
        if deadline is not None and time.monotonic() > deadline:
            self.state = UNFINISHED
        elif self.grown in self._checkpoints:
            self.curve.append(self.score)
            if self._context.ask((self.grown, self.score)):
                self.state = PRUNED
        return self.state != DONE


# ---- Measurements


def _measure(spec: Spec, data: RankingData | Splits | None) -> dict[str, Any]:
    """Return what a measurement gives on the test queries."""
    lists = None if data is None else _divided(spec, data).splits.test
    measured = MEASUREMENTS[spec["measure"]](lists, spec["seed"], **from_json(spec["parameters"]))
    values = measured.pop("values")
    for name in spec["metrics"]:
        if name not in values:
            raise OptionError(
                f"metrics: found '{name}'; expected what is measured: {', '.join(values)}"
            )
    test = {name: list(values[name]) for name in spec["metrics"]}
    means = _means({name: np.array(numbers, np.float64) for name, numbers in test.items()})
    return {"test": test, "means": {"test": means}, **measured}


# ---- Data: what was read or divided last is kept for the trials that follow


class _Divided(NamedTuple):
    """The parts of a trial after the changes of its condition, and their sizes before them."""

    splits: Splits
    sizes: dict[str, int]


def _divided(spec: Spec, data: RankingData | Splits) -> _Divided:
    """Return the parts of a trial."""
    names = ("data", "protocol", "trial", "study_seed", "seed", "changes")
    return _last_divided(canonical({name: spec[name] for name in names}), data)


@lru_cache(maxsize=1)
def _last_divided(decisive: str, data: RankingData | Splits) -> _Divided:
    """Divide data as the decisive fields of a specification say, given as JSON text.

    The result is kept: the trials of one repetition follow each other and have the same parts.
    """
    spec = json.loads(decisive)
    draw = Draw(
        trial=spec["trial"],
        seed=spec["study_seed"],
        trial_seed=spec["seed"],
        fold=spec["data"]["fold"],
    )
    splits = from_json(spec["protocol"]).divide(data, draw)
    changed = apply_changes(splits, from_json(spec["changes"]), spec["seed"])
    return _Divided(changed, part_sizes(splits))


def _load(spec: Spec, context: TrialContext) -> RankingData | Splits | None:
    """Return the data of a trial, after making sure that it is the data of the plan."""
    source = spec["data"]
    if list(source["given"]) == [MEMORY]:
        return context.data[source["fingerprint"]]
    # Resampled data is kept in one piece, rather than put together for every trial.
    in_one_piece = not from_json(spec["protocol"]).uses_own_split
    with _loading:  # Dask runs trials on several threads of one process
        return _last_loaded(
            tuple(source["given"]), source["fold"], source["fingerprint"], in_one_piece
        )


_loading = threading.Lock()


@lru_cache(maxsize=1)
def _last_loaded(
    names: tuple[str, ...], fold: int, fingerprint: str, in_one_piece: bool
) -> RankingData | Splits | None:
    data = DataSource(names).read(fold)
    if fingerprint_of(data) != fingerprint:
        raise DataError(
            f"{', '.join(names)}: found other data than the study was planned with;"
            " expected the same content"
        )
    return pooled(data) if in_one_piece and data is not None else data


def forget_data() -> None:
    """Free what trials have kept in memory for the next ones on the same data."""
    _last_divided.cache_clear()
    forget_bins()
