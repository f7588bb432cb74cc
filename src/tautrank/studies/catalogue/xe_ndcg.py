"""Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020: Table 1 and Figure 3."""

from __future__ import annotations

from tautrank.studies.changes import Change
from tautrank.studies.claims import Better, GapGrows
from tautrank.studies.comparison import System
from tautrank.studies.study import Condition, PaperTest, Printed, Recipe, Study

_PAPER = "Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020"

LISTNET = System("listnet(target=softmax)", "listnet")
# LightGBM's sigmoid is 1, as the paper's sigma, unless it is told otherwise.
LAMBDAMART = System("lightgbm:lambdarank", "lambdamart", {"lambdarank_norm": False})
XENDCG = System("xendcg", "xendcg")

# Sec. 5.2; "we do not utilize regularization".
_PARAMETERS = {
    "learning_rate": 0.02,
    "max_bin": 255,
    "min_sum_hessian_in_leaf": 0.0,
    "early_stopping_rounds": 50,
}
_WEB30K = {"num_leaves": 400, "min_data_in_leaf": 50}
_YAHOO = {"num_leaves": 200, "min_data_in_leaf": 100}


def _printed(**rows: tuple[float, float]) -> tuple[Printed, ...]:
    return tuple(
        Printed(system, name, value)
        for system, values in rows.items()
        for name, value in zip(("ndcg@5", "ndcg@10"), values, strict=True)
    )


TABLE1 = Study(
    name="xe-table1",
    title="Ranking quality of ListNet, LambdaMART and XE-NDCG",
    paper=f"{_PAPER}, Table 1",
    claim="XE-NDCG ranks better than LambdaMART, and LambdaMART better than ListNet, at both cutoffs",
    systems=(LAMBDAMART, LISTNET, XENDCG),
    metrics=("ndcg@5", "ndcg@10"),
    claims=tuple(
        Better(better=better, worse=worse, metric=name)
        for better, worse in (("xendcg", "lambdamart"), ("xendcg", "listnet"), ("lambdamart", "listnet"))
        for name in ("ndcg@5", "ndcg@10")
    ),
    trials=100,
    trees=500,
    parameters=_PARAMETERS,
    recipes=(
        Recipe(
            "web30k",
            "Web30K",
            _WEB30K,
            printed=_printed(listnet=(0.4768, 0.4976), lambdamart=(0.4808, 0.4994), xendcg=(0.4823, 0.5027)),
        ),
        Recipe(
            "yahoo1",
            "Yahoo!",
            _YAHOO,
            printed=_printed(listnet=(0.7176, 0.7652), lambdamart=(0.7300, 0.7749), xendcg=(0.7337, 0.7784)),
        ),
    ),
    test=PaperTest("paired-t", "trials", 0.01),
)

_NOISE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)

FIGURE3_LABELS = Study(
    name="xe-figure3-labels",
    title="XE-NDCG and LambdaMART when training labels are wrong",
    paper=f"{_PAPER}, Figures 3c and 3d",
    claim="LambdaMART degrades faster than XE-NDCG as more training labels are set to random values",
    systems=(LAMBDAMART, XENDCG),
    metrics=("ndcg@5",),
    claims=(
        Better(better="xendcg", worse="lambdamart", metric="ndcg@5"),
        GapGrows(better="xendcg", worse="lambdamart", first="0%", last="50%", metric="ndcg@5"),
    ),
    # The axis of the figure is not in the text; these levels are a choice.
    conditions=tuple(
        Condition(f"{100 * p:.0f}%", p, (Change("perturb-labels", {"probability": p}),) if p else ()) for p in _NOISE
    ),
    axis="share of the training labels set to random values",
    trials=100,
    trees=500,
    parameters=_PARAMETERS,
    recipes=(Recipe("web30k", "Web30K", _WEB30K), Recipe("yahoo1", "Yahoo!", _YAHOO)),
    test=PaperTest("paired-t", "trials", 0.01),
)

STUDIES = (TABLE1, FIGURE3_LABELS)
