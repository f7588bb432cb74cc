"""The laws that every loss obeys, checked on lists made for the purpose: ties, extremes, empty queries, threads.

`check_laws` checks a loss, one of your own included, and says for each law whether it holds, or gives a counterexample.
What the papers prove of single losses, on data of yours, is checked by `tautrank.theory`.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tautrank.errors import TautrankError, unknown
from tautrank.losses import parallel
from tautrank.losses.base import REGISTRY, Loss, Objective, place
from tautrank.losses.base import loss as loss_named
from tautrank.losses.stochastic import SmoothedLoss

F64 = NDArray[np.float64]
Numbers = NDArray[np.floating[Any]]

HOLDS, FAILS, DOES_NOT_APPLY = "holds", "fails", "does not apply"

SIZES = np.array([5, 1, 12, 3, 0, 8])
"""Documents of the example's queries: one has a single document, one has none."""

OFFSETS = np.concatenate(([0], np.cumsum(SIZES)))
"""Where the example's queries start, and the number of documents at the end."""

_BARE, _EMPTY = 3, 4  # the queries without a relevant document, and without any
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
    wanted = list(LAWS) if names is None else list(names)
    for name in wanted:
        if name not in LAWS:
            raise unknown("law", name, LAWS)
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
        found = _stopped(error)
    return LawOutcome(subject.name, HOLDS) if found is None else LawOutcome(subject.name, FAILS, found)


def _law(
    name: str, statement: str, silent_on: Callable[[Loss], str | None] = lambda loss: None
) -> Callable[[Callable[[Loss], str | None]], Callable[[Loss], str | None]]:
    """Function decorator: enter a check into `LAWS`."""

    def enter(check: Callable[[Loss], str | None]) -> Callable[[Loss], str | None]:
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
    scores, _ = example()
    try:
        objective = _bound(loss)
        parts = {"gradient": objective.gradients(scores)[0], "hessian": objective.gradients(scores)[1]}
        parts["values"] = objective.values(scores)
    except TautrankError as error:
        return str(error)
    except Exception as error:
        return _stopped(error)
    for name, part in parts.items():
        expected = (SIZES.size,) if name == "values" else scores.shape
        if np.shape(part) != expected:
            return f"its {name} have the shape {np.shape(part)}; expected {expected}"
    return None


@_law(
    "derivative",
    "the gradient is the derivative of the loss, its weights, targets and noise held",
    _no_derivative,
)
def _derivative(loss: Loss) -> str | None:
    scores, _ = example()
    objective = _bound(loss)
    frozen = objective.frozen(scores, step=3)
    grad, _ = objective.gradients(scores, step=3)
    h = 1e-5
    slopes = np.empty_like(scores)
    for document in range(scores.size):
        step = np.zeros_like(scores)
        step[document] = h
        slopes[document] = (frozen.values(scores + step).sum() - frozen.values(scores - step).sum()) / (2 * h)
    return _unlike("gradient", grad, slopes, rtol=1e-6, atol=1e-8, expected="the slope of the loss")


@_law("held", "the loss with what it holds held at some scores is, at those scores, the loss")
def _held(loss: Loss) -> str | None:
    scores, _ = example()
    objective = _bound(loss)
    return _unlike("value", objective.frozen(scores, 2).values(scores), objective.values(scores, 2))


@_law("finite", "gradients, hessians and values are finite, no hessian is below 0, and not all are 0")
def _finite(loss: Loss) -> str | None:
    scores, _ = example()
    objective = _bound(loss)
    grad, hess = objective.gradients(scores)
    if not hess.any():
        return "all hessians are 0: a booster divides by them"
    return _not_finite(grad, hess, objective.values(scores))


@_law("no-relevant", "a query without a relevant document has value 0, gradient 0 and hessian 0")
def _no_relevant(loss: Loss) -> str | None:
    scores, _ = example()
    objective = _bound(loss)
    rows = slice(OFFSETS[_BARE], OFFSETS[_BARE + 1])
    for name, part in zip(("gradient", "hessian"), objective.gradients(scores), strict=True):
        if part[rows].any():
            return f"found a {name} of {part[rows][part[rows] != 0][0]:g} there"
    values = objective.values(scores)
    if values[_BARE] != 0:
        return f"found the value {values[_BARE]:g} there"
    return None if values[_EMPTY] == 0 else f"found the value {values[_EMPTY]:g} for a query without documents"


