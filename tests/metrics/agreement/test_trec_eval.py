"""trec_eval, through pytrec_eval: the label itself as gain, ties by document name, scores in 32
bits.
"""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval

import tautrank.metrics as M
from tautrank.errors import DataError

from .lists import LOG2, Lists, agree, one, random_lists

MEASURES = {
    "ndcg": "ndcg",
    "ndcg_cut_1": "ndcg@1",
    "ndcg_cut_5": "ndcg@5",
    "ndcg_cut_100": "ndcg@100",
    "map": "map",
    "map_cut_1": "map@1",
    "map_cut_5": "map@5",
    "map_cut_100": "map@100",
    "recip_rank": "mrr",
    "P_1": "precision@1",
    "P_5": "precision@5",
    "P_100": "precision@100",
    "set_P": "precision",
    "recall_1": "recall@1",
    "recall_5": "recall@5",
    "set_recall": "recall",
    "set_F": "f1",
    "success_1": "success@1",
    "success_5": "success@5",
    "Rprec": "r-precision",
    "bpref": "bpref",
}
CUTS = {f"{family}.1,5,100" for family in ("ndcg_cut", "map_cut", "P", "recall", "success")}
FAMILIES = {"ndcg", "map", "recip_rank", "set_P", "set_recall", "set_F", "Rprec", "bpref"} | CUTS


def name(document: int) -> str:
    return f"doc{document:03d}"


def trec_eval(lists: Lists, measure: str, **options: object) -> list[float]:
    """Judge every list; -inf means that the run does not have the document, which only the qrels
    know.
    """
    qrels = {
        f"{q:03d}": {name(i): int(v) for i, v in enumerate(y)} for q, (_, y) in enumerate(lists)
    }
    run = {
        f"{q:03d}": {name(i): float(v) for i, v in enumerate(s) if v > -np.inf}
        for q, (s, _) in enumerate(lists)
    }
    results = pytrec_eval.RelevanceEvaluator(qrels, FAMILIES, **options).evaluate(run)
    return [results[q][measure] for q in sorted(qrels)]


def single(measure: str, scores: dict[str, float], labels: dict[str, int]) -> float:
    return pytrec_eval.RelevanceEvaluator({"q": labels}, {measure}).evaluate({"q": scores})["q"][
        measure
    ]


def options_of(ours: str) -> dict[str, object]:
    return {"empty": "zero", **({"gain": "linear"} if ours.startswith("ndcg") else {})}


# --- where conventions coincide ---


@pytest.mark.parametrize(("theirs", "ours"), MEASURES.items())
def test_without_ties(theirs, ours):
    lists = random_lists(2)
    agree(lists.ours(ours, **options_of(ours)), trec_eval(lists, theirs))


@pytest.mark.parametrize(("theirs", "ours"), MEASURES.items())
def test_documents_that_were_not_retrieved(theirs, ours):
    lists = random_lists(3, shortest=2)
    # Every list keeps its first document: trec_eval leaves out queries without any (see below).
    lost = np.random.default_rng(0).random(lists.scores.size) < 0.3
    lost[lists.offsets[:-1]] = False
    lists = Lists(np.where(lost, -np.inf, lists.scores), lists.labels, lists.offsets)
    agree(lists.ours(ours, **options_of(ours)), trec_eval(lists, theirs))


@pytest.mark.parametrize(
    ("theirs", "ours"), [(t, o) for t, o in MEASURES.items() if "ndcg" not in t]
)
def test_relevance_level(theirs, ours):
    lists = random_lists(4)
    agree(lists.ours(ours, empty="zero", relevant=3), trec_eval(lists, theirs, relevance_level=3))


@pytest.mark.parametrize(("theirs", "ours"), MEASURES.items())
def test_ties_are_by_descending_document_name(theirs, ours):
    # With the rows of each query in descending order of their names, that is our ties="input".
    lists = random_lists(5, tied=True)
    expected = trec_eval(lists, theirs)
    order = np.concatenate(
        [
            np.arange(stop - 1, start - 1, -1)
            for start, stop in zip(lists.offsets, lists.offsets[1:], strict=False)
        ]
    )
    renamed = Lists(lists.scores[order], lists.labels[order], lists.offsets)
    agree(renamed.ours(ours, ties="input", **options_of(ours)), expected)


