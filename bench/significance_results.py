"""Does the test of systems hold its level, and what does it find? Real differences between queries
and runs, resampled.

python -m bench.significance_results [material] [level] [resampling] [themselves] [--write
docs/results/significance.md]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import stdtr

import tautrank as tr
from bench.data_sets import KEPT, folds_of
from bench.measured_page import Lines, watched, write_page
from tautrank.arguments import job_count
from tautrank.arrays import F64
from tautrank.commands.output import show_trainings
from tautrank.experiments.compare import DEFAULT_LOSSES, compare_splits, comparison
from tautrank.significance.systems import (
    Parts,
    errors_of,
    parts_of,
    parts_test,
    resampled_systems_test,
    systems_test,
)

METRIC = "ndcg@5"
TRAINING = {"n_estimators": 50, "learning_rate": 0.1, "feature_fraction": 0.5}
QUERIES, RUNS, RUN_SDS = (60, 564, 2000), (1, 2, 5, 20), (0.0, 0.005, 0.01)
SCENARIOS = {
    "equal": 0.0,
    "unequal": 0.0,
    "shared": 1 / 3,
}  # and the overlap that the test is given
SHARED = 0.15
LEVEL, TRUE = 0.05, 0.02
REPLICATIONS = 2000
RESAMPLED, RESAMPLED_SD = 1000, 0.005


@cache
def trained(data: str, losses: tuple[str, ...], repeats: int) -> F64:
    """Train the losses on five folds, repeatedly; values [systems, runs, queries] without skipped
    queries.
    """
    KEPT.mkdir(exist_ok=True)
    declared = comparison(losses, [METRIC], repeats=repeats, parameters=TRAINING)
    with show_trainings(data) as progress:
        result = compare_splits(
            declared,
            folds_of(data),
            store=KEPT / f"significance-{data}.db",
            progress=progress,
            workers=job_count(None),
        )
    values = np.array([system.values[METRIC] for system in result.systems])
    return values[:, :, ~np.isnan(values).any((0, 1))]


def effects_of(values: F64) -> tuple[F64, F64]:
    """Divide values into what each system adds on each query, and on each query in each run; all
    means are removed.

    Noise in the query effects is not removed: the simulated queries vary a little more than the
    real ones.
    """
    by_query = values.mean(1)
    rest = values - by_query[:, None]
    runs = values.shape[1]
    return by_query - by_query.mean(1, keepdims=True), (
        rest - rest.mean(2, keepdims=True)
    ) * np.sqrt(runs / (runs - 1))


def drawn(
    query: F64, rest: F64, systems: int, runs: int, queries: int, rng: np.random.Generator
) -> F64:
    """Draw queries with replacement, for each of them runs with replacement: no system is better,
    no run is.

    Two systems are a pair of the real ones, drawn at random.
    """
    chosen = rng.permutation(query.shape[0])[:systems, None, None]
    at = rng.integers(query.shape[1], size=queries)
    run = rng.integers(rest.shape[1], size=(runs, queries))
    return query[chosen, at] + rest[chosen, run, at]


def run_effects(scenario: str, sd: float, systems: int, runs: int, rng: np.random.Generator) -> F64:
    """Draw what each system gains in each run, such that the difference of two systems has the
    given sd on average.
    """
    spread = np.ones(systems)
    if scenario == "unequal":
        spread = rng.permutation(np.linspace(0.3, 1.7, systems))
        spread /= np.sqrt(np.mean(spread**2))
    common = SHARED if scenario == "shared" else 0.0
    effects = np.sqrt(1 - common) * rng.normal(size=(systems, runs))
    effects += np.sqrt(common) * rng.normal(size=(systems, 1))
    return np.asarray(sd / np.sqrt(2) * spread[:, None] * effects)


def found(differences: F64, errors: F64, degrees: F64) -> list[float]:
    """Return the share of pairs called different as they are, and if the first of each were better
    by TRUE.
    """
    pairs = np.triu_indices_from(differences, 1)
    t = np.abs(differences[pairs] + [[0.0], [TRUE]]) / errors[pairs]
    return np.mean(2 * stdtr(degrees[pairs], -t) < LEVEL, axis=1).tolist()  # type: ignore[no-any-return]


def with_runs(parts: Parts, of_runs: F64, effects: F64) -> Parts:
    """Return the parts of values to which run effects are added; of_runs are the values' means over
    queries.

    What is the same on all queries changes the means of systems and runs and nothing else: no need
    to look at every query again.
    """
    moved = of_runs + effects
    own = moved - moved.mean(0) - moved.mean(1, keepdims=True) + moved.mean()
    gross = 2 * float(np.sum(own**2)) / parts.freedom if parts.freedom else 0.0
    return replace(parts, means=moved.mean(1), gross=gross)


def simulated(query: F64, rest: F64, shape: tuple[int, int, int]) -> dict[tuple[str, float], F64]:
    """Return level and power of `systems_test` for each scenario and run sd."""
    rng = np.random.default_rng(shape)
    counts = {key: np.zeros(2) for key in itertools.product(SCENARIOS, RUN_SDS)}
    for _ in range(REPLICATIONS):
        values = drawn(query, rest, *shape, rng)
        parts, of_runs = parts_of(values), values.mean(2)
        for scenario, sd in counts:
            effects = run_effects(scenario, sd, *shape[:2], rng)
            moved = with_runs(parts, of_runs, effects)
            errors, degrees = errors_of(moved, SCENARIOS[scenario])
            counts[scenario, sd] += found(
                np.subtract.outer(moved.means, moved.means), errors, degrees
            )
    # The shortcut is the test itself.
    whole = systems_test(values + effects[:, :, None], SCENARIOS[scenario])
    np.testing.assert_allclose(
        whole.p_values, parts_test(moved, SCENARIOS[scenario]).p_values, rtol=1e-6
    )
    return {key: count / REPLICATIONS for key, count in counts.items()}


def material(arguments: argparse.Namespace) -> Lines:
    """The sizes of the real effects."""
    values = trained("mq2008", DEFAULT_LOSSES, arguments.repeats)
    pairs = list(itertools.combinations(values, 2))
    query, rest = (
        np.sqrt(np.mean([np.var(effects_of((a - b)[None])[i]) for a, b in pairs])) for i in (0, 1)
    )
    run = [_run_sd(a - b) for a, b in pairs]
    mean = np.sqrt(np.mean([np.var((a - b).mean(1), ddof=1) for a, b in pairs]))
    yield f"""\
