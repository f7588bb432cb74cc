"""Parameters of LightGBM as those of a `Ranker`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tautrank.engines import NativeLoss, read_loss
from tautrank.engines.lightgbm import LightGBM, main_names
from tautrank.errors import refuse
from tautrank.losses import Loss
from tautrank.metrics import Metric, metric

# LightGBM's main names of parameters that have other names here.
_NAMES_OF_RANKERS = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "num_threads": "n_jobs",
    "seed": "random_state",
    "early_stopping_round": "early_stopping_rounds",
}
# Parameters of LightGBM's objectives that losses of this library have too.
_NAMES_OF_LOSSES = {
    "lambdarank_truncation_level": "k",
    "label_gain": "gain",
    "lambdarank_norm": "norm",
    "sigmoid": "sigma",
}
_DEFAULTS = {"n_estimators": 100, "learning_rate": 0.1, "early_stopping_rounds": None}
# Parameters of its scikit-learn estimator that mean nothing to a ranking.
_MEANINGLESS = ("class_weight", "importance_type", "silent")
# Metrics of LightGBM that say nothing but: the one of the objective.
_OF_THE_OBJECTIVE = ("", "none", "lambdarank", "rank_xendcg")


def translated(params: Mapping[str, Any], loss: Any = None) -> dict[str, Any]:
    """Return parameters of LightGBM as those of `Ranker`, with LightGBM's defaults; one error tells
    all problems.

    Args:
        params: parameters under any of LightGBM's names; None is a value that was not given.
        loss: a loss of this library to train instead of LightGBM's objective; it gets the
            objective's parameters.

    >>> found = translated({"objective": "lambdarank", "num_iterations": 50, "eval_at": [5, 10], "seed": 3})
    >>> found["loss"], str(found["metric"]), found["n_estimators"], found["random_state"]
    ('lightgbm:lambdarank', 'ndcg(ties=input,empty=one)@10', 50, 3)
    >>> translated({"lambdarank_truncation_level": 20, "etaa": 1, "task": "train"}, loss="ndcg-loss2++")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown parameter of lightgbm 'etaa'; did you mean 'eta'? (closest: ...). task: is for
    LightGBM's command line; expected a parameter of training
    """
    main_name = main_names()
    values = {}
    for name, value in params.items():
        if value is not None:
            values[main_name.get(name, name)] = value
    objective = values.pop("objective", "lambdarank")
    trained: Any = read_loss(f"lightgbm:{objective}" if loss is None else loss)
    parameters: dict[str, Any] = dict(_DEFAULTS)
    parameters["verbose"] = 0 if values.pop("verbosity", 1) < 1 else None
    parameters["metric"] = _metric(values.pop("metric", "ndcg"), values.pop("eval_at", 5))

    engine_parameters = {}
    for name, value in values.items():
        if name in _NAMES_OF_RANKERS:
            parameters[_NAMES_OF_RANKERS[name]] = value
        elif _has_option(trained, name):
            trained = _with_option(trained, name, value)
        elif name not in _MEANINGLESS:
            engine_parameters[name] = value

    checked = [name for name in engine_parameters if name != "categorical_feature"]
    refuse(LightGBM().name_errors(trained, checked))
    # 0 and below turn early stopping off in LightGBM.
    if (parameters["early_stopping_rounds"] or 0) < 1:
        parameters["early_stopping_rounds"] = None
    parameters["loss"] = str(trained) if isinstance(trained, NativeLoss) else trained
    return {**parameters, **engine_parameters}


def _metric(names: Any, eval_at: Any) -> Metric:
    """Return the first of LightGBM's metrics at the largest of its cutoffs, as LightGBM computes it."""
    listed = names.split(",") if isinstance(names, str) else list(names)
    first = listed[0]
    name = "ndcg" if first.lower() in _OF_THE_OBJECTIVE else first
    cutoff = eval_at if isinstance(eval_at, int) else max(eval_at)
    return metric(f"{name}@{cutoff}", like="lightgbm")


def _has_option(loss: Any, name: str) -> bool:
    """Whether a loss of this library has a parameter of LightGBM's objective."""
    if not isinstance(loss, Loss) or name not in _NAMES_OF_LOSSES:
        return False
    return hasattr(loss, _NAMES_OF_LOSSES[name])


def _with_option(loss: Loss, name: str, value: Any) -> Loss:
    """Return a loss with the value of a parameter of LightGBM's objective."""
    if name == "lambdarank_norm":
        value = "lightgbm" if value else "none"
    return dataclasses.replace(loss, **{_NAMES_OF_LOSSES[name]: value})
