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
    """Return the validation sets by name; None if there are none."""
    data = _given_once(arguments)
    queries = _queries_beside(arguments)
    if data is None and not queries:
        return None
    sets, queries_of_sets = _as_lists(data, queries)
    parts = [_one_set(*pair) for pair in zip(sets, queries_of_sets, strict=True)]
    names = _set_names(arguments.eval_names, len(parts))
    return dict(zip(names, parts, strict=True))


def _given_once(arguments: EvalArguments) -> Any:
    """Return the validation data, whichever argument holds it."""
    pairs = _pairs(arguments.eval_X, arguments.eval_y)
    ways = (arguments.beside, arguments.eval_set, pairs)
    data = [way for way in ways if way is not None]
    if len(data) > 1:
        raise OptionError(
            "eval_set, eval_X, eval_y: validation data is given twice; expected it once"
        )
    return data[0] if data else None


def _pairs(X: Any, y: Any) -> Any:
    """Return `eval_X` and `eval_y` as `eval_set`: tuples hold several sets."""
    if X is None and y is None:
        return None
    for name, part in (("eval_X", X), ("eval_y", y)):
        if part is None:
            raise OptionError(f"{name}: found none; expected eval_X and eval_y together")

    # Whatever is no tuple is one set.
    n_sets_of_X = len(X) if isinstance(X, tuple) else None
    n_sets_of_y = len(y) if isinstance(y, tuple) else None
    if n_sets_of_X != n_sets_of_y:
        raise OptionError(
            "eval_X, eval_y: found different numbers of data sets; expected one y for each X"
        )
    return (X, y) if n_sets_of_X is None else list(zip(X, y, strict=True))


def _queries_beside(arguments: EvalArguments) -> dict[str, Any]:
    """Return what says which rows belong together, by the word of `RankingData.from_arrays`."""
    if arguments.eval_group is not None and arguments.eval_qid is not None:
        raise OptionError("eval_group, eval_qid: found both; expected one of them")
    if arguments.eval_group is not None:
        return {"group": arguments.eval_group}
    if arguments.eval_qid is not None:
        return {"qid": arguments.eval_qid}
    return {}


def _as_lists(data: Any, queries: Mapping[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return one item per validation set: its data, and what says which rows belong together."""
    if not _is_list_of_sets(data):
        data = [_only_item(data)]
        queries = {name: [_only_item(value)] for name, value in queries.items()}

    queries_of_sets: list[dict[str, Any]] = [{} for _ in data]
    for name, values in queries.items():
        if not isinstance(values, list | tuple) or len(values) != len(data):
            raise DataError(
                f"eval_{name}: found something else; "
                f"expected a list of {len(data)}, one per eval_set"
            )
        for queries_of_set, value in zip(queries_of_sets, values, strict=True):
            queries_of_set[name] = value
    return data, queries_of_sets


def _is_list_of_sets(data: Any) -> bool:
    """Whether this is a list of several sets, rather than features and labels in a list."""
    if not isinstance(data, list) or len(data) < 2:
        return False
    return all(isinstance(item, tuple | RankingData) for item in data)


def _only_item(value: Any) -> Any:
    """Unwrap a list of one data set: LightGBM and XGBoost take lists of them."""
    is_wrapped = isinstance(value, list) and len(value) == 1 and not np.isscalar(value[0])
    return value[0] if is_wrapped else value


def _one_set(data: Any, queries: Mapping[str, Any]) -> RankingData:
    """Return one validation set; `queries` says which rows belong together if `data` does not."""
    if isinstance(data, RankingData) and not queries:
        return data

    parts = data if isinstance(data, tuple | list) else ()
    if len(parts) == 2 and not queries:
        raise DataError(
            "eval_group, eval_qid: found neither; expected one of them beside features and labels"
        )
    if len(parts) != 3 - len(queries):
        beside = "".join(f" beside eval_{name}" for name in queries)
        expected = "[(X, y)]" if queries else _FORMS
        raise DataError(f"eval_set: found something else{beside}; expected {expected}")

    try:
        return ranking_data(*parts, **queries)
    except DataError as error:
        raise DataError(f"eval_set: {error}") from None


def _set_names(eval_names: Any, n_sets: int) -> list[str]:
    """Return the names of the sets: valid, valid_1, ... unless `eval_names` says otherwise."""
    if eval_names is None:
        return ["valid", *(f"valid_{number}" for number in range(1, n_sets))]
    names = [eval_names] if isinstance(eval_names, str) else [str(name) for name in eval_names]
    are_different = len(set(names)) == len(names)
    if len(names) != n_sets or not are_different or "train" in names:
        raise OptionError(
            f"eval_names: found {names}; expected {n_sets} different names, none of them 'train'"
        )
    return names
