"""Ustimenko and Prokhorenkova, StochasticRank, ICML 2020: Tables 1, 2 and 3."""

from __future__ import annotations

import itertools
from typing import Any

from tautrank.engines.langevin import Langevin
from tautrank.experiments.changes import Change
from tautrank.experiments.plan import Condition, System
from tautrank.experiments.protocols import PARTS, FixedParts, OnItself
from tautrank.experiments.space import Choice, Search, Space, Uniform
from tautrank.papers.catalogue.declarations import declared
from tautrank.papers.claims import Better, Claim, Reaches, each
from tautrank.papers.study import PaperTest, Recipe, Study


def _baselines(k: int) -> tuple[System, ...]:
    """What StochasticRank is compared with for NDCG@k; 'e-' stands for an expected gradient under
    Gumbel noise.
    """
    return (
        System(f"lambdarank(k={k})", "lambdamart"),
        System(f"ndcg-loss2++(k={k},mu=5)", "lambdaloss"),
        System(f"lambdarank(k={k},noise=gumbel,strength=0.5)", "e-lambdamart"),
        System(f"ndcg-loss2++(k={k},mu=5,noise=gumbel,strength=0.5)", "e-lambdaloss"),
        System(f"softrank(k={k},estimator=ccs,scale=plain)", "softrank"),
    )


def _smoothed(metric: str, mu: float, sfa: bool, loss: str = "stochasticrank") -> str:
    """A smoothed metric in the paper's form, with a hessian of 1."""
    return f"{loss}(metric={metric},mu={mu:g},sfa={str(sfa).lower()},scale=plain)"


# -------------------------------------------------------------------------------------------------------------
# Table 1

_STUCK = tuple(str(system) for system in _baselines(3))
_HOT = {"langevin": Langevin(temperature=1e3, shrink_rate=1e-3)}
_FIVE_DOCUMENTS = {
    "learning_rate": 0.1,
    "max_depth": 3,
    "num_leaves": 8,
    "early_stopping_rounds": None,
}
_FIVE_DOCUMENTS |= {"min_child_samples": 1, "min_data_in_bin": 1}

TABLE1 = declared(
    "stochasticrank-table1",
    systems=(*_baselines(3), System(_smoothed("ndcg@3", 0.1, True), "stochasticrank", _HOT)),
    metrics=("ndcg@3",),
    claims=(
        Reaches(system="stochasticrank", metric="ndcg@3", value=0.917, tolerance=0.0005),
        *each(Better, better="stochasticrank", worse=_STUCK, metric="ndcg@3"),
    ),
    protocol=OnItself(),
    repeats=10,
    trees=1000,
    parameters=_FIVE_DOCUMENTS,
    search=Search(
        {"learning_rate": Uniform(1e-3, 1.0, log=True)},
        {name: {"loss.strength": Uniform(0.0, 1.0)} for name in ("e-lambdamart", "e-lambdaloss")},
    ),
    recipes=(Recipe("five-documents", "synthetic data"),),
    data="five-documents",
    version=3,
)

# -------------------------------------------------------------------------------------------------------
# Tables 2 and 3

# CatBoost's trees of depth d have 2^d leaves; a tree of LightGBM that may not be deeper has no
# more.
_PARAMETERS = {
    "learning_rate": 0.1,
    "num_leaves": 1024,
    "max_depth": 6,
    "early_stopping_rounds": 100,
}
_LANGEVIN = {"langevin": Langevin(temperature=1e8, shrink_rate=1e-4)}

_TABLES: dict[str, Any] = {
    "version": 3,
    "parameters": _PARAMETERS,
    "repeats": 1,
    "trees": 1000,
    "configurations": 500,
}
_TABLES |= {
    "protocol": FixedParts(fold=1, redivide=True),
    "test": PaperTest("paired-t", "queries", one_sided=True),
}

