"""The page of a comparison: its numbers, what it escapes, its figures; and in a browser how it behaves."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
import time
from html.parser import HTMLParser
from importlib.resources import files
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tautrank as tr
from tautrank.errors import DataError, MissingDependencyError, OptionError
from tautrank.experiments import comparison as study
from tautrank.report import figures, gains, palette
from tautrank.report.comparison import Comparison
from tautrank.report.comparison_page import python_call
from tautrank.report.page import Code, Facts, FigureSection, Group, Page, TableSection, Text
from tautrank.report.table import Cell, Column, ReportTable
from tests.command_line import run

NASTY = "<b>bold</b> <!-- <script >window.hacked = 1</script> & \"quoted\" <a href='https://example.org'>x</a>"
COMMAND = "tautrank compare '<img src=x onerror=alert(1)>.txt' --report out.html"


def made_up(repeats: int = 3, queries: int = 80, histories: bool = True) -> Comparison:
    """Four systems on a gain and a cost, made of random numbers; the second is clearly better than the others."""
    rng = np.random.default_rng(0)
    names = ["lightgbm:lambdarank", NASTY, "xendcg", "ndcg-loss2++(k=5,mu=2,assignment=soft,samples=10)"]
    plan = study.Plan(
        tuple(study.System("mse", name) for name in names), (tr.metric("ndcg@5"), tr.metric("arp")), repeats
    )
    base = rng.random((1, queries))
    systems = []
    for i, name in enumerate(names):
        gain = np.clip(base * 0.6 + 0.2 * (i == 1) + 0.05 * rng.random((repeats, queries)), 0, 1)
        cost = 20 - 10 * base - 3 * (i == 1) + 0.5 * rng.random((repeats, queries))
        for values in (gain, cost):
            values[:, 7] = math.nan  # a query that the metrics skip
        lengths = 30 + rng.integers(0, 10, repeats)
        course = [list(0.4 + 0.1 * i - np.exp(-np.arange(n) / 9) + 0.01 * rng.random(n)) for n in lengths]
        systems.append(
            study.SystemResult(
                name,
                {"ndcg@5": gain, "arp": cost},
                [int(n) for n in lengths],
                [1.5] * repeats,
                [0.5] * repeats,
                None,
                course if histories else None,
                ("lightgbm 4.7.0", "tautrank 0.1.0"),
            )
        )
    data = tuple(
        study.PartSize(1, part, n, 10 * n, 16) for part, n in (("train", 200), ("valid", 50), ("test", queries))
    )
    return Comparison(plan, tuple(systems), 0.25, data=data)


@pytest.fixture(scope="module")
def result():
    return made_up()


@pytest.fixture(scope="module")
def full(result):
    return result.to_html(figures=True, command=COMMAND)


@pytest.fixture(scope="module")
def static(result):
    return result.to_html(command=COMMAND)


@pytest.fixture(scope="module")
def studied():
    return study_page().to_html()


@pytest.fixture(scope="module")
def read(full, static, studied):
    """The three pages, read once."""
    return {"full": Reader(full), "static": Reader(static), "studied": Reader(studied)}


VOID = {"meta", "br", "img", "hr", "link", "input"}


class Reader(HTMLParser):
    """Reads a page and insists on balanced tags; keeps what the tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tables: list[list[list[dict[str, str | None]]]] = []
        self.code: list[str] = []
        self.title = self.styles = ""
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        elif tag == "script":
            self.scripts.append((dict(attrs), ""))
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append({**dict(attrs), "text": "", "marks": ""})
        elif tag == "code":
            self.code.append("")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, text):
        inside = set(self.open)
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            self.headings[-1] = (self.headings[-1][0], self.headings[-1][1] + text)
        if "script" in inside:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + text)
        if inside & {"td", "th"}:
            self.tables[-1][-1][-1]["marks" if "sup" in inside else "text"] += text
        if "code" in inside:
            self.code[-1] += text
        if "title" in inside:
            self.title += text
        if "style" in inside:
            self.styles += text


