"""The page of a study: its numbers are those of to_dict, its figures those of the measurements and
trials.
"""

from __future__ import annotations

import csv
import io
import math
import re
import shlex
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tautrank.errors import MissingDependencyError
from tautrank.experiments.plan import Budget, Condition, System
from tautrank.experiments.protocols import FixedParts
from tautrank.experiments.query_gains import query_gains
from tautrank.papers.catalogue import CATALOGUE, find_study
from tautrank.papers.claims import Better, Reaches
from tautrank.papers.plan import make_plan
from tautrank.papers.results import collect, read_results
from tautrank.papers.run import run_study
from tautrank.papers.store import StudyStore
from tautrank.papers.study_page import command, python_call
from tautrank.significance.paired import corrected_resampled_t_test
from tests.command_line import run
from tests.report.examples import NASTY, Reader, bands, key, lines
from tests.study_examples import DATA, QUERIES, TINY, WITH_A_FAILURE, content, filled

GAINS = ["Gain of each query over {}", "Gain by difficulty of the query"]
ROBUSTNESS = ["ndcg@5 by condition", "Lead over {} in ndcg@5"]
CUTOFFS = "ndcg@1, ndcg@3, ndcg@5, ndcg@10"
# Studies of tables have every trial and the gains; these have other figures.
FIGURES = {
    "xe-figure1": ["The gap of many gammas"],
    "xe-figure2": ["Validation by number of trees", "Every trial", *GAINS],
    **dict.fromkeys(
        ["xe-figure3-negatives", "xe-figure3-labels", "xe-figure4", "lambdaloss-figure3"],
        ROBUSTNESS,
    ),
    "binary-table1": [
        f"{title} ({c})" for c in ("graded", "binary") for title in ("Every trial", *GAINS)
    ],
    "lambdaloss-figure4": [f"{CUTOFFS} by condition", f"Lead over {{}} in {CUTOFFS}"],
    "lambdaloss-figure5": [
        "Training by number of trees",
        "Validation by number of trees",
        "Every trial",
        *GAINS,
    ],
    "stochasticrank-table1": ["Every trial"],  # two queries have no distribution
    "directness-sigma": ["Distance from NDCG and its bounds", "What softrank gives by condition"],
    "directness-losses": ["How direct each loss is"],
}

pytestmark = pytest.mark.usefixtures("without_drawing")

PLAIN = replace(TINY, conditions=(Condition(),), claims=(), recipes=())


def made_up(condition, system, metric, trial):
    """Forty queries per trial, one skipped; every system but the first gains 0.05, more under
    noise.
    """
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
    return Reader(result.to_html())


# ---- Every study of the catalogue


@pytest.mark.parametrize("name", CATALOGUE)
def test_page_holds_the_numbers_of_to_dict(name, ran):
    result = ran(name)
    plain, page, study = result.to_dict(), read(result), find_study(name)
    assert page.title == study.title
    claims = page.table("Claims")
    assert len(claims) == len(plain["claims"])
    for row, claim in zip(claims, plain["claims"], strict=True):
        assert row["claim"]["text"] == claim["sentence"]
        assert key(row["advantage"]) == claim["tested"]["difference"]
        assert row["verdict"]["text"] == claim["tested"]["verdict"]
        assert (key(row["p"]), key(row["detectable"])) == (
            claim["tested"]["adjusted"],
            claim["tested"]["detectable"],
        )
        assert row["trials"]["text"] == str(claim["trials"])
        assert row["paper's test"]["text"].startswith(claim["own"]["verdict"] + ", p ")
        assert key(row["paper's test"]) == claim["own"]["p_value"]
    shown = rows_shown(page, result)
    for cell in plain["cells"]:
        found = shown[cell["condition"], cell["system"], cell["metric"], cell["part"]]["mean"]
        assert key(found) == cell["mean"]
        assert found["text"].split(" ")[0] == (
            "-" if cell["mean"] is None else f"{cell['mean']:.4f}"
        )
    drawn = [title.format(study.baseline) for title in FIGURES.get(name, ["Every trial", *GAINS])]
    assert page.titles(3)[-2 - len(drawn) : -2] == drawn
    # Tables begin with their differences; conditions that are numbers are curves, and measurements
    # have no baseline.
    first = [
        title for title in page.titles(2) if title.startswith(f"Differences from {study.baseline}")
    ]
    assert len(first) == sum(title.startswith("Every trial") for title in drawn)
    assert len([a for _, a in page.elements if "data-figure" in a]) == len(first) + len(drawn)


