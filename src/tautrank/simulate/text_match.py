"""The 136 features of MSLR-WEB30K, computed from synthetic documents: term counts, lengths, links and
clicks.

Every document has four streams of text (body, anchor, title, URL) and the whole of them. How often
each query term occurs in a stream is drawn; the 125 text features follow from these counts by their
usual formulas, so they are zero together, copy each other for queries of one term, and grow heavy
tails, as the published ones do.

Qin and Liu, *Introducing LETOR 4.0 Datasets*, 2013; the list of features is that of the MSLR-WEB30K
data set.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import F32, F64, I64
from tautrank.simulate.qualities import FRESH, MATCH, POPULAR, PUSHED, TRUSTED, USEFUL

STREAMS = ("body", "anchor", "title", "url", "whole")
_STATISTICS = ("sum", "min", "max", "mean", "variance")
_FAMILIES = (
    "covered_terms",
    "covered_ratio",
    "length",
    "idf",
    *(
        f"{counted}_{statistic}"
        for counted in ("tf", "normalised_tf", "tfidf")
        for statistic in _STATISTICS
    ),
    "boolean",
    "vector_space",
    "bm25",
    "lm_absolute",
    "lm_dirichlet",
    "lm_jelinek_mercer",
)
_PAGE = (
    "url_slashes",
    "url_length",
    "inlinks",
    "outlinks",
    "page_rank",
    "site_rank",
    "quality",
    "quality_2",
    "query_url_clicks",
    "url_clicks",
    "url_dwell_time",
)
NAMES = (*(f"{family}.{stream}" for family in _FAMILIES for stream in STREAMS), *_PAGE)

_MOST_TERMS = 5
# BM25's parameters, and those of the smoothed language models.
_K1, _B = 1.2, 0.75
_ABSOLUTE_DISCOUNT, _DIRICHLET_MASS, _JELINEK_WEIGHT = 0.7, 2000.0, 0.1
_DISTINCT_SHARE = 0.6  # of a stream's words, the share that are different words


class _Stream(NamedTuple):
    """The distribution of a stream of text; lengths and counts are log-normal, rounded down.

    The logarithm of a term's count is
    ``rate + qualities + blur + spread + slope (log length - typical)``: the blur is the stream's
    own, the spread the term's.
    """

    typical: float  # logarithm of the median length
    width: float  # standard deviation of the logarithm of the length
    absent: float  # documents whose popularity (blurred) is below this have no such stream
    rate: float
    match: float
    pushed: float
    blur: float
    spread: float
    slope: float


_PARTS = (
    _Stream(6.2, 0.9, -np.inf, 0.9, 0.9, 0.3, 0.5, 0.9, 0.6),  # body
    _Stream(2.5, 1.3, -0.2, 0.3, 0.8, 0.4, 0.8, 0.8, 0.8),  # anchor
    _Stream(2.0, 0.4, -2.3, 0.0, 0.5, 0.2, 0.5, 0.5, 0.2),  # title
    _Stream(2.2, 0.4, -np.inf, -0.5, 0.4, 0.3, 0.4, 0.4, 0.1),  # URL
)


def fill_text_match(
    out: F32, qualities: F32, intents: F64, query: I64, rng: np.random.Generator
) -> None:
    """Write the 136 features of some documents.

    Args:
        out: float32 ``[136, n]``, one feature per row.
        qualities: float32 ``[6, n]``.
        intents: ``[q, 6]``.
        query: the query of each document, from 0 to q - 1.
        rng: the source of all that is drawn.
    """
    n_queries = intents.shape[0]
    # Queries that are after matching text are longer; those after something fresh use rarer words.
    terms = np.clip(
        np.floor(1 + 3 * intents[:, MATCH] + 1.1 * rng.standard_exponential(n_queries)),
        1,
        _MOST_TERMS,
    )
    idf = np.clip(
        3 + 4 * intents[:, FRESH] + 2 * rng.standard_normal((_MOST_TERMS, n_queries)), 0.5, 14
    )
    asked = (np.arange(_MOST_TERMS)[:, None] < terms).astype(np.float32)
    # Each stream is a collection of its own, in which words are more or less rare; the body makes
    # up the whole.
    drift = 0.4 * rng.standard_normal((len(STREAMS), n_queries))
    drift[0] = drift[-1] = 0
    idf_of_stream = np.maximum((idf * asked).sum(axis=0) + drift, 0.1).astype(np.float32)

    asked = asked[:, query]
    weights = idf.astype(np.float32)[:, query] * asked
    rarity = (0.15 * (idf - 4)).astype(np.float32)[:, query]
    n_terms = terms.astype(np.float32)[query]

    texts: list[tuple[Any, ...]] = []
    for stream in _PARTS:
        length = _lengths(stream, qualities, rng)
        mean_length = float(
            np.exp(stream.typical + stream.width**2 / 2)
        )  # of documents that have such a stream
        texts.append((_counts(stream, length, qualities, asked, rarity, rng), length, mean_length))
    whole = tuple(map(sum, zip(*texts, strict=True)))
    for position, (counts, length, mean) in enumerate([*texts, whole]):
        _fill_stream(
            out[position : 125 : len(STREAMS)],
            counts,
            length,
            np.float32(mean),
            asked,
            weights,
            n_terms,
        )
    first = _FAMILIES.index("idf") * len(STREAMS)
    out[first : first + len(STREAMS)] = idf_of_stream[:, query]
    _fill_page(out[125:], qualities, rng)


def _normal(rng: np.random.Generator, *shape: int) -> F32:
    return rng.standard_normal(shape, dtype=np.float32)


def _share(signal: Any) -> Any:
    return 1 / (1 + np.exp(-signal))


def _lengths(stream: _Stream, qualities: F32, rng: np.random.Generator) -> F32:
    n = qualities.shape[1]
    length = np.floor(
        np.exp(np.float32(stream.typical) + np.float32(stream.width) * _normal(rng, n))
    )
    present = qualities[POPULAR] + _normal(rng, n) > stream.absent
    return np.asarray(np.maximum(length, 1) * present, np.float32)


def _counts(
    stream: _Stream, length: F32, qualities: F32, asked: F32, rarity: F32, rng: np.random.Generator
) -> F32:
    """Draw how often each query term occurs in a stream: ``[terms, n]``, together at most its
    length.
    """
    n = length.size
    rate = stream.rate + stream.match * qualities[MATCH] + stream.pushed * qualities[PUSHED]
    rate += stream.blur * _normal(rng, n)
    rate += stream.slope * (np.log(np.maximum(length, 1)) - np.float32(stream.typical))
    logarithms = (
        np.float32(stream.spread) * _normal(rng, _MOST_TERMS, n) + rate.astype(np.float32) - rarity
    )
    counts: F32 = np.floor(np.exp(logarithms)) * asked
    left = length.copy()
    for count in counts:
        np.minimum(count, left, out=count)
        left -= count
    return counts


def _fill_stream(
    out: F32, counts: F32, length: F32, mean: np.float32, asked: F32, weights: F32, n: F32
) -> None:
    """Write the 25 features of one stream; ``asked`` is 1 where the query has that term,
    ``weights`` is its idf.
    """
    per_word: F32 = np.reciprocal(np.maximum(length, 1))
    here = length > 0
    covered = (counts > 0).sum(axis=0, dtype=np.float32)
    out[0] = covered
    out[1] = covered / n
    out[2] = length
    _fill_statistics(out[4:9], counts, asked, n)
    _fill_statistics(out[9:14], counts * per_word, asked, n)
    _fill_statistics(out[14:19], counts * weights, asked, n)
    out[19] = covered == n
    norm = np.sqrt((weights * weights).sum(axis=0))
    out[20] = (counts * weights * weights).sum(axis=0) * np.sqrt(per_word) / norm
    saturated = counts * np.float32(_K1 + 1)
    saturated /= counts + np.float32(_K1) * (np.float32(1 - _B) + np.float32(_B) * length / mean)
    out[21] = (saturated * weights).sum(axis=0)
    # In the collection a term of idf w makes up about exp(-w) / 100 of the words.
    background = np.exp(-weights) * np.float32(0.01)
    absolute = np.maximum(counts - np.float32(_ABSOLUTE_DISCOUNT), 0) * per_word
    absolute += np.float32(_ABSOLUTE_DISCOUNT * _DISTINCT_SHARE) * background
    out[22] = (np.log(np.minimum(absolute, 1)) * asked).sum(axis=0) * here
    dirichlet = (counts + np.float32(_DIRICHLET_MASS) * background) / (
        length + np.float32(_DIRICHLET_MASS)
    )
    out[23] = (np.log(dirichlet) * asked).sum(axis=0) * here
    mixed = (
        np.float32(1 - _JELINEK_WEIGHT) * counts * per_word
        + np.float32(_JELINEK_WEIGHT) * background
    )
    out[24] = (np.log(mixed) * asked).sum(axis=0) * here


def _fill_statistics(out: F32, values: F32, asked: F32, n: F32) -> None:
    """Sum, smallest, largest, mean and variance over the terms that are asked for; other terms have
    the value 0.
    """
    out[0] = values.sum(axis=0)
    out[1] = np.where(asked > 0, values, np.float32(np.inf)).min(axis=0)
    out[2] = values.max(axis=0)
    out[3] = out[0] / n
    away = (values - out[3]) * asked
    out[4] = (away * away).sum(axis=0) / n


def _fill_page(out: F32, qualities: F32, rng: np.random.Generator) -> None:
    """Write the features of a page other than its text: address, links, ranks and clicks."""
    n = qualities.shape[1]
    popular, pushed, trusted, useful = (qualities[k] for k in (POPULAR, PUSHED, TRUSTED, USEFUL))

    def blurred(signal: F32, blur: float) -> F32:
        return np.asarray(signal + np.float32(blur) * _normal(rng, n), np.float32)

    out[0] = 1 + np.floor(np.exp(0.8 + 0.35 * blurred(qualities[FRESH] - trusted, 0.8)))
    out[1] = np.floor(14 + 8 * out[0] + np.exp(2 + 0.6 * blurred(pushed, 0.8)))
    out[2] = np.floor(np.exp(2 + 1.6 * blurred(popular, 0.8)))
    out[3] = np.floor(np.exp(2.5 + 0.8 * blurred(pushed + 0.5 * qualities[FRESH], 1.0)))
    out[4] = np.floor(65535 * _share(0.9 * blurred(popular, 0.7) - 1.5))
    out[5] = np.floor(65535 * _share(0.9 * blurred(trusted + 0.3 * popular, 1.0) - 1))
    out[6] = np.floor(255 * _share(blurred(0.7 * trusted - 0.8 * pushed, 0.8)))
    out[7] = np.floor(255 * _share(blurred(-pushed, 0.6) - 1))
    out[8] = np.floor(np.exp(1.3 * blurred(useful + 0.6 * qualities[MATCH], 0.8) - 2))
    out[9] = np.floor(np.exp(1.6 * blurred(0.7 * useful + popular, 0.9) - 1))
    out[10] = np.where(out[9] > 0, np.exp(3 + 0.7 * blurred(useful, 0.9)), 0)
