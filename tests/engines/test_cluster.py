"""Training on a Dask cluster: the same bits for any number of workers, whatever happens to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import distributed as reading
from tautrank.engines import cluster as training
from tautrank.engines.cluster_parts import without_network
from tautrank.engines.cluster_shares import data_shares
from tautrank.errors import DataError, OptionError, TautrankWarning

distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

QUERIES, LENGTH = 240, 10
TRAINED = {
    "n_estimators": 5,
    "num_leaves": 7,
    "early_stopping_rounds": None,
    "verbose": 0,
    "metric": "ndcg@5",
}


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(QUERIES * LENGTH, 6)).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    labels = np.clip(np.round(X[:, 0] + X[:, 2] + rng.normal(size=len(X))), 0, 4)
    labels[::LENGTH] = np.maximum(labels[::LENGTH], 1)  # all queries count
    return pd.DataFrame(X, columns=list("abcdef")).assign(
        label=labels, qid=np.repeat(np.arange(QUERIES), LENGTH)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five files; queries go on from each to the next."""
    folder = tmp_path_factory.mktemp("parts")
    for number, part in enumerate(np.split(np.arange(QUERIES * LENGTH), [333, 845, 1502, 1906])):
        table().iloc[part].to_parquet(folder / f"part-{number}.parquet")
    return folder


