"""Two queries, five documents, several local optima: the smallest set on which ranking losses disagree."""

from __future__ import annotations

import numpy as np

from tautrank.data import RankingData


def five_documents() -> RankingData:
    """Return the synthetic set of StochasticRank's Table 1.

    Query 1 has labels (3, 2, 1) for the features (1,0,0), (0,1,0), (0,0,1); query 2 has labels (3, 2) for (0,0,1) and
    (1,0,0). Any model gives three scores a, b, c, one for each unit vector: query 1 wants a > b > c, query 2 wants
    c > a, and both cannot be had. Of the six orders a > b > c has the best mean NDCG@3, .917; a > c > b, a compromise
    that pleases more pairs, has .903.

    Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020,
    sec. 7.1.

    >>> from tautrank.metrics import metric
    >>> data = five_documents()
    >>> for a, b, c in ((3, 2, 1), (3, 1, 2)):
    ...     scores = data.X @ [a, b, c]
    ...     print(round(metric("ndcg@3").mean(scores, data.labels, data.offsets), 3))
    0.917
    0.903
    """
    one, two, three = np.eye(3, dtype=np.float32)
    return RankingData.from_arrays(
        np.stack([one, two, three, three, one]), np.array([3.0, 2.0, 1.0, 3.0, 2.0]), group=[3, 2]
    )
