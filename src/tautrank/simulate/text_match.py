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
    """Write 136 features of n documents in the manner of MSLR-WEB30K: 25 of each of five streams of
    text (body, anchor, title, URL, whole), and 11 of the page.

    Args:
        out: receives float32 ``[136, n]``, one feature per row.
        qualities: hidden qualities of the documents, float32 ``[6, n]``.
        intents: how much each quality matters to each of q queries, ``[q, 6]``.
        query: the query of each document, from 0 to q - 1.
        rng: source of random numbers.
    """
    n_streams = len(STREAMS)
    n_queries = intents.shape[0]
    query_terms = _draw_query_terms(intents, rng)
    # Each stream is a collection of its own, in which words are more or less rare; the body makes
    # up the whole.
    drift = 0.4 * rng.standard_normal((n_streams, n_queries))
    drift[0] = 0  # body
    drift[-1] = 0  # whole
    total_idf = (query_terms.idf * query_terms.is_asked).sum(axis=0)
    idf_of_stream = np.maximum(total_idf + drift, 0.1).astype(np.float32)

    terms = _terms_of_documents(query_terms, query)
    texts = [_draw_text(stream, terms, qualities, rng) for stream in _PARTS]
    texts.append(_whole_text(texts))
    # Features are ordered by family, and within a family by stream.
    for stream_number, text in enumerate(texts):
        features_of_stream = out[stream_number : len(_TEXT) : n_streams]
        _fill_stream(features_of_stream, text, terms)
    first_idf = _FAMILIES.index("idf") * n_streams
    out[first_idf : first_idf + n_streams] = idf_of_stream[:, query]

    _fill_page(out[len(_TEXT) :], qualities, rng)


def _draw_query_terms(intents: F64, rng: np.random.Generator) -> _QueryTerms:
    """Draw how many terms each query has, from 1 to 5, and how rare they are (idf).

    Queries that are after matching text are longer, those after something fresh use rarer words.
    """
    n_queries = intents.shape[0]
    # The constants are chosen so that lengths and idf resemble those of web queries.
    wordiness = 1.1 * rng.standard_exponential(n_queries)
    unrounded_lengths = 1 + 3 * intents[:, MATCH] + wordiness
    n_terms = np.clip(np.floor(unrounded_lengths), 1, _MOST_TERMS)

    rareness = 2 * rng.standard_normal((_MOST_TERMS, n_queries))
    mean_idf = 3 + 4 * intents[:, FRESH]
    idf = np.clip(mean_idf + rareness, 0.5, 14)

    term_numbers = np.arange(_MOST_TERMS)[:, None]
    is_asked = (term_numbers < n_terms).astype(np.float32)  # [terms, queries]: 1 or 0
    return _QueryTerms(n_terms, idf, is_asked)


def _terms_of_documents(terms: _QueryTerms, query: I64) -> _DocumentTerms:
    """Return for each document the terms of its query: their number, which they are, their weights
    (idf) and how rare they are.

    Args:
        terms: the terms of each query.
        query: number of each document's query.
    """
    is_asked = terms.is_asked[:, query]
    n_terms = terms.n_terms.astype(np.float32)
    idf = terms.idf.astype(np.float32)
    # An idf of 4 is usual; rarer terms occur less often in any text.
    rarity = (0.15 * (terms.idf - 4)).astype(np.float32)
    return _DocumentTerms(
        n_terms=n_terms[query],
        is_asked=is_asked,
        weights=idf[:, query] * is_asked,
        rarity=rarity[:, query],
    )


def _draw_text(
    stream: _Stream, terms: _DocumentTerms, qualities: F32, rng: np.random.Generator
) -> _Text:
    """Draw a text for each document, such as its title: its length, and how often it contains each
    term of the query.

    Args:
        stream: the kind of text (title, body, ...), and how long such texts are.
        terms: the terms of each document's query.
        qualities: hidden qualities of the documents, ``[6, documents]``.
        rng: source of random numbers.
    """
    length = _draw_lengths(stream, qualities, rng)
    counts = _draw_counts(stream, length, qualities, terms, rng)
    mean_length = np.exp(stream.typical + stream.width**2 / 2)  # of a log-normal distribution
    return _Text(counts, length, float(mean_length))


def _whole_text(parts: list[_Text]) -> _Text:
    """Return the whole text of documents: the term counts and lengths of its parts added up."""
    counts = sum(text.counts for text in parts)
    length = sum(text.length for text in parts)
    mean_length = sum(text.mean_length for text in parts)
    return _Text(np.asarray(counts), np.asarray(length), mean_length)


