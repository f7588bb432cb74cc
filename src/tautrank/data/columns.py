"""The same columns in several data sets: tables are aligned by name, LETOR text by padding with
zeros.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path

from tautrank.arrays import Array
from tautrank.data.ranking_data import RankingData
from tautrank.errors import DataError, TautrankWarning, counted, unknown


def with_columns(data: RankingData, names: Sequence[str], path: Path) -> RankingData:
    """Return table data with exactly the feature columns that a model was trained on, in that
    order.

    A missing column is an error; a warning names columns that were not trained on.

    Args:
        data: data from a table.
        names: names of the features that were trained on.
        path: the table's path, for errors.
    """
    names_in_table = list(data.feature_names or ())
    if names_in_table == list(names):
        return data
    missing = [name for name in names if name not in names_in_table]
    if missing:
        n_more = len(missing) - 1
        and_others = f" and {n_more} others" if n_more else ""
        raise DataError(
            f"{path}: found no column '{missing[0]}'{and_others}; "
            "expected every feature that was trained on"
        )
    left_out = [name for name in names_in_table if name not in set(names)]
    _warn_of_columns_left_out(left_out, path)
    positions = [names_in_table.index(name) for name in names]
    # The levels (distinct values) of the columns that hold categories.
    levels = {name: data.categories[name] for name in names if name in data.categories}
    return dataclasses.replace(
        data, X=data.X[:, positions], feature_names=tuple(names), categories=levels
    )


def _warn_of_columns_left_out(names: Sequence[str], path: Path) -> None:
    """Warn of columns that were not trained on, if there are any."""
    if not names:
        return
    listed = ", ".join(f"'{name}'" for name in names[:3])
    if len(names) > 3:
        listed += ", ..."
    warnings.warn(
        f"{path}: left out {listed}, which was not trained on", TautrankWarning, stacklevel=3
    )


def set_aside(data: RankingData, name: str, where: str) -> tuple[RankingData, Array]:
    """Take a column out of the features: return the data without it, and its values, one number per
    row of the source file.

    Args:
        data: data from a table.
        name: name of the column.
        where: how the error about a missing column begins.

    >>> from tautrank.data import RankingData
    >>> X, names = [[1.0, 0.5], [2.0, 0.5]], ["a", "w"]
    >>> data = RankingData.from_arrays(X, [0, 1], group=[2], feature_names=names)
    >>> rest, weights = set_aside(data, "w", "--weights")
    >>> rest.feature_names, weights.tolist()
    (('a',), [0.5, 0.5])
    """
    names = data.feature_names
    if names is None:
        raise DataError(f"{where}: expected a table")
    if name not in names:
        raise DataError(f"{where}: {unknown('column of numbers', name, names)}")
    position = names.index(name)
    # The data's rows may have been gathered by query; the values go back to the file's order.
    values = data.in_source_order(data.X[:, position])
    kept = [column for column in range(len(names)) if column != position]
    kept_names = tuple(names[column] for column in kept)
    data_without = dataclasses.replace(data, X=data.X[:, kept], feature_names=kept_names)
    return data_without, values


def same_columns(parts: Sequence[RankingData], paths: Sequence[Path]) -> list[RankingData]:
    """Return the files of a data set with the same feature columns.

    Tables get the columns of the first table, found by name; LETOR text, whose columns have no
    names, gets zeros up to the width of the widest file.

    Args:
        parts: the data of the files, the training data first.
        paths: the files' paths, for errors.
    """
    names = parts[0].feature_names  # None for LETOR text
    width = max(part.n_features for part in parts)
    aligned = []
    for part, path in zip(parts, paths, strict=True):
        if part.feature_names is None:
            aligned.append(part.with_n_features(width))
        elif names is None:
            aligned.append(part)
        else:
            aligned.append(with_columns(part, names, path))
    return aligned


def columns_of_model(
    data: RankingData, n_features: int, names: Sequence[str] | None, path: Path
) -> RankingData:
    """Return data with the columns that a model was trained on: found by name in a table, filled up
    with zeros in LETOR text.

    Args:
        data: the data of the file.
        n_features: number of features of the model.
        names: names of the model's features, where it has names.
        path: the file's path, for errors.
    """
    if data.feature_names:
        return data if names is None else with_columns(data, names, path)
    if data.n_features > n_features:
        raise DataError(
            f"{path}: found {counted(data.n_features, 'feature')}; expected {n_features}, as in fit"
        )
    if data.n_features < n_features:
        warnings.warn(
            f"{path}: found {counted(data.n_features, 'feature')}, the model has {n_features}; "
            "the others are taken as 0",
            TautrankWarning,
            stacklevel=2,
        )
    return data.with_n_features(n_features)
