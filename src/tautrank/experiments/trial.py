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
    divided = _divide(spec, data)
    if "configuration" in spec:
        return _try_configuration(spec, context, divided.splits)
    return _train_best(spec, context, divided)


def _train_best(spec: Spec, context: TrialContext, divided: _Divided) -> dict[str, Any]:
    """Train every configuration of a trial, and return the result of the one whose validation score
    by the first metric is best.
    """
    metrics = [metric(name) for name in spec["metrics"]]
    sign = metrics[0].sign  # -1 for a metric of which less is better
    best: _Candidate | None = None
    summaries = []
    for configuration in _configurations(spec):
        ranker = _new_ranker(spec, context, configuration, metrics[0])
        ranker.fit(divided.splits.train, divided.splits.valid)
        # It has the validation score, and the values of all metrics on the test queries.
        candidate = _evaluate(ranker, configuration, divided.splits, metrics)
        summaries.append(candidate.summary())
        if best is None or sign * candidate.valid > sign * best.valid:
            best = candidate
    assert best is not None

    result = _result_of(best, spec, divided, metrics)
    if spec["configurations"]:
        result["configuration"] = best.configuration
        result["tried"] = summaries
    return result


def attempt(spec: Spec, context: TrialContext, run: RunTrial = run_trial) -> TrialOutcome:
    """Run a trial and return its outcome; an exception becomes an outcome with the error as text.

    The outcome is ``impossible`` if this machine lacks what every trial needs (the data, the
    version, the losses), ``failed`` if the trial itself raised, and else ``done``.

    Args:
        spec: the specification of the trial.
        context: what all trials of the run need.
        run: the function that runs the trial.
    """
    start = time.perf_counter()
    host = socket.gethostname()

    def timed_outcome(status: str, **content: Any) -> TrialOutcome:
        seconds = time.perf_counter() - start
        return TrialOutcome(status, seconds=seconds, host=host, **content)

    try:
        # Checks the version, imports the losses that users wrote themselves, and reads the data.
        _prepare(spec, context)
    except Exception as error:
        return timed_outcome(IMPOSSIBLE, error=f"{host}: {in_a_sentence(error)}")

    try:
        # Trainings on the same data share its features cut into bins.
        with sharing_bins(context.bins), warnings.catch_warnings():
            # What is worth a warning in one training is counted over all of them by the report.
            warnings.simplefilter("ignore", TautrankWarning)
            result = run(spec, context)
            return timed_outcome(DONE, result=canonical(result))
    except Exception as error:
        is_option = isinstance(error, OptionError)
        return timed_outcome(FAILED, error=in_a_sentence(error), is_option=is_option)


def _prepare(spec: Spec, context: TrialContext) -> None:
    """Raise an error unless this machine can run a trial: it has the version of tautrank that the
    run started with, and can load the user's own losses and the data.
    """
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
    lines = str(error).strip().splitlines()
    first_line = lines[0] if lines else ""
    # An error without a message leaves a colon at the end.
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
        """Return the hyperparameters, the validation score and the mean test metrics, as they are
        stored of every configuration.
        """
        return {
            "configuration": self.configuration,
            "valid": or_none(self.valid),
            "test": _means(self.test),
        }


def _configurations(spec: Spec) -> list[dict[str, Any]]:
    """Return the hyperparameter configurations that a trial chooses from, drawn at random; a single
    empty one if there is no search.
    """
    n_configurations = spec["configurations"]
    if not n_configurations:
        return [{}]
    # Trials either name the seeds of draws from the default space, or bring ranges of their own.
    if "draws" in spec:
        seeds = tuple(spec["draws"])
        return random_configurations(n_configurations, seeds)
    search = Search(from_json(spec["search"]))
    seeds = (spec["study_seed"], spec["trial"])
    # The ranges of the system are already among those of the search, so no name is needed.
    return search.draw("", n_configurations, seeds)


def _new_ranker(
    spec: Spec, context: TrialContext, configuration: Mapping[str, Any], first_metric: Metric
) -> tautrank.Ranker:
    """Return the untrained ranker of a hyperparameter configuration.

    Args:
        spec: the specification of the trial: its loss, seed and fixed parameters.
        context: what all trials need, such as the number of threads.
        configuration: the hyperparameters that were drawn, by name.
        first_metric: the metric that stops training early.
    """
    fixed = {
        "random_state": spec["seed"],
        "n_jobs": spec.get("n_jobs", context.threads),
        "verbose": 0,
        # Learning curves on the training queries cost time: only where they are asked for.
        "eval_train": "train" in spec["curves"],
        **from_json(spec["parameters"]),
    }
    parameters = parameters_of({"loss": spec["loss"], **configuration}, fixed)
    return tautrank.Ranker(metric=first_metric, **with_present_names(parameters))


