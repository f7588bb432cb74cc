"""Ranking metrics, tie policies and empty queries."""

from tautrank.metrics.average_precision import MAP
from tautrank.metrics.base import METRICS, BoundMetric, Metric, metric, register
from tautrank.metrics.cascade import ERR, MRR
from tautrank.metrics.gains import Discount, Gain, discount_values, gain_values
from tautrank.metrics.ordering import rank_order
from tautrank.metrics.positional import ARP, DCG, NDCG, LambdaRankMetric, Precision, Recall
from tautrank.metrics.selection import DCGRR

__all__ = [
    "ARP",
    "DCG",
    "DCGRR",
    "ERR",
    "MAP",
    "METRICS",
    "MRR",
    "NDCG",
    "BoundMetric",
    "Discount",
    "Gain",
    "LambdaRankMetric",
    "Metric",
    "Precision",
    "Recall",
    "discount_values",
    "gain_values",
    "metric",
    "rank_order",
    "register",
]
