"""The validation data of a training: one set, or several by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tautrank.data import RankingData
from tautrank.errors import DataError, OptionError
from tautrank.ranker import inputs
from tautrank.ranker.columns import Columns, check_columns

_FORMS = "(X, y, qid), RankingData, or a dictionary of them by name"
_LISTS = "(tautrank.compat.LGBMRanker takes lists, as LightGBM does)"


class ValidationSets(NamedTuple):
    """The validation data of a training.

    Args:
        data: all sets, one after the other; None without validation data.
        sizes: the name and the number of queries of each set; the first one decides.
    """

    data: RankingData | None
    sizes: tuple[tuple[str, int], ...]


def given_once(beside: RankingData, eval_set: Any) -> RankingData:
    """Return the validation data beside the training data, if `eval_set` holds none as well."""
    if eval_set is not None:
        raise OptionError("eval_set: validation data is given twice; expected it once")
    return beside


def validation_sets(eval_set: Any, train: RankingData) -> ValidationSets:
    """Return the validation sets that are given to `fit` joined to one data set, with the name and
    number of queries of each; their columns and category codes are those of the training data.

    Args:
        eval_set: ``(X, y, qid)`` or `RankingData`, or a dictionary of them by name; None for none.
        train: the training data.
    """
    if eval_set is None:
        return ValidationSets(None, ())
    sets_by_name = eval_set if isinstance(eval_set, Mapping) else {"valid": eval_set}
    _check_names(sets_by_name)

    sets = [_like_training(_one_set(data), train) for data in sets_by_name.values()]
    sizes = [data.n_queries for data in sets]
    # The same query in two sets stays two queries.
    joined = sets[0] if len(sets) == 1 else RankingData.concat(sets, repeated="separate")
    return ValidationSets(joined, tuple(zip(sets_by_name, sizes, strict=True)))


def _check_names(sets_by_name: Mapping[Any, Any]) -> None:
    """Raise an error if a dictionary of validation sets by name is empty, or if a name is no text or
    is ``"train"``, the name of the training data in the history.
    """
    if not sets_by_name:
        raise DataError(f"eval_set: found an empty dictionary; expected {_FORMS}")
    for name in sets_by_name:
        if not isinstance(name, str) or name == "train":
            raise OptionError(
                f"eval_set: found a set called {name!r}; expected names that are text, "
                "none of them 'train'"
            )


def _one_set(data: Any) -> RankingData:
    """Return one validation set, `RankingData` or ``(X, y, qid)``, as `RankingData`; raise an error
    if it is anything else.
    """
    if isinstance(data, RankingData):
        return data
    if isinstance(data, list) and data and isinstance(data[0], tuple | RankingData):
        raise DataError(f"eval_set: found a list of sets; expected {_FORMS} {_LISTS}")
    if not isinstance(data, tuple | list) or len(data) != 3:
        raise DataError(f"eval_set: found something else; expected {_FORMS}")
    X, y, qid = data
    try:
        return inputs.ranking_data(X, y, qid)
    except DataError as error:
        raise DataError(f"eval_set: {error}") from None


def _like_training(valid: RankingData, train: RankingData) -> RankingData:
    """Return a validation set with the category codes of the training data, and the same columns."""
    check_columns("eval_set", Columns.of(valid), Columns.of(train), "as in the training data")
    return valid.with_levels(train.categories, "eval_set")