def rows_shown(page, result):
    """The rows of the tables of results, by place."""
    metrics = list(dict.fromkeys(cell.metric for cell in result.cells))
    titles = [title for title in metrics if title in page.titles(3)] or ["Results"]
    found = {}
    for title, row in ((shown, row) for shown in titles for row in page.table(shown)):
        metric = (
            row["metric"]["text"]
            if "metric" in row
            else metrics[0]
            if title == "Results"
            else title
        )
        condition = row["condition"]["text"] if "condition" in row else "plain"
        part = row["queries"]["text"] if "queries" in row else "test"
        place = (condition, row["system"]["text"], metric.removesuffix(" (lower is better)"), part)
        found[place] = {
            "mean" if name.split(" (")[0] == place[2] else name: cell for name, cell in row.items()
        }
    return found


@pytest.mark.parametrize(
    "name", ["xe-table1", "lambdaloss-table3", "binary-table1", "stochasticrank-table1"]
)
def test_papers_numbers_stand_beside_those_found(name, ran):
    result = ran(name)
    study, recipe = result.plan.study, result.plan.used_recipe
    if name == "binary-table1":  # its first recipe is for other data, and prints nothing
        result = run_study(study, QUERIES, budget=Budget(repeats=1, trees=1), recipe="yahoo1")
        recipe = result.plan.used_recipe
    rows = rows_shown(read(result), result)
    expected = {(p.condition, p.system, p.metric, p.part): p for p in recipe.printed}
    for place, row in rows.items():
        if place not in expected:
            assert row["in print"]["text"] == "-"
            continue
        printed, here = expected.pop(place), result.cell(*place)
        assert key(row["in print"]) == printed.value
        assert key(row["here minus print"]) == pytest.approx(here.mean - printed.value)
        base = (place[0], study.baseline, *place[2:])
        if place == base:
            assert row["lead in print"]["text"] == "-"
            continue
        reference = next(
            p for p in recipe.printed if (p.condition, p.system, p.metric, p.part) == base
        )
        assert key(row["lead in print"]) == pytest.approx(printed.value - reference.value)
    assert not expected


# ---- Tables and words, on synthetic numbers


def test_significance_is_marked_and_directions_are_signs(tiny):
    page = read(tiny)
    in_full = [
        list(csv.DictReader(io.StringIO(text)))
        for text in page.code
        if text.startswith("value,condition,sys")
    ]
    for metric, texts in zip(("ndcg@5", "arp"), in_full, strict=True):
        for row, text in zip(page.table(metric), texts, strict=True):
            cell = tiny.cell(row["condition"]["text"], row["system"]["text"], metric)
            found = [float(text[field]) for field in ("mean", "low", "high")]
            assert found == [cell.mean, *cell.interval]
            assert text["p"] == ("" if cell.tested is None else repr(cell.tested.adjusted))
            if cell.system == "mse":
                assert [row[title]["text"] for title in ("minus mse", "p own", "p", "w/t/l")] == [
                    ""
                ] * 4
                continue
            assert key(row["minus mse"]) == cell.difference
            assert (key(row["p own"]), key(row["p"])) == (cell.own.p_value, cell.tested.adjusted)
            marks = "†" * (cell.own.p_value <= 0.05) + "*" * (cell.tested.adjusted <= 0.05)
            assert row["minus mse"]["marks"] == marks
    assert {
        row["minus mse"]["marks"] for row in page.table("ndcg@5") if row["system"]["text"] != "mse"
    } == {"†*"}
    assert key(page.table("ndcg@5")[0]["condition"]) == 0.0  # conditions sort by their value
    assert "(lower is better)" in "".join(page.table("arp")[0])


ONE_METRIC = replace(PLAIN, metrics=("ndcg@5",))


def test_words_say_what_is_missing():
    failing = {("clean", "mse", 0), ("noisy", "listnet", 2)}
    verdict, power, missing = filled(TINY, made_up, failing=failing).answer()
    assert verdict.startswith("The claim ")
    assert re.fullmatch(
        r"A true difference of \.\d{4} would be found with 80 % power, and one of .* Holm's method.",
        power,
    )
    assert missing == "14 of 16 trainings are done, 2 failed; all numbers are about these."


def test_words_say_where_the_papers_own_test_differs():
    """Leads of 1, 2, 3 and 4 hundredths: t is 3.9 where trials are taken for independent, and 2.5
    where they are not.
    """

    def rising(condition, system, metric, trial):
        return np.full(8, 0.5 + 0.01 * (trial + 1) * (system == "listnet"))

    claims = (
        Better(better="listnet", worse="mse", metric="ndcg@5"),
        Reaches(system="mse", value=0.1, metric="ndcg@5"),
    )
    study = replace(ONE_METRIC, claims=claims, protocol=FixedParts(redivide=True))
    verdict, _, best = filled(study, rising).answer()
    assert verdict == (
        "The claim is undecided. Verdicts on 2 comparisons: holds 1, undecided 1;"
        " by the paper's own test: holds 2."
    )
    assert best.endswith(
        "0.5250: +.0250 against mse, which may be chance (by the paper's own test: holds)."
    )


