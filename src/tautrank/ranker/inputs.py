"""Check what a ranker is given, and bring it into one form: data, weights, columns, the words of
LightGBM's users.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import one_or_more, whole
from tautrank.arrays import F32, F64, check_weights, numbers
from tautrank.data import RankingData, StreamedRows
from tautrank.data.arrays import checked_features, checked_queries
from tautrank.data.distributed import DistributedData
from tautrank.data.ranking_data import Names
from tautrank.engines import AnyLoss, NativeLoss, members_of, read_loss
from tautrank.engines.lightgbm import LightGBM, main_names
from tautrank.errors import DataError, OptionError, counted, refuse, unknown
from tautrank.losses import Loss, SoftmaxLoss
from tautrank.metrics import Metric, metric

# LightGBM, XGBoost and CatBoost take seeds of 31 bits.
_SEEDS = 2**31
# Values of an array that is checked without further ado.
_SMALL = 2**20
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# LETOR text leaves out features that are 0, the last ones too.
_PADDING = " (RankingData.with_n_features adds columns of zeros)"
# LightGBM's main names of parameters that have other names here, and those of its objectives that
# losses have too.
_OF_RANKERS = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "num_threads": "n_jobs",
    "seed": "random_state",
    "early_stopping_round": "early_stopping_rounds",
}
_OF_LOSSES = {
    "lambdarank_truncation_level": "k",
    "label_gain": "gain",
    "lambdarank_norm": "norm",
    "sigmoid": "sigma",
}
# Parameters of its scikit-learn estimator that mean nothing to a ranking.
_NO_MEANING = ("class_weight", "importance_type", "silent")
_DEFAULTS = {"n_estimators": 100, "learning_rate": 0.1, "early_stopping_rounds": None}
_ELSEWHERE = dict.fromkeys(
    ("init_score", "base_margin", "xgb_model"), "expected init_model=, a model to add trees to"
)
_ELSEWHERE["position"] = (
    "expected propensities=, the probability that a user looked at each document"
)
_ELSEWHERE |= dict.fromkeys(
    ("eval_sample_weight", "eval_class_weight", "eval_init_score"), "expected it left out"
)


def ranking_data(
    X: Any, y: Any, qid: Any = None, group: Any = None, names: Any = None
) -> RankingData:
    """Return documents, labels and queries as one `RankingData`.

    Args:
        X: features; or `RankingData`, which has all of it.
        y: labels, one per row.
        qid: the query of each row; or
        group: the number of rows of each query.
        names: names of the columns; a frame brings its own.
    """
    if isinstance(X, RankingData):
        if y is not None or qid is not None or group is not None:
            raise OptionError(
                "X: is RankingData, which has labels and queries; expected no y, qid or group with it"
            )
        return X
    if y is None:
        raise DataError("y: found none; expected one label per document")
    if qid is None and group is None:
        expected = "one of them, to say which documents belong together"
        routing = "sklearn.set_config(enable_metadata_routing=True), then fit(X, y, qid=qid)"
        hint = f"inside a pipeline or GridSearchCV: {routing}"
        raise DataError(f"qid, group: found neither; expected {expected} ({hint})")
    data = RankingData.from_arrays(X, y, qid, group=group, feature_names=names)
    if data.n_documents == 0:
        raise DataError("X: found no documents; expected at least one")
    return data


def documents(X: Any, qid: Any = None, group: Any = None) -> RankingData:
    """Return documents to be scored as `RankingData`, with labels of 0 where there are none.

    Rows of a query may be scattered: they are gathered, and `RankingData.source_rows` says where
    they were.

    Args:
        X: features; or `RankingData`, which says which documents belong together.
        qid: the query of each row; or
        group: the number of rows of each query; with neither, all rows are one query, 0.
    """
    if isinstance(X, RankingData):
        if qid is not None or group is not None:
            raise OptionError(
                "X: is RankingData, which has queries; expected no qid or group with it"
            )
        return X
    features, names, levels = checked_features(X)
    n = features.shape[0]
    queries = checked_queries(n, None, qid, group, of="X", where=None)
    return RankingData.of_queries(
        features, np.zeros(n, np.float32), queries, feature_names=names, categories=levels
    )


def plain_rows(X: Any, n_features: int) -> F32 | None:
    """Return a small array of features as it can be scored, if there is nothing to say about it;
    else None.

    The few microseconds that `documents` takes are most of the time of scoring one row.

    Args:
        X: features in any form.
        n_features: number of columns expected.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.shape[1] != n_features or X.size > _SMALL:
        return None
    if X.dtype == _SINGLE:
        return None if np.isinf(X).any() else np.ascontiguousarray(X)
    # Larger numbers are kept as they are, in float64.
    return (
        None
        if X.dtype != _DOUBLE or (np.abs(X) >= 2.0**24).any()
        else np.ascontiguousarray(X, np.float32)
    )


