"""The page of a comparison: its numbers are those of the result, and what it says reproduces it."""

from __future__ import annotations

import csv
import html
import io
import math
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import RankingData, Splits
from tautrank.errors import MissingDependencyError
from tautrank.experiments.comparison_page import python_call
from tautrank.experiments.comparison_tables import pair_table
from tautrank.experiments.plan import System
from tautrank.experiments.query_gains import query_gains
from tautrank.experiments.result import Comparison
from tautrank.report.figures import validation_curves
from tautrank.report.gain_figures import difficulty_groups
from tautrank.tables import difference_text
from tests.command_line import run
from tests.report.examples import NASTY, SYSTEMS, Reader, bands, key, lines
from tests.study_examples import comparison_of

COMMAND = "tautrank compare '<img src=x onerror=alert(1)>.txt' --report out.html"


def made_up(repeats: int = 3, queries: int = 80) -> Comparison:
    """Four systems on a gain and a cost, of random numbers; the second is clearly better than the
    others.
    """
    rng = np.random.default_rng(0)
    base = rng.random((1, queries))
    values, courses, trees = [], {}, {}
    for i, name in enumerate(SYSTEMS):
        gain = np.clip(base * 0.6 + 0.2 * (i == 1) + 0.05 * rng.random((repeats, queries)), 0, 1)
        cost = 20 - 10 * base - 3 * (i == 1) + 0.5 * rng.random((repeats, queries))
        for of_metric in (gain, cost):
            of_metric[:, 7] = math.nan  # a query that the metrics skip
        values.append({"ndcg@5": gain, "arp": cost})
        trees["plain", name] = (30 + rng.integers(0, 10, repeats)).tolist()
        courses["plain", name, "valid"] = [
            list(0.4 + 0.1 * i - np.exp(-np.arange(n) / 9) + 0.01 * rng.random(n))
            for n in trees["plain", name]
        ]
    lists = RankingData.from_arrays(np.zeros((queries, 16)), np.zeros(queries), group=[1] * queries)
    systems = [System("mse", name) for name in SYSTEMS]
    parts = {
        "held": [Splits(lists, lists, lists)],
        "trained_with": ("lightgbm 4.7.0",),
        "overlap": 0.25,
    }
    return comparison_of(values, ("ndcg@5", "arp"), systems, trees=trees, curves=courses, **parts)


@pytest.fixture(scope="module")
def result():
    return made_up()


@pytest.fixture(scope="module")
def full(result):
    return result.to_html(figures=True, command=COMMAND)


@pytest.fixture(scope="module")
def read(full):
    return Reader(full)


# ---- What the page says


def test_tables_hold_the_numbers_of_to_dict(result, read):
    plain, in_full = result.to_dict(), list(csv.DictReader(io.StringIO(result.to_csv())))
    assert Reader(result.to_html(command=COMMAND)).tables[0] == read.tables[0]
    assert [line["system"] for line in in_full] == [name for name in SYSTEMS for _ in range(2)]
    shown = {name: read.table(name) for name in ("ndcg@5", "arp")}
    spent = {"ndcg@5": ("trees", "seconds"), "arp": ()}  # no metric changes them
    for cell, line in zip(plain["cells"], in_full, strict=True):
        row = shown[cell["metric"]][SYSTEMS.index(cell["system"])]
        title = "ndcg@5" if cell["metric"] == "ndcg@5" else "arp (lower is better)"
        against = f"minus {SYSTEMS[0]}"
        assert list(row) == [
            "system",
            title,
            against,
            "p",
            "detectable",
            "w/t/l",
            *spent[cell["metric"]],
        ]
        assert [row["system"]["text"], cell["metric"]] == [line["system"], line["metric"]]
        assert key(row[title]) == float(line["mean"]) == cell["mean"]
        assert row[title]["text"] == f"{cell['mean']:.4f} ±{cell['deviation']:.4f}".replace(
            "±0.", "±."
        )
        found = result.cell("plain", cell["system"], cell["metric"])
        if cell["system"] == SYSTEMS[0]:
            assert [row[title]["text"] for title in (against, "p", "detectable", "w/t/l")] == [
                ""
            ] * 4
            continue
        assert key(row[against]) == float(line[against]) == cell["difference"] == found.difference
        assert key(row["p"]) == float(line["p"]) == cell["tested"]["adjusted"]
        assert float(line["p of one comparison"]) == cell["tested"]["p_value"]
        ends = [float(line[f"{against} {end}"]) for end in ("low", "high")]
        assert ends == [cell["tested"]["low"], cell["tested"]["high"]]
        assert row[against]["text"].endswith(
            f"[{difference_text(ends[0])}, {difference_text(ends[1])}]"
        )
        assert key(row["detectable"]) == float(line["detectable"]) == cell["tested"]["detectable"]
        assert row[against]["marks"] == ("*" if cell["tested"]["adjusted"] < 0.05 else "")
        assert row["w/t/l"]["text"] == f"{line['won']}/{line['tied']}/{line['lost']}"
    assert [row[f"minus {SYSTEMS[0]}"]["marks"] for row in shown["arp"]] == ["", "*", "", ""]
    assert [row["w/t/l"]["text"] for row in shown["arp"]][1] == "79/0/0"
    assert "Every pair" not in read.titles(2)


