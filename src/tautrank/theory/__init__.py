"""The papers' theorems as code: does a loss bound the metric, how tightly, how steep is it, does its training descend.

How directly a loss optimises a metric and what smoothing does to ties stand here as well. `check_claims` checks a loss,
one of your own included, against everything that is claimed of it; `check_losses` checks many.
"""

from __future__ import annotations

from tautrank.theory.bound import Bound
from tautrank.theory.directness import (
    Directness,
    Surrogate,
    best_scorings,
    directness,
    directness_among,
    directness_table,
    spread_scorings,
    surrogate,
)
from tautrank.theory.distributions import gamma_targets, log_softmax
from tautrank.theory.em import Iterations, descends, majorise_minimise
from tautrank.theory.gamma import BestGamma, cross_entropy, gammas_of, optimal_gamma, smallest_jensen_gap
from tautrank.theory.generalisation import (
    generalisation_error,
    generalisation_probability,
    generalisation_probability_as_stated,
    log_box_covering,
)
from tautrank.theory.hessian import NewtonSteps, newton_steps, smallest_eigenvalue, spectral_gap
from tautrank.theory.jensen import JensenClouds, jensen_clouds, jensen_gap
from tautrank.theory.lipschitz import Lipschitz, lipschitz, steepest_secant
from tautrank.theory.pairwise_bounds import lambdaloss_bound, lambdarank_metric_bound, ndcg_cost, ndcg_cost_bound
from tautrank.theory.smoothing_bias import (
    ConsistentSmoothing,
    Smoothed,
    consistent_smoothing,
    flipped_pairs,
    smallest_shift,
    smoothed_metric,
    smoothing_bias_bound,
    smoothing_limit,
)
from tautrank.theory.softmax_bounds import (
    softmax_mrr_bound,
    softmax_ndcg_bound,
    targets_of,
    xe_ndcg_bound,
    xe_ndcg_refined_bound,
)
from tautrank.theory.softrank_bounds import (
    SoftRankCurve,
    SoftRanks,
    soft_ranks,
    softrank_bound,
    softrank_bound_as_stated,
    softrank_curve,
    softrank_ndcg_bound,
    softrank_sigma_limit,
    softrank_sigma_limit_as_stated,
)

__all__ = [
    "BestGamma",
    "Bound",
    "ConsistentSmoothing",
    "Directness",
    "Iterations",
    "JensenClouds",
    "Lipschitz",
    "NewtonSteps",
    "Smoothed",
    "SoftRankCurve",
    "SoftRanks",
    "Surrogate",
    "best_scorings",
    "consistent_smoothing",
    "cross_entropy",
    "descends",
    "directness",
    "directness_among",
    "directness_table",
    "flipped_pairs",
    "gamma_targets",
    "gammas_of",
    "generalisation_error",
    "generalisation_probability",
    "generalisation_probability_as_stated",
    "jensen_clouds",
    "jensen_gap",
    "lambdaloss_bound",
    "lambdarank_metric_bound",
    "lipschitz",
    "log_box_covering",
    "log_softmax",
    "majorise_minimise",
    "ndcg_cost",
    "ndcg_cost_bound",
    "newton_steps",
    "optimal_gamma",
    "smallest_eigenvalue",
    "smallest_jensen_gap",
    "smallest_shift",
    "smoothed_metric",
    "smoothing_bias_bound",
    "smoothing_limit",
    "soft_ranks",
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
    "steepest_secant",
    "surrogate",
    "targets_of",
    "xe_ndcg_bound",
    "xe_ndcg_refined_bound",
]
