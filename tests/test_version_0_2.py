"""What version 0.2.0 has written is still read: models score the same bits, stores are resumed
without training again.
"""

from __future__ import annotations

import inspect
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tautrank as tr
from tautrank.papers import Budget, find_study, run_study
from tests.golden_0_2.make_files import scores

FILES = Path(__file__).parent / "golden_0_2"
MODELS = sorted(path.name for path in (FILES / "models").iterdir())
PACKAGES = {"xgboost": "xgboost", "catboost": "catboost", "torch": "torch", "frame": "pandas"}


@pytest.mark.parametrize("name", MODELS)
def test_model_gives_the_same_scores(name: str) -> None:
    package = PACKAGES.get(name.replace(".", "-").split("-")[0])
    if package is not None:
        pytest.importorskip(package)
    rows = np.load(FILES / "rows.npy")

    found = scores(FILES / "models" / name, rows)

    expected = np.load(FILES / "scores.npz")[name]
    if name == "torch.taut":  # matrix products of another processor differ in the last digits
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a store, in a process that cannot train on its data."""
    fit = tr.Ranker.fit

    def fit_to_try_parameters(ranker: tr.Ranker, train: Any, *valid: Any, **options: Any) -> Any:
        assert train.n_queries == 2, "trained again what the store holds"
        return fit(ranker, train, *valid, **options)

    monkeypatch.setattr(tr.Ranker, "fit", fit_to_try_parameters)
    monkeypatch.chdir(FILES)  # the study knows its data by this path
    return Path(shutil.copy(FILES / request.param, tmp_path))


def finished_trials(store: Path) -> list[tuple[object, ...]]:
    """Return the rows of the trials of a store."""
    with sqlite3.connect(store) as connection:
        query = "SELECT key, number, spec, status, result, finished FROM trials ORDER BY key"
        return connection.execute(query).fetchall()


def parts() -> list[tr.RankingData]:
    """Return the training, validation and test data of the stores."""
    data = tr.read_letor("data.txt")
    return [data.subset(range(30)), data.subset(range(30, 45)), data.subset(range(45, 60))]


@pytest.mark.parametrize("store", ["comparison.db"], indirect=True)
def test_comparison_is_resumed(store: Path) -> None:
    trials_before = finished_trials(store)

    result = tr.compare(
        *parts(),
        losses=["mse", "listnet"],
        metrics=["ndcg@5"],
        repeats=2,
        n_estimators=3,
        num_leaves=4,
        min_data_in_leaf=5,
        store=store,
    )

    assert len(trials_before) == 4
    assert finished_trials(store) == trials_before
    assert result.systems[1].values["ndcg@5"].shape == (2, 15)


@pytest.mark.parametrize("store", ["search.db"], indirect=True)
def test_search_is_resumed(store: Path) -> None:
    pytest.importorskip("optuna")
    train, valid, _ = parts()
    trials_before = finished_trials(store)
    # Two parameters have another name since 0.2.0.
    names = inspect.signature(tr.tune).parameters
    store_and_no_refit = {
        "store" if "store" in names else "storage": store,
        "final_fit" if "final_fit" in names else "refit": None,
    }

    result = tr.tune(
        train,
        valid,
        metric="ndcg@5",
        n_trials=3,
        space={"num_leaves": ("int", 2, 9), "loss.k": ("choice", 5, 30)},
        seed=3,
        n_jobs=1,
        n_estimators=3,
        min_data_in_leaf=5,
        **store_and_no_refit,
    )

    assert len(trials_before) == 3
    assert finished_trials(store) == trials_before
    assert result.best_score == pytest.approx(0.7042761274667079)


@pytest.mark.parametrize("store", ["study.db"], indirect=True)
def test_study_is_resumed(store: Path) -> None:
    trials_before = finished_trials(store)

    result = run_study(
        find_study("xe-table1"), "data.txt", store=store, budget=Budget(repeats=1, trees=2)
    )

    assert len(trials_before) == 3
    assert finished_trials(store) == trials_before
    assert result.failures == ()


def test_trees_chosen_by_cross_validation_are_found_again_under_their_name_in_0_2(
    tmp_path: Path,
) -> None:
    data = tr.simulate.simulate_web_search(24, n_features=16, mean_length=6, seed=0)
    store = tmp_path / "store.db"

    tr.compare(
        *data.split([0.5, 0.25, 0.25], seed=0),
        losses=["mse"],
        metrics=["ndcg@5"],
        repeats=1,
        n_estimators=2,
        cross_validate_trees=True,
        store=store,
    )

    (specification,) = [row[2] for row in finished_trials(store)]
    assert '"refit":true' in specification.replace(" ", "")
