"""He and Liu, Are Algorithms Directly Optimizing IR Measures Really Direct?, 2008: curves of its
two theorems.
"""

import itertools
from functools import partial

from tautrank.experiments.plan import Condition, Measurement
from tautrank.experiments.protocols import OnItself
from tautrank.papers.catalogue.declarations import declared
from tautrank.papers.claims import Better, BetterUnder, Reaches, each

_SIGMAS = (1.0, 0.5, 0.35, 0.25, 0.2, 0.15, 0.1)
_NAMES = [f"{sigma:g}" for sigma in _SIGMAS]
_BOUNDED = [f"{sigma:g}" for sigma in _SIGMAS if sigma < 0.354]  # where the proof's bound begins
# The mean of ones and zeros has to be 1, up to rounding.
_reaches_one = partial(Reaches, value=1.0, tolerance=1e-9)

SIGMA = declared(
    "directness-sigma",
    systems=(
        Measurement("softrank-distance", "softrank", {"lists": 200, "documents": 10, "delta": 1.0}),
    ),
    metrics=("nearness", "within-bound", "within-bound-as-stated", "within-bound-by-contests"),
    claims=(
        *(
            BetterUnder(system="softrank", better=b, worse=a, metric="nearness")
            for a, b in itertools.pairwise(_NAMES)
        ),
        *each(
            _reaches_one,
            system="softrank",
            metric=("within-bound", "within-bound-as-stated"),
            condition=_BOUNDED,
        ),
        _reaches_one(system="softrank", metric="within-bound-by-contests"),
    ),
    protocol=OnItself(),
    conditions=tuple(
        Condition(f"{sigma:g}", sigma, parameters={"sigma": sigma}) for sigma in _SIGMAS
    ),
    repeats=20,
    data="none",
)

_LOSSES = {f"softrank(sigma={sigma})": f"softrank(sigma={sigma})" for sigma in ("1", "0.1")}
_LOSSES |= {
    f"stochasticrank(sigma={sigma})": f"stochasticrank(metric=ndcg,sigma={sigma})"
    for sigma in ("1", "0.1")
}
_LOSSES |= {"xendcg": "xendcg", "listnet": "listnet"}
_LOSSES |= {
    loss: f"{loss}(k=none)" for loss in ("lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++")
}

LOSSES = declared(
    "directness-losses",
    systems=tuple(
        Measurement("directness", name, {"loss": loss}) for name, loss in _LOSSES.items()
    ),
    metrics=("directness", "by-means", "cost", "within-guarantee"),
    claims=(
        *each(_reaches_one, system=_LOSSES, metric="within-guarantee"),
        *(
            Better(better=f"{loss}(sigma=0.1)", worse=f"{loss}(sigma=1)", metric=quantity)
            for loss in ("softrank", "stochasticrank")
            for quantity in ("directness", "by-means")
        ),
    ),
    protocol=OnItself(),
    repeats=10,
    data="simulated:mslr:200",
)
