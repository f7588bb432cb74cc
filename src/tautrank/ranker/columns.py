"""Columns of features: those of new data against those that were learned from, and columns that
parameters name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tautrank.arguments import one_or_more, whole
from tautrank.data import RankingData
from tautrank.data.ranking_data import Names
from tautrank.errors import DataError, OptionError, counted, unknown

# LETOR text leaves out features that are 0, the last ones too.
_PADDING = " (RankingData.with_n_features adds columns of zeros)"


class Columns(NamedTuple):
    """The columns of data: their number, and their names if they have names."""

    n_features: int
    names: Names

    @classmethod
    def of(cls, data: RankingData) -> Columns:
        """Return the columns of data."""
        return cls(data.n_features, data.feature_names)


def check_columns(where: str, columns: Columns, expected: Columns, source: str) -> None:
    """Raise an error if columns differ from those expected in number or, where both have names, in
    names.

    Args:
        where: the argument's name.
        columns: the columns that are checked.
        expected: the columns that are expected.
        source: where those come from, for the sentence.

    >>> check_columns("X", Columns(2, ("a", "b")), Columns(2, ("a", "c")), "as in fit")
    Traceback (most recent call last):
    tautrank.errors.DataError: X: column 1 is 'b'; expected 'c', as in fit
    """
    if columns.n_features != expected.n_features:
        hint = _PADDING if columns.n_features < expected.n_features else ""
        raise DataError(
            f"{where}: found {counted(columns.n_features, 'feature')}; "
            f"expected {expected.n_features}, {source}{hint}"
        )
    if columns.names is None or expected.names is None:
        return
    for column, (name, expected_name) in enumerate(zip(columns.names, expected.names, strict=True)):
        if name != expected_name:
            raise DataError(
                f"{where}: column {column} is '{name}'; expected '{expected_name}', {source}"
            )


def category_columns(argument: Any, train: RankingData) -> tuple[int, ...]:
    """Return the numbers of the columns that hold category codes: those of the argument, and those of
    the data with levels.

    Args:
        argument: `categorical_feature`: numbers or names of columns, one or several; None, "" or
            "auto" for none.
        train: the training data.
    """
    columns: tuple[Any, ...] = ()
    is_none = argument is None or (isinstance(argument, str) and argument in ("", "auto"))
    if not is_none:
        columns = one_or_more(argument)
    return column_positions("categorical_feature", [*columns, *train.categories], train)


def column_positions(name: str, columns: Iterable[Any], train: RankingData) -> tuple[int, ...]:
    """Return the numbers (from 0) of columns that are given by number or by name, each once, in the
    order in which they are first given.

    Args:
        name: the argument's name.
        columns: numbers or names of columns; a number may be text if the data has no names.
        train: the training data.
    """
    positions = [_position(name, column, train) for column in columns]
    # A dictionary keeps the first of equal keys, in their order.
    return tuple(dict.fromkeys(positions))


def _position(name: str, column: Any, train: RankingData) -> int:
    """Return the number (from 0) of a column that is given by number or by name; raise an error if
    the training data has no such column.

    Args:
        name: the argument that holds the column, for the error.
        column: the number or name; a number may be text if the data has no names.
        train: the training data.
    """
    if isinstance(column, str):
        feature_names = train.feature_names
        if feature_names is not None:
            if column not in feature_names:
                raise unknown(f"column of {name}", column, feature_names)
            return feature_names.index(column)
        if not column.isdecimal():
            raise OptionError(
                f"{name}: found the name '{column}', but the data has no names; "
                "expected numbers of columns"
            )
        column = int(column)
    return whole(name, column, least=0, most=train.n_features - 1)


def column_constraints(argument: Any, train: RankingData) -> list[int]:
    """Return one constraint per column: 1 if scores must rise with it, -1 if they must fall, 0 if
    neither.

    Args:
        argument: `monotone_constraints`, one per column, or by name or number of a column.
        train: the training data.
    """
    constraints = [0] * train.n_features
    # Keys are names or numbers of columns.
    for column, sign in _sign_by_column(argument, train.n_features).items():
        # One column is asked for, so there is one position.
        (position,) = column_positions("monotone_constraints", [column], train)
        constraints[position] = whole("monotone_constraints", sign, least=-1, most=1)
    return constraints


def _sign_by_column(argument: Any, n_features: int) -> Mapping[Any, Any]:
    """Return monotone constraints (1: rising, -1: falling, 0: none) by name or number of the column.

    Args:
        argument: such a mapping, which is returned unchanged; or one constraint per column.
        n_features: the number of columns.
    """
    if isinstance(argument, Mapping):
        return argument
    signs = np.atleast_1d(argument)
    if len(signs) != n_features:
        raise OptionError(
            f"monotone_constraints: found {len(signs)}; expected {n_features}, one per feature"
        )
    return dict(enumerate(signs))