def test_all_pairs_have_a_table_of_their_own(result):
    every = replace(result, pairs="all", cells=())
    read, plain = Reader(every.to_html()), every.to_dict()
    expected = [
        (name, *(pair[field] for field in ("better", "worse", "difference", "p_value", "adjusted")))
        for name, pairs in plain["pairs"].items()
        for pair in pairs
    ]
    found = [list(row.values()) for row in read.table("Every pair")]
    assert len(found) == 12
    assert [(*(c["text"] for c in row[:3]), *map(key, row[3:])) for row in found] == expected
    assert pair_table(every).to_csv() in read.code


def test_words_name_the_winner_and_how_sure_that_is():
    words = made_up().answer()
    assert words[0].startswith(f"ndcg@5: {NASTY} has the best mean, ")
    assert words[0].endswith(" against lightgbm:lambdarank, significant.")
    assert words[1].startswith(f"arp: {NASTY} has the best mean, ")
    even = np.tile(np.linspace(0, 1, 30), (2, 1))
    assert comparison_of([even, even]).answer() == ["ndcg@5: a has the best mean, 0.5000."]
    rng = np.random.default_rng(0)
    close = comparison_of([even, even + 0.01 + rng.normal(size=(2, 30))]).answer()
    assert close[0].endswith("against a, which may be chance.")


def test_settings_say_seeds_versions_parameters_and_data(full):
    text = html.unescape(
        re.sub(r"<[^>]+>", "|", full.split("</header>")[1].split('id="dark-colours"')[0])
    )
    versions = f"tautrank {tr.__version__}, lightgbm 4.7.0", f"NumPy {np.__version__}"
    for expected in ("0, 1000, 2000", *versions, "2000", "0.25"):
        assert expected in text


def test_one_system_one_repeat_no_histories_is_still_a_page():
    page = Reader(comparison_of([[[0.5, math.nan, 0.7]]]).to_html(figures=True))
    assert [text for level, text in page.headings if level == 2] == [
        "Answer",
        "Results",
        "Settings",
        "Run it again",
    ]
    skipped = comparison_of([np.full((1, 3), math.nan)] * 2)
    assert skipped.answer() == ["ndcg@5: every query was skipped."]
    assert "nan" not in skipped.to_csv()
    assert "data-key" not in str(
        [row[1] for row in Reader(skipped.to_html(figures=True)).tables[0][1:]]
    )


def test_figures_draw_the_histories_and_the_gains_of_the_result(result, read):
    page, [first, *others] = read, result.systems
    figure = page.figure("Validation by number of trees")
    for curve in validation_curves({system.name: system.histories for system in result.systems}):
        np.testing.assert_allclose(lines(figure)[curve.name]["y"], curve.mean)
        np.testing.assert_allclose(bands(figure)[curve.name], (curve.low, curve.high))
    values = first.values["ndcg@5"].mean(axis=0)
    gained = {system.name: system.values["ndcg@5"].mean(axis=0) - values for system in others}
    bars = lines(page.figure(f"Gain of each query over {first.name}"))
    points = lines(page.figure("Gain by difficulty of the query"))
    for name, gains in gained.items():
        np.testing.assert_allclose(bars[name]["y"], np.sort(gains[~np.isnan(gains)]))
        np.testing.assert_allclose(
            points[name]["y"], [gains[g].mean() for g in difficulty_groups(values)]
        )
    assert (
        np.nanmean(query_gains(result, "plain", "arp").gains[NASTY]) > 2
    )  # a cost: what it sinks by is gained
    curves = {place: courses for place, courses in result.curves.items() if place[1] != SYSTEMS[0]}
    page = Reader(replace(result, curves=curves).to_html(figures=True))
    assert list(lines(page.figure("Validation by number of trees"))) == list(SYSTEMS[1:])


# ---- From training to the page


@pytest.fixture(scope="module")
def parts():
    return tr.simulate.simulate_web_search(60, n_features=16, mean_length=10, seed=3).split(
        [0.5, 0.25, 0.25]
    )


OPTIONS = {
    "losses": ["mse", System("listnet", "few leaves", {"num_leaves": 3})],
    "metrics": ["ndcg@5"],
    "repeats": 2,
}
SMALL = {"n_estimators": 6, "min_child_samples": 5}


