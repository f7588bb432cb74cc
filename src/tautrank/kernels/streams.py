"""What random numbers are for: the last word of the counter of `tautrank.kernels.randomness`, and
of a CUDA device.

The numbers of one stream do not depend on how many another one draws. Nothing here needs Numba.
"""

GAMMA_STREAM = 0
"""The stream of XE-NDCG's gammas."""

GUMBEL_STREAM = 1
"""The stream of the noise added to scores."""

RANKING_STREAM = 2
"""The stream of sampled rankings; sample ``s`` is stream ``RANKING_STREAM + 256 s``."""

SMOOTHING_STREAM = 3
"""The stream of the noise that smooths a metric; sample ``s`` is stream
``SMOOTHING_STREAM + 256 s``.
"""

TIES_STREAM = 4
"""The stream that chooses among equal labels at the end of the ideal top k."""

LANGEVIN_STREAM = 5
"""The stream of the noise that Langevin boosting adds to the gradients that a tree's structure is
grown for.
"""

LANGEVIN_LEAF_STREAM = 6
"""The stream of the noise that Langevin boosting adds to the sums of gradients that leaves are
filled from.
"""

NEIGHBOUR_STREAM = 7
"""The stream of the rankings of YetiLoss; sample ``s`` is stream ``NEIGHBOUR_STREAM + 256 s``."""

POLICY_STREAM = 8
"""The stream of the rankings of a Plackett-Luce policy; sample ``s`` is stream
``POLICY_STREAM + 256 s``.
"""
