"""The laws that every loss obeys, checked on lists made for the purpose: ties, extremes, empty queries, threads.

`check_laws` checks a loss, one of your own included, and says for each law whether it holds, or gives a counterexample.
What the papers prove of single losses is checked by `tautrank.theory`, on data of yours, and so are some laws: the
functions that work out both sides of those take any lists.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tautrank.arguments import choice
from tautrank.errors import TautrankError
from tautrank.kernels.threads import small_shares
from tautrank.losses.base import REGISTRY, Lists, Loss, Objective, place
from tautrank.losses.base import loss as loss_named
from tautrank.losses.stochastic import SmoothedLoss
from tautrank.metrics.ordering import F64, query_sums
from tautrank.theory.derivatives import differences

Numbers = NDArray[np.floating[Any]]

Results = dict[str, Numbers]
"""What a loss gives: its ``gradient``, ``hessian`` and ``value``, or some of them."""

HOLDS, FAILS, DOES_NOT_APPLY = "holds", "fails", "does not apply"

SIZES = np.array([5, 1, 12, 3, 0, 8])
"""Documents of the example's queries: one has a single document, one has none."""

OFFSETS = np.concatenate(([0], np.cumsum(SIZES)))
"""Where the example's queries start, and the number of documents at the end."""

_BARE = 3  # the query without a relevant document
_SEED = 7
_KINDS: tuple[np.dtype[np.floating[Any]], ...] = (np.dtype(np.float32), np.dtype(np.float64))
_LONG = 50_000
# A list of this many documents tells how long one of `_LONG` will take, if every two documents are compared.
_LONG_TRIAL = 2_000
_MOST_SECONDS = 600.0
# What takes the random numbers out of a loss of this library, one after the other until none are left.
_SETTLED: dict[str, Any] = {"noise": None, "assignment": "hard", "gamma": 0.5, "estimator": "exact"}

_EXTREMES: dict[str, tuple[list[float], list[float]]] = {
    "scores 1e6 apart": ([1e6, 0.0, -1e6, 5e5, 2e6], [0, 1, 2, 0, 3]),
    "scores 1e6 apart, upside down": ([-1e6, 0.0, 1e6, -5e5, 2e6], [0, 1, 2, 0, 3]),
    "two groups of scores 1e6 apart": ([1e6, 1e6, 0.0, 0.0, 0.0], [1, 0, 4, 0, 3]),
    "equal scores": ([0.0, 0.0, 0.0, 0.0], [3, 0, 1, 1]),
    "equal labels": ([0.5, -1.0, 2.0], [2, 2, 2]),
    "scores some hundreds apart": ([300.0, -250.0, 100.0, 41.0, 39.0, -41.0, 0.0], [0, 1, 2, 3, 4, 1, 0]),
    "a single document": ([3.0], [4]),
    "a single document that is not relevant": ([3.0], [0]),
}


@dataclass(frozen=True)
class Law:
    """Something that holds for every loss it speaks of.

    Args:
        name: what a user types.
        statement: the law, in a sentence.
        broken_by: from a loss to a counterexample in a sentence, or None where there is none.
        silent_on: from a loss to the reason why the law does not speak of it, or None where it does.

    >>> LAWS["shift"].statement
    'adding a constant to the scores of a query changes nothing'
    """

    name: str
    statement: str
    broken_by: Callable[[Loss], str | None]
    silent_on: Callable[[Loss], str | None]


@dataclass(frozen=True)
class LawOutcome:
    """What came of a law.

    Args:
        law: its name.
        status: ``"holds"``, ``"fails"`` or ``"does not apply"``.
        detail: the counterexample, or the reason why it does not apply; empty where it holds.
    """

    law: str
    status: str
    detail: str = ""

    def __repr__(self) -> str:
        return f"{self.law} {self.status}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class LawReport:
    """What came of the laws for a loss; it prints as one line a law.

    Args:
        loss: the loss.
        outcomes: one a law.

    >>> check_laws("mse", ["shift", "weights"])
    mse
      shift does not apply: it is meant to see the scores themselves
      weights holds
    """

    loss: Loss
    outcomes: tuple[LawOutcome, ...]

    @property
    def holds(self) -> bool:
        """Whether no law fails."""
        return not self.having(FAILS)

    def having(self, status: str) -> list[LawOutcome]:
        """The outcomes of one status.

        Args:
            status: ``"holds"``, ``"fails"`` or ``"does not apply"``.
        """
        return [outcome for outcome in self.outcomes if outcome.status == status]

    def __repr__(self) -> str:
        return "\n".join([str(self.loss), *(f"  {outcome}" for outcome in self.outcomes)])


