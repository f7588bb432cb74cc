"""Check the parameters of simulations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tautrank.arguments import whole
from tautrank.arrays import F64
from tautrank.data import RankingData
from tautrank.errors import DataError, OptionError


def checked_seed(seed: object) -> int:
    """Return ``seed`` as a whole number; NumPy's generators take one of any size.

    >>> checked_seed(-1)
    Traceback (most recent call last):
    tautrank.errors.OptionError: seed: found -1; expected a whole number of at least 0
    """
    return whole("seed", seed, most=math.inf)


def probabilities_by_label(name: str, values: Sequence[float]) -> F64:
    """Return one probability per label, for the labels 0, 1, 2, ...

    >>> probabilities_by_label("probabilities", (0.05, 1.3))
    Traceback (most recent call last):
    tautrank.errors.OptionError: probabilities: found 1.3 for label 1; expected numbers from 0 to 1, one per label
    """
    expected = "expected numbers from 0 to 1, one per label"
    try:
        table = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        table = np.zeros(0)
    if table.ndim != 1 or table.size == 0:
        raise OptionError(f"{name}: found {values!r}; {expected}")
    wrong = np.flatnonzero(~((table >= 0) & (table <= 1)))
    if wrong.size:
        raise OptionError(f"{name}: found {table[wrong[0]]:g} for label {wrong[0]}; {expected}")
    return table


def ranking_data(data: object) -> RankingData:
    """Return ``data`` if it is ranking data.

    >>> ranking_data([1, 2])
    Traceback (most recent call last):
    tautrank.errors.DataError: data: found a list; expected RankingData (RankingData.from_arrays makes it of arrays)
    """
    if not isinstance(data, RankingData):
        raise DataError(
            f"data: found a {type(data).__name__}; expected RankingData (RankingData.from_arrays makes it of arrays)"
        )
    return data
