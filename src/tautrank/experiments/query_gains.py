"""The gain of each test query of a comparison: by how much a system is better than the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.comparison_values import ComparisonValues
from tautrank.report.gain_figures import QueryGains


def query_gains(
    result: ComparisonValues, condition: str, metric: str, systems: Sequence[str] = ()
) -> QueryGains | None:
    """Return by how much each test query is ranked better by the systems than by the baseline, in
    the trials (trainings) that all of them have finished; None where no trial can be compared.

    Trials on the same queries give one number per query, the mean over trials; other trials one
    number per query of each trial.

    Args:
        result: the values of a comparison or a study.
        condition: the name of the condition (the variant of the data or parameters).
        metric: the name of the metric.
        systems: the systems to compare with the baseline; by default all that have finished a
            trial.
    """
    baseline = result.baseline
    trials_by_system = _trials_by_system(result, condition, metric, systems)
    if baseline not in trials_by_system or len(trials_by_system) < 2:
        return None
    common_trials = _common_trials(trials_by_system)
    if not common_trials:
        return None

    values_by_system = {}
    for system, values_by_trial in trials_by_system.items():
        values_of_trials = [values_by_trial[trial] for trial in common_trials]
        if result.tests_same_queries:
            values_by_system[system] = np.mean(values_of_trials, axis=0)
        else:
            values_by_system[system] = np.concatenate(values_of_trials)

    trial_of_query = None
    if not result.tests_same_queries:
        n_queries = [trials_by_system[baseline][trial].size for trial in common_trials]
        trial_of_query = np.repeat(np.array(common_trials, np.int64), n_queries)

    baseline_values = values_by_system.pop(baseline)
    higher_is_better = result.cell(condition, baseline, metric).higher_is_better
    gains = _gains_by_system(values_by_system, baseline_values, higher_is_better=higher_is_better)
    return QueryGains(
        unit=metric,
        baseline=baseline,
        values=baseline_values,
        gains=gains,
        higher_is_better=higher_is_better,
        trial_of=trial_of_query,
        overlap=result.overlap,
    )


def _trials_by_system(
    result: ComparisonValues, condition: str, metric: str, systems: Sequence[str]
) -> dict[str, dict[int, F64]]:
    """Return a metric's values of the test queries, by system and number of the trial, for the
    baseline and some systems (all if none are named); systems without a finished trial are left
    out.
    """
    compared_systems = systems or result.system_names
    # A dictionary, as a set in order: the baseline may be among the systems.
    unique_systems = dict.fromkeys([result.baseline, *compared_systems])

    trials_by_system = {}
    for system in unique_systems:
        # Empty for a system of which no trial is done.
        values_by_trial = result.by_trial(condition, system, metric)
        if values_by_trial:
            trials_by_system[system] = values_by_trial
    return trials_by_system


def _common_trials(trials_by_system: Mapping[str, Mapping[int, F64]]) -> list[int]:
    """Return the numbers of the trials that all systems have finished, in order."""
    numbers_by_system = [set(values_by_trial) for values_by_trial in trials_by_system.values()]
    return sorted(set.intersection(*numbers_by_system))


def _gains_by_system(
    values_by_system: Mapping[str, F64], baseline_values: F64, *, higher_is_better: bool
) -> dict[str, F64]:
    """Return by how much each query is ranked better by each system than by the baseline: the
    difference of their metric values, positive where the system is better.
    """
    gains = {}
    for system, values in values_by_system.items():
        if higher_is_better:
            gains[system] = values - baseline_values
        else:
            gains[system] = baseline_values - values
    return gains
