"""Tables and CSV of a search."""

from __future__ import annotations

import json

import pytest

from tautrank.experiments.search import SearchOptions, declare_search
from tautrank.experiments.tuning import TriedConfiguration, Tuning


@pytest.fixture(scope="module")
def found() -> Tuning:
    space = {
        "num_leaves": ("int", 2, 15),
        "learning_rate": ("float", 0.001, 0.3),
        "loss.k": ("choice", 5, None),
    }
    configuration = {
        "loss": "lambdarank",
        "learning_rate": 0.123456,
        "loss.k": None,
        "num_leaves": 5,
    }
    trials = (
        TriedConfiguration(0, configuration, "done", 0.5, 3, 9, 1.0),
        TriedConfiguration(1, {**configuration, "loss.k": 5}, "pruned", 0.7, 2, 4, 0.5),
        TriedConfiguration(
            2, {**configuration, "num_leaves": 7}, "failed", error="langevin: too much"
        ),
        TriedConfiguration(3, {**configuration, "num_leaves": 8}, "done", 0.625, 4, 9, 1.0),
    )
    return Tuning(declare_search(space=space), SearchOptions(), trials)


def test_trials_as_csv_and_json_values(found, tmp_path):
    lines = found.to_csv(tmp_path / "trials.csv").splitlines()
    assert (tmp_path / "trials.csv").read_text().splitlines() == lines
    assert lines[:2] == [
        "trial,state,ndcg@10,trees,grown,seconds,error,learning_rate,num_leaves,loss.k",
        "0,done,0.5,3,9,1.0,,0.123456,5,null",
    ]
    assert lines[3] == "2,failed,,0,0,0.0,langevin: too much,0.123456,7,null"
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (plain["best_trial"], plain["best_score"]) == (3, 0.625)
    assert plain["best_configuration"] == found.trials[3].configuration
    assert (plain["best_params"]["loss"], plain["best_params"]["n_estimators"]) == (
        "lambdarank(k=none)",
        4,
    )
    assert [t["score"] for t in plain["trials"]] == [0.5, 0.7, None, 0.625]
    assert plain["trials"][2]["error"] == "langevin: too much"


def test_the_table_has_the_best_first(found):
    columns, rows = found.table().columns, found.table().rows
    assert [column.title for column in columns] == [
        "trial",
        "ndcg@10",
        "trees",
        "learning_rate",
        "num_leaves",
        "loss.k",
    ]
    assert [cell.text for cell in rows[0]] == ["3", "0.6250", "4", "0.1235", "8", "none"]
    assert [row[1].text for row in rows[1:]] == ["0.5000", "0.7000 pruned", "failed"]
    assert found.to_markdown().splitlines()[2].startswith("| 3 | 0.6250 | 4 | 0.1235 | 8 | none |")
    assert "<h1>Search for parameters</h1>" in found.to_html()
    assert "3 & 0.6250 & 4 & 0.1235 & 8 & none" in found.to_latex()
    assert (
        "4 trials: 2 trained to the end, 1 pruned, 1 failed; best validation ndcg@10 0.6250"
        in repr(found)
    )
