"""Bruch, Wang, Bendersky and Najork, An Analysis of the Softmax Cross Entropy Loss, ICTIR 2019:
Table 1.
"""

from functools import partial

from tautrank.experiments.changes import Change
from tautrank.experiments.plan import Condition, System
from tautrank.experiments.protocols import PARTS, FixedParts
from tautrank.papers.catalogue.declarations import OTHERS, declared, leaves
from tautrank.papers.claims import Better, GapGrows, each
from tautrank.papers.study import PaperTest, Recipe

_GRADED, _BINARY = "graded", "binary"
_BOTH = ("ndcg@5", "ndcg@10")
_NARROWER = "the gap between ListNet and LambdaMART is narrower on the datasets with binary labels"
_grows = partial(
    GapGrows, better="lambdamart", worse="listnet", first=_BINARY, last=_GRADED, relative=True
)
_ON_YAHOO = {_BINARY: {"min_sum_hessian_in_leaf": 400.0}}

TABLE1 = declared(
    "binary-table1",
    systems=(System("listnet", "listnet"), System("lightgbm:lambdarank", "lambdamart")),
    metrics=_BOTH,
    claims=(
        *each(Better, better="lambdamart", worse="listnet", metric=_BOTH),
        *each(_grows, metric=_BOTH, text=_NARROWER),
    ),
    protocol=FixedParts(fold=1, redivide=True),
    conditions=(Condition(_GRADED), Condition(_BINARY, changes=(Change("binarise", parts=PARTS),))),
    repeats=5,
    parameters={"learning_rate": 0.1, "early_stopping_rounds": 30},
    recipes=(
        OTHERS,
        Recipe("web30k", "Web30K", leaves(255, 100.0, 50)),
        Recipe("yahoo1", "Yahoo!", leaves(200, 10.0, 100), conditions=_ON_YAHOO),
    ),
    test=PaperTest("intervals"),
)