def study_page() -> Page:
    """A page of the other kinds of sections and figures, as a study makes one."""
    noise = [0.0, 0.1, 0.2, 0.4]
    mean = np.array([0.45, 0.43, 0.41, 0.36])
    curves = [
        figures.Curve(name, noise, mean - d, mean - d - 0.01, mean - d + 0.01) for name, d in (("a", 0), (NASTY, 0.02))
    ]
    rng = np.random.default_rng(1)
    clouds = [figures.Curve(f"list {i}", rng.random(20) + i, rng.random(20)) for i in range(9)]
    robust = figures.curve_figure(curves, x_title=f"share of noisy labels {NASTY}", y_title="ndcg@5")
    return Page(
        f"A study of {NASTY}",
        [
            Text("Claim", [f"{NASTY} holds."]),
            Group(
                "Figures",
                [
                    FigureSection("Robustness", robust, NASTY, NASTY),
                    FigureSection(
                        "Clouds", figures.curve_figure(clouds, x_title="loss", y_title="gap", lines=False), "c", "s"
                    ),
                ],
            ),
            TableSection("Table", ReportTable.of([NASTY, "n"], [[NASTY, 2], ["b", 10], ["c", None], ["d", 9]], NASTY)),
            Facts("Settings", {NASTY: NASTY}),
            Code("Run it again", NASTY, [NASTY]),
        ],
        lead=NASTY,
    )


# ---- What the page says


KINDS = ("full", "static", "studied")


@pytest.mark.parametrize("kind", KINDS)
def test_html_is_balanced_and_headings_are_in_order(kind, read, request):
    page = read[kind]
    assert request.getfixturevalue(kind).startswith("<!doctype html>\n")
    assert page.elements[0] == ("html", {"lang": "en"})
    assert page.title.strip()
    levels = [level for level, _ in page.headings]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(text.strip() for _, text in page.headings)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "aria-describedby", "data-figure"):
            assert attributes.get(name, ids[0]) in ids
        assert (attributes.get("href") or "#" + ids[0])[1:] in ids


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_fetched_and_only_its_own_scripts_run(kind, read):
    page = read[kind]
    for tag, attributes in page.elements:
        assert tag not in ("img", "link", "iframe", "object", "embed", "base", "form", "b")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import", page.styles)
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    run = [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in run]
    assert re.search(r"script-src (.*)$", policy).group(1).split() == (hashes or ["'none'"])
    assert len(run) == (0 if kind == "static" else 2)  # Plotly's once, and the page's own


def test_names_are_shown_as_they_are(full, static, studied, read):
    for kind in ("full", "static"):
        assert NASTY in [row[1]["text"] for row in read[kind].tables[0]]
        assert read[kind].code[-1] == COMMAND
    assert read["studied"].title == f"A study of {NASTY}"
    assert read["studied"].code[-1] == NASTY
    for text in (full, static, studied):
        assert "<script >window.hacked" not in text


def test_table_holds_the_numbers_of_to_dict(result, read):
    plain = result.to_dict()
    for kind in ("full", "static"):
        head, *rows = read[kind].tables[0]
        assert [cell["text"] for cell in head] == [
            "row", "loss", "ndcg@5", "arp (lower is better)", "w/t/l", "trees", "sec."
        ]  # fmt: skip
        for row, system in zip(rows, plain["systems"], strict=True):
            assert [row[0]["text"], row[1]["text"]] == [system["letter"], system["name"]]
            for cell, name in ((row[2], "ndcg@5"), (row[3], "arp")):
                entry = system["metrics"][name]
                assert float(cell["data-key"]) == entry["mean"]
                assert cell["text"].split(" ±")[0] == f"{entry['mean']:.4f}"
                assert float(cell["text"].split(" ±")[1]) == pytest.approx(entry["spread"], abs=5e-4)
                letters = {s["name"]: s["letter"] for s in plain["systems"]}
                assert sorted(cell["marks"]) == sorted(letters[name] for name in entry["better_than"])
            if system["letter"] != "a":
                assert row[4]["text"] == "/".join(map(str, system["metrics"]["ndcg@5"]["win_tie_loss"]))
        assert [cell["marks"] for cell in (rows[1][2], rows[1][3])] == ["acd", "acd"]


def test_pairs_hold_the_numbers_of_to_dict(result, read):
    _, *rows = read["full"].tables[1]
    expected = [
        (name, pair["better"], pair["worse"], pair["difference"], pair["p"], pair["p_holm"])
        for name, pairs in result.to_dict()["pairs"].items()
        for pair in pairs
    ]
    got = [tuple(c["text"] for c in row[:3]) + tuple(float(c["data-key"]) for c in row[3:]) for row in rows]
    assert got == expected


def test_csv_holds_every_number_in_full(result, read):
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    for row, system in zip(rows, result.to_dict()["systems"], strict=True):
        for name in ("ndcg@5", "arp"):
            entry = system["metrics"][name]
            assert float(row[name]) == entry["mean"]
            assert float(row[f"{name} spread"]) == entry["spread"]
            assert len(row[f"{name} better than"]) == len(entry["better_than"])
        assert row["loss"] == system["name"]
        counts = [row["won"], row["tied"], row["lost"]]
        assert (
            counts == ["", "", ""]
            if row["row"] == "a"
            else counts == list(map(str, system["metrics"]["ndcg@5"]["win_tie_loss"]))
        )
    code = read["full"].code
    assert result.to_csv() in code
    assert result.to_latex() in code
    assert result.pair_table().to_csv() in code


