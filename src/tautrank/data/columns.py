"""The same features in the same columns: tables find theirs by name, text leaves out the last ones where they are 0."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path

from tautrank.data.ranking_data import RankingData
from tautrank.errors import DataError, TautrankWarning


def with_columns(data: RankingData, names: Sequence[str], path: Path) -> RankingData:
    """The same documents with these columns in this order, found by name; a note says what is left out.

    Args:
        data: from a table.
        names: of the features that were trained on.
        path: of the table, for sentences.
    """
    found = list(data.feature_names or ())
    if found == list(names):
        return data
    missing = [name for name in names if name not in found]
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError(f"{path}: found no column '{missing[0]}'{more}; expected every feature that was trained on")
    extra = [name for name in found if name not in set(names)]
    if extra:
        told = ", ".join(f"'{name}'" for name in extra[:3]) + (", ..." if len(extra) > 3 else "")
        warnings.warn(f"{path}: left out {told}, which was not trained on", TautrankWarning, stacklevel=2)
    columns = [found.index(name) for name in names]
    return dataclasses.replace(data, X=data.X[:, columns], feature_names=tuple(names))


def same_columns(parts: Sequence[RankingData], paths: Sequence[Path]) -> list[RankingData]:
    """Files of one data set with the columns of the first, or as wide as the widest where they have no names.

    Args:
        parts: what was read, the training data first.
        paths: of the files, for sentences.
    """
    names, width = parts[0].feature_names, max(part.n_features for part in parts)
    return [
        (with_columns(part, names, path) if names else part) if part.feature_names else part.with_n_features(width)
        for part, path in zip(parts, paths, strict=True)
    ]


def columns_of_model(data: RankingData, n_features: int, names: Sequence[str] | None, path: Path) -> RankingData:
    """Data with the columns that a model was trained on.

    Args:
        data: what was read.
        n_features: of the model.
        names: of the model's features, where it knows them.
        path: of the file, for sentences.
    """
    if data.feature_names:
        return data if names is None else with_columns(data, names, path)
    if data.n_features > n_features:
        raise DataError(f"{path}: found {data.n_features} features; expected {n_features}, as in fit")
    if data.n_features < n_features:
        told = f"found {data.n_features} features, the model has {n_features}; the others are taken as 0"
        warnings.warn(f"{path}: {told}", TautrankWarning, stacklevel=2)
    return data.with_n_features(n_features)
