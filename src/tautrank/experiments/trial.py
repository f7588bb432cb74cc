"""A trial: a pure function of its specification, the same on every machine."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tautrank
from tautrank.data import RankingData, Splits
from tautrank.errors import DataError, OptionError, TautrankError, TautrankWarning
from tautrank.experiments.data_source import NONE, DataSource, fingerprint_of
from tautrank.experiments.divide import divide, takes_all_queries, together
from tautrank.experiments.fit_best import in_a_sentence, mean_of_counted, train_best
from tautrank.experiments.perturb import changed
from tautrank.experiments.plain_values import from_plain
from tautrank.experiments.space import Search
from tautrank.json_values import canonical, or_none
from tautrank.losses.own_losses import OwnLoss, import_own
from tautrank.metrics import metric
from tautrank.papers.measurements import MEASUREMENTS

DONE, FAILED, IMPOSSIBLE = "done", "failed", "impossible"


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Args:
        status: ``done``; ``failed`` where the trial itself raised an error; ``impossible`` where this machine cannot
            run it (no data, other data, another version), which says nothing of the trial.
        result: JSON text, where it is done.
        error: one sentence, where it is not.
        seconds: what it took.
        host: where it ran.
    """

    status: str
    result: str = ""
    error: str = ""
    seconds: float = 0.0
    host: str = ""


def run_trial(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Run a trial: read and divide the data, apply the condition, train, judge.

    Args:
        spec: as `StudyPlan.trials` makes it.

    Returns:
        ``test``: per metric one value a test query (None where it is skipped); ``means`` by part and metric; ``valid``,
        the validation score; ``trees``; ``trained_with``, tool and version; ``constant`` where all scores are equal;
        ``configuration`` and ``tried`` where there was a search; ``curves`` by part; ``queries`` by part, before the
        condition's changes. Of a measurement: ``test``, ``means``, and its ``curves`` and ``points``.
    """
    data = _load(spec)
    if "measure" in spec:
        return _measured(spec, data)
    assert data is not None
    protocol = from_plain(spec["protocol"])
    splits = divide(data, protocol, spec["trial"], spec["study_seed"], spec["seed"])
    sizes = {name: part.n_queries for name, part in zip(splits._fields, splits, strict=True) if part is not None}
    splits = changed(splits, from_plain(spec["changes"]), spec["seed"])
    metrics = [metric(name) for name in spec["metrics"]]
    configurations: list[dict[str, Any]] = [{}]
    if spec["configurations"]:
        search = Search(from_plain(spec["search"]))
        configurations = search.draw("", spec["configurations"], (spec["study_seed"], spec["trial"]))
    fixed = {"random_state": spec["seed"], "n_jobs": spec["n_jobs"], "verbose": 0}
    fixed |= {"eval_train": "train" in spec["curves"], **from_plain(spec["parameters"])}
    best = train_best(spec["loss"], configurations, fixed, splits, metrics)
    means = {"test": {name: or_none(mean_of_counted(values)) for name, values in best.values.items()}}
    for part in (name for name in spec["judged"] if name != "test"):
        judged = getattr(splits, part)
        scores = best.ranker.predict(judged)
        means[part] = {str(m): or_none(m.mean(scores, judged.labels, judged.offsets)) for m in metrics}
    result = {
        "test": {name: [or_none(x) for x in values.tolist()] for name, values in best.values.items()},
        "means": means,
        "valid": or_none(best.valid),
        "trees": int(best.ranker.n_trees_),
        "trained_with": f"{best.ranker.model_.tool} {best.ranker.model_.version()}",
        # Nothing could be split: such a model ranks nothing, and a report has to say so.
        "constant": bool(np.ptp(best.ranker.predict(splits.test)) == 0),
        "queries": sizes,
    }
    if spec["configurations"]:
        result |= {"configuration": best.configuration, "tried": best.tried}
    if spec["curves"]:
        history = best.ranker.evals_result_
        result["curves"] = {part: [or_none(x) for x in next(iter(history[part].values()))] for part in spec["curves"]}
    return result


def attempt(spec: Mapping[str, Any], version: str, own: Sequence[OwnLoss] = ()) -> Outcome:
    """Run a trial and say what came of it, whatever that is; only a killed process says nothing.

    Args:
        spec: of the trial.
        version: of tautrank where the study is run; a worker of another version would mix unlike numbers.
        own: losses that are not of this library, to be imported here.
    """
    start, host = time.perf_counter(), socket.gethostname()

    def outcome(status: str, **content: str) -> Outcome:
        return Outcome(status, seconds=time.perf_counter() - start, host=host, **content)

    if version != tautrank.__version__:
        return outcome(
            IMPOSSIBLE, error=f"{host}: found tautrank {tautrank.__version__}; expected {version}, as in the study"
        )
    try:
        import_own(own)
        _load(spec)
    except (TautrankError, OSError) as error:
        return outcome(IMPOSSIBLE, error=f"{host}: {error}")
    try:
        with warnings.catch_warnings():
            # What is worth a warning in one training is counted over all of them by the report.
            warnings.simplefilter("ignore", TautrankWarning)
            return outcome(DONE, result=canonical(run_trial(spec)))
    except Exception as error:
        return outcome(FAILED, error=in_a_sentence(error))


def _measured(spec: Mapping[str, Any], data: RankingData | Splits | None) -> dict[str, Any]:
    lists = data
    if data is not None:
        splits = divide(data, from_plain(spec["protocol"]), spec["trial"], spec["study_seed"], spec["seed"])
        lists = changed(splits, from_plain(spec["changes"]), spec["seed"]).test
    found = MEASUREMENTS[spec["measure"]](lists, spec["seed"], **from_plain(spec["parameters"]))
    values = found.pop("values")
    missing = [name for name in spec["metrics"] if name not in values]
    if missing:
        raise OptionError(f"metrics: found '{missing[0]}'; expected what is measured: {', '.join(values)}")
    test = {name: list(values[name]) for name in spec["metrics"]}
    means = {name: or_none(mean_of_counted(np.array(v, np.float64))) for name, v in test.items()}
    return {"test": test, "means": {"test": means}, **found}


# The data of the last trials, so that a worker reads it once. Dask runs trials on several threads of one process.
_MOST_LOADED = 2
_loaded: OrderedDict[tuple[Any, ...], RankingData | Splits] = OrderedDict()
_loading = threading.Lock()


def _load(spec: Mapping[str, Any]) -> RankingData | Splits | None:
    """The data of a trial, after making sure that it is the data the study was planned with."""
    given, fold, expected = spec["data"]["given"], spec["data"]["fold"], spec["data"]["fingerprint"]
    if list(given) == [NONE]:
        return None
    # Resampled data is kept in one piece, rather than put together for every trial.
    pooled = takes_all_queries(from_plain(spec["protocol"]))
    key = (*given, fold, expected, pooled)
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
        _loaded[key] = together(data) if pooled else data
        return _loaded[key]
