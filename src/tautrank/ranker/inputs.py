"""Check what `fit`, `predict`, `score` and `rank` are given, and bring it into one form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import whole
from tautrank.arrays import F32, F64, check_weights, numbers, place
from tautrank.data import RankingData, StreamedRows
from tautrank.data.arrays import checked_features, checked_queries
from tautrank.data.columns import with_levels
from tautrank.data.distributed import DistributedData
from tautrank.engines import AnyLoss, members_of
from tautrank.errors import DataError, OptionError, counted, unknown
from tautrank.losses import SoftmaxLoss

Names: TypeAlias = tuple[str, ...] | None

# LightGBM, XGBoost and CatBoost take seeds of 31 bits.
_SEEDS = 2**31
# Values of an array that is checked without further ado.
_SMALL = 2**20
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# LETOR text leaves out features that are 0, the last ones too.
_PADDING = " (RankingData.with_n_features adds columns of zeros)"


def ranking_data(X: Any, y: Any, qid: Any = None, group: Any = None, names: Any = None) -> RankingData:
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
            raise OptionError("X: is RankingData, which has labels and queries; expected no y, qid or group with it")
        return X
    if y is None:
        raise DataError("y: found none; expected one label per document")
    if qid is None and group is None:
        raise DataError(
            "qid, group: found neither; expected one of them, to say which documents belong together (inside a "
            "pipeline or GridSearchCV: sklearn.set_config(enable_metadata_routing=True), then fit(X, y, qid=qid))"
        )
    data = RankingData.from_arrays(X, y, qid, group=group, feature_names=names)
    if data.n_documents == 0:
        raise DataError("X: found no documents; expected at least one")
    return data


def documents(X: Any, qid: Any = None, group: Any = None) -> RankingData:
    """Return documents to be scored as `RankingData`, with labels of 0 where there are none.

    Rows of a query may be scattered: they are gathered, and `RankingData.source_rows` says where they were.

    Args:
        X: features; or `RankingData`, which says which documents belong together.
        qid: the query of each row; or
        group: the number of rows of each query; with neither, all rows are one query, 0.
    """
    if isinstance(X, RankingData):
        if qid is not None or group is not None:
            raise OptionError("X: is RankingData, which has queries; expected no qid or group with it")
        return X
    features, names, levels = checked_features(X)
    n = features.shape[0]
    queries = checked_queries(n, None, qid, group, of="X", where=None)
    return RankingData.of_queries(features, np.zeros(n, np.float32), queries, feature_names=names, categories=levels)


def plain_rows(X: Any, n_features: int) -> F32 | None:
    """Return a small array of features as it can be scored, if there is nothing to say about it; else None.

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
    return None if X.dtype != _DOUBLE or (np.abs(X) >= 2.0**24).any() else np.ascontiguousarray(X, np.float32)


def validation_data(
    beside: RankingData | None, given: Any, group: Any, qid: Any, X: Any, y: Any, train: RankingData, names: Any = None
) -> tuple[RankingData | None, tuple[tuple[str, int], ...]]:
    """Return all validation data, one set after the other, and the name and number of queries of each set.

    Args:
        beside: what was given beside the training data.
        given: `eval_set`: ``(X, y, qid)``, `RankingData`, or ``[(X, y)]`` beside `eval_group` or `eval_qid`; or a list
            of several of them.
        group, qid: `eval_group` and `eval_qid`; for several sets, a list of them.
        X, y: `eval_X` and `eval_y`, instead of `eval_set`; for several sets, tuples of them.
        train: the training data.
        names: `eval_names`; None for valid, valid_1, ...
    """
    ways = [way for way in (beside, given, _pairs(X, y)) if way is not None]
    if len(ways) > 1:
        raise OptionError("eval_set, eval_X, eval_y: validation data is given twice; expected it once")
    queries = {name: value for name, value in (("group", group), ("qid", qid)) if value is not None}
    if not ways and not queries:
        return None, ()
    if len(queries) == 2:
        raise OptionError("eval_group, eval_qid: found both; expected one of them")
    sets = ways[0] if ways else None
    if isinstance(sets, list) and len(sets) > 1 and all(isinstance(each, tuple | RankingData) for each in sets):
        for name, values in queries.items():
            if not isinstance(values, list | tuple) or len(values) != len(sets):
                raise DataError(f"eval_{name}: found something else; expected a list of {len(sets)}, one per eval_set")
        of_sets = [{name: values[at] for name, values in queries.items()} for at in range(len(sets))]
        parts = [_one_set(each, of_set, train) for each, of_set in zip(sets, of_sets, strict=True)]
    else:
        parts = [_one_set(_only_one(sets), {name: _only_one(each) for name, each in queries.items()}, train)]
    called = ["valid", *(f"valid_{number}" for number in range(1, len(parts)))]
    called = called if names is None else [names] if isinstance(names, str) else [*map(str, names)]
    if len(called) != len(parts) or len({*called, "train"}) <= len(called):
        raise OptionError(f"eval_names: found {called}; expected {len(parts)} different names, none of them 'train'")
    all_of_them = parts[0] if len(parts) == 1 else RankingData.concat(parts, repeated="separate")
    return all_of_them, tuple(zip(called, (part.n_queries for part in parts), strict=True))


