"""Losses: what a booster minimises so that a ranking metric rises.

`loss` makes one by name; each name is also a class here. See `Loss.bind` for what to do with it.
"""

from tautrank.losses.base import REGISTRY, Frozen, Loss, Objective, loss, register
from tautrank.losses.list_loss import ListLoss
from tautrank.losses.pairwise import (
    ARPLoss1,
    ARPLoss2,
    LambdaLoss,
    LambdaRank,
    NDCGLoss1,
    NDCGLoss2,
    NDCGLoss2PP,
    RankNet,
)
from tautrank.losses.pointwise import MSE
from tautrank.losses.sampled import PLRank, SampledLoss, YetiLoss
from tautrank.losses.smooth_ndcg import ApproxNDCG, NeuralNDCG, SmoothNDCG
from tautrank.losses.softmax import XENDCG, ListNet, SoftmaxLoss
from tautrank.losses.softrank import SoftRank
from tautrank.losses.stochastic import Reinforce, ScaleFreeMetric, SmoothedLoss, StochasticRank

__all__ = [
    "MSE",
    "REGISTRY",
    "XENDCG",
    "ARPLoss1",
    "ARPLoss2",
    "ApproxNDCG",
    "Frozen",
    "LambdaLoss",
    "LambdaRank",
    "ListLoss",
    "ListNet",
    "Loss",
    "NDCGLoss1",
    "NDCGLoss2",
    "NDCGLoss2PP",
    "NeuralNDCG",
    "Objective",
    "PLRank",
    "RankNet",
    "Reinforce",
    "SampledLoss",
    "ScaleFreeMetric",
    "SmoothNDCG",
    "SmoothedLoss",
    "SoftRank",
    "SoftmaxLoss",
    "StochasticRank",
    "YetiLoss",
    "loss",
    "register",
]
