"""Files to type commands about."""

from __future__ import annotations

import pytest

import tautrank as tr


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Training, validation and test files, the test file's last feature always 0 and so left out."""
    folder = tmp_path_factory.mktemp("search")
    data = tr.simulate.simulate_web_search(60, n_features=16, mean_length=12, seed=1)
    for name, part in zip(("train", "valid", "test"), data.split([0.5, 0.2, 0.3]), strict=True):
        tr.write_letor(part, folder / f"{name}.txt")
    return folder


@pytest.fixture
def search(written, tmp_path, monkeypatch):
    """The current folder, with train.txt, valid.txt and test.txt in it."""
    for file in written.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path
