"""What test queries gain over the baseline of a study, in the trials that the compared systems have all finished."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.divide import FixedParts, OnItself, Protocol
from tautrank.papers.results import StudyResult
from tautrank.report.gains import QueryGains


def same_queries(protocol: Protocol) -> bool:
    """Return whether all trials test on the same queries.

    Args:
        protocol: the protocol of a study.

    >>> same_queries(OnItself())
    True
    """
    return isinstance(protocol, FixedParts | OnItself)


def query_gains(result: StudyResult, condition: str, name: str, systems: Sequence[str] = ()) -> QueryGains | None:
    """Return what each test query gains over the baseline in the trials that all systems have finished.

    Trials on the same queries give one number per query, the mean over trials; other trials one number per query of
    each trial.

    Args:
        result: the result of a study.
        condition: the name of the condition.
        name: the name of the metric.
        systems: the systems to compare with the baseline; by default all that have finished a trial.

    Returns:
        None where no trial can be compared.
    """
    study = result.plan.study
    shown = dict.fromkeys((study.baseline, *(systems or study.system_names)))
    found = {system: _values_by_trial(result, condition, system, name) for system in shown}
    if not systems:
        found = {system: by_trial for system, by_trial in found.items() if by_trial}
    common = sorted(set.intersection(*map(set, found.values()))) if found else []
    if study.baseline not in found or len(found) < 2 or not common:
        return None
    same = same_queries(study.protocol)
    values = {
        system: np.mean([by_trial[t] for t in common], axis=0)
        if same
        else np.concatenate([by_trial[t] for t in common])
        for system, by_trial in found.items()
    }
    sizes = [found[study.baseline][t].size for t in common]
    baseline = values.pop(study.baseline)
    higher = result.cell(condition, study.baseline, name).higher_is_better
    gains = {system: v - baseline if higher else baseline - v for system, v in values.items()}
    trial_of = None if same else np.repeat(np.array(common, np.int64), sizes)
    return QueryGains(name, study.baseline, baseline, gains, higher, trial_of, result.overlap)


def _values_by_trial(result: StudyResult, condition: str, system: str, name: str) -> dict[int, F64]:
    """The test queries' values by number of the trial, without trials in which every query was skipped."""
    found = result.values.get((condition, system, name), [])
    counted = [values for values in found if not np.isnan(values).all()]
    return dict(zip(result.cell(condition, system, name).numbers, counted, strict=True))