@_law("independent", "a query is not touched by what the other queries hold")
def _independent(loss: Loss) -> str | None:
    scores, labels = example()
    other_scores, other_labels = example(seed=1)
    rows = slice(OFFSETS[2], OFFSETS[3])
    other_scores[rows], other_labels[rows] = scores[rows], labels[rows]
    mine = _bound(loss)
    theirs = loss.bind(other_labels, OFFSETS, seed=_SEED)
    for name, a, b in zip(("gradient", "hessian"), mine.gradients(scores), theirs.gradients(other_scores), strict=True):
        found = _unlike(name, b[rows], a[rows], expected="as beside other queries", offsets=None)
        if found is not None:
            return f"of the same query: {found}"
    return _unlike("value", theirs.values(other_scores)[2:3], mine.values(scores)[2:3], expected="as beside others")


@_law("order", "the order in which documents are given does not matter, ties included", _places_matter)
def _order(loss: Loss) -> str | None:
    subject = _settled(loss)
    scores, labels = example()
    rng = np.random.default_rng(5)
    order = np.concatenate([start + rng.permutation(stop - start) for start, stop in itertools.pairwise(OFFSETS)])
    plain = subject.bind(labels, OFFSETS)
    moved = subject.bind(labels[order], OFFSETS)
    query = np.repeat(np.arange(SIZES.size), SIZES)

    def sorted_rows(objective: Objective, s: F64, y: F64) -> Numbers:
        g, h = objective.gradients(s)
        # Documents with the same score and label are the same document: their results may change places.
        return np.column_stack((g, h))[np.lexsort((g.round(9), y, s, query))]

    first, second = sorted_rows(plain, scores, labels), sorted_rows(moved, scores[order], labels[order])
    for column, name in enumerate(("gradient", "hessian")):
        found = _unlike(name, second[:, column], first[:, column], 1e-9, 1e-12, expected="as in another order")
        if found is not None:
            return found
    return _unlike("value", moved.values(scores[order]), plain.values(scores), 1e-12, expected="as in another order")


@_law("shift", "adding a constant to the scores of a query changes nothing", _sees_scores)
def _shift(loss: Loss) -> str | None:
    scores, _ = example()
    shift = np.repeat([3.0, -8.0, 0.5, 4.0, 0.0, -2.0], SIZES)
    objective = _bound(loss)
    for name, shifted, plain in zip(
        ("gradient", "hessian", "value"),
        (*objective.gradients(scores + shift, 1), objective.values(scores + shift, 1)),
        (*objective.gradients(scores, 1), objective.values(scores, 1)),
        strict=True,
    ):
        found = _unlike(name, shifted, plain, 1e-9, 1e-12, expected="as without the constant")
        if found is not None:
            return found
    return None


@_law(
    "zero-sum",
    "the gradient adds up to 0 in every query",
    lambda loss: (
        None if loss.gradient_is_derivative and loss.ignores_shifts else "only derivatives that ignore shifts must"
    ),
)
def _zero_sum(loss: Loss) -> str | None:
    grad, _ = _bound(loss).gradients(example()[0])
    for query, (start, stop) in enumerate(itertools.pairwise(OFFSETS)):
        total = float(grad[start:stop].sum())
        if not abs(total) <= 1e-12:
            return f"it adds up to {total:g} in query {query}"
    return None


@_law("threads", "the same bits for any number of threads, in float32 and in float64")
def _threads(loss: Loss) -> str | None:
    for kind in _KINDS:
        scores = example()[0].astype(kind)
        one = _results(_bound(loss, n_jobs=1), scores, 4)
        for threads in (2, 3):
            with _shared_out():
                several = _bound(loss, n_jobs=threads)
            assert len(several._ranges) > 1, "nothing is shared out"
            for name, a, b in zip(("gradient", "hessian", "value"), _results(several, scores, 4), one, strict=True):
                if a.tobytes() != b.tobytes():
                    return f"another {name} on {threads} threads than on one, in {kind}"
    return None


