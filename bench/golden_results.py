"""The parts of `bench.golden` that are results and words: trials of studies, tables and pages of
results, help texts and errors.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tautrank as tr

Cases = Iterator[tuple[str, Any]]
SMALL = {"n_estimators": 3, "num_leaves": 4, "min_data_in_leaf": 5, "n_jobs": 1}
COMMANDS = (
    "",
    "demo",
    "train",
    "tune",
    "evaluate",
    "rank",
    "explain",
    "compare",
    "compare-runs",
    "export",
    "study",
    "study list",
    "study run",
    "study resume",
    "study report",
    "study rehearse",
    "theory",
    "theory check",
    "model",
    "model info",
    "data",
    "data info",
)


def studies(quick: bool) -> Cases:
    """Plans of every study, keys of trials in stores, and each result in every form."""
    yield from _plans(quick)
    with tempfile.TemporaryDirectory() as folder, _without_a_clock():
        yield from _forms("comparison", _comparison(Path(folder) / "comparison.db"))
        yield from _stored("comparison", Path(folder) / "comparison.db")
        if quick:
            return
        yield from _forms("search", _search(Path(folder) / "search.db"))
        yield from _stored("search", Path(folder) / "search.db")
        yield from _forms("study", _study(Path(folder) / "study.db"))
        yield from _stored("study", Path(folder) / "study.db")
        yield from _forms("runs", _comparison_of_runs())
        yield "runs/p-values", _p_values()


def _plans(quick: bool) -> Cases:
    """The specification of every trial of every study, and their keys, which hold the version."""
    make_plan = _first_of(("tautrank.papers.plan", "tautrank.papers.run"), "make_plan")
    papers = importlib.import_module("tautrank.papers")
    for name in list(papers.CATALOGUE)[:2] if quick else papers.CATALOGUE:
        study = papers.find_study(name)
        data = study.data or "simulated:simple:10,n_features=16,mean_length=5"
        trials = make_plan(study, data, budget=papers.Budget(2)).trials()
        specs = [{**trial.spec, "tautrank": "any"} for trial in trials]
        yield f"plan of {name}", [json.dumps(spec, sort_keys=True) for spec in specs]
        yield f"titles of {name}", [trial.title for trial in trials]
        yield f"keys of {name}", [trial.key for trial in trials]


def _first_of(modules: tuple[str, ...], name: str) -> Any:
    """Return a name from the first module that has it."""
    for module in modules:
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(module), name)
    raise ImportError(f"{name} is in none of {modules}")


@contextlib.contextmanager
def _without_a_clock() -> Iterator[None]:
    """Let every training take no time, so that times in results are the same."""
    perf_counter = time.perf_counter
    time.perf_counter = lambda: 0.0
    try:
        yield
    finally:
        time.perf_counter = perf_counter


def _data() -> list[tr.RankingData]:
    data = tr.simulate.simulate_web_search(90, n_features=16, mean_length=10, seed=8)
    return data.split([0.5, 0.25, 0.25], seed=0)


def _comparison(store: Path) -> Any:
    train, valid, test = _data()
    return tr.compare(
        train,
        valid,
        test,
        losses=["lambdarank", "mse", "listnet"],
        metrics=["ndcg@5", "map"],
        repeats=3,
        store=store,
        **SMALL,
    )


def _search(store: Path) -> Any:
    train, valid, _ = _data()
    parameters = inspect.signature(tr.tune).parameters
    stored = {"store" if "store" in parameters else "storage": store}
    space = {"num_leaves": ("int", 2, 9), "loss.k": ("choice", 5, 30)}
    options = {name: value for name, value in SMALL.items() if name != "num_leaves"}
    return tr.tune(train, valid, n_trials=4, space=space, seed=3, **stored, **options)


def _study(store: Path) -> Any:
    papers = importlib.import_module("tautrank.papers")
    budget = papers.Budget(2, trees=3)
    data = "simulated:mslr:20,mean_length=20"
    return papers.run_study(papers.find_study("xe-table1"), data, store=store, budget=budget)


def _comparison_of_runs() -> Any:
    rng = np.random.default_rng(2)
    queries = [f"q{number}" for number in range(40)]
    documents = [f"d{number}" for number in range(12)]
    judgments = {query: {d: int(rng.integers(0, 3)) for d in documents[:9]} for query in queries}
    runs = {
        name: {query: {d: float(rng.normal()) for d in documents} for query in queries[start:]}
        for name, start in (("bm25", 0), ("dense", 2), ("both", 1))
    }
    return tr.compare_runs(runs, judgments, metrics=["ndcg@10", "mrr"], pairs="all")


def _p_values() -> Any:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(3, 4, 50)) + rng.normal(size=50)
    test = tr.systems_test(values, overlap=0.2)
    return [test.p_values, test.differences, test.low, test.high]


def _forms(name: str, result: Any) -> Cases:
    """The result as text, data, tables and pages, each without versions and paths."""
    forms: dict[str, Callable[[], Any]] = {
        "text": lambda: str(result),
        "note": result.note,
        "to_dict": lambda: json.dumps(result.to_dict(), sort_keys=True, default=str),
        "to_csv": result.to_csv,
        "to_latex": result.to_latex,
        "to_markdown": result.to_markdown,
        "to_html": result.to_html,
        "page with figures": lambda: result.to_html(figures=True),
    }
    for form, make in forms.items():
        yield f"{name}/{form}", plain_text(make())


def plain_text(text: Any) -> str:
    """Return text without version numbers, dates, paths and names of machines."""
    text = re.sub(r"\b0\.[23]\.\d\S*?\b", "VERSION", str(text))
    text = re.sub(r"\d{4}-\d\d-\d\d[ T][\d:]+\S*", "DATE", text)
    return re.sub(r"/tmp/[\w./-]+", "PATH", text)


def _stored(name: str, store: Path) -> Cases:
    """The results of the trials in a store, and their keys."""
    with sqlite3.connect(store) as connection:
        rows = connection.execute("SELECT number, key, result FROM trials ORDER BY number")
        trials = rows.fetchall()
    yield f"{name}/stored results", [(number, result) for number, _, result in trials]
    yield f"{name}/keys", [key for _, key, _ in trials]


def texts(quick: bool) -> Cases:
    """Every help text, the sentences of docs/errors.md, and errors of wrong arguments."""
    for command in COMMANDS[:2] if quick else COMMANDS:
        yield f"help {command}", _help(command)
    documentation = Path(tr.__file__).parents[2] / "docs" / "errors.md"
    sentences = re.findall(r"^\| `([^`]+)` \|", documentation.read_text(), re.MULTILINE)
    yield "sentences of docs/errors.md", sorted(sentences)
    for name, call in wrong_calls().items():
        yield f"error/{name}", plain_text(_error_of(call))


def _help(command: str) -> str:
    environment = os.environ | {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    arguments = [sys.executable, "-m", "tautrank", *command.split(), "--help"]
    shown = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
    return plain_text(shown.stdout + shown.stderr)


def _error_of(call: Callable[[], Any]) -> str:
    try:
        return repr(call())
    except (tr.TautrankError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def wrong_calls() -> dict[str, Callable[[], Any]]:
    """Return calls with a wrong argument each."""
    train, valid, test = _data()
    X, y = np.arange(12.0).reshape(6, 2), [0, 1, 2, 0, 1, 0]
    group = [3, 3]
    fit = tr.Ranker(n_estimators=2).fit
    return {
        "unknown loss": lambda: tr.loss("lamdarank"),
        "unknown parameter of a loss": lambda: tr.loss("lambdarank(kk=3)"),
        "cutoff of 0": lambda: tr.loss("lambdarank", k=0),
        "unknown metric": lambda: tr.metric("ndgc@10"),
        "unknown ties": lambda: tr.metric("ndcg", ties="average"),
        "unknown engine": lambda: tr.Ranker(engine="lightgmb").fit(train),
        "negative label": lambda: fit(X, [0, -1, 0, 1, 0, 1], group=group),
        "too few labels": lambda: fit(X, [0, 1], group=group),
        "no queries": lambda: fit(X, y),
        "wrong group": lambda: fit(X, y, group=[3, 2]),
        "two queries": lambda: fit(X, y, qid=[1, 1, 1, 2, 2, 2], group=group),
        "infinite feature": lambda: fit(np.full((6, 2), np.inf), y, group=group),
        "text feature": lambda: fit(np.full((6, 2), "a"), y, group=group),
        "not fitted": lambda: tr.Ranker().predict(X),
        "width of X": lambda: fit(X, y, group=group).predict(X[:, :1]),
        "0 trees": lambda: tr.Ranker(n_estimators=0).fit(train),
        "unknown parameter": lambda: tr.Ranker(min_data_in_leave=5).fit(train),
        "propensities": lambda: fit(train, propensities=np.ones(train.n_documents)),
        "members without losses": lambda: tr.Ranker(loss=[]).fit(train),
        "scores and labels": lambda: tr.metric("ndcg").mean([1.0], [1, 0], [0, 2]),
        "offsets": lambda: tr.loss("mse").bind([1, 0], [0, 3]),
        "weights": lambda: tr.loss("mse").bind([1, 0], [0, 2], weights=[-1.0]),
        "one run": lambda: tr.compare_runs({"a": {}}, {"q": {"d": 1}}),
        "no losses": lambda: tr.compare(train, valid, test, losses=[]),
        "unknown pairs": lambda: tr.compare(train, valid, test, pairs="some"),
        "no trials": lambda: tr.tune(train, valid, n_trials=0),
        "unknown sampler": lambda: tr.tune(train, valid, sampler="grid"),
        "missing file": lambda: tr.read_letor("missing.txt"),
        "missing model": lambda: tr.Ranker.load("missing.taut"),
        "no model": lambda: tr.Ranker.load(b"something else"),
        "unknown format": lambda: tr.export_model(fit(train), "model", "pmml"),
        "unknown tool": lambda: tr.metric("ndcg", like="galago"),
        "few systems": lambda: tr.systems_test(np.zeros((1, 2, 3))),
    }
