"""`tautrank compare` as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.command_line import interrupt, run


def test_compare_prints_table_latex_json_and_page(search, capsys):
    command = (
        "compare train.txt --valid valid.txt --test test.txt --repeats 2 --trees 5 --workers 1"
    )
    command += " -l 'mse,ndcg-loss2++(k=5,mu=2)' -m ndcg@5"
    code, out, err = run(capsys, f"{command} --html page.html")
    assert code == 0
    assert "ndcg-loss2++(k=5,mu=2)" in out.replace("\n", "")
    assert err.splitlines()[-1].startswith("4/4 repeat 2, ")
    assert "ndcg-loss2++(k=5,mu=2)" in Path("page.html").read_text()
    assert run(capsys, command, "--latex")[1].startswith("% Results\n\\begin{tabular}")
    found = json.loads(run(capsys, command, "--json")[1])
    assert [cell["system"] for cell in found["cells"]] == ["mse", "ndcg-loss2++(k=5,mu=2)"]


def test_compare_a_folder_over_its_folds(search, capsys):
    for fold in ("Fold1", "Fold2"):
        Path(fold).mkdir()
        for name, source in (("train", "train"), ("vali", "valid"), ("test", "test")):
            Path(fold, f"{name}.txt").write_bytes(Path(f"{source}.txt").read_bytes())
    options = "-l mse,listnet -m ndcg@5 --repeats 1 --trees 3 --workers 1 --json"
    code, out, err = run(capsys, f"compare . --fold all {options}")
    assert code == 0
    assert "3/4 repeat 1, fold 2, mse" in err
    assert len(json.loads(out)["trees"][0]["by_trial"]) == 2


def test_ctrl_c_in_a_comparison_keeps_what_is_finished(search):
    command = "compare train.txt --test test.txt -l mse,listnet --repeats 200 --trees 20 --workers 2 --store kept"
    said = interrupt(command, "2/400 ")
    found = re.search(
        r"^stopped: (\d+) of 400 trainings are kept in kept; the same command continues", said, re.M
    )
    assert found, said
    assert 2 <= int(found[1]) < 400
