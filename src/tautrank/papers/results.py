"""From a store to what it shows: means, spreads, two tests, the paper's numbers beside them, and verdicts."""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tautrank.experiments.divide import overlap_of
from tautrank.experiments.plan import title_of
from tautrank.experiments.store import DONE, Outcome, Trial
from tautrank.files import handed_out
from tautrank.json_values import or_nan
from tautrank.metrics import metric
from tautrank.papers.claims import Better, Cell, Claim
from tautrank.papers.judging import AGREES, DOES_NOT, UNDECIDED, Advantage, Judgement, judge
from tautrank.papers.plan import StudyPlan
from tautrank.papers.run import StudyStore
from tautrank.papers.study import Printed
from tautrank.report.table import ReportTable

F64 = NDArray[np.float64]

_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class CellResult:
    """One system under one condition on one metric, over all trials.

    Args:
        condition, system, metric, part: which; the part is ``test`` unless the study judges others too.
        higher_is_better: whether more is better.
        numbers: of the trials that are done.
        means: one a trial: the mean over its queries.
        printed: the paper's number; None where it printed none.
        difference: mean of system minus baseline over the trials both have done; NaN for the baseline itself.
        own: the paper's test against the baseline; None for the baseline itself.
        corrected: the test that knows what trials share, likewise, Holm-adjusted over the metric's comparisons.
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
        """Over the trials."""
        return float(self.means.mean()) if self.means.size else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation over the trials; NaN for one."""
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
    """What became of a claim.

    Args:
        sentence: what is claimed.
        trials: how many count.
        advantage: the mean of what should be positive.
        own: by the paper's own test.
        corrected: by the test that knows what trials share, Holm-adjusted over the study's claims.
        text: the paper's words, where they are given.
    """

    sentence: str
    trials: int
    advantage: float
    own: Judgement
    corrected: Judgement
    text: str = ""


@dataclass(frozen=True)
class Failure:
    """A trial that raised an error.

    Args:
        title: which.
        error: its sentence.
    """

    title: str
    error: str


