"""From a store to what it shows: means, spreads, two tests, the paper's numbers beside them, and verdicts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.result import Cell, Comparison, Gathered
from tautrank.metrics import metric
from tautrank.papers.claims import Better, Claim
from tautrank.papers.judging import AGREES, DOES_NOT, UNDECIDED, Advantage, Judgement, judge
from tautrank.papers.plan import StudyPlan
from tautrank.papers.run import StudyStore
from tautrank.papers.study import Printed

_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class CellResult:
    """One system under one condition on one metric, over all trials.

    Args:
        condition, system, metric, part: its place; the part is ``test`` unless the study judges others too.
        higher_is_better: whether more is better.
        numbers: the numbers of the trials that are done.
        means: the mean over the queries, one per trial.
        printed: the paper's number; None if it printed none.
        difference: mean of system minus baseline over the trials both have done; NaN for the baseline itself.
        own: the paper's test against the baseline; None for the baseline itself.
        corrected: the test that counts what trials share, likewise, Holm-adjusted over the metric's comparisons.
    """

    condition: str
    system: str
    metric: str
    part: str
    higher_is_better: bool
    numbers: tuple[int, ...]
    means: F64
    printed: Printed | None = None
    difference: float = math.nan
    own: Judgement | None = None
    corrected: Judgement | None = None

    @property
    def mean(self) -> float:
        """The mean over the trials."""
        return float(self.means.mean()) if self.means.size else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation over the trials; NaN for one."""
        return float(np.std(self.means, ddof=1)) if self.means.size > 1 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95% confidence interval of the mean, as papers give it: as if the trials were independent."""
        if self.means.size < 2:
            return math.nan, math.nan
        from scipy.special import stdtrit

        half = float(stdtrit(self.means.size - 1, (1 + _CONFIDENCE) / 2)) * self.deviation / math.sqrt(self.means.size)
        return self.mean - half, self.mean + half


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
        cells: condition by condition, system by system, metric by metric.
        verdicts: one per comparison that the claims make.
    """

    plan: StudyPlan
    cells: tuple[CellResult, ...]
    verdicts: tuple[Verdict, ...]

    def cell(self, condition: str, system: str, name: str, part: str = "test") -> CellResult:
        """Return one cell.

        Args:
            condition, system, name, part: its place; the name is the metric's.
        """
        return self.by_place[condition, system, name, part]

    @cached_property
    def by_place(self) -> dict[tuple[str, str, str, str], CellResult]:
        """The cells by (condition, system, metric, part)."""
        return {(c.condition, c.system, c.metric, c.part): c for c in self.cells}

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
    cells = _with_tests(found, _cells(found))
    return StudyResult(**found.fields(), meta=store.meta, cells=cells, verdicts=_verdicts(found))


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
        """The advantages of comparisons, each with the judgements of the paper's and of the corrected test."""
        advantages = [self.advantage(claim, cells) for claim, cells in compared]
        judged = judge(advantages, self.plan.study, self.overlap)
        return [(advantage, *both) for advantage, both in zip(advantages, judged, strict=True)]

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


def _cells(gathered: _Judged) -> Iterator[CellResult]:
    study, recipe = gathered.plan.study, gathered.plan.used_recipe
    printed = {(p.condition, p.system, p.metric, p.part): p for p in (recipe.printed if recipe else ())}
    for condition in study.condition_names:
        for place in product([condition], study.system_names, study.metrics_under(condition), study.judged):
            by_trial = gathered.means.get(place, {})
            counted = {trial: value for trial, value in sorted(by_trial.items()) if not math.isnan(value)}
            means = np.array(list(counted.values()), np.float64)
            yield CellResult(*place, gathered.sign(place[2]) > 0, tuple(counted), means, printed.get(place))


def _with_tests(gathered: _Judged, cells: Iterable[CellResult]) -> tuple[CellResult, ...]:
    """Compare every system with the baseline under the same condition; Holm counts a metric's comparisons."""
    baseline, result = gathered.plan.study.baseline, list(cells)
    compared: dict[str, dict[int, Claim]] = defaultdict(dict)
    for i, cell in enumerate(result):
        if cell.system != baseline and cell.part == "test":
            claim = Better(better=cell.system, worse=baseline, metric=cell.metric, condition=cell.condition)
            compared[cell.metric][i] = claim
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
