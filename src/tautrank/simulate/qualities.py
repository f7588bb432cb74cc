"""The hidden truth of synthetic web search: qualities of documents, intents of queries, relevance."""

from __future__ import annotations

import numpy as np

from tautrank.arrays import F64, I64, Floats

# The hidden qualities of a document: how well its text matches, how popular it is, how hard its
# author pushes it (too hard is spam), how fresh it is, how far its site is trusted, how useful its
# readers find it.
MATCH, POPULAR, PUSHED, FRESH, TRUSTED, USEFUL = range(6)
QUALITIES = 6


def draw_qualities(query: I64, n_queries: int, rng: np.random.Generator) -> F64:
    """Draw ``[n, 6]`` hidden qualities of documents: a standard normal number each, and half of
    another one that all documents of a query share.

    Args:
        query: number of each document's query.
        n_queries: number of queries.
        rng: source of random numbers.
    """
    document_draws = rng.standard_normal((query.size, QUALITIES))
    query_draws = rng.standard_normal((n_queries, QUALITIES))
    return np.asarray(document_draws + 0.5 * query_draws[query])


def draw_intents(n_queries: int, rng: np.random.Generator) -> F64:
    """Draw ``[q, 6]`` weights that sum to 1: how much each quality matters to a query."""
    return rng.dirichlet(np.ones(QUALITIES) * 1.5, n_queries)


def draw_plenty(n_queries: int, rng: np.random.Generator) -> F64:
    """Draw how much there is to be found for each query: mostly similar amounts, sometimes next to
    nothing.
    """
    return np.asarray(0.5 - 0.7 * rng.standard_exponential(n_queries))


def utility(qualities: F64, intent: F64) -> F64:
    """Return the relevance of documents: their qualities weighted by what the query is after, with a
    bonus for matching documents that are popular and a loss for spam.

    With ``q_k`` the qualities and ``w_k`` the weights:
    ``2 sum_k tanh(q_k) w_k + 0.8 max(match, 0) [popular > 0.3] - 1.5 [pushed > 1.2]``

    Args:
        qualities: ``[n, 6]``.
        intent: ``[n, 6]``, the intent of each document's query.

    >>> float(utility(np.zeros((1, 6)), np.full((1, 6), 1 / 6))[0])
    0.0
    """
    weighted = 2.0 * (np.tanh(qualities) * intent).sum(axis=1)
    is_popular = qualities[:, POPULAR] > 0.3
    match = np.maximum(qualities[:, MATCH], 0)
    bonus = 0.8 * match * is_popular
    is_spam = qualities[:, PUSHED] > 1.2
    spam_penalty = -1.5 * is_spam
    return np.asarray(weighted + bonus + spam_penalty)


def logistic(signal: Floats) -> Floats:
    """Return ``1 / (1 + exp(-signal))``, in the precision of the signal.

    >>> logistic(np.zeros(1))
    array([0.5])
    """
    return np.asarray(1 / (1 + np.exp(-signal)))
