"""The laws that every loss obeys: derivatives, ties, extremes, threads, random numbers.

Most are checked on small synthetic lists, where a violation makes a readable counterexample; those
that any lists can show to be broken are also checked on the user's data.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import F64, Bools, Floats, query_and_document
from tautrank.checks.checking import law
from tautrank.checks.conditions import labels_end_before
from tautrank.checks.samples import some_lists, synthetic_lists
from tautrank.data import Lists
from tautrank.kernels.threads import small_shares
from tautrank.losses.base import REGISTRY, Loss, Objective
from tautrank.losses.stochastic import SmoothedLoss
from tautrank.metrics.ordering import query_sums
from tautrank.theory.lipschitz import WIDTH, differences, slopes_at_kinks
from tautrank.theory.theorem import float_labels, has_relevant

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
_WITHOUT_CHANCE: dict[str, Any] = {
    "noise": None,
    "assignment": "hard",
    "extend": "all",
    "gamma": 0.5,
    "estimator": "exact",
    "spread": 0.0,
}


class _Extreme(NamedTuple):
    """A list at which a loss may overflow."""

    scores: list[float]
    labels: list[float]


_EXTREMES = {
    "scores 1e6 apart": _Extreme([1e6, 0.0, -1e6, 5e5, 2e6], [0, 1, 2, 0, 3]),
    "scores 1e6 apart, upside down": _Extreme([-1e6, 0.0, 1e6, -5e5, 2e6], [0, 1, 2, 0, 3]),
    "two groups of scores 1e6 apart": _Extreme([1e6, 1e6, 0.0, 0.0, 0.0], [1, 0, 4, 0, 3]),
    "equal scores": _Extreme([0.0, 0.0, 0.0, 0.0], [3, 0, 1, 1]),
    "equal labels": _Extreme([0.5, -1.0, 2.0], [2, 2, 2]),
    "scores some hundreds apart": _Extreme(
        [300.0, -250.0, 100.0, 41.0, 39.0, -41.0, 0.0], [0, 1, 2, 3, 4, 1, 0]
    ),
    "a single document": _Extreme([3.0], [4]),
    "a single document that is not relevant": _Extreme([3.0], [0]),
}


# Conditions


def _no_derivative(loss: Loss, scores: F64, lists: Lists) -> str | None:
    return None if loss.gradient_is_derivative else "its gradient is not meant to be a derivative"


def _sees_scores(loss: Loss, scores: F64, lists: Lists) -> str | None:
    return None if loss.ignores_shifts else "it is meant to depend on the scores themselves"


def _places_matter(loss: Loss, scores: F64, lists: Lists) -> str | None:
    if getattr(loss, "extend", None) == "static":
        return "it chooses among ties by their places"
    if _without_chance(loss).is_random:
        return "its random numbers belong to places"
    return None


def _not_registered(loss: Loss, scores: F64, lists: Lists) -> str | None:
    is_registered = REGISTRY.get(getattr(loss, "name", "")) is type(loss)
    return None if is_registered else "it is not registered"


def _no_zero_sum(loss: Loss, scores: F64, lists: Lists) -> str | None:
    if loss.gradient_is_derivative and loss.ignores_shifts:
        return None
    return "it is about derivatives of losses that ignore shifts"


def _no_large_labels(loss: Loss, scores: F64, lists: Lists) -> str | None:
    return labels_end_before(loss, 1000.0)


# Laws


@law("runs")
def _runs(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """the loss returns a gradient, a hessian and a value for ordinary lists"""
    # `results` gives gradient, hessian and value by name: values are one per query, the others one
    # per document.
    for name, values in results(_bind(loss, lists), scores).items():
        expected = lists.sizes.shape if name == "value" else scores.shape
        if np.shape(values) != expected:
            yield f"its {name} has the shape {np.shape(values)}; expected {expected}"


@law("derivative", unless=_no_derivative, on="both", sample=some_lists)
def _derivative(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """the gradient is the derivative of the loss, with its weights, targets and noise held fixed"""
    step = 3
    objective = _bind(loss, lists)
    gradient = objective.gradients(scores, step)[0]
    function = objective.frozen(scores, step).values
    finite_differences = _Slopes(function, scores, lists, _choose_places(lists))
    slopes = finite_differences.by_differences(WIDTH)
    is_wrong = finite_differences.are_taken() & _differ(gradient, slopes)
    if is_wrong.any():
        # Next to a large value the difference of a narrow step is rounding.
        slopes = finite_differences.by_wide_differences()
        is_wrong &= _differ(gradient, slopes, finite_differences.rounding(_WIDE))
    if is_wrong.any():
        # At a kink every number between the two one-sided slopes is a derivative.
        low, high = finite_differences.at_kinks()
        tolerance = 1e-8 + 1e-6 * np.abs(slopes)
        tolerance += finite_differences.rounding(_WIDE)
        is_above = gradient >= low - tolerance
        is_below = gradient <= high + tolerance
        is_wrong &= ~(is_above & is_below)
    if is_wrong.any():
        # A kink may also be within the step: then a far narrower one shows another slope.
        narrow_slopes = finite_differences.by_differences(_NARROW)
        rounding = finite_differences.rounding(_NARROW)
        change = np.abs(narrow_slopes - finite_differences.by_differences(WIDTH))
        has_kink = change > 100.0 * rounding
        is_wrong &= _differ(gradient, narrow_slopes, rounding) | ~has_kink
    if is_wrong.any():
        worst = int(np.argmax(np.where(is_wrong, np.abs(gradient - slopes), -np.inf)))
        title = _name_entry("gradient", worst, lists)
        expected = f"{slopes[worst]:.6g}, the slope of the loss"
        yield f"{title} is {gradient[worst]:.6g}; expected {expected}"


def _choose_places(lists: Lists) -> list[int]:
    """Return the positions inside a list at which a loss is differentiated, counted from 0: all of
    them in short lists, otherwise some that are evenly spaced.
    """
    # Many positions would take too long; as whole numbers some may coincide, hence the set.
    n_places = min(lists.longest, _MOST_PLACES)
    places = np.linspace(0, lists.longest - 1, n_places).astype(int)
    return sorted(set(places.tolist()))


def _differ(gradient: Floats, slopes: F64, rounding: F64 | float = 0.0) -> Bools:
    """Return, for each document, whether its gradient differs from the slope that was measured by
    more than finite differences are exact.

    Args:
        gradient: what the loss returned.
        slopes: what was measured.
        rounding: error of the slopes by rounding.
    """
    tolerance = np.maximum(1e-8, rounding) + 1e-6 * np.abs(slopes)
    # Not `>`: a NaN is never within the tolerance, so it differs from everything.
    return ~(np.abs(gradient - slopes) <= tolerance)


class _Slopes(NamedTuple):
    """The slopes of a function at some scores, by finite differences.

    Attributes:
        function: from scores to one value per query.
        scores: where to differentiate.
        lists: the lists.
        places: the places of each list at which to differentiate.
    """

    function: Callable[[F64], F64]
    scores: F64
    lists: Lists
    places: list[int]

    def are_taken(self) -> Bools:
        """Return whether a slope is taken at each document."""
        first = self.lists.offsets[self.lists.query]
        place_in_list = np.arange(self.scores.size) - first
        return np.isin(place_in_list, self.places)

    def by_differences(self, width: float) -> F64:
        """Return the slopes between scores that are moved by a width to either side."""
        between = (-width, width)
        return differences(self.function, self.scores, self.lists.offsets, between, self.places)

    def by_wide_differences(self) -> F64:
        """Return the slopes from two wide steps, by which curvature cancels."""
        wide = self.by_differences(_WIDE)
        wider = self.by_differences(2.0 * _WIDE)
        return (4.0 * wide - wider) / 3.0

    def at_kinks(self) -> tuple[F64, F64]:
        """Return the smaller and the larger slope on either side of a kink."""
        return slopes_at_kinks(self.function, self.scores, self.lists.offsets, self.places)

    def rounding(self, width: float) -> F64:
        """Return, for each document, the error that rounding leaves in a slope that was measured by
        moving its score by a width: the last digits of the query's value, divided by the width.
        """
        # The function of the scores has one value per query.
        values = np.abs(self.function(self.scores))
        relative_error = 10.0 * np.finfo(np.float64).eps / width
        return relative_error * values[self.lists.query]


@law("frozen")
def _frozen(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """with its weights, targets and noise held fixed at some scores, the loss has its own value
    there
    """
    # The step is 2 on both sides: the same random numbers. `frozen` holds weights, targets and noise
    # of the scores fixed.
    objective = _bind(loss, lists)
    held: Results = {"value": objective.frozen(scores, 2).values(scores)}
    yield from _describe_differences(held, {"value": objective.values(scores, 2)}, lists)


@law("finite", on="both")
def _finite(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """gradients, hessians and values are finite, no hessian is below 0, also at scores a million
    times as large
    """
    # `not_finite` yields a sentence for each of gradient, hessian and value that is wrong.
    objective = _bind(loss, lists)
    yield from not_finite(results(objective, scores))
    for sentence in not_finite(results(objective, 1e6 * scores)):
        yield f"{sentence} at scores a million times as large"


@law("curved")
def _curved(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """some hessian is above 0, since boosters divide by their sum"""
    if not _bind(loss, lists).gradients(scores)[1].any():
        yield "all hessians are 0"


@law("no-relevant", on="both")
def _no_relevant(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """a query without a relevant document has value 0, gradient 0 and hessian 0"""
    # Every query with an even number loses its labels.
    labels = np.where(lists.query % 2 == 0, 0.0, lists.labels)
    changed_lists = Lists.of(labels, lists.offsets)
    is_irrelevant_query = ~has_relevant(changed_lists)
    is_in_irrelevant_query = is_irrelevant_query[lists.query]
    for name, values in results(_bind(loss, changed_lists), scores).items():
        # Values are one per query, gradients and hessians one per document.
        is_looked_at = is_irrelevant_query if name == "value" else is_in_irrelevant_query
        should_be_0 = values[is_looked_at]
        if should_be_0.any():
            first_wrong = should_be_0[should_be_0 != 0][0]
            yield f"found a {name} of {first_wrong:g} there"


@law("independent")
def _independent(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """a query does not depend on the other queries"""
    # The third list (offsets 2 to 3) is put among lists with different scores and labels; the
    # synthetic lists have the same sizes for every seed.
    documents = slice(lists.offsets[2], lists.offsets[3])
    other_scores, other_lists = synthetic_lists(seed=1)
    other_labels = float_labels(other_lists).copy()
    other_scores[documents] = scores[documents]
    other_labels[documents] = lists.labels[documents]

    def results_of_third_list(scores: F64, labels: Floats) -> Results:
        """Take scores and labels of all lists, and return the loss's gradient, hessian and value of
        the third list alone.
        """
        objective = _bind(loss, Lists.of(labels, lists.offsets))
        of_all_lists = results(objective, scores)
        return {
            "gradient": of_all_lists["gradient"][documents],
            "hessian": of_all_lists["hessian"][documents],
            "value": of_all_lists["value"][2:3],  # of the third query, as an array
        }

    beside_others = results_of_third_list(other_scores, other_labels)
    plain = results_of_third_list(scores, float_labels(lists))
    third_list = Lists.of(lists.labels[documents])
    expected = "as beside other lists"
    for sentence in _describe_differences(beside_others, plain, third_list, expected=expected):
        yield f"of the same list, {sentence}"


@law("order", unless=_places_matter, on="both")
def _order(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """the order in which documents are given does not matter, ties included"""
    # Random numbers belong to places, so the loss is taken without them, and documents are shuffled
    # inside their queries.
    subject = _without_chance(loss)
    by_chance = np.random.default_rng(5).random(scores.size)
    order = np.lexsort((by_chance, lists.query))
    plain = _sorted_results(subject, scores, lists)
    # Sorted, the results should be the same up to rounding.
    moved_lists = Lists.of(lists.labels[order], lists.offsets)
    moved = _sorted_results(subject, scores[order], moved_lists)
    atol = 1e-12 * _size(plain)
    yield from _describe_differences(
        moved, plain, lists, rtol=1e-9, atol=atol, expected="as in another order"
    )


def _sorted_results(loss: Loss, scores: F64, lists: Lists) -> Results:
    """Return gradient and hessian of the documents of each query sorted by score and label, so
    that they do not depend on the order in which documents are given; and the value of each query.

    Documents with the same score and label are interchangeable: theirs are sorted by the number
    itself.
    """
    sorted_results = results(loss.bind(lists), scores)
    for name in ("gradient", "hessian"):
        numbers = sorted_results[name]
        order = np.lexsort((numbers, lists.labels, scores, lists.query))
        sorted_results[name] = numbers[order]
    return sorted_results


@law("shift", unless=_sees_scores, on="both")
def _shift(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """adding a constant to the scores of a query changes nothing"""
    # Scores are rounded to multiples of 2^-20: a float64 then holds the sum with a shift exactly.
    rounded_scores = np.round(scores * 2.0**20) / 2.0**20
    # One constant for the queries with an even number, another one for the rest.
    shift = np.where(lists.query % 2 == 0, 4.0, -2.0)
    objective = _bind(loss, lists)
    # Both at step 1: a random loss draws the same numbers.
    moved = results(objective, rounded_scores + shift, 1)
    plain = results(objective, rounded_scores, 1)
    atol = 1e-12 * _size(plain)
    expected = "as without the constant"
    yield from _describe_differences(moved, plain, lists, rtol=1e-9, atol=atol, expected=expected)


@law("zero-sum", unless=_no_zero_sum, on="both")
def _zero_sum(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """the gradient adds up to 0 in every query"""
    gradient = _bind(loss, lists).gradients(scores)[0]
    sums = query_sums(gradient, lists.offsets)
    # Sums are rounded in units of the sizes of their terms.
    sums_of_sizes = query_sums(np.abs(gradient), lists.offsets)
    is_zero = np.abs(sums) <= 1e-12 * (1.0 + sums_of_sizes)
    for query in np.flatnonzero(~is_zero):
        yield f"it adds up to {sums[query]:g} in query {query}"


@law("threads")
def _threads(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """the results have the same bits for any number of threads, in float32 and in float64"""
    for kind, n_threads in itertools.product(_KINDS, (2, 3)):
        # Small lists would all go to one thread: small_shares lets several threads share them.
        with small_shares():
            several = _bind(loss, lists, n_jobs=n_threads)
        assert len(several._ranges) > 1, "nothing is shared out"
        one = _bind(loss, lists, n_jobs=1)
        # Both at step 4: a random loss draws the same numbers.
        of_several = results(several, scores.astype(kind), 4)
        of_one = results(one, scores.astype(kind), 4)
        for name in _with_different_bits(of_several, of_one):
            yield f"another {name} on {n_threads} threads than on one, in {kind}"


@law("repeat")
def _repeat(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """the results have the same bits again, after other calls and in another process"""
    # `results` gives gradient, hessian and value at a training step, which seeds random numbers.
    objective = _bind(loss, lists)
    step = 5
    first = results(objective, scores, step)
    # A call with other scores and another step in between must leave no trace.
    reversed_scores = scores[::-1].copy()
    objective.gradients(reversed_scores, step + 1)
    for name in _with_different_bits(results(objective, scores, step), first):
        yield f"another {name} after another call"
    # Another process gets a pickled copy.
    try:
        copy = pickle.loads(pickle.dumps(objective))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        yield (
            f"it cannot be sent to another process ({error}); expected its class at the top level"
            " of a module"
        )
        return
    for name in _with_different_bits(results(copy, scores, step), first):
        yield f"another {name} after it was pickled"


@law("seed")
def _seed_and_step(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """step and seed matter if the loss says that it is random, and only then"""
    # With options by which its random numbers, if it has any, show on these small lists.
    subject = _with_visible_chance(loss)

    def gradient(seed: int, step: int) -> Floats:
        return subject.bind(lists, seed=seed).gradients(scores, step)[0]

    first = gradient(7, 0)
    for changed, second in (("step", gradient(7, 1)), ("seed", gradient(8, 0))):
        # The bits are compared: a loss without random numbers gives the very same ones.
        is_different = first.tobytes() != second.tobytes()
        if is_different != subject.is_random:
            claim = "random" if subject.is_random else "not random"
            outcome = "another" if is_different else "the same"
            yield f"it says that it is {claim}, and another {changed} gives {outcome} gradient"


def _with_visible_chance(loss: Loss) -> Loss:
    """Return a loss whose random numbers, if it has any, show on the synthetic lists."""
    options: dict[str, Any] = {}
    if hasattr(loss, "spread"):
        # The rankings of a soft assignment differ from the hard one only where scores are near
        # each other.
        options["spread"] = 1.0
    if getattr(loss, "extend", None) == "random" and getattr(loss, "k", None):
        # Documents are missed only in lists longer than the cutoff.
        options["k"] = 2
    return dataclasses.replace(loss, **options)


@law("float32")
def _float32(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """float32 scores give float32 results near the float64 ones"""
    objective = _bind(loss, lists)
    # Gradient and hessian by name, for the same scores in either type.
    narrow = _gradients(objective, scores.astype(np.float32))
    wide = _gradients(objective, scores)
    for name in narrow:
        kinds = [narrow[name].dtype.name, wide[name].dtype.name]
        if kinds != ["float32", "float64"]:
            yield f"the {name} is {kinds[0]} for float32 and {kinds[1]} for float64 scores"
    for sentence in _describe_differences(
        narrow, wide, lists, rtol=2e-5, atol=2e-6, expected="as in float64"
    ):
        yield f"in float32 {sentence}"


@law("weights")
def _weights(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """the weight of a query scales its value, gradient and hessian"""
    weights = np.array([2.0, 1.0, 0.0, 1.0, 1.0, 0.5])  # of the six synthetic queries
    weighted = results(loss.bind(lists, weights=weights, seed=_SEED), scores)
    expected: Results = {}
    for name, values in results(_bind(loss, lists), scores).items():
        # Values are one per query, gradients and hessians one per document.
        factors = weights if name == "value" else weights[lists.query]
        expected[name] = factors * values
    sentence = "weight times the result without weights"
    yield from _describe_differences(weighted, expected, lists, rtol=1e-12, expected=sentence)


@law("extremes")
def _extremes(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """results are finite, in float32 as in float64: scores 1e6 apart, ties, single documents"""
    # _EXTREMES are lists by their descriptions; _KINDS are float32 and float64.
    for (title, extreme), kind in itertools.product(_EXTREMES.items(), _KINDS):
        for sentence in _describe_errors_at_extreme(loss, extreme, kind):
            yield f"{title}, {kind}: {sentence}"


def _describe_errors_at_extreme(
    loss: Loss, extreme: _Extreme, kind: np.dtype[Any]
) -> Iterator[str]:
    """Yield sentences about gradients, hessians and values of a loss that are wrong for one list
    of extreme scores: not finite, not 0 without a relevant document, or other than in float64.

    Args:
        loss: any loss.
        extreme: scores and labels of a list.
        kind: float type of the scores.
    """
    lists = Lists.of(extreme.labels)
    scores = np.array(extreme.scores, dtype=kind)
    objective = loss.bind(lists)
    of_list = results(objective, scores)
    yield from not_finite(of_list)
    # Only gradient and hessian are left to be compared with float64 below.
    value = of_list.pop("value")[0]
    has_effect = value != 0 or of_list["gradient"].any()
    if has_effect and not any(extreme.labels):
        yield f"found the value {value:g} where nothing is relevant"
    if loss.noise is not None and kind == np.float32:
        return  # next to 1e6 a float32 rounds the noise itself

    # Where the ranges of float32 and float64 end, the mathematics is the same.
    wide = _gradients(objective, scores.astype(np.float64))
    steepest = float(np.abs(wide["gradient"]).max())
    atol = 1e-5 * max(1.0, steepest)
    yield from _describe_differences(
        of_list, wide, lists, rtol=1e-4, atol=atol, expected="as in float64"
    )


@law("large-labels", unless=_no_large_labels)
def _large_labels(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """labels of 32, 100 and 1000 give finite results, and the document that has one is pushed up"""
    subjects = [loss]
    if isinstance(loss, SmoothedLoss):
        # A shift by such a label takes the document out of reach of the others, and one draw may
        # have any sign.
        subjects.append(dataclasses.replace(loss, mu=0.0, samples=64))
    for label in (32, 100, 1000):
        large = Lists.of([0, label, 0])
        for subject in subjects:
            of_list = results(subject.bind(large), np.zeros(3))
            for sentence in not_finite(of_list):
                yield f"next to a label of {label} {sentence}"
        # Of the last subject, and of the document in the middle, which has the label. Its score
        # rises when the gradient is below 0, since training goes down the gradient.
        slope = of_list["gradient"][1]
        if not slope < 0:
            yield (
                f"the gradient of a document with label {label} among others with 0 is {slope:g};"
                " expected below 0"
            )


@law("long-list", f"a list of {_LONG:,} documents gives finite results and needs no square memory")
def _long_list(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    # A shorter list tells whether the long one would take too long. Its first run may compile, so
    # the second one is timed; the time grows at most with the square of the length.
    _gradients_of_long_list(loss, _LONG_TRIAL)
    started = time.perf_counter()
    _gradients_of_long_list(loss, _LONG_TRIAL)
    seconds_of_trial = time.perf_counter() - started
    seconds = seconds_of_trial * (_LONG / _LONG_TRIAL) ** 2
    if seconds > _MOST_SECONDS:
        yield f"it would take {seconds / 60:.0f} minutes, judging by {_LONG_TRIAL:,} documents"

    long_results = _gradients_of_long_list(loss, _LONG)
    yield from not_finite(long_results)
    gradient = long_results["gradient"]
    if not gradient.any():
        yield "the gradient is 0 everywhere"
    # Sums of float32 numbers are rounded in units of the sum of their sizes. _no_zero_sum returns
    # why the gradient of a loss need not add up to 0, or None.
    total = float(gradient.sum(dtype=np.float64))
    size = float(np.abs(gradient).sum(dtype=np.float64))
    is_zero = abs(total) < 1e-3 * size
    if not is_zero and _no_zero_sum(loss, scores, lists) is None:
        yield f"the gradient adds up to {total / size:.2g} of its size; expected 0"


def _gradients_of_long_list(loss: Loss, n_documents: int) -> Results:
    """Return gradient and hessian of a loss for one list of some length with random float32 scores,
    of which one document in ten is relevant.
    """
    rng = np.random.default_rng(0)
    labels = rng.choice(5, n_documents, p=[0.9, 0.05, 0.03, 0.01, 0.01])
    scores = rng.normal(size=n_documents).astype(np.float32)
    return _gradients(loss.bind(labels), scores)


@law("text", unless=_not_registered)
def _text(loss: Loss, scores: F64, lists: Lists) -> Iterator[str]:
    """what the loss prints is read back as the same loss"""
    # The registry makes a loss from its text, and equal losses must have equal hashes.
    back = REGISTRY.make(str(loss))
    if back != loss or hash(back) != hash(loss):
        yield f"{loss} is read back as {back}"


def _bind(loss: Loss, lists: Lists, n_jobs: int | None = None) -> Objective:
    """Return the objective of a loss on lists, with the seed that all laws use."""
    return loss.bind(lists, seed=_SEED, n_jobs=n_jobs)


def _without_chance(loss: Loss) -> Loss:
    """Return the loss without its random numbers, as far as it has a parameter for that."""
    for name, value in _WITHOUT_CHANCE.items():
        if loss.is_random and hasattr(loss, name):
            loss = dataclasses.replace(loss, **{name: value})
    return loss


def _gradients(objective: Objective, scores: Floats, step: int = 0) -> Results:
    """Return gradient and hessian by their names."""
    gradient, hessian = objective.gradients(scores, step)
    return {"gradient": gradient, "hessian": hessian}


def results(objective: Objective, scores: Floats, step: int = 0) -> Results:
    """Return gradient, hessian and values by their names.

    >>> results(REGISTRY.make("mse").bind([1]), np.zeros(1))
    {'gradient': array([-1.]), 'hessian': array([1.]), 'value': array([0.5])}
    """
    return {**_gradients(objective, scores, step), "value": objective.values(scores, step)}


def not_finite(of_lists: Results) -> Iterator[str]:
    """Take the gradient, hessian and value of a loss by name, and yield a sentence for each that
    has a number that is not finite, and one if a hessian is below 0.

    >>> list(not_finite({"gradient": np.array([1.0, np.nan]), "hessian": np.ones(2)}))
    ['a gradient is nan']
    """
    for name, values in of_lists.items():
        is_finite = np.isfinite(values)
        if not is_finite.all():
            yield f"a {name} is {values[~is_finite][0]}"
    smallest_hessian = of_lists["hessian"].min(initial=0.0)
    if smallest_hessian < 0:
        yield f"a hessian is {smallest_hessian:g}"


def _with_different_bits(results: Results, expected: Results) -> Iterator[str]:
    """Yield which of the results have other bits than they should."""
    for name, values in results.items():
        if values.tobytes() != expected[name].tobytes():
            yield name


def _size(results: Results) -> float:
    """Return the largest number, or 1: sums are rounded in units of their largest terms."""
    largest = 1.0
    for values in results.values():
        largest = max(largest, float(np.abs(values).max(initial=0.0)))
    return largest


def _name_entry(name: str, index: int, lists: Lists) -> str:
    """Return words for one entry of a result, such as ``the gradient of document 1 of query 0``.

    Args:
        name: ``gradient``, ``hessian`` or ``value``.
        index: the index of the entry: a document of all lists, or for values a query.
        lists: the lists.
    """
    if name == "value":
        return f"the value of query {index}"
    query, document = query_and_document(lists.offsets, index)
    return f"the {name} of document {document} of query {query}"


def _describe_differences(
    results: Results,
    expected_results: Results,
    lists: Lists,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    expected: str = "the same",
) -> Iterator[str]:
    """Yield a sentence for each of gradient, hessian and value that differs from what it should be
    by more than rounding: where it differs most, and both numbers.

    Args:
        results: arrays by name; gradients and hessians have one number per document, values one
            per query.
        expected_results: what they should be.
        lists: the lists they are about.
        rtol: difference that is rounding, as a share of the expected number.
        atol: difference that is rounding.
        expected: what is expected, in words.
    """
    for name, values in results.items():
        numbers = expected_results[name]
        with np.errstate(invalid="ignore"):
            tolerance = atol + rtol * np.abs(numbers)
            excess = np.abs(values - numbers) - tolerance
        # The difference of two infinities, or of a NaN, is NaN: only equal infinities are right.
        excess[np.isnan(excess) & (values != numbers)] = np.inf
        if (excess > 0).any():
            worst = int(np.argmax(excess))
            title = _name_entry(name, worst, lists)
            yield f"{title} is {values[worst]:.6g}; expected {numbers[worst]:.6g}, {expected}"