def _evaluate(
    ranker: tautrank.Ranker,
    configuration: dict[str, Any],
    splits: Splits,
    metrics: Sequence[Metric],
) -> _Candidate:
    """Evaluate a trained ranker: by the first metric on the validation queries, and by all metrics
    on the test queries.
    """
    first_metric = metrics[0]
    # One value per query, by the name of the metric.
    valid_values = _per_query(ranker, splits.valid, [first_metric])
    test_scores = ranker.predict(splits.test)
    test_values = {}
    for test_metric in metrics:
        test_values[str(test_metric)] = test_metric.per_query(test_scores, splits.test)

    # The largest minus the smallest score: 0 for a model that gives all documents the same.
    score_range = np.ptp(test_scores)
    return _Candidate(
        configuration=configuration,
        ranker=ranker,
        valid=mean_over_queries(valid_values[str(first_metric)]),
        test=test_values,
        is_constant=bool(score_range == 0),
    )


def _result_of(
    best: _Candidate, spec: Spec, divided: _Divided, metrics: Sequence[Metric]
) -> dict[str, Any]:
    """Return the result of a training as JSON values: validation score, number of trees, test
    metrics per query, means by part of the data, and learning curves.
    """
    ranker = best.ranker
    # The best candidate has its values on the test queries; other parts are measured here.
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
    """Return the learning curve of the first metric on a part of the data: its value after each
    tree.
    """
    curve_by_metric = ranker.evals_result_[part]
    first_metric = next(iter(curve_by_metric))
    return _or_none(curve_by_metric[first_metric])


def _per_query(
    ranker: tautrank.Ranker, part: RankingData | None, metrics: Sequence[Metric]
) -> _Values:
    """Return the values of each metric on a part of the data, one per query, by name of the
    metric.
    """
    assert part is not None
    scores = ranker.predict(part)
    return {str(metric): metric.per_query(scores, part) for metric in metrics}


def _means(values_by_metric: _Values) -> dict[str, float | None]:
    """Return the mean of each metric over queries; None where every query was skipped."""
    means = {}
    for name, query_values in values_by_metric.items():
        means[name] = or_none(mean_over_queries(query_values))
    return means


def _or_none(values: Iterable[float]) -> list[float | None]:
    """Return numbers with None in place of NaN, which JSON does not have."""
    return [or_none(value) for value in values]


# ---- Training one configuration of a search


def _try_configuration(spec: Spec, context: TrialContext, splits: Splits) -> dict[str, Any]:
    """Train one configuration of a hyperparameter search, and return its validation score; the
    training is cut short where the score falls behind those of earlier configurations.
    """
    fixed = from_json(spec["parameters"])
    parameters = parameters_of(spec["configuration"], fixed)
    parameters["n_jobs"] = spec.get("n_jobs", context.threads)

    (metric_name,) = spec["metrics"]  # a search has one metric
    # Called after each new tree: keeps the scores, and stops the training where it should.
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
        """Watch the training of one configuration: the scores so far, the best number of trees
        (`trees`), the trees that were grown (`grown`), and the best score at each checkpoint
        (`curve`).
        """
        self._metric_name = metric_name
        self._checkpoints = frozenset(checkpoints)
        self._context = context
        self.state = DONE
        self.score = math.nan
        self.trees = 0
        self.grown = 0
        self.curve: list[float] = []

    def __call__(self, step: Step) -> bool:
        """Keep the best validation score after a new tree, and return whether to stop training: if
        time is up, or if the process that runs the search answers that the score falls behind.
        """
        # `history` has the metric after each tree; steps count trees from 0.
        valid_curve = step.history["valid"][self._metric_name]
        self.score = valid_curve[step.best_step]
        self.trees = step.best_step + 1
        self.grown = step.step + 1

        deadline = self._context.deadline
        is_late = deadline is not None and time.monotonic() > deadline
        if is_late:
            self.state = UNFINISHED
        elif self.grown in self._checkpoints:
            self.curve.append(self.score)
            # Only that process knows the other trials.
            falls_behind = self._context.ask((self.grown, self.score))
            if falls_behind:
                self.state = PRUNED
        return self.state != DONE


