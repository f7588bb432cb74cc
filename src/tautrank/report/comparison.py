"""A comparison as a person reads it: terminal table, CSV, LaTeX, HTML, plain values."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tautrank.experiments.comparison import PairTest, PartSize, Plan, SystemResult, pair_tests
from tautrank.files import handed_out
from tautrank.json_values import or_none
from tautrank.metrics import Metric
from tautrank.report.table import Cell, Column, ReportTable
from tautrank.report.terminal import as_text

_EMPTY = {"skip": "skipped", "zero": "counted as 0", "one": "counted as 1"}


@dataclass(frozen=True)
class Comparison:
    """Systems side by side: means, spread over repeats, significant wins, win/tie/loss, trees and seconds.

    A letter behind a number names a system it is significantly better than, by :func:`repeated_runs_test` at level
    `alpha` after Holm's correction over all pairs of that metric.
    """

    plan: Plan
    systems: tuple[SystemResult, ...]
    overlap: float
    alpha: float = 0.05
    data: tuple[PartSize, ...] = ()

    def tests(self, m: Metric) -> list[PairTest]:
        """Every pair of systems on one metric."""
        return pair_tests(self.systems, m, self.overlap)

    def wins(self, m: Metric) -> list[list[int]]:
        """For each system, the systems it is significantly better than."""
        won: list[list[int]] = [[] for _ in self.systems]
        for test in self.tests(m):
            if test.adjusted < self.alpha:
                won[test.better].append(test.worse)
        return [sorted(losers) for losers in won]

    def win_tie_loss(self, m: Metric, system: int, reference: int = 0) -> tuple[int, int, int]:
        """Queries on which a system is better, equal, worse than the reference, by its mean over repeats."""
        return win_tie_loss(self.query_gains(m, system, reference))

    def query_gains(self, m: Metric, system: int, reference: int = 0) -> npt.NDArray[np.float64]:
        """What each query gains over the reference, by its mean over repeats; above 0 is better, for a cost too."""
        a, b = (self.systems[i].values[str(m)].mean(axis=0) for i in (system, reference))
        return np.asarray(a - b if m.higher_is_better else b - a)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        metrics = self.plan.metrics
        wins = {str(m): self.wins(m) for m in metrics}
        return {
            "repeats": self.plan.repeats,
            "vary": self.plan.vary,
            "alpha": self.alpha,
            "systems": [
                {
                    "letter": _letter(i),
                    "name": system.name,
                    "trees": system.trees,
                    "seconds": system.seconds,
                    "metrics": {
                        str(m): {
                            "mean": or_none(float(system.means(str(m)).mean())),
                            "by_repeat": [or_none(x) for x in system.means(str(m)).tolist()],
                            "spread": or_none(_spread(system.means(str(m)))),
                            "better_than": [self.systems[j].name for j in wins[str(m)][i]],
                            "win_tie_loss": list(self.win_tie_loss(m, i)),
                            **(
                                {"mean_over_configurations": or_none(float(np.mean(system.untuned[str(m)])))}
                                if system.untuned
                                else {}
                            ),
                        }
                        for m in metrics
                    },
                }
                for i, system in enumerate(self.systems)
            ],
            "pairs": {
                str(m): [
                    {
                        "better": self.systems[t.better].name,
                        "worse": self.systems[t.worse].name,
                        "difference": t.difference,
                        "p": t.p_value,
                        "p_holm": t.adjusted,
                    }
                    for t in self.tests(m)
                ]
                for m in metrics
            },
        }

    def table(self) -> ReportTable:
        """The comparison as columns and rows, each cell with its numbers in full; `rich.print` prints it."""
        metrics = self.plan.metrics
        wins = {str(m): self.wins(m) for m in metrics}
        rows = []
        for i, system in enumerate(self.systems):
            row = [
                (Column("", ("row",), words=True), Cell(_letter(i))),
                (Column("loss", words=True), Cell(system.name)),
            ]
            for m in metrics:
                means = system.means(str(m))
                mean, spread = float(means.mean()), _spread(means)
                beaten = "".join(_letter(j) for j in wins[str(m)][i])
                text = f"{mean:.4f}" + (f" ±{spread:.3f}".replace("±0.", "±.") if means.size > 1 else "")
                title = str(m) + ("" if m.higher_is_better else " (lower is better)")
                fields = (str(m), f"{m} spread", f"{m} better than")
                column = Column(title, fields, high_first=m.higher_is_better)
                row.append((column, Cell(text, (mean, spread, beaten), beaten)))
                if system.untuned:
                    tried = float(np.mean(system.untuned[str(m)]))
                    column = Column("all tried", (f"{m} all tried",), high_first=m.higher_is_better)
                    row.append((column, Cell(f"{tried:.4f}", (tried,))))
            counts = self.win_tie_loss(metrics[0], i)
            won = Cell("/".join(map(str, counts)), counts) if i else Cell("", (None, None, None))
            trees, seconds = float(np.mean(system.trees)), float(np.mean(system.seconds))
            row += [
                (Column("w/t/l", ("won", "tied", "lost"), high_first=True), won),
                (Column("trees"), Cell(f"{trees:.0f}", (trees,))),
                (Column("sec.", ("seconds",)), Cell(f"{seconds:.1f}", (seconds,))),
            ]
            rows.append(row)
        return ReportTable.of_rows(rows, self.note())

    def pair_table(self) -> ReportTable:
        """Every pair of systems on every metric: who is better, by how much, and how sure that is."""
        columns = (
            Column("metric", words=True),
            Column("better", words=True),
            Column("worse", words=True),
            Column("difference", high_first=True),
            Column("p"),
            Column("p (Holm)", ("p_holm",)),
        )
        rows = tuple(
            (
                Cell(str(m)),
                Cell(self.systems[test.better].name),
                Cell(self.systems[test.worse].name),
                Cell(f"{test.difference:.4f}", (test.difference,)),
                Cell(f"{test.p_value:.2g}", (test.p_value,)),
                Cell(f"{test.adjusted:.2g}", (test.adjusted,)),
            )
            for m in self.plan.metrics
            for test in self.tests(m)
        )
        return ReportTable(columns, rows, "Test over queries and repeats; Holm's correction counts a metric's pairs.")

    def findings(self) -> list[str]:
        """The result in words, a sentence or two a metric."""
        return [self._finding(m) for m in self.plan.metrics]

    def _finding(self, m: Metric) -> str:
        means = np.array([system.means(str(m)).mean() for system in self.systems])
        if np.isnan(means).any():
            return f"{m}: every query was skipped."
        best = int(np.argmax(means) if m.higher_is_better else np.argmin(means))
        said = f"{m}: {self.systems[best].name} has the best mean, {means[best]:.4f}."
        beaten = self.wins(m)[best]
        others = [i for i in range(len(self.systems)) if i != best and i not in beaten]
        if beaten:
            said += f" It is significantly better than {_listed([self.systems[i].name for i in beaten])}."
        if others:
            said += f" The difference from {_listed([self.systems[i].name for i in others])} may be chance."
        return said

    def note(self) -> str:
        """How to read the table, in one paragraph."""
        how = "training/validation splits drawn anew" if self.plan.vary == "splits" else "other seeds"
        repeats = f"mean ± standard deviation over {self.plan.repeats} repeats ({how})"
        if self.plan.repeats == 1:
            repeats = "one training each: nothing is known of what another seed or split would give"
        tried = ""
        if self.plan.tune:
            tried = (
                f"Each training picks the best of {self.plan.tune} random configurations by validation "
                f"{self.plan.metrics[0]}; 'all tried' is the mean over all of them. "
            )
        return (
            f"{repeats[0].upper()}{repeats[1:]}. A letter marks a significant win over that row: test over "
            f"queries and repeats, Holm-corrected, level {self.alpha:g}. w/t/l: queries won, tied and lost against "
            f"row a on {self.plan.metrics[0]}. {tried}Ties: {self.plan.metrics[0].ties}; empty queries: "
            f"{_EMPTY[self.plan.metrics[0].empty]}."
        )

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The comparison as CSV: all numbers in full, a row a system; written to `path`, too."""
        return handed_out(self.table().to_csv(), path)

    def to_latex(self, path: str | os.PathLike[str] | None = None) -> str:
        """The comparison as a LaTeX table (booktabs); written to `path`, too."""
        return handed_out(self.table().to_latex(), path)

    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str:
        """The comparison as a Markdown table with its note; written to `path`, too."""
        return handed_out(self.table().to_markdown(), path)

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, figures: bool = False, command: str | None = None
    ) -> str:
        """The comparison as one self-contained HTML page.

        Args:
            path: a file to write the page to, too.
            figures: whether to draw figures and let tables sort (needs ``pip install 'tautrank[report]'``); without
                them the page has no script.
            command: what reproduces the comparison in a terminal; by default the page shows the call in Python.
        """
        from tautrank.report.comparison_page import comparison_page

        return comparison_page(self, figures=figures, command=command).to_html(path)

    def __str__(self) -> str:
        table = self.table()
        return as_text(table, table.note, width=max(100, 24 * len(table.columns)))

    __repr__ = __str__


def win_tie_loss(gains: npt.NDArray[np.float64]) -> tuple[int, int, int]:
    """How many queries gain, stay the same, and lose; a difference of rounding is none.

    Args:
        gains: one number a query, above 0 where it is better; NaN is left out.

    >>> win_tie_loss(np.array([0.2, 1e-15, -0.1, 0.3, math.nan]))
    (2, 1, 1)
    """
    gains = gains[~np.isnan(gains)]
    equal = np.abs(gains) < 1e-12
    return int((gains[~equal] > 0).sum()), int(equal.sum()), int((gains[~equal] < 0).sum())


def _letter(index: int) -> str:
    """a, b, ..., z, then numbers."""
    return chr(ord("a") + index) if index < 26 else str(index)


def _spread(values: Sequence[float] | Any) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
