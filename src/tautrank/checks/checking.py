"""What can be checked of a loss: laws that it must obey, theorems that may be about it, and
measurements.

A law holds or is broken. A theorem applies to a loss or does not, and holds where it applies; a
statement that is known to be wrong as its paper prints it may be refuted. A measurement is a
number.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from tautrank.arrays import F64
from tautrank.checks.conditions import always_applies, labels_end_before
from tautrank.checks.samples import short_lists
from tautrank.data import Lists
from tautrank.losses import Loss
from tautrank.theory.theorem import Condition

HOLDS = "holds"
BROKEN = "broken"
REFUTED = "refuted"
MEASURED = "measured"
DOES_NOT_APPLY = "does not apply"

Counterexamples: TypeAlias = Callable[[Any, F64, Lists], Iterable[str]]
"""From a loss, scores and lists to counterexamples in sentences; only the first is asked for."""

Sample: TypeAlias = Callable[[F64, Lists], tuple[F64, Lists]]
"""From scores and lists to those of some queries."""

Number: TypeAlias = Callable[[Any, F64, Lists], tuple[float, str]]
"""From a loss, scores and lists to a number and a sentence about it."""

# A margin this far below 0 is rounding.
_ROUNDING = 1e-9


class Outcome(NamedTuple):
    """The result of a check.

    Args:
        check: name of the check.
        status: ``"holds"``, ``"broken"`` (a law or a theorem does not hold, or the loss raised an
            error), ``"refuted"`` (the statement of a paper, known to be wrong, does not hold),
            ``"measured"`` or ``"does not apply"``.
        detail: the numbers, the counterexample, or the reason why the check does not apply.
        margin: how far a theorem is from being broken, below 0 where it does not hold; NaN for laws
            and measurements.
        value: the number that was measured; NaN for laws and theorems.
        queries: number of queries of the data that were looked at.

    >>> Outcome("derivative", HOLDS)
    derivative holds
    >>> Outcome("above-mrr-cost", MEASURED, "below 1 - RR in 1 of 2 queries", value=-0.25)
    above-mrr-cost -0.25: below 1 - RR in 1 of 2 queries
    """

    check: str
    status: str
    detail: str = ""
    margin: float = math.nan
    value: float = math.nan
    queries: int = 0

    @property
    def verdict(self) -> str:
        """The status in a word, or the number that was measured."""
        return f"{self.value:.4g}" if self.status == MEASURED else self.status

    def __repr__(self) -> str:
        text = f"{self.check} {self.verdict}"
        return f"{text}: {self.detail}" if self.detail else text


@dataclass(frozen=True, kw_only=True)
class Check(ABC):
    """A statement about losses that can be checked: a `Law`, a `Theorem` or a `Measurement`.

    Args:
        name: what a user types.
        statement: the statement, in a sentence.
        examine: the check itself. An error that a loss raises here breaks it.
        unless: from a loss, scores and lists to the reason why the check does not apply, or None.
        on: the lists to check on: ``"data"``, ``"synthetic"`` (small lists with ties and empty
            queries) or ``"both"``.
        once: whether one scoring is enough, because the check does not depend on the scores or
            looks for its own.
        sample: from scores and lists to the queries to look at, for a check that takes long; None
            for all.

    >>> CHECKS["xe-ndcg"].kind, CHECKS["xe-ndcg"].statement
    ('theorem', 'XE >= -log(NDCG + 1/maxDCG), for each query and on average')
    """

    name: str
    statement: str
    examine: Callable[[Any, F64, Lists], Any]
    unless: Condition = always_applies
    on: Literal["data", "synthetic", "both"] = "data"
    once: bool = False
    sample: Sample | None = None

    kind: ClassVar[str]

    def outcome(self, loss: Loss, scores: F64, lists: Lists) -> Outcome:
        """Check a loss at given scores, and return whether the check applies and holds.

        Args:
            loss: any loss.
            scores: one finite number per document.
            lists: the labelled lists.

        >>> import numpy as np
        >>> from tautrank.losses import loss
        >>> lists = Lists.of([0, 1])
        >>> CHECKS["xe-ndcg"].outcome(loss("listnet"), np.array([1.0, 0.0]), lists)
        xe-ndcg does not apply: it is about xendcg without noise
        """
        if self.sample is not None:
            scores, lists = self.sample(scores, lists)
        highest_label = float(lists.labels.max(initial=0.0))
        reason = labels_end_before(loss, highest_label) or self.unless(loss, scores, lists)
        if reason is not None:
            outcome = Outcome(self.name, DOES_NOT_APPLY, reason)
        else:
            try:
                outcome = self._examined(loss, scores, lists)
            except Exception as error:
                # The loss may be anybody's code, and its errors are what the user asked for.
                message = f"stopped with {type(error).__name__}: {error}".replace("\n", " ")
                outcome = Outcome(self.name, BROKEN, message, margin=-math.inf)
        return outcome._replace(queries=lists.n_queries)

    @abstractmethod
    def _examined(self, loss: Loss, scores: F64, lists: Lists) -> Outcome:
        """Return the outcome for a loss and lists to which the check applies."""

    def rank(self, outcome: Outcome) -> tuple[int, float]:
        """Return a sort key for the outcomes of this check at several scorings, the worst first: by
        status, then by the margin of a theorem or the number that was measured.
        """
        statuses = (BROKEN, REFUTED, HOLDS, MEASURED, DOES_NOT_APPLY)
        # Smaller is worse; laws have no number (NaN) and go last.
        number = self._worst_first(outcome)
        return statuses.index(outcome.status), math.inf if math.isnan(number) else number

    def _worst_first(self, outcome: Outcome) -> float:
        """Return a number by which outcomes of the same status are sorted."""
        return outcome.margin


@dataclass(frozen=True, kw_only=True)
class Law(Check):
    """What every loss must obey where it applies; `examine` yields counterexamples.

    The arguments are those of `Check`. A law is checked on synthetic lists unless it says
    otherwise.
    """

    examine: Counterexamples
    on: Literal["data", "synthetic", "both"] = "synthetic"

    kind = "law"

    def _examined(self, loss: Loss, scores: F64, lists: Lists) -> Outcome:
        for counterexample in self.examine(loss, scores, lists):
            return Outcome(self.name, BROKEN, counterexample)
        return Outcome(self.name, HOLDS)


@dataclass(frozen=True, kw_only=True)
class Theorem(Check):
    """What is proven of some losses; `examine` returns the margin, below 0 where the theorem does
    not hold, and a sentence with the numbers.

    Args:
        name, statement, examine, unless, on, once, sample: as in `Check`.
        paper: citation; empty for theorems of this library.
        flaw: known error of the paper's statement; empty for most.
    """

    examine: Number
    paper: str = ""
    flaw: str = ""

    kind = "theorem"

    def _examined(self, loss: Loss, scores: F64, lists: Lists) -> Outcome:
        # The margin is below 0 where the theorem fails. A statement with a known flaw is refuted then;
        # any other is proven, so the loss is broken. A NaN counts as failure.
        margin, detail = self.examine(loss, scores, lists)
        if margin >= -_ROUNDING:
            status = HOLDS
        elif self.flaw:
            status = REFUTED
        else:
            status = BROKEN
        return Outcome(self.name, status, detail, margin=margin)


@dataclass(frozen=True, kw_only=True)
class Measurement(Check):
    """A number that is measured of a loss; `examine` returns it, and a sentence about it.

    Args:
        name, statement, examine, unless, on, once, sample: as in `Check`.
        reported: which number to report of those at several scorings, ``"smallest"`` or
            ``"largest"``.
    """

    examine: Number
    reported: Literal["smallest", "largest"] = "smallest"

    kind = "measurement"

    def _examined(self, loss: Loss, scores: F64, lists: Lists) -> Outcome:
        value, detail = self.examine(loss, scores, lists)
        return Outcome(self.name, MEASURED, detail, value=value)

    def _worst_first(self, outcome: Outcome) -> float:
        return outcome.value if self.reported == "smallest" else -outcome.value


CHECKS: dict[str, Check] = {}
"""Every check by its name: laws first, then measurements, then the papers' theorems."""