def validation_data(
    beside: RankingData | None,
    given: Any,
    group: Any,
    qid: Any,
    X: Any,
    y: Any,
    train: RankingData,
    names: Any = None,
) -> tuple[RankingData | None, tuple[tuple[str, int], ...]]:
    """Return all validation data, one set after the other, and the name and number of queries of
    each set.

    Args:
        beside: what was given beside the training data.
        given: `eval_set`: ``(X, y, qid)``, `RankingData`, or ``[(X, y)]`` beside `eval_group` or
            `eval_qid`; or a list of several of them.
        group, qid: `eval_group` and `eval_qid`; for several sets, a list of them.
        X, y: `eval_X` and `eval_y`, instead of `eval_set`; for several sets, tuples of them.
        train: the training data.
        names: `eval_names`; None for valid, valid_1, ...
    """
    ways = [way for way in (beside, given, _pairs(X, y)) if way is not None]
    if len(ways) > 1:
        raise OptionError(
            "eval_set, eval_X, eval_y: validation data is given twice; expected it once"
        )
    queries = {name: value for name, value in (("group", group), ("qid", qid)) if value is not None}
    if not ways and not queries:
        return None, ()
    if len(queries) == 2:
        raise OptionError("eval_group, eval_qid: found both; expected one of them")
    sets = ways[0] if ways else None
    if not (
        isinstance(sets, list)
        and len(sets) > 1
        and all(isinstance(each, tuple | RankingData) for each in sets)
    ):
        sets, queries = (
            [_only_one(sets)],
            {name: [_only_one(each)] for name, each in queries.items()},
        )
    for name, values in queries.items():
        if not isinstance(values, list | tuple) or len(values) != len(sets):
            raise DataError(
                f"eval_{name}: found something else; expected a list of {len(sets)}, one per eval_set"
            )
    of_sets = [{name: values[at] for name, values in queries.items()} for at in range(len(sets))]
    parts = [_one_set(each, of_set, train) for each, of_set in zip(sets, of_sets, strict=True)]
    called = ["valid", *(f"valid_{number}" for number in range(1, len(parts)))]
    called = called if names is None else [names] if isinstance(names, str) else [*map(str, names)]
    if len(called) != len(parts) or len({*called, "train"}) <= len(called):
        raise OptionError(
            f"eval_names: found {called}; expected {len(parts)} different names, none of them 'train'"
        )
    all_of_them = parts[0] if len(parts) == 1 else RankingData.concat(parts, repeated="separate")
    return all_of_them, tuple(zip(called, (part.n_queries for part in parts), strict=True))


def _one_set(valid: Any, queries: Mapping[str, Any], train: RankingData) -> RankingData:
    """Return one validation set, checked against the training data."""
    if queries or not isinstance(valid, RankingData):
        if not queries and isinstance(valid, (tuple, list)) and len(valid) == 2:
            raise DataError(
                "eval_group, eval_qid: found neither; expected one of them beside features and labels"
            )
        if not isinstance(valid, (tuple, list)) or len(valid) != 3 - len(queries):
            with_it = "".join(f" beside eval_{name}" for name in queries)
            forms = "(X, y, qid) or RankingData, or [(X, y)] beside eval_group or eval_qid"
            raise DataError(
                f"eval_set: found something else{with_it}; expected {'[(X, y)]' if queries else forms}"
            )
        try:
            valid = ranking_data(*valid, **queries)
        except DataError as error:
            raise DataError(f"eval_set: {error}") from None
    known = train.n_features, train.feature_names
    check_columns(
        "eval_set", valid.n_features, valid.feature_names, *known, "as in the training data"
    )
    return valid.with_levels(train.categories, "eval_set")