# ---- Measurements


def _measure(spec: Spec, data: RankingData | Splits | None) -> dict[str, Any]:
    """Return the result of a measurement, which trains nothing, on the test queries: the quantities
    that the specification names as its metrics, one value per query, and their means.
    """
    test_data = None
    if data is not None:
        test_data = _divide(spec, data).splits.test
    measurement = MEASUREMENTS[spec["measure"]]
    measured = measurement(test_data, spec["seed"], **from_json(spec["parameters"]))

    # What is left in `measured`, such as curves, goes into the result unchanged.
    values = measured.pop("values")
    test_values: dict[str, list[float | None]] = {}
    for name in spec["metrics"]:
        if name not in values:
            raise OptionError(
                f"metrics: found '{name}'; expected what is measured: {', '.join(values)}"
            )
        test_values[name] = list(values[name])

    # As arrays, None for a skipped query becomes NaN.
    arrays = {name: np.array(column, np.float64) for name, column in test_values.items()}
    means = {"test": _means(arrays)}
    return {"test": test_values, "means": means, **measured}


# ---- Data: what was read or divided last is kept for the trials that follow


class _Divided(NamedTuple):
    """The parts of a trial after the changes of its condition, and their sizes before them."""

    splits: Splits
    sizes: dict[str, int]


def _divide(spec: Spec, data: RankingData | Splits) -> _Divided:
    """Divide data into the training, validation and test queries of a trial, and apply the changes
    of its condition.
    """
    field_names = ("data", "protocol", "trial", "study_seed", "seed", "changes")
    decisive_fields = {name: spec[name] for name in field_names}
    return _divide_cached(canonical(decisive_fields), data)


@lru_cache(maxsize=1)
def _divide_cached(decisive_fields: str, data: RankingData | Splits) -> _Divided:
    """Divide data into training, validation and test queries, and apply the changes of a condition,
    such as noise in the labels.

    The last result is kept: the trials of one repetition follow each other and have the same parts.

    Args:
        decisive_fields: the fields of a trial's specification that decide the division, as JSON.
        data: all queries, in one piece or in parts.
    """
    spec = json.loads(decisive_fields)
    # Everything that the random division of this trial depends on.
    draw = Draw(
        trial=spec["trial"],
        seed=spec["study_seed"],
        trial_seed=spec["seed"],
        fold=spec["data"]["fold"],
    )
    protocol = from_json(spec["protocol"])
    splits = protocol.divide(data, draw)
    changes = from_json(spec["changes"])
    changed_splits = apply_changes(splits, changes, spec["seed"])
    return _Divided(changed_splits, part_sizes(splits))


def _load(spec: Spec, context: TrialContext) -> RankingData | Splits | None:
    """Return the data of a trial, from memory or from its files; data whose content differs from
    that of the plan is refused.
    """
    source = spec["data"]
    is_in_memory = list(source["given"]) == [MEMORY]
    if is_in_memory:
        return context.data[source["fingerprint"]]

    # Resampled data is kept in one piece, rather than put together for every trial.
    protocol = from_json(spec["protocol"])
    # A protocol that divides queries at random needs all of them together.
    is_pooled = not protocol.uses_own_split
    names = tuple(source["given"])
    with _loading_lock:  # Dask runs trials on several threads of one process
        return _load_cached(names, source["fold"], source["fingerprint"], is_pooled)


_loading_lock = threading.Lock()


@lru_cache(maxsize=1)
def _load_cached(
    names: tuple[str, ...], fold: int, fingerprint: str, is_pooled: bool
) -> RankingData | Splits | None:
    """Read data and refuse it if its content is not that of the fingerprint; what was read last is
    kept for the next trial.

    Args:
        names: the files, or the name of synthetic data.
        fold: the fold of the data, from 1.
        fingerprint: the hash of the data that the plan was made with.
        is_pooled: whether to put the training, validation and test queries together.
    """
    data = DataSource(names).read(fold)
    if fingerprint_of(data) != fingerprint:
        raise DataError(
            f"{', '.join(names)}: found other data than the study was planned with;"
            " expected the same content"
        )
    if is_pooled and data is not None:
        return pooled(data)
    return data


def forget_data() -> None:
    """Free the divided and binned data that finished trials kept in memory for the next ones."""
    _divide_cached.cache_clear()
    forget_bins()