@_law("repeat", "the same bits again, after other calls, and in another process")
def _repeat(loss: Loss) -> str | None:
    scores, _ = example()
    objective = _bound(loss)
    first = _results(objective, scores, 5)
    objective.gradients(scores[::-1].copy(), 6)
    try:
        copy = pickle.loads(pickle.dumps(objective))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return f"it cannot be sent to another process ({error}); expected its class at the top level of a module"
    for how, again in (("after another call", objective), ("after it was pickled", copy)):
        for name, a, b in zip(("gradient", "hessian", "value"), _results(again, scores, 5), first, strict=True):
            if a.tobytes() != b.tobytes():
                return f"another {name} {how}"
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
    scores, _ = example()
    objective = _bound(loss)
    for name, narrow, wide in zip(
        ("gradient", "hessian"),
        objective.gradients(scores.astype(np.float32)),
        objective.gradients(scores),
        strict=True,
    ):
        if [narrow.dtype.name, wide.dtype.name] != ["float32", "float64"]:
            return f"the {name} is {narrow.dtype} for float32 and {wide.dtype} for float64 scores"
        found = _unlike(name, narrow, wide, 2e-5, 2e-6, expected="as in float64")
        if found is not None:
            return f"in float32 {found}"
    return None


@_law("weights", "the weight of a query scales its value, gradient and hessian")
def _weights(loss: Loss) -> str | None:
    scores, labels = example()
    weights = np.array([2.0, 1.0, 0.0, 1.0, 1.0, 0.5])
    plain = _results(_bound(loss), scores, 0)
    weighted = _results(loss.bind(labels, OFFSETS, weights, seed=_SEED), scores, 0)
    each = np.repeat(weights, SIZES)
    for name, found, unit, by in zip(
        ("gradient", "hessian", "value"), weighted, plain, (each, each, weights), strict=True
    ):
        wrong = _unlike(name, found, by * unit, 1e-12, expected="weight times that without weights")
        if wrong is not None:
            return wrong
    return None


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
    grad, hess = objective.gradients(s)
    values = objective.values(s)
    found = _not_finite(grad, hess, values)
    if found is not None:
        return found
    if not labels.any() and (grad.any() or values[0] != 0):
        return f"found the value {values[0]:g} where nothing is relevant"
    if loss.noise is not None and s.dtype == np.float32:
        return None  # next to 1e6 a float32 rounds the noise itself
    # Where the ranges of float32 and float64 end, the mathematics is the same.
    wide_grad, wide_hess = objective.gradients(s.astype(np.float64))
    scale = max(1.0, float(np.abs(wide_grad).max()))
    for name, narrow, wide in (("gradient", grad, wide_grad), ("hessian", hess, wide_hess)):
        found = _unlike(name, narrow, wide, 1e-4, 1e-5 * scale, expected="as in float64", offsets=None)
        if found is not None:
            return found
    return None


@_law("large-labels", "labels of 32, 100 and 1000 are finite, and the document that has one is pushed up")
def _large_labels(loss: Loss) -> str | None:
    scores = np.zeros(3)
    for top in (32, 100, 1000):
        subjects = [loss]
        if isinstance(loss, SmoothedLoss):
            # A shift by such a label takes the document out of reach of the others, and one draw may have any sign.
            subjects.append(_with(loss, mu=0.0, samples=64))
        for subject in subjects:
            objective = subject.bind([0, top, 0], [0, 3])
            grad, hess = objective.gradients(scores)
            found = _not_finite(grad, hess, objective.values(scores))
            if found is not None:
                return f"next to a label of {top} {found}"
        if not grad[1] < 0:
            return f"the gradient of a document with label {top} among others with 0 is {grad[1]:g}; expected below 0"
    return None


