"""Everything the library computes for fixed input, as one hash per case: what a rewriting must not
change.

    python -m bench.golden                  # all parts, one line `part/case hash` per case
    python -m bench.golden losses metrics   # these parts
    python -m bench.golden losses --quick   # some cases of each part, in seconds

Two versions are compared by running this with the source of each first on PYTHONPATH and comparing
the lines. So it uses public names, and for what has moved or has another word the new one first and
the old one after it. Version numbers, paths and times are left out of what is hashed.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tautrank as tr
from bench.golden_results import studies, texts
from tautrank.data import read_streamed, write_letor

Cases = Iterator[tuple[str, Any]]
"""Names of cases and what is hashed: arrays, bytes, text, numbers, or lists and dictionaries of
these."""

MORE_LOSSES = (
    "lambdarank(k=5)",
    "lambdarank(k=none)",
    "lambdarank(k=3,gain=linear,sigma=2)",
    "lambdarank(norm=lightgbm)",
    "lambdarank(noise=gumbel,strength=0.5)",
    "ndcg-loss1(k=none)",
    "ndcg-loss2(k=none)",
    "ndcg-loss2++(k=none,mu=10)",
    "ndcg-loss2++(assignment=soft,samples=4)",
    "ranknet(k=5)",
    "softrank(k=5)",
    "softrank(k=10,sigma=0.5)",
    "softrank(estimator=ccs,samples=4)",
    "softrank(scale=plain)",
    "listnet(target=softmax)",
    "listnet(hessian=exact)",
    "xendcg(gamma=tight)",
    "xendcg(gamma=0.5,hessian=diagonal)",
    "xendcg(hessian=exact)",
    "stochasticrank(metric=err@5,samples=3)",
    "stochasticrank(metric=mrr,sfa=false,mu=0.1)",
    "stochasticrank(metric=dcg-rr)",
    "stochasticrank(metric=ndcg,scale=plain)",
    "reinforce(metric=err@10)",
    "yetiloss(distribution=gumbel,samples=3)",
    "yetiloss(metric=mrr)",
    "plrank(metric=dcg@5,samples=3)",
    "approxndcg(temperature=0.1)",
    "neuralndcg(k=5,temperature=0.5)",
    "neuralndcg(k=none)",
)
"""Further parameters of losses that have their own paths through the compiled code."""

MORE_METRICS = ("ndcg(gain=linear)", "rbp(p=0.5,graded=true)", "precision(divide_by=reachable)")
CUTOFFS = (None, 1, 5, 30)
STEPS = (0, 3)
TRAINING = {"n_estimators": 8, "num_leaves": 7, "min_data_in_leaf": 5, "verbose": 0}


class Problem(NamedTuple):
    """Labelled lists and scores for them."""

    labels: Any
    offsets: Any
    scores: Any
    weights: Any


def problems() -> dict[str, Problem]:
    """Return five kinds of lists: usual ones, ties, a long one, queries without order, extremes."""
    rng = np.random.default_rng(20)

    def problem(sizes: Any, scores: Any = None, labels: Any = None, weights: Any = None) -> Problem:
        n_documents = int(np.sum(sizes))
        if labels is None:
            labels = rng.choice(5, n_documents, p=[0.5, 0.2, 0.15, 0.1, 0.05])
        if scores is None:
            scores = rng.normal(size=n_documents)
        return Problem(np.asarray(labels, float), np.append(0, np.cumsum(sizes)), scores, weights)

    usual_sizes = rng.integers(1, 90, 40)
    tied_sizes = rng.integers(2, 40, 30)
    tied_scores = np.round(rng.normal(size=tied_sizes.sum()))
    tied_scores[: tied_sizes[0]] = 0.0

    # Queries of one document, without a relevant one, with equal labels throughout, and usual ones.
    flat_sizes = np.array([1, 1, 7, 7, 12, 12, 3, 20])
    flat_labels = np.concatenate(
        [np.repeat([0, 2, 0, 3, 0, 1], [1, 1, 7, 7, 12, 12]), [0, 0, 1], rng.integers(0, 3, 20)]
    )

    extreme_sizes = np.full(20, 25)
    extreme_scores = rng.normal(size=500) * 10.0 ** rng.integers(-6, 7, 500)
    extreme_labels = rng.choice([0.0, 0.5, 1.0, 7.0, 12.25, 31.0], 500)
    return {
        "usual": problem(usual_sizes),
        "tied": problem(tied_sizes, tied_scores),
        "long": problem([3000, 2, 700]),
        "flat": problem(flat_sizes, labels=flat_labels),
        "extreme": problem(extreme_sizes, extreme_scores, extreme_labels, rng.uniform(0, 3, 20)),
    }


def losses(quick: bool) -> Cases:
    """Gradients, hessians and values of every loss, on each kind of list, for 1 and 2 threads."""
    names = [*tr.losses.REGISTRY, *MORE_LOSSES]
    for name in names[::5] if quick else names:
        loss = tr.loss(name)
        for kind, problem in problems().items():
            for dtype in (np.float32, np.float64):
                case = f"{name}/{kind}/{np.dtype(dtype).name}"
                yield case, _results_or_error(loss, problem, dtype)
    for name in ("listnet", "xendcg"):
        problem = problems()["usual"]
        propensities = 1 / (1.0 + np.arange(problem.labels.size) % 9)
        results = _results_of_loss(tr.loss(name), problem, np.float64, propensities=propensities)
        yield f"{name}/usual/propensities", results


def _results_or_error(loss: Any, problem: Problem, dtype: Any) -> Any:
    """Return the results, or the error of a loss that refuses the labels."""
    try:
        return _results_of_loss(loss, problem, dtype)
    except tr.TautrankError as error:
        return str(error)


def _results_of_loss(loss: Any, problem: Problem, dtype: Any, **bound_with: Any) -> Any:
    """Return gradients, hessians and values of two steps, of 1 and of 2 threads."""
    scores = problem.scores.astype(dtype)
    results = []
    for n_threads in (1, 2):
        objective = loss.bind(
            problem.labels,
            problem.offsets,
            problem.weights,
            seed=7,
            n_jobs=n_threads,
            **bound_with,
        )
        for step in STEPS:
            gradients, hessians = objective.gradients(scores, step=step)
            results += [gradients, hessians, objective.values(scores, step=step)]
    return results


def metrics(quick: bool) -> Cases:
    """Every metric with all policies for ties and empty queries, at several cutoffs."""
    names = [*tr.metrics.METRICS, *MORE_METRICS]
    for name in names[::4] if quick else names:
        for k in CUTOFFS:
            for kind, problem in problems().items():
                label = name if k is None else f"{name}@{k}"
                yield f"{label}/{kind}", _values_of_metric(label, problem)


def _values_of_metric(name: str, problem: Problem) -> list[Any]:
    values = []
    for ties in ("worst", "expected", "best", "input"):
        for empty in ("skip", "zero", "one"):
            values.append(_values_or_error(name, problem, ties=ties, empty=empty))
    return values


def _values_or_error(name: str, problem: Problem, **policies: str) -> Any:
    """Return the value of each query, or the error of a metric that refuses a cutoff or labels."""
    try:
        metric = tr.metric(name, **policies)
        return metric.per_query(problem.scores, problem.labels, problem.offsets)
    except tr.TautrankError as error:
        return str(error)


def scoring(quick: bool) -> Cases:
    """Packed trees and their scores: of models made here, and of files that 0.2.0 wrote."""
    forests = {
        "stumps": {"num_leaves": 2},
        "usual": {"num_leaves": 31},
        "chains": {"num_leaves": 60, "min_data_in_leaf": 1, "lambda_l1": 0.0, "max_bin": 1023},
        "many exits": {"num_leaves": 700, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0},
        "zero is missing": {"num_leaves": 20, "zero_as_missing": True},
        "categories": {"num_leaves": 40, "categorical_feature": [3, 4], "min_data_per_group": 5},
    }
    X, y = _features_and_target()
    rows = _rows_to_score(X)
    for name, parameters in forests.items():
        target = np.exp2(np.nan_to_num(X[:, 0]) * 6) if name == "chains" else y
        for tool, train in {"lightgbm": _lightgbm_file, "xgboost": _xgboost_file}.items():
            with tempfile.TemporaryDirectory() as folder:
                file = train(Path(folder), X, target, dict(parameters))
                if file is not None:
                    yield from _scores_of_file(f"{name}/{tool}", file, rows)
        if quick:
            return
    saved = Path(__file__).resolve().parents[1] / "tests" / "golden_0_2"
    # The model of a frame takes no arrays.
    for file in sorted(set(saved.glob("models/*")) - set(saved.glob("models/frame*"))):
        yield from _scores_of_file(f"saved/{file.name}", file, rows)


def _features_and_target() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 6)).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    X[:, 3] = rng.integers(0, 12, len(X))
    X[:, 4] = rng.integers(0, 300, len(X))
    y = np.sin(X[:, 0] * 3) + X[:, 1] * X[:, 2] + np.isin(X[:, 3], [2, 5, 7]) + X[:, 4] % 7
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def _rows_to_score(X: Any) -> Any:
    """Return rows of the data, and rows with missing and infinite values, zeros and odd codes."""
    rng = np.random.default_rng(4)
    odd_values = [0.0, -0.0, 1e-35, -1e-36, np.nan, 1e9, -1e9, 3.4e38, -1.0, 0.5, 16777216.0]
    odd = rng.choice(np.array(odd_values, np.float32), (500, X.shape[1]))
    return np.concatenate([X[:700], odd])


def _lightgbm_file(folder: Path, X: Any, y: Any, parameters: dict[str, Any]) -> Path:
    import lightgbm

    categories = parameters.pop("categorical_feature", "auto")
    fixed = {"objective": "regression", "verbosity": -1, "num_threads": 1, "seed": 1}
    data = lightgbm.Dataset(X, y, categorical_feature=categories, params={"max_bin": 255})
    parameters.pop("max_bin", None)
    booster = lightgbm.train({**fixed, **parameters}, data, 12)
    booster.save_model(folder / "model.txt")
    return folder / "model.txt"


def _xgboost_file(folder: Path, X: Any, y: Any, parameters: dict[str, Any]) -> Path | None:
    import xgboost

    if "zero_as_missing" in parameters:
        return None
    kinds = ["c" if i in parameters.get("categorical_feature", ()) else "q" for i in range(6)]
    data = xgboost.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
    fixed = {"nthread": 1, "seed": 1, "grow_policy": "lossguide", "max_depth": 0, "lambda": 0.1}
    booster = xgboost.train({**fixed, "max_leaves": parameters["num_leaves"]}, data, 12)
    booster.save_model(folder / "model.ubj")
    return folder / "model.ubj"


def _scores_of_file(name: str, file: Path, rows: Any) -> Cases:
    ranker = tr.Ranker.load(file)
    rows = rows[:, : ranker.n_features_in_]
    qid = {"qid": np.arange(len(rows)) // 10} if ranker.list_features_ else {}
    scores = [ranker.predict(rows, **qid)]
    scores += [ranker.predict(rows[i : i + 10], **_part(qid, i)) for i in range(0, 100, 10)]
    yield f"{name}/scores", scores
    scorer = getattr(ranker.model_, "scorer", None)
    yield f"{name}/packed", _packed_arrays(scorer)


def _part(qid: dict[str, Any], start: int) -> dict[str, Any]:
    return {name: values[start : start + 10] for name, values in qid.items()}


def _packed_arrays(scorer: Any) -> list[Any]:
    """Return the packed trees of a scorer: its only tuple of arrays, whatever it is called."""
    for value in vars(scorer).values() if scorer is not None else ():
        if isinstance(value, tuple):
            return [*value]
    return []


def training_data() -> tuple[tr.RankingData, tr.RankingData]:
    """Return 90 queries to train on and 30 to validate on."""
    data = tr.simulate.simulate_web_search(120, n_features=16, mean_length=12, seed=5)
    train, valid = data.split([0.75, 0.25], seed=0)
    return train, valid


def models(quick: bool) -> Cases:
    """Bytes and scores of models of each engine, for 1 and 2 threads, and of each way to train."""
    rankers = _ways_to_train()
    for name in list(rankers)[:4] if quick else rankers:
        train, valid = training_data()
        for n_threads in (1, 2):
            make = rankers[name]
            yield f"{name}/{n_threads} threads", _contents(make(n_threads), train, valid)
    if not quick:
        yield from _ways_to_read()


def _ranker(loss: Any = "lambdarank", **parameters: Any) -> Callable[[int], tr.Ranker]:
    return lambda n_threads: tr.Ranker(loss, **{**TRAINING, **parameters}, n_jobs=n_threads)


def _ways_to_train() -> dict[str, Callable[[int], tr.Ranker]]:
    langevin = tr.Langevin(temperature=1e4, shrink_rate=1e-3)
    small = {"n_estimators": 5}
    return {
        "lightgbm": _ranker(),
        "lightgbm sampled": _ranker("xendcg", bagging_by_query=True, bagging_fraction=0.5),
        "lightgbm own objective": _ranker("lightgbm:lambdarank"),
        "lightgbm categories": _ranker(categorical_feature=[0, 1]),
        "fast": _ranker(speed="fast"),
        "langevin": _ranker("xendcg", langevin=langevin),
        "stochasticrank": _ranker("stochasticrank"),
        "committee": _ranker("committee", **small),
        "committee of two, fitted": _ranker(["mse", "listnet"], members=2, **small),
        "cross-validated": _cross_validated,
        "list features": _ranker(list_features=True),
        "list features chosen": _ranker(list_features="auto"),
        "eval_train": _ranker("listnet", eval_train=True, early_stopping_rounds=2),
        "xgboost": _plain_ranker("lambdarank", engine="xgboost", num_leaves=7),
        "xgboost langevin": _plain_ranker("mse", engine="xgboost", langevin=langevin),
        "xgboost own objective": _plain_ranker("xgboost:rank:ndcg", engine="xgboost"),
        "catboost own objective": _plain_ranker("catboost:YetiRank", engine="catboost", depth=3),
        "torch": _plain_ranker("lambdarank", engine="torch", hidden=(8,), n_estimators=3),
    }


def _plain_ranker(loss: str, **parameters: Any) -> Callable[[int], tr.Ranker]:
    """Return what makes a ranker without LightGBM's parameters."""
    options = {"n_estimators": 6, "verbose": 0, **parameters}
    return lambda n_threads: tr.Ranker(loss, **options, n_jobs=n_threads)