def test_words_name_the_winner_and_what_it_beats():
    words = made_up().findings()
    assert words[0].startswith(f"ndcg@5: {NASTY} has the best mean, ")
    assert words[0].endswith("It is significantly better than lightgbm:lambdarank, xendcg and "
                             "ndcg-loss2++(k=5,mu=2,assignment=soft,samples=10).")  # fmt: skip
    assert words[1].startswith(f"arp: {NASTY} has the best mean, ")
    even = np.tile(np.linspace(0, 1, 30), (2, 1))
    plan = study.Plan(("mse", "xendcg"), (tr.metric("ndcg@5"),), 2)
    systems = tuple(study.SystemResult(name, {"ndcg@5": even}, [1], [1.0], [0.5], None) for name in plan.names())
    assert Comparison(plan, systems, 0.0).findings() == [
        "ndcg@5: mse has the best mean, 0.5000. The difference from xendcg may be chance."
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_no_character_is_one_that_html_forbids(kind, request):
    assert not re.search("[\\x00-\\x08\\x0b\\x0e-\\x1f\\x7f-\\x9f\\ufffe\\uffff\\r]", request.getfixturevalue(kind))


def test_settings_say_seeds_versions_parameters_and_data(full):
    text = html.unescape(re.sub(r"<[^>]+>", "|", full.split("</header>")[1].split('id="dark-colours"')[0]))
    for expected in ("0, 1000, 2000", "lightgbm 4.7.0, tautrank 0.1.0", f"NumPy {np.__version__}", "2000", "0.25"):
        assert expected in text


def test_same_result_same_bytes(result, full):
    assert result.to_html(figures=True, command=COMMAND) == full


def test_page_without_figures_has_no_script_and_no_address(static):
    assert "<script" not in static
    assert "http" not in static.replace("http-equiv", "").replace("https://example.org", "")


def test_one_system_one_repeat_no_histories_is_still_a_page():
    plan = study.Plan(("mse",), (tr.metric("ndcg@5"),), 1)
    values = {"ndcg@5": np.array([[0.5, math.nan, 0.7]])}
    page = Reader(
        Comparison(plan, (study.SystemResult("mse", values, [3], [0.1], [0.5], None),), 0.0).to_html(figures=True)
    )
    assert [text for level, text in page.headings if level == 2] == ["Answer", "Results", "Settings", "Run it again"]
    empty = {"ndcg@5": np.full((1, 3), math.nan)}
    systems = tuple(study.SystemResult(name, empty, [3], [0.1], [0.5], None) for name in ("mse", "xendcg"))
    plan = study.Plan(("mse", "xendcg"), (tr.metric("ndcg@5"),), 1)
    skipped = Comparison(plan, systems, 0.0)
    assert skipped.findings() == ["ndcg@5: every query was skipped."]
    assert "nan" not in skipped.to_csv()
    assert "data-key" not in str([row[2] for row in Reader(skipped.to_html(figures=True)).tables[0][1:]])


# ---- From training to the page


@pytest.fixture(scope="module")
def parts():
    return tr.simulate.simulate_web_search(60, n_features=16, mean_length=10, seed=3).split([0.5, 0.25, 0.25])


OPTIONS = {
    "losses": ["mse", study.System("listnet", "few leaves", {"num_leaves": 3})],
    "metrics": ["ndcg@5"],
    "repeats": 2,
}
SMALL = {"n_estimators": 6, "min_child_samples": 5}


@pytest.fixture(scope="module")
def trained(parts, tmp_path_factory):
    """A comparison, and the folder of its trainings."""
    folder = tmp_path_factory.mktemp("trainings")
    return tr.compare(*parts, **OPTIONS, **SMALL, store=folder), folder


def test_histories_are_the_rankers_own_and_survive_the_store(parts, trained):
    first, folder = trained
    train, valid, _ = parts
    ranker = tr.Ranker(loss="mse", metric="ndcg@5", **SMALL).fit(train, valid)
    assert first.systems[0].histories[0] == ranker.evals_result_["valid"]["ndcg@5"]
    assert [len(history) for system in first.systems for history in system.histories] == [6] * 4
    again = tr.compare(*parts, **OPTIONS, **SMALL, store=folder)
    assert [system.histories for system in again.systems] == [system.histories for system in first.systems]
    assert again.systems[0].versions == (f"lightgbm {ranker.model_.version()}", f"tautrank {tr.__version__}")


def test_old_stores_have_no_course_but_everything_else(parts, trained, tmp_path, monkeypatch):
    before, folder = trained
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for file in sorted(tmp_path.glob("*.json"))[:1]:  # one unit as it was written before histories were kept
        unit = json.loads(file.read_text())
        del unit["result"]["history"], unit["result"]["versions"]
        file.write_text(json.dumps(unit))
    monkeypatch.setattr(study, "run_unit", lambda *_: pytest.fail("trained again"))
    after = tr.compare(*parts, **OPTIONS, **SMALL, store=tmp_path)
    assert after.to_dict() == before.to_dict()
    assert [system.histories is None for system in after.systems] == [False, True]
    page = after.to_html(figures=True)
    assert "Trainings of few leaves were stored without their course." in page
    for file in tmp_path.glob("*.json"):
        unit = json.loads(file.read_text())
        unit["result"].pop("history", None)
        unit["result"].pop("versions", None)
        file.write_text(json.dumps(unit))
    oldest = tr.compare(*parts, **OPTIONS, **SMALL, store=tmp_path)
    titles = [text for _, text in Reader(oldest.to_html(figures=True)).headings]
    assert "Validation by number of trees" not in titles
    assert "Gain of each query over mse" in titles


def test_python_call_reproduces_the_comparison(parts, trained):
    result, _ = trained
    train, valid, test = parts
    again = eval(python_call(result), {"tr": tr, "System": study.System, "train": train, "valid": valid, "test": test})
    for old, new in zip(result.systems, again.systems, strict=True):
        np.testing.assert_array_equal(old.values["ndcg@5"], new.values["ndcg@5"])
    assert html.escape(python_call(result)) in result.to_html()


@pytest.fixture
def arguments(parts, tmp_path):
    for name, part in zip(("train", "valid", "te<st"), parts, strict=True):
        tr.write_letor(part, tmp_path / f"{name}.txt")
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
    words += ["--repeats", "2", "--trees", "4", "--workers", "1", "--results", tmp_path / "out"]
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
    assert [row["loss"] for row in csv.DictReader(io.StringIO(out))] == ["mse", "listnet"]


def test_without_plotly_the_report_is_refused_before_training(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    sentence = "figures in a page need Plotly; install it with: pip install 'tautrank[report]'"
    code, out, err = run(capsys, *arguments, "--report", str(tmp_path / "page.html"))
    assert (code, out, err.replace("\n", "")) == (2, "", f"error: {sentence}")
    assert not (tmp_path / "page.html").exists()
    assert not (tmp_path / "out").exists()
    assert "<table" in made_up().to_html()
    with pytest.raises(MissingDependencyError) as caught:
        made_up().to_html(figures=True)
    assert str(caught.value) == sentence
    with pytest.raises(MissingDependencyError):
        Page("x", [FigureSection("f", {"data": []}, "c", "s")]).to_html()


def test_a_report_that_has_no_folder_is_refused_before_training(arguments, capsys, tmp_path):
    code, _, err = run(capsys, *arguments, "--report", str(tmp_path / "none" / "page.html"))
    assert code == 2
    assert "page.html: cannot be written (No such file or directory)" in err.replace("\n", "")
    assert not (tmp_path / "out").exists()


# ---- Figures


@pytest.fixture(scope="module")
def drawn(read):
    """The data of all figures of the comparison's page, in order."""
    scripts = read["full"].scripts
    return [json.loads(text) for attributes, text in scripts if (attributes.get("id") or "").endswith("-figure")]


def test_validation_curves_are_means_and_deviations_over_trainings(result, drawn):
    figure = drawn[0]
    bands = [trace for trace in figure["data"] if trace.get("fill") == "toself"]
    lines = [trace for trace in figure["data"] if "fill" not in trace]
    assert [trace["legendgroup"] for trace in lines] == [system.name for system in result.systems]
    for system, line, band in zip(result.systems, lines, bands, strict=True):
        shortest = min(map(len, system.histories))
        values = [[history[t] for history in system.histories] for t in range(shortest)]
        mean = [sum(v) / len(v) for v in values]
        spread = [math.sqrt(sum((x - m) ** 2 for x in v) / (len(v) - 1)) for v, m in zip(values, mean, strict=True)]
        assert line["x"] == list(range(1, shortest + 1))
        np.testing.assert_allclose(line["y"], mean)
        np.testing.assert_allclose(band["y"][:shortest], np.add(mean, spread))
        np.testing.assert_allclose(band["y"][shortest:][::-1], np.subtract(mean, spread))


def test_query_gains_are_differences_of_means_over_repeats(result, drawn):
    figure = drawn[1]
    base = result.systems[0].values["ndcg@5"]
    for trace, system in zip(figure["data"], result.systems[1:], strict=True):
        gains = sorted(
            sum(system.values["ndcg@5"][r, q] - base[r, q] for r in range(3)) / 3 for q in range(80) if q != 7
        )
        np.testing.assert_allclose(trace["y"], gains)


def test_gains_in_a_cost_are_what_it_sinks_by(result):
    arp = result.plan.metrics[1]
    assert np.nanmean(result.query_gains(arp, 1)) > 2
    np.testing.assert_allclose(result.query_gains(arp, 1, 0), -result.query_gains(arp, 0, 1))


def test_one_colour_a_system_in_all_figures(result, drawn):
    seen: dict[str, set[str]] = {}
    for figure in drawn:
        for trace in figure["data"]:
            if trace.get("fill") == "toself":
                seen.setdefault(trace["legendgroup"], set()).add(trace["fillcolor"])
            else:
                seen.setdefault(trace["legendgroup"], set()).add(trace["marker"]["color"])
    for i, system in enumerate(result.systems):
        colour = palette.LIGHT_COLOURS[i]
        assert seen[system.name] == {colour, palette.band_colour(colour)}


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.integers(1, 20))
def test_bars_are_sorted_and_keep_the_mean(values, most):
    bars = gains.sorted_bars(values, most)
    assert bars.size == min(most, len(values))
    assert (np.diff(bars) >= -1e-12).all()
    counts = [part.size for part in np.array_split(np.arange(len(values)), bars.size)]
    np.testing.assert_allclose(np.average(bars, weights=counts), np.mean(values), atol=1e-12)
    assert max(counts) - min(counts) <= 1


@given(
    st.lists(st.one_of(st.just(math.nan), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)), max_size=40),
    st.integers(1, 6),
    st.booleans(),
)
def test_difficulty_groups_divide_the_queries_and_keep_equals_together(values, groups, higher):
    baseline = np.array(values, float)
    found = gains.difficulty_groups(baseline, groups, higher_is_better=higher)
    assert len(found) <= groups
    together = np.concatenate([group.queries for group in found]) if found else np.array([])
    assert sorted(together) == np.flatnonzero(~np.isnan(baseline)).tolist()
    for easier, harder in zip(found[1:], found, strict=False):
        assert harder.highest < easier.lowest if higher else harder.lowest > easier.highest
    for group in found:
        assert (group.lowest, group.highest) == (baseline[group.queries].min(), baseline[group.queries].max())