def _pairs(X: Any, y: Any) -> Any:
    """Return `eval_X` and `eval_y` as `eval_set`: as in LightGBM, tuples hold several data sets."""
    if X is None and y is None:
        return None
    for name, part in (("eval_X", X), ("eval_y", y)):
        if part is None:
            raise OptionError(f"{name}: found none; expected eval_X and eval_y together")
    if isinstance(X, tuple) != isinstance(y, tuple) or (isinstance(X, tuple) and len(X) != len(y)):
        raise OptionError(
            "eval_X, eval_y: found different numbers of data sets; expected one y for each X"
        )
    return [*zip(X, y, strict=True)] if isinstance(X, tuple) else (X, y)


def check_streams(
    train: RankingData, valid: RankingData | None, engine: str, **needing: Any
) -> None:
    """Refuse what needs features in memory, if they are in files.

    Args:
        train, valid: the data.
        engine: the engine to train with; "" if there is nothing to train.
        **needing: parameters that need features in memory unless they are false.
    """
    able = ("lightgbm", "xgboost") if isinstance(train, DistributedData) else ("lightgbm",)
    if not isinstance(train.X, StreamedRows):
        if valid is not None and isinstance(valid.X, StreamedRows):
            raise OptionError(
                "eval_set: its features are in files; expected data in memory, as the training data is"
            )
    elif set_ones := [name for name, value in needing.items() if value]:
        raise OptionError(
            f"{set_ones[0]}: needs features in memory, but those of X are in files; expected it unset"
        )
    elif engine not in ("", *able):
        expected = f"one loss trained by {' or '.join(able)}"
        raise OptionError(f"engine: {engine} needs features in memory; expected {expected}")


def _only_one(given: Any) -> Any:
    """Unwrap a list of one data set: LightGBM and XGBoost take lists of them."""
    return (
        given[0]
        if isinstance(given, list) and len(given) == 1 and not np.isscalar(given[0])
        else given
    )


def check_columns(
    where: str, n_features: int, names: Names, expected: int, known: Any, as_in: str
) -> None:
    """Refuse columns that differ from those expected in number or, where both have names, in their
    names.

    Args:
        where: the argument's name.
        n_features, names: the columns that were found.
        expected, known: the number and names of the columns that are expected.
        as_in: where those come from, for the sentence.

    >>> check_columns("X", 2, ("a", "b"), 2, ("a", "c"), "as in fit")
    Traceback (most recent call last):
    tautrank.errors.DataError: X: column 1 is 'b'; expected 'c', as in fit
    """
    if n_features != expected:
        hint = _PADDING if n_features < expected else ""
        raise DataError(
            f"{where}: found {counted(n_features, 'feature')}; expected {expected}, {as_in}{hint}"
        )
    pairs = zip(names, known, strict=True) if names is not None and known is not None else ()
    for column, (name, known_name) in enumerate(pairs):
        if name != known_name:
            raise DataError(
                f"{where}: column {column} is '{name}'; expected '{known_name}', {as_in}"
            )


def query_weights(weights: ArrayLike | None, data: RankingData, name: str) -> F64 | None:
    """Return one weight per query.

    Args:
        weights: one per query, or one per row that is the same within a query; None for none.
        data: the documents.
        name: the argument's name.
    """
    if weights is None:
        return None
    values = numbers(name, weights, "query")
    if values.size not in (data.n_queries, data.n_documents):
        expected = f"{data.n_queries}, one per query, or {data.n_documents}, one per document"
        raise DataError(f"{name}: found length {values.size}; expected {expected}")
    check_weights(values, values.size, name)
    if values.size == data.n_queries:
        return values
    values = np.asarray(data.in_document_order(values))
    by_query = values[data.offsets[:-1]]
    differs = values != np.repeat(by_query, data.sizes)
    if differs.any():
        qid = data.qid_of_document[np.argmax(differs)]
        expected = "one weight for all documents of a query"
        raise DataError(
            f"{name}: documents of query {qid} have different weights; expected {expected}"
        )
    return by_query


def document_propensities(
    propensities: ArrayLike | None, train: RankingData, loss: AnyLoss
) -> F64 | None:
    """Return one propensity per document, in the order of the documents.

    Args:
        propensities: one per row; None for none.
        train: the training data.
        loss: the loss, which must have a use for them.
    """
    if propensities is None:
        return None
    if not all(isinstance(each, SoftmaxLoss) for each in members_of(loss)):
        raise OptionError(
            f"propensities: the loss {loss} has no use for them; expected listnet or xendcg"
        )
    return np.asarray(
        train.in_document_order(numbers("propensities", propensities, size=train.n_documents))
    )


