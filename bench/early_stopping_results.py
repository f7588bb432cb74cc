"""Which trees to keep: rules of early stopping compared on real data, all judged from the same
training curves.

Writes docs/results/early-stopping.md; run with `make results`. Each training grows all its trees
once, and keeps the metric of every held-out query after every tree; rules then choose from the
curves of the validation queries and are judged on the test queries. Finished curves are kept, so
the command can be stopped and run again.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import KEPT, folds_of
from bench.measured_page import Lines, write_page
from tautrank.arguments import job_count
from tautrank.arrays import F64
from tautrank.commands.output import show_trainings
from tautrank.engines import DEFAULTS
from tautrank.significance.paired import holm
from tautrank.significance.systems import SystemsTest, combined_test, systems_test

METRIC = "ndcg@10"
LOSSES = ("lambdarank", "xendcg")
# Everything at the defaults, but for a sample of the features per tree: without one, repeats would
# be the same trees.
SAMPLED = {"feature_fraction": 0.8}
TREES, PATIENCE = 300, int(DEFAULTS["early_stopping_rounds"])
WIDTHS = (11, 31)
TODAY = "stop at the peak (default)"


@dataclass(frozen=True)
class DataSet:
    """A data set in five parts.

    Args:
        folder: where it is.
        losses: what is trained.
        tested: parts that are tested.
        repeats: trainings with other seeds; None for what the command line says.
        cut: what was left out for lack of time, in a sentence.
    """

    folder: str
    losses: tuple[str, ...] = LOSSES
    tested: tuple[int, ...] = (0, 1, 2, 3, 4)
    repeats: int | None = None
    cut: str = ""


SETS = {
    "MQ2007": DataSet("mq2007"),
    "MQ2008": DataSet("mq2008"),
    "ClueWeb09": DataSet("clueweb09"),
    "MSRD": DataSet(
        "msrd", ("lambdarank",), (0,), 2, "One loss, one tested part; learning rate 0.1."
    ),
}

# ----------------------------------------------------------------------------------------------------
# curves

Curves = Mapping[int, F64]  # of each part that was held out, [trees, queries]


@cache
def parts_of(folder: str) -> tuple[tr.RankingData, ...]:
    """The five parts: the test data of the five folds."""
    return tuple(fold.test for fold in folds_of(folder))


def curves(folder: str, loss: str, held_out: tuple[int, ...], seed: int) -> Curves:
    """Train on the other parts; return the metric of every query that was held out after every
    tree.
    """
    kept = KEPT / "early-stopping" / f"{folder}-{loss}-{'-'.join(map(str, held_out))}-{seed}.npz"
    if not kept.exists():
        parts = parts_of(folder)
        train = tr.RankingData.concat([part for at, part in enumerate(parts) if at not in held_out])
        grown = {
            "n_estimators": TREES,
            "early_stopping_rounds": None,
            "n_jobs": 1,
            "verbose": 0,
            **SAMPLED,
        }
        rate = {"learning_rate": 0.1} if folder == "msrd" else {}
        booster = (
            tr.Ranker(loss, METRIC, random_state=seed, **grown, **rate).fit(train).model_.booster
        )
        found = {str(part): np.stack([*_staged(booster, parts[part])]) for part in held_out}
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(".part.npz")
        np.savez_compressed(unfinished, **found)  # type: ignore[arg-type, unused-ignore]
        unfinished.replace(kept)
    with np.load(kept) as file:
        return {int(part): file[part].astype(np.float64) for part in file}


def _staged(booster: Any, data: tr.RankingData) -> Iterator[Any]:
    judge, scores = tr.metric(METRIC).bind(data.labels, data.offsets), np.zeros(data.n_documents)
    leaves = np.asarray(booster.predict(data.X, pred_leaf=True, num_threads=1), np.int64).reshape(
        data.n_documents, -1
    )
    for tree in range(TREES):
        if tree < booster.num_trees():
            used = np.arange(leaves[:, tree].max() + 1)
            scores += np.array([booster.get_leaf_output(tree, leaf) for leaf in used])[
                leaves[:, tree]
            ]
        yield judge.per_query(scores).astype(np.float32)


def trainings(chosen: DataSet, repeats: int) -> list[tuple[str, str, tuple[int, ...], int]]:
    """What the rules need: one training without each pair of parts that holds a tested one, one
    without each of those.

    A training without the parts a and b gives the curve on a when b is tested, and on b when a is.
    """
    pairs = [pair for pair in itertools.combinations(range(5), 2) if {*pair} & {*chosen.tested}]
    held_out = [*pairs, *((part,) for part in chosen.tested)]
    return [
        (chosen.folder, loss, out, seed)
        for seed in range(repeats)
        for loss in chosen.losses
        for out in held_out
    ]


# ----------------------------------------------------------------------------------------------------
# rules


def peak(curve: F64, width: int = 1) -> int:
    """Return the tree that today's rule keeps: the best so far, once 50 more were no better; of
    moving averages.

    Args:
        curve: mean metric after each tree.
        width: trees that the moving average is taken over, centred; fewer at both ends.
    """
    best = 0
    smoothed = averaged(curve, width)
    for tree, value in enumerate(smoothed):
        if value > smoothed[best]:
            best = tree
        if tree - best >= PATIENCE:
            break
    return best


def averaged(curve: F64, width: int) -> F64:
    """Return the moving average of a curve.

    >>> averaged(np.array([1.0, 2.0, 6.0]), 3).tolist()
    [1.5, 3.0, 4.0]
    """
    ones = np.ones(width)
    found: F64 = np.convolve(curve, ones, "same") / np.convolve(np.ones_like(curve), ones, "same")
    return found


@dataclass(frozen=True)
class Case:
    """One tested part of one repeat: the trees each rule keeps, and what they are worth.

    Args:
        valid: curve of the validation part, its mean over queries.
        others: curves of all four parts but the tested one, each held out in turn, averaged over
            all their queries.
        test: of each test query after each tree, trained without the validation part; and
        refit: trained on all four parts.
    """

    valid: F64
    others: F64
    test: F64
    refit: F64


RULES: dict[str, Callable[[Case], tuple[int, F64]]] = {
    TODAY: lambda case: (peak(case.valid), case.test),
    **{
        f"stop at the peak of the average over {width} trees": lambda case, width=width: (  # type: ignore[misc]
            peak(case.valid, width),
            case.test,
        )
        for width in WIDTHS
    },
    f"all {TREES} trees": lambda case: (TREES - 1, case.test),
    "peak by cross-validation": lambda case: (peak(case.others), case.test),
    "stop at the peak, refit": lambda case: (peak(case.valid), case.refit),
    "peak by cross-validation, refit (cross_validate_trees=True)": lambda case: (
        peak(case.others),
        case.refit,
    ),
    "smoothed peak by cross-validation, refit": lambda case: (
        peak(case.others, WIDTHS[0]),
        case.refit,
    ),
}


def cases(chosen: DataSet, loss: str, seed: int) -> Iterator[Case]:
    """The cases of one repeat, one per tested part; validation is the part before it."""
    for tested in chosen.tested:
        held = {
            part: curves(chosen.folder, loss, (min(part, tested), max(part, tested)), seed)
            for part in range(5)
            if part != tested
        }
        valid = (tested - 1) % 5
        all_queries = np.concatenate([held[part][part] for part in held], axis=1)
        yield Case(
            np.nanmean(held[valid][valid], axis=1),
            np.nanmean(all_queries, axis=1),
            held[valid][tested],
            curves(chosen.folder, loss, (tested,), seed)[tested],
        )


# ----------------------------------------------------------------------------------------------------
# the page


def trained(name: str, chosen: DataSet, repeats: int) -> None:
    """Make all curves, in as many processes as there are cores."""
    wanted = trainings(chosen, repeats)
    with show_trainings() as progress, ProcessPoolExecutor(job_count(None)) as pool:
        running = [pool.submit(curves, *each) for each in wanted]
        for done, future in enumerate(as_completed(running), 1):
            future.result()
            progress.update(done, len(wanted), name)


def measured(arguments: argparse.Namespace) -> Lines:
    """One table per data set and loss, and what they say together."""
    yield f"""\