def test_words_say_that_the_numbers_contradict_a_claim():
    claim = Better(better="mse", worse="listnet", metric="ndcg@5")
    study = replace(ONE_METRIC, claims=(claim,), protocol=FixedParts())
    verdict, _, best = filled(study, made_up).answer()
    assert verdict == "The claim fails. Verdicts on 1 comparison: fails 1."
    assert best.startswith("ndcg@5: listnet has the best mean, 0.")
    assert best.endswith(" against mse, significant.")


def test_words_name_the_first_of_systems_that_are_equal():
    study = replace(ONE_METRIC, protocol=FixedParts())
    assert filled(study, lambda *place: [0.5, 0.5]).answer() == [
        "ndcg@5: mse has the best mean, 0.5000."
    ]


def test_settings_say_seeds_versions_parameters_and_command(ran):
    result = ran("xe-figure3-labels")
    html = result.to_html()
    seeds = {str(trial.spec["seed"]) for trial in result.plan.trials()}
    study = f"xe-figure3-labels, version {result.plan.study.version}"
    for text in (*seeds, study, result.meta["data_fingerprint"], f"NumPy {np.__version__}"):
        assert text in html
    rows = read(result).table("What was trained")
    assert len(rows) == 12
    assert rows[3]["loss"]["text"] == "xendcg"
    assert "num_leaves=400" in rows[3]["parameters"]["text"]
    assert "n_estimators=2" in rows[3]["parameters"]["text"]
    assert rows[3]["change of the data"]["text"] == "perturb-labels(probability=0.1) of train"


def test_search_spaces_are_told():
    study = find_study("stochasticrank-table3")
    result = run_study(study, QUERIES, budget=Budget(repeats=1, configurations=1, trees=1))
    row = read(result).table("What was trained")[-1]
    assert "langevin=Langevin(temperature=1e+08" in row["parameters"]["text"]
    assert "langevin.temperature=Uniform(low=100000000.0" in row["searched"]["text"]


def test_names_are_shown_as_they_are_and_failures_are_named():
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
    found = read(filled(nasty, made_up, failing={(NASTY, NASTY, 1)}, error=f"{NASTY} went wrong"))
    assert found.title == NASTY
    assert not {tag for tag, _ in found.elements} & {"b", "img"}
    [row] = found.table("Trials that failed")
    assert row["trial"]["text"] == f"trial 2, {NASTY}, {NASTY}"
    assert row["error"]["text"] == f"{NASTY} went wrong"
    drawn = found.figure("ndcg@5 by condition")
    assert (
        "<"
        not in "".join(drawn["layout"]["xaxis"]["ticktext"])
        + drawn["layout"]["xaxis"]["title"]["text"]
    )


def test_unfinished_and_failed_studies_are_still_pages():
    nothing = collect(StudyStore(None, make_plan(TINY, DATA, budget=Budget(repeats=1))))
    page = read(nothing)
    assert page.titles(2) == ["Answer", "Claims", "Results", "Settings", "Run it again"]
    assert nothing.answer() == ["0 of 4 trainings are done; all numbers are about these."]
    assert {key(row["ndcg@5"]) for row in page.table("ndcg@5")} == {None}
    for study in map(find_study, CATALOGUE):
        data = "" if study.data in ("none", "five-documents") else DATA
        empty = collect(StudyStore(None, make_plan(study, data, budget=Budget(repeats=2))))
        assert "Figures" not in read(empty).titles(2)
    broken = run_study(WITH_A_FAILURE, DATA, budget=Budget(repeats=2, trees=2))
    page = read(broken)
    assert len(page.table("Trials that failed")) == len(broken.failures) == 4
    assert key(page.table("ndcg@5")[1]["ndcg@5"]) is None


# ---- Figures, on synthetic numbers