LAWS: dict[str, Law] = {}
"""Every law by its name."""


def check_laws(loss: Loss | str, names: Iterable[str] | None = None) -> LawReport:
    """Check a loss by the laws.

    A law that the loss stops with an error fails, and says with which; one whose lists the loss refuses, in a sentence
    of this library, does not apply.

    Args:
        loss: any loss, or its name; one of your own need not be registered.
        names: of the laws; None for all.

    >>> report = check_laws("listnet", ["derivative", "zero-sum", "order"])
    >>> report.holds
    True
    """
    chosen = loss_named(loss)
    wanted = [choice("law", name, tuple(LAWS)) for name in (LAWS if names is None else names)]
    runs = _runs(chosen)
    if runs is not None:
        rest = [LawOutcome(name, DOES_NOT_APPLY, "it does not run") for name in wanted if name != "runs"]
        return LawReport(chosen, (LawOutcome("runs", FAILS, runs), *rest))
    return LawReport(chosen, tuple(_outcome(LAWS[name], chosen) for name in wanted))


def example(seed: int = 0) -> tuple[F64, F64]:
    """Scores with ties (multiples of 1/8, so that shifts are exact) and labels of the queries at `OFFSETS`.

    Args:
        seed: other ones, other lists.

    >>> scores, labels = example()
    >>> scores[:4], labels[:4]
    (array([ 0.625,  1.   , -1.   , -1.25 ]), array([4., 3., 2., 1.]))
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, OFFSETS[-1]).astype(np.float64)
    labels[OFFSETS[_BARE] : OFFSETS[_BARE + 1]] = 0.0
    labels[OFFSETS[1]] = 2.0
    return rng.integers(-12, 12, OFFSETS[-1]) / 8.0, labels


def _outcome(subject: Law, loss: Loss) -> LawOutcome:
    reason = subject.silent_on(loss)
    if reason is not None:
        return LawOutcome(subject.name, DOES_NOT_APPLY, reason)
    try:
        found = subject.broken_by(loss)
    except TautrankError as error:
        return LawOutcome(subject.name, DOES_NOT_APPLY, str(error))
    except Exception as error:
        # The loss may be anybody's code, and what is wrong with it is what was asked for.
        found = stopped(error)
    return LawOutcome(subject.name, HOLDS) if found is None else LawOutcome(subject.name, FAILS, found)


_Finding = Callable[[Loss], str | None]


def _law(name: str, statement: str, silent_on: _Finding = lambda loss: None) -> Callable[[_Finding], _Finding]:
    """Function decorator: enter a check into `LAWS`."""

    def enter(check: _Finding) -> _Finding:
        LAWS[name] = Law(name, statement, check, silent_on)
        return check

    return enter


def _no_derivative(loss: Loss) -> str | None:
    return None if loss.gradient_is_derivative else "its gradient is not meant to be a derivative"


def _sees_scores(loss: Loss) -> str | None:
    return None if loss.ignores_shifts else "it is meant to see the scores themselves"


def _places_matter(loss: Loss) -> str | None:
    return None if not _settled(loss).is_random else "its random numbers belong to places"


@_law("runs", "it gives a gradient, a hessian and a value for ordinary lists")
def _runs(loss: Loss) -> str | None:
    scores, lists = _made()
    try:
        found = results(_bound(loss, lists), scores)
    except TautrankError as error:
        return str(error)
    except Exception as error:
        return stopped(error)
    for name, part in found.items():
        expected = lists.sizes.shape if name == "value" else scores.shape
        if np.shape(part) != expected:
            return f"its {name} has the shape {np.shape(part)}; expected {expected}"
    return None


def gradient_and_slopes(
    loss: Loss, scores: F64, lists: Lists, step: int = 0, places: Iterable[int] | None = None
) -> tuple[Results, Results]:
    """The gradient of a loss, and the slopes of its values with its weights, targets and noise held.

    Args:
        loss: any loss.
        scores: one a document.
        lists: the labelled lists.
        step: as in `Objective.gradients`.
        places: as in `differences`.

    >>> found, wanted = gradient_and_slopes(loss_named("mse"), np.zeros(2), Lists.of([0, 1], [0, 2], None))
    >>> bool(np.allclose(found["gradient"], wanted["gradient"]))
    True
    """
    objective = _bound(loss, lists)
    slopes = differences(objective.frozen(scores, step).values, scores, lists.offsets, places=places)
    return {"gradient": objective.gradients(scores, step)[0]}, {"gradient": slopes}


@_law(
    "derivative",
    "the gradient is the derivative of the loss, its weights, targets and noise held",
    _no_derivative,
)
def _derivative(loss: Loss) -> str | None:
    return _unlike(*gradient_and_slopes(loss, *_made(), step=3), 1e-6, 1e-8, expected="the slope of the loss")


@_law("held", "the loss with what it holds held at some scores is, at those scores, the loss")
def _held(loss: Loss) -> str | None:
    scores, lists = _made()
    objective = _bound(loss, lists)
    return _unlike({"value": objective.frozen(scores, 2).values(scores)}, {"value": objective.values(scores, 2)})


@_law("finite", "gradients, hessians and values are finite, no hessian is below 0, and not all are 0")
def _finite(loss: Loss) -> str | None:
    scores, lists = _made()
    found = results(_bound(loss, lists), scores)
    return not_finite(found) if found["hessian"].any() else "all hessians are 0: a booster divides by them"


def without_relevant(loss: Loss, scores: F64, lists: Lists) -> Results:
    """What a loss gives to the queries without a relevant document: nothing but 0 is right.

    Args:
        loss: any loss.
        scores: one a document.
        lists: the labelled lists.

    >>> without_relevant(loss_named("mse"), np.ones(3), Lists.of([0, 1, 0], [0, 2, 3], None))["gradient"]
    array([0.])
    """
    bare = ~lists.has_relevant
    found = results(_bound(loss, lists), scores)
    return {name: part[bare if name == "value" else bare[lists.query]] for name, part in found.items()}


@_law("no-relevant", "a query without a relevant document has value 0, gradient 0 and hessian 0")
def _no_relevant(loss: Loss) -> str | None:
    for name, part in without_relevant(loss, *_made()).items():
        if part.any():
            return f"found a {name} of {part[part != 0][0]:g} there"
    return None


@_law("independent", "a query is not touched by what the other queries hold")
def _independent(loss: Loss) -> str | None:
    scores, labels = example()
    other_scores, other_labels = example(seed=1)
    rows = slice(OFFSETS[2], OFFSETS[3])
    other_scores[rows], other_labels[rows] = scores[rows], labels[rows]

    def beside(s: F64, y: F64) -> Results:
        found = results(loss.bind(y, OFFSETS, seed=_SEED), s)
        return {name: part[2:3] if name == "value" else part[rows] for name, part in found.items()}

    found = _unlike(
        beside(other_scores, other_labels), beside(scores, labels), expected="as beside other queries", offsets=None
    )
    return None if found is None else f"of the same query: {found}"


def reordered(loss: Loss, scores: F64, lists: Lists) -> tuple[Results, Results]:
    """What a loss without its random numbers gives with the documents of every query in another order, and as they are.

    Documents with the same score and label are the same document: their results may change places, and are sorted.

    Args:
        loss: any loss.
        scores: one a document.
        lists: the labelled lists.

    >>> found, wanted = reordered(loss_named("ranknet"), np.array([0.0, 1.0]), Lists.of([1, 0], [0, 2], None))
    >>> bool(found["value"] == wanted["value"])
    True
    """
    subject = _settled(loss)
    order = np.lexsort((np.random.default_rng(5).random(scores.size), lists.query))

    def sorted_results(s: F64, y: F64) -> Results:
        found = results(subject.bind(y, lists.offsets), s)
        at = np.lexsort((found["gradient"].round(9), y, s, lists.query))
        return {name: part if name == "value" else part[at] for name, part in found.items()}

    return sorted_results(scores[order], lists.labels[order]), sorted_results(scores, lists.labels)


@_law("order", "the order in which documents are given does not matter, ties included", _places_matter)
def _order(loss: Loss) -> str | None:
    return _unlike(*reordered(loss, *_made()), 1e-9, 1e-12, expected="as in another order")


def shifted(loss: Loss, scores: F64, lists: Lists) -> tuple[Results, Results]:
    """What a loss gives with a constant added to the scores of each query, and without.

    Args:
        loss: any loss.
        scores: one a document.
        lists: the labelled lists.

    >>> found, wanted = shifted(loss_named("mse"), np.zeros(1), Lists.of([1], [0, 1], None))
    >>> found["gradient"], wanted["gradient"]
    (array([3.]), array([-1.]))
    """
    # Powers of two, so that the sum rounds little and no two scores become one.
    shift = np.where(lists.query % 2 == 0, 4.0, -2.0)
    objective = _bound(loss, lists)
    return results(objective, scores + shift, 1), results(objective, scores, 1)


@_law("shift", "adding a constant to the scores of a query changes nothing", _sees_scores)
def _shift(loss: Loss) -> str | None:
    return _unlike(*shifted(loss, *_made()), 1e-9, 1e-12, expected="as without the constant")


@_law(
    "zero-sum",
    "the gradient adds up to 0 in every query",
    lambda loss: (
        None if loss.gradient_is_derivative and loss.ignores_shifts else "only derivatives that ignore shifts must"
    ),
)
def _zero_sum(loss: Loss) -> str | None:
    scores, lists = _made()
    totals = query_sums(_bound(loss, lists).gradients(scores)[0], lists.offsets)
    wrong = np.flatnonzero(~(np.abs(totals) <= 1e-12))
    return f"it adds up to {totals[wrong[0]]:g} in query {wrong[0]}" if wrong.size else None


@_law("threads", "the same bits for any number of threads, in float32 and in float64")
def _threads(loss: Loss) -> str | None:
    made, lists = _made()
    for kind, threads in itertools.product(_KINDS, (2, 3)):
        scores = made.astype(kind)
        with small_shares():
            several = _bound(loss, lists, n_jobs=threads)
        assert len(several._ranges) > 1, "nothing is shared out"
        other = _other_bits(results(several, scores, 4), results(_bound(loss, lists, n_jobs=1), scores, 4))
        if other is not None:
            return f"another {other} on {threads} threads than on one, in {kind}"
    return None


@_law("repeat", "the same bits again, after other calls, and in another process")
def _repeat(loss: Loss) -> str | None:
    scores, lists = _made()
    objective = _bound(loss, lists)
    first = results(objective, scores, 5)
    objective.gradients(scores[::-1].copy(), 6)
    try:
        copy = pickle.loads(pickle.dumps(objective))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return f"it cannot be sent to another process ({error}); expected its class at the top level of a module"
    for how, again in (("after another call", objective), ("after it was pickled", copy)):
        other = _other_bits(results(again, scores, 5), first)
        if other is not None:
            return f"another {other} {how}"
    return None


@_law("seed", "step and seed matter if the loss says that it is random, and only then")
def _seed_and_step(loss: Loss) -> str | None:
    scores, labels = example()
    # The rankings of a soft assignment differ from the hard one only where scores are near each other.
    subject = _with(loss, spread=1.0) if hasattr(loss, "spread") else loss
    first = subject.bind(labels, OFFSETS, seed=7).gradients(scores, 0)[0]
    for what, other in (
        ("step", subject.bind(labels, OFFSETS, seed=7).gradients(scores, 1)[0]),
        ("seed", subject.bind(labels, OFFSETS, seed=8).gradients(scores, 0)[0]),
    ):
        changed = first.tobytes() != other.tobytes()
        if changed != subject.is_random:
            says = "random" if subject.is_random else "not random"
            return (
                f"it says that it is {says}, and another {what} gives {'another' if changed else 'the same'} gradient"
            )
    return None


@_law("float32", "float32 scores give float32 results near the float64 ones")
def _float32(loss: Loss) -> str | None:
    scores, lists = _made()
    objective = _bound(loss, lists)
    narrow, wide = gradients(objective, scores.astype(np.float32)), gradients(objective, scores)
    for name in narrow:
        if [narrow[name].dtype.name, wide[name].dtype.name] != ["float32", "float64"]:
            return f"the {name} is {narrow[name].dtype} for float32 and {wide[name].dtype} for float64 scores"
    found = _unlike(narrow, wide, 2e-5, 2e-6, expected="as in float64")
    return None if found is None else f"in float32 {found}"


@_law("weights", "the weight of a query scales its value, gradient and hessian")
def _weights(loss: Loss) -> str | None:
    scores, lists = _made()
    weights = np.array([2.0, 1.0, 0.0, 1.0, 1.0, 0.5])
    weighted = results(loss.bind(lists.labels, OFFSETS, weights, seed=_SEED), scores)
    wanted = {
        name: (weights if name == "value" else weights[lists.query]) * part
        for name, part in results(_bound(loss, lists), scores).items()
    }
    return _unlike(weighted, wanted, 1e-12, expected="weight times that without weights")


@_law("extremes", "finite, and float32 like float64: scores 1e6 apart, ties, single documents")
def _extremes(loss: Loss) -> str | None:
    for (what, (scores, labels)), kind in itertools.product(_EXTREMES.items(), _KINDS):
        s = np.array(scores, dtype=kind)
        found = _extreme(loss, s, np.array(labels))
        if found is not None:
            return f"{what}, {kind}: {found}"
    return None


def _extreme(loss: Loss, s: Numbers, labels: F64) -> str | None:
    objective = loss.bind(labels, [0, s.size])
    parts = results(objective, s)
    found = not_finite(parts)
    if found is not None:
        return found
    value = parts.pop("value")[0]
    if not labels.any() and (parts["gradient"].any() or value != 0):
        return f"found the value {value:g} where nothing is relevant"
    if loss.noise is not None and s.dtype == np.float32:
        return None  # next to 1e6 a float32 rounds the noise itself
    # Where the ranges of float32 and float64 end, the mathematics is the same.
    wide = gradients(objective, s.astype(np.float64))
    scale = max(1.0, float(np.abs(wide["gradient"]).max()))
    return _unlike(parts, wide, 1e-4, 1e-5 * scale, expected="as in float64", offsets=None)


@_law("large-labels", "labels of 32, 100 and 1000 are finite, and the document that has one is pushed up")
def _large_labels(loss: Loss) -> str | None:
    scores = np.zeros(3)
    for top in (32, 100, 1000):
        subjects = [loss]
        if isinstance(loss, SmoothedLoss):
            # A shift by such a label takes the document out of reach of the others, and one draw may have any sign.
            subjects.append(_with(loss, mu=0.0, samples=64))
        for subject in subjects:
            parts = results(subject.bind([0, top, 0], [0, 3]), scores)
            found = not_finite(parts)
            if found is not None:
                return f"next to a label of {top} {found}"
        slope = parts["gradient"][1]
        if not slope < 0:
            return f"the gradient of a document with label {top} among others with 0 is {slope:g}; expected below 0"
    return None


@_law("long-list", f"a list of {_LONG:,} documents is finite, is learnt from, and needs no square memory")
def _long_list(loss: Loss) -> str | None:
    _long_gradients(loss, _LONG_TRIAL)  # may compile
    started = time.perf_counter()
    _long_gradients(loss, _LONG_TRIAL)
    seconds = (time.perf_counter() - started) * (_LONG / _LONG_TRIAL) ** 2
    if seconds > _MOST_SECONDS:
        return f"it would take {seconds / 60:.0f} minutes, by what {_LONG_TRIAL:,} documents take"
    parts = _long_gradients(loss, _LONG)
    found = not_finite(parts)
    if found is not None:
        return found
    grad = parts["gradient"]
    if not grad.any():
        return "the gradient is 0 everywhere"
    total, size = float(grad.sum(dtype=np.float64)), float(np.abs(grad).sum(dtype=np.float64))
    if loss.gradient_is_derivative and loss.ignores_shifts and not abs(total) < 1e-3 * size:
        return f"the gradient adds up to {total / size:.2g} of its size; expected 0"
    return None


def _long_gradients(loss: Loss, n: int) -> Results:
    rng = np.random.default_rng(0)
    labels = rng.choice(5, n, p=[0.9, 0.05, 0.03, 0.01, 0.01])
    scores = rng.normal(size=n).astype(np.float32)
    return gradients(loss.bind(labels, [0, n]), scores)


@_law(
    "text",
    "what it prints is read back as the same loss",
    lambda loss: None if REGISTRY.get(getattr(loss, "name", "")) is type(loss) else "it is not registered",
)
def _text(loss: Loss) -> str | None:
    back = loss_named(str(loss))
    return None if back == loss and hash(back) == hash(loss) else f"{loss} is read back as {back}"


def _made() -> tuple[F64, Lists]:
    scores, labels = example()
    return scores, Lists.of(labels, OFFSETS, None)


def _bound(loss: Loss, lists: Lists, n_jobs: int | None = None) -> Objective:
    return loss.bind(lists.labels, lists.offsets, seed=_SEED, n_jobs=n_jobs)


def _with(loss: Loss, **parameters: Any) -> Loss:
    return dataclasses.replace(loss, **parameters)


def _settled(loss: Loss) -> Loss:
    """The loss without its random numbers, as far as it has a parameter for that."""
    for name, value in _SETTLED.items():
        if loss.is_random and hasattr(loss, name):
            loss = _with(loss, **{name: value})
    return loss


def gradients(objective: Objective, scores: Numbers, step: int = 0) -> Results:
    """The gradient and the hessian by their names; arguments as those of `Objective.gradients`."""
    return dict(zip(("gradient", "hessian"), objective.gradients(scores, step), strict=True))


def results(objective: Objective, scores: Numbers, step: int = 0) -> Results:
    """`gradients` and the values.

    >>> results(loss_named("mse").bind([1], [0, 1]), np.zeros(1))
    {'gradient': array([-1.]), 'hessian': array([1.]), 'value': array([0.5])}
    """
    return {**gradients(objective, scores, step), "value": objective.values(scores, step)}


def stopped(error: Exception) -> str:
    """What is said of a loss that an error stops.

    >>> stopped(ValueError("no such thing"))
    'stopped with ValueError: no such thing'
    """
    return f"stopped with {type(error).__name__}: {error}".replace("\n", " ")


def not_finite(found: Results) -> str | None:
    """What is not finite, or the hessian that is below 0, in a few words; None where all is well.

    >>> not_finite({"gradient": np.array([1.0, np.nan]), "hessian": np.ones(2)})
    'a gradient is nan'
    """
    for name, part in found.items():
        if not np.isfinite(part).all():
            return f"a {name} is {part[~np.isfinite(part)][0]}"
    least = found["hessian"].min(initial=0.0)
    return f"a hessian is {least:g}" if least < 0 else None


def _other_bits(found: Results, wanted: Results) -> str | None:
    """Which of the results has other bits than it should."""
    return next((name for name in found if found[name].tobytes() != wanted[name].tobytes()), None)


def _unlike(
    found: Results,
    wanted: Results,
    rtol: float = 0.0,
    atol: float = 0.0,
    expected: str = "the same",
    offsets: NDArray[np.int64] | None = OFFSETS,
) -> str | None:
    """Where the first results that differ differ most, in a sentence; None where none do."""
    for name, part in found.items():
        excess = np.abs(part - wanted[name]) - (atol + rtol * np.abs(wanted[name]))
        excess[np.isnan(excess)] = np.inf
        if not (excess > 0).any():
            continue
        at = int(np.argmax(excess))
        where = f"{name} {at}"
        if offsets is not None:
            query, document = place(offsets, at)
            where = (
                f"the value of query {at}" if name == "value" else f"the {name} of document {document} of query {query}"
            )
        return f"{where} is {part[at]:.6g}; expected {wanted[name][at]:.6g}, {expected}"
    return None