def category_columns(given: Any, train: RankingData) -> tuple[int, ...]:
    """Return the numbers of the columns that hold category codes: those given, and those of the
    data with levels.

    Args:
        given: `categorical_feature`: numbers or names of columns, one or several; None, "" or
            "auto" for none.
        train: the training data.
    """
    columns = (
        ()
        if given is None or (isinstance(given, str) and given in ("", "auto"))
        else one_or_more(given)
    )
    return column_positions("categorical_feature", [*columns, *train.categories], train)


def column_positions(name: str, given: Iterable[Any], train: RankingData) -> tuple[int, ...]:
    """Return the numbers of columns, each once.

    Args:
        name: the argument's name.
        given: numbers or names of columns; a number may be text if the data has no names.
        train: the training data.
    """
    names, positions = train.feature_names, []
    for column in given:
        if isinstance(column, str) and names is not None:
            if column not in names:
                raise unknown(f"column of {name}", column, names)
            positions.append(names.index(column))
        elif isinstance(column, str) and not column.isdecimal():
            found = f"the name '{column}', but the data has no names"
            raise OptionError(f"{name}: found {found}; expected numbers of columns")
        else:
            number = int(column) if isinstance(column, str) else column
            positions.append(whole(name, number, least=0, most=train.n_features - 1))
    return tuple(dict.fromkeys(positions))


def constraints(given: Any, train: RankingData) -> list[int]:
    """Return one constraint per column: 1 if scores must rise with it, -1 if they must fall, 0 if
    neither.

    Args:
        given: `monotone_constraints`, one per column, or by name or number of a column.
        train: the training data.
    """
    if not isinstance(given, Mapping):
        given = np.atleast_1d(given)
        if len(given) != train.n_features:
            raise OptionError(
                f"monotone_constraints: found {len(given)}; expected {train.n_features}, one per feature"
            )
        given = dict(enumerate(given))
    found = [0] * train.n_features
    for column, sign in given.items():
        (number,) = column_positions("monotone_constraints", [column], train)
        found[number] = whole("monotone_constraints", sign, least=-1, most=1)
    return found


def drawn_seed(random_state: Any) -> int:
    """Return the seed that `random_state` stands for.

    Args:
        random_state: a whole number, a NumPy ``RandomState`` or ``Generator`` to draw from, or None
            for a random one.

    >>> drawn_seed(7)
    7
    """
    random_state = np.random.default_rng() if random_state is None else random_state
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_SEEDS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_SEEDS))
    return whole("random_state", random_state, least=0) % _SEEDS


def translated(params: Mapping[str, Any], loss: Any = None) -> dict[str, Any]:
    """Return parameters of LightGBM as those of `Ranker`, with LightGBM's defaults; all problems
    are told at once.

    Args:
        params: parameters under any of LightGBM's names; None is a value that was not given.
        loss: a loss of this library to train instead of LightGBM's objective; it gets the
            objective's parameters.

    >>> found = translated({"objective": "lambdarank", "num_iterations": 50, "eval_at": [5, 10], "seed": 3})
    >>> found["loss"], str(found["metric"]), found["n_estimators"], found["random_state"]
    ('lightgbm:lambdarank', 'ndcg(ties=input,empty=one)@10', 50, 3)
    >>> translated({"lambdarank_truncation_level": 20, "etaa": 1, "task": "train"}, loss="ndcg-loss2++")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown parameter of lightgbm 'etaa'; did you mean 'eta'? (closest: ...). task: is for
    LightGBM's command line; expected a parameter of training
    """
    given = {
        main_names().get(name, name): value for name, value in params.items() if value is not None
    }
    objective, at, judge = (
        given.pop("objective", "lambdarank"),
        given.pop("eval_at", 5),
        given.pop("metric", "ndcg"),
    )
    trained: Any = read_loss(f"lightgbm:{objective}" if loss is None else loss)
    found: dict[str, Any] = {**_DEFAULTS, "verbose": 0 if given.pop("verbosity", 1) < 1 else None}
    first = (judge.split(",") if isinstance(judge, str) else [*judge])[0]
    name = "ndcg" if first.lower() in ("", "none", "lambdarank", "rank_xendcg") else first
    found["metric"] = metric(f"{name}@{at if isinstance(at, int) else max(at)}", like="lightgbm")
    extra = {}
    for name, value in given.items():
        if name in _OF_RANKERS:
            found[_OF_RANKERS[name]] = value
        elif (
            name in _OF_LOSSES and isinstance(trained, Loss) and hasattr(trained, _OF_LOSSES[name])
        ):
            changed: Any = ("lightgbm" if value else "none") if name == "lambdarank_norm" else value
            trained = dataclasses.replace(trained, **{_OF_LOSSES[name]: changed})
        elif name not in _NO_MEANING:
            extra[name] = value
    checked = {name: value for name, value in extra.items() if name != "categorical_feature"}
    refuse(LightGBM().wrong_names(trained, checked))
    found["early_stopping_rounds"] = (
        max(0, found["early_stopping_rounds"] or 0) or None
    )  # 0 is off in LightGBM
    return {**found, **extra, "loss": str(trained) if isinstance(trained, NativeLoss) else trained}


