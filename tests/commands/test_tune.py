"""The command `tautrank tune`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import tautrank as tr
from tests.command_line import interrupt, run

COMMAND = "tune train.txt --valid valid.txt --trees 12 --seed 2 -j 1"


def test_the_command_finds_saves_prints_and_says_how_to_train_the_same(search, capsys):
    space = {
        "num_leaves": ["int", 3, 12],
        "loss.mu": ["float", 1, 20, "log"],
        "subsample": ["float", 0.5, 0.9],
        "langevin.temperature": ["float", 1e3, 1e9, "log"],
    }
    Path("space.json").write_text(json.dumps(space))
    # The command that trains the same must read the files in the same way.
    command = (
        f"{COMMAND} --loss ndcg-loss2++ --space space.json --trials 7 --store tune.db --zero-based"
    )
    code, out, err = run(capsys, f"{command} --model best.taut")
    assert code == 0
    assert "7/7 trial 6" in err
    assert "7 trials: " in out
    assert "best: loss=ndcg-loss2++ num_leaves=" in out
    valid = tr.read_letor("valid.txt", zero_based=True)
    model = tr.Ranker.load("best.taut")
    assert f"best validation ndcg@10 {model.score(valid):.4f} in trial" in out
    same = next(
        line for line in out.splitlines() if line.startswith("The same model: tautrank train")
    )
    assert (
        run(
            capsys,
            same.removeprefix("The same model: tautrank ").replace("best.taut", "again.taut"),
        )[0]
        == 0
    )
    assert np.array_equal(tr.Ranker.load("again.taut").predict(valid), model.predict(valid))
    code, out, err = run(capsys, f"{command} --json")
    assert "7/7 continuing after 7 trials" in err
    assert json.loads(out)["best_score"] == model.score(valid)
    assert run(capsys, f"{command} --csv")[1].startswith("trial,state,ndcg@10,")


def test_the_plan_is_checked_once(search, monkeypatch, capsys):
    fit, fitted = tr.Ranker.fit, []

    def count(self, *data, **more):
        fitted.append(self.loss)
        return fit(self, *data, **more)

    monkeypatch.setattr(tr.Ranker, "fit", count)
    assert run(capsys, f"{COMMAND} --trials 2")[0] == 0
    assert fitted[:1] == ["mse"]  # one tree on tiny data
    assert len(fitted) == 3


def test_ctrl_c_shows_the_best_so_far_and_how_to_continue(search):
    said = interrupt(f"{COMMAND} --trials 5000 --store tune.db", "2/5000")
    assert "best so far: loss=lambdarank" in said
    assert "of 5000 trials; the same command continues from tune.db" in " ".join(said.split())
    assert not Path("tune.db.lock").exists()
