"""Wang et al., The LambdaLoss Framework for Ranking Metric Optimization, CIKM 2018: Tables 3 to 5, Figures 3 to 5."""

from __future__ import annotations

from functools import partial

from tautrank.experiments.divide import PARTS, FixedParts
from tautrank.experiments.plan import Condition, System
from tautrank.experiments.space import Choice, Search
from tautrank.papers.catalogue.declarations import OTHERS, by_data_set, declared, leaves, printed_tables, recipes
from tautrank.papers.claims import Better, BetterUnder, Converges, each
from tautrank.papers.study import PaperTest

_COLUMNS = ("yahoo1", "web10k", "web30k")
_TITLES = {"web30k": "WEB30K", "web10k": "WEB10K", "yahoo1": "YAHOO"}

# RankLib's own defaults: 1000 trees of 10 leaves, shrinkage 0.1, one document a leaf, 256 thresholds, patience 100.
# Without a least hessian a leaf of one document that all pairs have wrong by far (hessian near 0) is given a value
# beyond all bounds, and scores grew to infinity here in some trainings with a cutoff of 1 to 5: LightGBM's default.
_RANKLIB = {"learning_rate": 0.1, "max_bin": 256, "early_stopping_rounds": 100, **leaves(10, 1e-3, 1)}
_LIGHTGBM = {"learning_rate": 0.1, "early_stopping_rounds": 30}
# What the tools make of a query without a relevant document, since the paper does not say.
_AS_RANKLIB = "ndcg(empty=zero)@5"
_AS_LIGHTGBM = "ndcg(empty=one)@5"

_LAMBDARANK = System("lambdarank(k=5)", "lambdamart")
_LAMBDAMART = System("lightgbm:lambdarank", "lambdamart")
_NDCG_LOSS2 = System("ndcg-loss2(k=5)", "ndcg-loss2")
_NDCG_LOSS2PP = System("ndcg-loss2++(k=5,mu=5)", "ndcg-loss2++")

# Train, valid and test.
_TABLE3 = {
    "lambdamart": ((72.21, 69.07, 70.36), (44.99, 43.40, 42.19), (45.28, 43.81, 44.12)),
    "arp-loss1": ((74.11, 69.70, 70.58), (47.24, 44.01, 42.88), (47.02, 44.59, 44.69)),
    "arp-loss2": ((71.74, 69.24, 70.38), (46.06, 43.69, 42.70), (45.25, 43.86, 44.13)),
    "ndcg-loss1": ((71.45, 68.95, 70.26), (45.49, 43.80, 42.56), (45.03, 43.60, 44.04)),
    "ndcg-loss2": ((73.07, 69.57, 70.63), (47.33, 43.98, 43.19), (47.35, 44.71, 44.94)),
    "ndcg-loss2++": ((73.65, 69.41, 70.72), (48.58, 44.03, 42.99), (46.89, 44.48, 44.82)),
}
_TABLE4 = {
    "lambdamart": ((91.84, 74.93, 75.40), (70.24, 49.05, 49.00), (64.23, 50.23, 50.74)),
    "ndcg-loss2": ((77.96, 73.77, 74.78), (54.75, 49.40, 49.22), (52.60, 49.82, 50.08)),
    "ndcg-loss2++": ((92.82, 75.00, 75.70), (62.75, 49.03, 49.25), (66.78, 50.97, 51.21)),
}
# Train alone.
_TABLE5 = {"lambdamart": ((91.84,), (70.24,), (64.23,)), "ndcg-loss2": ((92.62,), (88.09,), (98.74,))}
_printed = partial(printed_tables, _COLUMNS)
# Parameters.
_TABLE2 = by_data_set(
    _COLUMNS,
    {
        "lambdamart": (leaves(200, 10.0, 100), leaves(255, 50.0, 50), leaves(200, 50.0, 50)),
        "ndcg-loss2": (leaves(100, 50.0, 5), leaves(20, 100.0, 20), leaves(50, 100.0, 50)),
        "ndcg-loss2++": (leaves(255, 10.0, 5), leaves(100, 1.0, 5), leaves(255, 50.0, 20)),
    },
)

_study = partial(
    declared, protocol=FixedParts(fold=1, redivide=True), trials=5, trees=1000, test=PaperTest("paired-t", "queries")
)

