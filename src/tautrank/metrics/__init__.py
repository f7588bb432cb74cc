"""Ranking metrics, tie policies and empty queries."""

from tautrank.metrics.base import (
    METRICS,
    BoundMetric,
    Evaluation,
    Metric,
    evaluate,
    metric,
    register,
)
from tautrank.metrics.cascade import ERR, MRR, Success
from tautrank.metrics.counts import AUC, MAP, BPref, RPrecision
from tautrank.metrics.gains import Discount, Gain, discount_values, gain_values
from tautrank.metrics.ordering import rank_order
from tautrank.metrics.other_tools import TOOLS
from tautrank.metrics.positional import (
    ARP,
    DCG,
    DCGRR,
    F1,
    NDCG,
    RBP,
    JudgedShare,
    LambdaRankMetric,
    Precision,
    Recall,
)
from tautrank.metrics.ranked import ListMetric

__all__ = [
    "ARP",
    "AUC",
    "DCG",
    "DCGRR",
    "ERR",
    "F1",
    "MAP",
    "METRICS",
    "MRR",
    "NDCG",
    "RBP",
    "TOOLS",
    "BPref",
    "BoundMetric",
    "Discount",
    "Evaluation",
    "Gain",
    "JudgedShare",
    "LambdaRankMetric",
    "ListMetric",
    "Metric",
    "Precision",
    "RPrecision",
    "Recall",
    "Success",
    "discount_values",
    "evaluate",
    "gain_values",
    "metric",
    "rank_order",
    "register",
]