# Appendix F.
_EVERYONE: Space = {
    "learning_rate": Uniform(1e-3, 1.0, log=True),
    "max_depth": Choice((6, 7, 8, 9, 10)),
}
_BASELINE: Space = {"reg_lambda": Uniform(1e-1, 1e1, log=True)}
_NOISY: Space = {**_BASELINE, "loss.strength": Uniform(0.0, 1.0)}
_SGLB: Space = {"langevin.temperature": Uniform(1e8, 1e11, log=True)}
_SGLB |= {"langevin.shrink_rate": Uniform(1e-5, 1e-2, log=True)}
_SHIFTED: Space = {**_SGLB, "loss.mu": Uniform(1e-2, 1e1, log=True)}
_TABLE2_SEARCH = {"sr-soft": _SGLB, "sr": _SHIFTED, "e-lambdamart": _NOISY, "e-lambdaloss": _NOISY}
_TABLE2_SEARCH |= dict.fromkeys(("lambdamart", "lambdaloss", "softrank"), _BASELINE)

_YAHOO1 = Recipe("yahoo1", "Yahoo Set 1")
_RECIPES = (
    _YAHOO1,
    Recipe("yahoo2", "Yahoo Set 2"),
    Recipe("web10k", "WEB10K"),
    Recipe("web30k", "WEB30K"),
)


def _table2(
    name: str, metric: str, baselines: tuple[System, ...], *claims: Claim, **fields: Any
) -> Study:
    """What Table 2 has for one metric: StochasticRank is better than every baseline, and what else
    is claimed.
    """
    soft = System(_smoothed(metric, 0, True), "sr-soft", _LANGEVIN)
    systems = (*baselines, soft, System(_smoothed(metric, 0.1, True), "sr", _LANGEVIN))
    return declared(
        name,
        **_TABLES,
        systems=systems,
        metrics=(metric,),
        claims=(*each(Better, better="sr", worse=map(str, baselines), metric=metric), *claims),
        search=Search(_EVERYONE, {str(system): _TABLE2_SEARCH[str(system)] for system in systems}),
        recipes=_RECIPES,
        **fields,
    )


_IN_MOST_CASES = "in most cases, SR-R1 outperforms SR-R1 soft (in print on WEB30K it does not)"

_SHIFT_HELPS = Better(better="sr", worse="sr-soft", metric="ndcg@5", text=_IN_MOST_CASES)

TABLE2_NDCG = _table2("stochasticrank-table2-ndcg", "ndcg@5", _baselines(5), _SHIFT_HELPS)

TABLE2_MRR = _table2(
    "stochasticrank-table2-mrr",
    "mrr",
    (
        System("lambdarank(k=none,gain=linear,discount=reciprocal)", "lambdamart"),
        System(
            "lambdarank(k=none,gain=linear,discount=reciprocal,noise=gumbel,strength=0.5)",
            "e-lambdamart",
        ),
        System(_smoothed("mrr", 0, False), "softrank"),
    ),
    conditions=(Condition(changes=(Change("binarise", parts=PARTS),)),),
)

_STEPS = (
    System(_smoothed("ndcg@5", 0, False, "reinforce"), "reinforce"),
    System(_smoothed("ndcg@5", 0, False), "ccs"),
    System(_smoothed("ndcg@5", 0, True), "ccs+sfa"),
    System(_smoothed("ndcg@5", 0, True), "ccs+sfa+sglb", _LANGEVIN),
    System(_smoothed("ndcg@5", 0.1, True), "ccs+sfa+sglb+mu", _LANGEVIN),
)

TABLE3 = declared(
    "stochasticrank-table3",
    **_TABLES,
    systems=_STEPS,
    metrics=("ndcg@5",),
    claims=tuple(
        Better(better=str(b), worse=str(a), metric="ndcg@5") for a, b in itertools.pairwise(_STEPS)
    ),
    search=Search(_EVERYONE, {"ccs+sfa+sglb": _SGLB, "ccs+sfa+sglb+mu": _SHIFTED}),
    recipes=(_YAHOO1,),
)
