"""What a store shows: means, intervals, both tests, Holm, verdicts and the paper's numbers, against SciPy by hand."""

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

from tautrank.experiments.divide import FixedParts, OnItself, Resampling
from tautrank.experiments.plan import System
from tautrank.papers.claims import Better, BetterUnder, GapGrows, Reaches
from tautrank.papers.results import Advantage, corrected_test, own_test
from tautrank.papers.study import PaperTest
from tautrank.significance.repeated import repeated_runs_test
from tests import study_examples
from tests.study_examples import TINY

TRIALS = 6
filled = partial(study_examples.filled, trials=TRIALS, n_test=20)


def made_up(condition, system, metric, trial):
    """Trials of 5 queries; ListNet is a little better, more so under noise; the last query is skipped."""
    rng = np.random.default_rng([trial, *f"{condition} {system} {metric}".encode()])
    base = 0.5 + 0.05 * (system == "listnet") + 0.03 * (system == "listnet" and condition == "noisy")
    values = base + 0.05 * rng.standard_normal(5)
    values[-1] = math.nan
    return values


@pytest.fixture(scope="module")
def result():
    return filled(TINY, made_up)


def means(condition, system, metric="ndcg@5"):
    return np.array([np.nanmean(made_up(condition, system, metric, trial)) for trial in range(TRIALS)])


def test_means_deviation_and_interval(result):
    cell = result.cell("noisy", "mse", "ndcg@5")
    expected = means("noisy", "mse")
    np.testing.assert_allclose(cell.means, expected, rtol=1e-15)
    assert cell.mean == pytest.approx(expected.mean())
    assert cell.deviation == pytest.approx(expected.std(ddof=1))
    assert cell.interval == pytest.approx(stats.t.interval(0.95, TRIALS - 1, expected.mean(), stats.sem(expected)))


def test_the_papers_t_test_is_scipys_paired_one(result):
    for condition in ("clean", "noisy"):
        cell = result.cell(condition, "listnet", "ndcg@5")
        expected = stats.ttest_rel(means(condition, "listnet"), means(condition, "mse"))
        assert cell.own.p_value == pytest.approx(expected.pvalue)
        assert cell.difference == pytest.approx((means(condition, "listnet") - means(condition, "mse")).mean())
    assert result.cell("clean", "mse", "ndcg@5").own is None


def corrected_p(d, overlap=20 / 60):
    t = d.mean() / math.sqrt((1 / d.size + overlap) * d.var(ddof=1))
    return 2 * stats.t.sf(abs(t), d.size - 1)


def holm(p_values):
    order = np.argsort(p_values)
    adjusted = np.empty(len(p_values))
    highest = 0.0
    for step, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def test_the_corrected_test_counts_shared_data_and_many_comparisons(result):
    raw = [corrected_p(means(c, "listnet") - means(c, "mse")) for c in ("clean", "noisy")]
    found = [result.cell(c, "listnet", "ndcg@5").corrected for c in ("clean", "noisy")]
    assert [judgement.p_value for judgement in found] == pytest.approx(holm(raw))
    assert found[0].test == "corrected resampled t-test"


def test_verdicts_of_all_claims(result):
    lead = {c: means(c, "listnet") - means(c, "mse") for c in ("clean", "noisy")}
    advantages = [lead["clean"], lead["noisy"], lead["noisy"] - lead["clean"]]
    assert [v.sentence for v in result.verdicts] == [
        "listnet is better than mse on ndcg@5 (clean)",
        "listnet is better than mse on ndcg@5 (noisy)",
        "the lead of listnet over mse on ndcg@5 grows from clean to noisy",
    ]
    adjusted = holm([corrected_p(d) for d in advantages])
    for verdict, d, p in zip(result.verdicts, advantages, adjusted, strict=True):
        assert verdict.advantage == pytest.approx(d.mean())
        assert verdict.trials == TRIALS
        assert verdict.own.p_value == pytest.approx(stats.ttest_1samp(d, 0).pvalue)
        assert verdict.corrected.p_value == pytest.approx(p)
        for judgement in (verdict.own, verdict.corrected):
            decided = "agrees" if d.mean() > 0 else "does not agree"
            assert judgement.verdict == (decided if judgement.p_value <= 0.05 else "not decidable")
    assert {v.own.verdict for v in result.verdicts[:2]} == {"agrees"}


