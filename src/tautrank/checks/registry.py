"""The registry of checks: what a loss must satisfy, to which losses and lists it applies, and the outcome."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tautrank.data.arrays import offsets_from_sizes
from tautrank.losses import Loss
from tautrank.losses.base import Lists
from tautrank.metrics.ordering import F64
from tautrank.theory.bound import sees_scores

HOLDS, FAILS, DOES_NOT_APPLY = "holds", "fails", "does not apply"

Examine = Callable[[Loss, F64, Lists], tuple[float, str] | Iterable[str]]
"""From a loss, scores and lists to a margin, below 0 where the check fails, and a sentence with the numbers; or to
counterexamples in sentences, of which only the first is asked for."""

Condition = Callable[[Loss, F64, Lists], str | None]
"""From a loss, scores and lists to the reason why a check is not about them, or to None where it is."""

Sample = Callable[[F64, Lists], tuple[F64, Lists]]
"""From scores and lists to some whole queries of them."""

# A margin this far below 0 is rounding.
_ROUNDING = 1e-9
# Lists up to this length are short enough for checks that compare every pair of documents many times.
_SHORT = 200


@dataclass(frozen=True)
class Outcome:
    """The result of a check.

    Args:
        check: name of the check.
        status: ``"holds"``, ``"fails"`` or ``"does not apply"``.
        detail: the numbers, the counterexample, or the reason why the check does not apply.
        margin: distance from failing, below 0 where the check fails; NaN where it is a matter of yes or no.
        queries: number of queries of the data that were looked at.

    >>> Outcome("derivative", HOLDS)
    derivative holds
    """

    check: str
    status: str
    detail: str = ""
    margin: float = math.nan
    queries: int = 0

    def __repr__(self) -> str:
        return f"{self.check} {self.status}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class Check:
    """A statement about losses that can be checked.

    Args:
        name: what a user types.
        statement: the statement, in a sentence.
        examine: the check itself, see `Examine`. An error that a loss raises here is a failure.
        unless: the condition under which the check does not apply, see `Condition`.
        on: the lists to check on: ``"data"``, ``"synthetic"`` (small lists with ties and empty queries) or ``"both"``.
        paper: citation; empty for statements of this library.
        once: whether one scoring is enough, because the check does not depend on the scores or looks for its own.
        sample: the queries to look at, for a check that takes long; None for all.
        flaw: known error of the paper's statement; empty for most.

    >>> CHECKS["xe-ndcg"].statement
    'XE >= -log(NDCG + 1/maxDCG), for each query and on average'
    """

    name: str
    statement: str
    examine: Examine
    unless: Condition = lambda *_: None
    on: Literal["data", "synthetic", "both"] = "data"
    paper: str = ""
    once: bool = False
    sample: Sample | None = None
    flaw: str = ""

    def outcome(self, loss: Loss, scores: F64, lists: Lists) -> Outcome:
        """Check a loss at given scores.

        Args:
            loss: any loss.
            scores: one finite number per document.
            lists: the labelled lists.

        >>> from tautrank.losses import loss
        >>> CHECKS["xe-ndcg"].outcome(loss("listnet"), np.array([1.0, 0.0]), Lists.of([0, 1], [0, 2], None))
        xe-ndcg does not apply: it is about xendcg without noise
        """
        if self.sample is not None:
            scores, lists = self.sample(scores, lists)
        queries = lists.sizes.size
        reason = beyond_its_labels(loss, float(lists.labels.max(initial=0.0))) or self.unless(loss, scores, lists)
        if reason is not None:
            return Outcome(self.name, DOES_NOT_APPLY, reason, queries=queries)
        try:
            found = self.examine(loss, scores, lists)
            if not isinstance(found, tuple):
                counterexample = next(iter(found), "")
                return Outcome(self.name, FAILS if counterexample else HOLDS, counterexample, queries=queries)
        except Exception as error:
            # The loss may be anybody's code, and what is wrong with it is what the user asked for.
            detail = f"stopped with {type(error).__name__}: {error}".replace("\n", " ")
            return Outcome(self.name, FAILS, detail, -math.inf, queries)
        margin, detail = found
        return Outcome(self.name, HOLDS if margin >= -_ROUNDING else FAILS, detail, margin, queries)


CHECKS: dict[str, Check] = {}
"""Every check by its name: laws first, then measurements, then the papers' theorems."""


def about(words: str, met: Callable[[Any, F64, Lists], bool | np.bool_]) -> Condition:
    """Return the condition of a check that is only about some losses or lists.

    Args:
        words: those losses or lists.
        met: from a loss, scores and lists to whether the check is about them.

    >>> about("short lists", lambda loss, scores, lists: lists.longest < 5)(None, None, Lists.of([0] * 9, [0, 9], None))
    'it is about short lists'
    """
    return lambda loss, scores, lists: None if met(loss, scores, lists) else f"it is about {words}"