@pytest.fixture(scope="module")
def trained(parts, tmp_path_factory):
    """A comparison, and the store of its trainings."""
    store = tmp_path_factory.mktemp("trainings") / "kept.db"
    return tr.compare(*parts, **OPTIONS, **SMALL, store=store), store


def test_histories_are_the_rankers_own_and_survive_the_store(parts, trained):
    first, store = trained
    train, valid, _ = parts
    ranker = tr.Ranker(loss="mse", metric="ndcg@5", **SMALL).fit(train, valid)
    assert first.systems[0].histories[0] == ranker.evals_result_["valid"]["ndcg@5"]
    assert [len(history) for system in first.systems for history in system.histories] == [6] * 4
    again = tr.compare(*parts, **OPTIONS, **SMALL, store=store)
    assert [system.histories for system in again.systems] == [
        system.histories for system in first.systems
    ]
    assert again.trained_with == (f"lightgbm {ranker.model_.version()}",)


def test_python_call_reproduces_the_comparison(parts, trained):
    result, _ = trained
    train, valid, test = parts
    again = eval(
        python_call(result),
        {"tr": tr, "System": System, "train": train, "valid": valid, "test": test},
    )
    for old, new in zip(result.systems, again.systems, strict=True):
        np.testing.assert_array_equal(old.values["ndcg@5"], new.values["ndcg@5"])
    assert html.escape(python_call(result)) in result.to_html()


@pytest.fixture
def arguments(parts, tmp_path):
    for name, part in zip(("train", "valid", "te<st"), parts, strict=True):
        tr.data.write_letor(part, tmp_path / f"{name}.txt")
    words = [
        "compare",
        tmp_path / "train.txt",
        "--test",
        tmp_path / "te<st.txt",
        "-l",
        "mse,listnet",
        "-m",
        "ndcg@5",
    ]
    words += ["--repeats", "2", "--trees", "4", "--workers", "1", "--store", tmp_path / "out"]
    return [str(word) for word in words]


def test_command_line_writes_the_report_with_its_own_command(arguments, capsys, tmp_path):
    typed = [*arguments, "--report", str(tmp_path / "page.html")]
    code, out, _ = run(capsys, *typed)
    assert code == 0
    assert f"Report: {tmp_path / 'page.html'}" in out.replace("\n", "")
    page = Reader((tmp_path / "page.html").read_text())
    assert shlex.split(page.code[-1]) == ["tautrank", *typed]
    assert [a["data-figure"] for _, a in page.elements if "data-figure" in a]
    code, out, _ = run(capsys, *arguments, "--csv")
    assert code == 0
    assert [row["system"] for row in csv.DictReader(io.StringIO(out))] == ["mse", "listnet"]


def test_reports_that_cannot_be_written_are_refused_before_training(
    arguments, capsys, tmp_path, monkeypatch
):
    code, _, err = run(capsys, *arguments, "--report", str(tmp_path / "none" / "page.html"))
    assert code == 2
    assert "page.html: cannot be written (No such file or directory)" in err.replace("\n", "")
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    sentence = "figures in a page need Plotly; install it with: pip install 'tautrank[report]'"
    code, out, err = run(capsys, *arguments, "--report", str(tmp_path / "page.html"))
    assert (code, out, err.replace("\n", "")) == (2, "", f"error: {sentence}")
    assert not (tmp_path / "page.html").exists()
    assert not (tmp_path / "out").exists()
    assert "<table" in made_up().to_html()
    with pytest.raises(MissingDependencyError, match=re.escape(sentence)):
        made_up().to_html(figures=True)


def test_of_many_repeats_the_page_shows_twenty_seeds():
    values = np.random.default_rng(0).random((2, 25, 30))
    text = html.unescape(comparison_of(values).to_html())
    seeds = re.search(r"seeds of the trials</dt><dd>(.*?)</dd>", text)[1]
    assert seeds.count(",") == 19
    assert seeds.endswith(" and 5 more")


def test_given_runs_have_no_seeds_however_many_there_are():
    rng = np.random.default_rng(0)
    judgments = {f"q{query}": {"d1": 1, "d2": 0} for query in range(5)}
    runs = {}
    for system in ("a", "b"):
        runs[system] = [
            {query: {"d1": rng.random(), "d2": rng.random()} for query in judgments}
            for _ in range(25)
        ]
    assert "seed" not in tr.compare_runs(runs, judgments, ["mrr"]).to_html()


def test_printing_a_comparison_imports_nothing_of_papers():
    program = """
import sys
import tautrank as tr
parts = tr.simulate.simulate_web_search(30, n_features=16, mean_length=8).split([.5, .25, .25])
print(tr.compare(*parts, losses=["mse", "listnet"], metrics=["ndcg@5"], repeats=2, n_estimators=2))
print(sorted(name for name in sys.modules if name.startswith("tautrank.papers")))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"
