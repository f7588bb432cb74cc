"""Bruch, Wang, Bendersky and Najork, An Analysis of the Softmax Cross Entropy Loss, ICTIR 2019: Table 1."""

from __future__ import annotations

from functools import partial

from tautrank.experiments.divide import PARTS, Change, FixedParts
from tautrank.experiments.plan import Condition, System
from tautrank.papers.catalogue.declarations import OTHERS, Number, declared, in_percent, leaves
from tautrank.papers.claims import Better, GapGrows, each
from tautrank.papers.study import PaperTest, Printed, Recipe

_GRADED, _BINARY = "graded", "binary"
_BOTH = ("ndcg@5", "ndcg@10")
_PRINTED: dict[str, dict[str, dict[str, tuple[Number, Number]]]] = {
    "web30k": {
        _GRADED: {"listnet": ((46.72, 0.08), (48.98, 0.09)), "lambdamart": ((49.20, 0.07), (51.05, 0.02))},
        _BINARY: {"listnet": ((75.83, 0.07), (73.89, 0.08)), "lambdamart": ((78.16, 0.08), (75.60, 0.09))},
    },
    "yahoo1": {
        _GRADED: {"listnet": ((72.90, 0.05), (77.49, 0.05)), "lambdamart": ((74.16, 0.14), (78.40, 0.10))},
        _BINARY: {"listnet": ((89.95, 0.07), (90.80, 0.05)), "lambdamart": ((90.56, 0.07), (91.21, 0.07))},
    },
}
_ON_YAHOO = {_BINARY: {"min_sum_hessian_in_leaf": 400.0}}


def _printed(data: str) -> tuple[Printed, ...]:
    return tuple(p for under, rows in _PRINTED[data].items() for p in in_percent(rows, _BOTH, condition=under))


TABLE1 = declared(
    "binary-table1",
    systems=(System("listnet", "listnet"), System("lightgbm:lambdarank", "lambdamart")),
    metrics=_BOTH,
    claims=(
        *each(Better, better="lambdamart", worse="listnet", metric=_BOTH),
        *each(
            partial(GapGrows, better="lambdamart", worse="listnet", first=_BINARY, last=_GRADED, relative=True),
            metric=_BOTH,
            text="the gap between ListNet and LambdaMART is narrower on the datasets with binary labels",
        ),
    ),
    protocol=FixedParts(fold=1, redivide=True),
    conditions=(Condition(_GRADED), Condition(_BINARY, changes=(Change("binarise", parts=PARTS),))),
    trials=5,
    parameters={"learning_rate": 0.1, "early_stopping_rounds": 30},
    recipes=(
        OTHERS,
        Recipe("web30k", "Web30K", leaves(255, 100.0, 50), printed=_printed("web30k")),
        Recipe("yahoo1", "Yahoo!", leaves(200, 10.0, 100), conditions=_ON_YAHOO, printed=_printed("yahoo1")),
    ),
    test=PaperTest("intervals"),
)
