"""What each test query of a comparison gains over the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.comparison_values import ComparisonValues
from tautrank.report.gain_figures import QueryGains


def query_gains(
    result: ComparisonValues, condition: str, metric: str, systems: Sequence[str] = ()
) -> QueryGains | None:
    """Return what each test query gains over the baseline in the trials that all systems have
    finished; None where no trial can be compared.

    Trials on the same queries give one number per query, the mean over trials; other trials one
    number per query of each trial.

    Args:
        result: the values of a comparison or a study.
        condition: the name of the condition.
        metric: the name of the metric.
        systems: the systems to compare with the baseline; by default all that have finished a
            trial.
    """
    baseline = result.baseline
    values_by_trial = _values_by_trial(result, condition, metric, systems)
    if baseline not in values_by_trial or len(values_by_trial) < 2:
        return None
    trials = sorted(set.intersection(*(set(by_trial) for by_trial in values_by_trial.values())))
    if not trials:
        return None

    values = {}
    for system, by_trial in values_by_trial.items():
        of_trials = [by_trial[trial] for trial in trials]
        if result.tests_same_queries:
            values[system] = np.mean(of_trials, axis=0)
        else:
            values[system] = np.concatenate(of_trials)
    trial_of = None
    if not result.tests_same_queries:
        sizes = [values_by_trial[baseline][trial].size for trial in trials]
        trial_of = np.repeat(np.array(trials, np.int64), sizes)

    of_baseline = values.pop(baseline)
    higher_is_better = result.cell(condition, baseline, metric).higher_is_better
    return QueryGains(
        unit=metric,
        baseline=baseline,
        values=of_baseline,
        gains=_gains(values, of_baseline, higher_is_better=higher_is_better),
        higher_is_better=higher_is_better,
        trial_of=trial_of,
        overlap=result.overlap,
    )


def _values_by_trial(
    result: ComparisonValues, condition: str, metric: str, systems: Sequence[str]
) -> dict[str, dict[int, F64]]:
    """Return the values of the baseline and of the systems in their trials; a system without
    trials is left out.
    """
    values = {}
    for system in dict.fromkeys((result.baseline, *(systems or result.system_names))):
        by_trial = result.by_trial(condition, system, metric)
        if by_trial:
            values[system] = by_trial
    return values


def _gains(
    values: Mapping[str, F64], of_baseline: F64, *, higher_is_better: bool
) -> dict[str, F64]:
    """Return by how much each query of each system is better than it is for the baseline."""
    if higher_is_better:
        return {system: of_system - of_baseline for system, of_system in values.items()}
    return {system: of_baseline - of_system for system, of_system in values.items()}
