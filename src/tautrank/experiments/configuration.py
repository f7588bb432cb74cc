"""A configuration that is tried, and what `Ranker` takes to train it: each tool has words of its own."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tautrank.engines import DEFAULT_ENGINE, NativeLoss, engine_for, read_loss
from tautrank.engines.langevin import Langevin


def parameters_of(configuration: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `Ranker` that train a configuration, in the words of the tool that trains its loss.

    Args:
        configuration: the loss, and the values that are tried by name: a parameter of `Ranker` or of its engine,
            ``loss.NAME``, or ``langevin.NAME``.
        fixed: parameters that are the same whatever is tried.

    >>> tried = {"loss": "lambdarank", "loss.k": 5, "learning_rate": 0.2, "langevin.temperature": 1e9}
    >>> parameters_of(tried, {"num_leaves": 7})
    {'loss': 'lambdarank(k=5)', 'num_leaves': 7, 'learning_rate': 0.2, 'langevin': Langevin(temperature=1e+09, ...)}
    """
    parts: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in configuration.items():
        part, _, rest = name.rpartition(".")
        parts[part][rest] = value
    loss = with_parameters(parts[""].pop("loss"), parts["loss"])
    engine = engine_for(str(fixed.get("engine", DEFAULT_ENGINE)), read_loss(loss))
    given = {"loss": loss, **fixed, **engine.in_its_words(parts[""], fixed)}
    if parts["langevin"]:
        given["langevin"] = dataclasses.replace(fixed.get("langevin") or Langevin(), **parts["langevin"])
    return given


def with_parameters(loss: str, parameters: Mapping[str, Any]) -> str:
    """A loss as text, with some parameters set: those it has; a tool's own objective has none.

    Args:
        loss: what `Ranker` takes.
        parameters: of losses, by name.

    >>> with_parameters("ndcg-loss2++(k=5)", {"mu": 10.0}), with_parameters("mse", {"mu": 10.0})
    ('ndcg-loss2++(k=5,mu=10)', 'mse')
    """
    wanted = read_loss(loss)
    if isinstance(wanted, NativeLoss):
        return str(wanted)
    known = {f.name for f in dataclasses.fields(wanted)}
    return str(dataclasses.replace(wanted, **{name: value for name, value in parameters.items() if name in known}))
