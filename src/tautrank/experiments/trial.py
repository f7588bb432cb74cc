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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

import tautrank
from tautrank.arrays import F64
from tautrank.data import RankingData, Splits
from tautrank.engines.binned import forget_bins, sharing_bins
from tautrank.errors import DataError, OptionError, TautrankError, TautrankWarning
from tautrank.experiments.changes import apply_changes
from tautrank.experiments.data_source import MEMORY, DataSource, fingerprint_of
from tautrank.experiments.protocols import Draw, part_sizes, pooled
from tautrank.experiments.space import Search, parameters_of, random_configurations
from tautrank.experiments.store import DONE, FAILED, IMPOSSIBLE, TrialOutcome
from tautrank.json_values import canonical, from_json, or_none
from tautrank.losses.own_losses import OwnLoss, import_own
from tautrank.metrics import Metric, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.ranker.stored_names import with_present_names


def no_answer(*_: Any) -> None:
    """Answer a trial that asks nothing."""


@dataclass(frozen=True)
class Surroundings:
    """What all trials of a run need besides their specifications; results do not depend on it.

    Args:
        version: the version of tautrank that runs the plan; a worker of another version would mix
            unlike numbers.
        own: losses that are not of this library, to be imported.
        held: data in memory, by its fingerprint.
        threads: threads of one trial, unless its specification says how many.
        bins: folder where the processes that run trials share binned data; empty for nowhere.
        ask: sends something to the process that gave the trial, and returns its answer.
    """

    version: str = field(default_factory=lambda: tautrank.__version__)
    own: tuple[OwnLoss, ...] = ()
    held: Mapping[str, Splits] = field(default_factory=dict)
    threads: int = 1
    bins: str = ""
    ask: Callable[[Any], Any] = no_answer


_Values: TypeAlias = dict[str, F64]
RunTrial: TypeAlias = Callable[[Mapping[str, Any], Surroundings], dict[str, Any]]
"""A function of a specification, and of what all trials need, that returns the result of a trial as
JSON values.
"""


def run_trial(spec: Mapping[str, Any], around: Surroundings | None = None) -> dict[str, Any]:
    """Run a trial: read and divide the data, apply the condition, train, judge.

    Args:
        spec: the specification, as `Plan.trials` makes it.
        around: data in memory, and threads.

    Returns:
        ``test``: per metric one value per test query (None if it is skipped); ``means`` by part and
            metric; ``valid``,
        the validation score; ``trees``; ``trained_with``, tool and version; ``constant`` if all
        scores are equal; ``configuration`` and ``tried`` if there was a search; ``curves`` by part;
        ``queries`` by part, before the condition's changes. For a measurement: ``test``, ``means``,
        and its ``curves`` and ``points``.
    """
    around = around or Surroundings()
    data = _load(spec, around)
    if "measure" in spec:
        return _measure(spec, data)
    assert data is not None
    splits, sizes = _divided(spec, data)
    metrics = [metric(name) for name in spec["metrics"]]
    fixed = {
        "random_state": spec["seed"],
        "n_jobs": spec.get("n_jobs", around.threads),
        "verbose": 0,
    }
    fixed |= {"eval_train": "train" in spec["curves"], **from_json(spec["parameters"])}
    # The configuration that validates best by the first metric is the result; the others are told
    # beside it.
    best: tuple[float, tautrank.Ranker, dict[str, Any], _Values, bool] | None = None
    tried = []
    for configuration in _configurations(spec):
        parameters = parameters_of({"loss": spec["loss"], **configuration}, fixed)
        ranker = tautrank.Ranker(metric=metrics[0], **with_present_names(parameters))
        ranker.fit(splits.train, splits.valid)
        valid = mean_over_queries(_per_query(ranker, splits.valid, metrics[:1])[str(metrics[0])])
        scores = ranker.predict(splits.test)
        test = {str(m): m.per_query(scores, splits.test) for m in metrics}
        tried.append(
            {"configuration": configuration, "valid": or_none(valid), "test": _means(test)}
        )
        if best is None or metrics[0].sign * valid > metrics[0].sign * best[0]:
            best = valid, ranker, configuration, test, bool(np.ptp(scores) == 0)
    assert best is not None
    valid, ranker, configuration, test, constant = best
    judged = {
        part: _per_query(ranker, getattr(splits, part), metrics)
        for part in spec["judged"]
        if part != "test"
    }
    result: dict[str, Any] = {
        "valid": or_none(valid),
        "trees": int(ranker.n_trees_),
        "queries": sizes,
    }
    result["test"] = {name: [or_none(x) for x in values.tolist()] for name, values in test.items()}
    result["means"] = {part: _means(values) for part, values in {"test": test, **judged}.items()}
    # Constant: nothing could be split, and such a model ranks nothing; a report has to say so.
    result |= {
        "constant": constant,
        "trained_with": f"{ranker.model_.tool} {ranker.model_.version()}",
    }
    if spec["configurations"]:
        result |= {"configuration": configuration, "tried": tried}
    if spec["curves"]:
        history = ranker.evals_result_
        result["curves"] = {
            part: [or_none(x) for x in next(iter(history[part].values()))]
            for part in spec["curves"]
        }
    return result


