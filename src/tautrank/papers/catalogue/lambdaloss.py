"""Wang et al., The LambdaLoss Framework for Ranking Metric Optimization, CIKM 2018: Tables 3 to 5,
Figures 3 to 5.
"""

from dataclasses import replace
from functools import partial

from tautrank.experiments.plan import Condition, System
from tautrank.experiments.protocols import PARTS, FixedParts
from tautrank.experiments.space import Choice, Search
from tautrank.papers.catalogue.declarations import OTHERS, declared, leaves
from tautrank.papers.claims import Better, BetterUnder, Converges, each
from tautrank.papers.study import PaperTest, Recipe

# RankLib's own defaults: 1000 trees of 10 leaves, shrinkage 0.1, one document per leaf, 256
# thresholds, patience 100.
# Without a least hessian a leaf of one document that all pairs have wrong by far (hessian near 0)
# is given a value beyond all bounds, and scores grew to infinity here in some trainings with a
# cutoff of 1 to 5: LightGBM's default.
_RANKLIB = {
    "learning_rate": 0.1,
    "max_bin": 256,
    "early_stopping_rounds": 100,
    **leaves(10, 1e-3, 1),
}
_LIGHTGBM = {"learning_rate": 0.1, "early_stopping_rounds": 30}
# What the tools make of a query without a relevant document, since the paper does not say.
_AS_RANKLIB, _AS_LIGHTGBM = "ndcg(empty=zero)@5", "ndcg(empty=one)@5"

_LAMBDARANK = System("lambdarank(k=5)", "lambdamart")
_LAMBDAMART = System("lightgbm:lambdarank", "lambdamart")
_NDCG_LOSS2 = System("ndcg-loss2(k=5)", "ndcg-loss2")
_NDCG_LOSS2PP = System("ndcg-loss2++(k=5,mu=5)", "ndcg-loss2++")

_RECIPES = (Recipe("web30k", "WEB30K"), Recipe("web10k", "WEB10K"), Recipe("yahoo1", "YAHOO"))
_TABLE2 = {
    "lambdamart": {
        "web30k": leaves(200, 50.0, 50),
        "web10k": leaves(255, 50.0, 50),
        "yahoo1": leaves(200, 10.0, 100),
    },
    "ndcg-loss2": {
        "web30k": leaves(50, 100.0, 50),
        "web10k": leaves(20, 100.0, 20),
        "yahoo1": leaves(100, 50.0, 5),
    },
    "ndcg-loss2++": {
        "web30k": leaves(255, 50.0, 20),
        "web10k": leaves(100, 1.0, 5),
        "yahoo1": leaves(255, 10.0, 5),
    },
}

_TEST = PaperTest("paired-t", "queries")
_study = partial(
    declared, protocol=FixedParts(fold=1, redivide=True), repeats=5, trees=1000, test=_TEST
)

_FURTHER = ("arp-loss1", "arp-loss2", "ndcg-loss1")

TABLE3 = _study(
    "lambdaloss-table3",
    version=2,
    systems=(
        _LAMBDARANK,
        *(System(f"{loss}(k=5)", loss) for loss in _FURTHER),
        _NDCG_LOSS2,
        _NDCG_LOSS2PP,
    ),
    metrics=(_AS_RANKLIB,),
    claims=(
        *each(
            Better,
            better=("ndcg-loss2", "ndcg-loss2++"),
            worse="lambdamart",
            metric=_AS_RANKLIB,
            part=PARTS,
        ),
        *each(
            Better,
            better="ndcg-loss2",
            worse=("ndcg-loss1", "arp-loss1", "arp-loss2"),
            metric=_AS_RANKLIB,
        ),
    ),
    parameters=_RANKLIB,
    recipes=_RECIPES,
    judged=PARTS,
)

TABLE4 = _study(
    "lambdaloss-table4",
    systems=(_LAMBDAMART, _NDCG_LOSS2, _NDCG_LOSS2PP),
    metrics=(_AS_LIGHTGBM,),
    claims=each(
        Better, better="ndcg-loss2++", worse=("lambdamart", "ndcg-loss2"), metric=_AS_LIGHTGBM
    ),
    parameters=_LIGHTGBM,
    # What Table 2 found is drawn from these, to be searched again on other data.
    search=Search(
        {
            "num_leaves": Choice((20, 50, 100, 200, 255)),
            "min_sum_hessian_in_leaf": Choice((1.0, 10.0, 50.0, 100.0)),
            "min_child_samples": Choice((5, 20, 50, 100)),
        }
    ),
    recipes=(
        OTHERS,
        *(replace(r, systems={name: of[r.data] for name, of in _TABLE2.items()}) for r in _RECIPES),
    ),
    judged=PARTS,
)

TABLE5 = _study(
    "lambdaloss-table5",
    systems=(_LAMBDAMART, _NDCG_LOSS2),
    metrics=(_AS_LIGHTGBM,),
    claims=(
        Better(better="ndcg-loss2", worse="lambdamart", metric=_AS_LIGHTGBM, part="train"),
        Better(
            better="lambdamart",
            worse="ndcg-loss2",
            metric=_AS_LIGHTGBM,
            text="severe overfitting of NDCG-Loss2",
        ),
    ),
    parameters=_LIGHTGBM,
    recipes=(OTHERS, *(replace(r, parameters=_TABLE2["lambdamart"][r.data]) for r in _RECIPES)),
    judged=("train", "test"),
)

_TREES = {"ten leaves": _RANKLIB, "large trees": _LIGHTGBM}

FIGURE3 = _study(
    "lambdaloss-figure3",
    version=2,
    systems=tuple(
        System("ndcg-loss2++(k=5)", trees, parameters) for trees, parameters in _TREES.items()
    ),
    metrics=("ndcg@5",),
    claims=each(BetterUnder, system=_TREES, better="10", worse="0.1", metric="ndcg@5"),
    conditions=tuple(
        Condition(f"{mu:g}", mu, loss={"mu": mu}) for mu in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    ),
    recipes=(
        OTHERS,
        *(replace(r, systems={"large trees": _TABLE2["ndcg-loss2++"][r.data]}) for r in _RECIPES),
    ),
)

_ten_leaves = partial(
    _study, version=2, systems=(_LAMBDARANK, _NDCG_LOSS2, _NDCG_LOSS2PP), recipes=_RECIPES
)
_CUTOFFS = (1, 3, 5, 10)

FIGURE4 = _ten_leaves(
    "lambdaloss-figure4",
    metrics=tuple(f"ndcg@{k}" for k in _CUTOFFS),
    claims=tuple(
        Better(better=better, worse="lambdamart", metric=f"ndcg@{k}", condition=f"k={k}")
        for better in ("ndcg-loss2", "ndcg-loss2++")
        for k in _CUTOFFS
    ),
    conditions=tuple(
        Condition(f"k={k}", k, loss={"k": k}, metrics=(f"ndcg@{k}",)) for k in _CUTOFFS
    ),
    parameters=_RANKLIB,
)

_ALL_SHOW = "They all show convergence as the number of trees increases"

FIGURE5 = _ten_leaves(
    "lambdaloss-figure5",
    metrics=("ndcg@5",),
    claims=each(
        Converges, system=_TABLE2, metric="ndcg@5", part=("train", "valid"), text=_ALL_SHOW
    ),
    parameters={**_RANKLIB, "early_stopping_rounds": None},
    curves=("train", "valid"),
)
