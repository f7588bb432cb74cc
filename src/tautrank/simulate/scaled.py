"""519 features in the manner of the Yahoo! Learning to Rank Challenge: all between 0 and 1, meaning
undisclosed.

What is known of the published ones: they describe the web graph, the document, its classes, the
query, matching text, topics, clicks, external references and time; each was brought into the range
from 0 to 1; 519 of the 700 columns are in use in set 1, and 18 of these are copies of others.

Chapelle and Chang, *Yahoo! Learning to Rank Challenge Overview*, 2011.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import F32, F64, I64
from tautrank.simulate.qualities import (
    FRESH,
    MATCH,
    POPULAR,
    PUSHED,
    QUALITIES,
    TRUSTED,
    USEFUL,
)
from tautrank.simulate.text_match import _share

_COPIES = 18


class _Group(NamedTuple):
    """Columns of one kind: they look at some qualities, share a nuisance factor, and are 0
    together.
    """

    columns: int
    qualities: tuple[int, ...]
    blur: tuple[
        float, float
    ]  # range of the noise of a column, where quality has standard deviation 1
    absent: float  # share of the documents about which nothing is known
    levels: tuple[int, ...] = ()  # columns with that many values, in turn; 0 is any number


_GROUPS = (
    _Group(60, (POPULAR, POPULAR, TRUSTED), (0.6, 2.0), 0.1, (0, 0, 40)),  # web graph
    _Group(
        60, (PUSHED, FRESH, TRUSTED), (0.8, 2.5), 0.0, (0, 12, 100)
    ),  # statistics of the document
    _Group(50, (PUSHED, TRUSTED, USEFUL), (1.0, 3.0), 0.5, (2, 0)),  # classifiers
    _Group(199, (MATCH,), (0.6, 2.5), 0.15, (0, 0, 6, 25)),  # matching text
    _Group(40, (MATCH, USEFUL), (0.8, 2.0), 0.3),  # topics
    _Group(30, (USEFUL, USEFUL, MATCH), (0.5, 1.5), 0.7, (0, 30)),  # clicks
    _Group(20, (POPULAR, TRUSTED), (0.8, 2.0), 0.8, (4,)),  # external references
    _Group(12, (FRESH,), (0.4, 1.5), 0.2),  # time
)
_QUERY_COLUMNS = 30
WIDTH = sum(group.columns for group in _GROUPS) + _QUERY_COLUMNS + _COPIES


@lru_cache(maxsize=1)
def _columns() -> list[tuple[Any, ...]]:
    """Return (quality, group, weights of quality, nuisance and noise, levels) of each column drawn
    per document.

    The columns are the engine's, not the data's: the same for every seed.
    """
    rng = np.random.default_rng(519)
    count = [group.columns for group in _GROUPS]
    quality = np.concatenate([np.resize(group.qualities, group.columns) for group in _GROUPS])
    blur = np.concatenate([rng.uniform(*group.blur, group.columns) for group in _GROUPS])
    shared = rng.uniform(0, 1, quality.size)
    levels = np.concatenate([np.resize(group.levels or (0,), group.columns) for group in _GROUPS])
    # 1.702 brings the logistic function nearest to the normal distribution function; 1.25 is a
    # quality's variance.
    scale = 1.702 / np.sqrt(1.25 + shared**2 + blur**2)
    sign = rng.choice([1.0, 1.0, 1.0, -1.0], quality.size)
    single = [
        np.asarray(values, np.float32)
        for values in (sign * scale, shared * scale, blur * scale, levels)
    ]
    return list(zip(quality, np.repeat(np.arange(len(_GROUPS)), count), *single, strict=True))


def fill_scaled(
    out: F32, qualities: F32, intents: F64, query: I64, rng: np.random.Generator
) -> None:
    """Write the 519 features of some documents.

    Args:
        out: float32 ``[519, n]``, one feature per row.
        qualities: float32 ``[6, n]``.
        intents: ``[q, 6]``.
        query: the query of each document, from 0 to q - 1.
        rng: the source of all that is drawn.
    """
    columns = _columns()
    n = query.size
    own = out[: len(columns)]
    rng.standard_normal(out=own, dtype=np.float32)
    nuisance = rng.standard_normal((len(_GROUPS), n), dtype=np.float32)
    known = rng.random((len(_GROUPS), n), dtype=np.float32) >= np.array(
        [[group.absent] for group in _GROUPS]
    )
    for row, (quality, group, weight, shared, blur, levels) in zip(own, columns, strict=True):
        values = _share(blur * row + weight * qualities[quality] + shared * nuisance[group])
        if levels:
            values = np.minimum(np.floor(values * levels), levels - 1) / (levels - 1)
        row[:] = values * known[group]
    after = own.shape[0]
    # What a query is after shows in its columns; the rest of them is noise, the same for all its
    # documents.
    shown = intents.T[np.resize(np.arange(QUALITIES), _QUERY_COLUMNS)]
    blurs = np.linspace(0.1, 2, _QUERY_COLUMNS)[:, None]
    shown = 1 / (1 + np.exp(6 * (1 / QUALITIES - shown) + blurs * rng.standard_normal(shown.shape)))
    out[after : after + _QUERY_COLUMNS] = shown.astype(np.float32)[:, query]
    out[after + _QUERY_COLUMNS :] = out[np.linspace(0, after - 1, _COPIES).astype(np.int64)]