def test_curves_over_conditions_are_means_and_intervals(tiny):
    drawn = read(tiny).figure("ndcg@5 by condition")
    for system in ("mse", "listnet"):
        line, (low, high) = lines(drawn)[system], bands(drawn)[system]
        assert line["x"] == [0.0, 0.4]
        for i, condition in enumerate(("clean", "noisy")):
            means = np.array(
                [np.nanmean(made_up(condition, system, "ndcg@5", t)) for t in range(4)]
            )
            assert line["y"][i] == pytest.approx(means.mean())
            expected = stats.t.interval(0.95, 3, means.mean(), stats.sem(means))
            assert (low[i], high[i]) == pytest.approx(expected)
    assert drawn["layout"]["xaxis"]["ticktext"] == ["clean", "noisy"]
    assert drawn["layout"]["xaxis"]["type"] == "linear"


def test_leads_are_paired_and_their_bands_count_what_trials_share():
    result = filled(TINY, made_up, failing={("clean", "mse", 1), ("clean", "listnet", 3)})
    page = read(result)
    for metric, sign in (("ndcg@5", 1), ("arp", -1)):
        drawn = page.figure(f"Lead over mse in {metric}")
        assert list(lines(drawn)) == ["listnet"]
        for i, (condition, trials) in enumerate((("clean", (0, 2)), ("noisy", range(4)))):
            d = [
                sign
                * np.nanmean(
                    made_up(condition, "listnet", metric, t) - made_up(condition, "mse", metric, t)
                )
                for t in trials
            ]
            assert lines(drawn)["listnet"]["y"][i] == pytest.approx(np.mean(d))
            low, high = (ends[i] for ends in bands(drawn)["listnet"])
            assert corrected_resampled_t_test(
                np.array(d) - low, n_train=80, n_test=40
            ).p_value == pytest.approx(0.05)
            assert (low + high) / 2 == pytest.approx(np.mean(d))


def test_conditions_that_grow_by_factors_have_such_an_axis_and_all_their_names(ran):
    axis = read(ran("lambdaloss-figure3")).figure("ndcg@5 by condition")["layout"]["xaxis"]
    assert (axis["type"], axis["tickvals"]) == ("log", [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0])
    assert axis["ticktext"] == ["0.1", "0.2", "0.5", "1", "2", "5", "10"]
    names = read(ran("directness-sigma")).figure("What softrank gives by condition")["layout"][
        "xaxis"
    ]["ticktext"]
    assert names == ["0.1", "0.15", "0.2", "0.25", "0.35", "0.5", "1"]


def test_courses_are_means_over_trials(ran):
    result = ran("lambdaloss-figure5")
    page = read(result)
    for part, title in (("train", "Training"), ("valid", "Validation")):
        found = lines(page.figure(f"{title} by number of trees"))
        assert list(found) == list(result.plan.study.system_names)
        for system, line in found.items():
            curves = result.curves["plain", system, part]
            np.testing.assert_allclose(line["y"], np.mean(curves, axis=0))


@pytest.mark.parametrize("same", [False, True], ids=["other queries", "same queries"])
def test_gains_are_those_of_the_trials_that_all_systems_have_finished(same):
    def skipping(condition, system, metric, trial):
        return made_up(condition, system, metric, trial) * (
            math.nan if (system, trial) == ("mse", 1) else 1
        )

    study = replace(PLAIN, protocol=FixedParts(redivide=True)) if same else PLAIN
    result = filled(study, skipping, trials=5, failing={("plain", "mse", 2)})
    base, ours = ([made_up("plain", s, "ndcg@5", t) for t in (0, 3, 4)] for s in ("mse", "listnet"))
    join = (lambda values: np.mean(values, axis=0)) if same else np.concatenate
    found = query_gains(result, "plain", "ndcg@5")
    np.testing.assert_allclose(found.values, join(base))
    np.testing.assert_allclose(found.gains["listnet"], join(ours) - join(base))
    assert found.overlap == result.overlap > 0
    assert (
        (found.trial_of is None)
        if same
        else (found.trial_of.tolist() == np.repeat([0, 3, 4], 40).tolist())
    )
    page, gains = read(result), found.gains["listnet"][~np.isnan(found.gains["listnet"])]
    np.testing.assert_allclose(
        page.figure("Gain of each query over mse")["data"][0]["y"], np.sort(gains)
    )
    won = int(np.sum(gains > 0))
    assert page.table("ndcg@5")[1]["w/t/l"]["text"] == f"{won}/0/{gains.size - won}"


def test_differences_are_drawn_with_the_intervals_of_the_test(tiny):
    result = filled(PLAIN, made_up)
    figure = read(result).figure("Differences from mse")
    assert [trace["legendgroup"] for trace in figure["data"]] == list(result.plan.study.metrics)
    assert figure["layout"]["yaxis"]["ticktext"] == [
        s for s in result.plan.study.system_names if s != "mse"
    ]
    for trace in figure["data"]:
        tested = result.cell("plain", "listnet", trace["legendgroup"]).tested
        at = figure["layout"]["yaxis"]["ticktext"].index("listnet")
        assert trace["x"][at] == tested.difference
        assert trace["x"][at] + trace["error_x"]["array"][at] == pytest.approx(tested.high)
        assert trace["x"][at] - trace["error_x"]["arrayminus"][at] == pytest.approx(tested.low)