## Material

{len(DEFAULT_LOSSES)} losses ({", ".join(DEFAULT_LOSSES)}), {arguments.repeats} repeats on the five folds of MQ2008,
{TRAINING["n_estimators"]} trees, half of the features per tree, {METRIC}: {values.shape[2]} queries with a value.
The difference of two losses has a standard deviation of {query:.3f} over queries, {rest:.3f} over queries x runs, and
{min(run):.4f} to {max(run):.4f} over runs alone. (Its mean over all queries varies by {mean:.4f} from run to run:
nearly all of that comes from queries x runs.)

The simulations draw queries with replacement and, for each query, runs with replacement from these real values, without
the mean of each loss and of each run, and add normal run effects of a known size. *unequal*: the standard deviations of
the run effects differ between systems, by up to 5.7 times. *shared*: {SHARED:g} of their variance is common to all
runs of a system, and the test is given `overlap=1/3`. {REPLICATIONS:,} replications per setting; level and power at
{LEVEL:g}, two-sided, averaged over the pairs. A level of .05 is then measured with a standard error of .005 for two
systems, and less for eight.
"""


def _run_sd(d: F64) -> float:
    runs, queries = d.shape
    rest = d - d.mean(0) - d.mean(1, keepdims=True) + d.mean()
    noise = np.sum(rest**2) / ((runs - 1) * (queries - 1)) / queries
    return float(np.sqrt(max(0.0, np.var(d.mean(1), ddof=1) - noise)))


def level(arguments: argparse.Namespace) -> Lines:
    """Level and power of `systems_test`."""
    query, rest = effects_of(trained("mq2008", DEFAULT_LOSSES, arguments.repeats))
    yield from ("## Level and power of `systems_test`", "")
    for systems in (8, 2):
        yield from (f"### {'Eight systems' if systems == 8 else 'Two systems alone'}", "")
        yield from _head("queries x runs")
        for queries, runs in watched(list(itertools.product(QUERIES, RUNS)), f"{systems} systems"):
            found = simulated(query, rest, (systems, runs, queries))
            yield from _rows(f"{queries:,} x {runs}", found)
        yield ""


def resampling(arguments: argparse.Namespace) -> Lines:
    """Level and power of `resampled_systems_test`, and of a test of one number per trial."""
    query, rest = effects_of(trained("mq2008", DEFAULT_LOSSES, arguments.repeats))
    yield f"""\
## Level and power of `resampled_systems_test`

564 queries, eight systems, run sd {RESAMPLED_SD:g}; each trial tests a fifth of the queries, drawn anew.
{RESAMPLED:,} replications. The corrected t-test is `corrected_resampled_t_test`, which sees one difference per trial.

