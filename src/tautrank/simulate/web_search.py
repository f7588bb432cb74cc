"""A synthetic web search engine: queries, result lists and features with the habits of the published data sets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tautrank.data import RankingData
from tautrank.data.grouping import offsets_from_sizes
from tautrank.errors import OptionError

# Shares of the labels 0 to 4 in MSLR-WEB30K.
LABEL_SHARES = (0.515, 0.325, 0.134, 0.018, 0.008)
_STREAMS = 5  # body, anchor, title, URL, whole document
_LATENT = 6


def simulate_web_search(
    n_queries: int = 1000, *, n_features: int = 136, mean_length: float = 120.0, noise: float = 0.8, seed: int = 0
) -> RankingData:
    """Make a web-search data set in the manner of MSLR: heavy-tailed features, graded labels, lists of many lengths.

    Every document has hidden qualities (how well it matches, how popular, how fresh, how spammy it is, ...), every
    query an intent that says which of them matter. The utility of a document is a nonlinear function of both, plus
    noise; labels 0 to 4 cut it at the shares MSLR-WEB30K has, and queries differ in how much there is to be found, so
    a few have no relevant document at all. Features see the hidden qualities through one stream of text each, as
    counts, heavy-tailed scores, per-query constants and noise columns; a stream may be absent (its features are 0).

    Args:
        n_queries: number of queries.
        n_features: number of features, at least 16.
        mean_length: mean number of documents of a query; lengths follow a log-normal law and are at least 2.
        noise: standard deviation of the judges' noise, beside a utility of standard deviation 1.
        seed: the same seed gives the same data.

    >>> data = simulate_web_search(50, n_features=20, seed=1)
    >>> data.n_queries, data.n_features, sorted(set(data.labels.tolist()))[:2]
    (50, 20, [0.0, 1.0])
    """
    if n_queries < 1 or n_features < 16 or mean_length < 2 or not noise >= 0:
        raise OptionError(
            f"found n_queries={n_queries}, n_features={n_features}, mean_length={mean_length}, noise={noise}; "
            "expected at least 1, 16, 2 and 0"
        )
    rng = np.random.default_rng(seed)
    spread = 0.6
    lengths = np.exp(rng.normal(np.log(mean_length) - spread**2 / 2, spread, n_queries))
    sizes = np.maximum(2, np.rint(lengths)).astype(np.int64)
    offsets, qids = offsets_from_sizes(sizes)
    query = np.repeat(np.arange(n_queries), sizes)

    latent = rng.standard_normal((query.size, _LATENT)) + 0.5 * rng.standard_normal((n_queries, _LATENT))[query]
    intent = rng.dirichlet(np.ones(_LATENT) * 1.5, n_queries)[query]
    labels = _labels(_utility(latent, intent, query, n_queries, rng) + noise * rng.standard_normal(query.size))
    return RankingData(_features(latent, intent, query, n_queries, n_features, rng), labels, offsets, qids)


def _utility(
    latent: npt.NDArray[np.float64],
    intent: npt.NDArray[np.float64],
    query: npt.NDArray[np.int64],
    n_queries: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """Standardised: qualities weighted by intent, a matching document that is popular counts extra, spam sinks."""
    match, popular, spam = latent[:, 0], latent[:, 1], latent[:, 2]
    weighted = 2.0 * (np.tanh(latent) * intent).sum(axis=1)
    together = 0.8 * np.maximum(match, 0) * (popular > 0.3)
    sunk = -1.5 * (spam > 1.2)
    # What there is to be found for a query: mostly similar, sometimes next to nothing.
    difficulty = (0.5 - 0.7 * rng.standard_exponential(n_queries))[query]
    utility = weighted + together + sunk + difficulty
    return np.asarray((utility - utility.mean()) / (utility.std() or 1.0))


def _labels(utility: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    cuts = np.quantile(utility, np.cumsum(LABEL_SHARES)[:-1])
    return np.searchsorted(cuts, utility, side="right").astype(np.float32)


def _features(
    latent: npt.NDArray[np.float64],
    intent: npt.NDArray[np.float64],
    query: npt.NDArray[np.int64],
    n_queries: int,
    n_features: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    X = np.empty((query.size, n_features), np.float32)
    absent = rng.random((query.size, _STREAMS)) < np.array([0.0, 0.45, 0.05, 0.3, 0.0])
    for column in range(n_features):
        quality = rng.integers(_LATENT)
        stream = column % _STREAMS
        blur = rng.uniform(0.5, 2.5)
        signal = latent[:, quality] + blur * rng.standard_normal(query.size)
        kind = column % 8
        if kind == 0:  # counts of terms
            values = np.floor(np.exp(0.9 * signal + 1.0))
        elif kind in (1, 2):  # BM25-like scores: never negative, a long tail
            values = np.logaddexp(0, 1.5 * signal) * 8
        elif kind == 3:  # sizes and link counts: tails over several orders of magnitude
            values = np.exp(1.8 * signal + rng.uniform(2, 6))
        elif kind == 4:  # a property of the query, the same for all its documents: what it is after
            values = intent[:, quality] + 0.05 * rng.standard_normal(n_queries)[query]
        elif kind == 5:  # ratios in [0, 1]
            values = 1 / (1 + np.exp(-signal))
        elif kind == 6:  # language-model log probabilities
            values = -20 + 4 * signal
        else:  # nothing to do with relevance
            values = np.exp(rng.standard_normal(query.size))
        if kind not in (4, 7):
            values = np.where(absent[:, stream], 0.0, values)
        X[:, column] = np.round(values, 6)
    return X
