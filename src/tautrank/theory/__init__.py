"""The papers' theorems as code: does a loss bound the metric, how tightly, how steep is it, does
its training descend.

This room also measures how directly a loss optimises a metric, and what smoothing does to ties.
`tautrank.checks` checks a loss, one of your own included, against all of it.

Functions take a ranking problem as ``scores``, one finite number per document, and ``lists``, the
labelled lists of these documents: `Lists`, `RankingData`, or the labels of a single list.
"""

from tautrank.theory.directness import (
    Directness,
    Surrogate,
    directness,
    directness_among,
    spread_scorings,
    surrogate,
)
from tautrank.theory.gamma import (
    BestGamma,
    JensenClouds,
    jensen_clouds,
    jensen_gap,
    optimal_gamma,
    smallest_jensen_gap,
)
from tautrank.theory.lipschitz import Lipschitz, generalisation_error, lipschitz, log_box_covering
from tautrank.theory.loss_bounds import (
    lambdaloss_bound,
    lambdarank_metric_bound,
    ndcg_cost_bound,
    softmax_mrr_bound,
    softmax_ndcg_bound,
    xe_ndcg_bound,
)
from tautrank.theory.minimising import (
    Iterations,
    descends,
    majorise_minimise,
    smallest_eigenvalue,
    spectral_gap,
)
from tautrank.theory.softrank_bounds import (
    SoftRankCurve,
    softrank_bound,
    softrank_bound_as_stated,
    softrank_curve,
    softrank_ndcg_bound,
    softrank_sigma_limit,
    softrank_sigma_limit_as_stated,
)
from tautrank.theory.theorem import Bound
from tautrank.theory.ties import (
    ConsistentSmoothing,
    Smoothed,
    consistent_smoothing,
    smoothed_metric,
    smoothing_limit,
)

__all__ = [
    "BestGamma",
    "Bound",
    "ConsistentSmoothing",
    "Directness",
    "Iterations",
    "JensenClouds",
    "Lipschitz",
    "Smoothed",
    "SoftRankCurve",
    "Surrogate",
    "consistent_smoothing",
    "descends",
    "directness",
    "directness_among",
    "generalisation_error",
    "jensen_clouds",
    "jensen_gap",
    "lambdaloss_bound",
    "lambdarank_metric_bound",
    "lipschitz",
    "log_box_covering",
    "majorise_minimise",
    "ndcg_cost_bound",
    "optimal_gamma",
    "smallest_eigenvalue",
    "smallest_jensen_gap",
    "smoothed_metric",
    "smoothing_limit",
    "softmax_mrr_bound",
    "softmax_ndcg_bound",
    "softrank_bound",
    "softrank_bound_as_stated",
    "softrank_curve",
    "softrank_ndcg_bound",
    "softrank_sigma_limit",
    "softrank_sigma_limit_as_stated",
    "spectral_gap",
    "spread_scorings",
    "surrogate",
    "xe_ndcg_bound",
]