@contextmanager
def cluster(n, **how):
    with (
        distributed.LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=50,
            **{"processes": False, **how},
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        yield client


def fitted(folder, client, callbacks=(), **changes):
    data = tr.read_distributed(f"{folder}/part-*.parquet", client=client)
    valid = tr.RankingData.from_frame(table()).subset(range(20))
    return tr.Ranker(**{"loss": "xendcg", **TRAINED, **changes}).fit(
        data, valid, callbacks=callbacks
    )


def text(ranker):
    return ranker.model_.to_text()


def content(ranker):
    return ranker.model_.to_bytes()


@pytest.fixture(scope="module", params=["lightgbm", "xgboost"])
def two(request, folder):
    if request.param == "xgboost":
        pytest.importorskip("xgboost")
    with cluster(2) as client:
        return fitted(folder, client, engine=request.param)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_same_bits_for_any_number_of_workers(folder, two, workers):
    with cluster(workers) as client:
        ranker = fitted(folder, client, engine=two.engine)
    assert content(ranker) == content(two)
    assert ranker.evals_result_ == two.evals_result_


def test_xgboost_gives_the_bits_of_one_machine_whatever_happens_to_a_process(folder):
    """With weights, coarse bins and samples of columns; a worker process is killed, and another one
    is started.
    """
    pytest.importorskip("xgboost")
    everything, weights = tr.RankingData.from_frame(table()), np.linspace(1, 2, QUERIES)
    valid = everything.subset(range(20))
    given = {
        "loss": "lambdarank",
        "engine": "xgboost",
        **TRAINED,
        "max_bin": 32,
        "min_child_weight": 0.01,
    }
    here = tr.Ranker(**given).fit(everything, valid, weights=weights)
    sampled = tr.Ranker(**given, colsample_bytree=0.5).fit(everything)

    def lose(step):
        if step.step == 2:
            os.kill(client.cluster.workers[0].pid, signal.SIGKILL)

    with cluster(2, processes=True) as client:
        data = tr.read_distributed(f"{folder}/part-*.parquet", client=client)
        there = tr.Ranker(**given).fit(data, valid, weights=weights, callbacks=[lose])
        assert content(tr.Ranker(**given, colsample_bytree=0.5).fit(data)) == content(sampled)
    assert content(there) == content(here)
    assert there.evals_result_ == here.evals_result_


def test_bins_of_xgboost_come_from_one_sample(folder, tmp_path, monkeypatch):
    pytest.importorskip("xgboost")
    found = []
    with monkeypatch.context() as patch:
        patch.setattr(training, "sampled_rows", lambda total, _: np.arange(0, total, 7))
        for workers in (1, 3):
            with cluster(workers) as client:
                found.append(fitted(folder, client, engine="xgboost"))
    assert content(found[0]) == content(found[1])
    everything = tr.RankingData.from_frame(table())
    assert found[0].evals_result_["valid"]["ndcg@5"][-1] == found[0].score(
        everything.subset(range(20))
    )
    here = tr.Ranker(loss="xendcg", engine="xgboost", **TRAINED).fit(everything)
    assert content(found[0]) != content(here)
    assert found[0].score(everything) == pytest.approx(here.score(everything), abs=0.02)
    table().assign(c=np.repeat(np.arange(4), 600)).to_parquet(tmp_path / "a.parquet")
    ranker = tr.Ranker(loss="xendcg", engine="xgboost", categorical_feature=[2], **TRAINED)
    with cluster(1) as client:
        data = tr.read_distributed(tmp_path / "a.parquet", client=client)
        there = content(ranker.fit(data))
        monkeypatch.setattr(training, "sampled_rows", lambda total, _: np.arange(1000))
        with pytest.raises(
            DataError, match="categorical_feature: found a code above those of the sample"
        ):
            ranker.fit(data)
    everything = tr.RankingData.from_frame(pd.read_parquet(tmp_path / "a.parquet"))
    assert there == content(ranker.fit(everything))


def test_constant_hessians_give_the_trees_of_one_machine(folder):
    """LightGBM estimates the documents of a leaf by their hessians: exact where all are 1."""
    with cluster(2) as client:
        there = fitted(folder, client, loss="mse")
    here = tr.Ranker(loss="mse", **TRAINED).fit(tr.RankingData.from_frame(table()))
    assert text(there).partition("end of trees")[0] == text(here).partition("end of trees")[0]


def test_other_losses_differ_by_estimated_counts_only(folder):
    everything, weights = tr.RankingData.from_frame(table()), np.linspace(1, 2, QUERIES)
    sampled = {"bagging_by_query": True, "bagging_fraction": 0.5, "bagging_freq": 1}
    given = {"loss": "xendcg", **TRAINED, **sampled, "min_data_in_leaf": 1}
    with cluster(2) as client:
        data = tr.read_distributed(f"{folder}/part-*.parquet", client=client)
        there = tr.Ranker(**given).fit(data, weights=weights)
    here = tr.Ranker(**given).fit(everything, weights=weights)
    np.testing.assert_allclose(there.predict(everything), here.predict(everything), rtol=1e-9)


def test_early_stopping_and_continued_training(folder, two):
    given = {
        "loss": "xendcg",
        "engine": two.engine,
        **TRAINED,
        "n_estimators": 3,
        "eval_train": True,
    }
    with cluster(2) as client:
        begun = fitted(folder, client, engine=two.engine, n_estimators=2)
        data = tr.read_distributed(f"{folder}/part-*.parquet", client=client)
        on = tr.Ranker(**given).fit(data, init_model=begun)
        fast = {"early_stopping_rounds": 1, "n_estimators": 50, "learning_rate": 1.0}
        stopped = fitted(folder, client, engine=two.engine, **fast)
    assert content(on) == content(two)
    everything = tr.RankingData.from_frame(table())
    assert on.evals_result_["train"]["ndcg@5"][-1] == pytest.approx(on.score(everything), abs=1e-12)
    assert stopped.n_trees_ == stopped.best_iteration_ < 50
    assert stopped.best_score_ == stopped.score(everything.subset(range(20)))


def test_a_lost_worker_changes_nothing(folder, two):
    """`python -m bench distributed` kills a worker process."""
    lost = []

    def lose(step):
        if step.step == 2:
            lost.append(client.cluster.workers[0])
            client.cluster.sync(lost[0].close)

    with cluster(2) as client:
        ranker = fitted(folder, client, callbacks=[lose], engine=two.engine)
    assert lost
    assert content(ranker) == content(two)
    assert ranker.evals_result_ == two.evals_result_


def test_a_cluster_that_goes_away_leaves_the_trees_so_far(folder, two):
    with cluster(2) as client, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TautrankWarning)
        go = [lambda step: step.step == 2 and client.cluster.close()]
        ranker = fitted(folder, client, callbacks=go, engine=two.engine)
    (sentence,) = [str(each.message) for each in caught if "so far" in str(each.message)]
    assert sentence.startswith("client: the Dask cluster ")
    assert sentence.endswith("; the model has the 3 trees so far")
    np.testing.assert_array_equal(
        ranker.predict(np.eye(6)), two.model_.truncated(3).predict(np.eye(6))
    )
    assert without_network(content(ranker)) == content(ranker) or two.engine == "xgboost"


