"""The scikit-learn estimator, what it answers, and its model file.

`Ranker` is in `tautrank.ranker.estimator`: it needs scikit-learn, which takes a second to import.
"""

from tautrank.ranker.answers import Ranking
from tautrank.ranker.list_features import ListFeatures

__all__ = ["ListFeatures", "Ranking"]
