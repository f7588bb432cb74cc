"""The laws every loss obeys (docs: DESIGN section 5), over every loss and its variants; and what
breaks each law.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest

from tautrank.checks import CHECKS, check_loss
from tautrank.checks.samples import synthetic_lists
from tautrank.data import Lists
from tautrank.errors import OptionError
from tautrank.losses import REGISTRY, Loss, Objective, PLRank, SmoothedLoss, loss, register
from tautrank.metrics.ordering import query_sums

LAWS = [name for name, check in CHECKS.items() if check.kind == "law"]

# One parameter at a time is moved off its default, in every loss that has it: a new loss is covered
# as soon as it is registered, and a new parameter as soon as it is listed here.
VARIATIONS: dict[str, list[object]] = {
    "k": [None, 2],
    "sigma": [0.5],
    "mu": [0.0],
    "assignment": ["soft"],
    "norm": ["lightgbm", "xgboost"],
    "extend": ["static", "random", "all"],
    "gain": ["linear", (0, 1, 3, 3, 10)],
    "discount": ["reciprocal", (1.0, 0.5, 0.25)],
    "target": ["softmax"],
    "gamma": [0.0, 1.0, "tight"],
    "hessian": ["diagonal", "neumann", "exact"],
    "metric": ["ndcg", "dcg(gain=linear)@3", "err@4", "mrr", "map@3", "dcg-rr"],
    "sfa": [True, False],
    "estimator": ["ccs"],
    "distribution": ["gumbel", "normal"],
    "decay": [0.85],
    "temperature": [0.5],
    "scale": ["plain"],
    "noise": ["gumbel"],
}


def variants() -> list[Loss]:
    losses: list[Loss] = []
    for name, cls in REGISTRY.items():
        losses.append(loss(name))
        for field in dataclasses.fields(cls):
            for value in VARIATIONS.get(field.name, []):
                # Not every metric can be optimised by every loss, and not every loss can be cut off
                # or extended.
                with contextlib.suppress(
                    *([OptionError] if field.name in ("k", "metric", "extend") else [])
                ):
                    losses.append(loss(name, **{field.name: value}))
    return list(dict.fromkeys(losses))


# Long lists and large labels are looked at by name: variants share their kernels, and tables of
# gains end at 4.
BY_NAME = ("large-labels", "long-list")


def broken(subject: Loss, laws: Iterable[str]) -> list[object]:
    """The outcomes of the laws about a loss that do not hold."""
    lists = synthetic_lists()
    about_it = [CHECKS[law] for law in laws if CHECKS[law].unless(subject, *lists) is None]
    return [
        outcome for law in about_it if (outcome := law.outcome(subject, *lists)).status != "holds"
    ]


@pytest.mark.parametrize("subject", variants(), ids=str)
def test_every_loss_obeys_every_law_about_it(subject: Loss) -> None:
    assert broken(subject, set(LAWS) - set(BY_NAME)) == []


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_long_lists_and_large_labels(name: str) -> None:
    assert broken(loss(name), BY_NAME) == []


def test_laws_do_not_excuse_themselves_and_are_all_broken_below() -> None:
    assert {law for _, law, _ in BROKEN.values()} | {"text"} == set(LAWS)
    # Which laws apply to a loss follows from what it says of itself, and from nothing else.
    for subject in variants():
        silent = {
            law for law in LAWS if CHECKS[law].unless(subject, *synthetic_lists()) is not None
        }
        expected = set() if subject.ignores_shifts else {"shift"}
        expected |= set() if subject.gradient_is_derivative else {"derivative"}
        expected |= {"zero-sum"} if expected else set()
        by_places = (
            isinstance(subject, SmoothedLoss | PLRank)
            or getattr(subject, "extend", None) == "static"
        )
        expected |= {"order"} if by_places else set()
        short_table = isinstance(getattr(subject, "gain", None), tuple) or "err" in str(subject)
        expected |= {"large-labels"} if short_table else set()
        assert silent == expected, subject


# Losses that break a law


@dataclass(frozen=True)
class Centred(Loss):
    """Half the squared distance of scores and labels, both centred in the query: right, and
    compiled by nobody.
    """

    name = "centred"

    def _bind(self, lists, seed, threads):
        return self.objective(self, lists, seed, threads, lists.sizes.astype(float) ** 2)


class RightObjective(Objective):
    def _shares(self) -> np.ndarray:
        lists = self.lists
        return np.repeat(np.where(lists.has_relevant, lists.weights, 0.0), lists.sizes)

    def _residuals(self, scores: np.ndarray) -> np.ndarray:
        lists = self.lists
        means = query_sums(scores - lists.labels, lists.offsets) / np.maximum(lists.sizes, 1)
        return (scores - lists.labels - np.repeat(means, lists.sizes)).astype(scores.dtype)

    def _gradients(self, scores, step):
        shares = self._shares().astype(scores.dtype)
        return shares * self._residuals(scores), shares

    def _values(self, scores, held, step):
        return 0.5 * query_sums(self._shares() * self._residuals(scores) ** 2, self.lists.offsets)


Centred.objective = RightObjective


def changed(change) -> type[Objective]:
    """The right objective with its gradient and hessian changed by a function of (self, grad, hess,
    scores, step).
    """

    class Changed(RightObjective):
        def _gradients(self, scores, step):
            return change(self, *RightObjective._gradients(self, scores, step), scores, step)

    return Changed


def with_shares(change) -> type[Objective]:
    class Changed(RightObjective):
        def _shares(self):
            return np.repeat(change(self.lists), self.lists.sizes)

    return Changed


def with_values(change) -> type[Objective]:
    """The right objective with something added to its values, a function of (self, scores)."""

    class Changed(RightObjective):
        def _values(self, scores, held, step):
            with np.errstate(over="ignore", invalid="ignore"):
                return RightObjective._values(self, scores, held, step) + change(self, scores)

    return Changed


class Leaks(RightObjective):
    def _residuals(self, scores):
        return scores - self.lists.labels - (scores - self.lists.labels).mean()


class NotShiftFree(RightObjective):
    def _residuals(self, scores):
        return (scores - self.lists.labels).astype(scores.dtype)


class AlwaysWide(RightObjective):
    def _gradients(self, scores, step):
        return super()._gradients(scores.astype(np.float64), step)


def drift(self, scores):
    self.calls = getattr(self, "calls", 0) + 1
    return self.calls


def overflow(self, grad, hess, scores, step):
    with np.errstate(over="ignore", invalid="ignore"):
        return grad * (np.exp(scores) / np.exp(scores)), hess


def unlike_every_time(self, grad, hess, *_):
    return grad * (1 + 1e-9 * np.random.default_rng().uniform(size=grad.size)), hess


def stops_at_ties(self, grad, hess, scores, step):
    if scores.size == 4 and not scores.any():
        raise OverflowError("all scores are equal")
    return grad, hess


BROKEN = {
    "stops": (
        changed(lambda *_: 1 / 0),
        "runs",
        "stopped with ZeroDivisionError: division by zero",
    ),
    "stops at ties": (
        changed(stops_at_ties),
        "extremes",
        "stopped with OverflowError: all scores are equal",
    ),
    "sign": (changed(lambda self, g, h, *_: (-g, h)), "derivative", "the slope of the loss"),
    "slope": (
        changed(lambda self, g, h, *_: (g * g.dtype.type(1 + 1e-5), h)),
        "derivative",
        "the slope of the loss",
    ),
    "pushed down": (
        changed(lambda self, g, h, *_: (-g, h)),
        "large-labels",
        "is 21.3333; expected below 0",
    ),
    "drifting": (with_values(drift), "frozen", "the value of query 0 is"),
    "negative hessian": (changed(lambda self, g, h, *_: (g, -h)), "finite", "a hessian is -1"),
    "no hessian": (changed(lambda self, g, h, *_: (g, 0 * h)), "curved", "all hessians are 0"),
    "irrelevant": (
        with_shares(lambda lists: np.ones_like(lists.weights)),
        "no-relevant",
        "found a gradient of",
    ),
    "leaks": (Leaks, "independent", "of the same list, the gradient of document"),
    "places": (
        with_values(lambda self, s: s[self.lists.offsets[:-1] % s.size]),
        "order",
        "the value of query",
    ),
    "shift": (NotShiftFree, "shift", "as without the constant"),
    "sum": (NotShiftFree, "zero-sum", "it adds up to"),
    "threads": (
        changed(lambda self, g, h, *_: (g * g.dtype.type(1 + 1e-3 * self.threads), h)),
        "threads",
        "another gradient on 2 threads than on one, in float32",
    ),
    "dice on threads": (changed(unlike_every_time), "threads", "another gradient on 2 threads"),
    "dice": (changed(unlike_every_time), "repeat", "another gradient after another call"),
    "hidden seed": (
        changed(lambda self, g, h, s, step: (g + g.dtype.type(self.seed + step) * h, h)),
        "seed",
        "it says that it is not random, and another step gives another gradient",
    ),
    "wide": (AlwaysWide, "float32", "the gradient is float64 for float32"),
    "weights": (
        with_shares(lambda lists: lists.has_relevant * 1.0),
        "weights",
        "weight times the result without",
    ),
    "overflow": (changed(overflow), "extremes", "scores 1e6 apart, float32: a gradient is nan"),
    "label overflow": (
        with_values(
            lambda self, s: 0.0 * query_sums(2.0 ** (2 * self.lists.labels), self.lists.offsets)
        ),
        "large-labels",
        "next to a label of 1000 a value is nan",
    ),
    "long": (
        changed(lambda self, g, h, *_: (g * g.dtype.type(self.lists.longest < 10_000), h)),
        "long-list",
        "the gradient is 0 everywhere",
    ),
}


def centred(objective: type[Objective], **attributes: object) -> Loss:
    made = type(
        "Subject", (Centred,), {"objective": objective, "__module__": __name__, **attributes}
    )
    globals()["Subject"] = made  # where pickle looks for it
    made.__qualname__ = "Subject"
    if objective.__qualname__ != objective.__name__:  # made by a function above
        globals()["Changed"] = objective
        objective.__qualname__ = "Changed"
    return made()


def test_a_right_loss_breaks_no_law() -> None:
    report = check_loss(centred(RightObjective), names=LAWS)
    assert report.holds, report
    assert [outcome.check for outcome in report.having("does not apply")] == ["text"]


@pytest.mark.parametrize("case", BROKEN)
def test_each_law_finds_a_loss_that_breaks_it(case: str) -> None:
    objective, law, detail = BROKEN[case]
    outcome = CHECKS[law].outcome(centred(objective), *synthetic_lists())
    assert outcome.status == "broken", outcome
    assert detail in outcome.detail


def test_a_random_loss_that_draws_nothing_and_one_that_is_not_read_back() -> None:
    quiet = centred(RightObjective, is_random=property(lambda self: True))
    assert "says that it is random" in CHECKS["seed"].outcome(quiet, *synthetic_lists()).detail
    silent = centred(RightObjective)
    try:
        register("silent")(type(silent))
        type(silent).__str__ = lambda self: "mse"
        assert (
            CHECKS["text"].outcome(silent, *synthetic_lists()).detail == "mse is read back as mse"
        )
    finally:
        del REGISTRY["silent"]


def test_a_loss_that_cannot_be_pickled() -> None:
    class Local(Centred):
        objective = RightObjective

    assert (
        "expected its class at the top level"
        in CHECKS["repeat"].outcome(Local(), *synthetic_lists()).detail
    )


DERIVED = [
    subject
    for subject in (
        loss(name, **({"hessian": "diagonal"} if name == "xendcg" else {}))
        for name in sorted(REGISTRY)
    )
    if subject.gradient_is_derivative
]


@pytest.mark.parametrize("subject", DERIVED, ids=str)
def test_a_gradient_that_is_slightly_wrong_is_found(
    subject: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, lists = synthetic_lists()
    drawn = np.random.default_rng(0).normal(size=scores.size)
    right = Objective.gradients

    def wrong(self, at, step=0):
        grad, hess = right(self, at, step)
        return grad * (1 + error), hess

    monkeypatch.setattr(Objective, "gradients", wrong)
    for at in (scores, drawn, 0.01 * drawn, 10 * drawn):
        for error, status in ((0.0, "holds"), (3e-6, "broken"), (-1e-4, "broken")):
            assert CHECKS["derivative"].outcome(subject, at, lists).status == status, error


def test_a_small_error_beside_a_large_value_is_found() -> None:
    # The value is so large that the difference of a narrow step is nothing but rounding.
    large = with_values(lambda self, s: 1e4)
    assert CHECKS["derivative"].outcome(centred(large), *synthetic_lists()).status == "holds"

    class Wrong(large):
        def _gradients(self, scores, step):
            grad, hess = super()._gradients(scores, step)
            return grad * (1 + 1e-5), hess

    assert CHECKS["derivative"].outcome(centred(Wrong), *synthetic_lists()).status == "broken"


def hinge(at_kink: float) -> Loss:
    """Sum of max(0, 1 - (s_i - s_j)) over pairs with y_i > y_j; at its kinks the gradient takes a
    share of a pair.
    """

    class Hinge(RightObjective):
        def _pairs(self, s: np.ndarray):
            for query, (a, b) in enumerate(
                zip(self.lists.offsets, self.lists.offsets[1:], strict=False)
            ):
                y = self.lists.labels[a:b]
                yield query, slice(a, b), 1 - (s[a:b, None] - s[None, a:b]), y[:, None] > y

        def _gradients(self, scores, step):
            grad = np.zeros_like(scores)
            for _, rows, slack, counts in self._pairs(scores):
                share = counts * np.where(slack == 0, at_kink, slack > 0)
                grad[rows] = share.sum(axis=0) - share.sum(axis=1)
            return grad, np.ones_like(grad)

        def _values(self, scores, held, step):
            values = np.zeros(self.lists.sizes.size)
            for query, _, slack, counts in self._pairs(scores):
                values[query] = (counts * np.maximum(slack, 0)).sum()
            return values

    return centred(Hinge)


@pytest.mark.parametrize("at_kink", [-0.01, 0.0, 0.25, 1.0, 1.01])
def test_at_a_kink_any_slope_between_those_on_either_side_is_right_and_no_other(
    at_kink: float,
) -> None:
    status = "holds" if 0 <= at_kink <= 1 else "broken"
    few = np.array([1.0, 0.0, 2.0]), Lists.of([1, 0, 0], [0, 3])
    for scores, lists in (few, synthetic_lists()):
        assert CHECKS["derivative"].outcome(hinge(at_kink), scores, lists).status == status


# What the laws leave out


# In the others the label itself counts.
@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"mse", "arp-loss1", "arp-loss2"}))
@pytest.mark.parametrize("top", [32, 100, 1000])
def test_next_to_a_label_of_32_nothing_else_has_a_gain_left(name: str, top: int) -> None:
    subject = loss(name)
    if isinstance(subject, SmoothedLoss):
        subject = dataclasses.replace(subject, mu=0.0, samples=64)
    scores = np.zeros(3)
    grad, near = (subject.bind([0, label, 0], [0, 3]).gradients(scores)[0] for label in (top, 31))
    np.testing.assert_allclose(grad, near, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ranknet(k=none)", 6.0501452),
        ("lambdarank(k=none)", 1.0718194),
        ("ndcg-loss2(k=none)", 0.8460206),
        ("ndcg-loss2++(k=none,mu=10)", 9.5320258),
    ],
)
def test_check_values(text: str, expected: float) -> None:
    value = loss(text).bind([0, 0, 1, 2], [0, 4]).values([0.0, 3.0, 1.0, 2.0])
    assert value[0] == pytest.approx(expected, abs=5e-8)


def average(
    subject: Loss, labels: list[float], scores: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean over many steps of the gradient of one query, and its standard error."""
    objective = subject.bind(labels, [0, scores.size], seed=11)
    grads = np.array([objective.gradients(scores, step)[0] for step in range(steps)])
    return grads.mean(axis=0), grads.std(axis=0) / np.sqrt(steps)