def attempt(
    spec: Mapping[str, Any], around: Surroundings, run: RunTrial = run_trial
) -> TrialOutcome:
    """Run a trial and return its outcome; never raises.

    Args:
        spec: the specification.
        around: what all trials of the run need.
        run: the function that runs it.
    """
    start, host = time.perf_counter(), socket.gethostname()

    def outcome(status: str, **content: Any) -> TrialOutcome:
        return TrialOutcome(status, seconds=time.perf_counter() - start, host=host, **content)

    try:
        if around.version != tautrank.__version__:
            raise DataError(
                f"found tautrank {tautrank.__version__}; expected {around.version}, as in the study"
            )
        import_own(around.own)
        _load(spec, around)
    except Exception as error:
        return outcome(IMPOSSIBLE, error=f"{host}: {in_a_sentence(error)}")
    try:
        with sharing_bins(around.bins), warnings.catch_warnings():
            # What is worth a warning in one training is counted over all of them by the report.
            warnings.simplefilter("ignore", TautrankWarning)
            return outcome(DONE, result=canonical(run(spec, around)))
    except Exception as error:
        return outcome(FAILED, error=in_a_sentence(error), is_option=isinstance(error, OptionError))


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
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}".rstrip(": ")


def _per_query(
    ranker: tautrank.Ranker, part: RankingData | None, metrics: Sequence[Metric]
) -> _Values:
    assert part is not None
    scores = ranker.predict(part)
    return {str(m): m.per_query(scores, part) for m in metrics}


def _means(values: _Values) -> dict[str, float | None]:
    return {name: or_none(mean_over_queries(of_queries)) for name, of_queries in values.items()}


def _divided(spec: Mapping[str, Any], data: RankingData | Splits) -> tuple[Splits, dict[str, int]]:
    """The parts of a trial after the changes of its condition, and the sizes before them."""
    decisive = ("data", "protocol", "trial", "study_seed", "seed", "changes")
    return _last_divided(canonical({name: spec[name] for name in decisive}), data)


# The trials of one repetition follow each other and have the same parts.
@lru_cache(maxsize=1)
def _last_divided(decisive: str, data: RankingData | Splits) -> tuple[Splits, dict[str, int]]:
    spec = json.loads(decisive)
    seeds, fold = (spec["study_seed"], spec["seed"]), spec["data"]["fold"]
    draw = Draw(spec["trial"], *seeds, fold)
    splits = from_json(spec["protocol"]).divide(data, draw)
    return apply_changes(splits, from_json(spec["changes"]), spec["seed"]), part_sizes(splits)


def forget_data() -> None:
    """Free what trials have kept in memory for the next ones on the same data."""
    _last_divided.cache_clear()
    forget_bins()


def _configurations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not spec["configurations"]:
        return [{}]
    if "draws" in spec:
        return random_configurations(spec["configurations"], tuple(spec["draws"]))
    return Search(from_json(spec["search"])).draw(
        "", spec["configurations"], (spec["study_seed"], spec["trial"])
    )


