"""The runner: the worst outcome over several lists, losses that stop, data that is thinned."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from tautrank.checks import CHECKS, check_loss, check_losses, measurement, theorem
from tautrank.checks.samples import short_lists, some_lists
from tautrank.data import Lists
from tautrank.errors import OptionError
from tautrank.losses import MSE, REGISTRY, ListLoss, loss
from tests.recorded_progress import RecordedProgress

LABELS, OFFSETS = [0, 1, 0, 2, 0, 1], [0, 3, 6]


@pytest.fixture
def tried():
    """The scores at which a check of one's own was tried."""
    found: list[np.ndarray] = []

    @theorem("probe", "a perfect ranking costs less than a wrong one", on="both")
    def examine(loss, scores, lists):
        found.append(scores.copy())
        objective = loss.bind(lists.labels, lists.offsets)
        gap = float((objective.values(-lists.labels) - objective.values(lists.labels)).min())
        return gap, f"the smallest difference is {gap:.3g}"

    yield found
    del CHECKS["probe"]


def test_a_check_of_ones_own_is_tried_on_synthetic_lists_and_on_seven_scorings_of_the_data(
    tried,
) -> None:
    user_scores = [0.0, 9.0, 1.0, 9.0, 0.0, 1.0]
    outcome = check_loss(
        "lambdarank", Lists.of(LABELS, OFFSETS), scores=user_scores, names=["probe"]
    )["probe"]
    assert (outcome.status, outcome.queries) == ("holds", 2)
    assert (
        outcome.detail == "the smallest difference is 0"
    )  # the synthetic list without a relevant document
    data = [scores for scores in tried if scores.size == 6]
    assert (len(tried), len(data)) == (8, 7)
    for scores in (
        user_scores,
        LABELS,
        np.negative(LABELS),
        np.zeros(6),
        np.multiply(100.0, user_scores),
    ):
        assert any(np.array_equal(scores, tried_scores) for tried_scores in data)


def test_the_worst_of_several_scorings() -> None:
    scores = np.array([0.0, 9.0, 1.0, 9.0, 0.0, 1.0])
    name = "above-log-mrr"
    worst = check_loss("lambdarank", Lists.of(LABELS, OFFSETS), scores=scores, names=[name])[name]
    lists = Lists.of(LABELS, OFFSETS)
    alone = CHECKS[name].outcome(loss("lambdarank"), scores, lists)
    assert worst.value < alone.value


@pytest.mark.parametrize(("reported", "expected"), [("smallest", -2.0), ("largest", 100.0)])
def test_which_of_several_numbers_a_measurement_reports(reported: str, expected: float) -> None:
    @measurement("highest-score", "the highest score", reported=reported)
    def highest_score(loss, scores, lists):
        return float(scores.max()), f"of {scores.size} documents"

    try:
        labels = [2, 3]  # upside down, the highest score is -2
        report = check_loss("mse", labels, scores=[1.0, 0.0], names=["highest-score"])
    finally:
        del CHECKS["highest-score"]
    outcome = report["highest-score"]
    assert (outcome.status, outcome.value) == ("measured", expected)
    assert repr(outcome) == f"highest-score {expected:g}: of 2 documents"


def test_thinned_data_and_progress() -> None:
    progress = RecordedProgress()
    reports = check_losses(
        ["mse", "ranknet"],
        Lists.of(np.random.default_rng(0).integers(0, 3, 300), np.arange(0, 301, 3)),
        names=["finite", "shift", "text"],
        queries=10,
        progress=progress,
    )
    assert [outcome.queries for outcome in reports[1].outcomes] == [
        10,
        10,
        0,
    ]  # text looks at no data
    named = [
        f"{name}: {each}" for name in ("mse", "ranknet") for each in ("finite", "shift", "text")
    ]
    assert progress.updates == [(done, 6, text) for done, text in enumerate([*named, ""])]
    assert reports[0].summary == "mse: 2 laws hold, 1 check does not apply"
    assert len(check_losses(None, [1, 0], names=["text"])) == len(REGISTRY)
    assert check_losses([], [1, 0], names=["finite"]) == []


