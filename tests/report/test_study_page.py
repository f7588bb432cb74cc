"""The page of a study: its numbers beside those of to_dict, its figures, what it escapes; and in a browser."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shlex
import sys
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tautrank.errors import MissingDependencyError
from tautrank.experiments.divide import FixedParts, OwnFolds
from tautrank.experiments.plan import Budget, Condition
from tautrank.experiments.store import Outcome
from tautrank.experiments.system import System
from tautrank.papers.catalogue import CATALOGUE, find_study
from tautrank.papers.claims import Better, Reaches
from tautrank.papers.plan import make_plan
from tautrank.papers.results import collect, read_results
from tautrank.papers.run import StudyStore, run_study
from tautrank.report.gains import difficulty_groups, interval_over_trials
from tautrank.report.study_page import command, python_call, study_page
from tautrank.significance.paired import corrected_resampled_t_test
from tests.command_line import run
from tests.report.test_comparison_page import DESKTOP, NASTY, PHONE, Reader, browser  # noqa: F401
from tests.study_examples import DATA, TINY, WITH_A_FAILURE, content

QUERIES = "simulated:mslr:60,mean_length=6"
GAINS = ["Gain of each query over {}", "Gain by difficulty of the query"]
FIGURES = {
    "xe-table1": ["Every trial", *GAINS],
    "xe-figure1": ["The gap of many gammas"],
    "xe-figure2": ["Validation by number of trees", "Every trial", *GAINS],
    "xe-figure3-negatives": ["ndcg@5 by condition", "Lead over {} in ndcg@5"],
    "xe-figure3-labels": ["ndcg@5 by condition", "Lead over {} in ndcg@5"],
    "xe-figure4": ["ndcg@5 by condition", "Lead over {} in ndcg@5"],
    "binary-table1": [f"{title} ({c})" for c in ("graded", "binary") for title in ("Every trial", *GAINS)],
    "lambdaloss-table3": ["Every trial", *GAINS],
    "lambdaloss-table4": ["Every trial", *GAINS],
    "lambdaloss-table5": ["Every trial", *GAINS],
    "lambdaloss-figure3": ["ndcg@5 by condition", "Lead over {} in ndcg@5"],
    "lambdaloss-figure4": [
        "ndcg@1, ndcg@3, ndcg@5, ndcg@10 by condition",
        "Lead over {} in ndcg@1, ndcg@3, ndcg@5, ndcg@10",
    ],
    "lambdaloss-figure5": [
        "Training queries by number of trees",
        "Validation by number of trees",
        "Every trial",
        *GAINS,
    ],
    "stochasticrank-table1": ["Every trial"],  # two queries have no distribution
    "stochasticrank-table2-ndcg": ["Every trial", *GAINS],
    "stochasticrank-table2-mrr": ["Every trial", *GAINS],
    "stochasticrank-table3": ["Every trial", *GAINS],
    "directness-sigma": ["Distance from NDCG and its bounds", "What softrank gives by condition"],
    "directness-losses": ["How direct each loss is"],
}


PLAIN = replace(TINY, conditions=(Condition(),), claims=(), recipes=())


@pytest.fixture
def without_drawing(monkeypatch):
    """Pages without the program that draws: a hundredth of the size, and quick to read."""
    monkeypatch.setattr("tautrank.report.figures.plotly_javascript", lambda: "// draws")


@pytest.fixture(scope="module")
def ran():
    """Studies of the catalogue under the least budget, each run once."""
    done = {}

    def run(name):
        if name not in done:
            study = find_study(name)
            data = "" if study.data in ("none", "five-documents") else QUERIES
            done[name] = run_study(study, data, budget=Budget(trials=2, configurations=0, trees=2))
        return done[name]

    return run


def filled(study, values, trials=4, data=DATA, failing=()):
    """The result of a store with made-up numbers: ``values(condition, system, metric, trial)``, one a query."""
    store = StudyStore.open_for(None, make_plan(study, data, budget=Budget(trials=trials)), "typed <b>by</b> hand")
    for trial in store.plan.trials():
        place = tuple(trial.spec[name] for name in ("condition", "system", "trial"))
        if place in failing:
            store.record(trial, Outcome("failed", error=f"{NASTY} went wrong", host="here"))
            continue
        test = {m: np.asarray(values(*place[:2], m, place[2])) for m in trial.spec["metrics"]}
        of_all = {m: None if np.isnan(v).all() else float(np.nanmean(v)) for m, v in test.items()}
        means = dict.fromkeys(study.judged, of_all)
        plain = {m: [None if math.isnan(x) else x for x in v.tolist()] for m, v in test.items()}
        sizes = {"train": 60, "valid": 20, "test": len(next(iter(plain.values())))}
        result = {"test": plain, "means": means, "trees": 3, "queries": sizes}
        store.record(trial, Outcome("done", json.dumps(result), seconds=0.5, host="here"))
    return collect(store)


def made_up(condition, system, metric, trial):
    """Forty queries a trial; every system but the first gains 0.05 in truth, more under noise; one query is skipped."""
    rng = np.random.default_rng([trial, *f"{condition}{metric}".encode()])
    base = rng.random(40)
    gain = 0.0 if system in ("mse", NASTY) else 0.05 + 0.05 * (condition == "noisy")
    own = np.random.default_rng([trial, *f"{condition}{metric}{system}".encode()])
    values = 0.7 * base + gain + 0.04 * own.random(40)
    values[3] = math.nan
    return values


@pytest.fixture(scope="module")
def tiny():
    return filled(TINY, made_up)


def read(result):
    return Reader(study_page(result).to_html())


def titles(page, level):
    return [text for depth, text in page.headings if depth == level]


def place(page, title):
    """The id of the section of that title."""
    ids = [a["id"].removesuffix("-title") for tag, a in page.elements if re.fullmatch("h[2-6]", tag)]
    return ids[[text for _, text in page.headings[1:]].index(title)]


def table(page, title):
    """The rows of the table of that section, by heading."""
    labels = [attributes["aria-labelledby"] for tag, attributes in page.elements if tag == "table"]
    head, *rows = page.tables[labels.index(f"{place(page, title)}-title")]
    return [dict(zip([cell["text"] for cell in head], row, strict=True)) for row in rows]


def key(cell):
    return None if cell.get("data-key") is None else float(cell["data-key"])


def figure(page, title):
    """The data of the figure of that section."""
    name = f"{place(page, title)}-figure"
    return json.loads(next(text for attributes, text in page.scripts if attributes.get("id") == name))


def lines(drawn):
    return {trace["legendgroup"]: trace for trace in drawn["data"] if trace.get("fill") != "toself"}


def bands(drawn):
    """Low and high by system."""
    found = {}
    for trace in drawn["data"]:
        if trace.get("fill") == "toself":
            half = len(trace["y"]) // 2
            found[trace["legendgroup"]] = (trace["y"][half:][::-1], trace["y"][:half])
    return found


# ---- Every study of the catalogue


def test_every_study_is_looked_at():
    assert list(FIGURES) == list(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_page_holds_the_numbers_of_to_dict(name, ran, without_drawing):
    result = ran(name)
    plain, page, study = result.to_dict(), read(result), find_study(name)
    levels = [level for level, _ in page.headings]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.title == study.title
    claims = table(page, "Claims")
    assert len(claims) == len(plain["claims"])
    for row, claim in zip(claims, plain["claims"], strict=True):
        assert row["claim"]["text"] == claim["sentence"]
        assert key(row["advantage"]) == claim["advantage"]
        assert row["trials"]["text"] == str(claim["trials"])
        for title, test in (("paper's test", "own"), ("corrected test", "corrected")):
            assert row[title]["text"].startswith(claim[test]["verdict"] + ", p ")
            assert key(row[title]) == claim[test]["p"]
    shown = means_shown(page, result)
    for cell in plain["cells"]:
        found = shown[cell["condition"], cell["system"], cell["metric"], cell["part"]]
        assert key(found) == cell["mean"]
        assert found["text"].split(" ")[0] == ("-" if cell["mean"] is None else f"{cell['mean']:.4f}")
    drawn = [title.format(study.baseline) for title in FIGURES[name]]
    assert titles(page, 3)[-2 - len(drawn) : -2] == drawn
    assert len([a for _, a in page.elements if "data-figure" in a]) == len(drawn)


def means_shown(page, result):
    """The cells of the tables of results, by place."""
    study = result.plan.study
    metrics = list(dict.fromkeys(cell.metric for cell in result.cells))
    alone, parts = len(study.systems) == 1, len(study.judged) > 1
    names = [title for title in metrics if title in titles(page, 3)] or ["Results"]
    found = {}
    for title in names:
        for row in table(page, title):
            condition = row["condition"]["text"] if "condition" in row else "plain"
            system = study.system_names[0] if alone else row["system"]["text"]
            measured = metrics if alone else [row["metric"]["text"]] if "metric" in row else [title]
            measured = metrics if measured == ["Results"] else measured
            for metric in measured:
                for part in study.judged:
                    column = part if parts else "mean" if "metric" in row else metric
                    found[condition, system, metric, part] = row[column]
    return found


@pytest.mark.parametrize("name", ["xe-table1", "lambdaloss-table3", "binary-table1", "stochasticrank-table1"])
def test_papers_numbers_stand_beside_those_found(name, ran, without_drawing):
    result = ran(name)
    study, recipe = result.plan.study, result.plan.used_recipe
    if name == "binary-table1":  # its first recipe is for other data, and prints nothing
        result = run_study(study, QUERIES, budget=Budget(trials=1, trees=1), recipe="yahoo1")
        recipe = result.plan.used_recipe
    rows = table(read(result), "Beside the paper's numbers")
    assert len(rows) == len(recipe.printed)
    expected = {(p.condition, p.system, p.metric, p.part): p for p in recipe.printed}
    for row in rows:
        place = (
            row["condition"]["text"] if "condition" in row else "plain",
            row["system"]["text"],
            row["metric"]["text"],
            row["queries"]["text"] if "queries" in row else "test",
        )
        printed, here = expected.pop(place), result.cell(*place)
        assert key(row["in print"]) == printed.value
        assert key(row["here"]) == here.mean
        assert key(row["here minus print"]) == pytest.approx(here.mean - printed.value)
        base = (place[0], study.baseline, *place[2:])
        if place == base:
            assert row["lead in print"]["text"] == row["lead here"]["text"] == ""
            continue
        reference = next(p for p in recipe.printed if (p.condition, p.system, p.metric, p.part) == base)
        assert key(row["lead in print"]) == pytest.approx(printed.value - reference.value)
        assert key(row["lead here"]) == pytest.approx(here.mean - result.cell(*base).mean)
    assert not expected


# ---- Tables and words, on made-up numbers


def test_significance_is_marked_and_directions_are_signs(tiny, without_drawing):
    page = read(tiny)
    for metric in ("ndcg@5", "arp"):
        for row in table(page, metric):
            cell = tiny.cell(row["condition"]["text"], row["system"]["text"], metric)
            if cell.system == "mse":
                assert [row[title]["text"] for title in ("minus mse", "p own", "p corr.", "w/t/l")] == [""] * 4
                continue
            assert key(row["minus mse"]) == cell.difference
            assert (key(row["p own"]), key(row["p corr."])) == (cell.own.p_value, cell.corrected.p_value)
            marks = "†" * (cell.own.p_value <= 0.05) + "*" * (cell.corrected.p_value <= 0.05)
            assert row["minus mse"]["marks"] == marks
    assert {row["minus mse"]["marks"] for row in table(page, "ndcg@5") if row["system"]["text"] != "mse"} == {"†*"}
    assert key(table(page, "ndcg@5")[0]["condition"]) == 0.0  # conditions sort by their value
    assert "(lower is better)" in "".join(table(page, "arp")[0])


def test_won_tied_and_lost_count_the_queries_of_all_trials(tiny, without_drawing):
    for row in table(read(tiny), "arp")[1::2]:
        condition = row["condition"]["text"]
        ours, theirs = (
            np.concatenate([made_up(condition, system, "arp", t) for t in range(4)]) for system in ("listnet", "mse")
        )
        lower = np.sum(ours < theirs)  # a cost
        assert row["w/t/l"]["text"] == f"{lower}/0/{4 * 39 - lower}"


def test_words_say_the_verdict_what_is_missing_and_who_is_best():
    from tautrank.report.study_page import answer

    failing = {("clean", "mse", 0), ("noisy", "listnet", 2)}
    assert answer(filled(TINY, made_up, failing=failing)) == [
        "The numbers agree with the claim: by both tests 3 of 3 comparisons agree.",
        "14 of 16 trainings are done, 2 failed: numbers are of what is done.",
    ]
    plain = replace(PLAIN, metrics=("ndcg@5",))
    # Leads of 1, 2, 3 and 4 hundredths: t is 3.9 where trials are taken for independent, and 2.0 where they are not.
    claims = (Better(better="listnet", worse="mse", metric="ndcg@5"), Reaches(system="mse", value=0.1, metric="ndcg@5"))
    rising = filled(
        replace(plain, claims=claims),
        lambda c, system, m, trial: np.full(40, 0.5 + 0.01 * (trial + 1) * (system == "listnet")),
    )
    assert answer(rising) == [
        "The numbers do not decide the claim: by the corrected test 1 of 2 comparisons agrees, 1 is not decidable; by "
        "the paper's own test 2 of 2 comparisons agree.",
        "ndcg@5: listnet has the best mean, 0.5250: +.0250 against mse, significant by the paper's own test.",
    ]
    wrong = replace(plain, claims=(Better(better="mse", worse="listnet", metric="ndcg@5"),))
    assert answer(filled(wrong, made_up))[0] == (
        "The numbers do not agree with the claim: by both tests the one comparison does not agree."
    )
    best = answer(filled(wrong, made_up))[1]
    assert best.startswith("ndcg@5: listnet has the best mean, 0.")
    assert best.endswith(" against mse, significant by the corrected test and the paper's own test.")
    both = replace(plain, claims=(*wrong.claims, Reaches(system="mse", value=5.0, metric="ndcg@5")))
    assert "by both tests 0 of 2 comparisons agree, 2 do not." in answer(filled(both, made_up))[0]
    assert answer(filled(wrong, lambda *_: [0.5, 0.5]))[1] == "ndcg@5: mse has the best mean, 0.5000."


def test_csv_holds_numbers_in_full(tiny, without_drawing):
    code = read(tiny).code
    rows = list(csv.DictReader(io.StringIO(next(text for text in code if text.startswith("value,condition,system")))))
    for row in rows:
        cell = tiny.cell(row["condition"], row["system"], "ndcg@5")
        assert float(row["ndcg@5"]) == cell.mean
        assert (float(row["ndcg@5 low"]), float(row["ndcg@5 high"])) == cell.interval
        assert row["p corr."] == ("" if cell.corrected is None else repr(cell.corrected.p_value))


def test_settings_say_seeds_versions_parameters_and_command(ran, without_drawing):
    result = ran("xe-figure3-labels")
    html = study_page(result).to_html()
    seeds = {str(trial.spec["seed"]) for trial in result.plan.trials()}
    for text in (*seeds, "xe-figure3-labels, version 1", result.meta["data_fingerprint"], f"NumPy {np.__version__}"):
        assert text in html
    rows = table(read(result), "What was trained")
    assert len(rows) == 12
    assert rows[3]["loss"]["text"] == "xendcg"
    assert "num_leaves=400" in rows[3]["parameters"]["text"]
    assert "n_estimators=2" in rows[3]["parameters"]["text"]
    assert rows[3]["change of the data"]["text"] == "perturb-labels(probability=0.1) of train"


def test_search_spaces_are_told(without_drawing):
    study = find_study("stochasticrank-table3")
    result = run_study(study, QUERIES, budget=Budget(trials=1, configurations=1, trees=1))
    row = table(read(result), "What was trained")[-1]
    assert "langevin=Langevin(temperature=1e+08" in row["parameters"]["text"]
    assert "langevin.temperature=Uniform(low=100000000.0" in row["searched"]["text"]


def test_names_are_shown_as_they_are_and_failures_are_named(without_drawing):
    nasty = replace(
        TINY,
        title=NASTY,
        claim=NASTY,
        note=NASTY,
        axis=NASTY,
        systems=(System("mse", NASTY), System("listnet", f"{NASTY} 2")),
        conditions=(Condition(NASTY, 1.0), Condition(f"{NASTY} 2", 2.0)),
        claims=(Better(better=f"{NASTY} 2", worse=NASTY, metric="ndcg@5", text=NASTY),),
        recipes=(),
        baseline="",
    )
    page = study_page(filled(nasty, made_up, failing={(NASTY, NASTY, 1)}))
    text = page.to_html()
    found = Reader(text)
    assert found.title == page.lead == NASTY
    assert not {tag for tag, _ in found.elements} & {"b", "img"}
    assert not [script for attributes, script in found.scripts if "type" not in attributes and "hacked" in script]
    [row] = table(found, "Trials that failed")
    assert row["trial"]["text"] == f"trial 2, {NASTY}, {NASTY}"
    assert row["error"]["text"] == f"{NASTY} went wrong"
    drawn = figure(found, "ndcg@5 by condition")
    assert "<" not in "".join(drawn["layout"]["xaxis"]["ticktext"]) + drawn["layout"]["xaxis"]["title"]["text"]


def test_nothing_is_fetched(ran):
    text = study_page(ran("xe-table1")).to_html()
    page = Reader(text)
    for tag, attributes in page.elements:
        assert tag not in ("img", "link", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    own = text
    for attributes, script in page.scripts:
        if "type" not in attributes:
            own = own.replace(script, "")
    assert "//" not in own.replace("<!doctype html>", "")
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy


def test_same_store_same_bytes(tiny, without_drawing):
    assert study_page(tiny).to_html() == study_page(tiny).to_html()


@pytest.mark.parametrize("trials", [1, 2])
def test_unfinished_and_failed_studies_are_still_pages(trials, without_drawing):
    nothing = collect(StudyStore.open_for(None, make_plan(TINY, DATA, budget=Budget(trials=trials))))
    page = read(nothing)
    assert titles(page, 2) == ["Answer", "Claims", "Results", "Beside the paper's numbers", "Settings", "Run it again"]
    assert f"0 of {4 * trials} trainings are done: numbers are of what is done." in study_page(nothing).to_html()
    assert all(value is None for value in (key(row["ndcg@5"]) for row in table(page, "ndcg@5")))
    for name in CATALOGUE:
        study = find_study(name)
        data = "" if study.data in ("none", "five-documents") else DATA
        empty = collect(StudyStore.open_for(None, make_plan(study, data, budget=Budget(trials=trials))))
        assert "Figures" not in titles(read(empty), 2)
    if trials == 2:
        broken = run_study(WITH_A_FAILURE, DATA, budget=Budget(trials=2, trees=2))
        page = read(broken)
        assert len(table(page, "Trials that failed")) == len(broken.failures) == 4
        assert key(table(page, "ndcg@5")[1]["ndcg@5"]) is None


# ---- Figures, on made-up numbers


def test_curves_over_conditions_are_means_and_intervals(tiny, without_drawing):
    drawn = figure(read(tiny), "ndcg@5 by condition")
    for system in ("mse", "listnet"):
        line, (low, high) = lines(drawn)[system], bands(drawn)[system]
        assert line["x"] == [0.0, 0.4]
        for i, condition in enumerate(("clean", "noisy")):
            means = np.array([np.nanmean(made_up(condition, system, "ndcg@5", t)) for t in range(4)])
            assert line["y"][i] == pytest.approx(means.mean())
            expected = stats.t.interval(0.95, 3, means.mean(), stats.sem(means))
            assert (low[i], high[i]) == pytest.approx(expected)
    assert drawn["layout"]["xaxis"]["ticktext"] == ["clean", "noisy"]
    assert drawn["layout"]["xaxis"]["type"] == "linear"


def test_leads_are_paired_and_their_bands_count_what_trials_share():
    result = filled(TINY, made_up, failing={("clean", "mse", 1), ("clean", "listnet", 3)})
    page = Reader(study_page(result).to_html())
    for metric, sign in (("ndcg@5", 1), ("arp", -1)):
        drawn = figure(page, f"Lead over mse in {metric}")
        assert list(lines(drawn)) == ["listnet"]
        for i, (condition, trials) in enumerate((("clean", (0, 2)), ("noisy", range(4)))):
            d = [
                sign * np.nanmean(made_up(condition, "listnet", metric, t) - made_up(condition, "mse", metric, t))
                for t in trials
            ]
            assert lines(drawn)["listnet"]["y"][i] == pytest.approx(np.mean(d))
            low, high = (ends[i] for ends in bands(drawn)["listnet"])
            assert corrected_resampled_t_test(np.array(d) - low, n_train=60, n_test=40).p_value == pytest.approx(0.05)
            assert (low + high) / 2 == pytest.approx(np.mean(d))


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8, unique=True), st.floats(0.01, 1))
def test_interval_ends_where_the_corrected_test_begins_to_reject(values, overlap):
    d = np.array(values)
    if np.ptp(d) < 1e-3:
        return
    for end in interval_over_trials(d, overlap):
        assert corrected_resampled_t_test(d - end, n_train=1.0, n_test=overlap).p_value == pytest.approx(0.05)


def test_conditions_that_grow_by_factors_have_such_an_axis_and_names_that_fit(ran, without_drawing):
    axis = figure(read(ran("lambdaloss-figure3")), "ndcg@5 by condition")["layout"]["xaxis"]
    assert (axis["type"], axis["tickvals"]) == ("log", [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0])
    assert axis["ticktext"] == ["0.1", "0.2", "0.5", "1", "2", "5", "10"]
    names = figure(read(ran("directness-sigma")), "What softrank gives by condition")["layout"]["xaxis"]["ticktext"]
    assert names[0] == "0.1"
    assert "" in names
    assert len(names) == 7


def test_courses_are_means_over_trials(ran, without_drawing):
    result = ran("lambdaloss-figure5")
    page = read(result)
    for part, title in (("train", "Training queries"), ("valid", "Validation")):
        found = lines(figure(page, f"{title} by number of trees"))
        assert list(found) == list(result.plan.study.system_names)
        for system, line in found.items():
            curves = result.curves["plain", system, part]
            np.testing.assert_allclose(line["y"], np.mean(curves, axis=0))


def gains_of(trials, metric="ndcg@5"):
    return [made_up("plain", "listnet", metric, t) - made_up("plain", "mse", metric, t) for t in trials]


def test_gains_of_trials_on_other_queries_are_put_side_by_side(without_drawing):
    result = filled(PLAIN, made_up, failing={("plain", "mse", 2)})
    page = read(result)
    gains = np.concatenate(gains_of((0, 1, 3)))
    drawn = figure(page, "Gain of each query over mse")
    np.testing.assert_allclose(drawn["data"][0]["y"], np.sort(gains[~np.isnan(gains)]))
    base = np.concatenate([made_up("plain", "mse", "ndcg@5", t) for t in (0, 1, 3)])
    groups = difficulty_groups(base)
    [points] = figure(page, "Gain by difficulty of the query")["data"]
    np.testing.assert_allclose(points["y"], [gains[group.queries].mean() for group in groups])
    for i, group in enumerate(groups):
        by_trial = [gains[q][np.isin(q, group.queries)].mean() for q in np.split(np.arange(120), 3)]
        half = stats.t.ppf(0.975, 2) * math.sqrt((1 / 3 + 40 / 60) * np.var(by_trial, ddof=1))
        assert points["error_y"]["array"][i] == pytest.approx(half)
        assert points["error_y"]["arrayminus"][i] == pytest.approx(half)


def test_trials_in_which_every_query_was_skipped_are_left_out(without_drawing):
    def skipping(condition, system, metric, trial):
        return made_up(condition, system, metric, trial) * (math.nan if (system, trial) == ("mse", 1) else 1)

    page = read(filled(PLAIN, skipping))
    gains = np.concatenate(gains_of((0, 2, 3)))
    np.testing.assert_allclose(
        figure(page, "Gain of each query over mse")["data"][0]["y"], np.sort(gains[~np.isnan(gains)])
    )


def test_gains_of_trials_on_the_same_queries_are_means_over_trials(without_drawing):
    result = filled(replace(PLAIN, protocol=FixedParts(redivide=True)), made_up)
    page = read(result)
    gains = np.mean(gains_of(range(4)), axis=0)
    drawn = figure(page, "Gain of each query over mse")
    np.testing.assert_allclose(drawn["data"][0]["y"], np.sort(gains[~np.isnan(gains)]))
    won = int(np.sum(gains > 0))
    assert table(page, "ndcg@5")[1]["w/t/l"]["text"] == f"{won}/0/{39 - won}"
    [points] = figure(page, "Gain by difficulty of the query")["data"]
    assert min(points["error_y"]["array"]) > 0


def test_one_trial_draws_no_intervals_over_trials(without_drawing):
    result = filled(replace(PLAIN, protocol=OwnFolds()), made_up, trials=1)
    [points] = figure(read(result), "Gain by difficulty of the query")["data"]
    assert set(points["error_y"]["array"]) == {None}
    assert "intervals" not in study_page(result).to_html().split("Mean gain over mse")[1].split("</figcaption>")[0]


def test_every_trial_is_drawn(without_drawing):
    result = filled(PLAIN, made_up, failing={("plain", "listnet", 1)})
    found = lines(figure(read(result), "Every trial"))
    assert found["mse"]["x"] == [1, 2, 3, 4]
    assert found["listnet"]["x"] == [1, 3, 4]
    np.testing.assert_allclose(found["listnet"]["y"], result.cell("plain", "listnet", "ndcg@5").means)


def test_clouds_bounds_and_guarantees_draw_what_was_measured(ran, without_drawing):
    result = ran("xe-figure1")
    clouds = figure(read(result), "The gap of many gammas")["data"]
    points = result.points["plain", "jensen-clouds"]
    assert len(clouds) == 20
    for trace, losses, gaps in zip(clouds, points["losses"], points["gaps"], strict=True):
        assert (trace["x"], trace["y"]) == (losses, gaps)
    result = ran("directness-sigma")
    drawn = figure(read(result), "Distance from NDCG and its bounds")
    distance, proof = (lines(drawn)[name] for name in ("distance, measured", "bound of the proof"))
    sigmas = ["0.1", "0.15", "0.2", "0.25", "0.35", "0.5", "1"]
    assert distance["x"] == [float(sigma) for sigma in sigmas]
    assert distance["y"] == [result.points[sigma, "softrank"]["distance"] for sigma in sigmas]
    assert proof["y"][-2:] == [None, None]  # where the bound says nothing
    result = ran("directness-losses")
    drawn = figure(read(result), "How direct each loss is")
    guarantee, _, cost = drawn["data"]
    names = list(result.plan.study.system_names)
    assert drawn["layout"]["yaxis"]["ticktext"] == names
    for quantity, sign, trace in (("directness", -1, guarantee), ("cost", 1, cost)):
        for x, y in zip(trace["x"], trace["y"], strict=True):
            means = sign * result.cell("plain", names[int(y)], quantity).means
            assert (x is None and (means <= 0).any()) or x in means


# ---- What reproduces it


def test_command_gives_the_same_trials_and_the_page(tmp_path, capsys, monkeypatch, without_drawing):
    monkeypatch.chdir(tmp_path)
    options = ["--trials", "1", "--trees", "2", "--recipe", "yahoo1", "--seed", "7", "--workers", "1"]
    code, _, _ = run(capsys, "study", "run", "xe-figure2", "--data", DATA, "--store", "first.db", *options)
    assert code == 0
    code, out, _ = run(capsys, "study", "report", "first.db", "-o", "first.html")
    assert (code, out) == (0, "first.html: written\n")
    typed = Reader((tmp_path / "first.html").read_text()).code[-1]
    assert typed == command(read_results(tmp_path / "first.db"))
    again, report = (shlex.split(line)[1:] for line in typed.splitlines())
    assert run(capsys, *again, "--workers", "1")[0] == 0
    assert content(tmp_path / "xe-figure2.db") == content(tmp_path / "first.db")
    assert run(capsys, *report)[1] == "xe-figure2.html: written\n"


def test_a_study_of_ones_own_is_run_again_in_python(without_drawing):
    result = run_study(TINY, DATA, budget=Budget(trials=1, trees=2), seed=3)
    again = eval(python_call(result), {"run_study": run_study, "Budget": Budget, "study": TINY})
    assert again.to_dict()["cells"] == result.to_dict()["cells"]
    assert read(result).code[-1] == python_call(result)
    changed = replace(find_study("xe-figure1"), version=7)
    declared = run_study(changed, budget=Budget(trials=1))
    assert read(declared).code[-1] == python_call(declared)


def test_without_plotly_no_page_is_written(tmp_path, capsys, monkeypatch, tiny):
    store = tmp_path / "s.db"
    run_study(find_study("xe-figure1"), store=store, budget=Budget(trials=1))
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    code, out, err = run(capsys, "study", "report", store, "-o", tmp_path / "page.html")
    sentence = "figures in a page need Plotly; install it with: pip install 'tautrank[report]'"
    assert (code, out, err.replace("\n", "")) == (2, "", f"error: {sentence}")
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    assert run(capsys, "study", "report", store, "-o", tmp_path / "page.md")[0] == 0
    with pytest.raises(MissingDependencyError):
        study_page(tiny)


# ---- In a browser

SEEN = ("xe-table1", "xe-figure3-labels", "directness-losses")


@pytest.fixture(scope="module")
def addresses(ran, tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    for name in SEEN:
        (folder / f"{name}.html").write_text(study_page(ran(name)).to_html())
    return {name: (folder / f"{name}.html").as_uri() for name in SEEN}


@pytest.fixture(scope="module")
def opened(browser, addresses):  # noqa: F811
    """Each study on each screen, opened once; it logs nothing and asks for nothing."""
    contexts, pages = [], {}

    def look(name, options):
        if (name, options is PHONE) not in pages:
            context = browser.new_context(**{"color_scheme": "dark" if options is PHONE else "light"} | options)
            contexts.append(context)
            page, complaints = context.new_page(), []
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda asked: complaints.append(asked.url) if asked.url != addresses[name] else None)
            page.goto(addresses[name])
            pages[name, options is PHONE] = page, complaints
        page, complaints = pages[name, options is PHONE]
        assert complaints == []
        return page

    yield look
    for context in contexts:
        context.close()


@pytest.mark.parametrize(
    ("name", "options"),
    [("xe-table1", DESKTOP), *((name, PHONE) for name in SEEN)],
    ids=["xe-table1", *(f"{name} on a phone in the dark" for name in SEEN)],
)
def test_figures_are_drawn_and_no_label_is_cut(opened, name, options):
    page = opened(name, options)
    drawings = page.query_selector_all("[data-figure]")
    assert len(drawings) == len(FIGURES[name])
    for drawing in drawings:
        size = drawing.query_selector("svg.main-svg").bounding_box()
        assert size["width"] > 300
        assert any(shape.bounding_box()["width"] > 0 for shape in drawing.query_selector_all(".trace path"))
    assert page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
    found = page.evaluate(
        """() => [...document.querySelectorAll('[data-figure]')].map((drawing) => {
          const words = '.xtick text, .ytick text, .xtitle, .ytitle, .annotation-text';
          return [drawing, ...drawing.querySelectorAll(words)].map((e) => {
            const { left, right, top, bottom } = e.getBoundingClientRect();
            return [left, right, top, bottom, e === drawing ? '' : e.textContent];
          });
        })"""
    )
    for outer, *labels in found:
        for left, right, _, bottom, text in labels:
            assert left >= outer[0] - 1, text
            assert right <= outer[1] + 1, text
            assert bottom <= outer[3] + 1, text
        for a, b in combinations(labels, 2):
            across, along = min(a[1], b[1]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[2], b[2])
            assert across < 2 or along < 2, (a[4], b[4])


def test_claims_sort_by_their_p_values(opened, ran):
    page = opened("xe-table1", DESKTOP)
    page.locator("#section-2 th button", has_text="paper's test").click()
    keys = page.eval_on_selector_all("#section-2 tbody td:nth-child(2)", "all => all.map((e) => Number(e.dataset.key))")
    assert keys == sorted(verdict.own.p_value for verdict in ran("xe-table1").verdicts)
