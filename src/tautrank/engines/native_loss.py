"""Other tools' own objectives as losses: ``loss="lightgbm:lambdarank"``, ``"xgboost:rank:ndcg"``, ...

The tool trains its objective as it would by itself; every iteration is judged with the metric of this library, so that
tools can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from tautrank.engines.registry import ENGINES, engine_named
from tautrank.errors import unknown


@dataclass(frozen=True)
class NativeLoss:
    """A tool's own objective, trained as the tool itself trains it; prints as ``tool:objective``.

    Args:
        tool: the engine, such as ``lightgbm``.
        objective: the tool's name for the objective.

    >>> print(NativeLoss("xgboost", "rank:ndcg"))
    xgboost:rank:ndcg
    """

    tool: str
    objective: str

    def __str__(self) -> str:
        return f"{self.tool}:{self.objective}"


def native_losses() -> list[str]:
    """Return every ``tool:objective`` there is.

    >>> "xgboost:rank:ndcg" in native_losses()
    True
    """
    return [f"{name}:{objective}" for name in ENGINES for objective in engine_named(name).objectives]


def native_loss(text: str) -> NativeLoss | None:
    """Read ``tool:objective``; None if there is no colon, as in the names of this library's losses.

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
    if tool not in ENGINES:
        raise unknown("loss", text, native_losses())
    found = engine_named(tool).find_objective(objective)
    if found is None:
        raise unknown("loss", f"{tool}:{objective}", native_losses())
    return NativeLoss(tool, found)
