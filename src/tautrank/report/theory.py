"""The outcomes of checks as a table."""

from __future__ import annotations

import re

from tautrank.checks import CHECKS, LossReport, Outcome, Theorem
from tautrank.checks.checking import DOES_NOT_APPLY, REFUTED
from tautrank.tables import Cell, Column, Table

_CITATION = re.compile(r"^(?P<authors>[^,]+), .*?\b(?P<year>(?:19|20)\d\d)(?P<place>, .*)?$")


def check_table(report: LossReport, reasons: bool = False) -> Table:
    """Lay out the checks of one loss, one per row: outcome (a word, or the number that was
    measured), number of queries of the data, statement and findings.

    Args:
        report: the outcomes.
        reasons: whether to list the checks that do not apply, with the reason.

    >>> from tautrank.checks import check_loss
    >>> report = check_loss("listnet", [1, 0], names=["finite", "xe-lipschitz", "lambdaloss"])
    >>> for row in check_table(report).rows:
    ...     print(*(cell.text for cell in row))
    finite holds 1 gradients, hessians and values are finite, ...
    xe-lipschitz holds 1 cross entropy is 2-Lipschitz (Bruch 2020, Proposition 2): the steepest slope found is 2, ...
    """
    columns = (
        Column("check", words=True),
        Column("outcome", words=True),
        Column("queries"),
        Column("what it says", words=True),
    )
    rows = []
    for outcome in report.outcomes:
        if outcome.status == DOES_NOT_APPLY and not reasons:
            continue
        # A check on examples of its own uses no queries of the data: its cell is empty.
        n_queries = f"{outcome.queries:,}" if outcome.queries else ""
        cells = (
            Cell(outcome.check),
            Cell(outcome.verdict),
            Cell(n_queries, (outcome.queries or None,)),
            Cell(_outcome_text(outcome)),
        )
        rows.append(cells)
    return Table(columns, tuple(rows))


def _outcome_text(outcome: Outcome) -> str:
    """Return the outcome of checking a theorem or a property of a loss in words: the statement, its
    paper and what was found; or, where the check does not apply, the reason.
    """
    if outcome.status == DOES_NOT_APPLY:
        return outcome.detail
    check = CHECKS[outcome.check]
    text = check.statement
    if isinstance(check, Theorem) and check.paper:
        text += f" ({short_citation(check.paper)})"
    if outcome.detail:
        text += f": {outcome.detail}"
    if isinstance(check, Theorem) and outcome.status == REFUTED:
        # `flaw` says what is wrong with the theorem as the paper prints it.
        text += f" [a known error of the paper, not of the loss: {check.flaw}]"
    return text


def short_citation(paper: str) -> str:
    """Return authors, year and place of a citation, without the title.

    >>> short_citation("Wang et al., The LambdaLoss Framework, CIKM 2018, sec. 5.3")
    'Wang et al. 2018, sec. 5.3'
    """
    return _CITATION.sub(r"\g<authors> \g<year>\g<place>", paper)