def test_long_checks_look_at_some_queries() -> None:
    lists = Lists.of(np.ones(9000), np.arange(0, 9001, 10))
    scores, some_of_lists = some_lists(np.arange(9000.0), lists)
    assert some_of_lists.sizes.size == 180
    assert scores[10] == 50.0  # the sixth query
    mixed = Lists.of(np.ones(400), [0, 300, 350, 400])
    assert short_lists(np.zeros(400), mixed)[1].sizes.tolist() == [50, 50]
    assert (
        check_loss("mse", Lists.of(np.ones(9000), lists.offsets), names=["derivative"])[
            "derivative"
        ].queries
        == 180
    )


class Stops(MSE):
    """Stops where the third document has the highest score of three."""

    def _bind(self, lists, seed, threads):
        objective = super()._bind(lists, seed, threads)
        plain = objective._gradients

        def gradients(scores, step):
            if scores.size == 3 and scores[2] > scores[0]:
                raise ZeroDivisionError("division by zero")
            return plain(scores, step)

        objective._gradients = gradients
        return objective


@dataclass(frozen=True)
class StopsAtTies(ListLoss):
    @staticmethod
    def one_list(scores, labels, grad, hess):
        if scores.size == 4 and scores.max() == scores.min():
            raise ValueError("ties")
        for i in range(scores.size):
            hess[i] = 1.0
        return 0.0


def test_a_loss_that_raises_an_error_breaks_the_check() -> None:
    outcome = check_loss(Stops(), [2, 1, 0], scores=[3.0, 2.0, 1.0], names=["finite"])["finite"]
    assert (outcome.status, outcome.margin) == ("broken", -math.inf)
    assert outcome.detail == "stopped with ZeroDivisionError: division by zero"
    # What ListLoss makes of an exception is an error of this library; it is a failure all the same.
    outcome = check_loss(StopsAtTies(), [1, 0], names=["extremes"])["extremes"]
    assert outcome.status == "broken"
    assert "StopsAtTies.one_list stopped with ValueError: ties" in outcome.detail


def test_a_loss_that_does_not_run_is_checked_no_further() -> None:
    class Never(MSE):
        def _bind(self, lists, seed, threads):
            raise OptionError("labels: found some; expected none")

    report = check_loss(Never(), names=["shift", "finite"])
    assert repr(report).endswith(
        "\n  runs broken: stopped with OptionError: labels: found some; expected none"
    )
    assert len(report.outcomes) == 1
    assert not report.holds


def test_a_gain_table_that_ends_too_soon_is_a_condition_and_no_failure() -> None:
    short = loss("lambdarank", gain=(0, 1, 3, 7, 15))
    report = check_loss(short, [5, 0], names=["finite", "large-labels", "curved"])
    assert report["finite"].status == "holds"  # on the synthetic lists
    assert (
        report["large-labels"].detail == "its labels end at 4, and these lists have a label of 1000"
    )
    assert report["curved"].status == "holds"
    outcome = CHECKS["finite"].outcome(short, np.zeros(2), Lists.of([5, 0]))
    assert outcome.status == "does not apply"
    assert outcome.detail == "its labels end at 4, and these lists have a label of 5"


def test_unknown_checks_are_named() -> None:
    with pytest.raises(OptionError, match=r"^unknown check 'xe-ndgc'; did you mean 'xe-ndcg'\?"):
        check_loss("xendcg", names=["xe-ndgc"])


def test_as_plain_values() -> None:
    report = check_loss(
        "softrank", Lists.of(LABELS, OFFSETS), names=["finite", "softrank-sigma-limit", "xe-ndcg"]
    )
    rows = report.to_dict()
    assert [row["status"] for row in rows.values()] == ["holds", "refuted", "does not apply"]
    assert rows["xe-ndcg"]["margin"] is None
    assert [row["kind"] for row in rows.values()] == ["law", "theorem", "theorem"]
    assert rows["softrank-sigma-limit"]["known_flaw"]
    assert report.summary == "softrank: 1 law holds, 1 theorem is refuted, 1 check does not apply"
    assert report.holds  # a known error of a paper says nothing against the loss
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