@_law("long-list", f"a list of {_LONG:,} documents is finite, is learnt from, and needs no square memory")
def _long_list(loss: Loss) -> str | None:
    _long_gradients(loss, _LONG_TRIAL)  # may compile
    started = time.perf_counter()
    _long_gradients(loss, _LONG_TRIAL)
    seconds = (time.perf_counter() - started) * (_LONG / _LONG_TRIAL) ** 2
    if seconds > _MOST_SECONDS:
        return f"it would take {seconds / 60:.0f} minutes, by what {_LONG_TRIAL:,} documents take"
    grad, hess = _long_gradients(loss, _LONG)
    found = _not_finite(grad, hess, np.zeros(1))
    if found is not None:
        return found
    if not grad.any():
        return "the gradient is 0 everywhere"
    total, size = float(grad.sum(dtype=np.float64)), float(np.abs(grad).sum(dtype=np.float64))
    if loss.gradient_is_derivative and loss.ignores_shifts and not abs(total) < 1e-3 * size:
        return f"the gradient adds up to {total / size:.2g} of its size; expected 0"
    return None


def _long_gradients(loss: Loss, n: int) -> tuple[Numbers, Numbers]:
    rng = np.random.default_rng(0)
    labels = rng.choice(5, n, p=[0.9, 0.05, 0.03, 0.01, 0.01])
    scores = rng.normal(size=n).astype(np.float32)
    return loss.bind(labels, [0, n]).gradients(scores)


@_law(
    "text",
    "what it prints is read back as the same loss",
    lambda loss: None if REGISTRY.get(getattr(loss, "name", "")) is type(loss) else "it is not registered",
)
def _text(loss: Loss) -> str | None:
    back = loss_named(str(loss))
    return None if back == loss and hash(back) == hash(loss) else f"{loss} is read back as {back}"


def _bound(loss: Loss, n_jobs: int | None = None) -> Objective:
    return loss.bind(example()[1], OFFSETS, seed=_SEED, n_jobs=n_jobs)


def _with(loss: Loss, **parameters: Any) -> Loss:
    return dataclasses.replace(loss, **parameters)


def _settled(loss: Loss) -> Loss:
    """The loss without its random numbers, as far as it has a parameter for that."""
    for name, value in _SETTLED.items():
        if loss.is_random and hasattr(loss, name):
            loss = _with(loss, **{name: value})
    return loss


def _results(objective: Objective, scores: Numbers, step: int) -> tuple[Numbers, Numbers, F64]:
    return *objective.gradients(scores, step), objective.values(scores, step)


@contextmanager
def _shared_out() -> Iterator[None]:
    """Share out even small lists; whoever else binds a loss just now gets the same bits, a little later."""
    before = parallel._SMALLEST_SHARE
    parallel._SMALLEST_SHARE = 1
    try:
        yield
    finally:
        parallel._SMALLEST_SHARE = before


def _stopped(error: Exception) -> str:
    return f"stopped with {type(error).__name__}: {error}".replace("\n", " ")


def _not_finite(grad: Numbers, hess: Numbers, values: F64) -> str | None:
    for name, part in (("gradient", grad), ("hessian", hess), ("value", values)):
        if not np.isfinite(part).all():
            return f"a {name} is {part[~np.isfinite(part)][0]}"
    return f"a hessian is {hess.min():g}" if hess.size and hess.min() < 0 else None


def _unlike(
    name: str,
    found: Numbers,
    wanted: Numbers,
    rtol: float = 0.0,
    atol: float = 0.0,
    expected: str = "the same",
    offsets: NDArray[np.int64] | None = OFFSETS,
) -> str | None:
    """Where two arrays differ most, in a sentence; None where they do not."""
    excess = np.abs(found - wanted) - (atol + rtol * np.abs(wanted))
    excess[np.isnan(excess)] = np.inf
    if not (excess > 0).any():
        return None
    at = int(np.argmax(excess))
    where = f"{name} {at}"
    if name == "value":
        where = f"the value of query {at}"
    elif offsets is not None:
        query, document = place(offsets, at)
        where = f"the {name} of document {document} of query {query}"
    return f"{where} is {found[at]:.6g}; expected {wanted[at]:.6g}, {expected}"
