"""Checks of a loss: what each one says, what it applies to, its outcome; and losses checked on
lists and on data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import choice, whole
from tautrank.arrays import F64, Bools
from tautrank.data.arrays import offsets_from_sizes
from tautrank.errors import counted
from tautrank.losses import REGISTRY, Loss
from tautrank.losses.base import TrainingLists
from tautrank.progress import Progress, Silent
from tautrank.theory.theorem import Condition, check_scored_lists, first_reason

HOLDS, FAILS, DOES_NOT_APPLY = "holds", "fails", "does not apply"

Examine = Callable[[Loss, F64, TrainingLists], tuple[float, str] | Iterable[str]]
"""From a loss, scores and lists to a margin, below 0 where the check fails, and a sentence with the
numbers; or to counterexamples in sentences, of which only the first is asked for."""

# A margin this far below 0 is rounding.
_ROUNDING = 1e-9
# Lists up to this length are short enough for checks that compare every pair of documents many
# times.
_SHORT = 200


class Outcome(NamedTuple):
    """The result of a check.

    Args:
        check: name of the check.
        status: ``"holds"``, ``"fails"`` or ``"does not apply"``.
        detail: the numbers, the counterexample, or the reason why the check does not apply.
        margin: distance from failing, below 0 where the check fails; NaN where it is a matter of
            yes or no.
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


class Check(NamedTuple):
    """A statement about losses that can be checked.

    Args:
        name: what a user types.
        statement: the statement, in a sentence.
        examine: the check itself, see `Examine`. An error that a loss raises here is a failure.
        unless: the condition under which the check does not apply, see `Condition`.
        on: the lists to check on: ``"data"``, ``"synthetic"`` (small lists with ties and empty
            queries) or ``"both"``.
        paper: citation; empty for statements of this library.
        once: whether one scoring is enough, because the check does not depend on the scores or
            looks for its own.
        sample: from scores and lists to the queries to look at, for a check that takes long; None
            for all.
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
    sample: Callable[[F64, TrainingLists], tuple[F64, TrainingLists]] | None = None
    flaw: str = ""

    def outcome(self, loss: Loss, scores: F64, lists: TrainingLists) -> Outcome:
        """Check a loss at given scores.

        Args:
            loss: any loss.
            scores: one finite number per document.
            lists: the labelled lists.

        >>> from tautrank.losses import loss
        >>> CHECKS["xe-ndcg"].outcome(loss("listnet"), np.array([1.0, 0.0]), TrainingLists.of([0, 1], [0, 2]))
        xe-ndcg does not apply: it is about xendcg without noise
        """
        if self.sample is not None:
            scores, lists = self.sample(scores, lists)
        queries = lists.sizes.size
        reason = beyond_its_labels(loss, float(lists.labels.max(initial=0.0))) or self.unless(
            loss, scores, lists
        )
        if reason is not None:
            return Outcome(self.name, DOES_NOT_APPLY, reason, queries=queries)
        try:
            found = self.examine(loss, scores, lists)
            if not isinstance(found, tuple):
                counterexample = next(iter(found), "")
                return Outcome(
                    self.name, FAILS if counterexample else HOLDS, counterexample, queries=queries
                )
        except Exception as error:
            # The loss may be anybody's code, and what is wrong with it is what the user asked for.
            detail = f"stopped with {type(error).__name__}: {error}".replace("\n", " ")
            return Outcome(self.name, FAILS, detail, -math.inf, queries)
        margin, detail = found
        return Outcome(self.name, HOLDS if margin >= -_ROUNDING else FAILS, detail, margin, queries)


CHECKS: dict[str, Check] = {}
"""Every check by its name: laws first, then measurements, then the papers' theorems."""