@pytest.mark.parametrize("theirs", MEASURES)
@pytest.mark.parametrize("tied", [True, False])
def test_preset_by_the_name_it_has_there(theirs, tied):
    # Documents that were not retrieved, documents that were not judged, scores equal in 32 bits
    # only, ties by name.
    lists, rng = random_lists(40, shortest=2, tied=tied), np.random.default_rng(4)
    lost, judged = rng.random((2, lists.scores.size)) < [[0.2], [0.8]]
    lost[lists.offsets[:-1]], judged[lists.offsets[:-1]] = False, True
    scores = np.where(lost, -np.inf, lists.scores + rng.integers(0, 2, lists.scores.size) * 1e-12)
    labels = np.where(judged, lists.labels, 0)
    qrels, run, order = {}, {}, []
    for q, (start, stop) in enumerate(zip(lists.offsets, lists.offsets[1:], strict=False)):
        names = [name(i) for i in rng.permutation(stop - start)]
        rows = range(start, stop)
        qrels[f"{q:03d}"] = {
            n: int(labels[i]) for n, i in zip(names, rows, strict=True) if judged[i]
        }
        run[f"{q:03d}"] = {
            n: float(scores[i]) for n, i in zip(names, rows, strict=True) if not lost[i]
        }
        order += [i for _, i in sorted(zip(names, rows, strict=True), reverse=True)]
    results = pytrec_eval.RelevanceEvaluator(qrels, FAMILIES).evaluate(run)
    ours = M.metric(theirs, like="trec_eval")
    assert ours == M.metric(MEASURES[theirs], ties="input", **options_of(MEASURES[theirs]))
    lists_in_order = np.float32(scores)[order], labels[order], lists.offsets
    agree(
        ours.per_query(*lists_in_order, judged=judged[order]),
        [results[q][theirs] for q in sorted(qrels)],
    )


# --- where they do not ---


def test_bpref_without_anything_judged_irrelevant_is_1():
    assert single("bpref", {"a": 2.0, "b": 1.0}, {"b": 1}) == 1.0
    assert M.metric("bpref").per_query([2.0, 1.0], [0, 1], judged=[False, True]) == [1.0]


def test_tie_order_is_that_of_names_as_text():
    # "b" goes before "a"; "d9" before "d10", as text. The same scores and labels, other names,
    # another number.
    assert single("recip_rank", {"a": 1.0, "b": 1.0}, {"a": 1, "b": 0}) == 1 / 2
    assert single("recip_rank", {"a": 1.0, "b": 1.0}, {"a": 0, "b": 1}) == 1.0
    assert single("recip_rank", {"d9": 1.0, "d10": 1.0}, {"d9": 1, "d10": 0}) == 1.0
    assert one("mrr", [1.0, 1.0], [1, 0]) == one("mrr", [1.0, 1.0], [0, 1]) == 1 / 2
    assert one("mrr", [1.0, 1.0], [1, 0], ties="expected") == 3 / 4


def test_scores_are_kept_in_32_bits():
    # 1 + 1e-9 is 1 in 32 bits: a tie there, so "b" goes first although "a" has the higher score.
    scores = [1 + 1e-9, 1.0]
    assert single("recip_rank", {"a": scores[0], "b": scores[1]}, {"a": 1, "b": 0}) == 1 / 2
    assert one("mrr", scores, [1, 0]) == 1.0
    assert one("mrr", list(np.float32(scores)), [1, 0]) == 1 / 2


def test_gain_is_the_label():
    y, s = {"a": 2, "b": 1}, {"a": 1.0, "b": 2.0}
    agree(single("ndcg", s, y), (1 + 2 * LOG2[1]) / (2 + 1 * LOG2[1]))
    agree(one("ndcg", [1.0, 2.0], [2, 1]), (1 + 3 * LOG2[1]) / (3 + 1 * LOG2[1]))


def test_empty_queries_are_zero_and_counted():
    for measure in FAMILIES - CUTS:
        assert single(measure, {"a": 1.0}, {"a": 0}) == 0.0
    assert np.isnan(one("map", [1.0], [0]))


def test_queries_without_results_are_left_out_there_and_zero_here():
    # Judged, with a relevant document, but nothing was retrieved: absent from the result, so that a
    # system that answers nothing to hard queries looks better (trec_eval's -c flag exists for
    # this). Here it is worth 0.
    results = pytrec_eval.RelevanceEvaluator({"x": {"a": 1}, "y": {"a": 1}}, {"map"}).evaluate(
        {"x": {"a": 1.0}}
    )
    assert set(results) == {"x"}
    assert one("map", [-np.inf], [1]) == 0.0


def test_labels_are_integers_there():
    with pytest.raises(TypeError, match="integer"):
        single("ndcg", {"a": 1.0}, {"a": 0.5})
    assert one("ndcg", [1.0], [0.5]) == 1.0


def test_negative_labels_count_as_zero_there_and_are_refused_here():
    agree(single("ndcg", {"a": 2.0, "b": 1.0}, {"a": -1, "b": 1}), LOG2[1])
    with pytest.raises(DataError, match="labels"):
        one("ndcg", [2.0, 1.0], [-1, 1])
