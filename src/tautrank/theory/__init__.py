"""The papers' theorems as code: does a loss bound the metric, how tightly, how steep is it, does its training descend.

`check_claims` checks a loss, one of your own included, against everything that is claimed of it.
"""

from __future__ import annotations

from tautrank.theory.bound import Bound
from tautrank.theory.claims import CLAIMS, Claim, Outcome, check_claims, claim
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
from tautrank.theory.pairwise_bounds import (
    lambdaloss_bound,
    lambdarank_metric_bound,
    ndcg_cost,
    ndcg_cost_bound,
)
from tautrank.theory.softmax_bounds import (
    softmax_mrr_bound,
    softmax_ndcg_bound,
    targets_of,
    xe_ndcg_bound,
    xe_ndcg_refined_bound,
)

__all__ = [
    "CLAIMS",
    "BestGamma",
    "Bound",
    "Claim",
    "Iterations",
    "JensenClouds",
    "Lipschitz",
    "NewtonSteps",
    "Outcome",
    "check_claims",
    "claim",
    "cross_entropy",
    "descends",
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
    "softmax_mrr_bound",
    "softmax_ndcg_bound",
    "spectral_gap",
    "steepest_secant",
    "targets_of",
    "xe_ndcg_bound",
    "xe_ndcg_refined_bound",
]
