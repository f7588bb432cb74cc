"""The command line as a user types it."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import tautrank as tr
from tests.command_line import run


@pytest.fixture
def files(tmp_path):
    data = tmp_path / "test.txt"
    data.write_text("2 qid:a 1:3\n0 qid:a 1:2\n1 qid:a 1:1\n0 qid:b 1:5\n1 qid:c 1:1\n0 qid:c 1:1\n")
    scores = tmp_path / "scores.txt"
    scores.write_text("3\n2\n1\n0\n1\n1\n")
    return data, scores


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


@pytest.fixture
def search(tmp_path):
    """Training, validation and test files, the test file's last feature always 0 and so left out."""
    data = tr.simulate.simulate_web_search(60, n_features=16, mean_length=12, seed=1)
    for name, part in zip(("train", "valid", "test"), data.split([0.5, 0.2, 0.3]), strict=True):
        tr.write_letor(part, tmp_path / f"{name}.txt")
    return tmp_path


def test_train_evaluate_and_rank(search, capsys):
    model = search / "model.taut"
    arguments = ["train", search / "train.txt", "--valid", search / "valid.txt", "--model", model, "--loss", "xendcg"]
    arguments += ["--metric", "ndcg@5", "--trees", "20", "--param", "min_data_in_leaf=5", "--param", "boosting=gbdt"]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    ranker = tr.Ranker.load(model)
    assert out == f"{model}: {ranker.n_trees_} trees, validation ndcg@5 {ranker.best_score_:.4f}\n"

    test = tr.read_letor(search / "test.txt", n_features=16)
    expected = tr.metric("ndcg@5").mean(ranker.predict(test), test.labels, test.offsets)
    _, out, _ = run(capsys, "evaluate", search / "test.txt", "--model", model, "-m", "ndcg@5", "--json")
    assert json.loads(out)["metrics"]["ndcg@5"]["mean"] == expected

    scores, trec = search / "scores.txt", search / "run.trec"
    assert run(capsys, "rank", search / "test.txt", "--model", model, "-o", scores)[0] == 0
    np.testing.assert_array_equal(tr.read_scores(scores), ranker.predict(test))
    assert run(capsys, "rank", search / "test.txt", "--model", model, "-o", trec, "--format", "trec")[0] == 0
    ranked = tr.read_run(trec)
    assert list(ranked) == [str(q) for q in test.qids]
    assert [line.split()[3] for line in trec.read_text().splitlines()][:3] == ["1", "2", "3"]
    values = list(ranked[str(test.qids[0])].values())
    assert values == sorted(values, reverse=True)


def test_ranking_a_file_with_scattered_rows_keeps_the_order_of_its_lines(search, capsys):
    model = search / "model.taut"
    run(capsys, "train", search / "train.txt", "--model", model, "--trees", "5")
    lines = (search / "test.txt").read_text().splitlines()
    shuffled = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
    (search / "shuffled.txt").write_text("\n".join(shuffled) + "\n")
    code, _, err = run(capsys, "rank", search / "shuffled.txt", "--model", model, "-o", search / "s.txt")
    assert code == 0
    assert "gathered" in err
    run(capsys, "rank", search / "test.txt", "--model", model, "-o", search / "t.txt")
    by_line = dict(zip(lines, tr.read_scores(search / "t.txt"), strict=True))
    assert tr.read_scores(search / "s.txt").tolist() == [by_line[line] for line in shuffled]


def test_compare_prints_table_latex_json_and_page(search, capsys):
    arguments = ["compare", search / "train.txt", "--valid", search / "valid.txt", "--test", search / "test.txt"]
    arguments += [
        "-l",
        "mse,ndcg-loss2++(k=5,mu=2)",
        "-m",
        "ndcg@5",
        "--repeats",
        "2",
        "--trees",
        "5",
        "--workers",
        "1",
    ]
    arguments += ["--results", search / "results"]
    code, out, err = run(capsys, *arguments, "--html", search / "page.html")
    assert code == 0
    assert "ndcg-loss2++(k=5,mu=2)" in out.replace("\n", "")
    assert err.splitlines()[-1] == "4/4"
    assert "ndcg-loss2++(k=5,mu=2)" in (search / "page.html").read_text()
    assert run(capsys, *arguments, "--latex")[1].startswith("\\begin{tabular}")
    assert [s["name"] for s in json.loads(run(capsys, *arguments, "--json")[1])["systems"]] == [
        "mse",
        "ndcg-loss2++(k=5,mu=2)",
    ]


def test_compare_a_folder_over_its_folds(search, capsys):
    for fold in ("Fold1", "Fold2"):
        (search / fold).mkdir()
        for name, source in (("train", "train"), ("vali", "valid"), ("test", "test")):
            (search / fold / f"{name}.txt").write_text((search / f"{source}.txt").read_text())
    arguments = [
        "compare",
        search,
        "--fold",
        "all",
        "-l",
        "mse,listnet",
        "-m",
        "ndcg@5",
        "--repeats",
        "1",
        "--trees",
        "3",
    ]
    code, out, err = run(capsys, *arguments, "--workers", "1", "--results", search / "results", "--json")
    assert code == 0
    assert "0/4 mse fold 1 repeat 1" in err
    assert len(json.loads(out)["systems"][0]["trees"]) == 2