def test_every_trial_is_drawn():
    result = filled(PLAIN, made_up, failing={("plain", "listnet", 1)})
    found = lines(read(result).figure("Every trial"))
    assert found["mse"]["x"] == [1, 2, 3, 4]
    assert found["listnet"]["x"] == [1, 3, 4]
    np.testing.assert_allclose(
        found["listnet"]["y"], result.cell("plain", "listnet", "ndcg@5").means
    )


def test_clouds_bounds_and_guarantees_draw_what_was_measured(ran):
    result = ran("xe-figure1")
    clouds = read(result).figure("The gap of many gammas")["data"]
    points = result.points["plain", "jensen-clouds"]
    assert len(clouds) == 20
    for trace, losses, gaps in zip(clouds, points["losses"], points["gaps"], strict=True):
        assert (trace["x"], trace["y"]) == (losses, gaps)
    result = ran("directness-sigma")
    drawn = read(result).figure("Distance from NDCG and its bounds")
    distance, proof = (lines(drawn)[name] for name in ("distance, measured", "bound of the proof"))
    sigmas = ["0.1", "0.15", "0.2", "0.25", "0.35", "0.5", "1"]
    assert distance["x"] == [float(sigma) for sigma in sigmas]
    assert distance["y"] == [result.points[sigma, "softrank"]["distance"] for sigma in sigmas]
    assert proof["y"][-2:] == [None, None]  # where the bound says nothing
    result = ran("directness-losses")
    drawn = read(result).figure("How direct each loss is")
    guarantee, _, cost = drawn["data"]
    names = list(result.plan.study.system_names)
    assert drawn["layout"]["yaxis"]["ticktext"] == names
    for quantity, sign, trace in (("directness", -1, guarantee), ("cost", 1, cost)):
        for x, y in zip(trace["x"], trace["y"], strict=True):
            means = sign * result.cell("plain", names[int(y)], quantity).means
            assert (x is None and (means <= 0).any()) or x in means


# ---- What reproduces it


def test_command_gives_the_same_trials_and_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [
        "--repeats",
        "1",
        "--trees",
        "2",
        "--recipe",
        "yahoo1",
        "--seed",
        "7",
        "--workers",
        "1",
    ]
    code, _, _ = run(
        capsys, "study", "run", "xe-figure2", "--data", DATA, "--store", "first.db", *options
    )
    assert code == 0
    code, out, _ = run(capsys, "study", "report", "first.db", "-o", "first.html")
    assert (code, out) == (0, "first.html: written\n")
    typed = Reader((tmp_path / "first.html").read_text()).code[-1]
    assert typed == command(read_results(tmp_path / "first.db"))
    again, report = (shlex.split(line)[1:] for line in typed.splitlines())
    assert run(capsys, *again, "--workers", "1")[0] == 0
    assert content(tmp_path / "xe-figure2.db") == content(tmp_path / "first.db")
    assert run(capsys, *report)[1] == "xe-figure2.html: written\n"


def test_a_study_of_ones_own_is_run_again_in_python():
    result = run_study(TINY, DATA, budget=Budget(repeats=1, trees=2), seed=3)
    again = eval(python_call(result), {"run_study": run_study, "Budget": Budget, "study": TINY})
    assert again.to_dict()["cells"] == result.to_dict()["cells"]
    assert read(result).code[-1] == python_call(result)
    changed = replace(find_study("xe-figure1"), claim="Another claim")
    declared = run_study(changed, budget=Budget(repeats=1))
    assert read(declared).code[-1] == python_call(declared)


def test_without_plotly_no_page_is_written(tmp_path, capsys, monkeypatch, tiny):
    store = tmp_path / "s.db"
    run_study(find_study("xe-figure1"), store=store, budget=Budget(repeats=1))
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    code, out, err = run(capsys, "study", "report", store, "-o", tmp_path / "page.html")
    sentence = "figures in a page need Plotly; install it with: pip install 'tautrank[report]'"
    assert (code, out, err.replace("\n", "")) == (2, "", f"error: {sentence}")
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    assert run(capsys, "study", "report", store, "-o", tmp_path / "page.md")[0] == 0
    with pytest.raises(MissingDependencyError):
        tiny.to_html()
