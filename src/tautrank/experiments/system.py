"""A system: a loss with parameters of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tautrank.experiments.plain_values import declare


@dataclass(frozen=True)
class System:
    """A loss with parameters of its own, for comparing one loss under several settings.

    Args:
        loss: the loss, as `Ranker` takes it.
        name: the name in tables; by default the loss.
        parameters: parameters of this system's `Ranker`, on top of those of all systems, such as ``{"num_leaves": 7}``.

    >>> str(System("mse", parameters={"num_leaves": 7}))
    'mse'
    """

    loss: str
    name: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name or self.loss


declare(__name__)
