"""What came of the laws and of the theory's claims, as a person reads it: tables, and what fails in sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tautrank.checks import CLAIMS, LossCheck, Outcome
from tautrank.checks.laws import LAWS, LawReport
from tautrank.checks.theorems import DOES_NOT_APPLY, FAILS, HOLDS

_COLOURS = {HOLDS: "green", DOES_NOT_APPLY: "dim", FAILS: "red"}
_CITATION = re.compile(r"(?P<authors>[^,]+), .*?\b(?P<year>(?:19|20)\d\d)(?:, (?P<place>.*))?")


def print_checks(
    console: Console, checks: Sequence[LossCheck], laws: Sequence[LawReport] = (), *, reasons: bool = False
) -> None:
    """Print what came of every loss: the laws, the claims, and in sentences what fails.

    Args:
        console: where to.
        checks: what came of the claims, a loss each.
        laws: what came of the laws, of the same losses; or none.
        reasons: whether to list the claims that do not apply, and say why.
    """

    def say(sentence: str) -> None:
        console.print(sentence, markup=False, soft_wrap=True)

    for check, report in zip_longest(checks, laws):
        if report is not None:
            obeyed, broken = report.having(HOLDS), report.having(FAILS)
            say(f"\n{check.loss}: {len(obeyed)} laws hold, {len(broken)} fail")
            console.print(laws_table(report))
            for law in broken:
                say(f"fails: {law.law} ({LAWS[law.law].statement}): {law.detail}")
        say(f"\n{check}")
        console.print(claims_table(check, silent=reasons))
        for outcome in check.having(FAILS):
            subject = CLAIMS[outcome.claim]
            known = f" [a known flaw of the paper, not of the loss: {subject.flaw}]" if subject.flaw else ""
            say(f"fails: {outcome.claim} ({subject.statement}): {outcome.detail}{known}")
        for outcome in check.having(DOES_NOT_APPLY) if reasons else ():
            say(f"does not apply: {outcome.claim}: {outcome.detail}")


def laws_table(report: LawReport) -> Table:
    """Lay out the laws of one loss: name, outcome, and what the law says, or the counterexample.

    Args:
        report: what came of them.

    >>> from tautrank.checks.laws import check_laws
    >>> table = laws_table(check_laws("mse", ["shift", "finite"]))
    >>> [column.header for column in table.columns], table.row_count
    (['law', 'outcome', 'what it says'], 2)
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("law", "outcome"):
        table.add_column(name, no_wrap=True)
    table.add_column("what it says", overflow="fold")
    for outcome in report.outcomes:
        colour = _COLOURS[outcome.status]
        said = Text(outcome.detail if outcome.status == DOES_NOT_APPLY else LAWS[outcome.law].statement)
        table.add_row(outcome.law, f"[{colour}]{outcome.status}[/{colour}]", said)
    return table


def laws_to_dict(reports: Sequence[LawReport]) -> dict[str, Any]:
    """Everything as plain values, ready for JSON.

    Args:
        reports: what came of the laws, a loss each.

    >>> from tautrank.checks.laws import check_laws
    >>> laws_to_dict([check_laws("mse", ["finite"])])["mse"][0]["status"]
    'holds'
    """
    return {
        str(report.loss): [
            {
                "law": outcome.law,
                "statement": LAWS[outcome.law].statement,
                "status": outcome.status,
                "detail": outcome.detail,
            }
            for outcome in report.outcomes
        ]
        for report in reports
    }


def claims_table(check: LossCheck, silent: bool = False) -> Table:
    """Lay out the claims of one loss: name, outcome, margin, how many queries were looked at, paper.

    Args:
        check: what came of them.
        silent: whether to list those that do not apply as well.

    >>> from tautrank.checks import check_losses
    >>> table = claims_table(check_losses([1, 0], [0, 2], ["mse"], names=["shift", "finite"])[0])
    >>> [column.header for column in table.columns], table.row_count
    (['claim', 'outcome', 'margin', 'queries', 'paper'], 1)
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("claim", "outcome"):
        table.add_column(name, no_wrap=True)
    for name in ("margin", "queries"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("paper", overflow="fold")
    for outcome in check.outcomes:
        if outcome.status == DOES_NOT_APPLY and not silent:
            continue
        colour = _colour(outcome)
        table.add_row(
            outcome.claim,
            f"[{colour}]{outcome.status}[/{colour}]",
            # Adding 0 makes 0 of what would print as -0.
            "" if math.isnan(outcome.margin) else f"{outcome.margin + 0.0:.3g}",
            f"{outcome.queries:,}" if outcome.queries else "",
            short_citation(CLAIMS[outcome.claim].paper),
        )
    return table


def checks_to_dict(checks: Sequence[LossCheck]) -> dict[str, Any]:
    """Everything as plain values, ready for JSON; a margin that is no number is None.

    Args:
        checks: what came of the claims, a loss each.

    >>> from tautrank.checks import check_losses
    >>> found = checks_to_dict(check_losses([1, 0], [0, 2], ["mse"], names=["finite"]))
    >>> found["mse"][0]["claim"], found["mse"][0]["status"], found["mse"][0]["margin"]
    ('finite', 'holds', 1.0)
    """
    return {
        str(check.loss): [
            {
                "claim": outcome.claim,
                "statement": CLAIMS[outcome.claim].statement,
                "paper": CLAIMS[outcome.claim].paper or None,
                "status": outcome.status,
                "margin": outcome.margin if math.isfinite(outcome.margin) else None,
                "queries": outcome.queries,
                "detail": outcome.detail,
                "known_flaw": CLAIMS[outcome.claim].flaw or None,
            }
            for outcome in check.outcomes
        ]
        for check in checks
    }


def short_citation(paper: str) -> str:
    """Authors, year and place of a citation, without the title.

    >>> short_citation("Wang et al., The LambdaLoss Framework, CIKM 2018, sec. 5.3")
    'Wang et al. 2018, sec. 5.3'
    """
    match = _CITATION.fullmatch(paper)
    if match is None:
        return paper
    place = f", {match['place']}" if match["place"] else ""
    return f"{match['authors']} {match['year']}{place}"


def _colour(outcome: Outcome) -> str:
    subject = CLAIMS[outcome.claim]
    # What was only measured, or is known to be wrong, is nothing to be alarmed at.
    harmless = subject.flaw or subject.statement.startswith("measured: ")
    return "yellow" if outcome.status == FAILS and harmless else _COLOURS[outcome.status]
