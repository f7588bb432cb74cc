"""From a store to what it shows: means, spreads, two tests, the paper's numbers beside them, and verdicts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.divide import FixedParts, Protocol
from tautrank.experiments.result import (
    AGREES,
    DOES_NOT,
    UNDECIDED,
    Cell,
    CellResult,
    Comparison,
    Gathered,
    Judgement,
    verdict_of,
)
from tautrank.metrics import metric
from tautrank.papers.claims import Better, Claim
from tautrank.papers.run import StudyPlan, StudyStore
from tautrank.papers.study import PaperTest
from tautrank.significance.paired import corrected_resampled_t_test, holm, paired_t_test, t_tail
from tautrank.significance.repeated import repeated_runs_test


@dataclass(frozen=True, eq=False)
class Advantage:
    """What should be positive, in every trial.

    Args:
        trials: one number per trial.
        queries: for each trial one number per query, NaN if it is skipped; None if a trial's number is not a mean over
            its queries.
        sides: the values of two systems, one per trial, if the advantage is their difference.
    """

    trials: F64
    queries: Sequence[F64] | None = None
    sides: tuple[F64, F64] | None = None

    @property
    def mean(self) -> float:
        """The mean over the trials; NaN without any."""
        return float(self.trials.mean()) if self.trials.size else math.nan


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Args:
        sentence: the claim.
        trials: the number of trials that count.
        advantage: the mean of what should be positive.
        own: the judgement of the paper's own test.
        corrected: the judgement of the test that counts what trials share, Holm-adjusted over the study's claims.
        text: the paper's words, if they are given.
    """

    sentence: str
    trials: int
    advantage: float
    own: Judgement
    corrected: Judgement
    text: str = ""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StudyResult(Comparison):
    """What a study shows so far: a `Comparison` with the paper's numbers beside it, and verdicts.

    Args:
        verdicts: one per comparison that the claims make.
    """

    plan: StudyPlan
    verdicts: tuple[Verdict, ...]

    @property
    def verdict(self) -> str:
        """The verdict on the study as a whole, by the corrected test: agrees if all claims do."""
        return _whole([v.corrected.verdict for v in self.verdicts])

    @property
    def own_verdict(self) -> str:
        """The same by the paper's own test."""
        return _whole([v.own.verdict for v in self.verdicts])


def read_results(path: Path) -> StudyResult:
    """Return the results in a store.

    Args:
        path: the store's file; a run may be going on.
    """
    with StudyStore.open(path) as store:
        return collect(store)


def collect(store: StudyStore) -> StudyResult:
    """Put the finished trials of a store together, and judge them.

    Args:
        store: the store.
    """
    found = _Judged(store.plan, store)
    return StudyResult(**found.fields(), meta=store.meta, cells=_cells(found), verdicts=_verdicts(found))


def own_test(advantage: Advantage, test: PaperTest) -> Judgement:
    """Judge as the paper did.

    Two intervals at level a, each the mean ± t(a) standard errors, touch where the difference of the means is no more
    than t(a) times the sum of the standard errors; the p-value is the level at which they just touch.

    Args:
        advantage: the advantage of the system that should win.
        test: the paper's test.

    >>> advantage = Advantage(np.array([0.25, 0.25, 0.5]))
    >>> round(own_test(advantage, PaperTest(level=0.1)).p_value, 4), own_test(advantage, PaperTest(level=0.1)).verdict
    (0.0572, 'agrees')
    """
    alternative = "greater" if test.one_sided else "two-sided"
    d = advantage.trials
    name = "paired t-test over trials"
    if test.over == "queries" and advantage.queries is not None:
        name = "paired t-test over the queries of the first trial"
        d = advantage.queries[0] if len(advantage.queries) else np.zeros(0)
        d = d[~np.isnan(d)]
    if d.size < 2:
        return Judgement(name, math.nan, UNDECIDED)
    if test.kind == "intervals" and advantage.sides is not None and test.over == "trials":
        name = "intervals over trials"
        errors = sum(float(np.std(side, ddof=1)) / math.sqrt(side.size) for side in advantage.sides)
        mean = advantage.mean
        t = mean / errors if errors else math.copysign(math.inf, mean) if mean else 0.0
        p = t_tail(t, d.size - 1, "two-sided")
    else:
        p = paired_t_test(d, np.zeros_like(d), alternative).p_value  # type: ignore[arg-type]
    if test.one_sided:
        return Judgement(name, p, AGREES if p <= test.level else DOES_NOT if 1 - p <= test.level else UNDECIDED)
    return Judgement(name, p, verdict_of(p, float(d.mean()), test.level))


