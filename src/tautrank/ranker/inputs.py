"""Check what a ranker is given, and bring it into one form: data, weights, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import one_or_more, whole
from tautrank.arrays import F32, F64, check_weights, numbers
from tautrank.data import RankingData, StreamedRows
from tautrank.data.distributed import DistributedData
from tautrank.data.features import checked_features
from tautrank.data.queries import checked_queries
from tautrank.data.ranking_data import Names
from tautrank.engines import AnyLoss, Callback, members_of
from tautrank.errors import DataError, OptionError, counted, unknown
from tautrank.losses import SoftmaxLoss
from tautrank.metrics import Metric

# LightGBM, XGBoost and CatBoost take seeds of 31 bits.
_SEEDS = 2**31
# Values of an array that is checked without further ado.
_SMALL = 2**20
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# LETOR text leaves out features that are 0, the last ones too.
_PADDING = " (RankingData.with_n_features adds columns of zeros)"


@dataclass(frozen=True, eq=False, kw_only=True)
class FitArguments:
    """What a ranker is fitted to, whichever spelling it was given in.

    Args:
        train: the training data.
        eval_set: ``(X, y, qid)`` or `RankingData`, or a dictionary of them by name; None for none.
        weights: one per query or per row.
        propensities: one per row.
        init_model: a ranker, or anything that `Ranker.load` takes, to add trees to.
        callbacks: functions called after each tree.
        categorical_feature: columns of category codes; None for those of the ranker's parameter.
        extra_metrics: metrics to compute beside that of the ranker.
        settings: settings of this training that go before the ranker's parameters.
    """

    train: RankingData
    eval_set: Any = None
    weights: Any = None
    propensities: Any = None
    init_model: Any = None
    callbacks: tuple[Callback, ...] = ()
    categorical_feature: Any = None
    extra_metrics: tuple[Metric, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


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


def not_empty(data: RankingData) -> RankingData:
    """Return training data that has documents and features; refuse any other."""
    if data.n_documents == 0 or data.n_features == 0:
        raise DataError(
            f"X: found {data.n_documents} documents of {data.n_features} features; "
            "expected at least one of each"
        )
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