def test_queries_in_several_places_are_refused_with_their_ids(folder, tmp_path):
    table().iloc[:30].to_parquet(tmp_path / "a.parquet")
    table().iloc[10:50].to_parquet(tmp_path / "b.parquet")
    with (
        cluster(1) as client,
        pytest.raises(DataError, match=r"documents of 2 queries are scattered \(qid 1, 2\)"),
    ):
        tr.read_distributed([tmp_path / "a.parquet", tmp_path / "b.parquet"], client=client)


def test_unlike_columns_other_versions_and_what_a_cluster_cannot_train(
    folder, tmp_path, monkeypatch
):
    table().iloc[:30].to_parquet(tmp_path / "a.parquet")
    table().iloc[30:50].drop(columns="c").to_parquet(tmp_path / "b.parquet")
    with cluster(1) as client:
        with pytest.raises(
            DataError,
            match=r"b\.parquet: found column 'c' in only one of the two, this file and .*a\.par",
        ):
            tr.read_distributed(tmp_path / "*.parquet", client=client)
        with pytest.raises(DataError, match="no file has such a name"):
            tr.read_distributed(tmp_path / "no-*.parquet", client=client)
        data = tr.read_distributed(tmp_path / "a.parquet", client=client)
        refused = {
            "langevin: needs features in memory": {"langevin": tr.Langevin()},
            "loss lightgbm:lambdarank: needs features in memory": {"loss": "lightgbm:lambdarank"},
            "bagging_fraction: samples": {"bagging_fraction": 0.5, "bagging_freq": 1},
            "boosting: found dart": {"boosting": "dart"},
            "engine: torch needs features in memory; expected one loss trained by lightgbm or xgboost": {
                "engine": "torch"
            },
            "engine: committee needs features in memory": {"loss": "committee"},
            "subsample: samples the documents of each worker.*; expected it unset": {
                "engine": "xgboost",
                "subsample": 0.5,
            },
            "booster: found dart, which works with XGBoost's own objectives only": {
                "engine": "xgboost",
                "booster": "dart",
            },
            "loss xgboost:rank:ndcg: needs features in memory": {"loss": "xgboost:rank:ndcg"},
            "list_features: needs features in memory": {"list_features": True},
            "cross_validate_trees: needs features in memory": {"cross_validate_trees": True},
        }
        for sentence, given in refused.items():
            with pytest.raises(OptionError, match=sentence):
                tr.Ranker(**{**TRAINED, **given}).fit(data)
        monkeypatch.setattr(reading, "versions", lambda: {"tautrank": "9.9"})
        monkeypatch.setattr(client, "run", lambda function: {"tcp://a:1": {"tautrank": "0.0.1"}})
        with pytest.raises(
            DataError, match=r"tcp://a:1: found tautrank 0\.0\.1; expected 9\.9, as here"
        ):
            tr.read_distributed(tmp_path / "a.parquet", client=client)
    with pytest.raises(OptionError, match="client: found NoneType"):
        tr.read_distributed(tmp_path / "a.parquet", client=None)


def test_shares_are_whole_files_where_they_can_be(folder):
    data = tr.data.read_streamed(f"{folder}/part-*.parquet")
    for n in (1, 2, 4, 7, QUERIES):
        shares = data_shares(data, n)
        assert np.concatenate([share.qids for share in shares]).tolist() == list(range(QUERIES))
        np.testing.assert_array_equal(
            np.concatenate([share.X.read() for share in shares]), data.X.read()
        )
    assert [len(share.X.pieces) for share in data_shares(data, 2)] == [
        4,
        2,
    ]  # the end of a query is read from the next


@pytest.mark.parametrize("two", ["lightgbm"], indirect=True)
def test_the_model_of_lightgbm_says_nothing_about_the_network(two):
    assert "[num_machines: 1]\n" in text(two)
    assert without_network(content(two)) == content(two)


def test_dask_is_imported_by_training_on_a_cluster_only():
    code = "import sys, tautrank.engines.cluster; print('distributed' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "False\n"
    )