def test_distinct_values_fall_into_even_groups():
    found = gains.difficulty_groups(np.random.default_rng(0).permutation(100) / 100)
    assert [group.queries.size for group in found] == [20] * 5


def test_difficulty_shows_the_mean_of_each_group_inside_its_interval(result, drawn):
    figure = drawn[2]
    base = result.systems[0].values["ndcg@5"].mean(axis=0)
    groups = gains.difficulty_groups(base)
    for i, trace in enumerate(figure["data"], 1):
        gained = result.query_gains(result.plan.metrics[0], i)
        np.testing.assert_allclose(trace["y"], [gained[group.queries].mean() for group in groups])
        for group, up, down in zip(groups, trace["error_y"]["array"], trace["error_y"]["arrayminus"], strict=True):
            error = gained[group.queries].std(ddof=1) / math.sqrt(group.queries.size)
            assert 0.5 * 1.96 * error < min(up, down) <= max(up, down) < 1.5 * 1.96 * error


def test_condition_curves_draw_what_they_are_given():
    curve = figures.Curve("a", [1, 2, 3], [0.3, math.nan, 0.1], [0.2, math.nan, 0.0], [0.4, math.nan, 0.2])
    band, line = figures.curve_figure([curve], x_title="x", y_title="y", log_x=True).data
    assert line.y == (0.3, None, 0.1)
    assert (band.x, band.y) == ((1.0, 3.0, 3.0, 1.0), (0.4, 0.2, 0.0, 0.2))