def _cross_validated(n_threads: int) -> tr.Ranker:
    parameter = "cross_validate_trees"
    if parameter not in tr.Ranker().get_params():
        parameter = "refit"
    return tr.Ranker("lambdarank", **TRAINING, **{parameter: True}, n_jobs=n_threads)


def _contents(ranker: tr.Ranker, train: Any, valid: tr.RankingData) -> list[Any]:
    """Return the history, scores and bytes of a trained model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(train, valid)
    contents = [ranker.evals_result_, ranker.best_iteration_, ranker.n_trees_]
    contents.append(ranker.predict(valid))
    # CatBoost writes the time, and PyTorch a zip file.
    if not str(ranker.engine).startswith(("catboost", "torch")):
        contents.append(ranker.model_.to_bytes())
    return contents


def _ways_to_read() -> Cases:
    """Models of data that stays in files, and of data on two Dask workers."""
    train, valid = training_data()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.txt"
        write_letor(train, file)
        streamed = read_streamed(file)
        yield "streamed", _contents(tr.Ranker("xendcg", **TRAINING), streamed, valid)
        yield from _on_two_workers(train, valid, Path(folder))
        yield "continued", _continued(train, valid)


def _on_two_workers(train: tr.RankingData, valid: tr.RankingData, folder: Path) -> Cases:
    import pandas
    from distributed import Client, LocalCluster

    columns = [f"f{number}" for number in range(train.n_features)]
    frame = pandas.DataFrame(np.asarray(train.X), columns=columns)
    frame["label"] = train.labels
    frame["qid"] = np.repeat(np.arange(train.n_queries), np.diff(train.offsets))
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[rows].to_parquet(folder / f"part-{number}.parquet")
    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address=None,
        silence_logs=50,
    )
    options = {**TRAINING, "metric": "ndcg@5", "early_stopping_rounds": None}
    with cluster, Client(cluster, set_as_default=False) as client:
        for engine in ("lightgbm", "xgboost"):
            data = tr.read_distributed(f"{folder}/part-*.parquet", client=client)
            if engine == "xgboost":
                options.pop("min_data_in_leaf", None)
            yield (
                f"two workers/{engine}",
                _contents(tr.Ranker("xendcg", engine=engine, **options), data, valid),
            )


def _continued(train: tr.RankingData, valid: tr.RankingData) -> list[Any]:
    first = tr.Ranker("xendcg", **TRAINING).fit(train, valid)
    second = tr.Ranker("xendcg", **TRAINING).fit(train, valid, init_model=first)
    return [second.evals_result_, second.predict(valid), second.model_.to_bytes()]


def digest(value: Any) -> str:
    """Return a hash of arrays, bytes, text, numbers, or lists and dictionaries of these."""
    sha = hashlib.sha256()
    _update(sha, value)
    return sha.hexdigest()[:16]


def _update(sha: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        sha.update(f"{value.dtype}{value.shape}".encode())
        sha.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, bytes):
        sha.update(value)
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            _update(sha, str(key))
            _update(sha, value[key])
    elif isinstance(value, list | tuple):
        sha.update(f"{len(value)} items".encode())
        for item in value:
            _update(sha, item)
    else:
        sha.update(f"{value!r};".encode())


PARTS: dict[str, Callable[[bool], Cases]] = {
    "losses": losses,
    "metrics": metrics,
    "scoring": scoring,
    "models": models,
    "studies": studies,
    "texts": texts,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.golden", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="some cases of each part")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"found the part {sorted(unknown)[0]}; expected {', '.join(PARTS)}")
    for part in options.parts or PARTS:
        for case, value in PARTS[part](options.quick):
            print(f"{part}/{case.replace(' ', '_')} {digest(value)}", flush=True)


if __name__ == "__main__":
    main()