def _measure(spec: Mapping[str, Any], data: RankingData | Splits | None) -> dict[str, Any]:
    lists = None if data is None else _divided(spec, data)[0].test
    found = MEASUREMENTS[spec["measure"]](lists, spec["seed"], **from_json(spec["parameters"]))
    values = found.pop("values")
    missing = [name for name in spec["metrics"] if name not in values]
    if missing:
        raise OptionError(
            f"metrics: found '{missing[0]}'; expected what is measured: {', '.join(values)}"
        )
    test = {name: list(values[name]) for name in spec["metrics"]}
    means = _means({name: np.array(of_queries, np.float64) for name, of_queries in test.items()})
    return {"test": test, "means": {"test": means}, **found}


def _load(spec: Mapping[str, Any], around: Surroundings) -> RankingData | Splits | None:
    """The data of a trial, after making sure that it is the data of the plan."""
    given, fold, expected = spec["data"]["given"], spec["data"]["fold"], spec["data"]["fingerprint"]
    if list(given) == [MEMORY]:
        return around.held[expected]
    # Resampled data is kept in one piece, rather than put together for every trial.
    in_one_piece = not from_json(spec["protocol"]).uses_own_split
    with _loading:  # Dask runs trials on several threads of one process
        return _last_loaded(tuple(given), fold, expected, in_one_piece)


_loading = threading.Lock()


@lru_cache(maxsize=1)
def _last_loaded(
    given: tuple[str, ...], fold: int, expected: str, in_one_piece: bool
) -> RankingData | Splits | None:
    data = DataSource(given).read(fold)
    if fingerprint_of(data) != expected:
        where = ", ".join(given)
        raise DataError(
            f"{where}: found other data than the study was planned with; expected the same content"
        )
    return pooled(data) if in_one_piece and data is not None else data


# ---- Measurements: figures that need lists and scores, but no model. Each is a function of data,
# seed and parameters that returns numbers by name, lists of one value per example or query, and
# points for a figure.


def measure_jensen_clouds(data: RankingData | None, seed: int, **parameters: Any) -> dict[str, Any]:
    """Figure 1 of the XE-NDCG paper: the Jensen gap against the loss, one cloud per example.

    Quantities: ``smallest-gap``, ``mean-gap``, ``smallest-loss`` and ``mean-loss``, one value per
    example; and ``gap-saved``, the share of the mean gap that the best gamma saves.

    >>> sorted(measure_jensen_clouds(None, 0, examples=3, draws=5)["values"])
    ['gap-saved', 'mean-gap', 'mean-loss', 'smallest-gap', 'smallest-loss']
    """
    from tautrank.theory.gamma import jensen_clouds

    clouds = jensen_clouds(**{**parameters, "seed": seed})
    mean_gaps = clouds.gaps.mean(axis=1)
    # Equal scores leave no gap to save.
    left = np.divide(
        clouds.smallest_gaps, mean_gaps, out=np.ones_like(mean_gaps), where=mean_gaps > 0
    )
    values = {"smallest-gap": clouds.smallest_gaps, "mean-gap": mean_gaps, "gap-saved": 1.0 - left}
    values |= {"smallest-loss": clouds.smallest_losses, "mean-loss": clouds.losses.mean(axis=1)}
    points = {"gaps": clouds.gaps.tolist(), "losses": clouds.losses.tolist()}
    return {"values": {name: v.tolist() for name, v in values.items()}, "points": points}


