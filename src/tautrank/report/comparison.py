"""A comparison as a person reads it: terminal table, LaTeX, HTML, plain values."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from tautrank.metrics import Metric
from tautrank.metrics.evaluation import or_none
from tautrank.studies.comparison import PairTest, Plan, SystemResult, pair_tests

_EMPTY = {"skip": "skipped", "zero": "counted as 0", "one": "counted as 1"}
_SUPERSCRIPT = dict(zip("abcdefghijklmnopqrstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖᵠʳˢᵗᵘᵛʷˣʸᶻ", strict=True))


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
        a, b = (self.systems[i].values[str(m)].mean(axis=0) for i in (system, reference))
        difference = (a - b)[~np.isnan(a)] * (1 if m.higher_is_better else -1)
        equal = np.abs(difference) < 1e-12
        return int((difference[~equal] > 0).sum()), int(equal.sum()), int((difference[~equal] < 0).sum())

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

    def _cells(self) -> tuple[list[str], list[list[tuple[str, str]]]]:
        """Headings, and rows of (text, letters of the systems beaten)."""
        metrics = self.plan.metrics
        first = metrics[0]
        headings = ["", "loss"]
        for m in metrics:
            headings.append(str(m) + ("" if m.higher_is_better else " (lower is better)"))
            if self.systems[0].untuned:
                headings.append("all tried")
        headings += ["w/t/l", "trees", "sec."]
        wins = {str(m): self.wins(m) for m in metrics}
        rows = []
        for i, system in enumerate(self.systems):
            row = [(_letter(i), ""), (system.name, "")]
            for m in metrics:
                means = system.means(str(m))
                spread = f" ±{_spread(means):.3f}".replace("±0.", "±.") if means.size > 1 else ""
                row.append((f"{means.mean():.4f}{spread}", "".join(_letter(j) for j in wins[str(m)][i])))
                if system.untuned:
                    row.append((f"{np.mean(system.untuned[str(m)]):.4f}", ""))
            row.append(("/".join(str(n) for n in self.win_tie_loss(first, i)) if i else "", ""))
            row.append((f"{np.mean(system.trees):.0f}", ""))
            row.append((f"{np.mean(system.seconds):.1f}", ""))
            rows.append(row)
        return headings, rows

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

    def table(self) -> Table:
        """The comparison as a Rich table."""
        headings, rows = self._cells()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, heading in enumerate(headings):
            # In a narrow terminal a loss's name may take two lines; a number must not be cut.
            if i == 1:
                table.add_column(heading, overflow="fold", min_width=10)
            else:
                cells = [text + letters for text, letters in (row[i] for row in rows)]
                table.add_column(heading, justify="right", min_width=max(map(len, cells)))
        for row in rows:
            table.add_row(*(text + "".join(_SUPERSCRIPT.get(c, c) for c in letters) for text, letters in row))
        return table

    def to_latex(self) -> str:
        """The comparison as a LaTeX table (booktabs)."""
        headings, rows = self._cells()
        lines = [
            r"\begin{tabular}{ll" + "r" * (len(headings) - 2) + "}",
            r"\toprule",
            " & ".join(_latex(heading) for heading in headings) + r" \\",
            r"\midrule",
        ]
        for row in rows:
            cells = [_latex(text) + (f"$^{{{letters}}}$" if letters else "") for text, letters in row]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", "% " + self.note(), ""])

    def to_markdown(self) -> str:
        """The comparison as a Markdown table with its note."""
        headings, rows = self._cells()
        lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
        for row in rows:
            cells = (text + (f"<sup>{letters}</sup>" if letters else "") for text, letters in row)
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", self.note(), ""])

    def to_html(self) -> str:
        """The comparison as one self-contained HTML page."""
        headings, rows = self._cells()
        head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
        body = "".join(
            "<tr>"
            + "".join(
                f"<td>{html.escape(text)}{f'<sup>{html.escape(letters)}</sup>' if letters else ''}</td>"
                for text, letters in row
            )
            + "</tr>\n"
            for row in rows
        )
        return _PAGE.format(head=head, body=body, note=html.escape(self.note()))

    def __str__(self) -> str:
        table = self.table()
        console = Console(width=max(100, 24 * len(table.columns)), color_system=None, highlight=False)
        with console.capture() as captured:
            console.print(table)
            console.print(self.note())
        return captured.get()

    __repr__ = __str__


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tautrank comparison</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ padding: .4rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left; }}
th {{ border-bottom: 2px solid #222; vertical-align: bottom; }}
sup {{ color: #0a58ca; font-weight: 600; }}
</style></head><body>
<h1>Comparison of losses</h1>
<table><thead><tr>{head}</tr></thead><tbody>
{body}</tbody></table>
<p>{note}</p>
</body></html>
"""


def _letter(index: int) -> str:
    """a, b, ..., z, then numbers."""
    return chr(ord("a") + index) if index < 26 else str(index)


def _spread(values: Sequence[float] | Any) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _latex(text: str) -> str:
    escapes = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "±": r"$\pm$"}
    return "".join(escapes.get(c, c) for c in text)
