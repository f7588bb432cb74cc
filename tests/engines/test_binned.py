"""Binned data is made once for all trainings on the same data, in one process and between
processes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import RankingData
from tautrank.engines import binned, lightgbm_binning
from tautrank.engines.binned import Bins, content_key, forget_bins, sharing_bins
from tautrank.engines.lightgbm_binning import LightGBMBinning
from tautrank.experiments.compare import comparison
from tautrank.experiments.trial import TrialContext


def _data(seed: int = 0, queries: int = 40, features: int = 6) -> RankingData:
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((queries * 10, features)).astype(np.float32)
    labels = np.clip(np.rint(X[:, 0] + draw.standard_normal(queries * 10)), 0, 3)
    return RankingData.from_arrays(X, labels, group=[10] * queries)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of documents of every binning."""
    counted: list[int] = []
    make = LightGBMBinning.make

    def counting(self: LightGBMBinning) -> Any:
        counted.append(self._task.train.n_documents)
        return make(self)

    monkeypatch.setattr(LightGBMBinning, "make", counting)
    yield counted
    forget_bins()


def _model(loss: str = "lambdarank", data: RankingData | None = None, **given: Any) -> bytes:
    train = _data() if data is None else data
    return tr.Ranker(loss=loss, n_estimators=4, **given).fit(train, _data(1, 10)).model_.to_bytes()


def _rows(result: Any) -> list[list[str]]:
    return [line.split(",") for line in result.to_csv().splitlines()]


def test_a_comparison_bins_each_split_once_and_finds_the_same(
    made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = ["lambdarank", "lightgbm:lambdarank", "xendcg", "mse"]
    run = {"losses": losses, "metrics": ["ndcg@5"], "repeats": 3, "n_estimators": 4, "workers": 1}
    found = tr.compare(_data(), _data(1, 10), _data(2, 10), **run)
    assert len(made) == 3
    monkeypatch.setattr(binned, "shared_bins", lambda: None)
    monkeypatch.setattr("tautrank.engines.training.shared_bins", lambda: None)
    alone = tr.compare(_data(), _data(1, 10), _data(2, 10), **run)
    assert len(made) == 3 + 12
    assert [row[:-1] for row in _rows(found)] == [
        row[:-1] for row in _rows(alone)
    ]  # the last column are seconds
    assert not binned._bins_by_folder  # the memory is free again


def test_a_search_shares_what_does_not_change_the_bins(made: list[int]) -> None:
    tr.tune(
        _data(),
        _data(1, 10),
        space={"num_leaves": ("int", 4, 31)},
        n_trials=4,
        n_estimators=4,
        prune=False,
    )
    assert made == [40, 400, 400]  # the check of the plan, all trials, the final training


def test_models_are_the_same_bits_and_other_bins_are_others(made: list[int]) -> None:
    with sharing_bins():
        first = _model()
        assert [_model() == first, _model("xendcg") != first, _model(num_leaves=5) != first] == [
            True
        ] * 3
        assert len(made) == 1
        assert _model(max_bin=15) != first
        assert len(made) == 2
        _model(random_state=5)
        _model(data=_data(7))
        assert len(made) == 4
        # The first is not in memory any more.
        assert _model() == first
        assert len(made) == 5
    assert _model() == first
    assert _model(max_bin=15) != first


def test_a_training_that_continues_has_its_own_data(made: list[int]) -> None:
    train = _data()
    with sharing_bins():
        start = tr.Ranker(n_estimators=2).fit(train)
        both = tr.Ranker(n_estimators=2).fit(train, init_model=start).model_.to_bytes()
        assert (
            tr.Ranker(n_estimators=4).fit(train).predict(train).tolist()
            != start.predict(train).tolist()
        )
    assert both == tr.Ranker(n_estimators=2).fit(train, init_model=start).model_.to_bytes()


@pytest.mark.parametrize("loss", ["lambdarank", "lightgbm:lambdarank"])
def test_processes_share_a_file(
    loss: str, made: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lightgbm_binning, "_FEWEST_VALUES_FOR_FILES", 1)
    alone = _model(loss)
    del made[:]
    for _ in range(3):  # each as a process of its own would: nothing in memory
        with sharing_bins(str(tmp_path)):
            assert _model(loss) == alone
        forget_bins()
    assert len(made) == 1
    damaged = next(tmp_path.glob("*.train"))
    damaged.write_bytes(b"")
    with sharing_bins(str(tmp_path)):
        assert _model(loss) == alone
    assert len(made) == 2


def test_old_files_are_removed(tmp_path: Path) -> None:
    class Numbers:
        def make(self) -> int:
            return 7

        def write(self, made: int, path: Path) -> None:
            Path(f"{path}.train").write_text(str(made))

        def read(self, path: Path) -> int:
            return int(Path(f"{path}.train").read_text())

    bins = Bins(tmp_path)
    for key in range(20):
        assert bins.get(f"{key:02}", Numbers().make, Numbers()) == 7
    assert len(list(tmp_path.glob("*.train"))) == binned._MOST_FILES
    assert Bins(tmp_path).get("19", lambda: 8, Numbers()) == 7


def test_the_key_is_of_the_whole_content() -> None:
    data, other = _data(), _data()
    assert content_key((data, None), {"a": 1}) == content_key((other, None), {"a": 1})
    X, labels = data.X.copy(), data.labels.copy()
    X[3, 2] += 1
    labels[0] += 1
    changed = [
        content_key((data, None), {"a": 2}),
        content_key((data, data), {"a": 1}),
        content_key((data, None), {"a": 1}, np.ones(3)),
        content_key((dataclasses.replace(data, X=X), None), {"a": 1}),
        content_key((dataclasses.replace(data, labels=labels), None), {"a": 1}),
        content_key((data,), {"a": 1}),
    ]
    assert len({content_key((data, None), {"a": 1}), *changed}) == 7


def test_surroundings_and_comparisons_say_nothing_of_bins_in_results() -> None:
    assert TrialContext().bins == ""
    assert "bins" not in str(comparison(["mse"], ["ndcg"], repeats=1))
