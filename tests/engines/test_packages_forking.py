"""Training in other processes: forked, spawned and loky's, before and after the parent has
trained.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PREFACE = """
import multiprocessing, os, sys, warnings
import numpy as np
from tautrank.ranker.estimator import Ranker

X = np.random.default_rng(0).normal(size=(4000, 5))
y = np.clip(np.round(X[:, 0]), 0, 3)
qid = np.repeat(np.arange(200), 20)

def work(loss, n_jobs=None):
    ranker = Ranker(loss, n_estimators=4, num_leaves=7, n_jobs=n_jobs).fit(X, y, qid=qid)
    path = f"{sys.argv[1]}/{os.getpid()}.taut"
    ranker.save(path)
    return float(Ranker.load(path).predict(X).sum())

def work_twice(loss):
    first = work(loss)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return first, pool.apply(work, (loss,))

"""


def run(body, folder, timeout=60):
    """Run a program to its end in a process of its own, where a hang is a failure; return what it
    says on stderr.
    """
    script = folder / "program.py"
    script.write_text(
        f"{PREFACE}if __name__ == '__main__':\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@needs_fork
@pytest.mark.parametrize(
    "loss", ["lambdarank", "lightgbm:lambdarank", "xgboost:rank:ndcg", "catboost:QueryRMSE"]
)
def test_a_forked_process_trains_after_its_parent_did(loss, tmp_path):
    pytest.importorskip(loss.partition(":")[0] if ":" in loss else "lightgbm")
    body = f"""
    here = work({loss!r}, n_jobs=2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        there = pool.map(work, [{loss!r}] * 3)
    np.testing.assert_allclose(there, [here] * 3, rtol=1e-9)
    assert work({loss!r}, n_jobs=2) == here, "the parent goes on as before"
    """
    assert run(body, tmp_path) == ""


@needs_fork
def test_a_fork_before_any_training_and_a_fork_of_a_fork(tmp_path):
    body = """
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        first, second = pool.submit(work_twice, "xendcg").result()
    assert first == second == work("xendcg")
    """
    run(body, tmp_path)


@needs_fork
def test_more_threads_than_a_forked_process_may_use_are_a_warning(tmp_path):
    body = """
    work("lambdarank", n_jobs=2)
    if os.fork() == 0:
        work("lambdarank", n_jobs=2)
        os._exit(0)
    assert os.wait()[1] == 0
    """
    sentence = (
        "n_jobs: found 2 in a process forked after lightgbm was loaded, where OpenMP would hang"
    )
    assert sentence in run(body, tmp_path)


def test_a_spawned_process_trains(tmp_path):
    body = """
    here = work("lambdarank", n_jobs=2)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(work, ("lambdarank", 2)) == here
    """
    run(body, tmp_path)


def test_grid_search_in_loky_processes(tmp_path):
    body = """
    import sklearn
    from sklearn.model_selection import GridSearchCV, GroupKFold
    sklearn.set_config(enable_metadata_routing=True)
    work("lambdarank", n_jobs=2)
    ranker = Ranker(n_estimators=3).set_fit_request(qid=True).set_score_request(qid=True)
    grid = {"loss": ["lambdarank", "xendcg"], "min_data_in_leaf": [5, 20]}
    search = GridSearchCV(ranker, grid, cv=GroupKFold(3), n_jobs=2, error_score="raise")
    search.fit(X, y, qid=qid, groups=qid)
    assert 0.8 < search.best_score_ <= 1
    """
    run(body, tmp_path, timeout=120)
