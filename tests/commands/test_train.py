"""`tautrank data info`, `train`, `evaluate` and `rank` as a user types them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

import tautrank as tr
from tests.command_line import run


@pytest.fixture
def scored(tmp_path, monkeypatch):
    """The current folder, with test.txt and scores.txt in it: query b has no relevant document,
    query c a tie.
    """
    (tmp_path / "test.txt").write_text(
        "2 qid:a 1:3\n0 qid:a 1:2\n1 qid:a 1:1\n0 qid:b 1:5\n1 qid:c 1:1\n0 qid:c 1:1\n"
    )
    (tmp_path / "scores.txt").write_text("3\n2\n1\n0\n1\n1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_evaluate_prints_a_table(scored, capsys):
    code, out, err = run(capsys, "evaluate --scores scores.txt test.txt --metrics ndcg@10,mrr")
    assert (code, err) == (0, "")
    assert "3 queries" in out
    mrr = next(line.split() for line in out.splitlines() if line.strip().startswith("mrr"))
    assert mrr == ["mrr", "0.7500", "0.2500", "2", "1", "worst", "skipped"]
    out = run(
        capsys, "evaluate --scores scores.txt test.txt --empty zero -m 'ndcg(gain=linear)@10'"
    )[1]
    ndcg = next(line.split() for line in out.splitlines() if line.strip().startswith("ndcg"))
    assert ndcg[-4:] == ["0", "worst", "as", "0"]


def test_evaluate_json_and_per_query_hold_the_same_numbers(scored, capsys):
    command = (
        "evaluate test.txt --scores scores.txt -m 'ndcg(ties=expected,gain=linear)@10,map' -m err"
    )
    code, out, _ = run(capsys, f"{command} --json --per-query q.csv")
    assert code == 0
    result = json.loads(out)
    assert list(result["metrics"]) == ["ndcg(ties=expected,gain=linear)@10", "map", "err"]
    with Path("q.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["qid", *result["metrics"]]
    assert [row[0] for row in rows[1:]] == ["a", "b", "c"]
    assert rows[2][1:] == ["", "", ""]
    for column, entry in enumerate(result["metrics"].values(), 1):
        values = [float(row[column]) for row in rows[1:] if row[column]]
        assert np.mean(values) == pytest.approx(entry["mean"], abs=1e-15)
        assert entry["skipped"] == 1


def test_evaluate_takes_one_file_of_scores_with_one_or_six_columns(scored, capsys):
    code, _, err = run(capsys, "evaluate test.txt --scores scores.txt --scores scores.txt")
    assert (
        code,
        "--scores: found 2 files; expected one (tautrank compare-runs takes several)" in err,
    ) == (2, True)
    Path("short.trec").write_text("a Q0 d1 1 2.0\n")
    code, _, err = run(capsys, "evaluate test.txt --scores short.trec")
    said = "short.trec: found 5 columns in the first line; expected 6, a TREC run, or one score per line"
    assert (code, said in err) == (2, True)


def test_wrong_parameters_are_told_before_the_data_is_read(scored, capsys):
    code, _, err = run(capsys, "train no_such_file.txt -o m.taut --param seed=1 --param typo=2")
    assert (code, "seed: is called random_state here" in err, "'typo'" in err) == (2, True, True)


def test_evaluate_ties_and_empty_options(scored, capsys):
    for ties, expected in (("worst", 1.5 / 3), ("expected", 1.75 / 3), ("best", 2 / 3)):
        _, out, _ = run(
            capsys,
            f"evaluate test.txt --scores scores.txt -m mrr --ties {ties} --empty zero --json",
        )
        assert next(iter(json.loads(out)["metrics"].values()))["mean"] == pytest.approx(expected)


def test_evaluate_a_trec_run(scored, capsys):
    Path("qrels").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 1\n")
    Path("run").write_text("q1 Q0 d2 1 9 x\nq1 Q0 d1 2 8 x\nq3 Q0 d1 1 1 x\n")
    code, out, err = run(capsys, "evaluate qrels --scores run -m mrr --json")
    assert code == 0
    assert json.loads(out)["metrics"]["mrr"]["mean"] == pytest.approx(0.25)
    assert [line.split(";")[0] for line in err.splitlines()] == [
        "note: 1 judged query is not in the run",
        "note: 1 query of the run without judgments",
    ]


def test_evaluate_like_trec_eval(scored, capsys):
    # Ties by name, a tie in 32 bits only, documents without a judgment, a query without a relevant
    # document.
    qrels = {
        "q1": {"d1": 1, "d2": 0, "d4": 2, "d9": 1},
        "q2": {"d1": 1, "d2": 0, "d3": 0},
        "q3": {"d1": 0},
    }
    found = {
        "q1": {"d3": 5.0, "d1": 5.0, "d2": 5.0, "d4": 1.0, "d5": 1.0 + 1e-9},
        "q2": {"d1": 2.0, "d2": 2.0, "d7": 2.0},
        "q3": {"d1": 1.0},
    }
    Path("qrels").write_text(
        "".join(f"{q} 0 {d} {y}\n" for q, docs in qrels.items() for d, y in docs.items())
    )
    Path("run").write_text(
        "".join(f"{q} Q0 {d} 0 {s!r} x\n" for q, docs in found.items() for d, s in docs.items())
    )
    names = ["ndcg_cut_3", "map", "P_3", "recall_3", "recip_rank", "bpref", "Rprec", "success_1"]
    command = f"evaluate qrels --scores run -m {','.join(names)} --like trec_eval --json"
    code, out, err = run(capsys, command)
    assert (code, err) == (0, "")
    ours = [entry["mean"] for entry in json.loads(out)["metrics"].values()]
    families = {"ndcg_cut.3", "map", "P.3", "recall.3", "recip_rank", "bpref", "Rprec", "success.1"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, families).evaluate(found).values()
    assert ours == pytest.approx(
        [np.mean([values[name] for values in theirs]) for name in names], abs=1e-12
    )
    code, _, err = run(capsys, f"{command} --ties best")
    assert code == 2
    assert (
        "ties: found best together with like='trec_eval', which means ties=input; expected one of the two"
        in err
    )


def test_evaluate_like_a_tool_without_names_or_metrics(scored, capsys):
    _, out, err = run(
        capsys, "evaluate test.txt --scores scores.txt -m mrr --like trec_eval --json"
    )
    assert json.loads(out)["metrics"]["mrr(ties=input,empty=zero)"]["mean"] == pytest.approx(2 / 3)
    assert err == (
        "note: trec_eval ranks equal scores by document name; these documents have none and keep their order\n"
    )
    Path("distinct.txt").write_text("3\n2\n1\n0\n1\n2\n")
    assert (
        run(capsys, "evaluate test.txt --scores distinct.txt -m mrr --like trec_eval --json")[2]
        == ""
    )
    # Without --metrics, those of the default that the tool has.
    _, out, _ = run(capsys, "evaluate test.txt --scores scores.txt --like sklearn --json")
    assert list(json.loads(out)["metrics"]) == [
        f"ndcg(ties=expected,empty=zero,gain=linear)@{k}" for k in (5, 10)
    ]
    assert (
        len(json.loads(run(capsys, "evaluate test.txt --scores scores.txt --json")[1])["metrics"])
        == 4
    )
    code, _, err = run(capsys, "evaluate test.txt --scores scores.txt --like trec")
    assert (code, "did you mean 'trec_eval'?" in err) == (2, True)


def test_data_info_of_files_folders_and_tables(scored, capsys):
    assert "list length" in run(capsys, "data info test.txt")[1]
    found = json.loads(run(capsys, "data info test.txt --json")[1])
    assert found == {"test.txt": tr.read_letor("test.txt").describe().to_dict()}
    Path("Fold1").mkdir()
    for name in ("train", "vali", "test"):
        Path(f"Fold1/{name}.txt").write_bytes(Path("test.txt").read_bytes())
    _, out, _ = run(capsys, "data info . --json")
    assert [name.split("/")[1] for name in json.loads(out)] == ["train", "valid", "test"]
    Path("t.csv").write_text("query,f,rel\n1,0.5,2\n1,0.25,0\n")
    assert (
        json.loads(run(capsys, "data info t.csv --label rel --qid query --json")[1])["t.csv"][
            "documents"
        ]
        == 2
    )


def test_train_evaluate_and_rank(search, capsys):
    parameters = "--metric ndcg@5 --trees 20 --param min_data_in_leaf=5 --param boosting=gbdt"
    code, out, err = run(
        capsys, f"train train.txt --valid valid.txt --model m --loss xendcg {parameters}"
    )
    assert (code, err) == (0, "")
    ranker = tr.Ranker.load("m")
    told, how, top = out.splitlines()
    assert told == f"m: {ranker.n_trees_} trees, validation ndcg@5 {ranker.best_score_:.4f}"
    assert how.endswith(f" to tree 20; after tree {ranker.n_trees_} no validation value was better")
    assert top.startswith(f"top features by gain: f{ranker.feature_importances_.argmax() + 1} ")

    test = tr.read_letor("test.txt", n_features=16)
    expected = tr.metric("ndcg@5").mean(ranker.predict(test), test.labels, test.offsets)
    _, out, _ = run(capsys, "evaluate test.txt --model m -m ndcg@5 --json")
    assert json.loads(out)["metrics"]["ndcg@5"]["mean"] == expected

    assert run(capsys, "rank test.txt --model m -o scores.txt")[0] == 0
    np.testing.assert_array_equal(tr.data.read_scores("scores.txt"), ranker.predict(test))
    assert run(capsys, "rank test.txt --model m -o run.trec --format trec")[0] == 0
    ranked = tr.data.read_run("run.trec")
    assert list(ranked) == [str(q) for q in test.qids]
    assert [line.split()[3] for line in Path("run.trec").read_text().splitlines()][:3] == [
        "1",
        "2",
        "3",
    ]
    values = list(ranked[str(test.qids[0])].values())
    assert values == sorted(values, reverse=True)


def test_ranking_a_file_with_scattered_rows_keeps_the_order_of_its_lines(search, capsys):
    run(capsys, "train train.txt --model m --trees 5")
    lines = Path("test.txt").read_text().splitlines()
    shuffled = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
    Path("shuffled.txt").write_text("\n".join(shuffled) + "\n")
    code, _, err = run(capsys, "rank shuffled.txt --model m -o s.txt")
    assert code == 0
    assert "gathered" in err
    run(capsys, "rank test.txt --model m -o t.txt")
    by_line = dict(zip(lines, tr.data.read_scores("t.txt"), strict=True))
    assert tr.data.read_scores("s.txt").tolist() == [by_line[line] for line in shuffled]


def test_text_with_fewer_features_than_the_model_is_said(search, capsys):
    assert run(capsys, "train train.txt --model m --trees 3")[0] == 0
    Path("few.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2 2:3\n")
    code, _, err = run(capsys, "evaluate few.txt --model m")
    assert code == 0
    assert err.startswith(
        f"note: few.txt: found 2 features, the model has {tr.Ranker.load('m').n_features_in_}"
    )


def test_columns_of_tables_are_found_by_name(tmp_path, monkeypatch, capsys):
    """Columns in another order, one too many, one too few."""
    monkeypatch.chdir(tmp_path)
    headers = {
        "train": "label,qid,a,b",
        "other": "b,a,qid,label",
        "extra": "url,label,qid,a,b",
        "fewer": "label,qid,b",
    }
    for name, header in headers.items():
        rows = [
            {"label": i % 7 % 3, "qid": i // 10, "a": i % 5 + i % 7 % 3, "b": i % 11, "url": i}
            for i in range(200)
        ]
        lines = [
            header,
            *(",".join(str(row[column]) for column in header.split(",")) for row in rows),
        ]
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")
    assert run(capsys, "train train.csv --model m --trees 3")[0] == 0
    scores = {}
    for name in ("train", "other", "extra"):
        code, _, err = run(capsys, f"rank {name}.csv --model m -o scores")
        assert code == 0
        scores[name] = Path("scores").read_text()
        assert err.startswith("note: extra.csv: left out 'url'") if name == "extra" else err == ""
    assert len(set(scores.values())) == 1
    assert len(set(scores["train"].split())) > 2
    for command in ("rank fewer.csv --model m -o s", "evaluate fewer.csv --model m"):
        code, _, err = run(capsys, command)
        assert code == 2
        assert err.startswith(
            "error: fewer.csv: found no column 'a'; expected every feature that was trained on"
        )
    assert (
        "fewer.csv: found no column 'a'"
        in run(capsys, "compare train.csv --test fewer.csv --store r")[2]
    )


@pytest.mark.filterwarnings("ignore::tautrank.TautrankWarning")
def test_list_features_of_a_model(search, capsys):
    train = "train train.txt --valid valid.txt --trees 5 --model lists.taut --list-features"
    for given, columns in (("all", tuple(range(16))), ("2,0", (2, 0))):
        code, _, err = run(capsys, f"{train} {given}")
        assert (code, err) == (0, "")
        ranker = tr.Ranker.load("lists.taut")
        assert ranker.list_features_.columns == columns
    code, out, _ = run(capsys, "evaluate test.txt --model lists.taut -m ndcg@5 --json")
    assert code == 0
    test = tr.read_letor("test.txt", n_features=16)
    expected = tr.metric("ndcg@5").mean(ranker.predict(test), test.labels, test.offsets)
    assert next(iter(json.loads(out)["metrics"].values()))["mean"] == expected
    code, _, err = run(capsys, "export lists.taut -o m.json --format solr")
    assert code == 2
    assert "format: found 'solr' for a model with list features" in " ".join(err.split())
    code, _, err = run(capsys, f"{train} bm25")
    assert code == 2
    assert "list_features: found the name 'bm25', but the data has no names" in " ".join(
        err.split()
    )
    assert run(capsys, f"{train} ','")[0] == 2


def test_an_error_of_a_worker_is_said_once(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("broken.txt").write_text("1 qid:a 1:3\nx qid:a 1:2\n")
    code, _, err = run(capfd, "train broken.txt --model m.taut --workers 1")
    assert (code, err) == (
        2,
        "error: broken.txt:2: found label 'x'; expected a finite number of at least 0\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["broken.txt"]