@pytest.fixture
def tables(tmp_path):
    """Tables of one data set, as people have them: columns in another order, one too many, one too few."""
    text = {
        "train": "label,qid,a,b\n",
        "other": "b,a,qid,label\n",
        "extra": "url,label,qid,a,b\n",
        "fewer": "label,qid,b\n",
    }
    for i in range(200):
        label, a, b = i % 7 % 3, i % 5 + i % 7 % 3, i % 11
        text["train"] += f"{label},{i // 10},{a},{b}\n"
        text["other"] += f"{b},{a},{i // 10},{label}\n"
        text["extra"] += f"{i},{label},{i // 10},{a},{b}\n"
        text["fewer"] += f"{label},{i // 10},{b}\n"
    for name, rows in text.items():
        (tmp_path / f"{name}.csv").write_text(rows)
    return tmp_path


def test_columns_of_tables_are_found_by_name(tables, capsys):
    assert run(capsys, "train", tables / "train.csv", "--model", tables / "m", "--trees", "3")[0] == 0
    scores = {}
    for name in ("train", "other", "extra"):
        code, _, err = run(capsys, "rank", tables / f"{name}.csv", "--model", tables / "m", "-o", tables / "scores")
        assert code == 0
        scores[name] = (tables / "scores").read_text()
        left_out = f"note: {tables / 'extra.csv'}: left out 'url', which was not trained on\n"
        assert err == (left_out if name == "extra" else "")
    assert len(set(scores.values())) == 1
    assert len(set(scores["train"].split())) > 2
    for command in (["rank", "--model", tables / "m", "-o", tables / "s"], ["evaluate", "--model", tables / "m"]):
        code, _, err = run(capsys, command[0], tables / "fewer.csv", *command[1:])
        assert (code, err) == (
            2,
            f"error: {tables / 'fewer.csv'}: found no column 'a'; expected every feature that was trained on\n",
        )
    arguments = ["compare", tables / "train.csv", "--test", tables / "fewer.csv", "--results", tables / "r"]
    assert "fewer.csv: found no column 'a'" in run(capsys, *arguments)[2]


def test_the_name_of_a_metric_is_not_cut_where_ties_have_a_column(files, capsys, monkeypatch):
    data, scores = files
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, "evaluate", "--scores", scores, data, "-m", "ndcg@10", "--ties", "expected")
    row = next(line.split() for line in out.splitlines() if "0." in line)
    assert (row[0], row[5]) == ("ndcg@10", "expected")


def test_text_with_fewer_features_than_the_model_is_said(search, capsys, tmp_path):
    assert run(capsys, "train", search / "train.txt", "--model", tmp_path / "m", "--trees", "3")[0] == 0
    (tmp_path / "few.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2 2:3\n")
    width = tr.Ranker.load(tmp_path / "m").n_features_in_
    code, _, err = run(capsys, "evaluate", tmp_path / "few.txt", "--model", tmp_path / "m")
    told = f"note: {tmp_path / 'few.txt'}: found 2 features, the model has {width}; the others are taken as 0\n"
    assert (code, err) == (0, told)