| trials | level | unequal | shared | power for {TRUE:g} | unequal | shared | corrected t-test: level | power |
|---|---|---|---|---|---|---|---|---|"""
    for trials in watched((5, 20, 100), "resampling"):
        rng = np.random.default_rng(trials)
        tests, corrected = {scenario: np.zeros(2) for scenario in SCENARIOS}, np.zeros(2)
        for _ in range(RESAMPLED):
            tested = np.argsort(rng.random((trials, 564)), axis=1) < 564 // 5
            drawing = np.where(tested, drawn(query, rest, 8, trials, 564, rng), np.nan)
            for scenario, overlap in SCENARIOS.items():
                values = drawing + run_effects(scenario, RESAMPLED_SD, 8, trials, rng)[:, :, None]
                result = resampled_systems_test(values, overlap)
                tests[scenario] += found(result.differences, result.standard_errors, result.degrees)
                if scenario == "equal":
                    d = np.nanmean(values[0] - values[1], axis=1)
                    pair = [
                        tr.significance.corrected_resampled_t_test(d + by, test_fraction=0.2)
                        for by in (0.0, TRUE)
                    ]
                    corrected += [test.p_value < LEVEL for test in pair]
        rates = [tests[scenario][i] for i in (0, 1) for scenario in SCENARIOS] + corrected.tolist()
        yield f"| {trials} | " + " | ".join(f"{rate / RESAMPLED:.3f}" for rate in rates) + " |"
    yield ""


def _head(first: str) -> Iterator[str]:
    yield f"| {first} | run sd | level | unequal | shared | power for {TRUE:g} | unequal | shared |"
    yield "|---|---|---|---|---|---|---|---|"


def _rows(name: str, found: dict[tuple[str, float], F64]) -> Iterator[str]:
    for sd in RUN_SDS:
        numbers = [f"{found[scenario, sd][i]:.3f}" for i in (0, 1) for scenario in SCENARIOS]
        yield f"| {name} | {sd:g} | " + " | ".join(numbers) + " |"


TWICE = ("lambdarank", "ndcg-loss2++", "xendcg", "listnet", "stochasticrank", "ranknet")


def themselves(arguments: argparse.Namespace) -> Lines:
    """The same loss twice, with other seeds."""
    values = trained("mq2007", tuple(loss for loss in TWICE for _ in range(2)), 5)
    together = systems_test(values)
    plain = [
        tr.significance.paired_t_test(values[i, 0], values[i + 1, 0]).p_value
        for i in range(0, len(values), 2)
    ]
    yield f"""\
## The same loss twice

MQ2007, {together.queries:,} queries with a value, five folds, 5 repeats, {TRAINING["n_estimators"]} trees, half of the
features per tree: each loss is trained twice on the same splits with other seeds. No difference is real.

| loss | difference | p, all systems together | p, the two alone | p, paired t-test over the queries of the first run |
|---|---|---|---|---|"""
    alone = []
    for i, loss in enumerate(TWICE):
        pair = values[2 * i : 2 * i + 2]
        alone.append(systems_test(pair).p_values[0, 1])
        yield (
            f"| {loss} | {together.differences[2 * i, 2 * i + 1]:+.4f} | {together.p_values[2 * i, 2 * i + 1]:.2f} | "
            f"{alone[-1]:.2f} | {plain[i]:.2f} |"
        )
    own = together.p_values[range(0, len(values), 2), range(1, len(values), 2)]
    flagged = [int(np.sum(np.array(p) < LEVEL)) for p in (own, alone, plain)]
    exchanged = [_exchanged(values, i) for i in range(0, len(values), 2)]
    shares = np.mean(exchanged, axis=0)
    yield f"""
Called different at {LEVEL:g}, of {len(TWICE)}: {flagged[0]} together, {flagged[1]} alone, {flagged[2]} by the paired
t-test. Smallest difference found with 80 % power: {together.detectable:.4f} together.

Which of the two trainings of a run comes first is arbitrary. Over all exchanges of the two in runs 2 to 5 (16 per loss,
{16 * len(TWICE)} in all, which depend on each other) {shares[0]:.3f} are called different together and
{shares[1]:.3f} alone.
"""


def _exchanged(values: F64, first: int) -> list[float]:
    """Return how often a loss differs from itself, together and alone, over all exchanges of the
    two in later runs.
    """
    found = []
    for exchange in itertools.product((False, True), repeat=values.shape[1] - 1):
        moved, twin = values.copy(), slice(first, first + 2)
        moved[twin] = np.where(
            np.array([False, *exchange])[:, None], values[twin][::-1], values[twin]
        )
        p_values = (
            systems_test(moved).p_values[first, first + 1],
            systems_test(moved[twin]).p_values[0, 1],
        )
        found.append([p < LEVEL for p in p_values])
    return np.mean(found, axis=0).tolist()  # type: ignore[no-any-return]


PARTS = {"material": material, "level": level, "resampling": resampling, "themselves": themselves}


if __name__ == "__main__":
    sys.exit(
        write_page(
            "bench.significance_results", "Significance: level and power", PARTS, tune=0, repeats=10
        )
    )