def _normal(rng: np.random.Generator, *shape: int) -> F32:
    return rng.standard_normal(shape, dtype=np.float32)


def _draw_lengths(stream: _Stream, qualities: F32, rng: np.random.Generator) -> F32:
    """Draw the number of words of a text, such as the title, for each document; 0 for documents
    without such a text.

    Lengths are log-normal; unpopular documents may have no text of that kind, as no anchor text.
    """
    n_documents = qualities.shape[1]
    log_length = stream.typical + stream.width * _normal(rng, n_documents)
    length = np.floor(np.exp(log_length))
    # `stream.absent` is the popularity below which there is no such text; -inf: all have it.
    popularity = qualities[POPULAR] + _normal(rng, n_documents)
    is_present = popularity > stream.absent
    return np.asarray(np.maximum(length, 1) * is_present, np.float32)


def _draw_counts(
    stream: _Stream,
    length: F32,
    qualities: F32,
    terms: _DocumentTerms,
    rng: np.random.Generator,
) -> F32:
    """Draw how often each term of the query occurs in a text of each document, ``[terms, n]``;
    all terms together at most as often as the text has words.

    Counts are log-normal, rounded down; their rate rises with the match of the document and with
    the length of the text.

    Args:
        stream: distribution of this kind of text, such as titles.
        length: number of words of each document's text.
        qualities: hidden qualities of the documents, ``[6, n]``.
        terms: the terms of each document's query.
        rng: source of random numbers.
    """
    rate = stream.rate + stream.match * qualities[MATCH]
    rate += stream.pushed * qualities[PUSHED]
    rate += stream.blur * _normal(rng, length.size)
    log_length = np.log(np.maximum(length, 1))
    rate += stream.slope * (log_length - stream.typical)

    spread = stream.spread * _normal(rng, _MOST_TERMS, length.size)
    logarithms = spread + rate.astype(np.float32) - terms.rarity
    counts: F32 = np.floor(np.exp(logarithms)) * terms.is_asked
    # A term has at most the words that the terms before it have left.
    words_left = length.copy()
    for term in range(_MOST_TERMS):
        counts[term] = np.minimum(counts[term], words_left)
        words_left -= counts[term]
    return counts


def _fill_stream(out: F32, text: _Text, terms: _DocumentTerms) -> None:
    """Write 24 of the 25 features of a text of each document, such as its title; row 3, the idf, is
    left to the caller.

    The rows are: covered query terms, their share, length, (idf), statistics of counts, of counts
    per word and of counts times idf, whether all terms are covered, cosine, BM25, and three
    language models.
    """
    per_word: F32 = np.reciprocal(np.maximum(text.length, 1))  # 1 where there is no text
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
    """Write five statistics of each document's values over the terms of its query: sum, smallest,
    largest, mean and variance.

    Args:
        out: receives ``[5, documents]``.
        values: ``[terms, documents]``, 0 for terms that the query does not have.
        terms: the terms of each document's query.
    """
    out[0] = values.sum(axis=0)
    # Terms that the query does not have must not be the smallest.
    out[1] = np.where(terms.is_asked > 0, values, np.inf).min(axis=0)
    out[2] = values.max(axis=0)
    out[3] = out[0] / terms.n_terms
    deviations = (values - out[3]) * terms.is_asked
    out[4] = (deviations * deviations).sum(axis=0) / terms.n_terms


def _vector_space(text: _Text, terms: _DocumentTerms, per_word: F32) -> F32:
    """Return the cosine similarity of each document and its query in idf weights; the norm of a
    document is taken to be the root of its number of words.

    Args:
        text: counts of the query's terms in the documents.
        terms: the terms of each document's query, with their idf.
        per_word: 1 over the number of words of each document.
    """
    idf = terms.weights
    query_norm = np.sqrt((idf * idf).sum(axis=0))
    scalar_product = (text.counts * idf * idf).sum(axis=0)
    return np.asarray(scalar_product * np.sqrt(per_word) / query_norm)


def _bm25(text: _Text, terms: _DocumentTerms) -> F32:
    """Return the BM25 score of each document:
    ``sum idf c (K1 + 1) / (c + K1 (1 - B + B length / mean length))`` over the counts c of the
    query's terms.

    ``K1`` bounds what many occurrences of a term add, ``B`` says how much long texts lose.
    """
    relative_length = _B * text.length / text.mean_length
    saturated = text.counts * (_K1 + 1)
    saturated /= text.counts + _K1 * ((1 - _B) + relative_length)
    return np.asarray((saturated * terms.weights).sum(axis=0))