def measure_softrank_distance(
    data: RankingData | None,
    seed: int,
    sigma: float = 0.1,
    delta: float = 1.0,
    lists: int = 100,
    documents: int = 10,
) -> dict[str, Any]:
    """He and Liu's Theorem 2: how far SoftNDCG is from NDCG, and whether that is within its bounds.

    Each list is in random order, its scores ``delta`` apart, as the theorem requires. Quantities,
    one value per query: ``nearness``, ``1 - |NDCG - SoftNDCG|``; and whether the distance is within
    the bound, 1 or 0, or nothing if the bound is not a number: ``within-bound`` as in the proof,
    ``within-bound-as-stated`` as in the theorem, ``within-bound-by-contests`` for the sharper one
    of `tautrank.theory.softrank_ndcg_bound`. Points: the means of the distance and of each bound.

    Args:
        data: lists with labels; None draws them as for Figure 1 of the XE-NDCG paper.
        seed: the seed of orders and labels.
        sigma: the standard deviation of each score.
        delta: the distance between scores.
        lists, documents: the number of lists to draw, and their length.

    >>> values = measure_softrank_distance(None, 0, sigma=0.1, lists=5)["values"]
    >>> min(values["nearness"]) > 0.999, values["within-bound"]
    (True, [1.0, 1.0, 1.0, 1.0, 1.0])
    """
    from tautrank.theory.gamma import LABEL_PROBABILITIES
    from tautrank.theory.softrank_bounds import softrank_curve

    rng = np.random.default_rng(seed)
    if data is None:
        offsets = np.arange(lists + 1) * documents
        labels = rng.choice(
            len(LABEL_PROBABILITIES), lists * documents, p=LABEL_PROBABILITIES
        ).astype(np.float64)
    else:
        offsets, labels = data.offsets, data.labels.astype(np.float64)
    scores = delta * np.concatenate([np.zeros(0), *(rng.permutation(n) for n in np.diff(offsets))])
    curve = softrank_curve(scores, labels, offsets, [sigma])
    distance = curve.difference[0]
    bounds = {"within-bound": curve.bound[0], "within-bound-as-stated": curve.bound_as_stated[0]}
    bounds |= {"within-bound-by-contests": curve.bound_by_contests[0]}
    within = {
        n: np.where(np.isfinite(v - distance), distance <= v, np.nan) for n, v in bounds.items()
    }
    finite = {
        n: np.where(np.isfinite(v), v, np.nan) for n, v in {"distance": distance, **bounds}.items()
    }
    points = {name: or_none(mean_over_queries(numbers)) for name, numbers in finite.items()}
    values = {"nearness": 1.0 - distance, **within}
    return {
        "values": {name: [or_none(x) for x in v.tolist()] for name, v in values.items()},
        "points": points,
    }


def measure_directness(
    data: RankingData | None, seed: int, *, loss: str = "softrank"
) -> dict[str, Any]:
    """He and Liu's Theorem 1: what choosing a ranker by a loss costs in the metric, and what is
    guaranteed.

    The rankers to choose from are `tautrank.theory.spread_scorings`. Quantities, one value in all:
    ``directness``, ``-(2 eps1 + eps2)``, so that more is more direct; ``by-means``, minus the same
    guarantee from means over queries; ``cost``, how much worse the ranker that is best by the loss
    is by the metric; ``within-guarantee``, 1 or 0.

    Args:
        data: lists with labels.
        seed: the seed of the rankers, and of losses that draw random numbers.
        loss: the loss.

    >>> data = RankingData.from_arrays([[0.0]] * 4, [0, 1, 2, 0], group=[4])
    >>> measure_directness(data, 0, loss="softrank(sigma=0.1)")["values"]["within-guarantee"]
    [1.0]
    """
    from tautrank.theory.directness import directness_among, spread_scorings

    if data is None:
        raise DataError("data: found none; expected lists with labels, for rankers to rank")
    scorings = spread_scorings(data.labels, data.offsets, seed=seed)
    found = directness_among(loss, scorings, data.labels, data.offsets, seed=seed)
    values = {
        "directness": -found.guarantee,
        "by-means": -found.guarantee_of_means,
        "cost": found.difference,
    }
    values["within-guarantee"] = math.nan if math.isnan(found.margin) else float(found.margin >= 0)
    return {"values": {name: [or_none(value)] for name, value in values.items()}}


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "jensen-clouds": measure_jensen_clouds,
    "softrank-distance": measure_softrank_distance,
    "directness": measure_directness,
}
"""Every measurement by name."""
