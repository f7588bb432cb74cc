"""A trial: a pure function of its specification, the same on every machine."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

import tautrank
from tautrank.arrays import F64
from tautrank.data import RankingData, Splits
from tautrank.engines.binned import forget_bins, sharing_bins
from tautrank.errors import DataError, OptionError, TautrankError, TautrankWarning
from tautrank.experiments.data_source import MEMORY, DataSource, fingerprint_of
from tautrank.experiments.divide import changed, divide, part_sizes, pooled, takes_all_queries
from tautrank.experiments.measurements import MEASUREMENTS
from tautrank.experiments.space import Search, parameters_of, random_configurations
from tautrank.experiments.store import DONE, FAILED, IMPOSSIBLE, Outcome
from tautrank.json_values import canonical, digest, from_json, or_none
from tautrank.losses.own_losses import OwnLoss, import_own
from tautrank.metrics import Metric, metric
from tautrank.metrics.base import mean_over_queries


@dataclass(frozen=True)
class Surroundings:
    """What all trials of a run need besides their specifications; results do not depend on it.

    Args:
        version: the version of tautrank that runs the plan; a worker of another version would mix unlike numbers.
        own: losses that are not of this library, to be imported.
        held: data in memory, by its fingerprint.
        threads: threads of one trial, unless its specification says how many.
        bins: folder where the processes that run trials share binned data; empty for nowhere.
    """

    version: str = field(default_factory=lambda: tautrank.__version__)
    own: tuple[OwnLoss, ...] = ()
    held: Mapping[str, Splits] = field(default_factory=dict)
    threads: int = 1
    bins: str = ""


_Values: TypeAlias = dict[str, F64]
RunTrial: TypeAlias = Callable[[Mapping[str, Any], Surroundings], dict[str, Any]]
"""A function of a specification, and of what all trials need, that returns the result of a trial as JSON values."""


def run_trial(spec: Mapping[str, Any], around: Surroundings | None = None) -> dict[str, Any]:
    """Run a trial: read and divide the data, apply the condition, train, judge.

    Args:
        spec: the specification, as `Plan.trials` makes it.
        around: data in memory, and threads.

    Returns:
        ``test``: per metric one value per test query (None if it is skipped); ``means`` by part and metric; ``valid``,
        the validation score; ``trees``; ``trained_with``, tool and version; ``constant`` if all scores are equal;
        ``configuration`` and ``tried`` if there was a search; ``curves`` by part; ``queries`` by part, before the
        condition's changes. For a measurement: ``test``, ``means``, and its ``curves`` and ``points``.
    """
    around = around or Surroundings()
    data = _load(spec, around)
    if "measure" in spec:
        return _measure(spec, data)
    assert data is not None
    splits, sizes = _divided(spec, data)
    metrics = [metric(name) for name in spec["metrics"]]
    fixed = {"random_state": spec["seed"], "n_jobs": spec.get("n_jobs", around.threads), "verbose": 0}
    fixed |= {"eval_train": "train" in spec["curves"], **from_json(spec["parameters"])}
    # The configuration that validates best by the first metric is the result; the others are told beside it.
    sign = 1 if metrics[0].higher_is_better else -1
    best: tuple[float, tautrank.Ranker, dict[str, Any], _Values, bool] | None = None
    tried = []
    for configuration in _configurations(spec):
        ranker = tautrank.Ranker(metric=metrics[0], **parameters_of({"loss": spec["loss"], **configuration}, fixed))
        ranker.fit(splits.train, splits.valid)
        valid = mean_over_queries(_per_query(ranker, splits.valid, metrics[:1])[str(metrics[0])])
        scores = ranker.predict(splits.test)
        test = {str(m): m.per_query(scores, splits.test.labels, splits.test.offsets) for m in metrics}
        tried.append({"configuration": configuration, "valid": or_none(valid), "test": _means(test)})
        if best is None or sign * valid > sign * best[0]:
            best = valid, ranker, configuration, test, bool(np.ptp(scores) == 0)
    assert best is not None
    valid, ranker, configuration, test, constant = best
    judged = {part: _per_query(ranker, getattr(splits, part), metrics) for part in spec["judged"] if part != "test"}
    result = {
        "test": {name: [or_none(x) for x in values.tolist()] for name, values in test.items()},
        "means": {part: _means(values) for part, values in {"test": test, **judged}.items()},
        "valid": or_none(valid),
        "trees": int(ranker.n_trees_),
        "trained_with": f"{ranker.model_.tool} {ranker.model_.version()}",
        # Nothing could be split: such a model ranks nothing, and a report has to say so.
        "constant": constant,
        "queries": sizes,
    }
    if spec["configurations"]:
        result |= {"configuration": configuration, "tried": tried}
    if spec["curves"]:
        history = ranker.evals_result_
        result["curves"] = {part: [or_none(x) for x in next(iter(history[part].values()))] for part in spec["curves"]}
    return result


def attempt(spec: Mapping[str, Any], around: Surroundings, run: RunTrial | None = None) -> Outcome:
    """Run a trial and return its outcome; never raises.

    Args:
        spec: the specification.
        around: what all trials of the run need.
        run: the function that runs it, instead of `run_trial`.
    """
    start, host = time.perf_counter(), socket.gethostname()

    def outcome(status: str, **content: Any) -> Outcome:
        return Outcome(status, seconds=time.perf_counter() - start, host=host, **content)

    if around.version != tautrank.__version__:
        found = f"{host}: found tautrank {tautrank.__version__}"
        return outcome(IMPOSSIBLE, error=f"{found}; expected {around.version}, as in the study")
    try:
        import_own(around.own)
        _load(spec, around)
    except Exception as error:
        return outcome(IMPOSSIBLE, error=f"{host}: {in_a_sentence(error)}")
    try:
        with sharing_bins(around.bins), warnings.catch_warnings():
            # What is worth a warning in one training is counted over all of them by the report.
            warnings.simplefilter("ignore", TautrankWarning)
            return outcome(DONE, result=canonical((run or run_trial)(spec, around)))
    except Exception as error:
        return outcome(FAILED, error=in_a_sentence(error), is_option=isinstance(error, OptionError))


def in_a_sentence(error: Exception) -> str:
    """Turn an error into one sentence.

    Args:
        error: an error of this library is a sentence already; of another, its type and first line are used.

    >>> in_a_sentence(ValueError("no such thing\\nat all"))
    'ValueError: no such thing'
    """
    if isinstance(error, TautrankError):
        return str(error)
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}".rstrip(": ")


def _per_query(ranker: tautrank.Ranker, part: RankingData | None, metrics: Sequence[Metric]) -> _Values:
    assert part is not None
    scores = ranker.predict(part)
    return {str(m): m.per_query(scores, part.labels, part.offsets) for m in metrics}


def _means(values: _Values) -> dict[str, float | None]:
    return {name: or_none(mean_over_queries(of_queries)) for name, of_queries in values.items()}


def _divide(spec: Mapping[str, Any], data: RankingData | Splits) -> Splits:
    protocol = from_json(spec["protocol"])
    return divide(data, protocol, spec["trial"], spec["study_seed"], spec["seed"], spec["data"]["fold"])


# The parts of the last trial: the trials of one repetition follow each other and have the same.
_last_parts: list[tuple[str, tuple[Splits, dict[str, int]]]] = []


def _divided(spec: Mapping[str, Any], data: RankingData | Splits) -> tuple[Splits, dict[str, int]]:
    """The parts of a trial after the changes of its condition, and the sizes before them."""
    key = digest({name: spec[name] for name in ("data", "protocol", "trial", "study_seed", "seed", "changes")})
    for known, parts in (*_last_parts,):  # Dask runs trials on several threads
        if known == key:
            return parts
    splits = _divide(spec, data)
    made = changed(splits, from_json(spec["changes"]), spec["seed"]), part_sizes(splits)
    _last_parts[:] = [(key, made)]
    return made


def forget_data() -> None:
    """Free what trials have kept in memory for the next ones on the same data."""
    _last_parts.clear()
    forget_bins()


def _configurations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not spec["configurations"]:
        return [{}]
    if "draws" in spec:
        return random_configurations(spec["configurations"], tuple(spec["draws"]))
    return Search(from_json(spec["search"])).draw("", spec["configurations"], (spec["study_seed"], spec["trial"]))


def _measure(spec: Mapping[str, Any], data: RankingData | Splits | None) -> dict[str, Any]:
    lists = data
    if data is not None:
        lists = changed(_divide(spec, data), from_json(spec["changes"]), spec["seed"]).test
    found = MEASUREMENTS[spec["measure"]](lists, spec["seed"], **from_json(spec["parameters"]))
    values = found.pop("values")
    missing = [name for name in spec["metrics"] if name not in values]
    if missing:
        raise OptionError(f"metrics: found '{missing[0]}'; expected what is measured: {', '.join(values)}")
    test = {name: list(values[name]) for name in spec["metrics"]}
    means = _means({name: np.array(of_queries, np.float64) for name, of_queries in test.items()})
    return {"test": test, "means": {"test": means}, **found}


# The data of the last trials, so that a worker reads it once. Dask runs trials on several threads of one process.
_MOST_LOADED = 2
_loaded: OrderedDict[tuple[Any, ...], RankingData | Splits | None] = OrderedDict()
_loading = threading.Lock()


def _load(spec: Mapping[str, Any], around: Surroundings) -> RankingData | Splits | None:
    """The data of a trial, after making sure that it is the data of the plan."""
    given, fold, expected = spec["data"]["given"], spec["data"]["fold"], spec["data"]["fingerprint"]
    if list(given) == [MEMORY]:
        return around.held[expected]
    # Resampled data is kept in one piece, rather than put together for every trial.
    in_one_piece = takes_all_queries(from_json(spec["protocol"]))
    key = (*given, fold, expected, in_one_piece)
    with _loading:
        if key in _loaded:
            _loaded.move_to_end(key)
            return _loaded[key]
        while len(_loaded) >= _MOST_LOADED:
            _loaded.popitem(last=False)
        data = DataSource(tuple(given)).read(fold)
        if fingerprint_of(data) != expected:
            where = ", ".join(given)
            raise DataError(f"{where}: found other data than the study was planned with; expected the same content")
        _loaded[key] = pooled(data) if in_one_piece and data is not None else data
        return _loaded[key]
