"""Tables and CSV of a search."""

from __future__ import annotations

import json

import pytest

from tautrank.experiments.search_plan import plan_search
from tautrank.experiments.tune import TunedTrial, Tuning


@pytest.fixture(scope="module")
def found() -> Tuning:
    space = {"num_leaves": ("int", 2, 15), "learning_rate": ("float", 0.001, 0.3), "loss.k": ("choice", 5, None)}

    def trial(number, leaves, k, *what, **more):
        values = {"learning_rate": 0.123456 + number, "loss.k": k, "num_leaves": leaves}
        return TunedTrial(number, {"loss": "lambdarank", **values}, *what, **more)

    trials = (
        trial(0, 5, None, "done", 0.5, 3, 9, 1.0),
        trial(1, 6, 5, "pruned", 0.7, 2, 4, 0.5),
        trial(2, 7, 5, "failed", error="langevin: too much"),
        trial(3, 8, None, "done", 0.625, 4, 9, 1.0),
    )
    return Tuning(plan_search(space=space), trials)


def test_trials_as_csv(found, tmp_path):
    lines = found.to_csv(tmp_path / "trials.csv").splitlines()
    assert (tmp_path / "trials.csv").read_text().splitlines() == lines
    assert lines[0] == "trial,state,ndcg@10,trees,grown,seconds,learning_rate,num_leaves,loss.k,error"
    assert lines[1] == "0,done,0.5,3,9,1.0,0.123456,5,null,"
    assert lines[3] == "2,failed,,0,0,0.0,2.123456,7,5,langevin: too much"
    assert len(lines) == 5


def test_a_search_as_json_values(found):
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (plain["best_trial"], plain["best_score"]) == (3, 0.625)
    assert plain["best_configuration"] == found.trials[3].configuration
    assert (plain["best_params"]["loss"], plain["best_params"]["n_estimators"]) == ("lambdarank(k=none)", 4)
    assert [t["score"] for t in plain["trials"]] == [0.5, 0.7, None, 0.625]
    assert plain["trials"][2]["error"] == "langevin: too much"


def test_the_table_has_the_best_first_and_fits_its_width(found):
    wide = found.table().to_csv().splitlines()
    assert wide[0] == "trial,ndcg@10,trees,learning_rate,num_leaves,loss.k"
    assert [line.split(",")[:2] for line in wide[1:]] == [
        ["3", "0.6250"],
        ["0", "0.5000"],
        ["1", "0.7000 pruned"],
        ["2", "failed"],
    ]
    narrow = found.table(n=1, width=40).to_csv().splitlines()
    assert narrow == ["trial,ndcg@10,trees,configuration", "3,0.6250,4,learning_rate=3.123 num_leaves=8 loss.k=none"]
    assert "4 trials: 2 trained to the end, 1 pruned, 1 failed; best validation ndcg@10 0.6250 in trial 3" in repr(
        found
    )