def first_reason(*conditions: Condition) -> Condition:
    """Return the condition that gives the first reason of several.

    >>> first_reason(about("all", lambda *_: True), nothing_relevant)(None, np.zeros(1), Lists.of([0], [0, 1], None))
    'no query that it looks at has a relevant document'
    """

    def condition(loss: Loss, scores: F64, lists: Lists) -> str | None:
        return next((reason for each in conditions if (reason := each(loss, scores, lists))), None)

    return condition


def check(name: str, statement: str = "", **options: Any) -> Callable[[Examine], Examine]:
    """Function decorator: enter a check into `CHECKS`. The arguments are those of `Check`.

    The statement is the docstring of the function, unless another is given.

    >>> @check("positive")
    ... def positive(loss, scores, lists):
    ...     '''the loss is never below 0'''
    ...     least = float(loss.bind(lists.labels, lists.offsets).values(scores).min())
    ...     return least, f"the smallest value is {least:g}"
    >>> from tautrank.losses import loss
    >>> CHECKS["positive"].outcome(loss("mse"), np.array([2.0]), Lists.of([1], [0, 1], None))
    positive holds: the smallest value is 0.5
    >>> del CHECKS["positive"]
    """

    def enter(examine: Examine) -> Examine:
        CHECKS[name] = Check(name, statement or " ".join((examine.__doc__ or "").split()), examine, **options)
        return examine

    return enter


def nothing_relevant(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a check that needs a relevant document, one whose label is worth something."""
    gain = getattr(loss, "gain", getattr(getattr(loss, "metric", None), "gain", "linear"))
    return None if lists.gains(gain).any() else "no query that it looks at has a relevant document"


def of_kind(kinds: type[Loss] | tuple[type[Loss], ...], words: str, *more: Condition) -> Condition:
    """Return the condition of a theorem about some classes without noise, on lists with a relevant document.

    Args:
        kinds: the classes.
        words: the classes in words.
        more: further conditions.

    >>> from tautrank.losses import MSE, loss
    >>> of_kind(MSE, "mse without noise")(loss("listnet"), np.zeros(1), Lists.of([1], [0, 1], None))
    'it is about mse without noise'
    """
    kind = about(words, lambda loss, *_: isinstance(loss, kinds) and sees_scores(loss))
    return first_reason(kind, nothing_relevant, *more)


def beyond_its_labels(loss: Loss, label: float) -> str | None:
    """Return why a loss cannot take a label: its gain table, or the scale of its metric, ends before it.

    Args:
        loss: any loss.
        label: the highest label.

    >>> from tautrank.losses import loss
    >>> beyond_its_labels(loss("lambdarank", gain=(0, 1)), 4.0)
    'its labels end at 1, and these lists have a label of 4'
    """
    judge = getattr(loss, "metric", None)
    tables = [len(gain) - 1 for gain in (getattr(each, "gain", None) for each in (loss, judge)) if type(gain) is tuple]
    highest = min([*tables, getattr(judge, "max_label", math.inf)])
    return f"its labels end at {highest:g}, and these lists have a label of {label:g}" if label > highest else None


def some_lists(scores: F64, lists: Lists, documents: int = 2000) -> tuple[F64, Lists]:
    """Take queries at regular distances, for checks that look at many scores.

    Args:
        scores: one per document.
        lists: the labelled lists.
        documents: approximate number of documents to take.

    >>> scores, lists = some_lists(np.arange(6.0), Lists.of([1, 0, 0, 1, 1, 0], [0, 2, 4, 6], None), documents=4)
    >>> scores, lists.offsets
    (array([0., 1., 4., 5.]), array([0, 2, 4]))
    """
    stride = max(1, -(-scores.size // documents))
    return only_queries(scores, lists, np.arange(lists.sizes.size) % stride == 0)


def some_short_lists(scores: F64, lists: Lists) -> tuple[F64, Lists]:
    """Take `some_lists` of at most 200 documents, for checks whose time grows with the square of that number.

    >>> some_short_lists(np.zeros(302), Lists.of(np.ones(302), [0, 1, 302], None))[1].offsets
    array([0, 1])
    """
    return some_lists(*only_queries(scores, lists, lists.sizes <= _SHORT))


def only_queries(scores: F64, lists: Lists, queries: NDArray[np.bool_]) -> tuple[F64, Lists]:
    """Return the scores and the lists of some queries.

    Args:
        scores: one per document.
        lists: the labelled lists.
        queries: whether to take each query.

    >>> only_queries(np.array([5.0, 6.0, 7.0]), Lists.of([1, 0, 2], [0, 2, 3], None), np.array([False, True]))[0]
    array([7.])
    """
    rows = np.repeat(queries, lists.sizes)
    return scores[rows], Lists.of(lists.labels[rows], offsets_from_sizes(lists.sizes[queries]), None)


slow_check = functools.partial(check, once=True, sample=some_short_lists)
"""As `check`, for checks that look for their own scores on some short lists."""