def test_wrong_figures_and_tables_are_refused():
    for make, kind, sentence in (
        (lambda: figures.Curve("a", [1, 2], [1]), DataError, "curve 'a': found [1, 2] values; expected as many"),
        (lambda: figures.Curve("a", [1], [1], low=[0]), OptionError, "low, high: found one of them for 'a'"),
        (lambda: figures.Curve("a", ["x"], [1]), DataError, "x of 'a': found ['x']; expected numbers"),
        (lambda: figures.Curve("a", [[1]], [1]), DataError, "x of 'a': found 2 dimensions; expected 1"),
        (
            lambda: figures.curve_figure(
                [figures.Curve("a", np.zeros(50_001), np.zeros(50_001))], x_title="", y_title="", lines=False
            ),
            DataError,
            "curves: found 50,001 points; expected at most 50,000",
        ),
        (
            lambda: figures.curve_figure([figures.Curve("a", [0], [0])], x_title="", y_title="", styles={}),
            OptionError,
            "styles: found none for 'a'",
        ),
        (lambda: ReportTable((Column("a"),), ((),)), DataError, "rows: found 0 cells in row 0; expected 1"),
        (
            lambda: ReportTable((Column("a", ("x", "y")),), ((Cell("1"),),)),
            DataError,
            "rows: found 1 values in column 'a' of row 0; expected 2",
        ),
        (
            lambda: Page("t", [FigureSection("f", {"data": []}, "", "")], interactive=False).to_html(),
            OptionError,
            "interactive: found False for a page with figures",
        ),
        (lambda: Page("t", [FigureSection("f", 3, "", "")]).to_html(), DataError, "figure: found int"),
        (
            lambda: Page("t", [FigureSection("f", {"data": [{"y": [math.inf]}]}, "", "")]).to_html(),
            DataError,
            "figure: found NaN or infinity; expected finite numbers, or None",
        ),
    ):
        with pytest.raises(kind) as caught:
            make()
        assert str(caught.value).startswith(sentence)


