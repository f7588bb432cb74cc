"""Validation data in the spellings of LightGBM's `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautrank.data import RankingData
from tautrank.errors import DataError, OptionError
from tautrank.ranker.inputs import ranking_data

_FORMS = "(X, y, qid) or RankingData, or [(X, y)] beside eval_group or eval_qid"


@dataclass(frozen=True, eq=False, kw_only=True)
class EvalArguments:
    """The arguments of `LGBMRanker.fit` that hold validation data, as they were given.

    Args:
        beside: `RankingData` that was given beside the training data.
        eval_set: ``(X, y, qid)``, `RankingData`, or ``[(X, y)]``; or a list of several of them.
        eval_group: the number of rows of each query; for several sets, a list of them.
        eval_qid: the query of each row; for several sets, a list of them.
        eval_X: features instead of `eval_set`; for several sets, a tuple of them.
        eval_y: labels of `eval_X`.
        eval_names: names of the sets; None for valid, valid_1, ...
    """

    beside: RankingData | None = None
    eval_set: Any = None
    eval_group: Any = None
    eval_qid: Any = None
    eval_X: Any = None
    eval_y: Any = None
    eval_names: Any = None


def eval_sets(arguments: EvalArguments) -> dict[str, RankingData] | None:
    """Return the validation sets that the arguments of `fit` hold, by name; None if there are none.

    Args:
        arguments: the arguments, in any of LightGBM's spellings.
    """
    # LightGBM takes features and labels in one argument, and in others which rows form a query.
    data = _validation_data(arguments)
    query_arguments = _query_arguments(arguments)
    if data is None and not query_arguments:
        return None
    data_of_sets, queries_of_sets = _split_into_sets(data, query_arguments)
    sets = []
    for data_of_set, queries_of_set in zip(data_of_sets, queries_of_sets, strict=True):
        sets.append(_as_ranking_data(data_of_set, queries_of_set))
    names = _set_names(arguments.eval_names, len(sets))
    return dict(zip(names, sets, strict=True))


def _validation_data(arguments: EvalArguments) -> Any:
    """Return the validation data in the form in which the user gave it, from the one argument that
    holds it; None if none does.
    """
    X_and_y = _joined_X_and_y(arguments.eval_X, arguments.eval_y)
    present = []
    for data in (arguments.beside, arguments.eval_set, X_and_y):
        if data is not None:
            present.append(data)
    if len(present) > 1:
        raise OptionError(
            "eval_set, eval_X, eval_y: validation data is given twice; expected it once"
        )
    return present[0] if present else None


def _joined_X_and_y(X: Any, y: Any) -> Any:
    """Return the arguments `eval_X` and `eval_y` in the form of `eval_set`: a pair ``(X, y)``, or a
    list of pairs if they are tuples, which hold several sets; None if both are None.
    """
    if X is None and y is None:
        return None
    if X is None:
        raise OptionError("eval_X: found none; expected eval_X and eval_y together")
    if y is None:
        raise OptionError("eval_y: found none; expected eval_X and eval_y together")

    has_tuple = isinstance(X, tuple) or isinstance(y, tuple)
    if not has_tuple:
        return X, y
    are_tuples = isinstance(X, tuple) and isinstance(y, tuple)
    if not are_tuples or len(X) != len(y):
        raise OptionError(
            "eval_X, eval_y: found different numbers of data sets; expected one y for each X"
        )
    return list(zip(X, y, strict=True))


def _query_arguments(arguments: EvalArguments) -> dict[str, Any]:
    """Return what says which validation rows belong to the same query, by the name that
    `RankingData.from_arrays` has for it (``group`` or ``qid``); empty if neither was given.
    """
    if arguments.eval_group is not None and arguments.eval_qid is not None:
        raise OptionError("eval_group, eval_qid: found both; expected one of them")
    if arguments.eval_group is not None:
        return {"group": arguments.eval_group}
    if arguments.eval_qid is not None:
        return {"qid": arguments.eval_qid}
    return {}


def _split_into_sets(
    data: Any, query_arguments: Mapping[str, Any]
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return two lists with one item per validation set: the data of each set, and its ``group`` or
    ``qid``, by name (empty if the data itself says which rows belong to a query).

    Args:
        data: one set, or a list of several.
        query_arguments: ``group`` or ``qid``, of one set or a list with an item for each set.
    """
    # A single set becomes a list of one, with its group or qid in a list of one too.
    if not _is_list_of_sets(data):
        data = [_unwrapped(data)]
        query_arguments = {name: [_unwrapped(value)] for name, value in query_arguments.items()}

    queries_of_sets: list[dict[str, Any]] = [{} for _set in data]
    for name, values in query_arguments.items():
        if not isinstance(values, list | tuple) or len(values) != len(data):
            raise DataError(
                f"eval_{name}: found something else; "
                f"expected a list of {len(data)}, one per eval_set"
            )
        for queries_of_set, value in zip(queries_of_sets, values, strict=True):
            queries_of_set[name] = value
    return data, queries_of_sets


def _is_list_of_sets(data: Any) -> bool:
    """Whether validation data is a list of several sets, rather than features and labels in a
    list.
    """
    if not isinstance(data, list) or len(data) < 2:
        return False
    return all(isinstance(item, tuple | RankingData) for item in data)


def _unwrapped(value: Any) -> Any:
    """Return the only item of a list that wraps one data set or array, as LightGBM and XGBoost take
    them; any other value is returned unchanged.
    """
    if not isinstance(value, list) or len(value) != 1:
        return value
    # [5] is an array of one number, not a list that wraps a set.
    is_list_of_numbers = np.isscalar(value[0])
    return value if is_list_of_numbers else value[0]


def _as_ranking_data(data: Any, queries: Mapping[str, Any]) -> RankingData:
    """Return one validation set of the user as `RankingData`; raise an error if it has an unknown
    form, or if it is not said, or said twice, which rows belong to a query.

    Args:
        data: `RankingData`, ``(X, y, qid)``, or ``(X, y)`` if `queries` is not empty.
        queries: ``group`` or ``qid`` by name; empty if the data has queries.
    """
    if isinstance(data, RankingData) and not queries:
        return data

    parts = data if isinstance(data, tuple | list) else ()
    if len(parts) == 2 and not queries:
        raise DataError(
            "eval_group, eval_qid: found neither; expected one of them beside features and labels"
        )
    # Features, labels and queries; `queries` has at most one entry.
    n_expected = 3 - len(queries)
    if len(parts) != n_expected:
        beside = "".join(f" beside eval_{name}" for name in queries)
        expected = "[(X, y)]" if queries else _FORMS
        raise DataError(f"eval_set: found something else{beside}; expected {expected}")

    try:
        return ranking_data(*parts, **queries)
    except DataError as error:
        raise DataError(f"eval_set: {error}") from None


def _set_names(eval_names: Any, n_sets: int) -> list[str]:
    """Return a name for each of `n_sets` validation sets: those of the argument `eval_names`, else
    valid, valid_1, ...
    """
    if eval_names is None:
        further_names = [f"valid_{number}" for number in range(1, n_sets)]
        return ["valid", *further_names]
    if isinstance(eval_names, str):
        names = [eval_names]
    else:
        names = [str(name) for name in eval_names]
    are_different = len(set(names)) == len(names)
    if len(names) != n_sets or not are_different or "train" in names:
        raise OptionError(
            f"eval_names: found {names}; expected {n_sets} different names, none of them 'train'"
        )
    return names
