"""Generate data of any size in blocks of queries: each block from its own key, directly into the result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from tautrank.arrays import F64, I64, Bools
from tautrank.data import RankingData
from tautrank.data.grouping import offsets_from_sizes
from tautrank.simulate.published_shapes import Shape
from tautrank.simulate.search_world import draw_intents, draw_plenty, draw_qualities, utility

_LENGTHS, _DOCUMENTS, _REFERENCE = range(3)  # what a stream of random numbers is for
_CELLS = 2**20  # features in a block: a few megabytes, which stay in the cache
_REFERENCE_QUERIES, _REFERENCE_LENGTH = 2**15, 8
_NOTHING = 6.0  # standard deviations by which documents of an unanswerable query are less relevant


def simulate_blocks(
    shape: Shape, n_queries: int, n_features: int, mean_length: float, noise: float, seed: int, threads: int
) -> tuple[RankingData, F64]:
    """Generate data of a shape, and the truth behind its labels.

    Blocks are keyed by (seed, shape, block) and always generated whole, so a query is the same whatever the number of
    queries, of threads, or of features.

    Args:
        shape: the shape of the data.
        n_queries: number of queries.
        n_features: number of columns; fewer than the shape has are a fixed choice of them, more are columns of zeros.
        mean_length: documents per query.
        noise: standard deviation of the judges' noise.
        seed: key of all random numbers.
        threads: number of blocks generated at a time.

    >>> from tautrank.simulate.published_shapes import MSLR
    >>> data, truth = simulate_blocks(MSLR, 3, 136, 20.0, 0.8, seed=0, threads=1)
    >>> data.n_features, truth.size == data.n_documents
    (136, True)
    """
    in_block = max(1, int(_CELLS / (shape.n_features * mean_length)))
    n_blocks = -(-n_queries // in_block)
    sizes = np.concatenate([_lengths(shape, in_block, mean_length, seed, block) for block in range(n_blocks)])
    offsets = offsets_from_sizes(sizes[:n_queries])
    n = int(offsets[-1])

    columns = _spread_columns(shape.n_features, n_features)
    X = np.zeros((n, n_features), np.float32)
    labels = np.empty(n, np.float32)
    truth = np.empty(n)
    cuts = label_cuts(shape, noise)

    def make(block: int) -> None:
        first = block * in_block
        rng = _generator(shape, seed, _DOCUMENTS, block)
        query = np.repeat(np.arange(in_block), sizes[first : first + in_block])
        intents, qualities, score = _documents(shape, query, in_block, rng)
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
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(shape.key, purpose, block)))


def _lengths(shape: Shape, n_queries: int, mean: float, seed: int, block: int) -> I64:
    lengths = shape.draw_lengths(_generator(shape, seed, _LENGTHS, block), n_queries, mean)
    return np.maximum(1, np.rint(lengths)).astype(np.int64)


def _documents(shape: Shape, query: I64, n_queries: int, rng: np.random.Generator) -> tuple[F64, F64, F64]:
    """Draw the intents of queries and the qualities of documents, and return them with the documents' relevance."""
    intents, qualities, relevance, unanswerable = _relevance(shape, query, n_queries, rng)
    mean, deviation = _scale(shape)
    return intents, qualities, (relevance - mean) / deviation - _NOTHING * unanswerable[query]


def _relevance(shape: Shape, query: I64, n_queries: int, rng: np.random.Generator) -> tuple[F64, F64, F64, Bools]:
    intents = draw_intents(n_queries, rng)
    plenty = draw_plenty(n_queries, rng)
    unanswerable = rng.random(n_queries) < shape.unanswerable
    qualities = draw_qualities(query, n_queries, rng)
    return intents, qualities, utility(qualities, intents[query]) + plenty[query], unanswerable


def _reference(shape: Shape) -> tuple[I64, np.random.Generator]:
    """Return the queries of many short lists, and their generator: what is measured on them holds for every seed."""
    query = np.repeat(np.arange(_REFERENCE_QUERIES), _REFERENCE_LENGTH)
    return query, _generator(shape, 0, _REFERENCE, 0)


@lru_cache(maxsize=8)
def _scale(shape: Shape) -> tuple[float, float]:
    query, rng = _reference(shape)
    relevance = _relevance(shape, query, _REFERENCE_QUERIES, rng)[2]
    return float(relevance.mean()), float(relevance.std())


@lru_cache(maxsize=64)
def label_cuts(shape: Shape, noise: float) -> F64:
    """Return the judged relevance at which one label passes to the next, so that labels have the shape's shares.

    A document of true relevance ``t`` has a label of at least ``l`` with probability
    ``Phi((t - cuts[l - 1]) / noise)``.

    Args:
        shape: the shape of the data.
        noise: standard deviation of the judges' noise.

    >>> from tautrank.simulate.published_shapes import MSLR
    >>> bool((np.diff(label_cuts(MSLR, 0.8)) > 0).all())
    True
    """
    query, rng = _reference(shape)
    truth = _documents(shape, query, _REFERENCE_QUERIES, rng)[2]
    judged = truth + noise * rng.standard_normal(truth.size)
    cuts: F64 = np.quantile(judged, np.cumsum(shape.label_shares)[:-1])
    cuts.flags.writeable = False  # kept for the next call
    return cuts


def _spread_columns(width: int, wanted: int) -> I64:
    """Choose up to ``wanted`` of ``width`` columns, in order; each choice contains all smaller ones."""
    return np.sort(np.random.default_rng(width).permutation(width)[:wanted])
