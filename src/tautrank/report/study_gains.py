"""What test queries gain over the baseline of a study: query by query, or trial by trial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.experiments.divide import FixedParts, OnItself, Protocol
from tautrank.papers.results import StudyResult
from tautrank.report.figures import DifficultyGroup

F64: TypeAlias = NDArray[np.float64]

_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class QueryGains:
    """The test queries of one condition: what the baseline has, and what the others gain.

    Args:
        baseline: one value a query.
        gains: for each other system, one number a query, above 0 where it is better than the baseline.
        trial_of: the trial of each query, where trials test on other queries; None where all test on the same, and
            numbers are means over trials.
        higher_is_better: whether the baseline's value is high where a query is easy.
    """

    baseline: F64
    gains: dict[str, F64]
    trial_of: NDArray[np.int64] | None
    higher_is_better: bool


def same_queries(protocol: Protocol) -> bool:
    """Whether all trials test on the same queries.

    Args:
        protocol: of a study.

    >>> same_queries(OnItself())
    True
    """
    return isinstance(protocol, FixedParts | OnItself)


def values_by_trial(result: StudyResult, condition: str, system: str, name: str) -> dict[int, F64]:
    """The test queries' values by number of the trial; trials in which every query was skipped are left out.

    Args:
        result: of a study.
        condition, system, name: which; the name is the metric's.
    """
    found = result.values.get((condition, system, name), [])
    counted = [values for values in found if not np.isnan(values).all()]
    return dict(zip(result.cell(condition, system, name).numbers, counted, strict=True))


def pair_gains(result: StudyResult, condition: str, system: str, name: str) -> F64:
    """What each test query gains over the baseline, in the trials both have done.

    Trials on the same queries give one number a query, the mean over trials; others one number a query of each trial.

    Args:
        result: of a study.
        condition, system, name: which; the name is the metric's.
    """
    study = result.plan.study
    ours, theirs = (values_by_trial(result, condition, s, name) for s in (system, study.baseline))
    sign = 1 if result.cell(condition, system, name).higher_is_better else -1
    return _joined([sign * (ours[t] - theirs[t]) for t in sorted(ours.keys() & theirs.keys())], study.protocol)


def query_gains(result: StudyResult, condition: str, name: str) -> QueryGains | None:
    """The same for all systems at once, in the trials that all of them have done; None where there are none.

    Args:
        result: of a study.
        condition, name: which; the name is the metric's.
    """
    study = result.plan.study
    values = {s: values_by_trial(result, condition, s, name) for s in study.system_names}
    values = {s: by_trial for s, by_trial in values.items() if by_trial}
    common = sorted(set.intersection(*map(set, values.values()))) if values else []
    if study.baseline not in values or len(values) < 2 or not common:
        return None
    joined = {s: _joined([by_trial[t] for t in common], study.protocol) for s, by_trial in values.items()}
    baseline = joined.pop(study.baseline)
    higher = result.cell(condition, study.baseline, name).higher_is_better
    gains = {s: v - baseline if higher else baseline - v for s, v in joined.items()}
    sizes = [values[study.baseline][t].size for t in common]
    trial_of = None if same_queries(study.protocol) else np.repeat(np.array(common, np.int64), sizes)
    return QueryGains(baseline, gains, trial_of, higher)


def interval_over_trials(differences: ArrayLike, overlap: float) -> tuple[float, float]:
    """95% confidence interval of a mean over trials whose training queries overlap; NaN for fewer than two trials.

    mean ± t(J - 1) sqrt((1/J + overlap) var): what `tautrank.corrected_resampled_t_test` does not reject at 5%.

    Args:
        differences: one number a trial.
        overlap: held out over trained on; 0 gives Student's interval.

    >>> low, high = interval_over_trials([1, 2, 3], 1 / 3)
    >>> round(low, 3), round(high, 3)
    (-1.513, 5.513)
    """
    d = np.asarray(differences, np.float64)
    if d.size < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit

    half = float(stdtrit(d.size - 1, (1 + _CONFIDENCE) / 2)) * math.sqrt((1 / d.size + overlap) * float(d.var(ddof=1)))
    return float(d.mean()) - half, float(d.mean()) + half


def group_intervals(
    gains: F64, groups: list[DifficultyGroup], trial_of: NDArray[np.int64], overlap: float
) -> list[tuple[float, float]]:
    """Intervals of the mean gain of groups of queries, over trials that test on other queries.

    Args:
        gains: one number a query.
        groups: of the queries.
        trial_of: the trial of each query.
        overlap: see `interval_over_trials`.

    >>> group = DifficultyGroup(0.0, 1.0, np.arange(4))
    >>> [(low, high)] = group_intervals(np.array([0.0, 2.0, 3.0, 1.0]), [group], np.array([0, 0, 1, 1]), 0.0)
    >>> round((low + high) / 2, 3)
    1.5
    """
    found = []
    for group in groups:
        known = group.queries[~np.isnan(gains[group.queries])]
        trials, place = np.unique(trial_of[known], return_inverse=True)
        counts = np.bincount(place, minlength=trials.size)
        low, high = interval_over_trials(np.bincount(place, gains[known], trials.size) / counts, overlap)
        # Centred on the mean over queries, which is what is drawn.
        shift = float(gains[known].mean()) - (low + high) / 2 if known.size else 0.0
        found.append((low + shift, high + shift))
    return found


def _joined(values: list[F64], protocol: Protocol) -> F64:
    if not values:
        return np.zeros(0)
    joined: F64 = np.mean(values, axis=0) if same_queries(protocol) else np.concatenate(values)
    return joined
