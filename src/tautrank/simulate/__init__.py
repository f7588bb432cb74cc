"""Synthetic web search with known truth, perturbations of real data, and the papers' toy data.

`simulate_web_search` generates data in the shape of MSLR-WEB30K or Yahoo!. `add_negatives`,
`perturb_labels`, `simulate_clicks`, `simulate_position_clicks` and `binarise` perturb any data by
longer lists, mistakes of judges, clicks of users or binary judgments; they are pure functions of
the data, their parameters and a seed.
"""

from tautrank.simulate.clicks import simulate_clicks, simulate_position_clicks
from tautrank.simulate.perturbations import add_negatives, binarise, perturb_labels
from tautrank.simulate.web_search import five_documents, simulate_web_search

__all__ = [
    "add_negatives",
    "binarise",
    "five_documents",
    "perturb_labels",
    "simulate_clicks",
    "simulate_position_clicks",
    "simulate_web_search",
]
