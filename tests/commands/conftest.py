"""Files to type commands about, and commands made small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tautrank as tr
from tautrank.commands import demonstration
from tautrank.losses import REGISTRY
from tautrank.metrics import METRICS


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Training, validation and test files, the test file's last feature always 0 and so left
    out.
    """
    folder = tmp_path_factory.mktemp("search")
    data = tr.simulate.simulate_web_search(60, n_features=16, mean_length=12, seed=1)
    for name, part in zip(("train", "valid", "test"), data.split([0.5, 0.2, 0.3]), strict=True):
        tr.data.write_letor(part, folder / f"{name}.txt")
    return folder


@pytest.fixture
def search(written, tmp_path, monkeypatch):
    """The current folder, with train.txt, valid.txt and test.txt in it."""
    for file in written.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small_demo(monkeypatch):
    """The demonstration, small enough for a test."""
    small = {"_QUERIES": 40, "_FEATURES": 16, "_TREES": 3, "_REPEATS": 2, "_WORKERS": 1}
    for name, value in {
        **small,
        "_MORE_QUERIES": 60,
        "_MORE_FEATURES": 16,
        "_MORE_TREES": 3,
    }.items():
        monkeypatch.setattr(demonstration, name, value)


@pytest.fixture
def own_losses() -> Iterator[None]:
    """Losses and metrics that a test registers are forgotten after it."""
    before = [(registry, dict(registry)) for registry in (REGISTRY, METRICS)]
    yield
    for registry, known in before:
        registry.clear()
        registry.update(known)