def corrected_test(advantage: Advantage, protocol: Protocol, level: float, overlap: float) -> Judgement:
    """Judge by a test that counts what the trials share.

    Trials that draw their queries again share most of their training data: Nadeau and Bengio's corrected resampled
    t-test. Trials on the same test queries share those: the repeated-runs test, over queries and trials. Trials on all
    queries there are, or without any data, leave only the trials to chance: the t-test.

    Args:
        advantage: the advantage of the system that should win.
        protocol: the protocol of the study.
        level: the significance level.
        overlap: held out over trained on, if trials draw their training data again.

    >>> from tautrank.experiments.divide import Resampling
    >>> advantage = Advantage(np.array([1.0, 2.0, 3.0]))
    >>> corrected_test(advantage, Resampling(), 0.05, 1 / 3)
    Judgement(test='corrected resampled t-test', p_value=0.1339..., verdict='not decidable')
    """
    d, p = advantage.trials, math.nan
    if isinstance(protocol, FixedParts) and advantage.queries is not None:
        name, both = "repeated-runs test", np.array(advantage.queries)
        if d.size and np.count_nonzero(~np.isnan(both).any(axis=0)) > 1:
            p = repeated_runs_test(both, np.where(np.isnan(both), np.nan, 0.0), overlap=overlap).p_value
    elif overlap:
        name = "corrected resampled t-test"
        if d.size > 1:
            p = corrected_resampled_t_test(d, n_train=1.0, n_test=overlap).p_value
    else:
        name = "t-test over trials"
        if d.size > 1:
            p = paired_t_test(d, np.zeros_like(d)).p_value
    return Judgement(name, p, verdict_of(p, advantage.mean, level))


