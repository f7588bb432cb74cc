"""Runs that exist already: the numbers are those of the tools that people know, and no query is
lost in silence.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import pytrec_eval
from scipy import stats

import tautrank as tr
from tautrank.errors import DataError, OptionError

MEASURES = (
    "map",
    "ndcg",
    "ndcg_cut_10",
    "P_10",
    "recall_10",
    "recip_rank",
    "bpref",
    "Rprec",
    "success_5",
    "map_cut_10",
)


def random_runs(seed=0, queries=40, decimals=1):
    """Judgments of some documents, some of them negative, and runs of others too, with many
    ties.
    """
    rng = np.random.default_rng(seed)
    names = [f"doc-{i}" for i in range(80)]
    qrels = {
        f"q{q}": {
            str(d): int(y)
            for d, y in zip(rng.choice(names, 30, False), rng.integers(-1, 4, 30), strict=True)
        }
        for q in range(queries)
    }
    runs = {
        system: {
            q: {
                str(d): round(float(rng.normal(max(labels.get(str(d), 0), 0) * lift)), decimals)
                for d in rng.choice(names, 25, False)
            }
            for q, labels in qrels.items()
        }
        for system, lift in (("bm25", 0.3), ("dense", 0.6))
    }
    return runs, qrels


def by_query(result, system, measure):
    """The values of a comparison's one metric per query."""
    index = [each.name for each in result.systems].index(system)
    (values,) = result.systems[index].values[str(tr.metric(measure, like="trec_eval"))]
    return values.tolist()


# --- other tools ---


@pytest.mark.parametrize("measure", MEASURES)
def test_the_numbers_are_those_of_trec_eval(measure):
    runs, qrels = random_runs()
    result = tr.compare_runs(runs, qrels, [measure], like="trec_eval")
    asked = re.sub(r"_(\d+)$", r".\1", measure)  # a cutoff is asked for by a point
    for system, run in runs.items():
        theirs = pytrec_eval.RelevanceEvaluator(qrels, {asked}).evaluate(run)
        assert by_query(result, system, measure) == pytest.approx(
            [theirs[q][measure] for q in qrels], abs=1e-9
        )


def test_one_run_each_is_the_paired_t_test():
    runs, qrels = random_runs(2)
    result = tr.compare_runs(runs, qrels, ["ndcg@10"])
    a, b = (system.values["ndcg@10"][0] for system in result.systems)
    used = ~np.isnan(a)
    (test,) = result.tests("ndcg@10")
    assert test.p_value == pytest.approx(stats.ttest_rel(b[used], a[used]).pvalue, rel=1e-9)
    assert "one run each: this compares two models, not two methods" in result.note()


def test_the_note_says_how_trec_eval_orders_ties():
    named = tr.compare_runs({"a": RUN, "b": RUN}, QRELS, ["map"], like="trec_eval")
    data = tr.RankingData.from_arrays(np.zeros((4, 1)), [1, 0, 0, 1], group=[2, 2])
    nameless = tr.compare_runs(
        {"a": [2.0, 1, 1, 2], "b": [1.0, 2, 2, 1]}, data, ["map"], like="trec_eval"
    )
    assert "tied documents by name" in named.note()
    assert "tied documents in the order of the data, for want of names" in nameless.note()


# --- files, data, repeats ---


def test_files_of_runs_and_qrels(tmp_path):
    runs, qrels = random_runs(3, queries=6)
    files = {}
    for name, run in runs.items():
        files[name] = tmp_path / f"{name}.trec"
        files[name].write_text(
            "".join(f"{q} Q0 {d} 1 {s!r} x\n" for q, docs in run.items() for d, s in docs.items())
        )
    judged = tmp_path / "qrels.txt"
    judged.write_text(
        "".join(f"{q} 0 {d} {y}\n" for q, docs in qrels.items() for d, y in docs.items())
    )
    ours, theirs = (
        tr.compare_runs(given, j, ["map"]) for given, j in ((files, judged), (runs, qrels))
    )
    for a, b in zip(ours.systems, theirs.systems, strict=True):
        np.testing.assert_array_equal(a.values["map"], b.values["map"])


