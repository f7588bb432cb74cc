"""The estimator and its model file."""

from tautrank.ranker.estimator import Ranker

__all__ = ["Ranker"]
