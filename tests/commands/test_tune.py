"""The command `tautrank tune`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tautrank as tr
from tests.command_line import run

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
    command = f"{COMMAND} --loss ndcg-loss2++ --space space.json --trials 7 --storage tune.db --zero-based"
    code, out, err = run(capsys, f"{command} --model best.taut")
    assert code == 0
    assert "7/7 trial 6" in err
    assert "7 trials: " in out
    assert "best: loss=ndcg-loss2++ num_leaves=" in out
    valid = tr.read_letor("valid.txt", zero_based=True)
    model = tr.Ranker.load("best.taut")
    assert f"best validation ndcg@10 {model.score(valid):.4f} in trial" in out
    same = next(line for line in out.splitlines() if line.startswith("The same model: tautrank train"))
    assert run(capsys, same.removeprefix("The same model: tautrank ").replace("best.taut", "again.taut"))[0] == 0
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--space spce.json", "error: spce.json: cannot be read"),
        ("--space tree", "unknown space 'tree'; did you mean 'trees'? (known: default, stochasticrank, trees; or a"),
        ("--timeout -1", "timeout: found -1.0; expected a number above 0"),
        ("--param num_leafs=3", "unknown parameter of lightgbm 'num_leafs'"),
        ("--model no/best.taut", "error: no/best.taut: cannot be written (No such file or directory)"),
        ("--storage valid.txt", "valid.txt: is not a whole SQLite file"),
    ],
)
def test_bad_words_are_one_sentence_and_exit_code_2(search, capsys, words, said):
    code, _, error = run(capsys, f"{COMMAND} {words}")
    assert code == 2
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert sorted(os.listdir()) == ["test.txt", "train.txt", "valid.txt"]


def test_ctrl_c_shows_the_best_so_far_and_how_to_continue(search):
    command = [sys.executable, "-m", "tautrank.commands.main", *shlex.split(COMMAND)]
    command += ["--trials", "5000", "--storage", "tune.db"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("2/5000") and not any(earlier.startswith("2/5000") for earlier in lines[:-1]):
            process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    said = "".join(lines)
    assert "best so far: loss=lambdarank" in said
    assert "of 5000 trials; the same command continues from tune.db" in " ".join(said.split())
    assert "Traceback" not in said
    assert not Path("tune.db.lock").exists()