def test_a_claim_the_numbers_contradict():
    reversed_claim = replace(TINY, claims=(Better(better="mse", worse="listnet", metric="ndcg@5"),))
    contradicted = filled(reversed_claim, made_up)
    assert contradicted.own_verdict == "does not agree"


def test_for_a_cost_the_lower_value_is_better():
    study = replace(TINY, claims=(Better(better="mse", worse="listnet", metric="arp", condition="clean"),))
    found = filled(study, made_up)  # listnet has more, which is worse
    assert found.verdicts[0].advantage == pytest.approx(
        (means("clean", "listnet", "arp") - means("clean", "mse", "arp")).mean()
    )
    assert found.cell("clean", "listnet", "arp").difference > 0


def test_only_trials_that_both_have_done_are_compared():
    some = filled(TINY, made_up, failing={("clean", "mse", 0), ("clean", "listnet", 3)})
    both = [1, 2, 4, 5]
    d = (means("clean", "listnet") - means("clean", "mse"))[both]
    assert some.cell("clean", "listnet", "ndcg@5").own.p_value == pytest.approx(stats.ttest_1samp(d, 0).pvalue)
    assert some.cell("clean", "listnet", "ndcg@5").numbers == (0, 1, 2, 4, 5)
    assert some.n_done == 22
    assert "22 of 24 trainings" in some.to_markdown()


def test_too_few_trials_decide_nothing():
    one = filled(TINY, made_up, trials=1)
    assert {v.own.verdict for v in one.verdicts} == {"not decidable"}
    assert one.verdict == "not decidable"
    assert math.isnan(one.verdicts[0].own.p_value)
    assert math.isnan(one.cell("clean", "mse", "ndcg@5").deviation)
    json.dumps(one.to_dict(), allow_nan=False)
    none = filled(
        TINY,
        made_up,
        failing={(c, s, t) for c in ("clean", "noisy") for s in ("mse", "listnet") for t in range(TRIALS)},
    )
    assert none.n_done == 0
    assert "0 of 24" in none.to_markdown()
    none.to_latex()
    none.to_csv()


def test_a_test_over_queries_takes_the_first_trial():
    study = replace(TINY, test=PaperTest(over="queries", one_sided=True), protocol=FixedParts())
    found = filled(study, made_up)
    d = (made_up("clean", "listnet", "ndcg@5", 0) - made_up("clean", "mse", "ndcg@5", 0))[:-1]
    assert found.verdicts[0].own.p_value == pytest.approx(stats.ttest_1samp(d, 0, alternative="greater").pvalue)


def test_fixed_test_queries_are_counted_beside_the_trials():
    found = filled(replace(TINY, protocol=FixedParts()), made_up)
    both = [np.array([made_up("clean", s, "ndcg@5", t) for t in range(TRIALS)]) for s in ("listnet", "mse")]
    lead = [
        np.array([made_up(c, "listnet", "ndcg@5", t) - made_up(c, "mse", "ndcg@5", t) for t in range(TRIALS)])
        for c in ("clean", "noisy")
    ]
    zeros = np.where(np.isnan(lead[0]), np.nan, 0.0)
    raw = [repeated_runs_test(*both).p_value]
    raw += [repeated_runs_test(lead[1], zeros).p_value, repeated_runs_test(lead[1] - lead[0], zeros).p_value]
    assert [v.corrected.p_value for v in found.verdicts] == pytest.approx(holm(raw))
    assert found.verdicts[0].corrected.test == "repeated-runs test"
    redivided = filled(replace(TINY, protocol=FixedParts(redivide=True)), made_up)
    corrected = repeated_runs_test(*both, overlap=20 / 60).p_value
    assert redivided.verdicts[0].corrected.p_value > found.verdicts[0].corrected.p_value
    assert redivided.verdicts[0].corrected.p_value >= corrected


