"""Commands answer before they import what takes long: asserted by what is imported, not by the
clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# What takes from a tenth of a second to several to import.
SLOW = (
    "sklearn",
    "scipy",
    "lightgbm",
    "numba",
    "pandas",
    "pyarrow",
    "optuna",
    "plotly",
    "torch",
    "xgboost",
)
PROGRAM = """
import json, sys
from tautrank.commands.main import main

lines, slow = json.loads(sys.argv[1])
found = []
for line in lines:
    try:
        main(line)
        code = 0
    except SystemExit as stop:
        code = stop.code
    found.append([code, [name for name in slow if name in sys.modules]])
print("\\n" + json.dumps(found))
"""


def test_a_missing_file_a_wrong_option_and_scores_import_nothing_slow(tmp_path: Path) -> None:
    data, scores, no, out = (
        str(tmp_path / name) for name in ("data.txt", "scores.txt", "no", "out")
    )
    Path(data).write_text("1 qid:1 1:0.5 2:1 #docid = a\n0 qid:1 1:0.25 #docid = b\n")
    Path(scores).write_text("1.0\n0.5\n")
    refused = [
        ["train", no, "-o", out],
        ["train", data, "--valid", no, "-o", out],
        ["train", data, "--init-model", no, "-o", out],
        ["train", data, "-o", out, "--loss", "no"],
        ["train", data, "-o", out, "--metric", "no"],
        ["train", data, "-o", out, "--engine", "no"],
        ["train", data, "-o", out, "--no"],
        ["evaluate", no, "--scores", scores],
        ["evaluate", data, "--scores", no],
        ["evaluate", data, "--model", no],
        ["evaluate", data, "--model", scores],
        ["evaluate", data, "--scores", scores, "--metrics", "no"],
        ["rank", data, "--model", no, "-o", out],
        ["explain", no, data, "--qid", "1"],
        ["model", "info", no],
        ["export", no, "-o", out, "--format", "solr"],
        ["export", no, "-o", out, "--format", "no"],
        ["compare", no, "--test", data],
        ["compare", data, "--test", no],
        ["compare", data, "--test", data, "--losses", "no"],
        ["compare-runs", no, no, "--qrels", no],
        ["tune", data, "--valid", no],
        ["data", "info", no],
        ["study", "run", "no", "--data", data],
        ["study", "run", "xe-table1", "--data", no],
        ["study", "resume", no],
        ["study", "report", no],
        ["theory", "check", no],
        ["theory", "check", "--loss", "no"],
    ]
    answered = [
        ["--version"],
        ["train", "--help"],
        ["study", "list"],
        ["evaluate", data, "--scores", scores],
    ]
    command = [sys.executable, "-c", PROGRAM, json.dumps([refused + answered, SLOW])]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    found = json.loads(ran.stdout.splitlines()[-1])
    expected = [[2, []]] * len(refused) + [[0, []]] * len(answered)
    for line, seen, wanted in zip(refused + answered, found, expected, strict=True):
        assert seen == wanted, line