Does it cost quality that training stops at a lucky peak of a noisy validation curve? {METRIC} of the test queries, all
parameters at the defaults of `Ranker` (learning rate {DEFAULTS["learning_rate"]}, stopping after {PATIENCE} trees
without a better value), but with {TREES} trees at most, and `feature_fraction=0.8`, which makes repeats differ. Each of
five parts is tested in turn; the one before it is the validation data, and the other three are the training data.

- *average over n trees*: the peak of the centred moving average of the validation curve.
- *by cross-validation*: each of the four parts that are not tested is held out in turn; the curve is the mean over all
  their queries.
- *refit*: a new model of that many trees, trained on all four parts. This takes one more training; cross-validation
  takes four.

Differences are from the default rule; p by `tautrank.systems_test`, adjusted by Holm's correction over the
{len(RULES) - 1} other rules.
"""
    found: dict[str, SystemsTest] = {}
    for name, chosen in SETS.items():
        asked = chosen.repeats or arguments.repeats
        some = (
            each
            for each in range(asked, 1, -1)
            if not arguments.only_finished or _finished(chosen, each)
        )
        repeats = next(some, 0)
        if repeats == 0:
            continue
        if not arguments.only_finished:
            trained(name, chosen, repeats)
        of_losses = []
        for loss in chosen.losses:
            runs = [[*cases(chosen, loss, seed)] for seed in range(repeats)]
            kept = {
                rule: [choose(case)[0] + 1 for run in runs for case in run]
                for rule, choose in RULES.items()
            }
            values = np.array([[_tested(choose, run) for run in runs] for choose in RULES.values()])
            values = values[:, :, ~np.isnan(values).any((0, 1))]
            of_losses.append(values)
            test = systems_test(values, baseline=0)
            count = f"{test.queries:,} test queries, {len(runs)} repeats"
            yield from (
                f"## {name}, {loss}",
                "",
                f"{count}.{' ' * bool(chosen.cut)}{chosen.cut}",
                "",
            )
            yield from _table(test, values.mean((1, 2)), kept)
        found[name] = systems_test(np.mean(of_losses, axis=0), baseline=0)
    yield from _together(found)


def _finished(chosen: DataSet, repeats: int) -> bool:
    return all(
        (KEPT / "early-stopping" / f"{folder}-{loss}-{'-'.join(map(str, out))}-{seed}.npz").exists()
        for folder, loss, out, seed in trainings(chosen, repeats)
    )


def _tested(choose: Callable[[Case], tuple[int, F64]], run: list[Case]) -> F64:
    return np.concatenate([values[tree] for tree, values in map(choose, run)])


def _table(test: SystemsTest, means: F64, kept: Mapping[str, list[int]]) -> Lines:
    yield "| rule | trees kept, median (range) | NDCG@10 | difference | 95 % interval | p | adjusted |"
    yield "|---|---|---|---|---|---|---|"
    for at, (rule, trees) in enumerate(kept.items()):
        numbers = f"{np.median(trees):.0f} ({min(trees)} to {max(trees)})"
        start = f"| {rule} | {numbers} | {means[at]:.4f} | "
        if at == 0:
            yield start + "| | | |"
            continue
        low, high = test.low[at, 0], test.high[at, 0]
        yield (
            f"{start}{test.differences[at, 0]:+.4f} | {low:+.4f} to {high:+.4f} | {test.p_values[at, 0]:.2g} | "
            f"{test.adjusted[at, 0]:.2g} |"
        )
    yield from ("", f"Smallest difference found with 80 % power: {test.detectable:.4f}.", "")


def _together(found: Mapping[str, SystemsTest]) -> Lines:
    yield f"""\