WRONG = {
    "unknown loss": (["train", "{d}/train.txt", "--model", "{d}/m", "--loss", "lamdarank"], "unknown loss 'lamdarank'; did you mean 'lambdarank'?"),
    "k=0": (["train", "{d}/train.txt", "--model", "{d}/m", "--loss", "lambdarank(k=0)"], "k: found 0; expected"),
    "bad parameter": (["train", "{d}/train.txt", "--model", "{d}/m", "--param", "x"], "--param: found 'x'; expected name=value, such as min_data_in_leaf=50"),
    "output folder missing": (["train", "{d}/absent.txt", "--model", "{d}/no/m", "--trees", "2"], "{d}/no/m: cannot be written (No such file or directory)"),
    "model is a folder": (["train", "{d}/train.txt", "--model", "{d}"], "{d}: cannot be written (Is a directory)"),
    "no place for scores": (["rank", "{d}/absent.txt", "--model", "{d}/absent", "-o", "{d}/no/o"], "{d}/no/o: cannot be written (No such file or directory)"),
    "no trees": (["train", "{d}/absent.txt", "--model", "{d}/m", "--trees", "0"], "--trees: found 0; expected a whole number of at least 1"),
    "foreign model": (["rank", "{d}/test.txt", "--model", "{d}/train.txt", "-o", "{d}/o"], "{d}/train.txt: "),
    "no model": (["rank", "{d}/test.txt", "--model", "{d}/absent", "-o", "{d}/o"], "{d}/absent: "),
    "unknown format": (["rank", "{d}/test.txt", "--model", "{d}/m", "-o", "{d}/o", "--format", "treck"], "unknown format 'treck'; did you mean 'trec'?"),
    "no test data": (["compare", "{d}/train.txt"], "--test: found none; expected test data (only a folder brings its own)"),
    "folder and test": (["compare", "{d}", "--test", "{d}/test.txt"], "--test, --valid: found with the folder {d}; expected a folder's own parts"),
    "folds as text": (["compare", "{d}", "--fold", "one"], "--fold: found 'one'; expected numbers such as 1 or 1,2, or all"),
    "no losses": (["compare", "{d}/train.txt", "--test", "{d}/test.txt", "-l", ","], "--losses: found no name; expected names such as 'lambdarank,xendcg'"),
    "scores and model": (["evaluate", "{d}/test.txt", "--scores", "{d}/s", "--model", "{d}/m"], "--scores, --model: found both; expected one of them"),
    "neither": (["evaluate", "{d}/test.txt"], "--scores, --model: found neither; expected one of them"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_training_commands_are_one_sentence_and_leave_nothing(search, capsys, case):
    arguments, sentence = WRONG[case]
    before = sorted(search.rglob("*"))
    code, out, err = run(capsys, *(a.format(d=search) for a in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("error: " + sentence.format(d=search))
    assert err.count("\n") == 1
    assert sorted(search.rglob("*")) == before


COMMANDS = [[], ["evaluate"], ["data", "info"], ["train"], ["rank"], ["compare"], ["demo"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_reads_well(command, capsys):
    code, out, _ = run(capsys, *command, "--help")
    assert code == 0
    assert "Usage: tautrank" in out
    if command:
        assert "Example: tautrank" in out


def test_commands_are_listed_as_one_meets_them(capsys):
    from tautrank.commands.main import app

    listed = [line.split()[1] for line in run(capsys, "--help")[1].splitlines() if re.match(r"│ [a-z]", line)]
    assert listed[:3] == ["demo", "data", "train"]
    assert set(listed) == {c.name or c.callback.__name__ for c in app.registered_commands} | {"data", "theory", "study"}


def test_ctrl_c_ends_a_command_with_a_word(capsys, monkeypatch, search):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tautrank.ranker.estimator.Ranker.fit", interrupted)
    assert run(capsys, "train", search / "train.txt", "--model", search / "m.taut") == (130, "", "stopped\n")
    assert not (search / "m.taut").exists()


def test_ctrl_c_in_a_comparison_keeps_what_is_finished(search, tmp_path):
    """The real command, interrupted as a terminal does it: its workers too."""
    command = [
        sys.executable,
        "-m",
        "tautrank.commands.main",
        "compare",
        str(search / "train.txt"),
        "--test",
        str(search / "test.txt"),
    ]
    command += ["-l", "mse,listnet", "--repeats", "200", "--trees", "20", "--workers", "2", "--results", "kept"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for line in process.stderr:
        if line.startswith("2/400 "):
            os.killpg(process.pid, signal.SIGINT)
            break
    said = process.stderr.read()
    assert process.wait() == 130, said
    assert "Traceback" not in said
    found = re.search(
        r"^stopped: (\d+) of 400 trainings are kept in kept; the same command continues from there$", said, re.M
    )
    assert found, said
    assert 2 <= int(found[1]) == len(list((tmp_path / "kept").glob("*.json"))) < 400


def test_workers_that_are_starting_do_not_hear_ctrl_c():
    import multiprocessing

    from tautrank.experiments.processes import deaf_to_ctrl_c

    context = multiprocessing.get_context("spawn")
    process = context.Process(target=signal.pthread_sigmask, args=(signal.SIG_BLOCK, set()), daemon=True)

    def start_and_interrupt():
        with deaf_to_ctrl_c():
            process.start()
            os.kill(process.pid, signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        start_and_interrupt()
    process.join()
    assert process.exitcode == 0


def test_unknown_options_and_commands_exit_with_2(capsys):
    for arguments in (["evalute"], ["evaluate", "--metrik", "ndcg"], ["data", "inof"], ["evaluate"]):
        code, out, err = run(capsys, *arguments)
        assert code == 2
        assert out == ""
        assert "Traceback" not in err


def test_version(capsys):
    assert run(capsys, "--version")[1].strip() == f"tautrank {tr.__version__}"


def test_demo_runs(capsys, monkeypatch):
    from tautrank.commands import demo
    from tautrank.experiments.compare import DEFAULT_LOSSES

    # The same demonstration, small enough for a test.
    for name, value in (("_QUERIES", 40), ("_FEATURES", 16), ("_TREES", 3), ("_REPEATS", 2)):
        monkeypatch.setattr(demo, name, value)
    monkeypatch.setattr(demo, "_WORKERS", 1)
    code, out, _ = run(capsys, "demo")
    assert code == 0
    for loss in DEFAULT_LOSSES:
        assert loss in out
    assert "Next, on your own files" in out


def test_a_closed_pipe_is_no_error(files):
    data, _ = files
    command = f"{sys.executable} -m tautrank.commands.main data info {data} --json | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stdout == "{\n"
    assert "Traceback" not in result.stderr