TABLE3 = _study(
    "lambdaloss-table3",
    version=2,
    systems=(
        _LAMBDARANK,
        *(System(f"{loss}(k=5)", loss) for loss in ("arp-loss1", "arp-loss2", "ndcg-loss1")),
        _NDCG_LOSS2,
        _NDCG_LOSS2PP,
    ),
    metrics=(_AS_RANKLIB,),
    claims=(
        *each(Better, better=("ndcg-loss2", "ndcg-loss2++"), worse="lambdamart", metric=_AS_RANKLIB, part=PARTS),
        *each(Better, better="ndcg-loss2", worse=("ndcg-loss1", "arp-loss1", "arp-loss2"), metric=_AS_RANKLIB),
    ),
    parameters=_RANKLIB,
    recipes=recipes(_TITLES, printed=_printed(_TABLE3, (_AS_RANKLIB,), PARTS)),
    judged=PARTS,
)

TABLE4 = _study(
    "lambdaloss-table4",
    systems=(_LAMBDAMART, _NDCG_LOSS2, _NDCG_LOSS2PP),
    metrics=(_AS_LIGHTGBM,),
    claims=each(Better, better="ndcg-loss2++", worse=("lambdamart", "ndcg-loss2"), metric=_AS_LIGHTGBM),
    parameters=_LIGHTGBM,
    # What Table 2 found is drawn from these, to be searched again on other data.
    search=Search(
        {
            "num_leaves": Choice((20, 50, 100, 200, 255)),
            "min_sum_hessian_in_leaf": Choice((1.0, 10.0, 50.0, 100.0)),
            "min_child_samples": Choice((5, 20, 50, 100)),
        }
    ),
    recipes=(OTHERS, *recipes(_TITLES, systems=_TABLE2, printed=_printed(_TABLE4, (_AS_LIGHTGBM,), PARTS))),
    judged=PARTS,
)

_TABLE5_RECIPES = recipes(
    _TITLES,
    parameters={data: of["lambdamart"] for data, of in _TABLE2.items()},
    printed=_printed(_TABLE5, (_AS_LIGHTGBM,), ("train",)),
)

TABLE5 = _study(
    "lambdaloss-table5",
    systems=(_LAMBDAMART, _NDCG_LOSS2),
    metrics=(_AS_LIGHTGBM,),
    claims=(
        Better(better="ndcg-loss2", worse="lambdamart", metric=_AS_LIGHTGBM, part="train"),
        Better(better="lambdamart", worse="ndcg-loss2", metric=_AS_LIGHTGBM, text="severe overfitting of NDCG-Loss2"),
    ),
    parameters=_LIGHTGBM,
    recipes=(OTHERS, *_TABLE5_RECIPES),
    judged=("train", "test"),
)

_MUS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_LARGE_TREES = {data: {"large trees": of["ndcg-loss2++"]} for data, of in _TABLE2.items()}

FIGURE3 = _study(
    "lambdaloss-figure3",
    version=2,
    systems=(
        System("ndcg-loss2++(k=5)", "ten leaves", _RANKLIB),
        System("ndcg-loss2++(k=5)", "large trees", _LIGHTGBM),
    ),
    metrics=("ndcg@5",),
    claims=each(BetterUnder, system=("ten leaves", "large trees"), better="10", worse="0.1", metric="ndcg@5"),
    conditions=tuple(Condition(f"{mu:g}", mu, loss={"mu": mu}) for mu in _MUS),
    axis="mu",
    recipes=(OTHERS, *recipes(_TITLES, systems=_LARGE_TREES)),
)

_ten_leaves = partial(_study, version=2, systems=(_LAMBDARANK, _NDCG_LOSS2, _NDCG_LOSS2PP), recipes=recipes(_TITLES))
_CUTOFFS = (1, 3, 5, 10)

FIGURE4 = _ten_leaves(
    "lambdaloss-figure4",
    metrics=tuple(f"ndcg@{k}" for k in _CUTOFFS),
    claims=tuple(
        Better(better=better, worse="lambdamart", metric=f"ndcg@{k}", condition=f"k={k}")
        for better in ("ndcg-loss2", "ndcg-loss2++")
        for k in _CUTOFFS
    ),
    conditions=tuple(Condition(f"k={k}", k, loss={"k": k}, metrics=(f"ndcg@{k}",)) for k in _CUTOFFS),
    axis="cutoff of metric and loss",
    parameters=_RANKLIB,
)

FIGURE5 = _ten_leaves(
    "lambdaloss-figure5",
    metrics=("ndcg@5",),
    claims=each(
        Converges,
        system=("lambdamart", "ndcg-loss2", "ndcg-loss2++"),
        metric="ndcg@5",
        part=("train", "valid"),
        text="They all show convergence as the number of trees increases",
    ),
    parameters={**_RANKLIB, "early_stopping_rounds": None},
    curves=("train", "valid"),
)
