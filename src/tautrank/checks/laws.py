"""The laws that every loss obeys: derivatives, ties, extremes, threads, random numbers.

Most are checked on small synthetic lists, where a violation makes a readable counterexample; those
that any lists can show to be broken are also checked on the user's data.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tautrank.arrays import F64, Bools, Floats, query_and_document
from tautrank.checks.checking import law
from tautrank.checks.conditions import labels_end_before
from tautrank.checks.samples import some_lists, synthetic_lists
from tautrank.kernels.threads import small_shares
from tautrank.losses.base import REGISTRY, Loss, Objective, TrainingLists
from tautrank.losses.stochastic import SmoothedLoss
from tautrank.metrics.ordering import query_sums
from tautrank.theory.lipschitz import WIDTH, differences, slopes_at_kinks

Results = dict[str, Floats]
"""A loss's ``gradient``, ``hessian`` and ``value``, or some of them."""

_SEED = 7
_KINDS: tuple[np.dtype[np.floating[Any]], ...] = (np.dtype(np.float32), np.dtype(np.float64))
# Longer lists are differentiated at this many places, spread evenly.
_MOST_PLACES = 40
# Of the steps with which differences are taken next to large values.
_WIDE = 1e-4
_NARROW = 1e-8
_LONG = 50_000
# A list of this many documents shows how long one of `_LONG` takes, if every two documents are
# compared.
_LONG_TRIAL = 2_000
_MOST_SECONDS = 600.0
# Parameters that take the random numbers out of a loss of this library, one after the other until
# none are left.
_SETTLED: dict[str, Any] = {
    "noise": None,
    "assignment": "hard",
    "extend": "all",
    "gamma": 0.5,
    "estimator": "exact",
    "spread": 0.0,
}

_EXTREMES: dict[str, tuple[list[float], list[float]]] = {
    "scores 1e6 apart": ([1e6, 0.0, -1e6, 5e5, 2e6], [0, 1, 2, 0, 3]),
    "scores 1e6 apart, upside down": ([-1e6, 0.0, 1e6, -5e5, 2e6], [0, 1, 2, 0, 3]),
    "two groups of scores 1e6 apart": ([1e6, 1e6, 0.0, 0.0, 0.0], [1, 0, 4, 0, 3]),
    "equal scores": ([0.0, 0.0, 0.0, 0.0], [3, 0, 1, 1]),
    "equal labels": ([0.5, -1.0, 2.0], [2, 2, 2]),
    "scores some hundreds apart": (
        [300.0, -250.0, 100.0, 41.0, 39.0, -41.0, 0.0],
        [0, 1, 2, 3, 4, 1, 0],
    ),
    "a single document": ([3.0], [4]),
    "a single document that is not relevant": ([3.0], [0]),
}


# Conditions


def _no_derivative(loss: Loss, *_: Any) -> str | None:
    return None if loss.gradient_is_derivative else "its gradient is not meant to be a derivative"


def _sees_scores(loss: Loss, *_: Any) -> str | None:
    return None if loss.ignores_shifts else "it is meant to depend on the scores themselves"


def _places_matter(loss: Loss, *_: Any) -> str | None:
    if getattr(loss, "extend", None) == "static":
        return "it chooses among ties by their places"
    return "its random numbers belong to places" if _settled(loss).is_random else None


def _not_registered(loss: Loss, *_: Any) -> str | None:
    return None if REGISTRY.get(getattr(loss, "name", "")) is type(loss) else "it is not registered"


def _no_zero_sum(loss: Loss, *_: Any) -> str | None:
    if loss.gradient_is_derivative and loss.ignores_shifts:
        return None
    return "it is about derivatives of losses that ignore shifts"


# Laws


