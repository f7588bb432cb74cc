"""Every sentence that docs/errors.md explains is what the library says when that mistake is
made.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tautrank as tr
from tautrank.commands.main import main
from tautrank.data import read_csv
from tautrank.experiments.store import run_lock

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
QUOTED = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)

# What `train.txt` holds where reading it says this.
FILES: dict[str, bytes] = {
    "train.txt:2: found label '-1'; expected a finite number of at least 0": b"1 qid:1 1:2\n-1 qid:1 1:2\n",
    "train.txt:1: found label 'label,qid,f1'; expected a finite number of at least 0": b"label,qid,f1\n1,1,0.5\n",
    "train.txt:2: the line starts with 'qid:1'; expected a label first": b"1 qid:1 1:2\nqid:1 1:3\n",
    "train.txt:2: found no 'qid:' after the label; expected one, as on the lines before": b"1 qid:1 1:2\n0 1:3\n",
    "train.txt:1: no 'qid:' in the file and no train.txt.query next to it; expected one or the other": b"1 1:2\n0 1:3\n",
    "train.txt:1: found feature index 0; expected indices from 1 on (zero_based=True if the file counts from 0)": b"1 qid:1 0:2\n",
    "train.txt:1: feature index 2 is out of order; expected ascending indices, each once": b"1 qid:1 3:2 2:1\n",
    "train.txt:1: feature index 3 is repeated; expected ascending indices, each once": b"1 qid:1 3:2 3:1\n",
    "train.txt:1: found feature index 999999999; expected at most 1000000 (max_features=1000000)": b"1 qid:1 1:1 999999999:1\n",
    "train.txt:1: feature 2 has the value 'nan'; expected a finite number; allow_nan=True (--allow-nan) reads it as a missing value": b"1 qid:1 1:2 2:nan\n",
    "train.txt:1: feature 1 has the value '1e39', too large for float32; expected at most 3.4e38": b"1 qid:1 1:1e39\n",
    "train.txt:1: feature 1 has the value '0,5'; expected a number": b"1 qid:1 1:0,5\n",
    "train.txt: found an empty file; expected lines such as '2 qid:1 1:0.5'": b"",
    "train.txt: the gzip data ends too early; expected a complete file (is it truncated?)": gzip.compress(b"1 qid:1 1:1\n" * 1000)[:-12],
    "train.txt: is a zip archive; expected text (unpack it first)": b"PK\x03\x04....",
    "train.txt: is a Parquet file; expected LETOR text (tautrank.data.read_parquet reads it)": b"PAR1....",
}  # fmt: skip

Y, QID = np.tile([0, 1, 2], 40), np.repeat(np.arange(40), 3)
X = np.stack([Y, np.arange(120.0)], axis=1)
DATA = tr.RankingData.from_arrays(X, Y, QID)
SPACE = {"num_leaves": ("int", 2, 9)}


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def beside(text: str, sizes: str) -> tr.RankingData:
    write("train.txt.query", sizes)
    return tr.read_letor(write("train.txt", text))


def table(name: str, text: str) -> tr.RankingData:
    return read_csv(write(name, text), label="label", qid="query")


def fit(**parameters: object) -> tr.Ranker:
    return tr.Ranker(**{"n_estimators": 2, "n_jobs": 1, **parameters}).fit(DATA)


def fitted_on_names() -> tr.Ranker:
    return tr.Ranker(n_estimators=2).fit(pd.DataFrame(X, columns=["bm25", "clicks"]), Y, QID)


def tune(**options: object) -> object:
    given = {"space": SPACE, "n_trials": 1, "n_estimators": 2, "n_jobs": 1, "seed": 3, **options}
    return tr.tune(DATA, DATA, **given)


def tuned_with_another_seed() -> object:
    tune(store="tune.db")
    return tune(store="tune.db", seed=4)


def judged(
    scores: str, data: str, name: str = "scores.txt", of: str = "test.txt", metric: str = "ndcg"
) -> None:
    typed("evaluate", "--scores", str(write(name, scores)), str(write(of, data)), "-m", metric)


def compared(*runs: str) -> None:
    files = [
        str(write(name, run)) for name, run in zip(("bm25.trec", "dense.trec"), runs, strict=True)
    ]
    typed("compare-runs", *files, "--qrels", str(write("qrels.txt", "q 0 d 1\nr 0 d 1\n")))


def without(module: str, call: Callable[[], object]) -> object:
    """Make the call where a package is not installed."""
    kept = {
        name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == module
    }
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        return call()
    finally:
        del sys.modules[module]
        sys.modules.update(kept)


def damaged(change: Callable[[bytes], bytes]) -> tr.Ranker:
    fit().save("model.taut")
    content = Path("model.taut").read_bytes()
    Path("model.taut").write_bytes(change(content))
    return tr.Ranker.load("model.taut")


def newer() -> tr.Ranker:
    import json
    import zipfile

    fit().save("old.taut")
    with zipfile.ZipFile("old.taut") as old, zipfile.ZipFile("model.taut", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "meta.json":
                content = json.dumps(
                    json.loads(content) | {"format_version": 9, "tautrank_version": "9.0"}
                ).encode()
            new.writestr(name, content)
    return tr.Ranker.load("model.taut")


class Said(Exception):
    """What the command line printed before it exited with 2."""


def typed(*words: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    if stopped.value.code == 2:
        raise Said


STUDY = ("study", "run", "xe-table1", "--repeats", "1", "--trees", "1", "--workers", "1", "--data")


def study_on_other_data() -> None:
    typed(*STUDY, "simulated:mslr:9,mean_length=5")
    typed(*STUDY, "simulated:mslr:9,mean_length=6")


def study_twice() -> None:
    typed(*STUDY, "simulated:mslr:9,mean_length=5")
    with run_lock(Path("xe-table1.db")):
        typed("study", "resume", "xe-table1.db", "--workers", "1")


# What is done where something else says this; "..." stands for the rest of the sentence.
CALLS: dict[str, Callable[[], object]] = {
    "train.txt.query: the group sizes add up to 3, but train.txt has 2 documents; expected the same number": lambda: beside("1 1:1\n0 1:2\n", "1\n2\n"),
    "train.txt.query: the group sizes disagree with the 'qid:' of train.txt; expected them to agree (delete the one out of date)": lambda: beside("1 qid:1 1:1\n0 qid:1 1:2\n", "1\n1\n"),
    "MSLR: found no known data set; expected Fold1/, set1.train.txt, S1.txt to S5.txt, part1.txt to part5.txt or train.txt in it": lambda: tr.data.read_folder(write("MSLR/notes", "").parent),
    "train.csv: label: unknown column 'label'; did you mean 'labels'? (known: labels, query)": lambda: table("train.csv", "labels,query\n1,1\n"),
    "train.csv: column 'title' has the type string; expected numbers": lambda: read_csv(write("train.csv", "label,query,title\n1,1,x\n"), qid="query", features=["title"]),
    "train.csv: column 'label' has 3 empty cells; expected a label in every row": lambda: table("train.csv", "label,query,f\n" + ",1,1\n" * 3 + "1,1,1\n"),
    "qid, group: found neither; expected one of them, to say which documents belong together...": lambda: tr.Ranker().fit(X, Y),
    "y: found 2 labels, but X has 3 rows; expected one label per row": lambda: tr.RankingData.from_arrays(X[:3], [0, 1], group=[3]),
    "y[1]: found -1; expected a finite number of at least 0": lambda: tr.RankingData.from_arrays(X[:3], [0, -1, 0], group=[3]),
    "group: the sizes sum to 2, but X has 3 rows; expected the same number": lambda: tr.RankingData.from_arrays(X[:3], [0, 1, 2], group=[1, 1]),
    "X: found values of type <U1; expected numbers": lambda: tr.RankingData.from_arrays([["a"]], [0], group=[1]),
    "X: row 0, column 1 has the value inf; expected a finite number or NaN for missing": lambda: tr.RankingData.from_arrays([[0.0, np.inf]], [0], group=[1]),
    "X: found 1 feature; expected 2, as in fit (RankingData.with_n_features adds columns of zeros)": lambda: fit().predict(X[:, :1]),
    "X: column 0 is 'clicks'; expected 'bm25', as in fit": lambda: fitted_on_names().predict(pd.DataFrame(X, columns=["clicks", "bm25"])),
    "predict: this Ranker is not fitted; expected a call of fit before": lambda: tr.Ranker().predict(X),
    "qid: rows of 1 query are scattered (the first is qid a); gathered, in the order they appear": lambda: tr.RankingData.from_arrays(X[:3], [0, 1, 2], qid=["a", "b", "a"]),
    "unknown loss 'lamdarank'; did you mean 'lambdarank'? (known: ...)": lambda: fit(loss="lamdarank"),
    "unknown metric 'ndgc'; did you mean 'ndcg'? (known: ...)": lambda: tr.metric("ndgc"),
    "ties: found best together with like='trec_eval', which means ties=input; expected one of the two": lambda: tr.metric("map", like="trec_eval", ties="best"),
    "unknown parameter of lightgbm 'min_data_in_leave'; did you mean 'min_data_in_leaf'? (closest: ...)": lambda: fit(min_data_in_leave=5),
    "objective: is called loss here; expected that name": lambda: fit(objective="lambdarank"),
    "min_child_samples: given twice, under two of LightGBM's names for min_data_in_leaf; expected it once": lambda: fit(min_data_in_leaf=5, min_child_samples=6),
    "k: found 0; expected a whole number of at least 1, or None for the full list": lambda: tr.metric("ndcg@0"),
    "labels[0]: found 7; expected at most err's max_label = 4, the highest label of the scale": lambda: tr.metric("err").mean([1.0], [7], [0, 1]),
    "--param: found 'x'; expected name=value, such as min_data_in_leaf=50": lambda: typed("train", str(write("train.txt", "1 qid:1 1:1\n")), "--model", "m", "--param", "x"),
    "langevin: shrink_rate=10 times learning_rate=0.1 is 1; expected less than 1": lambda: fit(langevin=tr.Langevin(shrink_rate=10.0), learning_rate=0.1),
    "langevin: the gradients of lightgbm:lambdarank are out of reach; expected a loss of this library, or one of CatBoost's, which has Langevin boosting of its own": lambda: fit(loss="lightgbm:lambdarank", langevin=tr.Langevin()),
    "lambda_l1: found 0.1 with langevin, whose leaves are sums of gradients over sums of hessians; expected it unset, or no langevin": lambda: fit(langevin=tr.Langevin(), lambda_l1=0.1),
    "early_stopping_rounds: dart rescales the trees it has, so that the best cannot be kept; expected None, or another boosting": lambda: tr.Ranker(boosting="dart", early_stopping_rounds=5).fit(DATA, DATA),
    "loss lambdarank: no tree could be split, so every document gets the same score; expected queries with different labels, features that vary, and more documents than a leaf must hold (min_data_in_leaf)": lambda: tr.Ranker(n_estimators=1).fit(X[:6], Y[:6], QID[:6]),
    "propensities: the loss lambdarank has no use for them; expected listnet or xendcg": lambda: tr.Ranker().fit(X, Y, QID, propensities=np.ones(120)),
    "propensities[3] (query 1, document 0): found 0; expected a number above 0 and at most 1": lambda: tr.Ranker("listnet").fit(X, Y, QID, propensities=np.arange(120) != 3),
    "bagging_by_query: goss samples documents by their gradients; expected one of the two": lambda: fit(boosting="goss", bagging_by_query=True),
    "cross_validate_trees: found init_model, which may have seen every query; expected one of the two": lambda: tr.Ranker(cross_validate_trees=True).fit(DATA, init_model=fit()),
    "loss: found an empty list; expected at least one loss": lambda: fit(loss=[]),
    "weights: found 40 validation queries; expected at least 500 to fit weights to, or weights=equal": lambda: tr.Ranker("committee(weights=fitted)").fit(DATA, DATA),
    "list_features: found 'auto' without validation data; expected an eval_set to choose by": lambda: fit(list_features="auto"),
    "format: found 'solr' for a model with list features, but solr scores documents one by one; expected onnx, or a model trained without list_features": lambda: tr.export_model(fit(list_features=True), "m", "solr"),
    "scores.txt: found 2 scores, but test.txt has 3 documents; expected one per document": lambda: judged("1\n2\n", "1 qid:1 1:1\n" * 3),
    "scores.txt:2: found 'nan'; expected one finite score per line": lambda: judged("1\nnan\n", "1 qid:1 1:1\n" * 2),
    "qrels.txt: is qrels, but scores.txt holds scores, one per line; expected ranking data with labels": lambda: judged("1\n", "q 0 d 1\n", of="qrels.txt"),
    "run.trec:2: document 'd' of query 'q' is repeated; expected it once": lambda: judged("q Q0 d 1 2.0 t\nq Q0 d 2 1.0 t\n", "q 0 d 1\n", name="run.trec"),
    "run.trec: shares no query with the judgments; expected the same ids (found '7' and 'q' first)": lambda: judged("7 Q0 d 1 2.0 t\n", "q 0 d 1\n", name="run.trec"),
    "runs: found 1; expected at least two systems to compare": lambda: typed("compare-runs", "bm25.trec", "--qrels", "qrels.txt"),
    "dense.trec: answers no judged query that bm25.trec answers; expected the same queries": lambda: compared("q Q0 d 1 1 t\n", "r Q0 d 1 1 t\n"),
    "--scores, --model: found both; expected one of them": lambda: typed("evaluate", "test.txt", "--scores", "s", "--model", "m"),
    "lgb.txt: LightGBM cannot read the model; expected a whole file as lightgbm saves it": lambda: tr.Ranker.load(write("lgb.txt", "tree\nversion=v4\n")),
    "qid: found 99; expected one of 3 queries, such as 1": lambda: fit().explain(tr.RankingData.from_arrays([[0.0], [1.0], [2.0]], [0, 1, 0], qid=[1, 2, 3]), qid=99),
    "model.taut: is cut off or damaged at its end; expected a whole model file": lambda: damaged(lambda content: content[:-30]),
    "model.taut: has the format version 9, written by tautrank 9.0; expected at most 4 (pip install --upgrade tautrank)": newer,
    "no/model.taut: cannot be written (No such file or directory)": lambda: fit().save("no/model.taut"),
    "reading CSV needs PyArrow or pandas; install it with: pip install 'tautrank[parquet]'": lambda: without("pyarrow", lambda: without("pandas", lambda: table("train.csv", "label,query,f\n1,1,1\n"))),
    "engine 'xgboost' needs XGBoost; install it with: pip install 'tautrank[xgboost]'": lambda: without("xgboost", lambda: fit(loss="xgboost:rank:ndcg")),
    "figures in a page need Plotly; install it with: pip install 'tautrank[report]'": lambda: without("plotly", lambda: tr.compare(DATA, DATA, DATA, losses=["mse"], repeats=1, n_estimators=1).to_html(figures=True)),
    "tune needs Optuna; install it with: pip install 'tautrank[tune]'": lambda: without("optuna", tune),
    "running trials on a cluster needs Dask; install it with: pip install 'tautrank[distributed]'": lambda: without("distributed", lambda: typed(*STUDY, "simulated:mslr:9,mean_length=5", "--dask", "local")),
    "--test: found none; expected test data (only a folder brings its own)": lambda: typed("compare", str(write("train.txt", "1 qid:1 1:1\n"))),
    "--test, --valid: found with the folder MSLR-WEB10K; expected a folder's own parts": lambda: typed("compare", str(write("MSLR-WEB10K/train.txt", "").parent), "--test", "test.txt"),
    "tune.db: holds another search, with seed 3; found 4, expected the same, or another file": tuned_with_another_seed,
    "space: found no trial that can be trained, trial 0 failed: langevin: shrink_rate=20 times learning_rate=0.1 is 2; expected less than 1": lambda: tune(space={"langevin.shrink_rate": ("choice", 20.0)}, learning_rate=0.1),
    "num_leaves: found a range from 9 to 2; expected the lower end first": lambda: tune(space={"num_leaves": ("int", 9, 2)}),
    "store: found the address 'sqlite:///tune.db'; expected a file, such as tune.db": lambda: tune(store="sqlite:///tune.db"),
    "xe-table1.db: holds trials on other data; expected a store of this run (another --store, or 'tautrank study resume' to go on with that one)": study_on_other_data,
    "xe-table1.db: found another run of it (process ...); expected one at a time...": study_twice,
    "nothing.db: found no such file; expected a store of trials": lambda: typed("study", "resume", "nothing.db"),
    "--data: found no file or folder 'nowhere'; expected ...": lambda: typed(*STUDY, "nowhere"),
}  # fmt: skip


def test_every_sentence_of_the_page_is_produced_here_and_no_other():
    assert len(set(QUOTED)) == len(QUOTED)
    assert {*FILES, *CALLS} == set(QUOTED)


@pytest.mark.parametrize("sentence", [*FILES, *CALLS])
def test_it_is_what_the_mistake_says(sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if sentence in FILES:
        Path("train.txt").write_bytes(FILES[sentence])
    call = CALLS.get(sentence, lambda: tr.read_letor("train.txt"))
    with pytest.raises((tr.TautrankError, tr.TautrankWarning, Said)) as caught:
        call()
    said = str(caught.value)
    if isinstance(caught.value, Said):
        said = capsys.readouterr().err.splitlines()[-1].removeprefix("error: ")
    expected = (
        re.escape(sentence)
        .replace(re.escape("xgboost:..."), "xgboost:[.]{3}")
        .replace(re.escape("..."), ".*")
    )
    assert re.fullmatch(expected, said), said
