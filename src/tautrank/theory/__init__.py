"""The papers' theorems as code: does a loss bound the metric, how tightly, how steep is it, does its training descend.

This room also measures how directly a loss optimises a metric, and what smoothing does to ties. `tautrank.checks`
checks a loss, one of your own included, against all of it.

Functions take a ranking problem as three flat arrays:

- ``scores``: one finite number per document,
- ``labels``: one finite number of at least 0 per document,
- ``offsets``: start of each query, and the number of documents at the end.
"""

from tautrank.theory.bound import Bound as Bound
from tautrank.theory.directness import Directness as Directness
from tautrank.theory.directness import Surrogate as Surrogate
from tautrank.theory.directness import best_scorings as best_scorings
from tautrank.theory.directness import directness as directness
from tautrank.theory.directness import directness_among as directness_among
from tautrank.theory.directness import spread_scorings as spread_scorings
from tautrank.theory.directness import surrogate as surrogate
from tautrank.theory.distributions import gamma_targets as gamma_targets
from tautrank.theory.distributions import log_softmax as log_softmax
from tautrank.theory.em import Iterations as Iterations
from tautrank.theory.em import descends as descends
from tautrank.theory.em import majorise_minimise as majorise_minimise
from tautrank.theory.gamma import BestGamma as BestGamma
from tautrank.theory.gamma import cross_entropy as cross_entropy
from tautrank.theory.gamma import gammas_of as gammas_of
from tautrank.theory.gamma import optimal_gamma as optimal_gamma
from tautrank.theory.gamma import smallest_jensen_gap as smallest_jensen_gap
from tautrank.theory.generalisation import generalisation_error as generalisation_error
from tautrank.theory.generalisation import log_box_covering as log_box_covering
from tautrank.theory.hessian import smallest_eigenvalue as smallest_eigenvalue
from tautrank.theory.hessian import spectral_gap as spectral_gap
from tautrank.theory.jensen import JensenClouds as JensenClouds
from tautrank.theory.jensen import jensen_clouds as jensen_clouds
from tautrank.theory.jensen import jensen_gap as jensen_gap
from tautrank.theory.lipschitz import Lipschitz as Lipschitz
from tautrank.theory.lipschitz import lipschitz as lipschitz
from tautrank.theory.pairwise_bounds import lambdaloss_bound as lambdaloss_bound
from tautrank.theory.pairwise_bounds import lambdarank_metric_bound as lambdarank_metric_bound
from tautrank.theory.pairwise_bounds import ndcg_cost as ndcg_cost
from tautrank.theory.pairwise_bounds import ndcg_cost_bound as ndcg_cost_bound
from tautrank.theory.smoothing_bias import ConsistentSmoothing as ConsistentSmoothing
from tautrank.theory.smoothing_bias import Smoothed as Smoothed
from tautrank.theory.smoothing_bias import consistent_smoothing as consistent_smoothing
from tautrank.theory.smoothing_bias import smoothed_metric as smoothed_metric
from tautrank.theory.smoothing_bias import smoothing_limit as smoothing_limit
from tautrank.theory.softmax_bounds import softmax_mrr_bound as softmax_mrr_bound
from tautrank.theory.softmax_bounds import softmax_ndcg_bound as softmax_ndcg_bound
from tautrank.theory.softmax_bounds import targets_of as targets_of
from tautrank.theory.softmax_bounds import xe_ndcg_bound as xe_ndcg_bound
from tautrank.theory.softrank_bounds import SoftRankCurve as SoftRankCurve
from tautrank.theory.softrank_bounds import softrank_bound as softrank_bound
from tautrank.theory.softrank_bounds import softrank_bound_as_stated as softrank_bound_as_stated
from tautrank.theory.softrank_bounds import softrank_curve as softrank_curve
from tautrank.theory.softrank_bounds import softrank_ndcg_bound as softrank_ndcg_bound
from tautrank.theory.softrank_bounds import softrank_sigma_limit as softrank_sigma_limit
from tautrank.theory.softrank_bounds import softrank_sigma_limit_as_stated as softrank_sigma_limit_as_stated
