"""Other tools' own objectives, under the same interface: so that a comparison needs one tool.

``loss="lightgbm:lambdarank"``, ``"xgboost:rank:ndcg"`` or ``"catboost:YetiRank"`` trains that tool's own objective as
the tool itself would, and judges every iteration with the metric of this library.
"""

from __future__ import annotations

import re

from tautrank.engines.base import NativeLoss, Settings, Task
from tautrank.errors import MissingDependencyError, OptionError, unknown

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
    # Names are matched in lower case; CatBoost's are shown as CatBoost writes them.
    error = unknown("loss", f"{tool}:{objective}", [name.lower() for name in PEERS])
    shown = str(error)
    for name in PEERS:
        shown = re.sub(rf"(?<![\w:]){re.escape(name.lower())}(?![\w:])", name, shown)
    raise OptionError(shown)


def missing(tool: str) -> MissingDependencyError:
    """The error for a tool that is not installed.

    Args:
        tool: ``xgboost`` or ``catboost``.

    >>> print(missing("xgboost"))
    loss 'xgboost:...' needs XGBoost; install it with: pip install 'tautrank[xgboost]'
    """
    written = {"xgboost": "XGBoost", "catboost": "CatBoost"}[tool]
    return MissingDependencyError(f"loss '{tool}:...' needs {written}; install it with: pip install 'tautrank[{tool}]'")


def refuse_langevin(task: Task, settings: Settings) -> None:
    """Say that a tool's own objective cannot be trained with noise on its gradients.

    Args:
        task: its loss is a tool's own.
        settings: Langevin boosting or not.
    """
    if settings.langevin is not None and isinstance(task.loss, NativeLoss):
        raise OptionError(
            f"langevin: the gradients of {task.loss} are out of reach; expected a loss of this library, or one of "
            "CatBoost's, which has Langevin boosting of its own"
        )


def refuse_names(extra: object, ours: dict[str, str], tool: str) -> None:
    """Say which name of this library stands for a parameter that a tool calls otherwise.

    Args:
        extra: the tool's parameters by name.
        ours: the tool's name of each parameter that has its own name here.
        tool: for the sentence.
    """
    for name in extra if isinstance(extra, dict) else ():
        if name in ours:
            raise OptionError(f"{name}: is {tool}'s name for what is called {ours[name]} here; expected that name")