@pytest.mark.parametrize("plain", ["lambdarank", "listnet", "mse"])
def test_noisy_gradients_are_unbiased(plain: str) -> None:
    labels, scores, strength = [0.0, 2.0, 1.0, 0.0], np.array([0.3, -0.2, 0.1, 0.6]), 0.7
    mean, error = average(loss(plain, noise="gumbel", strength=strength), labels, scores, 4000)
    draws = 4000
    noisy = scores + strength * np.random.default_rng(3).gumbel(size=(draws, scores.size))
    offsets = np.arange(draws + 1) * scores.size
    expected = (
        loss(plain)
        .bind(np.tile(labels, draws), offsets)
        .gradients(noisy.ravel())[0]
        .reshape(draws, -1)
    )
    spread = np.hypot(error, expected.std(axis=0) / np.sqrt(draws))
    assert (np.abs(mean - expected.mean(axis=0)) < 5 * spread + 1e-12).all()


def test_gradients_with_uniform_gamma_are_unbiased() -> None:
    labels, scores = [0.0, 2.0, 1.0, 0.0, 0.0], np.array([0.3, -0.2, 0.1, 0.6, 0.0])
    mean, error = average(loss("xendcg", hessian="diagonal"), labels, scores, 4000)
    targets = 2.0 ** np.array(labels) - np.random.default_rng(4).uniform(
        size=(200_000, scores.size)
    )
    phi = (targets / targets.sum(axis=1, keepdims=True)).mean(axis=0)
    rho = np.exp(scores) / np.exp(scores).sum()
    assert (np.abs(mean - (rho - phi)) < 5 * error).all()


def test_gradients_with_sampled_rankings_are_unbiased() -> None:
    # A soft assignment averages gradients over the rankings it draws: one of 4000 rankings is 4000
    # of one.
    labels, scores = [0.0, 2.0, 1.0, 0.0, 1.0], np.array([0.3, -0.2, 0.1, 0.6, 0.0])
    subject = loss("ndcg-loss2++", assignment="soft", samples=1, spread=0.5)
    mean, error = average(subject, labels, scores, 4000)
    many = (
        dataclasses.replace(subject, samples=4000)
        .bind(labels, [0, 5], seed=12)
        .gradients(scores)[0]
    )
    assert (np.abs(mean - many) < 5 * np.sqrt(2) * error).all()
