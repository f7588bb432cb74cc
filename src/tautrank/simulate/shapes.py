"""Data in the shape of a published data set: its lengths, labels and features, and the generation of
such data in blocks of queries, each block from a key of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tautrank.arrays import F32, F64, I64
from tautrank.data import RankingData
from tautrank.data.queries import offsets_from_sizes
from tautrank.simulate import scaled, text_match
from tautrank.simulate.qualities import draw_intents, draw_plenty, draw_qualities, utility

# What a stream of random numbers is for.
_LENGTHS, _DOCUMENTS, _REFERENCE = range(3)
_CELLS = 2**20  # features in a block: a few megabytes, which stay in the cache
_REFERENCE_QUERIES = 2**15
_REFERENCE_LENGTH = 8
# Documents of an unanswerable query are less relevant by this many standard deviations.
_NOTHING = 6.0


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
    fill: Callable[[F32, F32, F64, I64, np.random.Generator], None]


def log_normal_lengths(rng: np.random.Generator, n_queries: int, mean: float) -> F64:
    """Return log-normal list lengths: of 20,000 lists of mean 120 the longest has about 1,200
    documents, as in WEB30K.
    """
    spread = 0.6
    # exp of a normal variable of mean m and deviation s has the mean exp(m + s^2 / 2).
    return np.exp(rng.normal(np.log(mean) - spread**2 / 2, spread, n_queries))


def _gamma_lengths(rng: np.random.Generator, n_queries: int, mean: float) -> F64:
    """Return gamma list lengths: of 20,000 lists of mean 24 the shortest has 1 document and the
    longest about 130.
    """
    return rng.gamma(3.0, mean / 3, n_queries)


# 982 of WEB30K's 31,531 queries and 1,135 of Yahoo!'s 29,921 have no relevant document (Bruch 2020,
# sec. 5.1); most of them are queries for which there is nothing to be found, the others found
# nothing among few documents.
MSLR = Shape(
    key=1,
    mean_length=120.0,
    draw_lengths=log_normal_lengths,
    label_shares=(0.515, 0.325, 0.134, 0.018, 0.008),
    unanswerable=0.029,
    n_features=len(text_match.NAMES),
    feature_names=text_match.NAMES,
    fill=text_match.fill_text_match,
)
YAHOO = Shape(
    key=2,
    mean_length=23.7,
    draw_lengths=_gamma_lengths,
    label_shares=(0.2192, 0.5022, 0.2230, 0.0388, 0.0168),
    unanswerable=0.033,
    n_features=scaled.WIDTH,
    feature_names=None,
    fill=scaled.fill_scaled,
)

SHAPES = {"mslr": MSLR, "yahoo": YAHOO}
LABEL_SHARES = MSLR.label_shares
"""Shares of the labels 0 to 4 in MSLR-WEB30K."""


class Size(NamedTuple):
    """The size of simulated data.

    Attributes:
        n_queries: number of queries.
        n_features: number of columns; fewer than a shape has are a fixed choice of them, more are
            columns of zeros.
        mean_length: documents per query.
    """

    n_queries: int
    n_features: int
    mean_length: float


def simulate_shape(
    shape: Shape, size: Size, *, noise: float, seed: int, n_threads: int
) -> tuple[RankingData, F64]:
    """Generate ranking data that resembles a published data set; return it with the true relevance
    behind its labels.

    Queries are generated in blocks. Blocks are keyed by (seed, shape, block) and always generated
    whole, so a query is the same whatever the number of queries, of threads, or of features.

    Args:
        shape: the properties shared with the published data set.
        size: numbers of queries and features, and mean length of lists.
        noise: standard deviation of the judges' noise.
        seed: key of all random numbers.
        n_threads: number of blocks generated at a time.

    >>> size = Size(n_queries=3, n_features=136, mean_length=20.0)
    >>> data, truth = simulate_shape(MSLR, size, noise=0.8, seed=0, n_threads=1)
    >>> data.n_features, truth.size == data.n_documents
    (136, True)
    """
    queries_per_block = max(1, int(_CELLS / (shape.n_features * size.mean_length)))
    n_blocks = -(-size.n_queries // queries_per_block)
    sizes = _draw_sizes(shape, n_blocks, queries_per_block, size.mean_length, seed)
    offsets = offsets_from_sizes(sizes[: size.n_queries])
    judges = _Judges(noise, label_cuts(shape, noise))
    columns = _columns_in_use(shape, size.n_features)

    X = np.zeros((int(offsets[-1]), size.n_features), np.float32)
    labels = np.empty(X.shape[0], np.float32)
    truth = np.empty(X.shape[0])

    def fill_block(number: int) -> None:
        """Generate a block of queries by its number, and copy its features, labels and true
        relevance to their rows of the result, in place.
        """
        first_query = number * queries_per_block
        end_query = first_query + queries_per_block
        block = _generate_block(shape, sizes[first_query:end_query], judges, (seed, number))
        # The last block may have queries too many.
        start = offsets[first_query]
        end = offsets[min(end_query, size.n_queries)]
        kept = slice(0, end - start)
        # A block has a feature per row, and all features of the published data set.
        X[start:end, : columns.size] = block.features[columns, kept].T
        labels[start:end] = block.labels[kept]
        truth[start:end] = block.truth[kept]

    with ThreadPoolExecutor(n_threads) as pool:
        # The results are None; reading them raises an error that a block has raised.
        list(pool.map(fill_block, range(n_blocks)))
    names = _names_of_columns(shape, columns, size.n_features)
    return RankingData(X, labels, offsets, np.arange(size.n_queries), names), truth


def _draw_sizes(
    shape: Shape, n_blocks: int, queries_per_block: int, mean_length: float, seed: int
) -> I64:
    """Draw the number of documents of every query, at least 1 each; every block of queries has a
    random stream of its own, so that its sizes do not depend on the number of blocks.

    Args:
        shape: the properties shared with a published data set, such as how lengths vary.
        n_blocks, queries_per_block: how many queries to draw for.
        mean_length: mean number of documents of a query.
        seed: key of all random numbers.
    """
    lengths_of_blocks = []
    for block in range(n_blocks):
        rng = _generator(shape, seed, _LENGTHS, block)
        lengths_of_blocks.append(shape.draw_lengths(rng, queries_per_block, mean_length))
    rounded_lengths = np.rint(np.concatenate(lengths_of_blocks))
    return np.maximum(1, rounded_lengths).astype(np.int64)


def _columns_in_use(shape: Shape, n_features: int) -> I64:
    """Return the numbers of the feature columns that are kept where fewer are asked for than a shape
    has, in ascending order.

    The choice is random but fixed, and each choice contains all smaller ones.
    """
    rng = np.random.default_rng(shape.n_features)
    shuffled_columns = rng.permutation(shape.n_features)
    return np.sort(shuffled_columns[:n_features])


def _names_of_columns(shape: Shape, columns: I64, n_features: int) -> tuple[str, ...] | None:
    """Return the names of all feature columns: those in use, which have a name in the published data
    set that the shape resembles, and columns of zeros behind them; None if that set has no names.

    Args:
        shape: the properties shared with the published data set.
        columns: numbers of the columns in use, among those of the published set.
        n_features: number of columns, with those of zeros.
    """
    if shape.feature_names is None:
        return None
    names = [shape.feature_names[column] for column in columns]
    unused = [f"unused_{column}" for column in range(columns.size, n_features)]
    return (*names, *unused)


class _Judges(NamedTuple):
    """Those who label documents: they see the truth with noise, and cut it into labels.

    Attributes:
        noise: standard deviation of the noise.
        cuts: where one label passes to the next, see `label_cuts`.
    """

    noise: float
    cuts: F64


class _Block(NamedTuple):
    """The documents of some queries.

    Attributes:
        features: all features of the shape, one per row.
        labels: the labels 0 to 4.
        truth: true relevance.
    """

    features: F32
    labels: I64
    truth: F64


def _generate_block(shape: Shape, sizes: I64, judges: _Judges, key: tuple[int, int]) -> _Block:
    """Generate the features, labels and true relevance of the documents of a block of queries.

    Args:
        shape: the properties shared with a published data set.
        sizes: number of documents of each query.
        judges: noise and limits by which true relevance becomes a label.
        key: the seed of the data and the number of the block.
    """
    seed, number = key
    rng = _generator(shape, seed, _DOCUMENTS, number)
    query = np.repeat(np.arange(sizes.size), sizes)
    documents = _draw_documents(shape, query, sizes.size, rng)
    # True relevance, in standard deviations of a reference sample; `lost` is what documents of a
    # query without an answer lose.
    truth = _reference(shape).truth_of(documents.relevance, documents.lost)
    judged = truth + judges.noise * rng.standard_normal(query.size)
    # The label is the number of limits that the judged relevance reaches.
    labels = np.searchsorted(judges.cuts, judged, side="right")

    features = np.empty((shape.n_features, query.size), np.float32)
    qualities = np.ascontiguousarray(documents.qualities.T, np.float32)
    shape.fill(features, qualities, documents.intents, query, rng)
    return _Block(features, labels, truth)


def _generator(shape: Shape, seed: int, purpose: int, block: int) -> np.random.Generator:
    """Return a source of random numbers for one block of queries and one purpose (lengths or
    documents): other blocks and purposes, and other shapes of data, have independent ones.
    """
    key = np.random.SeedSequence(seed, spawn_key=(shape.key, purpose, block))
    return np.random.default_rng(key)


class _Documents(NamedTuple):
    """Documents of some queries.

    Attributes:
        intents: ``[q, 6]``, the intents of the queries.
        qualities: ``[n, 6]``, the qualities of the documents.
        relevance: how relevant each document would be if its query could be answered.
        lost: what a document of an unanswerable query loses, in standard deviations.
    """

    intents: F64
    qualities: F64
    relevance: F64
    lost: F64


def _draw_documents(
    shape: Shape, query: I64, n_queries: int, rng: np.random.Generator
) -> _Documents:
    """Draw what queries are after and the hidden qualities of their documents, and compute the
    relevance of each document.

    Args:
        shape: says which share of the queries cannot be answered.
        query: number of each document's query.
        n_queries: number of queries.
        rng: source of random numbers.
    """
    intents = draw_intents(n_queries, rng)
    plenty = draw_plenty(n_queries, rng)  # how good all documents of a query are
    is_unanswerable = rng.random(n_queries) < shape.unanswerable
    qualities = draw_qualities(query, n_queries, rng)

    relevance = utility(qualities, intents[query]) + plenty[query]
    # Documents of a query without an answer lose so many standard deviations of relevance.
    loss_of_query = _NOTHING * is_unanswerable
    lost = np.asarray(loss_of_query[query], np.float64)
    return _Documents(intents, qualities, relevance, lost)


class _Reference(NamedTuple):
    """Many short lists of a shape; what is measured on them holds for every seed.

    Attributes:
        mean: mean relevance.
        deviation: standard deviation of relevance.
        truth: true relevance of the documents.
        noise: a draw from N(0, 1) for each document.
    """

    mean: float
    deviation: float
    truth: F64
    noise: F64

    def truth_of(self, relevance: F64, lost: F64) -> F64:
        """Return true relevance in standard deviations of the reference."""
        return (relevance - self.mean) / self.deviation - lost


@lru_cache(maxsize=8)
def _reference(shape: Shape) -> _Reference:
    """Return many simulated short lists of a shape: their mean and standard deviation of relevance
    scale the relevance of all data, and their distribution decides where labels are cut.
    """
    query = np.repeat(np.arange(_REFERENCE_QUERIES), _REFERENCE_LENGTH)
    rng = _generator(shape, 0, _REFERENCE, 0)  # always seed 0: the same for all data of a shape
    documents = _draw_documents(shape, query, _REFERENCE_QUERIES, rng)
    mean = float(documents.relevance.mean())
    deviation = float(documents.relevance.std())
    truth = (documents.relevance - mean) / deviation - documents.lost
    return _Reference(mean, deviation, truth, noise=rng.standard_normal(query.size))


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
    reference = _reference(shape)
    judged = reference.truth + noise * reference.noise
    # Quantiles at the shares of labels up to 0, up to 1, ...; the last share, 1, needs no limit.
    return np.asarray(np.quantile(judged, np.cumsum(shape.label_shares)[:-1]))