## All data sets together

The mean of the losses on each data set, and over the {len(found)} data sets (`combined_test`, the surest weighted
most); on how many of them the rule is above the default, and above or below it by the test (adjusted p below .05).

| rule | difference | 95 % interval | p | adjusted | above | above by the test | below by the test |
|---|---|---|---|---|---|---|---|"""
    winners, gains, counts = [], {}, {}
    for at, rule in enumerate(RULES):
        if at == 0:
            continue
        columns = [
            (
                test.differences[at, 0],
                test.standard_errors[at, 0],
                test.degrees[at, 0],
                test.adjusted[at, 0],
            )
            for test in found.values()
        ]
        d, se, df, p = (np.array(each) for each in zip(*columns, strict=True))
        gains[rule] = combined_test(d, se, df)
        counts[rule] = [
            int(np.sum(each)) for each in (d > 0, (d > 0) & (p < 0.05), (d < 0) & (p < 0.05))
        ]
        if counts[rule][1] == len(found):
            winners.append(rule)
    adjusted = holm([both.p_value for both in gains.values()])
    for (rule, both), own in zip(gains.items(), adjusted, strict=True):
        above, won, lost = counts[rule]
        yield (
            f"| {rule} | {both.difference:+.4f} | {both.low:+.4f} to {both.high:+.4f} | {both.p_value:.2g} | "
            f"{own:.2g} | {above} of {len(found)} | {won} | {lost} |"
        )
    best = max(gains, key=lambda rule: gains[rule].difference)
    verdict = f"Above the default on every data set by the test: {', '.join(winners)}."
    if not winners:
        verdict = (
            "No rule is above the default on every data set by the test, so the default stays."
        )
    gained, own = gains[best], dict(zip(gains, adjusted, strict=True))[best]
    most = f"The largest gain is that of {best} ({gained.difference:+.4f}, p = {gained.p_value:.2g}, {own:.2g} after"
    most += " Holm)."
    yield from ("", f"**Verdict.** {verdict} {most}", "")


if __name__ == "__main__":
    sys.exit(
        write_page("bench.early_stopping_results", "Early stopping", {"rules": measured}, repeats=3)
    )
