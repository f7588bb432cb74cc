"""What users of LightGBM have: dictionaries of parameters, callbacks, and arguments of `fit` that moved elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from tautrank.engines import NativeLoss, read_loss
from tautrank.engines.lightgbm import LightGBM, main_names
from tautrank.errors import OptionError, refuse
from tautrank.losses import Loss
from tautrank.metrics import Metric, metric

# LightGBM's main names of parameters that have other names here, and those of its objectives that losses have too.
_OF_RANKERS = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "num_threads": "n_jobs",
    "seed": "random_state",
    "early_stopping_round": "early_stopping_rounds",
}
_OF_LOSSES = {"lambdarank_truncation_level": "k", "label_gain": "gain", "lambdarank_norm": "norm", "sigmoid": "sigma"}
# Parameters of its scikit-learn estimator that mean nothing to a ranking.
_NO_MEANING = ("class_weight", "importance_type", "silent")
_DEFAULTS = {"n_estimators": 100, "learning_rate": 0.1, "early_stopping_rounds": None}
_ELSEWHERE = {"init_score": "expected init_model=, a model to add trees to"}
_ELSEWHERE |= dict.fromkeys(("eval_sample_weight", "eval_class_weight", "eval_init_score"), "expected it left out")


def translated(params: Mapping[str, Any], loss: Any = None) -> dict[str, Any]:
    """Return parameters of LightGBM as those of `Ranker`, with LightGBM's defaults; all problems are told at once.

    Args:
        params: parameters under any of LightGBM's names; None is a value that was not given.
        loss: a loss of this library to train instead of LightGBM's objective; it gets the objective's parameters.

    >>> found = translated({"objective": "lambdarank", "num_iterations": 50, "eval_at": [5, 10], "seed": 3})
    >>> found["loss"], str(found["metric"]), found["n_estimators"], found["random_state"]
    ('lightgbm:lambdarank', 'ndcg(ties=input,empty=one)@10', 50, 3)
    >>> translated({"lambdarank_truncation_level": 20, "etaa": 1, "task": "train"}, loss="ndcg-loss2++")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown parameter of lightgbm 'etaa'; did you mean 'eta'? (closest: ...). task: is for
    LightGBM's command line; expected a parameter of training
    """
    given = {main_names().get(name, name): value for name, value in params.items() if value is not None}
    objective, at, judge = given.pop("objective", "lambdarank"), given.pop("eval_at", 5), given.pop("metric", "ndcg")
    trained: Any = read_loss(f"lightgbm:{objective}" if loss is None else loss)
    found: dict[str, Any] = {**_DEFAULTS, "verbose": 0 if given.pop("verbosity", 1) < 1 else None}
    first = (judge.split(",") if isinstance(judge, str) else [*judge])[0]
    name = "ndcg" if first.lower() in ("", "none", "lambdarank", "rank_xendcg") else first
    found["metric"] = metric(f"{name}@{at if isinstance(at, int) else max(at)}", like="lightgbm")
    extra = {}
    for name, value in given.items():
        if name in _OF_RANKERS:
            found[_OF_RANKERS[name]] = value
        elif name in _OF_LOSSES and isinstance(trained, Loss) and hasattr(trained, _OF_LOSSES[name]):
            changed: Any = ("lightgbm" if value else "none") if name == "lambdarank_norm" else value
            trained = dataclasses.replace(trained, **{_OF_LOSSES[name]: changed})
        elif name not in _NO_MEANING:
            extra[name] = value
    checked = {name: value for name, value in extra.items() if name != "categorical_feature"}
    refuse(LightGBM().wrong_names(trained, checked))
    found["early_stopping_rounds"] = max(0, found["early_stopping_rounds"] or 0) or None  # 0 is off in LightGBM
    return {**found, **extra, "loss": str(trained) if isinstance(trained, NativeLoss) else trained}


def judging(given: Any, at: Any, first: Metric) -> tuple[Metric, ...]:
    """Return further metrics that judge a training.

    Args:
        given: `eval_metric`: names or metrics, one or several; None for none.
        at: `eval_at`: cutoffs of the metrics that have none; by default of NDCG.
        first: the metric that decides, which is not repeated.

    >>> judging(["ndcg", "map"], [1, 3], metric("ndcg@3"))
    (metric('ndcg@1'), metric('map@1'), metric('map@3'))
    """
    names = [given] if isinstance(given, str | Metric) or callable(given) else [*(given or ())]
    if any(callable(name) for name in names):
        raise OptionError("eval_metric: found a function; expected names, or a ListMetric for a metric of your own")
    found = [metric(name) for name in names or (["ndcg"] if at is not None else [])]
    cuts = [None] if at is None else [at] if isinstance(at, int) else [*at]
    each = [m if m.k is not None else dataclasses.replace(m, k=k) for m in found for k in cuts]
    return tuple(m for m in dict.fromkeys(each) if m != first)


def from_callbacks(callbacks: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any], list[dict[str, Any]]]:
    """Return the callbacks of this library, the settings that LightGBM's stand for, and dictionaries to record in.

    Args:
        callbacks: both kinds.

    >>> import lightgbm
    >>> from_callbacks([lightgbm.early_stopping(10, verbose=False), lightgbm.log_evaluation(0)])
    ((), {'early_stopping_rounds': 10, 'verbose': 0}, [])
    """
    theirs = [each for each in callbacks if type(each).__module__ == "lightgbm.callback"]
    settings: dict[str, Any] = {}
    for callback in theirs:
        if hasattr(callback, "stopping_rounds") and not callback.min_delta:
            settings["early_stopping_rounds"] = callback.stopping_rounds
        elif hasattr(callback, "period"):
            settings["verbose"] = int(callback.period > 0)
        elif {*getattr(callback, "kwargs", ())} == {"learning_rate"}:
            settings["rates"] = callback.kwargs["learning_rate"]
        elif not hasattr(callback, "eval_result"):
            raise OptionError(
                f"callbacks: found {type(callback).__name__.strip('_')} of lightgbm.callback with options that have no "
                "counterpart; expected early_stopping without min_delta, reset_parameter of the learning_rate, "
                "log_evaluation, record_evaluation, or functions of one argument, a Step"
            )
    records = [each.eval_result for each in theirs if hasattr(each, "eval_result")]
    return tuple(each for each in callbacks if each not in theirs), settings, records


def refuse_arguments(others: Mapping[str, Any], own: Iterable[str]) -> None:
    """Refuse arguments of LightGBM's `fit` in a sentence that says where they went.

    Args:
        others: arguments that `fit` does not have.
        own: names of the parameters of a ranker.
    """
    for name, value in others.items():
        if name in own:
            raise OptionError(f"{name}: is a parameter of the ranker; expected Ranker({name}={value!r})")
        if name not in _ELSEWHERE:
            raise TypeError(f"fit() got an unexpected keyword argument '{name}'")
        raise OptionError(f"{name}: has no counterpart here; {_ELSEWHERE[name]}")