def _entered(
    kind: type[Check], name: str, statement: str, options: dict[str, Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a check of a function, enters it into `CHECKS` (all checks by
    name), and returns the function as it was.

    Args:
        kind: class of the check: `Law`, `Theorem` or `Measurement`.
        name: name of the check.
        statement: what it states, in a sentence; empty for the function's docstring.
        options: further arguments of the class.
    """

    def enter(examine: Callable[..., Any]) -> Callable[..., Any]:
        # A docstring may have several lines; the statement is one.
        sentence = statement or " ".join((examine.__doc__ or "").split())
        CHECKS[name] = kind(name=name, statement=sentence, examine=examine, **options)
        return examine

    return enter


def law(
    name: str, statement: str = "", **options: Any
) -> Callable[[Counterexamples], Counterexamples]:
    """Function decorator: enter a law into `CHECKS`. The arguments are those of `Law`.

    The statement is the docstring of the function, unless another is given.

    >>> @law("positive")
    ... def positive(loss, scores, lists):
    ...     '''the loss is never below 0'''
    ...     for value in loss.bind(lists).values(scores):
    ...         if value < 0:
    ...             yield f"a value is {value:g}"
    >>> import numpy as np
    >>> from tautrank.losses import loss
    >>> CHECKS["positive"].outcome(loss("mse"), np.array([2.0]), Lists.of([1]))
    positive holds
    >>> del CHECKS["positive"]
    """
    return _entered(Law, name, statement, options)


def theorem(name: str, statement: str = "", **options: Any) -> Callable[[Number], Number]:
    """Function decorator: enter a theorem into `CHECKS`. The arguments are those of `Theorem`.

    The statement is the docstring of the function, unless another is given.

    >>> @theorem("positive")
    ... def positive(loss, scores, lists):
    ...     '''the loss is never below 0'''
    ...     least = float(loss.bind(lists).values(scores).min())
    ...     return least, f"the smallest value is {least:g}"
    >>> import numpy as np
    >>> from tautrank.losses import loss
    >>> CHECKS["positive"].outcome(loss("mse"), np.array([2.0]), Lists.of([1]))
    positive holds: the smallest value is 0.5
    >>> del CHECKS["positive"]
    """
    return _entered(Theorem, name, statement, options)


def measurement(name: str, statement: str = "", **options: Any) -> Callable[[Number], Number]:
    """Function decorator: enter a measurement into `CHECKS`. The arguments are those of
    `Measurement`.

    The statement is the docstring of the function, unless another is given.

    >>> @measurement("largest-value", reported="largest")
    ... def largest_value(loss, scores, lists):
    ...     '''the largest value of a query'''
    ...     values = loss.bind(lists).values(scores)
    ...     return float(values.max()), f"in query {values.argmax()}"
    >>> import numpy as np
    >>> from tautrank.losses import loss
    >>> CHECKS["largest-value"].outcome(loss("mse"), np.array([2.0]), Lists.of([1]))
    largest-value 0.5: in query 0
    >>> del CHECKS["largest-value"]
    """
    return _entered(Measurement, name, statement, options)


slow_theorem = functools.partial(theorem, once=True, sample=short_lists)
"""As `theorem`, for one that looks for its own scores on some short lists."""

slow_measurement = functools.partial(measurement, once=True, sample=short_lists)
"""As `measurement`, for one that looks for its own scores on some short lists."""