def test_latex_and_markdown_escape_what_they_would_read():
    special = "\\ { } $ & # _ % ~ ^ < > ±"
    table = ReportTable.of(["name", "n"], [[special, 1.5]])
    assert (
        r"\textbackslash{} \{ \} \$ \& \# \_ \% \textasciitilde{} \textasciicircum{} \textless{} " in table.to_latex()
    )
    assert table.to_latex().startswith("\\begin{tabular}{lr}\n")
    assert "| \\| &lt;b> &amp; | 2 |" in ReportTable.of(["a", "b"], [["| <b> &", 2]]).to_markdown()


# ---- Colours

# Machado, Oliveira and Fernandes, A physiologically-based model for simulation of color vision deficiency, 2009.
EYES = {
    "normal": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
TO_CONES.append([0.0883024619, 0.2817188376, 0.6299787005])
TO_OKLAB = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
TO_OKLAB.append([0.0259040371, 0.7827717662, -0.8086757660])


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("colours", [palette.LIGHT_COLOURS, palette.DARK_COLOURS], ids=["light", "dark"])
def test_systems_are_told_apart_by_every_kind_of_eyes(colours, eyes):
    """Distances in OKLab; the closest two of the Okabe-Ito palette are 0.076 apart for red-blind readers."""
    seen = np.clip([linear(colour) @ np.transpose(EYES[eyes]) for colour in colours], 0, 1)
    oklab = np.cbrt(seen @ np.transpose(TO_CONES)) @ np.transpose(TO_OKLAB)
    distances = np.linalg.norm(oklab[:, None] - oklab[None], axis=-1)[np.triu_indices(len(colours), 1)]
    assert distances.min() > 0.085


CSS = files("tautrank.report").joinpath("page.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w+): (#\w+);", block)) for block in CSS.split("@media")[:2])


def test_everything_stands_out_from_its_background():
    for theme, colours in ((LIGHT, palette.LIGHT_COLOURS), (DARK, palette.DARK_COLOURS)):
        assert min(contrast(colour, theme["paper"]) for colour in colours) > 3
        for background in ("paper", "shade"):
            assert min(contrast(theme[text], theme[background]) for text in ("ink", "quiet", "accent")) > 4.5


def test_styles_differ_beyond_the_colours():
    styles = palette.system_styles([str(i) for i in range(40)])
    assert len({(style.colour, style.dash) for style in styles.values()}) == 40
    assert len({(style.colour, style.symbol) for style in styles.values()}) == 40