@dataclass(frozen=True, eq=False)
class StudyResult:
    """What a study shows so far.

    Args:
        plan: what was run.
        meta: what the store says of itself.
        cells: condition by condition, system by system, metric by metric.
        verdicts: one a comparison that the claims make.
        failures: trials that raised an error.
        n_done: trials that are done.
        n_constant: of them, those whose model gives every document the same score.
        curves: by (condition, system, part), the first metric after each tree, a list a trial.
        points: by (condition, system), what a measurement gives for a figure, of the first trial.
        values: by (condition, system, metric), the test queries' values, an array a trial.
        trees: by (condition, system), the trees of the models, one a trial.
        seconds: by (condition, system), likewise.
        chosen: by (condition, system), the configurations that validated best, likewise; empty without a search.
        trained_with: the tools and their versions.
        overlap: held out over trained on, where trials draw their training queries anew; 0 where they do not.
    """

    plan: StudyPlan
    meta: dict[str, str]
    cells: tuple[CellResult, ...]
    verdicts: tuple[Verdict, ...]
    failures: tuple[Failure, ...]
    n_done: int
    n_constant: int
    curves: dict[tuple[str, str, str], list[list[float]]]
    points: dict[tuple[str, str], dict[str, Any]]
    values: dict[Cell, list[F64]]
    trees: dict[tuple[str, str], list[int]]
    seconds: dict[tuple[str, str], list[float]]
    chosen: dict[tuple[str, str], list[dict[str, Any]]]
    trained_with: tuple[str, ...]
    overlap: float = 0.0

    def cell(self, condition: str, system: str, name: str, part: str = "test") -> CellResult:
        """One cell.

        Args:
            condition, system, name, part: which; the name is the metric's.
        """
        return self.by_place[condition, system, name, part]

    @cached_property
    def by_place(self) -> dict[tuple[str, str, str, str], CellResult]:
        """The cells by (condition, system, metric, part)."""
        return {(c.condition, c.system, c.metric, c.part): c for c in self.cells}

    @property
    def verdict(self) -> str:
        """Of the study as a whole, by the corrected test: agrees where all claims do."""
        return _whole([v.corrected.verdict for v in self.verdicts])

    @property
    def own_verdict(self) -> str:
        """The same by the paper's own test."""
        return _whole([v.own.verdict for v in self.verdicts])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        from tautrank.report import study_tables

        return study_tables.to_dict(self)

    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str:
        """The study as a page of Markdown; written to `path`, too."""
        from tautrank.report import study_tables

        return handed_out(study_tables.to_markdown(self), path)

    def to_latex(self, path: str | os.PathLike[str] | None = None) -> str:
        """The cells as a LaTeX table (booktabs), the rest as comments; written to `path`, too."""
        from tautrank.report import study_tables

        return handed_out(study_tables.to_latex(self), path)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The cells, a line each, with all digits; written to `path`, too."""
        from tautrank.report import study_tables

        return handed_out(study_tables.to_csv(self), path)

    def tables(self) -> list[ReportTable]:
        """The cells and the verdicts as tables that `rich.print` prints."""
        from tautrank.report import study_tables

        return list(study_tables.tables(self).values())

    def __str__(self) -> str:
        return self.to_markdown()


def read_results(path: Path) -> StudyResult:
    """The results in a store.

    Args:
        path: the store's file; a run may be going on.
    """
    with StudyStore.open(path) as store:
        return collect(store)


def collect(store: StudyStore) -> StudyResult:
    """Put the finished trials of a store together.

    Args:
        store: whose.
    """
    gathered = _Gathered(store.plan)
    for trial, outcome in store.finished():
        gathered.add(trial, outcome)
    cells = _with_tests(gathered, _cells(gathered))
    return StudyResult(
        plan=store.plan,
        meta=store.meta,
        cells=cells,
        verdicts=_verdicts(gathered),
        failures=tuple(gathered.failures),
        n_done=gathered.n_done,
        n_constant=gathered.n_constant,
        curves={place: list(by_trial.values()) for place, by_trial in gathered.curves.items()},
        points=gathered.points,
        values={cell: list(by_trial.values()) for cell, by_trial in gathered.queries.items()},
        trees=dict(gathered.trees),
        seconds=dict(gathered.seconds),
        chosen=dict(gathered.chosen),
        trained_with=tuple(sorted(gathered.trained_with)),
        overlap=gathered.overlap,
    )


class _Gathered:
    """What the finished trials hold, by where it belongs."""

    def __init__(self, plan: StudyPlan) -> None:
        self.plan = plan
        self.means: dict[tuple[str, str, str, str], dict[int, float]] = defaultdict(dict)
        self.queries: dict[Cell, dict[int, F64]] = defaultdict(dict)
        self.curves: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(dict)
        self.points: dict[tuple[str, str], dict[str, Any]] = {}
        self.trees: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.chosen: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        self.trained_with: set[str] = set()
        self.failures: list[Failure] = []
        self.n_done = 0
        self.n_constant = 0
        self.sizes: dict[str, int] = {}

    def add(self, trial: Trial, outcome: Outcome) -> None:
        if outcome.status != DONE or not outcome.result:
            self.failures.append(Failure(title_of(trial.spec), outcome.error))
            return
        place, number = (trial.spec["condition"], trial.spec["system"]), trial.spec["trial"]
        result = json.loads(outcome.result)
        self.n_done += 1
        self.n_constant += bool(result.get("constant"))
        for part, by_metric in result["means"].items():
            for name, value in by_metric.items():
                self.means[(*place, name, part)][number] = or_nan(value)
        for name, values in result["test"].items():
            self.queries[(*place, name)][number] = np.array(values, np.float64)
        for part, curve in result.get("curves", {}).items():
            self.curves[(*place, part)][number] = [or_nan(x) for x in curve]
        if "points" in result:
            self.points.setdefault(place, result["points"])
        if "trees" in result:
            self.trees[place].append(result["trees"])
        if "configuration" in result:
            self.chosen[place].append(result["configuration"])
        if "trained_with" in result:
            self.trained_with.add(result["trained_with"])
        self.seconds[place].append(outcome.seconds)
        self.sizes = self.sizes or result.get("queries", {})

    @property
    def overlap(self) -> float:
        return overlap_of(self.plan.study.protocol, self.sizes) if self.sizes else 0.0

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
        if claim.by_query and claim.part == "test":
            same = [t for t in common if len({self.queries[cell][t].size for cell in cells}) == 1]
            if same == common:
                queries = [
                    claim.advantage(lambda cell, t=trial: self.sign(cell[2]) * self.queries[cell][t], cells)  # type: ignore[misc]
                    for trial in common
                ]
        sides = (means(cells[0]), means(cells[1])) if len(cells) == 2 else None
        return Advantage(claim.advantage(means, cells), queries, sides)

    def _trials(self, cell: Cell, part: str, of_curves: bool) -> list[int]:
        if of_curves:
            curves = self.curves.get((cell[0], cell[1], part), {})
            return [trial for trial, curve in curves.items() if curve and not np.isnan(curve).any()]
        found = self.means.get((*cell, part), {})
        return [trial for trial, value in found.items() if not math.isnan(value)]

    def _curves(self, cell: Cell, part: str, trials: Sequence[int]) -> F64:
        """The best value so far after each tree of the budget, a row a trial: what early stopping keeps."""
        length = self.plan.budget.trees or 1
        rows = np.empty((len(trials), length))
        for row, trial in zip(rows, trials, strict=True):
            curve = self.sign(cell[2]) * np.array(self.curves[cell[0], cell[1], part][trial][:length])
            row[: curve.size] = np.maximum.accumulate(curve)
            row[curve.size :] = row[curve.size - 1]
        return rows


def _cells(gathered: _Gathered) -> Iterator[CellResult]:
    study, recipe = gathered.plan.study, gathered.plan.used_recipe
    printed = {(p.condition, p.system, p.metric, p.part): p for p in (recipe.printed if recipe else ())}
    for condition in study.condition_names:
        for place in product([condition], study.system_names, study.metrics_under(condition), study.judged):
            by_trial = gathered.means.get(place, {})
            counted = {trial: value for trial, value in sorted(by_trial.items()) if not math.isnan(value)}
            means = np.array(list(counted.values()), np.float64)
            yield CellResult(*place, gathered.sign(place[2]) > 0, tuple(counted), means, printed.get(place))


def _with_tests(gathered: _Gathered, cells: Iterable[CellResult]) -> tuple[CellResult, ...]:
    """Compare every system with the baseline under the same condition; Holm counts a metric's comparisons."""
    study, result = gathered.plan.study, list(cells)
    compared: dict[str, dict[int, Advantage]] = defaultdict(dict)
    for i, cell in enumerate(result):
        if cell.system != study.baseline and cell.part == "test":
            claim = Better(better=cell.system, worse=study.baseline, metric=cell.metric, condition=cell.condition)
            compared[cell.metric][i] = gathered.advantage(claim, claim.cells(())[0])
    for name, advantages in compared.items():
        judged = judge(list(advantages.values()), study.test, study.protocol, gathered.overlap)
        for (i, advantage), (own, corrected) in zip(advantages.items(), judged, strict=True):
            difference = advantage.mean * gathered.sign(name)
            result[i] = replace(result[i], difference=difference, own=own, corrected=corrected)
    return tuple(result)


def _verdicts(gathered: _Gathered) -> tuple[Verdict, ...]:
    study = gathered.plan.study
    compared = [(claim, cells) for claim in study.claims for cells in claim.cells(study.condition_names)]
    advantages = [gathered.advantage(claim, cells) for claim, cells in compared]
    judged = judge(advantages, study.test, study.protocol, gathered.overlap)
    return tuple(
        Verdict(claim.sentence(cells), advantage.trials.size, advantage.mean, own, corrected, claim.text)
        for (claim, cells), advantage, (own, corrected) in zip(compared, advantages, judged, strict=True)
    )


def _whole(verdicts: Sequence[str]) -> str:
    if verdicts and all(verdict == AGREES for verdict in verdicts):
        return AGREES
    return DOES_NOT if DOES_NOT in verdicts else UNDECIDED
