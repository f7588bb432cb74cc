"""Losses: what a booster minimises so that a ranking metric rises.

`loss` makes one by name; each name is also a class here. See `Loss.bind` for what to do with it.
"""

from tautrank.losses.base import REGISTRY as REGISTRY
from tautrank.losses.base import Frozen as Frozen
from tautrank.losses.base import Loss as Loss
from tautrank.losses.base import Objective as Objective
from tautrank.losses.base import loss as loss
from tautrank.losses.base import register as register
from tautrank.losses.list_loss import ListLoss as ListLoss
from tautrank.losses.pairwise import ARPLoss1 as ARPLoss1
from tautrank.losses.pairwise import ARPLoss2 as ARPLoss2
from tautrank.losses.pairwise import LambdaLoss as LambdaLoss
from tautrank.losses.pairwise import LambdaRank as LambdaRank
from tautrank.losses.pairwise import NDCGLoss1 as NDCGLoss1
from tautrank.losses.pairwise import NDCGLoss2 as NDCGLoss2
from tautrank.losses.pairwise import NDCGLoss2PP as NDCGLoss2PP
from tautrank.losses.pairwise import RankNet as RankNet
from tautrank.losses.pointwise import MSE as MSE
from tautrank.losses.sampled import PLRank as PLRank
from tautrank.losses.sampled import SampledLoss as SampledLoss
from tautrank.losses.sampled import YetiLoss as YetiLoss
from tautrank.losses.scale_free import ScaleFreeMetric as ScaleFreeMetric
from tautrank.losses.smooth_ndcg import ApproxNDCG as ApproxNDCG
from tautrank.losses.smooth_ndcg import NeuralNDCG as NeuralNDCG
from tautrank.losses.smooth_ndcg import SmoothNDCG as SmoothNDCG
from tautrank.losses.softmax import XENDCG as XENDCG
from tautrank.losses.softmax import ListNet as ListNet
from tautrank.losses.softmax import SoftmaxLoss as SoftmaxLoss
from tautrank.losses.softrank import SoftRank as SoftRank
from tautrank.losses.stochastic import Reinforce as Reinforce
from tautrank.losses.stochastic import SmoothedLoss as SmoothedLoss
from tautrank.losses.stochastic import StochasticRank as StochasticRank