# ---- In a browser


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = os.environ.get("TAUTRANK_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium found: install one (Debian: apt-get install chromium) or set TAUTRANK_CHROMIUM to it")
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=[*quiet, "--disable-sync", "--no-first-run"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def addresses(full, static, studied, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    texts = {"comparison": full, "study": studied, "static": static}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: (folder / f"{name}.html").as_uri() for name in texts}


PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture(scope="module")
def opened(browser, addresses):
    """Open a page; with it comes what it complained about and what it asked for."""
    contexts = []

    def open_page(name, **options):
        context = browser.new_context(**DESKTOP | {"color_scheme": "light"} | options)
        contexts.append(context)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if request.url != addresses[name] else None)
        page.goto(addresses[name])
        return page, complaints

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def visit(opened):
    """Open a page of one's own; at the end, it logged no error and asked for nothing but itself."""
    visits = []

    def open_page(name, **options):
        visits.append(opened(name, **options))
        return visits[-1][0]

    yield open_page
    for page, complaints in visits:
        page.close()
        assert complaints == []


@pytest.fixture(scope="module")
def shown(opened):
    """Pages to look at and leave as they are; loading one takes a while."""
    pages = {}

    def look(name, options):
        key = (name, options is PHONE)
        if key not in pages:
            pages[key] = opened(name, **options)
        page, complaints = pages[key]
        assert complaints == []
        return page

    return look


def wait_until(condition) -> None:
    """Ask again until it holds; the page's own rules forbid the browser to do the asking."""
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("waited ten seconds in vain")


def drawn_width(page) -> float:
    """Of the first figure; 0 while it is drawn anew."""
    return page.evaluate("document.querySelector('#section-4-plot svg.main-svg')?.getBoundingClientRect().width ?? 0")


