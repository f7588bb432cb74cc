"""The values of a study: those of a comparison, and the verdicts on the paper's claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tautrank.experiments.comparison_values import PlannedValues
from tautrank.papers.plan import StudyPlan
from tautrank.significance.verdicts import FAILS, HOLDS, UNDECIDED, TestOutcome


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Args:
        sentence: the claim.
        trials: the number of trials that count.
        own: the outcome of the paper's own test on what should be positive.
        tested: the outcome of the test over queries and trials, Holm-adjusted over the study's
            claims.
        text: the paper's words, if they are given.
    """

    sentence: str
    trials: int
    own: TestOutcome
    tested: TestOutcome
    text: str = ""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StudyValues(PlannedValues):
    """What a study measured and tested, with the verdicts on its claims.

    Args:
        verdicts: one per comparison that the claims make.
    """

    plan: StudyPlan
    verdicts: tuple[Verdict, ...]

    @property
    def verdict(self) -> str:
        """The verdict on the study as a whole, by the test over queries and trials: it holds if all
        claims do.
        """
        return _overall([verdict.tested.verdict for verdict in self.verdicts])

    @property
    def own_verdict(self) -> str:
        """The same by the paper's own test."""
        return _overall([verdict.own.verdict for verdict in self.verdicts])


def _overall(verdicts: Sequence[str]) -> str:
    """Return the verdict on all claims: one that fails decides, and none may be undecided."""
    if FAILS in verdicts:
        return FAILS
    if verdicts and set(verdicts) == {HOLDS}:
        return HOLDS
    return UNDECIDED
