"""Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020: Table 1 and Figures 1 to
4.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tautrank.experiments.changes import Change
from tautrank.experiments.plan import Condition, Measurement, System
from tautrank.experiments.protocols import OnItself
from tautrank.papers.catalogue.declarations import declared
from tautrank.papers.claims import Better, GapGrows, LeadsEarly, Reaches, each
from tautrank.papers.study import PaperTest, Recipe, Study
from tautrank.simulate.clicks import CLICK_PROBABILITIES

# Sec. 4.4 approximates the inverse hessian of both softmax losses; neumann is the default of
# xendcg.
LISTNET = System("listnet(target=softmax,hessian=neumann)", "listnet")
# LightGBM's sigmoid is 1, as the paper's sigma, unless a parameter changes it.
LAMBDAMART = System("lightgbm:lambdarank", "lambdamart", {"lambdarank_norm": False})
XENDCG = System("xendcg", "xendcg")

# Sec. 5.2; "we do not utilize regularization".
_PARAMETERS = {
    "learning_rate": 0.02,
    "max_bin": 255,
    "min_sum_hessian_in_leaf": 0.0,
    "early_stopping_rounds": 50,
}
_RECIPES = (
    Recipe("web30k", "Web30K", {"num_leaves": 400, "min_child_samples": 50}),
    Recipe("yahoo1", "Yahoo!", {"num_leaves": 200, "min_child_samples": 100}),
)
_BOTH = ("ndcg@5", "ndcg@10")

_study = partial(declared, parameters=_PARAMETERS, recipes=_RECIPES, test=PaperTest(level=0.01))
_two_losses = partial(_study, systems=(LAMBDAMART, XENDCG), metrics=("ndcg@5",))
_AHEAD: dict[str, Any] = {"better": "xendcg", "worse": "lambdamart", "metric": "ndcg@5"}

TABLE1 = _study(
    "xe-table1",
    version=2,
    systems=(LAMBDAMART, LISTNET, XENDCG),
    metrics=_BOTH,
    claims=(
        *each(Better, better="xendcg", worse=("lambdamart", "listnet"), metric=_BOTH),
        *each(Better, better="lambdamart", worse="listnet", metric=_BOTH),
    ),
)

_STRETCHED = (
    "The vertically stretched clouds illustrate the impact of the resulting distribution on the gap"
)

FIGURE1 = declared(
    "xe-figure1",
    systems=(
        Measurement("jensen-clouds", parameters={"examples": 20, "documents": 100, "draws": 200}),
    ),
    metrics=("gap-saved", "mean-gap", "smallest-gap", "mean-loss", "smallest-loss"),
    claims=(Reaches(system="jensen-clouds", metric="gap-saved", value=0.1, text=_STRETCHED),),
    protocol=OnItself(),
    repeats=20,
    data="none",
)

_WIDER = "outperforms by a wider margin when the number of trees in the ensemble is small"

FIGURE2 = _two_losses(
    "xe-figure2", claims=(LeadsEarly(**_AHEAD, text=_WIDER),), repeats=10, curves=("valid",)
)


def _degrading(name: str, conditions: tuple[Condition, ...], **fields: Any) -> Study:
    """XE-NDCG and LambdaMART on training data that gets worse from condition to condition."""
    claims = (
        Better(**_AHEAD),
        GapGrows(**_AHEAD, first=conditions[0].name, last=conditions[-1].name),
    )
    return _two_losses(name, claims=claims, conditions=conditions, **fields)


def _growing(change: str, parameter: str, *shares: float) -> tuple[Condition, ...]:
    """A condition per share of a change to the training data; none of it changes nothing."""
    return tuple(
        Condition(f"{100 * s:.0f}%", s, (Change(change, {parameter: s}),) if s else ())
        for s in shares
    )


FIGURE3_NEGATIVES = _degrading(
    "xe-figure3-negatives", _growing("add-negatives", "share", 0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
)

_PERTURBED = _growing("perturb-labels", "probability", 0.0, 0.1, 0.2, 0.3, 0.4, 0.5)

FIGURE3_LABELS = _degrading("xe-figure3-labels", _PERTURBED, version=2)


def _clicks(p: float) -> Change:
    """Clicks in place of labels, with probability p on documents of label 0."""
    parameters = {"impressions": 10, "probabilities": (p, *CLICK_PROBABILITIES[1:])}
    return Change("clicks", parameters, parts=("train", "valid"))


_CLICKED = tuple(Condition(f"{p:g}", p, (_clicks(p),)) for p in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3))

FIGURE4 = _degrading("xe-figure4", _CLICKED, repeats=20)
