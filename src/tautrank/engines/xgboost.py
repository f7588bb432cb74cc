"""XGBoost's own ranking objectives, judged with the metric of this library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tautrank.data import RankingData
from tautrank.engines.base import F64, Engine, FittedModel, Record, Settings, Task, shares
from tautrank.engines.boosting import boost, document_weights
from tautrank.engines.langevin import Shrunk
from tautrank.engines.native_loss import NativeLoss, imported, in_one_sentence, refuse_name
from tautrank.errors import DataError

if TYPE_CHECKING:
    from xgboost import Booster

_OURS = {
    "eta": "learning_rate",
    "num_boost_round": "n_estimators",
    "seed": "random_state",
    "nthread": "n_jobs",
    "objective": "loss",
    "eval_metric": "metric",
    "max_leaves": "num_leaves",
}


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
        return self.booster.predict(imported("xgboost").DMatrix(_dense(X), nthread=threads), output_margin=True)

    def importances(self) -> F64:
        """Gain of each feature over all splits, as shares that sum to 1."""
        gains = np.zeros(self.n_features)
        for name, gain in self.booster.get_score(importance_type="total_gain").items():
            gains[int(name[1:])] = gain
        return shares(gains)

    def to_bytes(self) -> bytes:
        """The model as UBJSON."""
        return bytes(self.booster.save_raw("ubj"))

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> XGBoostModel:
        """Read UBJSON.

        Args:
            content: what `to_bytes` gave.
            n_features: how many features the model must have.
        """
        xgboost = imported(cls.tool)
        try:
            model = cls(xgboost.Booster(model_file=bytearray(content)))
        except xgboost.core.XGBoostError:
            raise DataError("XGBoost cannot read the model") from None
        if model.n_features != n_features:
            raise DataError(f"found an XGBoost model of {model.n_features} features; expected {n_features}")
        return model


class XGBoostPeer(Engine):
    """Gradient boosted trees by XGBoost, on XGBoost's own objectives.

    Chen and Guestrin, *XGBoost: A Scalable Tree Boosting System*, KDD 2016.

    ``num_leaves`` is XGBoost's ``max_leaves``, grown best first as LightGBM does; a ``max_depth`` given among the
    engine's parameters is used instead of it. Sparse features are made dense: XGBoost would take what is not stored
    for missing, where every other engine takes it for 0.
    """

    name: ClassVar[str] = "xgboost"
    model: ClassVar[type[FittedModel]] = XGBoostModel

    def fit(self, task: Task, settings: Settings) -> tuple[FittedModel, Record]:
        """Train.

        Args:
            task: what to learn from what.
            settings: how; `extra` holds any parameter of XGBoost.
        """
        with in_one_sentence(task.loss, self.name, imported(self.name).core.XGBoostError):
            return boost(_Grower, task, settings)


class _Grower:
    def __init__(self, task: Task, settings: Settings) -> None:
        xgboost = imported("xgboost")
        for name in settings.extra:
            refuse_name("xgboost", name, _OURS.get(name))
        threads = settings.threads
        assert isinstance(task.loss, NativeLoss)
        ranks = task.loss.objective.startswith("rank:")

        def matrix(data: RankingData, weights: F64 | None) -> Any:
            kinds = None
            if task.categorical:
                kinds = ["c" if column in task.categorical else "q" for column in range(data.n_features)]
            result = xgboost.DMatrix(
                _dense(data.X),
                label=data.labels,
                feature_types=kinds,
                enable_categorical=bool(task.categorical),
                nthread=threads,
            )
            if ranks:
                result.set_group(data.sizes)
            if weights is not None:
                result.set_weight(weights)
            return result

        # XGBoost weighs queries when it ranks, documents when it does not.
        self._train = matrix(task.train, task.weights if ranks else document_weights(task.train, task.weights))
        self._valid = None if task.valid is None else matrix(task.valid, None)
        self._booster: Booster = xgboost.Booster(
            _parameters(task, settings),
            cache=[data for data in (self._train, self._valid) if data is not None],
            model_file=task.start.booster if isinstance(task.start, XGBoostModel) else None,
        )

    def grow(self, step: int) -> None:
        self._booster.update(self._train, step)

    def n_trees(self) -> int:
        return int(self._booster.num_boosted_rounds())

    # XGBoost keeps the scores of the matrices in its cache, so that these cost one tree.
    def train_scores(self) -> NDArray[Any]:
        return np.asarray(self._booster.predict(self._train, output_margin=True))

    def valid_scores(self) -> NDArray[Any]:
        return np.asarray(self._booster.predict(self._valid, output_margin=True))

    def finish(self, n_trees: int, steps: int) -> tuple[FittedModel, Shrunk | None]:
        kept = self._booster if n_trees == self.n_trees() else self._booster[:n_trees]
        return XGBoostModel.from_bytes(bytes(kept.save_raw("ubj")), self._booster.num_features()), None


def _parameters(task: Task, settings: Settings) -> dict[str, Any]:
    assert isinstance(task.loss, NativeLoss)
    params: dict[str, Any] = {
        "objective": task.loss.objective,
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
