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
# By these names LightGBM means the metric that belongs to the objective: NDCG.
_NAMES_OF_DEFAULT_METRIC = ("", "none", "lambdarank", "rank_xendcg")


def translated(params: Mapping[str, Any], loss: Any = None) -> dict[str, Any]:
    """Return parameters of LightGBM as keyword arguments of `Ranker`, with LightGBM's defaults where
    the two differ; raise one error for all names that neither `Ranker` nor LightGBM knows.

    Each parameter goes to the ranker under the ranker's name, into the loss, or to the engine
    (LightGBM) under LightGBM's name.

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
    # LightGBM has several names for a parameter, of which one is the main name.
    lightgbm_parameters = _by_main_names(params)
    objective = lightgbm_parameters.pop("objective", "lambdarank")
    trained_loss: Any = read_loss(f"lightgbm:{objective}" if loss is None else loss)
    verbosity = lightgbm_parameters.pop("verbosity", 1)
    metric_names = lightgbm_parameters.pop("metric", "ndcg")
    cutoffs = lightgbm_parameters.pop("eval_at", 5)

    parameters: dict[str, Any] = dict(_DEFAULTS)
    # LightGBM prints from verbosity 1 on; None is the ranker's own default.
    parameters["verbose"] = 0 if verbosity < 1 else None
    parameters["metric"] = _first_metric(metric_names, cutoffs)
    # What neither the ranker nor the loss has under a name of its own goes to the engine, except
    # what means nothing to a ranking, such as class weights.
    engine_parameters = {}
    for name, value in lightgbm_parameters.items():
        if name in _NAMES_OF_RANKERS:
            parameters[_NAMES_OF_RANKERS[name]] = value
        elif _has_loss_parameter(trained_loss, name):
            trained_loss = _with_loss_parameter(trained_loss, name, value)
        elif name not in _MEANINGLESS:
            engine_parameters[name] = value

    # The ranker takes `categorical_feature` itself. `refuse` raises one error about all sentences.
    checked_names = [name for name in engine_parameters if name != "categorical_feature"]
    refuse(LightGBM().name_errors(trained_loss, checked_names))
    # 0 and below turn early stopping off in LightGBM.
    rounds = parameters["early_stopping_rounds"]
    if rounds is not None and rounds < 1:
        parameters["early_stopping_rounds"] = None
    if isinstance(trained_loss, NativeLoss):
        parameters["loss"] = str(trained_loss)
    else:
        parameters["loss"] = trained_loss
    return {**parameters, **engine_parameters}


def _by_main_names(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of LightGBM under LightGBM's main names: an alias such as ``eta`` becomes
    ``learning_rate``, unknown names stay, and parameters that are None are left out.
    """
    main_name_of_alias = main_names()
    value_by_main_name = {}
    for name, value in params.items():
        if value is not None:
            main_name = main_name_of_alias.get(name, name)
            value_by_main_name[main_name] = value
    return value_by_main_name


def _first_metric(names: Any, eval_at: Any) -> Metric:
    """Return the first of LightGBM's metrics at the largest of its cutoffs, as LightGBM computes it.

    Args:
        names: LightGBM's parameter `metric`: names in a list, or in a text with commas.
        eval_at: LightGBM's parameter `eval_at`: one cutoff or several.
    """
    listed_names = names.split(",") if isinstance(names, str) else list(names)
    name = listed_names[0]
    # Such as "" or "lambdarank": LightGBM then takes the metric of the objective, NDCG.
    if name.lower() in _NAMES_OF_DEFAULT_METRIC:
        name = "ndcg"
    cutoff = eval_at if isinstance(eval_at, int) else max(eval_at)
    return metric(f"{name}@{cutoff}", like="lightgbm")


def _has_loss_parameter(loss: Any, name: str) -> bool:
    """Whether a loss of this library has the parameter that LightGBM's objectives know by `name`."""
    if not isinstance(loss, Loss) or name not in _NAMES_OF_LOSSES:
        return False
    return hasattr(loss, _NAMES_OF_LOSSES[name])


def _with_loss_parameter(loss: Loss, name: str, value: Any) -> Loss:
    """Return a loss of this library with another value of the parameter that LightGBM's objectives
    know by `name`.
    """
    if name == "lambdarank_norm":
        value = "lightgbm" if value else "none"
    name_of_loss = _NAMES_OF_LOSSES[name]
    return dataclasses.replace(loss, **{name_of_loss: value})