def check(name: str, statement: str = "", **options: Any) -> Callable[[Examine], Examine]:
    """Function decorator: enter a check into `CHECKS`. The arguments are those of `Check`.

    The statement is the docstring of the function, unless another is given.

    >>> @check("positive")
    ... def positive(loss, scores, lists):
    ...     '''the loss is never below 0'''
    ...     least = float(loss.bind(lists.labels, lists.offsets).values(scores).min())
    ...     return least, f"the smallest value is {least:g}"
    >>> from tautrank.losses import loss
    >>> CHECKS["positive"].outcome(loss("mse"), np.array([2.0]), TrainingLists.of([1], [0, 1]))
    positive holds: the smallest value is 0.5
    >>> del CHECKS["positive"]
    """

    def enter(examine: Examine) -> Examine:
        CHECKS[name] = Check(
            name, statement or " ".join((examine.__doc__ or "").split()), examine, **options
        )
        return examine

    return enter


def nothing_relevant(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    """Condition of a check that needs a relevant document, one whose label is worth something."""
    gain = getattr(loss, "gain", getattr(getattr(loss, "metric", None), "gain", "linear"))
    return None if lists.gains(gain).any() else "no query that it looks at has a relevant document"


def scope(kind: Condition, *more: Condition) -> Condition:
    """Return the condition of the check of a theorem: about a kind of losses, on lists with a
    relevant document.

    Args:
        kind: the losses.
        more: further conditions.

    >>> scope(lambda *_: None)(None, np.zeros(1), TrainingLists.of([0], [0, 1]))
    'no query that it looks at has a relevant document'
    """
    return first_reason(kind, nothing_relevant, *more)


def beyond_its_labels(loss: Loss, label: float) -> str | None:
    """Return why a loss cannot take a label: its gain table, or the scale of its metric, ends
    before it.

    Args:
        loss: any loss.
        label: the highest label.

    >>> from tautrank.losses import loss
    >>> beyond_its_labels(loss("lambdarank", gain=(0, 1)), 4.0)
    'its labels end at 1, and these lists have a label of 4'
    """
    judge = getattr(loss, "metric", None)
    tables = [
        len(gain) - 1
        for gain in (getattr(each, "gain", None) for each in (loss, judge))
        if type(gain) is tuple
    ]
    highest = min([*tables, getattr(judge, "max_label", math.inf)])
    return (
        f"its labels end at {highest:g}, and these lists have a label of {label:g}"
        if label > highest
        else None
    )


def some_lists(
    scores: F64, lists: TrainingLists, documents: int = 2000
) -> tuple[F64, TrainingLists]:
    """Take queries at regular distances, for checks that look at many scores.

    Args:
        scores: one per document.
        lists: the labelled lists.
        documents: approximate number of documents to take.

    >>> scores, lists = some_lists(np.arange(6.0), TrainingLists.of([1, 0, 0, 1, 1, 0], [0, 2, 4, 6]), documents=4)
    >>> scores, lists.offsets
    (array([0., 1., 4., 5.]), array([0, 2, 4]))
    """
    stride = max(1, -(-scores.size // documents))
    return only_queries(scores, lists, np.arange(lists.sizes.size) % stride == 0)


def short_lists(scores: F64, lists: TrainingLists) -> tuple[F64, TrainingLists]:
    """Take `some_lists` of at most 200 documents, for checks whose time grows with the square of
    that number.

    >>> short_lists(np.zeros(302), TrainingLists.of(np.ones(302), [0, 1, 302]))[1].offsets
    array([0, 1])
    """
    return some_lists(*only_queries(scores, lists, lists.sizes <= _SHORT))


def only_queries(scores: F64, lists: TrainingLists, queries: Bools) -> tuple[F64, TrainingLists]:
    """Return the scores and the lists of some queries.

    Args:
        scores: one per document.
        lists: the labelled lists.
        queries: whether to take each query.

    >>> only_queries(np.array([5.0, 6.0, 7.0]), TrainingLists.of([1, 0, 2], [0, 2, 3]), np.array([False, True]))[0]
    array([7.])
    """
    rows = np.repeat(queries, lists.sizes)
    return scores[rows], TrainingLists.of(
        lists.labels[rows], offsets_from_sizes(lists.sizes[queries])
    )


slow_check = functools.partial(check, once=True, sample=short_lists)
"""As `check`, for checks that look for their own scores on some short lists."""


def synthetic_lists(seed: int = 0) -> tuple[F64, TrainingLists]:
    """Return scores with ties (multiples of 1/8, so that shifts are exact) and six labelled lists.

    One list has a single document, one has none, and one has no relevant document.

    Args:
        seed: seed of scores and labels.

    >>> scores, lists = synthetic_lists()
    >>> scores[:4], lists.labels[:4], lists.sizes
    (array([ 0.625,  1.   , -1.   , -1.25 ]), array([4., 3., 2., 1.]), array([ 5,  1, 12,  3,  0,  8]))
    """
    rng = np.random.default_rng(seed)
    offsets = offsets_from_sizes(np.array([5, 1, 12, 3, 0, 8]))
    labels = rng.integers(0, 5, offsets[-1]).astype(np.float64)
    labels[offsets[3] : offsets[4]] = 0.0
    labels[offsets[1]] = 2.0
    return rng.integers(-12, 12, offsets[-1]) / 8.0, TrainingLists.of(labels, offsets)


@dataclass(frozen=True)
class LossReport:
    """The outcomes of the checks for one loss; it prints one line per check.

    Args:
        loss: the loss.
        outcomes: one per check; only that of ``runs`` if the loss does not run on ordinary lists.

    >>> report = check_loss("mse", [1, 0], [0, 2], names=["shift", "weights"])
    >>> report
    mse
      shift does not apply: it is meant to depend on the scores themselves
      weights holds
    >>> report.summary, report["weights"].status
    ('mse: 1 check holds, 0 fail, 1 does not apply', 'holds')
    """

    loss: Loss
    outcomes: tuple[Outcome, ...]

    def having(self, status: str) -> list[Outcome]:
        """Return the outcomes of one status: ``"holds"``, ``"fails"`` or ``"does not apply"``."""
        return [outcome for outcome in self.outcomes if outcome.status == status]

    def __getitem__(self, check: str) -> Outcome:
        return {outcome.check: outcome for outcome in self.outcomes}[check]

    @property
    def holds(self) -> bool:
        """Whether no check fails."""
        return not self.having(FAILS)

    @property
    def summary(self) -> str:
        """How many checks hold, fail and do not apply, in one line."""
        held, failed, silent = (
            len(self.having(status)) for status in (HOLDS, FAILS, DOES_NOT_APPLY)
        )
        return (
            f"{self.loss}: {counted(held, 'check')} {'holds' if held == 1 else 'hold'}, {failed} "
            f"{'fails' if failed == 1 else 'fail'}, {silent} {'does' if silent == 1 else 'do'} not apply"
        )

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the outcomes as plain values by the name of the check; a margin that is not finite
        is None.
        """
        return {
            outcome.check: {
                "statement": CHECKS[outcome.check].statement,
                "paper": CHECKS[outcome.check].paper or None,
                "status": outcome.status,
                "margin": outcome.margin if math.isfinite(outcome.margin) else None,
                "queries": outcome.queries,
                "detail": outcome.detail,
                "known_flaw": CHECKS[outcome.check].flaw or None,
            }
            for outcome in self.outcomes
        }

    def __repr__(self) -> str:
        return "\n".join([str(self.loss), *(f"  {outcome}" for outcome in self.outcomes)])


def check_loss(
    loss: Loss | str,
    labels: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
    **options: Any,
) -> LossReport:
    """Check one loss.

    Args:
        loss: the loss, or its name.
        labels, offsets: the data, as in `check_losses`.
        options: ``scores``, ``names``, ``queries``, ``seed`` and ``progress``, as in
            `check_losses`.

    >>> check_loss("listnet", names=["derivative", "zero-sum", "order"]).holds
    True
    """
    return check_losses([loss], labels, offsets, **options)[0]


def check_losses(
    losses: Iterable[Loss | str] | None = None,
    labels: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
    *,
    scores: ArrayLike | None = None,
    names: Iterable[str] | None = None,
    queries: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[LossReport]:
    """Check losses, also your own: laws that every loss obeys, measurements, and the papers'
    theorems.

    Laws are checked on small synthetic lists with ties, empty queries and extreme scores. Most
    other checks, and the laws that any lists can break, are checked on the data. The outcome of a
    check is the worst one over several scorings of the data: the given scores (or a draw from N(0,
    1)), equal scores, the labels upside down, the scores a hundred times as far apart and as near,
    the labels themselves, and another draw.

    A loss that raises an error fails the check. A check does not apply only where its own condition
    says so.

    Args:
        losses: losses, or their names; None for every registered one. A loss of your own need not
            be registered.
        labels: one finite number of at least 0 per document; None for synthetic web search.
        offsets: start of each query, and the number of documents at the end.
        scores: one finite number per document.
        names: names of checks; None for all.
        queries: largest number of queries to look at, taken at regular distances; None for all.
        seed: seed of the data and of the scores that are drawn.
        progress: what is told before each check and at the end how many checks are done, and the
            name of the next one.

    >>> for report in check_losses(["lambdarank", "xendcg"], [2, 0, 1, 0, 1], [0, 3, 5], names=["order", "xe-ndcg"]):
    ...     print(report.summary)
    lambdarank: 1 check holds, 0 fail, 1 does not apply
    xendcg: 2 checks hold, 0 fail, 0 do not apply
    """
    chosen = [REGISTRY.make(item) for item in (REGISTRY if losses is None else losses)]
    checks = [
        CHECKS[choice("check", name, tuple(CHECKS))]
        for name in (CHECKS if names is None else names)
    ]
    scorings, lists = _data(labels, offsets, scores, queries, seed)
    progress = progress or Silent()
    total = len(chosen) * len(checks)
    reports: list[LossReport] = []
    for loss in chosen:
        runs = CHECKS["runs"].outcome(loss, *synthetic_lists())
        outcomes = [runs] if runs.status == FAILS else []
        for each in checks if not outcomes else ():
            done = len(reports) * len(checks) + len(outcomes)
            progress.update(done, total, f"{loss}: {each.name}")
            outcomes.append(_worst(each, loss, scorings, lists))
        reports.append(LossReport(loss, tuple(outcomes)))
    progress.update(total, total, "")
    return reports


def _data(
    labels: ArrayLike | None,
    offsets: ArrayLike | None,
    scores: ArrayLike | None,
    queries: int | None,
    seed: int,
) -> tuple[list[F64], TrainingLists]:
    """Return several scorings of the same lists."""
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    if labels is None or offsets is None:
        from tautrank.simulate import simulate_web_search

        data = simulate_web_search(200, n_features=16, mean_length=20, seed=seed)
        labels, offsets = data.labels, data.offsets
    lists = TrainingLists.of(labels, offsets)
    first = rng.normal(size=lists.labels.size)
    if scores is not None:
        first, _ = check_scored_lists(scores, lists.labels, lists.offsets)
    if queries is not None and whole("queries", queries, 1) < lists.sizes.size:
        kept = np.zeros(lists.sizes.size, bool)
        kept[np.linspace(0, kept.size - 1, queries).astype(np.int64)] = True
        first, lists = only_queries(first, lists, kept)
    second = rng.normal(size=lists.labels.size)
    return [
        first,
        np.zeros_like(first),
        -lists.labels,
        100.0 * first,
        0.01 * first,
        lists.labels,
        second,
    ], lists


def _worst(check: Check, loss: Loss, scorings: list[F64], lists: TrainingLists) -> Outcome:
    """Return the worst outcome over the lists that a check is for."""
    outcomes = []
    if check.on != "data":
        # Small lists make the better counterexample, so theirs comes first.
        outcomes.append(check.outcome(loss, *synthetic_lists())._replace(queries=0))
    if check.on != "synthetic":
        outcomes += [
            check.outcome(loss, scores, lists) for scores in scorings[: 1 if check.once else None]
        ]
    order = (FAILS, HOLDS, DOES_NOT_APPLY)
    worst = min(
        outcomes,
        key=lambda o: (order.index(o.status), math.inf if math.isnan(o.margin) else o.margin),
    )
    return worst._replace(queries=outcomes[-1].queries)
