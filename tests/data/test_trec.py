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


def documents_of(qid, run, qrels):
    """The documents of a query: those of the run, then those only judged."""
    return list(run.get(qid, {}) | qrels[qid])


def lines(numbers_by_query, form):
    """A line per document; the form has places for the query, the document and the number."""
    texts = []
    for qid, number_by_document in numbers_by_query.items():
        for document, number in number_by_document.items():
            texts.append(form.format(qid, document, number))
    return texts


def random_numbers(rng, queries, n_documents, draw):
    """Numbers for some of 300 documents of each query."""
    numbers_by_query = {}
    for query in queries:
        documents = rng.choice(300, n_documents, replace=False)
        numbers_by_query[f"q{query}"] = {f"d{document}": draw() for document in documents}
    return numbers_by_query


# --- numbers ---


def test_every_number_is_the_double_that_python_reads(tmp_path):
    rng = np.random.default_rng(0)
    numbers = (rng.normal(size=300) * 10.0 ** rng.integers(-25, 25, 300)).tolist()
    texts = []
    for form in ("{!r}", "{:.6f}", "{:.3e}", "{:.20f}"):
        texts += [form.format(number) for number in numbers]
    # Digits without end, halfway between two doubles or nearly so, and every way to write a number.
    for n_digits in range(1, 25):
        digits = "".join(str(digit) for digit in rng.integers(0, 10, n_digits))
        texts += [f"{digits}.5", f".{digits}"]
    texts += [f"{2**53 + 1}", f"{2**53 + 1}.0", "9007199254740993e-3", "1" + "0" * 30]
    texts += ["5.", ".5", "+5", "-0", "-.5e+3", "7E2"]
    texts += [f"{whole}.{part}" for whole, part in rng.integers(2**52, 2**53, (300, 2))]
    texts += [f"0.{digits:017d}" for digits in rng.integers(0, 10**17, 300)]

    scores = list(tr.data.read_run(run_of(tmp_path, *texts))["q"].values())

    expected = np.array([float(text) for text in texts])
    assert np.array(scores).tobytes() == expected.tobytes()


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
    if not run.keys() & qrels.keys():
        with pytest.raises(
            DataError, match="run: shares no query with the judgments; expected the same ids"
        ):
            tr.data.judge_run(run, qrels)
        return

    judged_run = tr.data.judge_run(run, qrels)

    scores, grades, sizes = [], [], []
    for qid in qrels:
        documents = documents_of(qid, run, qrels)
        scores += [run.get(qid, {}).get(document, -math.inf) for document in documents]
        grades += [qrels[qid].get(document, -1.0) for document in documents]
        sizes.append(len(documents))
    lists = judged_run.lists
    assert judged_run.scores.tolist() == scores
    assert lists.labels.tolist() == [max(0.0, grade) for grade in grades]
    assert lists.judged.tolist() == [grade >= 0 for grade in grades]
    assert lists.qids.tolist() == list(qrels)
    assert lists.sizes.tolist() == sizes
    assert judged_run.answered.tolist() == [qid in run for qid in qrels]
    assert judged_run.not_in_run == len(qrels.keys() - run.keys())
    assert judged_run.not_judged == len(run.keys() - qrels.keys())


@given(GRADES)
def test_finite_numbers_by_name_are_taken_as_they_are(run):
    assert named_numbers(run, "run") == run


def test_files_and_dictionaries_are_judged_alike(tmp_path):
    rng = np.random.default_rng(1)
    run = random_numbers(rng, range(20), 90, lambda: float(rng.normal()))
    qrels = random_numbers(rng, range(5, 25), 40, lambda: float(rng.integers(0, 3)))
    run_lines = lines(run, "{} Q0 {} 1 {!r} t\n")
    rng.shuffle(run_lines)
    run_file = written(tmp_path, "".join(run_lines))
    qrels_file = written(tmp_path, "".join(lines(qrels, "{} 0 {} {}\n")), "qrels")

    of_files = judge_given(run_file, read_judgments(qrels_file))
    of_dictionaries = tr.data.judge_run(run, qrels)

    assert tr.data.read_run(run_file) == run
    ndcg = tr.metric("ndcg@10")
    values = ndcg.per_query(of_files.scores, of_files.lists)
    expected = ndcg.per_query(of_dictionaries.scores, of_dictionaries.lists)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-15)


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
def test_the_order_of_trec_eval(scores, only_judged):
    names = [*scores, *sorted(only_judged - scores.keys())]
    grades = {name: float(grade) for grade, name in enumerate(names, 1)}
    run = {"q": scores, "r": {"x": 1.0}}
    qrels = {"q": grades, "r": {"x": 9.0}}

    ordered = tr.data.judge_run(run, qrels).for_trec_eval()

    # By score in 32 bits, then by name, both from the end.
    singles = {name: float(np.float32(score)) for name, score in scores.items()}
    ranked = sorted(scores, key=lambda name: (singles[name], name), reverse=True)
    n_ranked = len(ranked)
    assert ordered.lists.labels.tolist()[:n_ranked] == [grades[name] for name in ranked]
    assert ordered.lists.labels[-1] == 9.0
    assert ordered.scores.tolist()[:n_ranked] == [singles[name] for name in ranked]
    assert (ordered.scores[n_ranked:-1] == -np.inf).all()


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
    qrels = random_numbers(rng, range(30), 125, lambda: int(rng.integers(0, 3)))
    run = random_numbers(rng, range(30), 100, lambda: float(rng.random()))
    our_name = {
        "ndcg_cut_10": "ndcg(gain=linear)@10",
        "map": "map",
        "recip_rank": "mrr",
        "recall_10": "recall@10",
    }
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(our_name)).evaluate(run)

    judged = tr.data.judge_run(run, qrels)

    for their_name, name in our_name.items():
        values = tr.metric(name, empty="zero").per_query(judged.scores, judged.lists)
        expected = [theirs[qid][their_name] for qid in judged.lists.qids]
        np.testing.assert_allclose(values, expected, atol=1e-12)
