"""XGBoost's own ranking objectives, judged with the metric of this library."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tautrank.arrays import F64
from tautrank.data import RankingData
from tautrank.engines.base import Engine, FittedModel, GradientsAt, Learner, Part, Settings, Task, shares
from tautrank.engines.boosting import document_weights
from tautrank.engines.packages import package
from tautrank.engines.registry import NativeLoss
from tautrank.engines.trees import Tree
from tautrank.errors import OptionError

if TYPE_CHECKING:
    from xgboost import Booster


class XGBoostModel(FittedModel):
    """Trees in XGBoost's memory; kept in a file as UBJSON, which is data only.

    Args:
        booster: a booster that holds the trees to use, and no more.
    """

    tool: ClassVar[str] = "xgboost"
    member: ClassVar[str] = "model.ubj"

    def __init__(self, booster: Booster) -> None:
        self.booster = booster
        self.n_features = int(booster.num_features())
        self.n_trees = int(booster.num_boosted_rounds())

    def _scores(self, X: Any, threads: int) -> Any:
        self.booster.set_param({"nthread": threads})
        return self.booster.predict(package("xgboost").DMatrix(_dense(X), nthread=threads), output_margin=True)

    def importances(self) -> F64:
        """Return the gain of each feature over all splits, as shares that sum to 1."""
        gains = np.zeros(self.n_features)
        for name, gain in self.booster.get_score(importance_type="total_gain").items():
            gains[int(name[1:])] = gain
        return shares(gains)

    def to_bytes(self) -> bytes:
        """Return the model as UBJSON."""
        return bytes(self.booster.save_raw("ubj"))

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> XGBoostModel:
        """Read UBJSON.

        Args:
            content: what `to_bytes` returned.
            n_features: number of features that the model must have.
        """
        return cls(package(cls.tool).Booster(model_file=bytearray(content)))

    def trees(self) -> list[Tree]:
        """Return the trees as plain arrays, and a tree of one leaf for the score they start from."""
        learner = json.loads(self.booster.save_raw("json"))["learner"]
        booster = learner["gradient_booster"]
        if booster["name"] != "gbtree":
            raise OptionError(f"format: found XGBoost's booster {booster['name']}; expected gbtree")
        # One number, which XGBoost 3 writes as a list of one.
        trees = [Tree.constant(float(learner["learner_model_param"]["base_score"].strip("[]")))]
        for described in booster["model"]["trees"]:
            left, right = (np.array(described[name], np.int64) for name in ("left_children", "right_children"))
            numbers = np.array(described["split_conditions"], np.float32)
            inner = left >= 0
            if np.array(described["split_type"], np.int64)[inner].any():
                raise OptionError(
                    "format: the model splits by category (categorical_feature); expected a model without such splits"
                )
            # Splits and leaves share one numbering in XGBoost.
            place = np.where(inner, np.cumsum(inner) - 1, ~(np.cumsum(~inner) - 1))
            trees.append(
                Tree.of(
                    np.array(described["split_indices"], np.int64)[inner],
                    np.nextafter(numbers[inner], np.float32(-math.inf)),
                    np.array(described["default_left"], np.int64)[inner] != 0,
                    place[left[inner]],
                    place[right[inner]],
                    numbers[~inner],
                )
            )
        return trees


class XGBoost(Engine):
    """Gradient boosted trees by XGBoost, on XGBoost's own objectives.

    Chen and Guestrin, *XGBoost: A Scalable Tree Boosting System*, KDD 2016.

    ``num_leaves`` is XGBoost's ``max_leaves``, grown best first as LightGBM does; a ``max_depth`` given among the
    engine's parameters is used instead of it. Sparse features are made dense: XGBoost would read what is not stored
    as missing, where every other engine reads it as 0.
    """

    name: ClassVar[str] = "xgboost"
    written: ClassVar[str] = "XGBoost"
    model_class: ClassVar[type[FittedModel]] = XGBoostModel
    objectives: ClassVar[tuple[str, ...]] = ("rank:ndcg", "rank:pairwise", "rank:map", "reg:squarederror")
    takes_losses: ClassVar[bool] = False
    uses_openmp: ClassVar[bool] = True

    def start(self, task: Task, settings: Settings) -> Learner:
        """Begin a training.

        Args:
            task: what to learn from what.
            settings: how; `extra` holds any parameter of XGBoost.
        """
        return _Learner(task, settings)

    def errors(self) -> tuple[type[Exception], ...]:
        """Return XGBoost's exceptions about a training that it cannot do."""
        return (package(self.name).core.XGBoostError,)

    def in_its_words(self, parameters: Mapping[str, Any], fixed: Collection[str] = ()) -> dict[str, Any]:
        """Leave out the minimum of documents per leaf, which XGBoost does not have.

        Args:
            parameters: values under the names that scikit-learn and LightGBM use.
            fixed: names of the parameters that are set besides.

        >>> XGBoost().in_its_words({"learning_rate": 0.1, "min_child_samples": 5})
        {'learning_rate': 0.1}
        """
        return {name: value for name, value in parameters.items() if name != "min_child_samples"}


class _Learner:
    def __init__(self, task: Task, settings: Settings) -> None:
        xgboost, threads = package("xgboost"), settings.threads
        assert isinstance(task.loss, NativeLoss)
        ranks = task.loss.objective.startswith("rank:")

        def matrix(data: RankingData, weights: F64 | None) -> Any:
            kinds = None
            if task.categorical:
                kinds = ["c" if column in task.categorical else "q" for column in range(data.n_features)]
            return xgboost.DMatrix(
                _dense(data.X),
                label=data.labels,
                weight=weights,
                group=data.sizes if ranks else None,
                feature_types=kinds,
                enable_categorical=bool(task.categorical),
                nthread=threads,
            )

        # XGBoost takes weights of queries when it ranks, of documents when it does not.
        weights = task.weights if ranks else document_weights(task.train, task.weights)
        self._parts: dict[Part, Any] = {"train": matrix(task.train, weights)}
        if task.valid is not None:
            self._parts["valid"] = matrix(task.valid, None)
        self._booster: Booster = xgboost.Booster(
            _parameters(task.loss.objective, settings),
            cache=list(self._parts.values()),
            model_file=task.start.booster if isinstance(task.start, XGBoostModel) else None,
        )

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        self._booster.update(self._parts["train"], self.rounds)

    @property
    def rounds(self) -> int:
        return int(self._booster.num_boosted_rounds())

    def scores(self, part: Part) -> NDArray[Any]:
        # XGBoost keeps the scores of the matrices in its cache, so that this costs one tree.
        return np.asarray(self._booster.predict(self._parts[part], output_margin=True))

    def model(self, rounds: int) -> FittedModel:
        kept = self._booster if rounds == self.rounds else self._booster[:rounds]
        return XGBoostModel.from_bytes(bytes(kept.save_raw("ubj")), self._booster.num_features())


def _parameters(objective: str, settings: Settings) -> dict[str, Any]:
    params: dict[str, Any] = {
        "objective": objective,
        "tree_method": "hist",
        "learning_rate": settings.learning_rate,
        "nthread": settings.threads,
        "seed": settings.seed,
        "disable_default_eval_metric": 1,
        "verbosity": 1,
    }
    if not {"max_depth", "grow_policy"} & set(settings.extra):
        params |= {"grow_policy": "lossguide", "max_leaves": settings.num_leaves, "max_depth": 0}
    return {**params, **settings.extra}


def _dense(X: Any) -> NDArray[np.float32]:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)
