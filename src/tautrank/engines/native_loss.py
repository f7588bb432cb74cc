"""Other tools' own objectives, under the same interface: so that a comparison needs one tool.

``loss="lightgbm:lambdarank"``, ``"xgboost:rank:ndcg"`` or ``"catboost:YetiRank"`` trains that tool's own objective as
the tool itself would, and judges every iteration with the metric of this library.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tautrank.engines.forking import make_safe
from tautrank.errors import DataError, MissingDependencyError, OptionError, unknown

OBJECTIVES: dict[str, tuple[str, ...]] = {
    "lightgbm": ("lambdarank", "rank_xendcg", "regression"),
    "xgboost": ("rank:ndcg", "rank:pairwise", "rank:map", "reg:squarederror"),
    "catboost": (
        "YetiRank",
        "YetiRankPairwise",
        "StochasticRank",
        "QueryRMSE",
        "QuerySoftMax",
        "PairLogit",
        "PairLogitPairwise",
        "RMSE",
    ),
}
"""The objectives of each tool, as the tool spells them."""

PEERS: tuple[str, ...] = tuple(f"{tool}:{objective}" for tool, known in OBJECTIVES.items() for objective in known)
"""Every ``tool:objective`` there is."""

# As their authors write them.
_WRITTEN = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "catboost": "CatBoost"}


@dataclass(frozen=True)
class NativeLoss:
    """A tool's own objective, trained as the tool itself trains it; prints as ``tool:objective``.

    Args:
        tool: ``lightgbm``, ``xgboost`` or ``catboost``.
        objective: what the tool calls it.

    >>> print(NativeLoss("xgboost", "rank:ndcg"))
    xgboost:rank:ndcg
    """

    tool: str
    objective: str

    def __str__(self) -> str:
        return f"{self.tool}:{self.objective}"


def native_loss(text: str) -> NativeLoss | None:
    """Read ``tool:objective``; None if there is no colon, as in the names of this library's losses.

    CatBoost's objectives take parameters in CatBoost's own spelling, ``catboost:YetiRank:mode=NDCG;top=10``.

    Args:
        text: what a user typed as loss.

    >>> native_loss("lightgbm:lambdarank")
    NativeLoss(tool='lightgbm', objective='lambdarank')
    >>> native_loss("lightgbm:lamdarank")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown loss 'lightgbm:lamdarank'; did you mean 'lightgbm:lambdarank'? (known: ...)
    """
    tool, colon, objective = text.strip().partition(":")
    if not colon or "(" in tool:
        return None
    tool = tool.lower()
    if tool not in OBJECTIVES:
        raise unknown("loss", text, PEERS)
    spelled = {known.lower(): known for known in OBJECTIVES[tool]}
    if objective.lower() in spelled:
        return NativeLoss(tool, spelled[objective.lower()])
    head, _, parameters = objective.partition(":")
    if tool == "catboost" and head.lower() in spelled and parameters:
        if not all(re.fullmatch(r"[A-Za-z_]\w*=[^;=]+", item) for item in parameters.split(";")):
            raise OptionError(
                f"loss: found '{text}'; expected CatBoost's own spelling, catboost:{head}:name=value;name=value"
            )
        return NativeLoss(tool, f"{spelled[head.lower()]}:{parameters}")
    raise unknown("loss", f"{tool}:{objective}", PEERS)


def imported(tool: str) -> Any:
    """The package of a tool, safe to use in this process (see `forking`).

    Args:
        tool: ``lightgbm``, ``xgboost`` or ``catboost``.

    >>> imported("lightgbm").Booster.__name__
    'Booster'
    """
    try:
        package = importlib.import_module(tool)
    except ImportError:
        raise MissingDependencyError(
            f"loss '{tool}:...' needs {_WRITTEN[tool]}; install it with: pip install 'tautrank[{tool}]'"
        ) from None
    make_safe(tool)
    return package


def refuse_name(tool: str, name: str, ours: str | None) -> None:
    """Say which name of this library stands for a parameter that a tool calls otherwise.

    Args:
        tool: ``lightgbm``, ``xgboost`` or ``catboost``.
        name: the tool's name for it, as the user gave it.
        ours: what it is called here; None where the tool's name is the only one.

    >>> refuse_name("xgboost", "eta", "learning_rate")
    Traceback (most recent call last):
    tautrank.errors.OptionError: eta: is XGBoost's name for what is called learning_rate here; expected that name
    """
    if ours is not None:
        raise OptionError(f"{name}: is {_WRITTEN[tool]}'s name for what is called {ours} here; expected that name")


@contextmanager
def in_one_sentence(loss: object, tool: str, *errors: type[Exception]) -> Iterator[None]:
    """Word what a tool says of a training that it cannot do.

    Args:
        loss: that is trained.
        tool: ``lightgbm``, ``xgboost`` or ``catboost``.
        errors: its own.
    """
    try:
        yield
    except errors as error:
        # LightGBM: "Check failed: what is wrong at /path/file.hpp, line 12 ."; XGBoost: "[12:34:56] /path/file.cc:78:
        # Check failed: condition: what is wrong" and a stack trace in C++.
        first = str(error).strip().partition("\n")[0]
        reason = re.sub(r"^\[[\d:]+\] \S+:\d+: | at \S+, line \d+ *\.?$", "", first).strip()
        if "num_features()) > (0)" in reason:
            reason = "no feature varies enough to be split"
        raise DataError(f"loss {loss}: {_WRITTEN[tool]} cannot train on this ({reason})") from None
