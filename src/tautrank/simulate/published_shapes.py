"""The shapes of the published data sets: how long lists are, how labels are shared out, which features there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tautrank.arrays import F64
from tautrank.simulate.scaled_features import WIDTH, fill_scaled
from tautrank.simulate.text_match_features import NAMES, fill_text_match


@dataclass(frozen=True)
class Shape:
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
    """Log-normal list lengths: of 20,000 lists of mean 120 the longest has about 1,200 documents, as in WEB30K."""
    spread = 0.6
    return np.exp(rng.normal(np.log(mean) - spread**2 / 2, spread, n_queries))


def _gamma_lengths(rng: np.random.Generator, n_queries: int, mean: float) -> F64:
    """Gamma list lengths: of 20,000 lists of mean 24 the shortest has 1 document and the longest about 130."""
    return rng.gamma(3.0, mean / 3, n_queries)


# 982 of WEB30K's 31,531 queries and 1,135 of Yahoo!'s 29,921 have no relevant document (Bruch 2020, sec. 5.1); most of
# them are queries for which there is nothing to be found, the others found nothing among few documents.
MSLR = Shape(
    1, 120.0, log_normal_lengths, (0.515, 0.325, 0.134, 0.018, 0.008), 0.029, len(NAMES), NAMES, fill_text_match
)
YAHOO = Shape(2, 23.7, _gamma_lengths, (0.2192, 0.5022, 0.2230, 0.0388, 0.0168), 0.033, WIDTH, None, fill_scaled)

SHAPES = {"mslr": MSLR, "yahoo": YAHOO}
