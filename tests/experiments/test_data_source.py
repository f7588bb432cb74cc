"""The data of an experiment by name: files, folders, synthetic data, and what is misspelt."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tautrank as tr
from tautrank.errors import DataError, OptionError
from tautrank.experiments.data_source import read_source
from tautrank.experiments.protocols import FixedParts
from tautrank.experiments.trial import run_trial
from tautrank.papers.plan import make_plan
from tests.study_examples import SMALL, TINY, pool


def test_three_files_are_the_three_parts(tmp_path):
    files = []
    for name, part in zip(
        ("train", "valid", "test"), pool().split([0.5, 0.25, 0.25], seed=0), strict=True
    ):
        tr.data.write_letor(part, tmp_path / f"{name}.txt")
        files.append(str(tmp_path / f"{name}.txt"))
    plan = make_plan(replace(TINY, protocol=FixedParts()), files, budget=SMALL)
    assert run_trial(plan.trials()[0].spec)["queries"] == {"train": 20, "valid": 10, "test": 10}
    assert plan.n_queries == 40


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("simulated:mlsr:200", "unknown shape of simulated data 'mlsr'; did you mean 'mslr'?"),
        ("simulated:mslr", "--data: found 'simulated:mslr'; expected simulated:SHAPE:QUERIES"),
        (
            "simulated:mslr:many",
            "--data: found 'simulated:mslr:many'; expected simulated:SHAPE:QUERIES",
        ),
        (
            "simulated:mslr:9,sed=1",
            "unknown parameter of simulated data 'sed'; did you mean 'seed'?",
        ),
        ("simulated:mslr:9,seed=x", "--data: found 'simulated:mslr:9,seed=x'; expected"),
        (
            "simulted:mslr:9",
            "--data: found no file or folder 'simulted:mslr:9'; did you mean 'simulated:mslr:9'?",
        ),
        (
            "five-document",
            "--data: found no file or folder 'five-document'; did you mean 'five-documents'?",
        ),
        ((), "--data: found 0 names"),
    ],
)
def test_data_that_is_misspelt(given, sentence):
    with pytest.raises((OptionError, DataError)) as caught:
        read_source(given)
    assert str(caught.value).startswith(sentence)


def test_a_misspelt_path_is_told_from_its_neighbours(tmp_path):
    (tmp_path / "MSLR-WEB10K").mkdir()
    with pytest.raises(DataError, match=r"did you mean '.*MSLR-WEB10K'"):
        read_source(str(tmp_path / "MSLR-WEB1OK"))
    with pytest.raises(DataError, match="is a directory; expected a file"):
        read_source([str(tmp_path), str(tmp_path)]).read()
