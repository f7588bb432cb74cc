"""Claims: every loss is checked by those that speak of it, and a wrong loss of one's own is found out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from tautrank.checks import CLAIMS, Outcome, check_claims, claim
from tautrank.errors import OptionError
from tautrank.losses import REGISTRY, Loss, Objective, loss
from tautrank.losses.base import Lists
from tautrank.metrics.ordering import query_sums
from tests.theory_lists import make_lists

LAWS = ["derivative", "shift", "zero-sum", "order", "no-relevant", "finite"]
BOUNDS = ["xe-ndcg", "xe-ndcg-refined", "softmax-mrr", "softmax-ndcg", "lambdaloss", "ndcg-cost", "lambdarank-metric"]
OTHERS = ["xe-lipschitz", "lambdarank-lipschitz", "hessian", "em-descent", "m-step"]
MEASURED = ["lipschitz", "above-ndcg-cost", "above-mrr-cost", "above-log-ndcg", "above-log-mrr"]

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


def outcomes(subject: Loss | str, labels: str = "graded", names: list[str] | None = None) -> dict[str, Outcome]:
    data = make_lists(0, "tied", labels, queries=30, longest=8)
    return {outcome.claim: outcome for outcome in check_claims(subject, *data, names)}


def test_every_claim_says_what_it_claims_and_where_it_stands() -> None:
    assert {*LAWS, *BOUNDS, *OTHERS, *MEASURED} <= set(CLAIMS)
    for name, each in CLAIMS.items():
        assert each.name == name
        assert each.statement
    for name in (*BOUNDS, *OTHERS):
        assert CLAIMS[name].paper or name == "m-step"


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_loss_obeys_the_laws(name: str) -> None:
    found = outcomes(name, names=LAWS)
    assert {o.status for o in found.values()} <= {"holds", "does not apply"}, found
    assert found["no-relevant"].status == found["finite"].status == "holds"


@pytest.mark.parametrize("text", PAPERS)
def test_every_theorem_holds_for_its_losses(text: str) -> None:
    for labels in ("graded", "binary"):
        found = outcomes(text, labels)
        for name in (*BOUNDS, *OTHERS):
            assert found[name].status != "fails", found[name]
        assert sum(found[name].status == "holds" for name in (*BOUNDS, *OTHERS)) >= 2


def test_which_claim_speaks_of_which_loss() -> None:
    def spoken(text: str, labels: str = "graded") -> set[str]:
        found = outcomes(text, labels, [*BOUNDS, *OTHERS])
        return {name for name, outcome in found.items() if outcome.status == "holds"}

    assert spoken("xendcg") == {"xe-ndcg", "xe-ndcg-refined", "xe-lipschitz", "hessian", "m-step"}
    assert spoken("listnet") == {"softmax-mrr", "xe-lipschitz", "hessian", "em-descent", "m-step"}
    assert spoken("listnet", "binary") == spoken("listnet") | {"softmax-ndcg"}
    assert spoken("lambdarank") == {"lambdaloss", "ndcg-cost", "lambdarank-metric", "lambdarank-lipschitz", "m-step"}
    assert spoken("lambdarank(k=2)") == spoken("lambdarank") - {"ndcg-cost"}
    assert spoken("ndcg-loss2(k=2)") == {"m-step"}
    assert spoken("arp-loss2(k=none)") == {"lambdaloss", "em-descent", "m-step"}
    assert spoken("mse") == {"em-descent", "m-step"}
    assert spoken("lambdarank(norm=lightgbm)") == {"lambdarank-metric", "m-step"}
    assert "xe-ndcg" not in spoken("xendcg(noise=gumbel)")
    assert "lambdaloss" not in spoken("ndcg-loss2(assignment=soft)")


def test_what_is_measured() -> None:
    # LambdaRank lies above 1 - NDCG, as is proven, but not above 1 - RR, nor above -log NDCG.
    found = outcomes("lambdarank", names=MEASURED)
    assert found["above-ndcg-cost"].status == "holds"
    assert found["above-mrr-cost"].status == found["above-log-ndcg"].status == "fails"
    assert found["above-mrr-cost"].detail.startswith("below it in ")
    assert found["above-mrr-cost"].margin < -0.05
    assert {outcomes("listnet", names=MEASURED)[name].status for name in MEASURED} == {"holds"}
    assert outcomes("mse", names=MEASURED)["lipschitz"].status == "fails"


def test_claims_that_look_at_no_list_do_not_apply() -> None:
    for outcome in check_claims("xendcg", [0.0, 1.0], [0, 0], [0, 2], ["xe-ndcg", "above-ndcg-cost", "xe-lipschitz"]):
        assert outcome.status == "does not apply"
        assert math.isnan(outcome.margin)
        assert outcome.detail == "no query it looks at has a relevant document"
    for outcome in check_claims("lambdarank", [], [], [0]):
        assert outcome.status in {"holds", "does not apply"}, outcome


def test_long_lists_are_looked_at_in_places() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=700), rng.integers(0, 3, 700).astype(float)
    found = {o.claim: o for o in check_claims("ndcg-loss2++", scores, labels, [0, 400, 700], ["derivative", "m-step"])}
    assert found["derivative"].status == "holds"
    assert found["m-step"].status == "does not apply"  # it would take hundreds of differences


def test_unknown_claims_are_named() -> None:
    with pytest.raises(OptionError, match=r"^unknown claim 'xe-ndgc'; did you mean 'xe-ndcg'\?"):
        check_claims("xendcg", [0.0], [1], [0, 1], ["xe-ndgc"])


# A loss of one's own, not registered: half the squared distance of scores and labels, both centred in the query.


@dataclass(frozen=True, kw_only=True, repr=False)
class Centred(Loss):
    name = "centred"
    slope: float = 1.0  # of the gradient; 1 is right
    uncentred: float = 0.0  # how much of the scores' mean stays; 0 is right
    floor: float = 0.0  # of the value where nothing is relevant; 0 is right

    def _bind(self, lists: Lists, seed: int, threads: int) -> Objective:
        return CentredObjective(self, lists, seed, threads, lists.sizes.astype(np.float64))


class CentredObjective(Objective):
    loss: Centred

    def _residuals(self, scores: np.ndarray) -> np.ndarray:
        lists = self.lists
        means = query_sums(scores - lists.labels, lists.offsets) / np.maximum(lists.sizes, 1)
        residuals = scores - lists.labels - (1 - self.loss.uncentred) * np.repeat(means, lists.sizes)
        return np.where(np.repeat(lists.has_relevant, lists.sizes), residuals, 0.0)

    def _gradients(self, scores: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        return self.loss.slope * self._residuals(scores), np.ones_like(scores)

    def _values(self, scores: np.ndarray, held: np.ndarray, step: int) -> np.ndarray:
        values = 0.5 * query_sums(self._residuals(scores) ** 2, self.lists.offsets)
        return np.where(self.lists.has_relevant, values, self.loss.floor)


def test_a_right_loss_of_ones_own_obeys_the_laws() -> None:
    found = outcomes(Centred())
    assert {found[name].status for name in LAWS} == {"holds"}
    assert found["lipschitz"].status == "fails"
    assert {found[name].status for name in BOUNDS} == {"does not apply"}


@pytest.mark.parametrize(
    ("wrong", "broken"),
    [
        (Centred(slope=1.01), {"derivative"}),
        (Centred(uncentred=0.5), {"derivative", "shift", "zero-sum"}),
        (Centred(floor=1e-3), {"no-relevant"}),
        (Centred(slope=math.nan), {"derivative", "shift", "zero-sum", "finite", "no-relevant"}),
    ],
)
def test_a_wrong_loss_of_ones_own_is_found_out(wrong: Centred, broken: set[str]) -> None:
    found = outcomes(wrong, names=LAWS)
    assert {name for name, outcome in found.items() if outcome.status != "holds"} == broken


@pytest.fixture
def own_claim() -> Iterator[str]:
    @claim("falls-with-ndcg", "a perfect ranking costs less than a wrong one", silent_on=lambda loss: None, once=True)
    def examine(loss: Loss, scores: np.ndarray, lists: Lists) -> tuple[float, str]:
        objective = loss.bind(lists.labels, lists.offsets)
        gap = float((objective.values(-lists.labels) - objective.values(lists.labels)).min())
        return gap, f"the smallest difference is {gap:.3g}"

    yield "falls-with-ndcg"
    del CLAIMS["falls-with-ndcg"]


def test_a_claim_of_ones_own_is_checked_too(own_claim: str) -> None:
    assert outcomes("lambdarank", names=[own_claim])[own_claim].status == "holds"
    assert own_claim in outcomes(loss("mse"))
