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

from typing import NamedTuple

import numpy as np

from tautrank.arrays import F32, F64, I64, Floats
from tautrank.simulate.qualities import FRESH, MATCH, POPULAR, PUSHED, TRUSTED, USEFUL, logistic

STREAMS = ("body", "anchor", "title", "url", "whole")
_STATISTICS = ("sum", "min", "max", "mean", "variance")
_FAMILIES = (
    "covered_terms",
    "covered_ratio",
    "length",
    "idf",
    *(f"tf_{statistic}" for statistic in _STATISTICS),
    *(f"normalised_tf_{statistic}" for statistic in _STATISTICS),
    *(f"tfidf_{statistic}" for statistic in _STATISTICS),
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
_TEXT = tuple(f"{family}.{stream}" for family in _FAMILIES for stream in STREAMS)
NAMES = _TEXT + _PAGE


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


class _QueryTerms(NamedTuple):
    """The terms of queries.

    Attributes:
        n_terms: their number, ``[q]``.
        idf: ``[terms, q]``, rarer words have a larger one.
        is_asked: ``[terms, q]``, 1 where the query has that term.
    """

    n_terms: F64
    idf: F64
    is_asked: F32


class _DocumentTerms(NamedTuple):
    """The terms of each document's query; terms that the query does not have count 0.

    Attributes:
        n_terms: their number, ``[n]``.
        is_asked: ``[terms, n]``, 1 where the query has that term.
        weights: ``[terms, n]``, idf of the terms that the query has.
        rarity: ``[terms, n]``, how much rarer than usual a term is in any text, as a logarithm.
    """

    n_terms: F32
    is_asked: F32
    weights: F32
    rarity: F32


class _Text(NamedTuple):
    """A stream of text of some documents.

    Attributes:
        counts: ``[terms, n]``, how often each query term occurs.
        length: number of words, ``[n]``.
        mean_length: mean number of words of the documents that have such a stream.
    """

    counts: F32
    length: F32
    mean_length: float


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
    of_queries = _draw_query_terms(intents, rng)
    # Each stream is a collection of its own, in which words are more or less rare; the body makes
    # up the whole.
    drift = 0.4 * rng.standard_normal((len(STREAMS), intents.shape[0]))
    drift[0] = drift[-1] = 0
    total_idf = (of_queries.idf * of_queries.is_asked).sum(axis=0)
    idf_of_stream = np.maximum(total_idf + drift, 0.1).astype(np.float32)

    terms = _terms_of_documents(of_queries, query)
    parts = [_draw_text(stream, terms, qualities, rng) for stream in _PARTS]
    for position, text in enumerate([*parts, _whole_text(parts)]):
        features_of_stream = out[position : len(_TEXT) : len(STREAMS)]
        _fill_stream(features_of_stream, text, terms)
    first_idf = _FAMILIES.index("idf") * len(STREAMS)
    out[first_idf : first_idf + len(STREAMS)] = idf_of_stream[:, query]
    _fill_page(out[len(_TEXT) :], qualities, rng)


def _draw_query_terms(intents: F64, rng: np.random.Generator) -> _QueryTerms:
    """Draw the terms of queries: those after matching text are longer, those after something fresh
    use rarer words.
    """
    n_queries = intents.shape[0]
    wordiness = 1.1 * rng.standard_exponential(n_queries)
    lengths = 1 + 3 * intents[:, MATCH] + wordiness
    n_terms = np.clip(np.floor(lengths), 1, _MOST_TERMS)
    rareness = 2 * rng.standard_normal((_MOST_TERMS, n_queries))
    idf = np.clip(3 + 4 * intents[:, FRESH] + rareness, 0.5, 14)
    is_asked = (np.arange(_MOST_TERMS)[:, None] < n_terms).astype(np.float32)
    return _QueryTerms(n_terms, idf, is_asked)


def _terms_of_documents(terms: _QueryTerms, query: I64) -> _DocumentTerms:
    """Return the terms of each document's query."""
    is_asked = terms.is_asked[:, query]
    rarity = (0.15 * (terms.idf - 4)).astype(np.float32)
    return _DocumentTerms(
        n_terms=terms.n_terms.astype(np.float32)[query],
        is_asked=is_asked,
        weights=terms.idf.astype(np.float32)[:, query] * is_asked,
        rarity=rarity[:, query],
    )


def _draw_text(
    stream: _Stream, terms: _DocumentTerms, qualities: F32, rng: np.random.Generator
) -> _Text:
    """Draw a stream of text of documents with some qualities."""
    length = _draw_lengths(stream, qualities, rng)
    counts = _draw_counts(stream, length, qualities, terms, rng)
    return _Text(counts, length, float(np.exp(stream.typical + stream.width**2 / 2)))


def _whole_text(parts: list[_Text]) -> _Text:
    """Return the text that is made of all streams."""
    counts = sum(text.counts for text in parts)
    length = sum(text.length for text in parts)
    mean_length = sum(text.mean_length for text in parts)
    return _Text(np.asarray(counts), np.asarray(length), mean_length)


def _normal(rng: np.random.Generator, *shape: int) -> F32:
    return rng.standard_normal(shape, dtype=np.float32)


def _draw_lengths(stream: _Stream, qualities: F32, rng: np.random.Generator) -> F32:
    """Draw the number of words of a stream, 0 for documents that have no such stream."""
    n = qualities.shape[1]
    logarithm = stream.typical + stream.width * _normal(rng, n)
    length = np.floor(np.exp(logarithm))
    popularity = qualities[POPULAR] + _normal(rng, n)
    is_present = popularity > stream.absent
    return np.asarray(np.maximum(length, 1) * is_present, np.float32)


def _draw_counts(
    stream: _Stream,
    length: F32,
    qualities: F32,
    terms: _DocumentTerms,
    rng: np.random.Generator,
) -> F32:
    """Draw how often each query term occurs in a stream: ``[terms, n]``, together at most its
    length.
    """
    rate = stream.rate + stream.match * qualities[MATCH]
    rate += stream.pushed * qualities[PUSHED]
    rate += stream.blur * _normal(rng, length.size)
    log_length = np.log(np.maximum(length, 1))
    rate += stream.slope * (log_length - stream.typical)

    spread = stream.spread * _normal(rng, _MOST_TERMS, length.size)
    logarithms = spread + rate.astype(np.float32) - terms.rarity
    counts: F32 = np.floor(np.exp(logarithms)) * terms.is_asked
    words_left = length.copy()
    for count in counts:
        np.minimum(count, words_left, out=count)
        words_left -= count
    return counts


def _fill_stream(out: F32, text: _Text, terms: _DocumentTerms) -> None:
    """Write the 25 features of one stream, but for its idf."""
    per_word: F32 = np.reciprocal(np.maximum(text.length, 1))
    n_covered = (text.counts > 0).sum(axis=0, dtype=np.float32)
    out[0] = n_covered
    out[1] = n_covered / terms.n_terms
    out[2] = text.length
    _fill_statistics(out[4:9], text.counts, terms)
    _fill_statistics(out[9:14], text.counts * per_word, terms)
    _fill_statistics(out[14:19], text.counts * terms.weights, terms)
    out[19] = n_covered == terms.n_terms
    out[20] = _vector_space(text, terms, per_word)
    out[21] = _bm25(text, terms)
    _fill_language_models(out[22:25], text, terms, per_word)


def _fill_statistics(out: F32, values: F32, terms: _DocumentTerms) -> None:
    """Write sum, smallest, largest, mean and variance over the terms that are asked for; other
    terms have the value 0.
    """
    out[0] = values.sum(axis=0)
    out[1] = np.where(terms.is_asked > 0, values, np.inf).min(axis=0)
    out[2] = values.max(axis=0)
    out[3] = out[0] / terms.n_terms
    deviations = (values - out[3]) * terms.is_asked
    out[4] = (deviations * deviations).sum(axis=0) / terms.n_terms


def _vector_space(text: _Text, terms: _DocumentTerms, per_word: F32) -> F32:
    """Return the cosine of query and document, where all words of a document count alike."""
    weights = terms.weights
    norm = np.sqrt((weights * weights).sum(axis=0))
    product = (text.counts * weights * weights).sum(axis=0)
    return np.asarray(product * np.sqrt(per_word) / norm)


def _bm25(text: _Text, terms: _DocumentTerms) -> F32:
    """Return ``sum idf c (K1 + 1) / (c + K1 (1 - B + B length / mean length))`` over the counts c."""
    length = _B * text.length / text.mean_length
    saturated = text.counts * (_K1 + 1)
    saturated /= text.counts + _K1 * ((1 - _B) + length)
    return np.asarray((saturated * terms.weights).sum(axis=0))


def _fill_language_models(out: F32, text: _Text, terms: _DocumentTerms, per_word: F32) -> None:
    """Write the log likelihood of the query under three smoothed language models of the document."""
    # In the collection a term of idf w makes up about exp(-w) / 100 of the words.
    background = np.exp(-terms.weights) * 0.01

    absolute = np.maximum(text.counts - _ABSOLUTE_DISCOUNT, 0) * per_word
    absolute += (_ABSOLUTE_DISCOUNT * _DISTINCT_SHARE) * background
    out[0] = _log_likelihood(np.minimum(absolute, 1), text, terms)

    dirichlet = text.counts + _DIRICHLET_MASS * background
    dirichlet /= text.length + _DIRICHLET_MASS
    out[1] = _log_likelihood(dirichlet, text, terms)

    mixed = (1 - _JELINEK_WEIGHT) * text.counts * per_word
    mixed += _JELINEK_WEIGHT * background
    out[2] = _log_likelihood(mixed, text, terms)


def _log_likelihood(probabilities: Floats, text: _Text, terms: _DocumentTerms) -> F32:
    """Return the log likelihood of each query; 0 for a document without such a stream."""
    log_probabilities = np.log(probabilities) * terms.is_asked
    return np.asarray(log_probabilities.sum(axis=0) * (text.length > 0))


def _fill_page(out: F32, qualities: F32, rng: np.random.Generator) -> None:
    """Write the features of a page other than its text, in the order of `_PAGE`."""
    _fill_address_and_links(out[:4], qualities, rng)
    _fill_ranks(out[4:8], qualities, rng)
    _fill_clicks(out[8:], qualities, rng)


def _fill_address_and_links(out: F32, qualities: F32, rng: np.random.Generator) -> None:
    """Write slashes and length of the address, and numbers of links to and from the page."""
    fresh = qualities[FRESH]
    pushed = qualities[PUSHED]
    depth = _blurred(fresh - qualities[TRUSTED], 0.8, rng)
    out[0] = 1 + np.floor(np.exp(0.8 + 0.35 * depth))
    last_part = np.exp(2 + 0.6 * _blurred(pushed, 0.8, rng))
    out[1] = np.floor(14 + 8 * out[0] + last_part)
    popularity = _blurred(qualities[POPULAR], 0.8, rng)
    out[2] = np.floor(np.exp(2 + 1.6 * popularity))
    eagerness = _blurred(pushed + 0.5 * fresh, 1.0, rng)
    out[3] = np.floor(np.exp(2.5 + 0.8 * eagerness))


def _fill_ranks(out: F32, qualities: F32, rng: np.random.Generator) -> None:
    """Write the ranks of page and site, from 0 to 65535, and two scores of quality, from 0 to
    255.
    """
    popular = qualities[POPULAR]
    pushed = qualities[PUSHED]
    trusted = qualities[TRUSTED]
    page_rank = 0.9 * _blurred(popular, 0.7, rng) - 1.5
    out[0] = np.floor(65535 * logistic(page_rank))
    site_rank = 0.9 * _blurred(trusted + 0.3 * popular, 1.0, rng) - 1
    out[1] = np.floor(65535 * logistic(site_rank))
    quality = _blurred(0.7 * trusted - 0.8 * pushed, 0.8, rng)
    out[2] = np.floor(255 * logistic(quality))
    quality_2 = _blurred(-pushed, 0.6, rng) - 1
    out[3] = np.floor(255 * logistic(quality_2))


def _fill_clicks(out: F32, qualities: F32, rng: np.random.Generator) -> None:
    """Write clicks for this query, clicks for any, and how long readers stay."""
    useful = qualities[USEFUL]
    for_query = _blurred(useful + 0.6 * qualities[MATCH], 0.8, rng)
    out[0] = np.floor(np.exp(1.3 * for_query - 2))
    for_any = _blurred(0.7 * useful + qualities[POPULAR], 0.9, rng)
    out[1] = np.floor(np.exp(1.6 * for_any - 1))
    dwell_time = np.exp(3 + 0.7 * _blurred(useful, 0.9, rng))
    out[2] = np.where(out[1] > 0, dwell_time, 0)


def _blurred(signal: F32, blur: float, rng: np.random.Generator) -> F32:
    """Return a signal with noise of some standard deviation."""
    return np.asarray(signal + blur * _normal(rng, signal.size), np.float32)
