"""The command line as a user types it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

import tautrank as tr
from tautrank.cli import main


@pytest.fixture
def files(tmp_path):
    data = tmp_path / "test.txt"
    data.write_text("2 qid:a 1:3\n0 qid:a 1:2\n1 qid:a 1:1\n0 qid:b 1:5\n1 qid:c 1:1\n0 qid:c 1:1\n")
    scores = tmp_path / "scores.txt"
    scores.write_text("3\n2\n1\n0\n1\n1\n")
    return data, scores


def run(capsys, *arguments):
    try:
        main([str(a) for a in arguments])
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_evaluate_prints_a_table(files, capsys):
    data, scores = files
    code, out, err = run(capsys, "evaluate", "--scores", scores, data, "--metrics", "ndcg@10,mrr")
    assert (code, err) == (0, "")
    assert "3 queries" in out
    mrr = next(line.split() for line in out.splitlines() if line.strip().startswith("mrr"))
    assert mrr[:5] == ["mrr", "0.7500", "0.2500", "2", "1"]
    assert mrr[5:] == ["worst", "skipped"]


def test_evaluate_json_and_per_query_hold_the_same_numbers(files, capsys, tmp_path):
    data, scores = files
    out_csv = tmp_path / "q.csv"
    metrics = "ndcg(ties=expected,gain=linear)@10,map"
    code, out, _ = run(
        capsys, "evaluate", data, "--scores", scores, "-m", metrics, "-m", "err", "--json", "--per-query", out_csv
    )
    assert code == 0
    result = json.loads(out)
    assert list(result["metrics"]) == ["ndcg(ties=expected,gain=linear)@10", "map", "err"]
    rows = list(csv.reader(out_csv.open()))
    assert rows[0] == ["qid", *result["metrics"]]
    assert [row[0] for row in rows[1:]] == ["a", "b", "c"]
    assert rows[2][1:] == ["", "", ""]  # query b has no relevant document
    for column, entry in enumerate(result["metrics"].values(), 1):
        values = [float(row[column]) for row in rows[1:] if row[column]]
        assert np.mean(values) == pytest.approx(entry["mean"], abs=1e-15)
        assert entry["skipped"] == 1


def test_evaluate_ties_and_empty_options(files, capsys):
    data, scores = files
    means = {}
    for ties in ("worst", "expected", "best"):
        _, out, _ = run(
            capsys, "evaluate", data, "--scores", scores, "-m", "mrr", "--ties", ties, "--empty", "zero", "--json"
        )
        means[ties] = next(iter(json.loads(out)["metrics"].values()))["mean"]
    assert means == {"worst": pytest.approx(1.5 / 3), "expected": pytest.approx(1.75 / 3), "best": pytest.approx(2 / 3)}


def test_evaluate_a_trec_run(tmp_path, capsys):
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 1\n")
    (tmp_path / "run").write_text("q1 Q0 d2 1 9 x\nq1 Q0 d1 2 8 x\nq3 Q0 d1 1 1 x\n")
    code, out, err = run(capsys, "evaluate", tmp_path / "qrels", "--scores", tmp_path / "run", "-m", "mrr", "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["mrr"]["mean"] == pytest.approx(0.25)
    assert err.splitlines() == [
        "note: 1 judged queries are not in the run; they count with nothing retrieved",
        "note: 1 queries of the run have no judgments; they are left out",
    ]


def test_data_info_of_files_and_folders(files, capsys, tmp_path):
    data, _ = files
    code, out, _ = run(capsys, "data", "info", data)
    assert code == 0
    assert "queries" in out
    assert "list length" in out
    _, out, _ = run(capsys, "data", "info", data, "--json")
    assert json.loads(out)[str(data)] == tr.read_letor(data).describe().to_dict()
    fold = tmp_path / "Fold1"
    fold.mkdir()
    for name in ("train", "vali", "test"):
        (fold / f"{name}.txt").write_text(data.read_text())
    _, out, _ = run(capsys, "data", "info", tmp_path, "--json")
    assert [name.split("/")[1] for name in json.loads(out)] == ["train", "valid", "test"]


def test_data_info_of_a_table(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("query,f,rel\n1,0.5,2\n1,0.25,0\n")
    code, out, _ = run(capsys, "data", "info", tmp_path / "t.csv", "--label", "rel", "--qid", "query", "--json")
    assert code == 0
    assert next(iter(json.loads(out).values()))["documents"] == 2


@pytest.mark.parametrize("command", [[], ["evaluate"], ["data", "info"], ["demo"]])
def test_every_help_reads_well(command, capsys):
    code, out, _ = run(capsys, *command, "--help")
    assert code == 0
    assert "Usage: tautrank" in out
    if command and command != ["demo"]:
        assert "Example: tautrank" in out


def test_unknown_options_and_commands_exit_with_2(capsys):
    for arguments in (["evalute"], ["evaluate", "--metrik", "ndcg"], ["data", "inof"], ["evaluate"]):
        code, out, err = run(capsys, *arguments)
        assert code == 2
        assert out == ""
        assert "Traceback" not in err


def test_version(capsys):
    assert run(capsys, "--version")[1].strip() == f"tautrank {tr.__version__}"


def test_demo_runs(capsys):
    code, out, _ = run(capsys, "demo")
    assert code == 0
    assert "one score for all" in out


def test_a_closed_pipe_is_no_error(files):
    data, _ = files
    command = f"{sys.executable} -m tautrank.cli data info {data} --json | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stdout == "{\n"
    assert "Traceback" not in result.stderr
