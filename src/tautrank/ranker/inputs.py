"""Check what a ranker is given, and bring it into one form: data, weights, seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import whole
from tautrank.arrays import F32, F64, check_weights, numbers
from tautrank.data import RankingData, StreamedRows
from tautrank.data.distributed import DistributedData
from tautrank.data.features import checked_features
from tautrank.data.queries import checked_queries
from tautrank.engines import AnyLoss, Callback, members_of
from tautrank.errors import DataError, OptionError
from tautrank.losses import SoftmaxLoss
from tautrank.metrics import Metric

# LightGBM, XGBoost and CatBoost take seeds of 31 bits.
_SEEDS = 2**31
# Values of an array that is checked without further ado.
_SMALL = 2**20
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


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
    """Return documents, labels and queries as one `RankingData`; raise an error if labels or queries
    are missing, or are given beside data that has them.

    Args:
        X: features, a row per document; or `RankingData`, which has all of it.
        y: labels, one per row.
        qid: the query of each row; or
        group: the number of rows of each query.
        names: names of the columns; a frame brings its own.
    """
    if isinstance(X, RankingData):
        if y is not None or qid is not None or group is not None:
            raise OptionError(
                "X: is RankingData, which has labels and queries; "
                "expected no y, qid or group with it"
            )
        return X
    if y is None:
        raise DataError("y: found none; expected one label per document")
    if qid is None and group is None:
        raise DataError(
            "qid, group: found neither; expected one of them, to say which documents belong "
            "together (inside a pipeline or GridSearchCV: "
            "sklearn.set_config(enable_metadata_routing=True), then fit(X, y, qid=qid))"
        )
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
    # The levels are the categories of each categorical column.
    features, names, levels = checked_features(X)
    n_documents = features.shape[0]
    queries = checked_queries(n_documents, None, qid, group, of="X", where=None)
    labels = np.zeros(n_documents, np.float32)
    return RankingData.of_queries(features, labels, queries, feature_names=names, categories=levels)


def plain_rows(X: Any, n_features: int) -> F32 | None:
    """Return a small array of features as float32, if it can be scored without further checks; else
    None.

    The few microseconds that `documents` takes are most of the time of scoring one row.

    Args:
        X: features in any form.
        n_features: number of columns expected.
    """
    if type(X) is not np.ndarray or X.ndim != 2:
        return None
    if X.shape[1] != n_features or X.size > _SMALL:
        return None
    if X.dtype == _SINGLE:
        # Infinite values are left to the full checks.
        return None if np.isinf(X).any() else np.ascontiguousarray(X)
    if X.dtype == _DOUBLE:
        # Float32 holds whole numbers up to 2^24; larger ones are kept in float64, by `documents`.
        is_large = np.abs(X) >= 2.0**24
        return None if is_large.any() else np.ascontiguousarray(X, np.float32)
    return None


def check_streams(
    train: RankingData, valid: RankingData | None, engine: str, **needs_memory: Any
) -> None:
    """Raise an error if features are in files (streamed) and something needs them in memory: the
    engine, a parameter, or training data that is in memory itself.

    Args:
        train: the training data, or the data to be scored.
        valid: the validation data.
        engine: the engine to train with; "" if there is nothing to train.
        **needs_memory: parameters that need features in memory unless they are false.
    """
    if not isinstance(train.X, StreamedRows):
        if valid is not None and isinstance(valid.X, StreamedRows):
            raise OptionError(
                "eval_set: its features are in files; "
                "expected data in memory, as the training data is"
            )
        return
    for name, value in needs_memory.items():
        if value:
            raise OptionError(
                f"{name}: needs features in memory, but those of X are in files; expected it unset"
            )
    # The engines that train from files; only distributed data can go to XGBoost.
    able = ("lightgbm", "xgboost") if isinstance(train, DistributedData) else ("lightgbm",)
    if engine and engine not in able:
        raise OptionError(
            f"engine: {engine} needs features in memory; "
            f"expected one loss trained by {' or '.join(able)}"
        )


def query_weights(weights: ArrayLike | None, data: RankingData, name: str) -> F64 | None:
    """Return one weight per query from weights per query or per document; None if there are none.

    Args:
        weights: one per query, or one per row that is the same within a query; None for none.
        data: the documents.
        name: the argument's name.
    """
    if weights is None:
        return None
    values = numbers(name, weights, "query")
    if values.size not in (data.n_queries, data.n_documents):
        raise DataError(
            f"{name}: found length {values.size}; expected {data.n_queries}, one per query, "
            f"or {data.n_documents}, one per document"
        )
    check_weights(values, values.size, name)
    if values.size == data.n_queries:
        return values
    # Rows of a query may have been scattered: the weights are sorted as the documents were.
    weights_of_documents = np.asarray(data.in_document_order(values))
    return _weights_of_queries(weights_of_documents, data, name)


def _weights_of_queries(values: F64, data: RankingData, name: str) -> F64:
    """Return the weight of each query from the weights of its documents; raise an error if these
    differ within a query.

    Args:
        values: one weight per document.
        data: the documents, query after query.
        name: the argument's name, for the error.
    """
    # The weight of the first document of each query; the last offset is the end of the data.
    weights = values[data.offsets[:-1]]
    is_different = values != np.repeat(weights, data.sizes)
    if is_different.any():
        # `argmax` of booleans is the first that is true.
        qid = data.qid_of_document[np.argmax(is_different)]
        raise DataError(
            f"{name}: documents of query {qid} have different weights; "
            "expected one weight for all documents of a query"
        )
    return weights


def document_propensities(
    propensities: ArrayLike | None, train: RankingData, loss: AnyLoss
) -> F64 | None:
    """Return one propensity per document (the probability that a user looked at it), in the order of
    the documents; raise an error if the loss does not use propensities.

    Args:
        propensities: one per row; None for none.
        train: the training data.
        loss: the loss, which must have a use for them.
    """
    if propensities is None:
        return None
    # A committee has a loss for each member; any other loss is its own only member.
    if not all(isinstance(member, SoftmaxLoss) for member in members_of(loss)):
        raise OptionError(
            f"propensities: the loss {loss} has no use for them; expected listnet or xendcg"
        )
    values = numbers("propensities", propensities, size=train.n_documents)
    return np.asarray(train.in_document_order(values))


def drawn_seed(random_state: Any) -> int:
    """Return the seed, a whole number below 2^31, that the parameter `random_state` stands for.

    Args:
        random_state: a whole number, a NumPy ``RandomState`` or ``Generator`` to draw from, or None
            for a random one.

    >>> drawn_seed(7)
    7
    """
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_SEEDS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_SEEDS))
    return whole("random_state", random_state, least=0) % _SEEDS