def test_scores_of_labelled_data(tmp_path):
    data = tr.simulate.simulate_web_search(12, n_features=16, mean_length=8)
    rng = np.random.default_rng(0)
    scores = {
        "a": rng.normal(size=data.n_documents),
        "b": rng.normal(size=data.n_documents) + data.labels,
    }
    tr.data.write_letor(data, tmp_path / "test.txt")
    for name, values in scores.items():
        (tmp_path / f"{name}.txt").write_text("".join(f"{value!r}\n" for value in values.tolist()))
    files = {name: tmp_path / f"{name}.txt" for name in scores}
    lists = {name: values.tolist() for name, values in scores.items()}
    expected = tr.metric("ndcg@5").per_query(scores["b"], data.labels, data.offsets)
    for runs, judged in (
        (scores, data),
        (lists, data),
        (files, data),
        (files, tmp_path / "test.txt"),
    ):
        result = tr.compare_runs(runs, judged, ["ndcg@5"])
        np.testing.assert_array_equal(result.systems[1].values["ndcg@5"][0], expected)


def test_several_runs_of_a_system_are_repeats():
    data = tr.simulate.simulate_web_search(30, n_features=16, mean_length=8)
    rng = np.random.default_rng(1)
    several = {
        name: rng.normal(size=(5, data.n_documents)) + lift * data.labels
        for name, lift in (("a", 0.0), ("b", 2.0))
    }
    result = tr.compare_runs(several, data, ["ndcg@5"])
    assert result.systems[0].values["ndcg@5"].shape == (5, 30)
    same = tr.compare_runs({name: list(runs) for name, runs in several.items()}, data, ["ndcg@5"])
    assert same.tests("ndcg@5")[0].p_value == result.tests("ndcg@5")[0].p_value < 1e-3
    assert "two models" not in result.note()


def test_all_pairs_or_those_with_a_baseline():
    runs, qrels = random_runs(6)
    runs["again"] = runs["bm25"]

    def pairs(**options):
        tests = tr.compare_runs(runs, qrels, ["map"], **options).tests("map")
        return sorted(tuple(sorted((test.better, test.worse))) for test in tests)

    assert pairs() == [(0, 1), (0, 2)]
    assert pairs(baseline="dense") == [(0, 1), (1, 2)]
    assert pairs(pairs="all") == [(0, 1), (0, 2), (1, 2)]


# --- queries that are not everywhere ---


def test_queries_that_only_some_runs_answer():
    qrels = {f"q{i}": {"d": 1} for i in range(6)}
    full = {f"q{i}": {"d": 1.0} for i in range(4)}
    result = tr.compare_runs(
        {"a": full, "b": {"q0": {"d": 2.0}, "q1": {"e": 1.0}, "x": {"d": 1.0}}}, qrels, ["mrr"]
    )
    # q4 and q5 are in no run; b answers neither q2 nor q3, and answers q1 wrongly.
    assert [system.values["mrr"].tolist() for system in result.systems] == [
        [[1, 1, 1, 1]],
        [[1, 0, 0, 0]],
    ]
    assert (
        "Left out: judged queries in no run: 2; queries of runs['b'] without judgments: 1."
        in result.note()
    )
    assert "Counted with nothing retrieved: queries missing from runs['b']: 2." in result.note()


def test_nothing_is_said_where_nothing_is_left_out():
    runs, qrels = random_runs(4, queries=5)
    assert tr.compare_runs(runs, qrels, ["map"]).remarks == ()


def test_unjudged_documents_differ_from_irrelevant_ones_where_the_metric_sees_them():
    runs = {"a": {"q": {"new": 3.0, "good": 2.0}}, "b": {"q": {"bad": 3.0, "good": 2.0}}}
    result = tr.compare_runs(runs, {"q": {"good": 1, "bad": 0}}, ["judged@2", "mrr"])
    assert [system.values["judged@2"].item() for system in result.systems] == [0.5, 1.0]
    assert [system.values["mrr"].item() for system in result.systems] == [0.5, 0.5]


# --- bad input ---