@law("runs")
def _runs(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """the loss returns a gradient, a hessian and a value for ordinary lists"""
    for name, part in results(_bound(loss, lists), scores).items():
        expected = lists.sizes.shape if name == "value" else scores.shape
        if np.shape(part) != expected:
            yield f"its {name} has the shape {np.shape(part)}; expected {expected}"


@law("derivative", unless=_no_derivative, on="both", sample=some_lists)
def _derivative(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """the gradient is the derivative of the loss, with its weights, targets and noise held fixed"""
    step, longest = 3, lists.longest
    places = sorted(
        set(np.linspace(0, longest - 1, min(longest, _MOST_PLACES)).astype(int).tolist())
    )
    tried = np.isin(np.arange(scores.size) - lists.offsets[lists.query], places)
    objective = _bound(loss, lists)
    function = objective.frozen(scores, step).values
    grad = objective.gradients(scores, step)[0]

    def slopes_within(width: float) -> F64:
        return differences(function, scores, lists.offsets, (-width, width), places)

    def too_far(slopes: F64, rounding: F64 | float = 0.0) -> Bools:
        return ~(np.abs(grad - slopes) <= np.maximum(1e-8, rounding) + 1e-6 * np.abs(slopes))

    def rounding(width: float) -> F64:
        return 10.0 * np.finfo(np.float64).eps / width * np.abs(function(scores))[lists.query]

    slopes = slopes_within(WIDTH)
    wrong = tried & too_far(slopes)
    if wrong.any():
        # Next to a large value the difference of a narrow step is rounding; of two wide ones,
        # curvature cancels.
        slopes = (4.0 * slopes_within(_WIDE) - slopes_within(2.0 * _WIDE)) / 3.0
        wrong &= too_far(slopes, rounding(_WIDE))
    if wrong.any():
        low, high = slopes_at_kinks(function, scores, lists.offsets, places)
        allowed = 1e-8 + 1e-6 * np.abs(slopes) + rounding(_WIDE)
        wrong &= ~((grad >= low - allowed) & (grad <= high + allowed))
    if wrong.any():
        # A kink may also be within the step: then a far narrower one shows another slope.
        narrow, error = slopes_within(_NARROW), rounding(_NARROW)
        wrong &= too_far(narrow, error) | ~(np.abs(narrow - slopes_within(WIDTH)) > 100.0 * error)
    if wrong.any():
        at = int(np.argmax(np.where(wrong, np.abs(grad - slopes), -np.inf)))
        yield f"{_where('gradient', at, lists)} is {grad[at]:.6g}; expected {slopes[at]:.6g}, the slope of the loss"


@law("frozen")
def _frozen(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """with its weights, targets and noise held fixed at some scores, the loss has its own value
    there
    """
    objective = _bound(loss, lists)
    held: Results = {"value": objective.frozen(scores, 2).values(scores)}
    yield from _unlike(held, {"value": objective.values(scores, 2)}, lists)


@law("finite", on="both")
def _finite(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """gradients, hessians and values are finite, no hessian is below 0, also at scores a million
    times as large
    """
    objective = _bound(loss, lists)
    yield from not_finite(results(objective, scores))
    for found in not_finite(results(objective, 1e6 * scores)):
        yield f"{found} at scores a million times as large"


@law("curved")
def _curved(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """some hessian is above 0, since boosters divide by their sum"""
    if not _bound(loss, lists).gradients(scores)[1].any():
        yield "all hessians are 0"


@law("no-relevant", on="both")
def _no_relevant(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """a query without a relevant document has value 0, gradient 0 and hessian 0"""
    query = lists.query
    some_bare = TrainingLists.of(np.where(query % 2 == 0, 0.0, lists.labels), lists.offsets)
    bare = ~some_bare.has_relevant
    for name, part in results(_bound(loss, some_bare), scores).items():
        there = part[bare if name == "value" else bare[query]]
        if there.any():
            yield f"found a {name} of {there[there != 0][0]:g} there"


@law("independent")
def _independent(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """a query does not depend on the other queries"""
    other_scores, other_lists = synthetic_lists(seed=1)
    rows = slice(*lists.offsets[2:4])
    labels = other_lists.labels.copy()
    other_scores[rows], labels[rows] = scores[rows], lists.labels[rows]

    def beside(s: F64, y: F64) -> Results:
        found = results(loss.bind(y, lists.offsets, seed=_SEED), s)
        return {name: part[2:3] if name == "value" else part[rows] for name, part in found.items()}

    alone = TrainingLists.of(lists.labels[rows], [0, lists.sizes[2]])
    beside_others, plain = beside(other_scores, labels), beside(scores, lists.labels)
    for found in _unlike(beside_others, plain, alone, expected="as beside other lists"):
        yield f"of the same list, {found}"


@law("order", unless=_places_matter, on="both")
def _order(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """the order in which documents are given does not matter, ties included"""
    subject, query = _settled(loss), lists.query
    order = np.lexsort((np.random.default_rng(5).random(scores.size), query))

    def sorted_results(s: F64, y: F64) -> Results:
        # Documents with the same score and label are interchangeable: their results are compared as
        # sets.
        found = results(subject.bind(y, lists.offsets), s)
        return {
            name: p if name == "value" else p[np.lexsort((p, y, s, query))]
            for name, p in found.items()
        }

    moved, plain = (
        sorted_results(scores[order], lists.labels[order]),
        sorted_results(scores, lists.labels),
    )
    yield from _unlike(
        moved, plain, lists, 1e-9, 1e-12 * _size(plain), expected="as in another order"
    )


@law("shift", unless=_sees_scores, on="both")
def _shift(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """adding a constant to the scores of a query changes nothing"""
    # Of such scores and shifts a float64 holds the exact sum.
    exact = np.round(scores * 2.0**20) / 2.0**20
    shift = np.where(lists.query % 2 == 0, 4.0, -2.0)
    objective = _bound(loss, lists)
    moved, plain = results(objective, exact + shift, 1), results(objective, exact, 1)
    yield from _unlike(
        moved, plain, lists, 1e-9, 1e-12 * _size(plain), expected="as without the constant"
    )


@law("zero-sum", unless=_no_zero_sum, on="both")
def _zero_sum(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """the gradient adds up to 0 in every query"""
    grad = _bound(loss, lists).gradients(scores)[0]
    totals = query_sums(grad, lists.offsets)
    wrong = np.flatnonzero(
        ~(np.abs(totals) <= 1e-12 * (1.0 + query_sums(np.abs(grad), lists.offsets)))
    )
    for query in wrong:
        yield f"it adds up to {totals[query]:g} in query {query}"


@law("threads")
def _threads(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """the results have the same bits for any number of threads, in float32 and in float64"""
    for kind, threads in itertools.product(_KINDS, (2, 3)):
        s = scores.astype(kind)
        with small_shares():
            several = _bound(loss, lists, n_jobs=threads)
        assert len(several._ranges) > 1, "nothing is shared out"
        for other in _other_bits(
            results(several, s, 4), results(_bound(loss, lists, n_jobs=1), s, 4)
        ):
            yield f"another {other} on {threads} threads than on one, in {kind}"


@law("repeat")
def _repeat(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """the results have the same bits again, after other calls and in another process"""
    objective = _bound(loss, lists)
    first = results(objective, scores, 5)
    objective.gradients(scores[::-1].copy(), 6)
    try:
        copy = pickle.loads(pickle.dumps(objective))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        yield f"it cannot be sent to another process ({error}); expected its class at the top level of a module"
        return
    for how, again in (("after another call", objective), ("after it was pickled", copy)):
        for other in _other_bits(results(again, scores, 5), first):
            yield f"another {other} {how}"


@law("seed")
def _seed_and_step(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """step and seed matter if the loss says that it is random, and only then"""
    # The rankings of a soft assignment differ from the hard one only where scores are near each
    # other, and documents are missed only in lists longer than the cutoff.
    more = {"spread": 1.0} if hasattr(loss, "spread") else {}
    more |= (
        {"k": 2} if getattr(loss, "extend", None) == "random" and getattr(loss, "k", None) else {}
    )
    subject = dataclasses.replace(loss, **more)  # type: ignore[arg-type]

    def gradient(seed: int, step: int) -> Floats:
        return subject.bind(lists.labels, lists.offsets, seed=seed).gradients(scores, step)[0]

    first = gradient(7, 0)
    for what, other in (("step", gradient(7, 1)), ("seed", gradient(8, 0))):
        changed = first.tobytes() != other.tobytes()
        if changed != subject.is_random:
            says = "random" if subject.is_random else "not random"
            another = "another" if changed else "the same"
            yield f"it says that it is {says}, and another {what} gives {another} gradient"


@law("float32")
def _float32(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """float32 scores give float32 results near the float64 ones"""
    objective = _bound(loss, lists)
    narrow, wide = _gradients(objective, scores.astype(np.float32)), _gradients(objective, scores)
    for name in narrow:
        if [narrow[name].dtype.name, wide[name].dtype.name] != ["float32", "float64"]:
            yield f"the {name} is {narrow[name].dtype} for float32 and {wide[name].dtype} for float64 scores"
    for found in _unlike(narrow, wide, lists, 2e-5, 2e-6, expected="as in float64"):
        yield f"in float32 {found}"


@law("weights")
def _weights(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """the weight of a query scales its value, gradient and hessian"""
    weights = np.array([2.0, 1.0, 0.0, 1.0, 1.0, 0.5])
    weighted = results(loss.bind(lists.labels, lists.offsets, weights, seed=_SEED), scores)
    wanted = {
        name: (weights if name == "value" else weights[lists.query]) * part
        for name, part in results(_bound(loss, lists), scores).items()
    }
    yield from _unlike(
        weighted, wanted, lists, 1e-12, expected="weight times the result without weights"
    )


@law("extremes")
def _extremes(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """results are finite, in float32 as in float64: scores 1e6 apart, ties, single documents"""
    for (what, (extreme, labels)), kind in itertools.product(_EXTREMES.items(), _KINDS):
        for found in _extreme(
            loss, np.array(extreme, dtype=kind), TrainingLists.of(labels, [0, len(labels)])
        ):
            yield f"{what}, {kind}: {found}"


def _extreme(loss: Loss, s: Floats, lists: TrainingLists) -> Iterator[str]:
    objective = loss.bind(lists.labels, lists.offsets)
    parts = results(objective, s)
    yield from not_finite(parts)
    value = parts.pop("value")[0]
    if not lists.labels.any() and (parts["gradient"].any() or value != 0):
        yield f"found the value {value:g} where nothing is relevant"
    if loss.noise is not None and s.dtype == np.float32:
        return  # next to 1e6 a float32 rounds the noise itself
    # Where the ranges of float32 and float64 end, the mathematics is the same.
    wide = _gradients(objective, s.astype(np.float64))
    scale = max(1.0, float(np.abs(wide["gradient"]).max()))
    yield from _unlike(parts, wide, lists, 1e-4, 1e-5 * scale, expected="as in float64")


@law("large-labels", unless=lambda loss, *_: labels_end_before(loss, 1000.0))
def _large_labels(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """labels of 32, 100 and 1000 give finite results, and the document that has one is pushed up"""
    for top in (32, 100, 1000):
        subjects = [loss]
        if isinstance(loss, SmoothedLoss):
            # A shift by such a label takes the document out of reach of the others, and one draw
            # may have any sign.
            subjects.append(dataclasses.replace(loss, mu=0.0, samples=64))
        for subject in subjects:
            parts = results(subject.bind([0, top, 0], [0, 3]), np.zeros(3))
            for found in not_finite(parts):
                yield f"next to a label of {top} {found}"
        slope = parts["gradient"][1]
        if not slope < 0:
            yield f"the gradient of a document with label {top} among others with 0 is {slope:g}; expected below 0"


@law("long-list", f"a list of {_LONG:,} documents gives finite results and needs no square memory")
def _long_list(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    def gradients_of(n: int) -> Results:
        rng = np.random.default_rng(0)
        labels = rng.choice(5, n, p=[0.9, 0.05, 0.03, 0.01, 0.01])
        return _gradients(loss.bind(labels, [0, n]), rng.normal(size=n).astype(np.float32))

    gradients_of(_LONG_TRIAL)  # may compile
    started = time.perf_counter()
    gradients_of(_LONG_TRIAL)
    seconds = (time.perf_counter() - started) * (_LONG / _LONG_TRIAL) ** 2
    if seconds > _MOST_SECONDS:
        yield f"it would take {seconds / 60:.0f} minutes, judging by {_LONG_TRIAL:,} documents"
    parts = gradients_of(_LONG)
    yield from not_finite(parts)
    grad = parts["gradient"]
    if not grad.any():
        yield "the gradient is 0 everywhere"
    total, size = float(grad.sum(dtype=np.float64)), float(np.abs(grad).sum(dtype=np.float64))
    if _no_zero_sum(loss, scores, lists) is None and not abs(total) < 1e-3 * size:
        yield f"the gradient adds up to {total / size:.2g} of its size; expected 0"


@law("text", unless=_not_registered)
def _text(loss: Loss, scores: F64, lists: TrainingLists) -> Iterator[str]:
    """what the loss prints is read back as the same loss"""
    back = REGISTRY.make(str(loss))
    if back != loss or hash(back) != hash(loss):
        yield f"{loss} is read back as {back}"


def _bound(loss: Loss, lists: TrainingLists, n_jobs: int | None = None) -> Objective:
    return loss.bind(lists.labels, lists.offsets, seed=_SEED, n_jobs=n_jobs)


def _settled(loss: Loss) -> Loss:
    """Return the loss without its random numbers, as far as it has a parameter for that."""
    for name, value in _SETTLED.items():
        if loss.is_random and hasattr(loss, name):
            loss = dataclasses.replace(loss, **{name: value})
    return loss


def _gradients(objective: Objective, scores: Floats, step: int = 0) -> Results:
    return dict(zip(("gradient", "hessian"), objective.gradients(scores, step), strict=True))


def results(objective: Objective, scores: Floats, step: int = 0) -> Results:
    """Return gradient, hessian and values by their names.

    >>> results(REGISTRY.make("mse").bind([1], [0, 1]), np.zeros(1))
    {'gradient': array([-1.]), 'hessian': array([1.]), 'value': array([0.5])}
    """
    return {**_gradients(objective, scores, step), "value": objective.values(scores, step)}


def not_finite(found: Results) -> Iterator[str]:
    """Yield which results are not finite, and whether a hessian is below 0.

    >>> list(not_finite({"gradient": np.array([1.0, np.nan]), "hessian": np.ones(2)}))
    ['a gradient is nan']
    """
    for name, part in found.items():
        if not np.isfinite(part).all():
            yield f"a {name} is {part[~np.isfinite(part)][0]}"
    least = found["hessian"].min(initial=0.0)
    if least < 0:
        yield f"a hessian is {least:g}"


def _other_bits(found: Results, wanted: Results) -> Iterator[str]:
    """Yield which of the results have other bits than they should."""
    return (name for name in found if found[name].tobytes() != wanted[name].tobytes())


def _size(found: Results) -> float:
    """Return the largest number, or 1: sums are rounded in units of their largest terms."""
    return max(1.0, *(float(np.abs(part).max(initial=0.0)) for part in found.values()))


def _where(name: str, at: int, lists: TrainingLists) -> str:
    if name == "value":
        return f"the value of query {at}"
    query, document = query_and_document(lists.offsets, at)
    return f"the {name} of document {document} of query {query}"


def _unlike(
    found: Results,
    wanted: Results,
    lists: TrainingLists,
    rtol: float = 0.0,
    atol: float = 0.0,
    expected: str = "the same",
) -> Iterator[str]:
    """Yield where results differ most."""
    for name, part in found.items():
        with np.errstate(invalid="ignore"):
            excess = np.abs(part - wanted[name]) - (atol + rtol * np.abs(wanted[name]))
        excess[np.isnan(excess) & (part != wanted[name])] = np.inf
        if (excess > 0).any():
            at = int(np.argmax(excess))
            yield f"{_where(name, at, lists)} is {part[at]:.6g}; expected {wanted[name][at]:.6g}, {expected}"
