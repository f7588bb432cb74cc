"""What holds for every command: its help, its errors, an interruption, a closed pipe; and the
demonstration.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest
import typer

import tautrank as tr
from tautrank.commands.main import app
from tautrank.experiments.compare import DEFAULT_LOSSES
from tests.command_line import run

TUNE = "tune train.txt --valid valid.txt --trees 12 -j 1"
DATA = "--data simulated:mslr:30,mean_length=10"

# What is typed, and how the sentence begins. docs/errors.md has more, and test_documented_errors.py
# types them.
WRONG = [
    (
        "train train.txt --model m --loss lamdarank",
        "unknown loss 'lamdarank'; did you mean 'lambdarank'?",
    ),
    ("train train.txt --model m --loss 'lambdarank(k=0)'", "k: found 0; expected"),
    (
        "train absent.txt --model no/m --trees 2",
        "no/m: cannot be written (No such file or directory)",
    ),
    ("train train.txt --model .", ".: cannot be written (Is a directory)"),
    (
        "rank absent.txt --model absent -o no/o",
        "no/o: cannot be written (No such file or directory)",
    ),
    (
        "train train.txt --model m --workers 0",
        "--workers: found 0; expected a whole number of at least 1",
    ),
    (
        "train absent.txt --model m --trees 0",
        "--trees: found 0; expected a whole number of at least 1",
    ),
    ("rank test.txt --model train.txt -o o", "train.txt: "),
    ("rank test.txt --model absent -o o", "absent: "),
    ("rank test.txt --model m -o o --format treck", "unknown format 'treck'; did you mean 'trec'?"),
    ("compare . --fold one", "--fold: found 'one'; expected numbers such as 1 or 1,2, or all"),
    (
        "compare train.txt --test test.txt -l ,",
        "--losses: found no name; expected names such as 'lambdarank,xendcg'",
    ),
    ("evaluate test.txt", "--scores, --model: found neither; expected one of them"),
    (
        "train train.txt --model m --engine catboost",
        "engine: found catboost for the loss lambdarank, but CatBoost trains",
    ),
    (f"{TUNE} --space spce.json", "spce.json: cannot be read"),
    (
        f"{TUNE} --space tree",
        "unknown space 'tree'; did you mean 'trees'? (known: default, stochasticrank, trees; or a",
    ),
    (f"{TUNE} --timeout -1", "timeout: found -1.0; expected a number above 0"),
    (f"{TUNE} --param num_leafs=3", "unknown parameter of lightgbm 'num_leafs'"),
    (f"{TUNE} --model no/best.taut", "no/best.taut: cannot be written (No such file or directory)"),
    (f"{TUNE} --store valid.txt", "valid.txt: is not a whole SQLite file"),
    (f"study run xe-tabel1 {DATA}", "unknown study 'xe-tabel1'; did you mean 'xe-table1'?"),
    ("study run xe-table1", "--data: found none; expected a folder, a file, or "),
    ("study run xe-table1 --data simulated:mslr", "--data: found 'simulated:mslr'; expected"),
    (
        f"study run xe-table1 {DATA} --repeats 0",
        "repeats: found 0; expected a whole number of at least 1",
    ),
    (f"study run xe-table1 {DATA} --configs -1", "configurations: found -1; expected"),
    (
        f"study run xe-table1 {DATA} --recipe web3k",
        "unknown recipe 'web3k'; did you mean 'web30k'?",
    ),
    (f"study run xe-table1 {DATA} --fold 2", "--fold: found 2 for simulated:mslr:30"),
    (f"study run xe-table1 {DATA} --workers 0", "workers: found 0; expected a whole number"),
    (f"study run xe-table1 {DATA} --store no/such/s.db", "no/such/s.db: its folder does not exist"),
    ("study status nothing.db", "nothing.db: found no such file; expected a store of trials"),
    ("study report nothing.db", "nothing.db: found no such file; expected a store of trials"),
    ("study report nothing.db -o x.doc", "unknown ending of --output '.doc'"),
    ("theory check --loss lamdarank", "unknown loss 'lamdarank'; did you mean 'lambdarank'?"),
    (
        "theory check --checks xe-ndgc --loss mse",
        "unknown check 'xe-ndgc'; did you mean 'xe-ndcg'?",
    ),
    (
        "theory check --queries 0 --loss mse",
        "queries: found 0; expected a whole number of at least 1",
    ),
    ("theory check no-such-file.txt", "no-such-file.txt: "),
    (
        "theory check --scores s.txt",
        "--scores: found with no data; expected the file of data they belong to",
    ),
    (
        "theory check . --scores s.txt",
        "--scores: found with .; expected the file of data they belong to",
    ),
    (
        "theory check --import no_such_module",
        "import: found 'no_such_module'; expected a file that ends in .py, or",
    ),
    ("theory check --loss ,", "--loss: found no name; expected names such as 'lambdarank,xendcg'"),
]


@pytest.mark.parametrize(("command", "sentence"), WRONG)
def test_wrong_commands_are_one_sentence_and_leave_nothing(search, capsys, command, sentence):
    before = sorted(search.rglob("*"))
    code, out, err = run(capsys, command)
    assert (code, out) == (2, "")
    assert err.startswith("error: " + sentence)
    assert err.count("\n") == 1
    assert [file for file in sorted(search.rglob("*")) if file.name != "xe-table1.db"] == before


def test_unknown_options_and_commands_exit_with_2(capsys):
    for command in ("evalute", "evaluate --metrik ndcg", "data inof", "evaluate"):
        code, out, err = run(capsys, command)
        assert (code, out) == (2, "")
        assert "Traceback" not in err


def commands(group: typer.core.TyperGroup, path: tuple[str, ...] = ()) -> list[str]:
    """Every command that can be typed."""
    found = []
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        inner = getattr(command, "commands", None)
        found += commands(command, (*path, name)) if inner else [" ".join((*path, name))]
    return found


@pytest.mark.parametrize("command", commands(typer.main.get_command(app)))
def test_every_command_has_help_with_an_example(command, capsys):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"Usage: tautrank {command}" in out
    assert not re.search("[{}<>]", out)
    assert not re.search("--[a-z-]+-$", out, re.M)  # no option is broken at a hyphen
    assert f"Example: tautrank {command}" in " ".join(out.split())


def test_commands_are_listed_as_one_meets_them(capsys):
    out = run(capsys, "--help")[1]
    assert "..." not in out.partition("Commands:")[2]  # no sentence is cut
    listed = [line.split()[0] for line in out.splitlines() if re.match(r"  [a-z][a-z-]* ", line)]
    assert listed[:3] == ["demo", "data", "train"]
    assert set(listed) == set(typer.main.get_command(app).commands)


@pytest.mark.parametrize("group", [[], ["data"], ["model"], ["study"], ["theory"]])
def test_what_a_command_does_fits_its_line_of_a_narrow_terminal(group, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = run(capsys, *group, "--help")[1].partition("Commands:")[2]
    assert listed
    assert "..." not in listed


def test_training_defaults_are_those_of_the_ranker():
    options = {"trees": "n_estimators", "learning_rate": "learning_rate", "leaves": "num_leaves"}
    options |= {"early_stopping": "early_stopping_rounds"}
    ranker = inspect.signature(tr.Ranker).parameters
    for name in ("train", "compare", "tune"):
        for parameter in typer.main.get_command(app).get_command(None, name).params:
            if parameter.name in options:
                assert parameter.default == ranker[options[parameter.name]].default, (
                    name,
                    parameter.name,
                )


def test_version(capsys):
    assert run(capsys, "--version")[1].strip() == f"tautrank {tr.__version__}"


def test_ctrl_c_ends_a_command_with_a_word(capsys, monkeypatch, search):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tautrank.ranker.estimator.Ranker.fit", interrupted)
    assert run(capsys, "train train.txt --model m.taut") == (130, "", "stopped\n")
    assert not (search / "m.taut").exists()


def test_a_closed_pipe_is_no_error(search):
    command = f"{sys.executable} -m tautrank data info train.txt --json | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stdout == "{\n"
    assert "Traceback" not in result.stderr


def test_demo_runs(capsys, small_demo):
    code, out, _ = run(capsys, "demo")
    assert code == 0
    for loss in DEFAULT_LOSSES:
        assert loss in out
    assert "committee" in out.partition("3. A committee")[2].partition("Next, on your own files")[0]
