"""CatBoost's own ranking objectives, judged with the metric of this library."""

from __future__ import annotations

import math
import re
import tempfile
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tautrank.arrays import F64, Array, query_of
from tautrank.data import RankingData
from tautrank.engines.base import SelfTrainingEngine
from tautrank.engines.langevin import Langevin
from tautrank.engines.model import FittedModel, shares
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import package
from tautrank.engines.task import NativeLoss, Part, Settings, Task
from tautrank.errors import OptionError

# Trees that are scaled by less than this are too small to be scaled back.
_SMALLEST_SCALE = 2.0**-512
# CatBoost's limit of the depth of a tree.
_LARGEST_DEPTH = 16
# CatBoost's names for parameters that scikit-learn and LightGBM share.
_CATBOOST_NAMES = {"colsample_bytree": "rsm", "reg_lambda": "l2_leaf_reg"}


class CatBoostModel(FittedModel):
    """Trees in CatBoost's memory; kept in a file in CatBoost's own binary format.

    Args:
        model: a CatBoost model that holds the trees to use, and no more.
        n_features: columns of the data it was trained on.
    """

    tool: ClassVar[str] = "catboost"
    member: ClassVar[str] = "model.cbm"

    def __init__(self, model: Any, n_features: int) -> None:
        self.model = model
        self.n_features = n_features
        self.n_trees = int(model.tree_count_)

    def _scores(self, X: Any, threads: int) -> Any:
        return self.model.predict(X, prediction_type="RawFormulaVal", thread_count=threads)

    def _contributions(self, X: Any, threads: int) -> Any:
        """Return what each feature adds to each score (SHAP values), and the mean score in the last
        column.
        """
        pool = package(self.tool).Pool(X)
        values = self.model.get_feature_importance(pool, type="ShapValues", thread_count=threads)
        of_features = values[:, :-1]
        mean = values[:, -1:]
        # CatBoost leaves out the features behind the last one that it has used: they add 0.
        n_unused = self.n_features - of_features.shape[1]
        of_unused_features = np.zeros((len(values), n_unused))
        return np.hstack((of_features, of_unused_features, mean))

    def importances(self) -> F64:
        """Return how much each feature changes the prediction (PredictionValuesChange), as shares
        that sum to 1.
        """
        if self.n_trees == 0:
            return np.zeros(self.n_features)
        values = shares(self.model.get_feature_importance(type="PredictionValuesChange"))
        # CatBoost leaves out the features behind the last one that it has used: their share is 0.
        return np.pad(values, (0, self.n_features - values.size))

    def to_bytes(self) -> bytes:
        """Return the model in CatBoost's binary format."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, self.member)
            self.model.save_model(str(path), format="cbm")
            return path.read_bytes()

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> CatBoostModel:
        """Return the model that CatBoost has written in its binary format.

        Args:
            content: what `to_bytes` returned.
            n_features: number of features that the model was trained on.
        """
        model = package(cls.tool).CatBoost().load_model(blob=content)
        # CatBoost leaves out the features behind the last one that it has used.
        n_features_used = len(model.feature_names_ or ())
        return cls(model, max(n_features, n_features_used))

    @classmethod
    def tool_errors(cls) -> tuple[type[Exception], ...]:
        """Return CatBoost's exceptions about a model or a training that it cannot handle."""
        return package(cls.tool).CatBoostError, TypeError


