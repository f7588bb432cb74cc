"""`tautrank compare-runs` as a user types it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.command_line import run


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs of three queries, their judgments, and labelled data with two files of scores."""
    monkeypatch.chdir(tmp_path)
    Path("qrels.txt").write_text(
        "".join(f"q{q} 0 d{d} {d % 2}\n" for q in range(6) for d in range(4))
    )
    Path("old").mkdir()
    for file, sign in (("bm25.trec", 1), ("dense.trec", -1), ("old/bm25.trec", 1)):
        lines = [
            f"q{q}\tQ0\td{d}\t1\t{sign * (d - q % 3)}\tx\n" for q in range(6) for d in range(4)
        ]
        Path(file).write_text("".join(lines))
    Path("test.txt").write_text(
        "".join(f"{d % 2} qid:{q} 1:{d}\n" for q in range(4) for d in range(3))
    )
    Path("a.txt").write_text("1\n2\n3\n" * 4)
    Path("b.txt").write_text("3\n2\n1\n" * 4)


def test_runs_are_compared_in_a_table_and_on_a_page(runs, capsys):
    command = "compare-runs bm25.trec dense.trec --qrels qrels.txt -m ndcg@3,map"
    code, out, err = run(capsys, f"{command} --html page.html")
    assert (code, err) == (0, "")
    assert "minus bm25" in out
    assert "All trainings" not in out
    page = Path("page.html").read_text()
    assert "Comparison of runs" in page
    assert f"tautrank {command} --html page.html" in page
    assert r"\toprule" in run(capsys, command, "--latex")[1]
    assert run(capsys, command, "--csv")[1].startswith("system,")


@pytest.mark.parametrize("kind", ["run", "scores"])
def test_pipes_are_read_from_their_beginning(kind, tmp_path, capsys):
    # Larger than what is read of a file to see what it is.
    letor = "".join(
        f"{d % 3} qid:{q} 1:1 #docid = a-long-name-{d}\n" for q in range(400) for d in range(30)
    )
    scores = [[(d * 7919 + q) % 97 for d in range(30)] for q in range(400)]
    one_per_line = "".join(f"{score}\n" for each in scores for score in each)
    trec = [
        f"{q} Q0 a-long-name-{d} 1 {score} me\n"
        for q, each in enumerate(scores)
        for d, score in enumerate(each)
    ]
    given = {"data.txt": letor, "run": "".join(trec), "scores": one_per_line}
    for name, content in given.items():
        (tmp_path / name).write_text(content)
    command = f"evaluate {tmp_path}/data.txt -m ndcg@10 --json --scores"
    _, whole, _ = run(capsys, command, tmp_path / kind)
    with subprocess.Popen(["cat", tmp_path / kind], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        code, out, err = run(capsys, command, f"/dev/fd/{writer.stdout.fileno()}")
    assert (code, err) == (0, "")
    assert json.loads(out)["metrics"] == json.loads(whole)["metrics"]


def test_systems_are_named_by_their_files_or_as_one_likes(runs, capsys):
    def names(words):
        code, out, err = run(capsys, f"compare-runs --qrels qrels.txt -m map --json {words}")
        assert code == 0, err
        return list(dict.fromkeys(cell["system"] for cell in json.loads(out)["cells"]))

    assert names("bm25.trec dense.trec") == ["bm25", "dense"]
    assert names("bm25.trec old/bm25.trec") == ["bm25.trec", "old/bm25.trec"]
    assert names("bm25.trec again=bm25.trec") == ["bm25", "again"]
    assert names("now=bm25.trec before=old/bm25.trec") == ["now", "before"]
    # The same name again is another run of the same system.
    assert names("a=bm25.trec a=old/bm25.trec b=dense.trec b=dense.trec") == ["a", "b"]


def test_scores_of_labelled_data(runs, capsys):
    code, out, err = run(capsys, "compare-runs a.txt b.txt --qrels test.txt -m mrr --json")
    assert code == 0, err
    assert [cell["mean"] for cell in json.loads(out)["cells"]] == [0.5, 0.5]


def test_the_rules_of_another_tool(runs, capsys):
    Path("tied.trec").write_text(
        "".join(f"q{q} Q0 d{d} 1 7 x\n" for q in range(6) for d in range(4))
    )
    code, out, err = run(
        capsys,
        "compare-runs bm25.trec tied.trec --qrels qrels.txt -m recip_rank --like trec_eval --json",
    )
    assert code == 0, err
    # Among equal scores d3, which is relevant, goes first.
    assert [cell["mean"] for cell in json.loads(out)["cells"]] == [1.0, 1.0]
    assert "tied documents by name" in json.loads(out)["remarks"][0]


MISTAKES = {
    "bm25.trec": "runs: found 1; expected at least two systems to compare",
    "bm25.trec a.txt": "qrels.txt: is qrels, but a.txt holds scores, one per line; expected ranking data",
    "bm25.trec other.trec": "other.trec: shares no query with the judgments; expected the same ids (found '301'",
    "bm25.trec nan.trec": "nan.trec:1: found score 'nan'; expected a finite number",
    "bm25.trec twice.trec": "twice.trec:2: document 'd' of query 'q0' is repeated; expected it once",
    "bm25.trec none.trec": "none.trec: no such file",
    "bm25.trec dense.trec -m 'map(ties=best)' --like trec_eval": "ties: found best together with like='trec_",
}
MISTAKES = {f"{words} --qrels qrels.txt": sentence for words, sentence in MISTAKES.items()} | {
    "a.txt short.txt --qrels test.txt": "short.txt: found 2 scores, but test.txt has 12 documents; expected one",
}


@pytest.mark.parametrize(("words", "sentence"), MISTAKES.items())
def test_bad_input_is_one_sentence(runs, capsys, words, sentence):
    Path("short.txt").write_text("1\n2\n")
    Path("other.trec").write_text("301 Q0 d 1 1 x\n")
    Path("nan.trec").write_text("q0 Q0 d 1 nan x\n")
    Path("twice.trec").write_text("q0 Q0 d 1 2 x\nq0 Q0 d 2 1 x\n")
    code, out, err = run(capsys, f"compare-runs {words}")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {sentence}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("bm25.trec dense.trec", "--qrels"),
        ("--qrels qrels.txt", "RUN"),
        ("bm25.trec dense.trec --qrels qrels.txt --repeats 3", "--repeats"),
        ("bm25.trec dense.trec --qrels qrels.txt --trees 3", "--trees"),
    ],
)
def test_what_is_missing_or_of_a_training_is_named(runs, capsys, words, option):
    code, out, err = run(capsys, f"compare-runs {words}")
    assert (code, out) == (2, "")
    assert option in err