def judging(given: Any, at: Any, first: Metric) -> tuple[Metric, ...]:
    """Return further metrics that judge a training.

    Args:
        given: `eval_metric`: names or metrics, one or several; None for none.
        at: `eval_at`: cutoffs of the metrics that have none; by default of NDCG.
        first: the metric that decides, which is not repeated.

    >>> judging(["ndcg", "map"], [1, 3], metric("ndcg@3"))
    (metric('ndcg@1'), metric('map@1'), metric('map@3'))
    """
    found = [
        metric(name) for name in one_or_more(given or ()) or (["ndcg"] if at is not None else [])
    ]
    each = [
        m if m.k is not None else dataclasses.replace(m, k=k)
        for m in found
        for k in one_or_more(at)
    ]
    return tuple(m for m in dict.fromkeys(each) if m != first)


def from_callbacks(
    callbacks: Iterable[Any],
) -> tuple[tuple[Any, ...], dict[str, Any], list[dict[str, Any]]]:
    """Return the callbacks of this library, the settings that LightGBM's stand for, and
    dictionaries to record in.

    Args:
        callbacks: both kinds.

    >>> import lightgbm
    >>> from_callbacks([lightgbm.early_stopping(10, verbose=False), lightgbm.log_evaluation(0)])
    ((), {'early_stopping_rounds': 10, 'verbose': 0}, [])
    """
    theirs = [each for each in callbacks if type(each).__module__ == "lightgbm.callback"]
    settings: dict[str, Any] = {}
    for callback in theirs:
        if hasattr(callback, "stopping_rounds") and not callback.min_delta:
            settings["early_stopping_rounds"] = callback.stopping_rounds
        elif hasattr(callback, "period"):
            settings["verbose"] = int(callback.period > 0)
        elif {*getattr(callback, "kwargs", ())} == {"learning_rate"}:
            settings["rates"] = callback.kwargs["learning_rate"]
        elif not hasattr(callback, "eval_result"):
            found = f"{type(callback).__name__.strip('_')} of lightgbm.callback with options that have no counterpart"
            known = "early_stopping without min_delta, reset_parameter of the learning_rate, log_evaluation"
            expected = f"{known}, record_evaluation, or functions of one argument, a Step"
            raise OptionError(f"callbacks: found {found}; expected {expected}")
    records = [each.eval_result for each in theirs if hasattr(each, "eval_result")]
    return tuple(each for each in callbacks if each not in theirs), settings, records


def refuse_arguments(others: Mapping[str, Any], own: Iterable[str]) -> None:
    """Refuse arguments of LightGBM's and XGBoost's `fit` in a sentence that says where they went.

    Args:
        others: arguments that `fit` does not have.
        own: names of the parameters of a ranker.
    """
    for name, value in others.items():
        if name in own:
            raise OptionError(
                f"{name}: is a parameter of the ranker; expected Ranker({name}={value!r})"
            )
        if name not in _ELSEWHERE:
            raise TypeError(f"fit() got an unexpected keyword argument '{name}'")
        raise OptionError(f"{name}: has no counterpart here; {_ELSEWHERE[name]}")
