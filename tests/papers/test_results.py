"""What a store shows: means, intervals, both tests, Holm, verdicts and the paper's numbers, against
SciPy by hand.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from tautrank.experiments.plan import System
from tautrank.experiments.protocols import FixedParts, OnItself
from tautrank.papers.claims import Better, BetterUnder, GapGrows, Reaches
from tautrank.papers.study import PaperTest
from tautrank.significance.systems import resampled_systems_test, systems_test
from tests import study_examples
from tests.study_examples import TINY

TRIALS = 6
filled = partial(study_examples.filled, trials=TRIALS, n_test=20)


def made_up(condition, system, metric, trial):
    """Trials of 8 of 40 queries; ListNet is a little better, more so under noise; the last query is
    skipped.
    """
    rng = np.random.default_rng([trial, *f"{condition} {system} {metric}".encode()])
    base = (
        0.5 + 0.05 * (system == "listnet") + 0.03 * (system == "listnet" and condition == "noisy")
    )
    values = base + 0.05 * rng.standard_normal(8)
    values[-1] = math.nan
    return values


@pytest.fixture(scope="module")
def result():
    return filled(TINY, made_up)


def means(condition, system, metric="ndcg@5"):
    return np.array(
        [np.nanmean(made_up(condition, system, metric, trial)) for trial in range(TRIALS)]
    )


def test_means_deviation_and_interval(result):
    cell = result.cell("noisy", "mse", "ndcg@5")
    expected = means("noisy", "mse")
    np.testing.assert_allclose(cell.means, expected, rtol=1e-15)
    assert cell.mean == pytest.approx(expected.mean())
    assert cell.deviation == pytest.approx(expected.std(ddof=1))
    assert cell.interval == pytest.approx(
        stats.t.interval(0.95, TRIALS - 1, expected.mean(), stats.sem(expected))
    )


def test_the_papers_t_test_is_scipys_paired_one(result):
    for condition in ("clean", "noisy"):
        cell = result.cell(condition, "listnet", "ndcg@5")
        expected = stats.ttest_rel(means(condition, "listnet"), means(condition, "mse"))
        assert cell.own.p_value == pytest.approx(expected.pvalue)
        assert cell.own.difference == pytest.approx(
            (means(condition, "listnet") - means(condition, "mse")).mean()
        )
    assert result.cell("clean", "mse", "ndcg@5").own is None


def in_place(plan, condition, metric="ndcg@5"):
    """Values of both systems ``[2, trials, 40]``, each query where the split of the data has it."""
    values = np.full((2, TRIALS, 40), math.nan)
    for of_system, system in zip(values, ("listnet", "mse"), strict=True):
        for trial in range(TRIALS):
            tested = np.random.default_rng(plan.seed_of(trial, 0)).permutation(40)[32:]
            of_system[trial, np.sort(tested)] = made_up(condition, system, metric, trial)
    return values


def holm(p_values):
    order = np.argsort(p_values)
    adjusted = np.empty(len(p_values))
    highest = 0.0
    for step, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def test_queries_are_averaged_over_the_trials_that_tested_them(result):
    expected = [resampled_systems_test(in_place(result.plan, c), 0.25) for c in ("clean", "noisy")]
    found = [result.cell(c, "listnet", "ndcg@5").tested for c in ("clean", "noisy")]
    assert [outcome.p_value for outcome in found] == pytest.approx(
        [test.p_values[0, 1] for test in expected]
    )
    assert [outcome.adjusted for outcome in found] == pytest.approx(
        holm([j.p_value for j in found])
    )
    assert found[0].test == "test over queries and trials"
    for outcome, test, condition in zip(found, expected, ("clean", "noisy"), strict=True):
        d = np.subtract(*in_place(result.plan, condition))
        by_query = [
            np.mean(of_query[~np.isnan(of_query)])
            for of_query in d.T
            if not np.isnan(of_query).all()
        ]
        assert outcome.difference == pytest.approx(np.mean(by_query))
        assert (outcome.standard_error, outcome.degrees) == (
            test.standard_errors[0, 1],
            test.degrees[0, 1],
        )
        assert (outcome.low, outcome.high) == pytest.approx((test.low[0, 1], test.high[0, 1]))
        assert outcome.detectable == pytest.approx(test.detectable)
    costs = resampled_systems_test(in_place(result.plan, "clean", "arp"), 0.25)
    cost = result.cell("clean", "listnet", "arp").tested
    assert (cost.difference, cost.low) == pytest.approx((costs.differences[0, 1], costs.low[0, 1]))


def test_verdicts_of_all_claims(result):
    lead = {c: means(c, "listnet") - means(c, "mse") for c in ("clean", "noisy")}
    advantages = [lead["clean"], lead["noisy"], lead["noisy"] - lead["clean"]]
    assert [v.sentence for v in result.verdicts] == [
        "listnet is better than mse on ndcg@5 (clean)",
        "listnet is better than mse on ndcg@5 (noisy)",
        "the lead of listnet over mse on ndcg@5 grows from clean to noisy",
    ]
    clean, noisy = (in_place(result.plan, c) for c in ("clean", "noisy"))
    grown = (noisy[0] - noisy[1]) - (clean[0] - clean[1])
    both = [clean, noisy, np.array([grown, 0 * grown])]
    expected = [resampled_systems_test(values, 0.25) for values in both]
    adjusted = holm([test.p_values[0, 1] for test in expected])
    for verdict, d, test, p in zip(result.verdicts, advantages, expected, adjusted, strict=True):
        assert verdict.trials == TRIALS
        assert verdict.own.difference == pytest.approx(d.mean())
        assert verdict.own.p_value == pytest.approx(stats.ttest_1samp(d, 0).pvalue)
        assert verdict.tested.p_value == pytest.approx(test.p_values[0, 1])
        assert verdict.tested.difference == pytest.approx(test.differences[0, 1])
        assert verdict.tested.adjusted == pytest.approx(p)
        for outcome in (verdict.own, verdict.tested):
            decided = "holds" if outcome.difference > 0 else "fails"
            assert outcome.verdict == (decided if outcome.adjusted <= 0.05 else "undecided")
    assert {v.own.verdict for v in result.verdicts[:2]} == {"holds"}
    text = " ".join(result.to_markdown().split())
    for verdict in result.verdicts:
        assert f"{verdict.tested.detectable:.4f}".removeprefix("0") in text


def test_all_systems_together_tell_the_variance_between_trials():
    three = replace(TINY, systems=(*TINY.systems, System("mse", "other")), claims=(TINY.claims[0],))
    found = filled(three, made_up, failing={("noisy", "other", 2)})
    values = np.array([*in_place(found.plan, "clean"), np.full((TRIALS, 40), math.nan)])
    for trial in range(TRIALS):
        tested = np.sort(np.random.default_rng(found.plan.seed_of(trial, 0)).permutation(40)[32:])
        values[2, trial, tested] = made_up("clean", "other", "ndcg@5", trial)
    clean, noisy = (verdict.tested for verdict in found.verdicts)
    assert clean.p_value == pytest.approx(resampled_systems_test(values, 0.25).p_values[0, 1])
    # A system that lacks a trial of the two that are compared is left out.
    two = resampled_systems_test(in_place(found.plan, "noisy"), 0.25)
    assert noisy.p_value == pytest.approx(two.p_values[0, 1])


def test_a_claim_the_numbers_contradict():
    reversed_claim = replace(TINY, claims=(Better(better="mse", worse="listnet", metric="ndcg@5"),))
    contradicted = filled(reversed_claim, made_up)
    assert contradicted.own_verdict == "fails"
    assert contradicted.verdicts[0].tested.difference < 0


def test_for_a_cost_the_lower_value_is_better():
    study = replace(
        TINY, claims=(Better(better="mse", worse="listnet", metric="arp", condition="clean"),)
    )
    found = filled(study, made_up)  # listnet has more, which is worse
    expected = (means("clean", "listnet", "arp") - means("clean", "mse", "arp")).mean()
    assert found.verdicts[0].own.difference == pytest.approx(expected)
    assert found.verdicts[0].tested.difference == found.cell("clean", "listnet", "arp").difference
    assert found.cell("clean", "listnet", "arp").difference > 0


def test_only_trials_that_both_have_done_are_compared():
    some = filled(TINY, made_up, failing={("clean", "mse", 0), ("clean", "listnet", 3)})
    both = [1, 2, 4, 5]
    d = (means("clean", "listnet") - means("clean", "mse"))[both]
    assert some.cell("clean", "listnet", "ndcg@5").own.p_value == pytest.approx(
        stats.ttest_1samp(d, 0).pvalue
    )
    assert some.cell("clean", "listnet", "ndcg@5").numbers == (0, 1, 2, 4, 5)
    assert some.n_done == 22
    assert "22 of 24 trainings" in some.to_markdown()


def test_too_few_trials_decide_nothing():
    one = filled(TINY, made_up, trials=1)
    assert {v.own.verdict for v in one.verdicts} == {"undecided"}
    assert one.verdicts[0].tested.note == "one run each: this compares two models, not two methods"
    assert "this compares two models, not two methods" in one.to_markdown()
    assert math.isnan(one.verdicts[0].own.p_value)
    assert math.isnan(one.cell("clean", "mse", "ndcg@5").deviation)
    json.dumps(one.to_dict(), allow_nan=False)
    none = filled(
        TINY,
        made_up,
        failing={
            (c, s, t) for c in ("clean", "noisy") for s in ("mse", "listnet") for t in range(TRIALS)
        },
    )
    assert none.n_done == 0
    assert "0 of 24" in none.to_markdown()
    none.to_latex()
    none.to_csv()


def test_a_test_over_queries_takes_the_first_trial():
    study = replace(TINY, test=PaperTest(over="queries", one_sided=True), protocol=FixedParts())
    found = filled(study, made_up)
    d = (made_up("clean", "listnet", "ndcg@5", 0) - made_up("clean", "mse", "ndcg@5", 0))[:-1]
    assert found.verdicts[0].own.p_value == pytest.approx(
        stats.ttest_1samp(d, 0, alternative="greater").pvalue
    )


def test_fixed_test_queries_are_counted_beside_the_trials():
    found = filled(replace(TINY, protocol=FixedParts()), made_up)
    values = {
        c: np.array(
            [[made_up(c, s, "ndcg@5", t) for t in range(TRIALS)] for s in ("listnet", "mse")]
        )
        for c in ("clean", "noisy")
    }
    grown = (values["noisy"][0] - values["noisy"][1]) - (values["clean"][0] - values["clean"][1])
    both = [*values.values(), np.array([grown, 0 * grown])]
    raw = [systems_test(each).p_values[0, 1] for each in both]
    assert [v.tested.p_value for v in found.verdicts] == pytest.approx(raw)
    assert [v.tested.adjusted for v in found.verdicts] == pytest.approx(holm(raw))
    redivided = filled(replace(TINY, protocol=FixedParts(redivide=True)), made_up)
    expected = systems_test(both[0], 20 / 60).p_values[0, 1]
    assert redivided.verdicts[0].tested.p_value == pytest.approx(expected)


def test_queries_that_some_conditions_skip_are_left_out_of_claims_about_both():
    """Labels of one condition may leave a query without a relevant document that another condition
    has.
    """

    def skipping(condition, system, metric, trial):
        values = made_up(condition, system, metric, trial)
        values[1] = math.nan if condition == "noisy" else values[1]
        return values

    claims = (
        BetterUnder(system="mse", better="clean", worse="noisy", metric="ndcg@5"),
        *TINY.claims[1:],
    )
    found = filled(replace(TINY, protocol=FixedParts(), claims=claims), skipping)
    used = np.array([0, 2, 3, 4, 5, 6])
    values = np.array(
        [[made_up(c, "mse", "ndcg@5", t)[used] for t in range(TRIALS)] for c in ("clean", "noisy")]
    )
    assert found.verdicts[0].tested.p_value == pytest.approx(systems_test(values).p_values[0, 1])
    assert not math.isnan(found.verdicts[1].tested.p_value)


def test_trials_of_other_queries_than_planned_count_as_their_own():
    found = filled(TINY, lambda *place: made_up(*place)[:5])  # the split has 8
    assert "no query was tested in two trials" in found.verdicts[0].tested.note


def test_constant_values_need_no_luck():
    """All trials alike, as where nothing is random: above the value is above it."""
    study = replace(
        TINY,
        protocol=OnItself(),
        claims=(
            Reaches(
                system="listnet", value=0.9, tolerance=0.001, metric="ndcg@5", condition="clean"
            ),
            Reaches(system="mse", value=0.9, metric="ndcg@5", condition="clean"),
            BetterUnder(system="mse", better="clean", worse="noisy", metric="ndcg@5"),
        ),
    )
    found = filled(
        study, lambda c, s, m, t: np.array([0.8, 1.0]) if s == "listnet" else np.array([0.8, 0.8])
    )
    assert [v.tested.verdict for v in found.verdicts] == ["holds", "fails", "undecided"]
    assert [v.own.verdict for v in found.verdicts] == ["holds", "fails", "undecided"]


def test_a_relative_gap_is_a_share_of_the_worse_systems_value():
    claim = GapGrows(
        better="listnet", worse="mse", first="clean", last="noisy", metric="ndcg@5", relative=True
    )
    found = filled(replace(TINY, claims=(claim,)), made_up)
    gain = {c: means(c, "listnet") / means(c, "mse") - 1 for c in ("clean", "noisy")}
    assert found.verdicts[0].own.difference == pytest.approx((gain["noisy"] - gain["clean"]).mean())
    # One trial: the difference of the queries is that of the ratios of means.
    one = filled(replace(TINY, claims=(claim,)), made_up, trials=1)
    assert one.verdicts[0].tested.difference == pytest.approx(gain["noisy"][0] - gain["clean"][0])
    assert 0 < one.verdicts[0].tested.standard_error < 1


def test_every_form_holds_the_same_numbers(result):
    plain = result.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    assert len(rows) == len(result.cells) == len(plain["cells"]) == 8
    markdown, latex = result.to_markdown(), result.to_latex()
    for cell, row, entry in zip(result.cells, rows, plain["cells"], strict=True):
        assert (row["condition"], row["system"], row["metric"]) == (
            cell.condition,
            cell.system,
            cell.metric,
        )
        assert float(row["mean"]) == entry["mean"] == cell.mean
        assert float(row["low"]) == entry["interval"][0]
        assert list(entry["by_trial"].values()) == cell.means.tolist()
        assert f"{cell.mean:.4f}" in markdown
        assert f"{cell.mean:.4f}" in latex
    assert rows[0]["in print"] == "0.4"
    assert "| 0.4000 |" in markdown
    for verdict in result.verdicts:
        assert verdict.sentence in markdown
        judged = (
            verdict.tested.verdict,
            "<.0001" if verdict.tested.adjusted < 1e-4 else f"{verdict.tested.adjusted:.4f}",
        )
        assert f"{verdict.sentence}: {judged[0]}, p {judged[1].removeprefix('0')};" in latex
    assert [row["value"] for row in rows[::4]] == ["0.0", "0.4"]
    assert latex.count(r"\\") == 2 * (1 + 4)  # one table per metric


def test_terminal_tables_have_all_cells_and_claims(result):
    from rich.console import Console

    console = Console(width=160, color_system=None)
    with console.capture() as captured:
        for table in result.tables():
            console.print(table)
    text = captured.get()
    for cell in result.cells:
        assert f"{cell.mean:.4f}" in text
    assert "grows from clean to noisy" in text


def test_names_are_escaped_for_latex():
    study = replace(
        TINY,
        systems=(System("mse", "a_b & 50%"), System("listnet")),
        recipes=(),
        claims=(),
        baseline="listnet",
    )
    latex = filled(study, made_up).to_latex()
    assert r"a\_b \& 50\% &" in latex