def background(page) -> float:
    """Brightness of the page, 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(int(part) for part in re.findall(r"\d+", colour)[:3])


@pytest.mark.parametrize("name", ["comparison", "study"])
def test_every_figure_is_drawn(shown, name):
    page = shown(name, DESKTOP)
    plots = page.query_selector_all(".drawing")
    assert len(plots) == {"comparison": 3, "study": 2}[name]
    for plot in plots:
        size = plot.query_selector("svg.main-svg").bounding_box()
        assert size["width"] > 300
        assert size["height"] > 200
        shapes = plot.query_selector_all(".trace path")
        assert any(shape.bounding_box()["width"] > 0 for shape in shapes)
    assert page.evaluate("window.hacked") is None


def test_names_appear_as_text_in_legends_and_panels(shown):
    page = shown("comparison", DESKTOP)
    legend = [button.inner_text() for button in page.query_selector_all("#section-4-legend button")]
    assert [text.removeprefix("\n").strip() for text in legend][1] == NASTY
    panels = page.eval_on_selector_all("#section-5-plot .annotation-text", "all => all.map((e) => e.textContent)")
    assert panels[0] == NASTY[:33] + "…"
    assert page.query_selector("main a[href^='http']") is None
    page.locator("#section-6-plot").scroll_into_view_if_needed()
    point = page.locator("#section-6-plot .scatterlayer .trace").first.locator(".points path").nth(2).bounding_box()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    wait_until(lambda: page.locator("#section-6-plot .hoverlayer .name").count() == 1)
    assert page.locator("#section-6-plot .hoverlayer .name").text_content().startswith(NASTY[:12])
    page.mouse.move(0, 0)


def test_tables_sort(visit, result):
    page = visit("comparison")

    def press(title):
        page.locator("#section-2 th button", has_text=title).click()

    def column(number):
        return page.eval_on_selector_all(
            f"#section-2 tbody tr td:nth-child({number})", "all => all.map((e) => e.dataset.key ?? null)"
        )

    means = [system.means("ndcg@5").mean() for system in result.systems]
    press("ndcg@5")
    assert [float(key) for key in column(3)] == sorted(means, reverse=True)  # the best first
    assert page.locator("#section-2 th[aria-sort=descending]").inner_text().startswith("ndcg@5")
    press("ndcg@5")
    assert [float(key) for key in column(3)] == sorted(means)
    press("arp")
    assert [float(key) for key in column(4)] == sorted(system.means("arp").mean() for system in result.systems)
    assert page.locator("#section-2 th[aria-sort]").count() == 1
    press("w/t/l")
    assert column(5)[-1] is None  # the first row has no opponent; last in either direction
    press("w/t/l")
    assert column(5)[-1] is None
    page.locator("#section-2 th button", has_text="row").focus()
    page.keyboard.press("Enter")
    assert column(1) == ["a", "b", "c", "d"]
    page.keyboard.press("Space")
    assert column(1) == ["d", "c", "b", "a"]
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("#section-2 th[aria-sort=ascending]").inner_text().startswith("loss")


def test_numbers_sort_as_numbers(visit):
    page = visit("study")
    page.locator("th button", has_text="n").last.click()
    keys = page.eval_on_selector_all("tbody td:nth-child(2)", "all => all.map((e) => e.dataset.key ?? null)")
    assert keys == ["2", "9", "10", None]


@pytest.mark.parametrize("name", ["comparison", "study", "static"])
def test_a_phone_scrolls_tables_in_their_box_and_the_page_not_at_all(shown, name):
    page = shown(name, PHONE)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("window.innerWidth") == 390
    if name != "study":
        box = page.locator("#section-2 .scroll")
        assert box.evaluate("(e) => e.scrollWidth > e.clientWidth")
        assert box.evaluate("(e) => { e.scrollLeft = 50; return e.scrollLeft; }") == 50


@pytest.mark.parametrize("name", ["comparison", "study"])
@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_label_is_cut_and_none_lies_on_another(shown, name, options):
    page = shown(name, options)
    plots = page.evaluate(
        """() => [...document.querySelectorAll('.drawing')].map((plot) => {
          const words = '.xtick text, .ytick text, .xtitle, .ytitle, .annotation-text';
          return [plot, ...plot.querySelectorAll(words)].map((e) => {
            const { left, right, top, bottom } = e.getBoundingClientRect();
            return [left, right, top, bottom, e === plot ? '' : e.textContent];
          });
        })"""
    )
    for outer, *labels in plots:
        assert len(labels) > 5
        for left, right, _, bottom, text in labels:
            assert left >= outer[0] - 1, text
            assert right <= outer[1] + 1, text
            assert bottom <= outer[3] + 1, text
        for a, b in combinations(labels, 2):
            across = min(a[1], b[1]) - max(a[0], b[0])
            along = min(a[3], b[3]) - max(a[2], b[2])
            assert across < 2 or along < 2, (a[4], b[4])


def test_dark_mode_is_dark_figures_included(visit):
    page = visit("comparison", color_scheme="dark")
    assert background(page) < 60

    def colours():
        return page.evaluate(
            """() => [
              getComputedStyle(document.querySelector('#section-4-plot .xtick text')).fill,
              getComputedStyle(document.querySelectorAll('#section-4-plot .scatterlayer .js-line')[4]).stroke,
              document.querySelector('#section-4-legend svg line').getAttribute('stroke'),
            ]"""
        )

    def rgb(colour):
        return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))

    text, line, swatch = colours()
    assert text == rgb(DARK["ink"])
    assert line == rgb(palette.DARK_COLOURS[0])
    assert swatch == palette.DARK_COLOURS[0]
    page.emulate_media(color_scheme="light")
    wait_until(lambda: colours()[0] == rgb(LIGHT["ink"]))
    assert background(page) == 255
    assert colours()[1:] == [rgb(palette.LIGHT_COLOURS[0]), palette.LIGHT_COLOURS[0]]


def test_legend_hides_and_shows_a_system(visit):
    page = visit("comparison")
    button = page.locator("#section-4-legend button").nth(2)
    lines = "#section-4-plot .scatterlayer .js-line"
    before = page.locator(lines).count()
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator(lines).count() < before
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert page.locator(lines).count() == before


def test_figures_follow_the_window(visit):
    page = visit("comparison")
    page.set_viewport_size({"width": 600, "height": 900})
    wait_until(lambda: drawn_width(page) < 600)
    assert page.evaluate("document.documentElement.scrollWidth") <= 600


def test_print_has_light_static_figures_and_no_controls(visit):
    page = visit("comparison", color_scheme="dark")
    page.emulate_media(media="print")
    wait_until(lambda: drawn_width(page) == 680)
    assert background(page) == 255
    ink = page.evaluate("getComputedStyle(document.querySelector('#section-4-plot .xtick text')).fill")
    assert max(int(part) for part in re.findall(r"\d+", ink)) < 100
    for control in ("nav", ".forms", ".modebar-container", "#section-3"):
        assert not any(element.is_visible() for element in page.query_selector_all(control)), control
    assert page.locator("#section-2 td").first.is_visible()
    dragging = page.eval_on_selector_all(
        ".drawing .drag", "all => all.filter((e) => getComputedStyle(e).pointerEvents !== 'none').length"
    )
    assert dragging == 0
    page.emulate_media(media="screen")
    wait_until(lambda: drawn_width(page) > 680)
    assert background(page) < 60


def test_without_scripts_the_table_is_there_and_figures_say_why_they_are_not(visit):
    page = visit("comparison", java_script_enabled=False)
    assert page.locator("#section-2 td").first.is_visible()
    assert page.locator("noscript p").count() == 3
    assert page.locator("noscript p").first.bounding_box()["height"] > 10