QRELS = {"q1": {"d": 1}, "q2": {"d": 1}}
RUN = {"q1": {"d": 1.0}, "q2": {"d": 1.0}}
DATA = tr.RankingData.from_arrays([[1.0], [2.0]], [0, 1], qid=[1, 1])


@pytest.mark.parametrize(
    ("runs", "judged", "options", "sentence"),
    [
        ({"a": RUN}, QRELS, {}, "runs: found 1; expected at least two systems to compare"),
        ([RUN, RUN], QRELS, {}, "runs: found a list; expected a dictionary from names to runs"),
        ({}, QRELS, {}, "runs: found 0; expected at least two"),
        (
            {"a": RUN, "b": [RUN, RUN]},
            QRELS,
            {},
            r"runs\['b'\]: found 2 runs; expected 1, as the first system has",
        ),
        ({"a": RUN, "b": []}, QRELS, {}, r"runs\['b'\]: found no run; expected at least one"),
        (
            {"a": RUN, "b": {"7": {"d": 1.0}}},
            QRELS,
            {},
            r"runs\['b'\]: shares no query with the judgments; .*'7' and 'q1'",
        ),
        (
            {"a": {"q1": {"d": 1.0}}, "b": {"q2": {"d": 1.0}}},
            QRELS,
            {},
            r"runs\['b'\]: answers no judged query that runs",
        ),
        (
            {"a": RUN, "b": {"q1": {"d": math.nan}}},
            QRELS,
            {},
            r"runs\['b'\]: document 'd' of query 'q1': found nan; expected",
        ),
        (
            {"a": RUN, "b": [1.0, 2.0]},
            QRELS,
            {},
            r"judged: is qrels, but runs\['b'\] holds scores, one per line; expected",
        ),
        ({"a": RUN, "b": RUN}, DATA, {}, r"runs\['a'\]: shares no query with the judgments"),
        (
            {"a": [1.0, 2.0], "b": [1.0]},
            DATA,
            {},
            r"runs\['b'\]: found 1 scores, but judged has 2 documents; expected one",
        ),
        (
            {"a": [1.0, 2.0], "b": [1.0, math.nan]},
            DATA,
            {},
            r"runs\['b'\]\[1\] \(query 0, document 1\): found nan; expected",
        ),
        ({"a": RUN, "b": RUN}, 7, {}, "judged: found int; expected qrels"),
        ({"a": RUN, "b": RUN}, QRELS, {"metrics": []}, "metrics: found none"),
        (
            {"a": RUN, "b": RUN},
            QRELS,
            {"like": "trec-eval"},
            "unknown like 'trec-eval'; did you mean 'trec_eval'",
        ),
        (
            {"a": RUN, "b": RUN},
            QRELS,
            {"metrics": ["map(ties=best)"], "like": "trec_eval"},
            "ties: found best together",
        ),
        ({"a": RUN, "b": RUN}, QRELS, {"baseline": "c"}, "unknown system 'c'"),
        ({"a": RUN, "b": RUN}, QRELS, {"pairs": "every"}, "unknown pairs 'every'"),
        ({"a": RUN, "b": "no.trec"}, QRELS, {}, "no.trec: no such file"),
    ],
)
def test_bad_input(runs, judged, options, sentence):
    with pytest.raises((DataError, OptionError), match=sentence):
        tr.compare_runs(runs, judged, **options)


# --- forms ---


def test_every_form_of_the_result():
    runs, qrels = random_runs(5, queries=12)
    result = tr.compare_runs(runs, qrels, ["ndcg@10", "map"])
    page = result.to_html()
    for text in (
        "Comparison of runs",
        "Which of 2 systems wins on 12 test queries",
        "tr.compare_runs(",
        "What was compared",
    ):
        assert text in page
    for text in ("tree", "train", "seed"):
        assert text not in page.partition("</style>")[2].lower()
    assert result.to_csv().splitlines()[0].startswith("system,")
    assert not {"seconds", "trees"} & set(result.to_csv().splitlines()[0].split(","))
    assert r"\toprule" in result.to_latex()
    assert result.to_dict()["remarks"] == []