def _one_set(valid: Any, queries: Mapping[str, Any], train: RankingData) -> RankingData:
    """Return one validation set, checked against the training data."""
    if queries or not isinstance(valid, RankingData):
        if not queries and isinstance(valid, (tuple, list)) and len(valid) == 2:
            raise DataError("eval_group, eval_qid: found neither; expected one of them beside features and labels")
        if not isinstance(valid, (tuple, list)) or len(valid) != 3 - len(queries):
            with_it = "".join(f" beside eval_{name}" for name in queries)
            forms = "(X, y, qid) or RankingData, or [(X, y)] beside eval_group or eval_qid"
            raise DataError(f"eval_set: found something else{with_it}; expected {'[(X, y)]' if queries else forms}")
        try:
            valid = ranking_data(*valid, **queries)
        except DataError as error:
            raise DataError(f"eval_set: {error}") from None
    known = train.n_features, train.feature_names
    check_columns("eval_set", valid.n_features, valid.feature_names, *known, "as in the training data")
    return with_levels(valid, train.categories, "eval_set")


def _pairs(X: Any, y: Any) -> Any:
    """Return `eval_X` and `eval_y` as `eval_set`: as in LightGBM, tuples hold several data sets."""
    if X is None and y is None:
        return None
    for name, part in (("eval_X", X), ("eval_y", y)):
        if part is None:
            raise OptionError(f"{name}: found none; expected eval_X and eval_y together")
    if isinstance(X, tuple) != isinstance(y, tuple) or (isinstance(X, tuple) and len(X) != len(y)):
        raise OptionError("eval_X, eval_y: found different numbers of data sets; expected one y for each X")
    return [*zip(X, y, strict=True)] if isinstance(X, tuple) else (X, y)


def check_streams(train: RankingData, valid: RankingData | None, engine: str, **needing: Any) -> None:
    """Refuse what needs features in memory, if they are in files.

    Args:
        train, valid: the data.
        engine: the engine to train with; "" if there is nothing to train.
        **needing: parameters that need features in memory unless they are false.
    """
    able = ("lightgbm", "xgboost") if isinstance(train, DistributedData) else ("lightgbm",)
    if not isinstance(train.X, StreamedRows):
        if valid is not None and isinstance(valid.X, StreamedRows):
            raise OptionError("eval_set: its features are in files; expected data in memory, as the training data is")
    elif set_ones := [name for name, value in needing.items() if value]:
        raise OptionError(f"{set_ones[0]}: needs features in memory, but those of X are in files; expected it unset")
    elif engine not in ("", *able):
        raise OptionError(
            f"engine: {engine} needs features in memory; expected one loss trained by {' or '.join(able)}"
        )


def _only_one(given: Any) -> Any:
    """Unwrap a list of one data set: LightGBM and XGBoost take lists of them."""
    is_list_of_one = isinstance(given, list) and len(given) == 1 and not np.isscalar(given[0])
    return given[0] if is_list_of_one else given


