"""Theorems and measurements: which losses they are about, and what comes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tautrank.checks import CHECKS, Outcome, check_loss
from tautrank.checks.samples import synthetic_lists
from tautrank.data import Lists
from tautrank.losses import REGISTRY, Loss, loss
from tests.checks.test_laws import RightObjective, centred
from tests.theory_lists import make_lists

LAWS = [name for name, check in CHECKS.items() if check.kind == "law"]
BOUNDS = [
    "xe-ndcg",
    "xe-ndcg-refined",
    "softmax-mrr",
    "softmax-ndcg",
    "lambdaloss",
    "ndcg-cost",
    "lambdarank-metric",
]
OTHERS = ["xe-lipschitz", "lambdarank-lipschitz", "hessian", "em-descent", "m-step"]
GAPS = ["above-ndcg-cost", "above-mrr-cost", "above-log-ndcg", "above-log-mrr"]
MEASURED = ["lipschitz", *GAPS]
SMOOTHING = [name for name in CHECKS if name.startswith(("directness", "softrank", "smoothing"))]

PAPERS = [
    "ranknet",
    "lambdarank",
    "lambdarank(k=3)",
    "lambdarank(gain=linear,discount=reciprocal)",
    "arp-loss1(k=3)",
    "arp-loss2",
    "ndcg-loss1",
    "ndcg-loss2",
    "ndcg-loss2++",
    "listnet",
    "listnet(target=softmax)",
    "xendcg",
    "xendcg(gamma=tight,hessian=exact)",
]


def outcomes(
    subject: Loss | str,
    names: list[str],
    labels: str = "graded",
    scores: str = "tied",
    queries: int = 30,
) -> dict[str, Outcome]:
    s, lists = make_lists(0, scores, labels, queries=queries, longest=8)
    report = check_loss(subject, lists, scores=s, names=names)
    return {outcome.check: outcome for outcome in report.outcomes}


def test_every_check_is_in_one_place_and_says_where_it_stands() -> None:
    assert set(CHECKS) == {
        *LAWS,
        *BOUNDS,
        *OTHERS,
        *MEASURED,
        *SMOOTHING,
        "generalisation",
        "proven-lipschitz",
    }
    for name, item in CHECKS.items():
        assert item.name == name
        assert item.statement
    for name in (*BOUNDS, *OTHERS):
        assert CHECKS[name].paper
    kinds = [check.kind for check in CHECKS.values()]
    assert sorted(set(kinds), key=kinds.index) == ["law", "measurement", "theorem"]
    assert kinds == sorted(kinds)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_no_loss_of_this_library_breaks_a_law_or_a_theorem(name: str) -> None:
    by_name = outcomes(name, [item for item in CHECKS if item != "long-list"], scores="normal")
    for check, outcome in by_name.items():
        assert outcome.status != "broken", outcome
        is_number = CHECKS[check].kind == "measurement" and outcome.status != "does not apply"
        assert (outcome.status == "measured") == is_number


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_loss_obeys_the_laws_on_data_too(name: str) -> None:
    both = [law for law in LAWS if CHECKS[law].on == "both"]
    by_name = outcomes(name, both)
    silent = {law for law in both if CHECKS[law].unless(loss(name), *synthetic_lists())}
    assert {law for law, o in by_name.items() if o.status != "holds"} == silent, by_name


@pytest.mark.parametrize("text", PAPERS)
def test_every_theorem_holds_for_its_losses(text: str) -> None:
    for labels in ("graded", "binary"):
        by_name = outcomes(text, [*BOUNDS, *OTHERS], labels)
        assert all(outcome.status != "broken" for outcome in by_name.values()), by_name
        assert sum(outcome.status == "holds" for outcome in by_name.values()) >= 2


def test_which_theorem_is_about_which_loss() -> None:
    def about(text: str, labels: str = "graded") -> set[str]:
        by_name = outcomes(text, [*BOUNDS, *OTHERS], labels)
        return {name for name, outcome in by_name.items() if outcome.status == "holds"}

    assert about("xendcg") == {"xe-ndcg", "xe-ndcg-refined", "xe-lipschitz", "hessian", "m-step"}
    assert about("listnet") == {"softmax-mrr", "xe-lipschitz", "hessian", "em-descent", "m-step"}
    assert about("listnet", "binary") == about("listnet") | {"softmax-ndcg"}
    assert about("lambdarank") == {
        "lambdaloss",
        "ndcg-cost",
        "lambdarank-metric",
        "lambdarank-lipschitz",
        "m-step",
    }
    assert about("lambdarank(k=2)") == about("lambdarank") - {"ndcg-cost"}
    assert about("ndcg-loss2(k=2)") == {"m-step"}
    assert about("arp-loss2(k=none)") == {"lambdaloss", "em-descent", "m-step"}
    assert about("mse") == {"em-descent", "m-step"}
    assert about("lambdarank(norm=lightgbm)") == {"lambdarank-metric", "m-step"}
    assert "xe-ndcg" not in about("xendcg(noise=gumbel)")
    assert "lambdaloss" not in about("ndcg-loss2(assignment=soft)")
    assert {o.status for o in outcomes(centred(RightObjective), BOUNDS).values()} == {
        "does not apply"
    }


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_which_loss_stands_for_a_metric(name: str) -> None:
    by_name = outcomes(name, SMOOTHING, scores="normal", queries=40)
    about = {key for key, outcome in by_name.items() if outcome.status != "does not apply"}
    direct = (
        set() if name in {"mse", "ranknet", "yetiloss"} else {"directness", "directness-unseen"}
    )
    smoothed = {"smoothing-worst", "smoothing-expected", "smoothing-bias"}
    softrank = {item for item in SMOOTHING if item.startswith("softrank")}
    of_metric = {"stochasticrank": smoothed, "reinforce": smoothed, "softrank": softrank}.get(
        name, set()
    )
    assert about == direct | of_metric


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("mse", "directness", "its value does not have the scale of a metric"),
        ("lambdarank(norm=lightgbm)", "directness", "it is about the hard assignment without norm"),
        ("xendcg(noise=gumbel)", "directness", "it is about losses without noise"),
        ("softrank(k=3)", "softrank-bound", "it is about full lists and the logarithmic discount"),
        ("softrank(estimator=ccs)", "softrank-ties", "it is about softrank with its exact gradient and without noise"),
        ("stochasticrank(metric=dcg-rr)", "smoothing-worst", "it is about the metrics of a ranking"),
        ("reinforce(metric=ndcg(ties=expected))", "smoothing-worst", "it is about metrics with ties at their worst"),
        ("listnet", "smoothing-bias", "it is about stochasticrank and reinforce without noise"),
        ("listnet(target=softmax)", "softmax-ndcg", "it is about the linear target"),
        ("listnet", "softmax-ndcg", "it is about binary labels"),
        ("ndcg-loss1(discount=1/0.4)", "lambdaloss", "it is about discounts of at least 1/rank"),
        ("ndcg-loss2(discount=1/1/0)", "ndcg-cost", "it is about discounts whose steps shrink"),
        ("ndcg-loss2(discount=2/1)", "lambdaloss", "it is about discounts that start at 1"),
        ("mse", "generalisation", "it is about losses with a proven Lipschitz constant"),
    ],
)  # fmt: skip
def test_why_a_check_does_not_apply(text: str, name: str, reason: str) -> None:
    assert outcomes(text, [name])[name].detail == reason


def test_what_is_measured() -> None:
    # LambdaRank lies above 1 - NDCG, as is proven, but not above 1 - RR, nor above -log NDCG.
    by_name = outcomes("lambdarank", MEASURED)
    assert {outcome.status for outcome in by_name.values()} == {"measured"}
    assert by_name["above-ndcg-cost"].value == 0  # a perfect ranking
    assert by_name["above-mrr-cost"].value < -0.05
    assert by_name["above-log-ndcg"].value < 0
    assert "the loss is below it in " in by_name["above-mrr-cost"].detail
    for name, outcome in outcomes("listnet", GAPS).items():
        assert outcome.value >= 0, name


@pytest.mark.parametrize("subject", ["mse", centred(RightObjective)], ids=str)
def test_a_loss_whose_slope_grows_with_the_scores_has_no_constant(subject: Loss | str) -> None:
    by_name = outcomes(subject, ["lipschitz", "proven-lipschitz"])
    assert by_name["lipschitz"].value > 1000
    assert by_name["proven-lipschitz"].status == "does not apply"


def test_the_generalisation_bound_of_the_data() -> None:
    # Ten documents, one of them relevant: cross entropy between log((9 e^-1 + 1)) and log(9 e + 1),
    # less than 2 apart.
    labels, offsets = np.tile([1.0] + [0.0] * 9, 50), np.arange(0, 501, 10)
    equal = check_loss("listnet", Lists.of(labels, offsets), names=["generalisation"])[
        "generalisation"
    ]
    assert equal.status == "holds"
    assert "the constant is 2; for trees of 31 leaves with fixed splits" in equal.detail
    # A list of one document costs nothing, one of 200 costs log 200 and more: the proof does not
    # allow for it.
    longer = np.zeros(201)
    longer[:2] = 1.0
    unequal = check_loss("listnet", Lists.of(longer, [0, 1, 201]), names=["generalisation"])[
        "generalisation"
    ]
    assert unequal.status == "refuted"
    assert CHECKS["generalisation"].flaw


def test_what_comes_of_softrank_and_smoothing() -> None:
    by_name = outcomes("softrank", SMOOTHING, scores="normal", queries=40)
    for name in ("directness", "softrank-bound", "softrank-bound-as-stated", "softrank-contests"):
        assert by_name[name].status == "holds", by_name[name]
    assert by_name["softrank-sigma-limit"].status == "refuted"
    assert "with 2 documents" in by_name["softrank-sigma-limit"].detail
    assert by_name["softrank-ties"].value > 0.01
    # Lists of two: a tie of two is what it should be.
    pairs = check_loss(
        "softrank", Lists.of([1, 0, 0, 2, 1, 1], [0, 2, 4, 6]), names=["softrank-ties"]
    )["softrank-ties"]
    assert pairs.value < 1e-6
    for text in (
        "stochasticrank",
        "stochasticrank(metric=err)",
        "reinforce(metric=mrr)",
        "stochasticrank(mu=0)",
    ):
        by_name = outcomes(text, SMOOTHING, scores="normal", queries=40)
        assert (
            by_name["smoothing-worst"].status == by_name["smoothing-expected"].status == "holds"
        ), by_name
        assert by_name["smoothing-bias"].value > 0.01
    large_shift = outcomes("stochasticrank(mu=9)", ["smoothing-bias"])["smoothing-bias"]
    assert large_shift.value < 1e-3
    tie = check_loss("stochasticrank", [1, 0], scores=[0.0, 0.0], names=["smoothing-bias"])[
        "smoothing-bias"
    ]
    assert "94% of that without shift" in tie.detail


def test_a_wrong_softrank_is_found_out(monkeypatch) -> None:
    from tautrank.losses.softrank import _ExactObjective

    right = _ExactObjective._values
    monkeypatch.setattr(_ExactObjective, "_values", lambda self, *a: 0.9 * right(self, *a))
    by_name = outcomes("softrank", ["softrank-bound", "softrank-contests"])
    assert {outcome.status for outcome in by_name.values()} == {"broken"}


@pytest.mark.parametrize("text", ["xendcg", "lambdarank", "softrank", "stochasticrank"])
def test_data_without_anything_to_look_at(text: str) -> None:
    about_data = [name for name, check in CHECKS.items() if check.on == "data"]
    for outcome in check_loss(text, Lists.of([0, 0, 0], [0, 2, 3]), names=about_data).outcomes:
        assert outcome.status == "does not apply", outcome
        assert math.isnan(outcome.margin)
    for outcome in check_loss(
        text, Lists.of([], [0]), names=[*about_data, "finite", "derivative", "order"]
    ).outcomes:
        assert outcome.status != "broken", outcome
    tied = check_loss("softrank", [1, 0], scores=[1.0, 1.0], names=["softrank-bound"])[
        "softrank-bound"
    ]
    assert tied.detail == "it is about lists without ties"


def test_long_lists_are_looked_at_in_places() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=700), rng.integers(0, 3, 700)
    report = check_loss(
        "ndcg-loss2++",
        Lists.of(labels, [0, 400, 700]),
        scores=scores,
        names=["derivative", "m-step"],
    )
    assert report["derivative"].status == "holds"
    assert report["m-step"].status == "does not apply"  # it would take hundreds of differences
