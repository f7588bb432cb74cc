"""519 features in the manner of the Yahoo! Learning to Rank Challenge: all between 0 and 1, meaning
undisclosed.

What is known of the published ones: they describe the web graph, the document, its classes, the
query, matching text, topics, clicks, external references and time; each was brought into the range
from 0 to 1; 519 of the 700 columns are in use in set 1, and 18 of these are copies of others.

Chapelle and Chang, *Yahoo! Learning to Rank Challenge Overview*, 2011.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

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
    logistic,
)

_COPIES = 18


class _Group(NamedTuple):
    """Columns of one kind: they look at some qualities, share a nuisance factor, and are 0
    together.

    Attributes:
        columns: their number.
        qualities: which qualities they look at, in turn.
        blur: range of the noise of a column, where quality has standard deviation 1.
        absent: share of the documents about which nothing is known.
        levels: number of values that a column has, in turn; 0 is any number.
    """

    columns: int
    qualities: tuple[int, ...]
    blur: tuple[float, float]
    absent: float
    levels: tuple[int, ...] = (0,)


_WEB_GRAPH = _Group(60, (POPULAR, POPULAR, TRUSTED), (0.6, 2.0), 0.1, (0, 0, 40))
_DOCUMENT_STATISTICS = _Group(60, (PUSHED, FRESH, TRUSTED), (0.8, 2.5), 0.0, (0, 12, 100))
_CLASSIFIERS = _Group(50, (PUSHED, TRUSTED, USEFUL), (1.0, 3.0), 0.5, (2, 0))
_MATCHING_TEXT = _Group(199, (MATCH,), (0.6, 2.5), 0.15, (0, 0, 6, 25))
_TOPICS = _Group(40, (MATCH, USEFUL), (0.8, 2.0), 0.3)
_CLICKS = _Group(30, (USEFUL, USEFUL, MATCH), (0.5, 1.5), 0.7, (0, 30))
_EXTERNAL_REFERENCES = _Group(20, (POPULAR, TRUSTED), (0.8, 2.0), 0.8, (4,))
_TIME = _Group(12, (FRESH,), (0.4, 1.5), 0.2)
_GROUPS = (
    _WEB_GRAPH,
    _DOCUMENT_STATISTICS,
    _CLASSIFIERS,
    _MATCHING_TEXT,
    _TOPICS,
    _CLICKS,
    _EXTERNAL_REFERENCES,
    _TIME,
)
_QUERY_COLUMNS = 30
_DOCUMENT_COLUMNS = sum(group.columns for group in _GROUPS)
WIDTH = _DOCUMENT_COLUMNS + _QUERY_COLUMNS + _COPIES


class _Column(NamedTuple):
    """A column that is drawn per document.

    Attributes:
        quality: the quality it looks at.
        group: number of its group.
        weight: weight of the quality.
        shared: weight of the nuisance factor of the group.
        blur: weight of the noise.
        levels: number of values; 0 is any number.
    """

    quality: int
    group: int
    weight: np.float32
    shared: np.float32
    blur: np.float32
    levels: np.float32


@lru_cache(maxsize=1)
def _columns() -> list[_Column]:
    """Return how each feature column is made from a document's hidden qualities: which quality it
    looks at, and the weights of quality, nuisance and noise.

    The columns belong to the simulated search engine, not to a data set: their random properties
    are drawn from a fixed seed. A column's signal is scaled such that its logistic function is
    spread about evenly from 0 to 1.
    """
    rng = np.random.default_rng(519)  # the number of features, as good as any seed
    blurs = np.concatenate([rng.uniform(*group.blur, group.columns) for group in _GROUPS])
    nuisance_weights = rng.uniform(0, 1, _DOCUMENT_COLUMNS)
    # 1.702 brings the logistic function nearest to the normal distribution function; 1.25 is a
    # quality's variance.
    variances = 1.25 + nuisance_weights**2 + blurs**2
    scales = 1.702 / np.sqrt(variances)
    # A quarter of the columns fall as the quality rises.
    signs = rng.choice([1.0, 1.0, 1.0, -1.0], _DOCUMENT_COLUMNS)

    columns: list[_Column] = []
    for group_number, group in enumerate(_GROUPS):
        for column_in_group in range(group.columns):
            index = len(columns)
            # Qualities and numbers of levels are taken in turn.
            quality = group.qualities[column_in_group % len(group.qualities)]
            levels = group.levels[column_in_group % len(group.levels)]
            column = _Column(
                quality=quality,
                group=group_number,
                weight=np.float32(signs[index] * scales[index]),
                shared=np.float32(nuisance_weights[index] * scales[index]),
                blur=np.float32(blurs[index] * scales[index]),
                levels=np.float32(levels),
            )
            columns.append(column)
    return columns


def fill_scaled(
    out: F32, qualities: F32, intents: F64, query: I64, rng: np.random.Generator
) -> None:
    """Write 519 features of n documents in the manner of the Yahoo! data, all from 0 to 1.

    First come the columns that describe a document, then those that are the same for a whole query,
    and at last copies of others, as in the published data.

    Args:
        out: receives float32 ``[519, n]``, one feature per row.
        qualities: hidden qualities of the documents, float32 ``[6, n]``.
        intents: how much each quality matters to each of q queries, ``[q, 6]``.
        query: the query of each document, from 0 to q - 1.
        rng: source of random numbers.
    """
    _fill_document_columns(out[:_DOCUMENT_COLUMNS], qualities, rng)

    end_of_query_columns = _DOCUMENT_COLUMNS + _QUERY_COLUMNS
    query_values = _draw_query_columns(intents, rng).astype(np.float32)
    # One value per query, repeated for each of its documents.
    out[_DOCUMENT_COLUMNS:end_of_query_columns] = query_values[:, query]

    evenly_spaced = np.linspace(0, _DOCUMENT_COLUMNS - 1, _COPIES)
    copied_columns = evenly_spaced.astype(np.int64)
    out[end_of_query_columns:] = out[copied_columns]


def _fill_document_columns(out: F32, qualities: F32, rng: np.random.Generator) -> None:
    """Write the feature columns that describe each document: a logistic function of one hidden
    quality, of a nuisance factor that a group of columns shares, and of noise.

    Some columns are rounded to a few levels, and a group of columns is 0 for documents about which
    nothing is known.

    Args:
        out: receives one column of features per row, one document per column.
        qualities: hidden qualities, ``[6, documents]``.
        rng: source of random numbers.
    """
    n_documents = qualities.shape[1]
    # The noise is drawn where the features are to be, to spare memory.
    rng.standard_normal(out=out, dtype=np.float32)
    nuisance = rng.standard_normal((len(_GROUPS), n_documents), dtype=np.float32)
    absent_shares = np.array([[group.absent] for group in _GROUPS])
    draws = rng.random((len(_GROUPS), n_documents), dtype=np.float32)
    is_known = draws >= absent_shares

    for row, column in zip(out, _columns(), strict=True):
        noise = row
        signal = column.blur * noise
        signal += column.weight * qualities[column.quality]
        signal += column.shared * nuisance[column.group]
        values = logistic(signal)
        if column.levels:
            highest_level = column.levels - 1
            level = np.floor(values * column.levels)
            values = np.minimum(level, highest_level) / highest_level
        row[:] = values * is_known[column.group]


def _draw_query_columns(intents: F64, rng: np.random.Generator) -> F64:
    """Draw features that are the same for all documents of a query, ``[columns, queries]``: how much
    a quality matters to the query, blurred by noise, from 0 to 1.

    Args:
        intents: weights of the qualities for each query, ``[queries, 6]``.
        rng: source of random numbers.
    """
    quality_of_column = np.resize(np.arange(QUALITIES), _QUERY_COLUMNS)  # in turn
    weights = intents.T[quality_of_column]
    blurs = np.linspace(0.1, 2, _QUERY_COLUMNS)[:, None]
    noise = blurs * rng.standard_normal(weights.shape)
    # The mean weight is 1 / QUALITIES; a logistic function maps its excess and the noise to 0..1.
    below_average = 6 * (1 / QUALITIES - weights)
    return np.asarray(1 / (1 + np.exp(below_average + noise)))