def _fill_language_models(out: F32, text: _Text, terms: _DocumentTerms, per_word: F32) -> None:
    """Write the log likelihood of the query under three language models of each document: smoothed
    by absolute discounting, Dirichlet priors, and Jelinek-Mercer interpolation.

    Args:
        out: receives ``[3, documents]``.
        text: counts of the query's terms in the documents.
        terms: the terms of each document's query.
        per_word: 1 over the number of words of each document.
    """
    # In the collection a term of idf w makes up about exp(-w) / 100 of the words.
    background = np.exp(-terms.weights) * 0.01

    absolute = np.maximum(text.counts - _ABSOLUTE_DISCOUNT, 0) * per_word
    absolute += (_ABSOLUTE_DISCOUNT * _DISTINCT_SHARE) * background
    out[0] = _log_likelihood(np.minimum(absolute, 1), text, terms)

    dirichlet = text.counts + _DIRICHLET_MASS * background
    dirichlet /= text.length + _DIRICHLET_MASS
    out[1] = _log_likelihood(dirichlet, text, terms)

    interpolated = (1 - _JELINEK_WEIGHT) * text.counts * per_word
    interpolated += _JELINEK_WEIGHT * background
    out[2] = _log_likelihood(interpolated, text, terms)


def _log_likelihood(probabilities: Floats, text: _Text, terms: _DocumentTerms) -> F32:
    """Return the log likelihood of the query for each document: the sum of its terms' log
    probabilities; 0 for a document without words.
    """
    log_probabilities = np.log(probabilities) * terms.is_asked
    return np.asarray(log_probabilities.sum(axis=0) * (text.length > 0))


def _fill_page(out: F32, qualities: F32, rng: np.random.Generator) -> None:
    """Write the features of each page that do not depend on its text: address and links, ranks, and
    clicks, in the order of the names in `_PAGE`.

    Args:
        out: receives one feature per row.
        qualities: hidden qualities of the documents, ``[6, documents]``.
        rng: source of random numbers.
    """
    _fill_address_and_links(out[:4], qualities, rng)
    _fill_ranks(out[4:8], qualities, rng)
    _fill_clicks(out[8:], qualities, rng)


def _fill_address_and_links(out: F32, qualities: F32, rng: np.random.Generator) -> None:
    """Write four features of each page: slashes in its address, length of the address, number of
    links to the page, and number of links on it.

    Each is a rising function of hidden qualities blurred by noise; the constants give it values such
    as real pages have.

    Args:
        out: receives ``[4, documents]``.
        qualities: hidden qualities of the documents, ``[6, documents]``.
        rng: source of random numbers, for the noise.
    """
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
    """Write four features of each page: the ranks of page and site, from 0 to 65535, and two scores
    of quality, from 0 to 255.

    Each is a logistic function of hidden qualities blurred by noise.

    Args:
        out: receives ``[4, documents]``.
        qualities: hidden qualities of the documents, ``[6, documents]``.
        rng: source of random numbers, for the noise.
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
    """Write three features of each page: clicks of readers who asked this query, clicks of readers
    who asked any, and how long readers stay.

    Each rises with hidden qualities blurred by noise; the exponential makes few pages very popular.

    Args:
        out: receives ``[3, documents]``.
        qualities: hidden qualities of the documents, ``[6, documents]``.
        rng: source of random numbers, for the noise.
    """
    useful = qualities[USEFUL]
    for_query = _blurred(useful + 0.6 * qualities[MATCH], 0.8, rng)
    out[0] = np.floor(np.exp(1.3 * for_query - 2))
    for_any = _blurred(0.7 * useful + qualities[POPULAR], 0.9, rng)
    out[1] = np.floor(np.exp(1.6 * for_any - 1))
    dwell_time = np.exp(3 + 0.7 * _blurred(useful, 0.9, rng))
    out[2] = np.where(out[1] > 0, dwell_time, 0)  # nobody stays on a page without clicks


def _blurred(signal: F32, blur: float, rng: np.random.Generator) -> F32:
    """Return a signal with noise of some standard deviation."""
    return np.asarray(signal + blur * _normal(rng, signal.size), np.float32)
