"""The outcomes of checks as a table, and what fails in sentences."""

from __future__ import annotations

import math
import re

from tautrank.checks import CHECKS, LossReport
from tautrank.checks.registry import DOES_NOT_APPLY, FAILS
from tautrank.report.table import Cell, Column, ReportTable

_CITATION = re.compile(r"(?P<authors>[^,]+), .*?\b(?P<year>(?:19|20)\d\d)(?:, (?P<place>.*))?")


def check_table(report: LossReport, reasons: bool = False) -> ReportTable:
    """Lay out the checks of one loss, one per row; the note says in sentences what fails.

    Args:
        report: the outcomes.
        reasons: whether to list the checks that do not apply, and why.

    >>> from tautrank.checks import check_loss
    >>> report = check_loss("mse", [1, 0], [0, 2], names=["finite", "lipschitz", "xe-ndcg"])
    >>> print(check_table(report).to_csv())
    check,outcome,margin,queries,what it says
    finite,holds,,1,"gradients, hessians and values are finite, no hessian is below 0, also at scores a million times..."
    lipschitz,fails,-41377.5,1,"the loss, with its weights held fixed, is Lipschitz: its slope does not grow with..."
    >>> print(check_table(report).note)
    fails: lipschitz (the loss, ...): the steepest slope found is 61, and 6e+04 at scores a thousand times as large
    """
    rows, failures = [], []
    for outcome in report.outcomes:
        subject = CHECKS[outcome.check]
        text = f"{subject.statement} ({short_citation(subject.paper)})" if subject.paper else subject.statement
        if outcome.status == DOES_NOT_APPLY:
            if not reasons:
                continue
            text = outcome.detail
        if outcome.status == FAILS:
            flaw = f" [a known error of the paper, not of the loss: {subject.flaw}]" if subject.flaw else ""
            failures.append(f"fails: {outcome.check} ({subject.statement}): {outcome.detail}{flaw}")
        # Adding 0 turns -0 into 0.
        margin = f"{outcome.margin + 0.0:.3g}" if math.isfinite(outcome.margin) else ""
        queries = f"{outcome.queries:,}" if outcome.queries else ""
        numbers = (Cell(margin, (outcome.margin,)), Cell(queries, (outcome.queries or None,)))
        rows.append((Cell(outcome.check), Cell(outcome.status), *numbers, Cell(text)))
    columns = (
        Column("check", words=True),
        Column("outcome", words=True),
        Column("margin"),
        Column("queries"),
        Column("what it says", words=True),
    )
    return ReportTable(columns, tuple(rows), "\n".join(failures))


def short_citation(paper: str) -> str:
    """Return authors, year and place of a citation, without the title.

    >>> short_citation("Wang et al., The LambdaLoss Framework, CIKM 2018, sec. 5.3")
    'Wang et al. 2018, sec. 5.3'
    """
    match = _CITATION.fullmatch(paper)
    if match is None:
        return paper
    place = f", {match['place']}" if match["place"] else ""
    return f"{match['authors']} {match['year']}{place}"
