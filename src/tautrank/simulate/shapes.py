"""Data in the shape of a published data set: its lengths, labels and features, and the generation of
such data in blocks of queries, each block from a key of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tautrank.arrays import F64, I64
from tautrank.data import RankingData
from tautrank.data.arrays import offsets_from_sizes
from tautrank.simulate import scaled, text_match
from tautrank.simulate.qualities import draw_intents, draw_plenty, draw_qualities, utility

_LENGTHS, _DOCUMENTS, _REFERENCE = range(3)  # what a stream of random numbers is for
_CELLS = 2**20  # features in a block: a few megabytes, which stay in the cache
_REFERENCE_QUERIES, _REFERENCE_LENGTH = 2**15, 8
_NOTHING = 6.0  # standard deviations by which documents of an unanswerable query are less relevant


class Shape(NamedTuple):
    """The properties that a simulated data set shares with a published one.

    Attributes:
        key: keys the random numbers, so that two shapes of one seed have nothing else in common.
        mean_length: documents per query.
        draw_lengths: (generator, number of queries, mean) -> list lengths, before rounding.
        label_shares: shares of the labels 0 to 4.
        unanswerable: share of the queries for which there is nothing to be found.
        n_features: columns in use.
        feature_names: their names, where they have names.
        fill: writes the features of some documents, one feature per row.
    """

    key: int
    mean_length: float
    draw_lengths: Callable[[np.random.Generator, int, float], F64]
    label_shares: tuple[float, ...]
    unanswerable: float
    n_features: int
    feature_names: tuple[str, ...] | None
    fill: Callable[..., None]


def log_normal_lengths(rng: np.random.Generator, n_queries: int, mean: float) -> F64:
    """Log-normal list lengths: of 20,000 lists of mean 120 the longest has about 1,200 documents,
    as in WEB30K.
    """
    spread = 0.6
    return np.exp(rng.normal(np.log(mean) - spread**2 / 2, spread, n_queries))


def _gamma_lengths(rng: np.random.Generator, n_queries: int, mean: float) -> F64:
    """Gamma list lengths: of 20,000 lists of mean 24 the shortest has 1 document and the longest
    about 130.
    """
    return rng.gamma(3.0, mean / 3, n_queries)


# 982 of WEB30K's 31,531 queries and 1,135 of Yahoo!'s 29,921 have no relevant document (Bruch 2020,
# sec. 5.1); most of them are queries for which there is nothing to be found, the others found
# nothing among few documents.
_MATCHING = len(text_match.NAMES), text_match.NAMES, text_match.fill_text_match
_SCALED = scaled.WIDTH, None, scaled.fill_scaled
MSLR = Shape(1, 120.0, log_normal_lengths, (0.515, 0.325, 0.134, 0.018, 0.008), 0.029, *_MATCHING)
YAHOO = Shape(2, 23.7, _gamma_lengths, (0.2192, 0.5022, 0.2230, 0.0388, 0.0168), 0.033, *_SCALED)

SHAPES = {"mslr": MSLR, "yahoo": YAHOO}
LABEL_SHARES = MSLR.label_shares
"""Shares of the labels 0 to 4 in MSLR-WEB30K."""


def simulate_blocks(
    shape: Shape,
    n_queries: int,
    n_features: int,
    mean_length: float,
    noise: float,
    seed: int,
    threads: int,
) -> tuple[RankingData, F64]:
    """Generate data of a shape, and the truth behind its labels.

    Blocks are keyed by (seed, shape, block) and always generated whole, so a query is the same
    whatever the number of queries, of threads, or of features.

    Args:
        shape: the shape of the data.
        n_queries: number of queries.
        n_features: number of columns; fewer than the shape has are a fixed choice of them, more are
            columns of zeros.
        mean_length: documents per query.
        noise: standard deviation of the judges' noise.
        seed: key of all random numbers.
        threads: number of blocks generated at a time.

    >>> data, truth = simulate_blocks(MSLR, 3, 136, 20.0, 0.8, seed=0, threads=1)
    >>> data.n_features, truth.size == data.n_documents
    (136, True)
    """
    in_block = max(1, int(_CELLS / (shape.n_features * mean_length)))
    n_blocks = -(-n_queries // in_block)
    keys = [_generator(shape, seed, _LENGTHS, block) for block in range(n_blocks)]
    lengths = np.concatenate([shape.draw_lengths(rng, in_block, mean_length) for rng in keys])
    sizes = np.maximum(1, np.rint(lengths)).astype(np.int64)
    offsets = offsets_from_sizes(sizes[:n_queries])
    n = int(offsets[-1])

    # Some of the columns, in order; each choice contains all smaller ones.
    columns = np.sort(
        np.random.default_rng(shape.n_features).permutation(shape.n_features)[:n_features]
    )
    X = np.zeros((n, n_features), np.float32)
    labels = np.empty(n, np.float32)
    truth = np.empty(n)
    (mean, deviation, *_), cuts = _reference(shape), label_cuts(shape, noise)

    def make(block: int) -> None:
        first = block * in_block
        rng = _generator(shape, seed, _DOCUMENTS, block)
        query = np.repeat(np.arange(in_block), sizes[first : first + in_block])
        intents, qualities, relevance, lost = _documents(shape, query, in_block, rng)
        score = (relevance - mean) / deviation - lost
        judged = score + noise * rng.standard_normal(query.size)
        features = np.empty((shape.n_features, query.size), np.float32)
        shape.fill(features, np.ascontiguousarray(qualities.T, np.float32), intents, query, rng)
        # The last block may have queries too many.
        start, end = offsets[first], offsets[min(first + in_block, n_queries)]
        kept = slice(0, end - start)
        X[start:end, : columns.size] = features[columns, kept].T
        labels[start:end] = np.searchsorted(cuts, judged[kept], side="right")
        truth[start:end] = score[kept]

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(make, range(n_blocks)))  # raises what a block raised
    unused = [f"unused_{column}" for column in range(columns.size, n_features)]
    names = shape.feature_names and (*(shape.feature_names[column] for column in columns), *unused)
    return RankingData(X, labels, offsets, np.arange(n_queries), names), truth


def _generator(shape: Shape, seed: int, purpose: int, block: int) -> np.random.Generator:
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=(shape.key, purpose, block))
    )


def _documents(
    shape: Shape, query: I64, n_queries: int, rng: np.random.Generator
) -> tuple[F64, F64, F64, F64]:
    """Draw intents of queries and qualities of documents; return them, relevance, and what the
    unanswerable lose.
    """
    intents = draw_intents(n_queries, rng)
    plenty = draw_plenty(n_queries, rng)
    lost = _NOTHING * (rng.random(n_queries) < shape.unanswerable)
    qualities = draw_qualities(query, n_queries, rng)
    return (
        intents,
        qualities,
        utility(qualities, intents[query]) + plenty[query],
        np.asarray(lost[query], np.float64),
    )


@lru_cache(maxsize=8)
def _reference(shape: Shape) -> tuple[float, float, F64, F64]:
    """Return mean and standard deviation of relevance, and truth and noise of the documents, of
    many short lists.

    What is measured on them holds for every seed.
    """
    query = np.repeat(np.arange(_REFERENCE_QUERIES), _REFERENCE_LENGTH)
    rng = _generator(shape, 0, _REFERENCE, 0)
    _, _, relevance, lost = _documents(shape, query, _REFERENCE_QUERIES, rng)
    mean, deviation = float(relevance.mean()), float(relevance.std())
    return mean, deviation, (relevance - mean) / deviation - lost, rng.standard_normal(query.size)


def label_cuts(shape: Shape, noise: float) -> F64:
    """Return the judged relevance at which one label passes to the next, so that labels have the
    shape's shares.

    A document of true relevance ``t`` has a label of at least ``l`` with probability
    ``Phi((t - cuts[l - 1]) / noise)``.

    Args:
        shape: the shape of the data.
        noise: standard deviation of the judges' noise.

    >>> bool((np.diff(label_cuts(MSLR, 0.8)) > 0).all())
    True
    """
    _, _, truth, drawn = _reference(shape)
    return np.asarray(np.quantile(truth + noise * drawn, np.cumsum(shape.label_shares)[:-1]))
