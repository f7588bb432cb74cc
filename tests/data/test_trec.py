"""TREC files: every number is Python's, every document is found by its name, every order is
kept.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tautrank as tr
from tautrank.data.trec import judge_given, named_numbers, read_judgments
from tautrank.errors import DataError

pytestmark = pytest.mark.uncompiled


def written(tmp_path, text, name="run.trec"):
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def run_of(tmp_path, *scores):
    return written(tmp_path, "".join(f"q Q0 d{i} 1 {score} t\n" for i, score in enumerate(scores)))


def reference(run, qrels):
    """Scores and labels of each judged query by dictionaries alone: those of the run, then those
    only judged.
    """
    found = []
    for qid, labels in qrels.items():
        scores = run.get(qid, {})
        names = [*scores, *(name for name in labels if name not in scores)]
        found += [
            (scores.get(name, -math.inf), max(0.0, labels.get(name, 0.0)), name in labels)
            for name in names
        ]
    return [list(column) for column in zip(*found, strict=True)]


# --- numbers ---


def test_every_number_is_the_double_that_python_reads(tmp_path):
    rng = np.random.default_rng(0)
    numbers = [float(x) for x in rng.normal(size=300) * 10.0 ** rng.integers(-25, 25, 300)]
    texts = [
        form(x)
        for x in numbers
        for form in (repr, "{:.6f}".format, "{:.3e}".format, "{:.20f}".format)
    ]
    # Digits without end, halfway between two doubles or nearly so, and every way to write a number.
    texts += ["".join(map(str, rng.integers(0, 10, n))) + ".5" for n in range(1, 25)]
    texts += ["." + "".join(map(str, rng.integers(0, 10, n))) for n in range(1, 25)]
    texts += [
        str(2**53 + 1),
        f"{2**53 + 1}.0",
        "9007199254740993e-3",
        "1" + "0" * 30,
        "5.",
        ".5",
        "+5",
        "-0",
        "-.5e+3",
        "7E2",
    ]
    texts += [f"{a}.{b}" for a, b in rng.integers(2**52, 2**53, (300, 2))]
    texts += [f"0.{n:017d}" for n in rng.integers(0, 10**17, 300)]
    found = np.array([*tr.data.read_run(run_of(tmp_path, *texts))["q"].values()])
    expected = np.array([float(text) for text in texts])
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "score", ["nan", "inf", "-inf", "1_000", "1e", "e5", "-", ".", "1e400", "0x10", "1.2.3", "12a"]
)
def test_what_is_no_finite_number_is_refused(tmp_path, score):
    with pytest.raises(
        DataError, match=r"run\.trec:2: found score '.*'; expected a finite number$"
    ) as error:
        tr.data.read_run(run_of(tmp_path, 1.5, score, "worse"))
    assert f"'{score}'" in str(error.value)


# --- lines ---


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_spaces_tabs_line_ends_and_compression(tmp_path, pack):
    text = "\ufeffq1\tQ0  d1 1\t2.5 t\r\n\n  \t\nq1 Q0 dé 2 1 t \r\n q2 Q0 d1 1 0 t"
    run = tr.data.read_run(written(tmp_path, pack(text.encode())))
    assert run == {"q1": {"d1": 2.5, "dé": 1.0}, "q2": {"d1": 0.0}}
    assert list(run["q1"]) == ["d1", "dé"]


def test_lines_of_a_query_are_gathered(tmp_path):
    file = written(tmp_path, "b 0 x 1\na 0 x 2\nb 0 y 3\naa 0 x 4\na 0 z 5\n", "qrels")
    assert tr.data.read_qrels(file) == {
        "b": {"x": 1, "y": 3},
        "a": {"x": 2, "z": 5},
        "aa": {"x": 4},
    }
    assert list(tr.data.read_qrels(file)) == ["b", "a", "aa"]


def test_a_repeated_document_is_found_where_it_is(tmp_path):
    lines = [f"q{i % 3} Q0 d{i} 1 {i} t" for i in range(30)]
    file = written(tmp_path, "\n".join([*lines, "", "q1 Q0 d5 1 2 t", "q2 Q0 d5 1 2 t"]))
    with pytest.raises(
        DataError, match=r"run\.trec:33: document 'd5' of query 'q2' is repeated; expected it once"
    ):
        tr.data.read_run(file)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("q Q0 d 1 2 t\nq Q0 e 1\n", r":2: found 4 columns; expected 6 \(a TREC run has"),
        ("q Q0 d 1 2 t\nq Q0 e 1 no t 7\n", r":2: found 7 columns; expected 6"),
        ("\n \n", r": found an empty file; expected lines of 6 columns"),
        (b"q Q0 d 1 2 t\nq Q0 \xff 1 2 t\n", r":2: found bytes that are not UTF-8"),
        (b"q Q0 d 1 2 t\n\nq Q0 \0 1 2 t\n", r":3: found binary data; expected text"),
    ],
)
def test_malformed_files_name_the_line(tmp_path, text, sentence):
    with pytest.raises(DataError, match=r"run\.trec" + sentence):
        tr.data.read_run(written(tmp_path, text))


# --- judging ---

NAMES = st.text(st.sampled_from("ab1é"), min_size=1, max_size=4)
GRADES = st.dictionaries(
    NAMES, st.dictionaries(NAMES, st.integers(-2, 3).map(float), min_size=1), min_size=1, max_size=5
)


@given(GRADES, GRADES)
def test_documents_meet_by_query_and_name(run, qrels):
    assert named_numbers(run, "run") == run
    if not run.keys() & qrels.keys():
        with pytest.raises(
            DataError, match="run: shares no query with the judgments; expected the same ids"
        ):
            tr.data.judge_run(run, qrels)
        return
    found = tr.data.judge_run(run, qrels)
    scores, labels, judged = reference(run, qrels)
    assert (found.scores.tolist(), found.lists.labels.tolist()) == (scores, labels)
    assert found.lists.judged.tolist() == [
        is_in and qrel >= 0 for is_in, qrel in zip(judged, _grades(run, qrels), strict=True)
    ]
    assert found.lists.qids.tolist() == list(qrels)
    assert np.diff(found.lists.offsets).tolist() == [
        len(run.get(q, {}).keys() | docs.keys()) for q, docs in qrels.items()
    ]
    assert found.answered.tolist() == [q in run for q in qrels]
    assert (found.not_in_run, found.not_judged) == (
        len(qrels.keys() - run.keys()),
        len(run.keys() - qrels.keys()),
    )


def _grades(run, qrels):
    for qid, labels in qrels.items():
        names = [*run.get(qid, {}), *(name for name in labels if name not in run.get(qid, {}))]
        yield from (labels.get(name, -1.0) for name in names)


def test_files_and_dictionaries_are_judged_alike(tmp_path):
    rng = np.random.default_rng(1)
    run = {
        f"q{q}": {f"d{d}": float(rng.normal()) for d in rng.choice(300, 90, False)}
        for q in range(20)
    }
    qrels = {
        f"q{q}": {f"d{d}": float(rng.integers(0, 3)) for d in rng.choice(300, 40, False)}
        for q in range(5, 25)
    }
    run_lines = [
        f"{q} Q0 {d} 1 {s!r} t\n" for q, documents in run.items() for d, s in documents.items()
    ]
    rng.shuffle(run_lines)
    files = written(tmp_path, "".join(run_lines)), tmp_path / "qrels"
    files[1].write_text(
        "".join(f"{q} 0 {d} {y}\n" for q, documents in qrels.items() for d, y in documents.items())
    )
    assert tr.data.read_run(files[0]) == run
    found = judge_given(files[0], read_judgments(files[1]))
    m = tr.metric("ndcg@10")
    theirs = tr.data.judge_run(run, qrels)
    assert m.per_query(found.scores, found.lists).tolist() == pytest.approx(
        m.per_query(theirs.scores, theirs.lists).tolist(), abs=1e-15
    )


def test_numbers_by_name_are_checked():
    with pytest.raises(
        DataError, match="run: document 'd' of query 'q': found nan; expected a finite number"
    ):
        tr.data.judge_run({"q": {"c": 1.0, "d": math.nan}}, {"q": {"d": 1}})
    with pytest.raises(DataError, match=r"qrels: expected \{query: \{document: number\}\}"):
        tr.data.judge_run({"q": {"d": 1.0}}, {"q": 1})
    with pytest.raises(DataError, match="qrels: found values of type"):
        tr.data.judge_run({"q": {"d": 1.0}}, {"q": {"d": "high"}})


# --- trec_eval's order ---


@given(
    st.dictionaries(NAMES, st.sampled_from([1.0, 1.0 + 1e-9, 2.0, -3.5]), min_size=1),
    st.sets(NAMES, max_size=3),
)
def test_the_order_of_trec_eval(scores, others):
    grade = {name: float(i) for i, name in enumerate([*scores, *sorted(others - scores.keys())], 1)}
    ordered = tr.data.judge_run(
        {"q": scores, "r": {"x": 1.0}}, {"q": grade, "r": {"x": 9.0}}
    ).for_trec_eval()
    # By score in 32 bits, then by name, both from the end.
    ranked = sorted(scores, key=lambda name: (np.float32(scores[name]), name), reverse=True)
    assert ordered.lists.labels.tolist()[: len(ranked)] == [grade[name] for name in ranked]
    assert ordered.lists.labels[-1] == 9.0
    assert set(ordered.scores[: len(ranked)]) == {
        float(np.float32(score)) for score in scores.values()
    }
    assert (ordered.scores[len(ranked) : -1] == -np.inf).all()


def test_blank_lines_of_a_run_are_passed_over_and_an_empty_one_is_refused(tmp_path):
    file = tmp_path / "run.txt"
    file.write_text("\nq1 Q0 d1 1 9.5 me\n \nq1 Q0 d2 2 8 me\n")
    assert tr.data.read_run(file) == {"q1": {"d1": 9.5, "d2": 8.0}}
    file.write_text("\n\n")
    with pytest.raises(
        DataError, match=r"run.txt: found an empty file; expected lines of 6 columns"
    ):
        tr.data.read_run(file)


def test_a_run_under_judgments():
    run = {"q1": {"d1": 3.0, "d2": 2.0}, "q3": {"d1": 1.0}}
    qrels = {"q1": {"d2": 1.0, "d7": 2.0, "d8": -2.0}, "q2": {"d5": 1.0}}
    judged = tr.data.judge_run(run, qrels)
    assert judged.lists.qids.tolist() == ["q1", "q2"]
    assert judged.lists.offsets.tolist() == [0, 4, 5]
    assert judged.scores.tolist() == [3.0, 2.0, -math.inf, -math.inf, -math.inf]
    assert judged.lists.labels.tolist() == [0, 1, 2, 0, 1]
    assert (judged.not_in_run, judged.not_judged) == (1, 1)
    recall = tr.metric("recall@10").per_query(judged.scores, judged.lists)
    assert recall.tolist() == [0.5, 0.0]


def test_a_run_scores_as_trec_eval_scores_it():
    import pytrec_eval

    rng = np.random.default_rng(4)
    qrels = {
        f"q{q}": {f"d{d}": int(rng.integers(0, 3)) for d in rng.choice(60, 25, False)}
        for q in range(30)
    }
    run = {
        q: {
            f"d{d}": float(s)
            for d, s in zip(rng.choice(60, 20, False), rng.random(20), strict=True)
        }
        for q in qrels
    }
    names = {
        "ndcg_cut_10": "ndcg(gain=linear)@10",
        "map": "map",
        "recip_rank": "mrr",
        "recall_10": "recall@10",
    }
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run)
    judged = tr.data.judge_run(
        run, {q: {d: float(v) for d, v in docs.items()} for q, docs in qrels.items()}
    )
    for trec, ours in names.items():
        values = tr.metric(ours, empty="zero").per_query(judged.scores, judged.lists)
        np.testing.assert_allclose(values, [theirs[q][trec] for q in judged.lists.qids], atol=1e-12)
