"""Synthetic data: a web search engine whose queries, lists and features resemble the published data
sets, and toy data.

With ``like``, data in the shape of a published data set is generated in blocks of queries: each
block from a key of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tautrank.arguments import job_count, real, whole
from tautrank.arrays import F32, F64, I64
from tautrank.data import RankingData
from tautrank.data.queries import offsets_from_sizes
from tautrank.errors import OptionError
from tautrank.simulate.perturbations import checked_seed
from tautrank.simulate.qualities import (
    QUALITIES,
    draw_intents,
    draw_plenty,
    draw_qualities,
    logistic,
    utility,
)
from tautrank.simulate.shapes import (
    LABEL_SHARES,
    MSLR,
    SHAPES,
    Size,
    log_normal_lengths,
    simulate_shape,
)
from tautrank.simulate.text_match import STREAMS

_FEWEST_FEATURES = 16


def five_documents() -> RankingData:
    """Return the synthetic set of StochasticRank's Table 1.

    Query 1 has labels (3, 2, 1) for the features (1,0,0), (0,1,0), (0,0,1); query 2 has labels (3,
    2) for (0,0,1) and (1,0,0). Any model gives three scores a, b, c, one for each unit vector:
    query 1 wants a > b > c, query 2 wants c > a, and no model can have both. Of the six orders a >
    b > c has the best mean NDCG@3, .917; a > c > b, which has more pairs right, has .903.

    Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete
    Functions*, ICML 2020, sec. 7.1.

    >>> from tautrank.metrics import metric
    >>> data = five_documents()
    >>> for a, b, c in ((3, 2, 1), (3, 1, 2)):
    ...     scores = data.X @ [a, b, c]
    ...     print(round(metric("ndcg@3").mean(scores, data), 3))
    0.917
    0.903
    """
    X = np.eye(3, dtype=np.float32)[[0, 1, 2, 2, 0]]
    return RankingData.from_arrays(X, [3, 2, 1, 3, 2], group=[3, 2])


def simulate_web_search(
    n_queries: int = 1000,
    *,
    n_features: int | None = None,
    mean_length: float | None = None,
    noise: float = 0.8,
    seed: int = 0,
    like: str | None = None,
    return_truth: bool = False,
    n_jobs: int | None = None,
) -> Any:
    """Generate web search data with known truth: heavy-tailed features, graded labels, lists of
    many lengths.

    Every document has hidden qualities (how well it matches, how popular, how fresh, how spammy it
    is, ...), every query an intent that says which of them matter. The truth, how relevant a
    document is, is a nonlinear function of both; a judge sees ``truth + noise * Normal(0, 1)`` and
    cuts it into the labels 0 to 4. Labels are independent given the truth, and higher truth makes
    every higher label more likely, so ranking by the truth has the highest possible expected DCG at
    any cutoff. The difference to it is what a model of the features misses.

    The shapes:

    - ``like="mslr"`` is MSLR-WEB30K: 120 documents per query, half of the labels 0, and its 136
      features by name, computed from synthetic term counts, lengths, links and clicks (Qin and Liu,
      2013).
    - ``like="yahoo"`` is the Yahoo! Learning to Rank Challenge, set 1: 24 documents per query, half
      of the labels 1, and 519 features from 0 to 1, some with few levels, some known for few
      documents, 30 the same for a whole query, 18 copies of others; ``n_features=700`` adds the
      empty columns of the published files (Chapelle and Chang, 2011).
    - ``None`` is a simpler relative of the first, with features of eight kinds in turn. All queries
      are generated at once, the labels have exactly WEB30K's shares, and the columns mean something
      else for every seed.

    With ``like``, data is generated in blocks of queries directly into the result, so that any size
    needs little more memory than the result; the first queries are the same whatever their number;
    and the columns mean the same for every seed, so a model trained on ``seed=0`` can be tested on
    ``seed=1``.

    Args:
        n_queries: number of queries; WEB30K's training part has 18,919, Yahoo!'s 19,944.
        n_features: number of features, at least 16; default those of the shape, 136 or 519. Fewer
            are a fixed choice of them, more are columns of zeros; with ``like=None`` there are as
            many of each kind as it takes.
        mean_length: mean number of documents of a query; default that of the shape, 120 or 23.7.
        noise: standard deviation of the judges' noise, where the truth has standard deviation 1
            (not counting, with ``like``, the few queries for which there is nothing to be found:
            their truth is far below all others).
        seed: the same seed gives the same data.
        like: ``"mslr"``, ``"yahoo"`` or None.
        return_truth: return (data, truth), the truth as float64, one per document.
        n_jobs: threads to use with ``like``; the data does not depend on it. Default all cores of
            this process.

    >>> data = simulate_web_search(50, n_features=20, seed=1)
    >>> data.n_queries, data.n_features, sorted(set(data.labels.tolist()))[:2]
    (50, 20, [0.0, 1.0])

    >>> data, truth = simulate_web_search(50, like="yahoo", return_truth=True)
    >>> data.n_features, truth.shape == data.labels.shape, bool(data.X.min() >= 0 and data.X.max() <= 1)
    (519, True, True)
    """
    if like not in (None, *SHAPES):
        raise OptionError(f"like: found {like!r}; expected 'mslr', 'yahoo' or None")
    shape = MSLR if like is None else SHAPES[like]
    n_queries = whole("n_queries", n_queries, 1)
    if n_features is None:
        n_features = shape.n_features
    else:
        n_features = whole("n_features", n_features, _FEWEST_FEATURES)
    if mean_length is None:
        mean_length = shape.mean_length
    else:
        mean_length = real("mean_length", mean_length, 2.0)
    size = Size(n_queries, n_features, mean_length)
    noise = real("noise", noise)
    seed = checked_seed(seed)
    n_threads = job_count(n_jobs)

    if like is None:
        data, truth = _simulate_at_once(size, noise, seed)
    else:
        data, truth = simulate_shape(shape, size, noise=noise, seed=seed, n_threads=n_threads)
    return (data, truth) if return_truth else data


def _simulate_at_once(size: Size, noise: float, seed: int) -> tuple[RankingData, F64]:
    """Generate ranking data with one source of random numbers for all queries; return it with the
    true relevance of its documents.

    Labels are cut at quantiles of this data's judged relevance, so their shares are exact.

    Args:
        size: numbers of queries and features, and mean length of lists.
        noise: standard deviation of the judges' noise.
        seed: seed of all random numbers.
    """
    rng = np.random.default_rng(seed)
    lengths = np.rint(log_normal_lengths(rng, size.n_queries, size.mean_length))
    sizes = np.maximum(2, lengths).astype(np.int64)
    query = np.repeat(np.arange(size.n_queries), sizes)

    qualities = draw_qualities(query, size.n_queries, rng)
    intent = draw_intents(size.n_queries, rng)[query]
    plenty = draw_plenty(size.n_queries, rng)[query]
    relevance = utility(qualities, intent) + plenty
    deviation = relevance.std()
    if deviation == 0:  # a single document
        deviation = 1.0
    truth = (relevance - relevance.mean()) / deviation

    judged = truth + noise * rng.standard_normal(query.size)
    cuts = np.quantile(judged, np.cumsum(LABEL_SHARES)[:-1])
    labels = np.searchsorted(cuts, judged, side="right").astype(np.float32)

    X = _draw_features(qualities, intent, query, size, rng)
    offsets = offsets_from_sizes(sizes)
    return RankingData(X, labels, offsets, np.arange(size.n_queries)), truth


# Kinds of features, in turn.
_KINDS = (
    "count of terms",
    "text score",
    "text score",
    "size",
    "property of the query",
    "ratio",
    "log probability",
    "irrelevant",
)
# Shares of the documents that have no such stream of text: features of it are 0.
_ABSENT = np.array([0.0, 0.45, 0.05, 0.3, 0.0])


def _draw_features(
    qualities: F64, intent: F64, query: I64, size: Size, rng: np.random.Generator
) -> F32:
    """Draw the features of documents, ``[documents, features]``: columns of eight kinds in turn,
    each of which sees one hidden quality of the document through noise.

    Args:
        qualities: hidden qualities, ``[documents, 6]``.
        intent: what each document's query is after, ``[documents, 6]``.
        query: number of each document's query.
        size: numbers of queries and features.
        rng: source of random numbers.
    """
    n_documents = query.size
    X = np.empty((n_documents, size.n_features), np.float32)
    is_absent = rng.random((n_documents, len(STREAMS))) < _ABSENT
    for column in range(size.n_features):
        quality = rng.integers(QUALITIES)
        # Drawn for every kind, so that the columns behind one do not depend on its kind.
        blur = rng.uniform(0.5, 2.5)
        signal = qualities[:, quality] + blur * rng.standard_normal(n_documents)
        kind = _KINDS[column % len(_KINDS)]
        if kind == "property of the query":  # what it is after, the same for all its documents
            noise = 0.05 * rng.standard_normal(size.n_queries)
            values = intent[:, quality] + noise[query]
        elif kind == "irrelevant":
            values = np.exp(rng.standard_normal(n_documents))
        else:
            values = _from_signal(kind, signal, rng)
            stream = column % len(STREAMS)  # of text, which some documents do not have
            values[is_absent[:, stream]] = 0.0
        X[:, column] = np.round(values, 6)
    return X


def _from_signal(kind: str, signal: F64, rng: np.random.Generator) -> F64:
    """Return the values of a feature of some kind for each document: a rising function of a normal
    signal, which gives the values the range and tails that real features of this kind have.

    Args:
        kind: such as ``"text score"`` or ``"ratio"``.
        signal: one number per document.
        rng: source of random numbers, for the scale of a feature of kind ``"size"``.
    """
    if kind == "count of terms":
        return np.asarray(np.floor(np.exp(0.9 * signal + 1.0)))
    if kind == "text score":  # as of BM25: never negative, a long tail
        return np.asarray(np.logaddexp(0, 1.5 * signal) * 8)
    if kind == "size":  # also counts of links: tails over several orders of magnitude
        return np.asarray(np.exp(1.8 * signal + rng.uniform(2, 6)))
    if kind == "ratio":
        return np.asarray(logistic(signal))
    return np.asarray(-20 + 4 * signal)  # log probabilities of a language model