def test_intervals_touch_exactly_at_the_p_value():
    """At the level p the two confidence intervals end at the same number."""
    rng = np.random.default_rng(0)
    a, b = 0.52 + 0.01 * rng.standard_normal(5), 0.50 + 0.02 * rng.standard_normal(5)
    p = own_test(Advantage(a - b, None, (a, b)), PaperTest("intervals")).p_value
    low_of_a = stats.t.interval(1 - p, 4, a.mean(), stats.sem(a))[0]
    high_of_b = stats.t.interval(1 - p, 4, b.mean(), stats.sem(b))[1]
    assert low_of_a == pytest.approx(high_of_b, abs=1e-12)


def test_constant_values_need_no_luck():
    """All trials alike, as where nothing is random: above the value is above it."""
    study = replace(
        TINY,
        protocol=OnItself(),
        claims=(
            Reaches(system="listnet", value=0.9, tolerance=0.001, metric="ndcg@5", condition="clean"),
            Reaches(system="mse", value=0.9, metric="ndcg@5", condition="clean"),
            BetterUnder(system="mse", better="clean", worse="noisy", metric="ndcg@5"),
        ),
    )
    found = filled(study, lambda c, s, m, t: np.array([0.8, 1.0]) if s == "listnet" else np.array([0.8, 0.8]))
    assert [v.corrected.verdict for v in found.verdicts] == ["agrees", "does not agree", "not decidable"]
    assert [v.own.verdict for v in found.verdicts] == ["agrees", "does not agree", "not decidable"]


def test_a_relative_gap_is_a_share_of_the_worse_systems_value():
    claim = GapGrows(better="listnet", worse="mse", first="clean", last="noisy", metric="ndcg@5", relative=True)
    found = filled(replace(TINY, claims=(claim,)), made_up)
    gain = {c: means(c, "listnet") / means(c, "mse") - 1 for c in ("clean", "noisy")}
    assert found.verdicts[0].advantage == pytest.approx((gain["noisy"] - gain["clean"]).mean())


def test_correction_is_never_more_eager_than_the_plain_test():
    rng = np.random.default_rng(1)
    for _ in range(50):
        advantage = Advantage(rng.standard_normal(10) + 0.5)
        plain = own_test(advantage, PaperTest()).p_value
        assert corrected_test(advantage, Resampling(), 0.05, 1 / 3).p_value >= plain


def test_every_form_holds_the_same_numbers(result):
    plain = result.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    assert len(rows) == len(result.cells) == len(plain["cells"]) == 8
    markdown, latex = result.to_markdown(), result.to_latex()
    for cell, row, entry in zip(result.cells, rows, plain["cells"], strict=True):
        assert (row["condition"], row["system"], row["metric"]) == (cell.condition, cell.system, cell.metric)
        assert float(row["mean"]) == entry["mean"] == cell.mean
        assert float(row["low"]) == entry["interval"][0]
        assert list(entry["by_trial"].values()) == cell.means.tolist()
        assert f"{cell.mean:.4f}" in markdown
        assert f"{cell.mean:.4f}" in latex
    assert rows[0]["in print"] == "0.4"
    assert "| 0.4000 |" in markdown
    for verdict in result.verdicts:
        assert verdict.sentence in markdown
        assert verdict.sentence in latex
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
        TINY, systems=(System("mse", "a_b & 50%"), System("listnet")), recipes=(), claims=(), baseline="listnet"
    )
    latex = filled(study, made_up).to_latex()
    assert r"a\_b \& 50\% &" in latex