class _Judged(Gathered):
    """The finished trials of a study, and what its claims say about them."""

    plan: StudyPlan

    def sign(self, name: str) -> int:
        """1 where more is better, -1 for a cost; what a measurement gives is taken as it is."""
        return 1 if self.plan.study.measures_only or metric(name).higher_is_better else -1

    def advantage(self, claim: Claim, cells: tuple[Cell, ...]) -> Advantage:
        """What a claim says should be positive, in the trials that all of its cells have done."""
        done = [set(self._trials(cell, claim.part, claim.of_curves)) for cell in cells]
        common = sorted(set.intersection(*done)) if done else []
        if claim.of_curves:
            return Advantage(claim.advantage(lambda cell: self._curves(cell, claim.part, common), cells))

        def means(cell: Cell) -> F64:
            found = self.means.get((*cell, claim.part), {})
            return self.sign(cell[2]) * np.array([found[trial] for trial in common], np.float64)

        queries = None
        sizes = [{self.queries[cell][t].size for cell in cells} for t in common]
        if claim.by_query and claim.part == "test" and all(len(size) == 1 for size in sizes):
            queries = [
                claim.advantage(lambda cell, t=trial: self.sign(cell[2]) * self.queries[cell][t], cells)  # type: ignore[misc]
                for trial in common
            ]
        sides = (means(cells[0]), means(cells[1])) if len(cells) == 2 else None
        return Advantage(claim.advantage(means, cells), queries, sides)

    def judge(self, compared: Sequence[tuple[Claim, tuple[Cell, ...]]]) -> list[tuple[Advantage, Judgement, Judgement]]:
        """The advantages of comparisons, each with the judgements of the paper's and of the corrected test.

        The corrected test counts all of the comparisons, by Holm's method.
        """
        study = self.plan.study
        advantages = [self.advantage(claim, cells) for claim, cells in compared]
        corrected = [corrected_test(each, study.protocol, study.test.level, self.overlap) for each in advantages]
        adjusted = holm([judgement.p_value for judgement in corrected]).tolist() if corrected else []
        return [
            (each, own_test(each, study.test), Judgement(of.test, p, verdict_of(p, each.mean, study.test.level)))
            for each, of, p in zip(advantages, corrected, adjusted, strict=True)
        ]

    def _trials(self, cell: Cell, part: str, of_curves: bool) -> list[int]:
        if of_curves:
            curves = self.curves.get((cell[0], cell[1], part), {})
            return [trial for trial, curve in curves.items() if curve and not np.isnan(curve).any()]
        found = self.means.get((*cell, part), {})
        return [trial for trial, value in found.items() if not math.isnan(value)]

    def _curves(self, cell: Cell, part: str, trials: Sequence[int]) -> F64:
        """The best value so far after each tree of the budget, one row per trial: what early stopping keeps."""
        length = self.plan.budget.trees or 1
        rows = np.empty((len(trials), length))
        for row, trial in zip(rows, trials, strict=True):
            curve = self.sign(cell[2]) * np.array(self.curves[cell[0], cell[1], part][trial][:length])
            row[: curve.size] = np.maximum.accumulate(curve)
            row[curve.size :] = row[curve.size - 1]
        return rows


def _cells(gathered: _Judged) -> tuple[CellResult, ...]:
    """Compare every system with the baseline under the same condition; Holm counts a metric's comparisons."""
    study, recipe = gathered.plan.study, gathered.plan.used_recipe
    result: list[CellResult] = []
    compared: dict[str, dict[int, Claim]] = defaultdict(dict)
    printed = {(p.condition, p.system, p.metric, p.part): p for p in (recipe.printed if recipe else ())}
    for condition in study.condition_names:
        for place in product([condition], study.system_names, study.metrics_under(condition), study.judged):
            by_trial = gathered.means.get(place, {})
            counted = {trial: value for trial, value in sorted(by_trial.items()) if not math.isnan(value)}
            means = np.array(list(counted.values()), np.float64)
            _, system, name, part = place
            if system != study.baseline and part == "test":
                claim = Better(better=system, worse=study.baseline, metric=name, condition=condition)
                compared[name][len(result)] = claim
            shown = (printed[place].value, printed[place].spread) if place in printed else ()
            result.append(CellResult(*place, gathered.sign(name) > 0, tuple(counted), means, *shown))
    for name, claims in compared.items():
        judged = gathered.judge([(claim, claim.cells(())[0]) for claim in claims.values()])
        for i, (advantage, own, corrected) in zip(claims, judged, strict=True):
            difference = advantage.mean * gathered.sign(name)
            result[i] = replace(result[i], difference=difference, own=own, corrected=corrected)
    return tuple(result)


def _verdicts(gathered: _Judged) -> tuple[Verdict, ...]:
    study = gathered.plan.study
    compared = [(claim, cells) for claim in study.claims for cells in claim.cells(study.condition_names)]
    return tuple(
        Verdict(claim.sentence(cells), advantage.trials.size, advantage.mean, own, corrected, claim.text)
        for (claim, cells), (advantage, own, corrected) in zip(compared, gathered.judge(compared), strict=True)
    )


def _whole(verdicts: Sequence[str]) -> str:
    if verdicts and all(verdict == AGREES for verdict in verdicts):
        return AGREES
    return DOES_NOT if DOES_NOT in verdicts else UNDECIDED