class CatBoost(SelfTrainingEngine):
    """Gradient boosted oblivious trees by CatBoost, on CatBoost's own objectives.

    Prokhorenkova et al., *CatBoost: unbiased boosting with categorical features*, NeurIPS 2018.

    CatBoost's trees split a whole level at a time: ``num_leaves`` becomes the depth
    ``ceil(log2 num_leaves)``, unless ``depth``, ``max_depth`` or ``grow_policy`` is given among the
    engine's parameters.
    """

    name: ClassVar[str] = "catboost"
    model_class: ClassVar[type[FittedModel]] = CatBoostModel
    objectives: ClassVar[tuple[str, ...]] = (
        "YetiRank",
        "YetiRankPairwise",
        "StochasticRank",
        "QueryRMSE",
        "QuerySoftMax",
        "PairLogit",
        "PairLogitPairwise",
        "RMSE",
    )
    takes_losses: ClassVar[bool] = False
    has_langevin: ClassVar[bool] = True

    def train(self, task: Task, settings: Settings, monitor: TrainingMonitor) -> FittedModel:
        """Train a CatBoost model until `monitor` says stop, and return it with the trees of the
        rounds to keep, usually those up to the best round.

        Args:
            task: training and validation data, and CatBoost's objective as the loss.
            settings: how to train; `extra` holds any parameter of CatBoost.
            monitor: judges each round.
        """
        if task.categorical:
            raise OptionError(
                "categorical_feature: CatBoost takes no category codes among float features; "
                "expected none, or LightGBM"
            )
        if settings.rates is not None:
            raise OptionError("learning_rate: found one per tree; expected one number for CatBoost")
        if settings.langevin is not None:
            _check_langevin(settings.langevin, task, settings)
        model = self._train_all_rounds(task, settings, monitor)
        n_trees_to_drop = model.tree_count_ - monitor.rounds_to_keep
        if n_trees_to_drop > 0:
            model.shrink(monitor.rounds_to_keep)
            if settings.langevin is not None:
                # CatBoost had scaled the kept trees down once before each tree that is dropped now:
                # the negative power scales them up again. The bias is the score at the start.
                factor = _scale_per_tree(settings.langevin, settings.learning_rate)
                correction = factor**-n_trees_to_drop
                scale, bias = model.get_scale_and_bias()
                model.set_scale_and_bias(scale * correction, bias * correction)
        # Through the file format, so that a model predicts the same before it is saved and after.
        n_features = task.train.n_features
        content = CatBoostModel(model, n_features).to_bytes()
        return CatBoostModel.from_bytes(content, n_features)

    def _train_all_rounds(self, task: Task, settings: Settings, monitor: TrainingMonitor) -> Any:
        """Train until the monitor says stop, and return CatBoost's model with the trees of all
        rounds.
        """
        n_trees_before = 0 if task.start is None else task.start.n_trees
        # Stands between CatBoost and the monitor: a metric and a callback for CatBoost.
        adapter = _MonitorAdapter(monitor, n_trees_before)
        params = _catboost_parameters(task, settings)
        if monitor.history:
            # CatBoost shows its scores only to a metric.
            params["eval_metric"] = adapter
        start = task.start.model if isinstance(task.start, CatBoostModel) else None
        with self.in_one_sentence(task.loss), warnings.catch_warnings():
            # CatBoost tries to compile the metric with Numba, and warns that it cannot.
            warnings.filterwarnings("ignore", message="Can't optim|Failed to optim")
            model = package(self.name).CatBoost(params)
            train = _make_pool(task.train, task.document_weights)
            valid = None if task.valid is None else _make_pool(task.valid, None)
            model.fit(train, eval_set=valid, callbacks=[adapter], init_model=start)
        # An error that a callback of CatBoost raises would be lost: the adapter has kept it.
        if adapter.failure is not None:
            raise adapter.failure
        return model

    @classmethod
    def find_objective(cls, text: str) -> str | None:
        """Return the objective of CatBoost that a user has typed, in CatBoost's own spelling; None
        if there is no such objective.

        Parameters of the objective may follow it, in CatBoost's own spelling.

        Args:
            text: an objective, such as ``YetiRank`` or ``YetiRank:mode=NDCG;top=10``.

        >>> CatBoost.find_objective("yetirank:mode=NDCG;top=10")
        'YetiRank:mode=NDCG;top=10'
        """
        name, _colon, parameters = text.partition(":")
        objective = super().find_objective(name)
        if objective is None or not parameters:
            return super().find_objective(text)
        # Parameters are checked for their form only, since CatBoost does not list their names.
        for parameter in parameters.split(";"):
            if not re.fullmatch(r"[A-Za-z_]\w*=[^;=]+", parameter):
                raise OptionError(
                    f"loss: found 'catboost:{text}'; expected CatBoost's own spelling, "
                    f"catboost:{name}:name=value;name=value"
                )
        return f"{objective}:{parameters}"

    def translate_parameters(
        self, parameters: Mapping[str, Any], fixed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return parameters under CatBoost's names. The minimum of documents per leaf is left out,
        since CatBoost's default trees have none.

        Args:
            parameters: values under the names that scikit-learn and LightGBM use.
            fixed: names of the parameters that are set besides.

        >>> parameters = {"learning_rate": 0.1, "colsample_bytree": 0.5, "min_child_samples": 5}
        >>> CatBoost().translate_parameters(parameters)
        {'learning_rate': 0.1, 'rsm': 0.5}
        """
        renamed = {}
        for name, value in parameters.items():
            if name != "min_child_samples":
                renamed[_CATBOOST_NAMES.get(name, name)] = value
        if "subsample" in renamed:
            # CatBoost's other ways of sampling take no share of the rows.
            renamed["bootstrap_type"] = "Bernoulli"
        return renamed


class _MonitorAdapter:
    """What CatBoost calls so that a `TrainingMonitor` judges each round: a metric, which is shown
    the scores, and a callback, which may stop the training.

    Args:
        monitor: judges each round.
        rounds: number of rounds of the model that training continues, or 0.
    """

    def __init__(self, monitor: TrainingMonitor, rounds: int) -> None:
        self._monitor = monitor
        self._rounds = rounds
        self._scores_of_round: list[Array] = []
        self.failure: BaseException | None = None

    def __deepcopy__(self, memo: Any) -> _MonitorAdapter:
        return self  # CatBoost copies its parameters; the monitor must be the one that was given

    def is_max_optimal(self) -> bool:
        """Return whether higher values of the metric are better, as CatBoost asks any metric."""
        return True

    def evaluate(self, approxes: Any, target: Any, weight: Any) -> tuple[float, float]:
        """Keep the scores that CatBoost computes its metric from; the value itself is not used.

        After every tree CatBoost calls this for the training data, then for the validation data.
        """
        # A copy: the array is CatBoost's own memory.
        self._scores_of_round.append(np.array(approxes[0]))
        return 0.0, 1.0

    def get_final_error(self, error: float, weight: float) -> float:
        """Return the value of the metric from the two numbers of `evaluate`."""
        return error

    def after_iteration(self, _: Any) -> bool:
        """Let the monitor judge the round that has ended, and return whether training goes on;
        CatBoost calls this after each round.

        CatBoost has computed the metric of this round before, first on the training and then on the
        validation data: the scores it was given are in `_scores_of_round`.
        """
        scores_of_parts = self._scores_of_round
        self._scores_of_round = []
        self._rounds += 1

        def scores(part: Part) -> Array:
            # Training data comes first, validation data last.
            place = 0 if part == "train" else -1
            return scores_of_parts[place]

        try:
            should_stop = self._monitor.after_round(self._rounds, scores)
        except BaseException as failure:  # CatBoost would print it and go on
            self.failure = failure
            return False
        return not should_stop


def _make_pool(data: RankingData, weights: F64 | None) -> Any:
    """Return ranking data as CatBoost's own data set, a pool.

    Args:
        data: the documents.
        weights: weight of each document's query; None for equal weights.
    """
    query_ids = query_of(data.offsets)
    return package("catboost").Pool(data.X, data.labels, group_id=query_ids, group_weight=weights)


def _catboost_parameters(task: Task, settings: Settings) -> dict[str, Any]:
    """Return CatBoost's parameters for a training, from the settings of this library and CatBoost's
    own parameters among them (`Settings.extra`), which take precedence.
    """
    assert isinstance(task.loss, NativeLoss)
    objective = task.loss.objective
    if objective == "StochasticRank":
        objective += ":metric=NDCG"  # CatBoost does not train it without a metric
    params: dict[str, Any] = {
        "loss_function": objective,
        "iterations": settings.n_estimators,
        "learning_rate": settings.learning_rate,
        "random_seed": settings.seed,
        "thread_count": settings.threads,
        "allow_writing_files": False,
        "logging_level": "Silent",
        "use_best_model": False,  # the caller drops the trees after the best round
    }
    if settings.langevin is not None:
        params |= {
            "langevin": True,
            "diffusion_temperature": settings.langevin.temperature,
            "model_shrink_rate": settings.langevin.shrink_rate,
        }
    says_depth = not {"depth", "max_depth", "grow_policy"}.isdisjoint(settings.extra)
    if not says_depth:
        # CatBoost's trees are symmetric, with 2^depth leaves: the least depth with at least as many
        # leaves as asked for.
        depth = math.ceil(math.log2(settings.num_leaves))
        params["depth"] = min(_LARGEST_DEPTH, max(1, depth))
    return {**params, **settings.extra}


def _check_langevin(langevin: Langevin, task: Task, settings: Settings) -> None:
    """Raise an error if CatBoost cannot do Langevin boosting, which adds noise to gradients and
    shrinks the model before each tree, with the other settings.
    """
    for name in ("model_shrink_rate", "model_shrink_mode"):
        if name in settings.extra:
            raise OptionError(
                f"{name}: found beside langevin, which has a shrink_rate; expected one of the two"
            )
    scale_per_tree = _scale_per_tree(langevin, settings.learning_rate)
    if task.start is not None and scale_per_tree != 1:
        raise OptionError(
            "init_model: CatBoost does not shrink a model that it continues; expected none, or "
            "langevin with shrink_rate=0"
        )
    # Early stopping drops at most so many trees. Each had shrunk the trees before it by
    # `scale_per_tree`; that is undone by a division, so the product must not be almost 0.
    scale_of_best_trees = scale_per_tree ** (settings.early_stopping_rounds or 0)
    if scale_of_best_trees < _SMALLEST_SCALE:
        raise OptionError(
            "early_stopping_rounds: CatBoost shrinks the best trees to nothing in "
            f"{settings.early_stopping_rounds} rounds; expected fewer, or a smaller shrink_rate of "
            "langevin"
        )


def _scale_per_tree(langevin: Langevin, learning_rate: float) -> float:
    """Return the factor that CatBoost scales a model by before each new tree: 1 minus the learning
    rate times the shrink rate.
    """
    # CatBoost keeps both rates in float32.
    rate = float(np.float32(learning_rate))
    shrink_rate = float(np.float32(langevin.shrink_rate))
    return 1.0 - rate * shrink_rate
