"""The scikit-learn estimator and its model file."""

from tautrank.ranker.estimator import Ranker
from tautrank.ranker.list_features import ListFeatures
from tautrank.ranker.ranking import Ranking

__all__ = ["ListFeatures", "Ranker", "Ranking"]
