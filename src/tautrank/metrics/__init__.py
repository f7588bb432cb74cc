"""Ranking metrics, tie policies and empty queries."""

from tautrank.metrics.average_precision import MAP as MAP
from tautrank.metrics.base import METRICS as METRICS
from tautrank.metrics.base import BoundMetric as BoundMetric
from tautrank.metrics.base import Metric as Metric
from tautrank.metrics.base import metric as metric
from tautrank.metrics.base import register as register
from tautrank.metrics.cascade import ERR as ERR
from tautrank.metrics.cascade import MRR as MRR
from tautrank.metrics.gains import Discount as Discount
from tautrank.metrics.gains import Gain as Gain
from tautrank.metrics.gains import discount_values as discount_values
from tautrank.metrics.gains import gain_values as gain_values
from tautrank.metrics.ordering import rank_order as rank_order
from tautrank.metrics.positional import ARP as ARP
from tautrank.metrics.positional import DCG as DCG
from tautrank.metrics.positional import NDCG as NDCG
from tautrank.metrics.positional import LambdaRankMetric as LambdaRankMetric
from tautrank.metrics.positional import Precision as Precision
from tautrank.metrics.positional import Recall as Recall
from tautrank.metrics.selection import DCGRR as DCGRR