def check_columns(where: str, n_features: int, names: Names, expected: int, known: Any, as_in: str) -> None:
    """Refuse columns that differ from those expected in number or, where both have names, in their names.

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
        raise DataError(f"{where}: found {counted(n_features, 'feature')}; expected {expected}, {as_in}{hint}")
    pairs = zip(names, known, strict=True) if names is not None and known is not None else ()
    for column, (name, wanted) in enumerate(pairs):
        if name != wanted:
            raise DataError(f"{where}: column {column} is '{name}'; expected '{wanted}', {as_in}")


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
        raise DataError(
            f"{name}: found length {values.size}; expected {data.n_queries}, one per query, or {data.n_documents}, one "
            "per document"
        )
    check_weights(values, values.size, name)
    if values.size != data.n_queries:
        values = np.asarray(data.in_document_order(values))
        by_query = values[data.offsets[:-1]]
        differs = values != np.repeat(by_query, data.sizes)
        if differs.any():
            query, _ = place(data.offsets, int(np.argmax(differs)))
            raise DataError(
                f"{name}: documents of query {data.qids[query]} have different weights; expected one weight for all "
                "documents of a query"
            )
        values = by_query
    return values


def document_propensities(propensities: ArrayLike | None, train: RankingData, loss: AnyLoss) -> F64 | None:
    """Return one propensity per document, in the order of the documents.

    Args:
        propensities: one per row; None for none.
        train: the training data.
        loss: the loss, which must have a use for them.
    """
    if propensities is None:
        return None
    if not all(isinstance(each, SoftmaxLoss) for each in members_of(loss)):
        raise OptionError(f"propensities: the loss {loss} has no use for them; expected listnet or xendcg")
    return np.asarray(train.in_document_order(numbers("propensities", propensities, size=train.n_documents)))


def category_columns(given: Any, train: RankingData) -> tuple[int, ...]:
    """Return the numbers of the columns that hold category codes: those given, and those of the data with levels.

    Args:
        given: `categorical_feature`: numbers or names of columns, one or several; None, "" or "auto" for none.
        train: the training data.
    """
    if given is None or (isinstance(given, str) and given in ("", "auto")):
        given = ()
    return column_numbers(
        "categorical_feature", [*([given] if np.isscalar(given) else given), *train.categories], train
    )


def column_numbers(name: str, given: Iterable[Any], train: RankingData) -> tuple[int, ...]:
    """Return the numbers of columns, each once.

    Args:
        name: the argument's name.
        given: numbers or names of columns; a number may be text if the data has no names.
        train: the training data.
    """
    found = []
    for column in given:
        if isinstance(column, str) and (train.feature_names is not None or not column.isdecimal()):
            if train.feature_names is None:
                raise OptionError(
                    f"{name}: found the name '{column}', but the data has no names; expected numbers of columns"
                )
            if column not in train.feature_names:
                raise unknown(f"column of {name}", column, train.feature_names)
            found.append(train.feature_names.index(column))
        else:
            number = int(column) if isinstance(column, str) else column
            found.append(whole(name, number, least=0, most=train.n_features - 1))
    return tuple(dict.fromkeys(found))


def constraints(given: Any, train: RankingData) -> list[int]:
    """Return one constraint per column: 1 if scores must rise with it, -1 if they must fall, 0 if neither.

    Args:
        given: `monotone_constraints`, one per column, or by name or number of a column.
        train: the training data.
    """
    if not isinstance(given, Mapping):
        if len(given) != train.n_features:
            raise OptionError(f"monotone_constraints: found {len(given)}; expected {train.n_features}, one per feature")
        given = dict(enumerate(given))
    found = [0] * train.n_features
    for column, sign in given.items():
        (number,) = column_numbers("monotone_constraints", [column], train)
        found[number] = whole("monotone_constraints", sign, least=-1, most=1)
    return found


def drawn_seed(random_state: Any) -> int:
    """Return the seed that `random_state` stands for.

    Args:
        random_state: a whole number, a NumPy ``RandomState`` or ``Generator`` to draw from, or None for a random one.

    >>> drawn_seed(7)
    7
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0] % _SEEDS)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_SEEDS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_SEEDS))
    return whole("random_state", random_state, least=0) % _SEEDS
