"""XGBoost: trees for any loss of this library, and for XGBoost's own objectives."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tautrank.arguments import choice
from tautrank.arrays import F32, F64, Array, dense
from tautrank.data import StreamedRows
from tautrank.engines.base import Engine, GradientsAt, Learner, RefillableLearner
from tautrank.engines.binned import content_key
from tautrank.engines.langevin import check_leaves
from tautrank.engines.model import FittedModel, shares
from tautrank.engines.packages import package
from tautrank.engines.parameter_names import OTHER_NAMES
from tautrank.engines.task import NativeLoss, Part, Settings, Task
from tautrank.engines.trees import Tree
from tautrank.engines.xgboost_json import (
    base_score,
    kind_of,
    tree_of,
    trees_in,
    with_leaves,
    with_trees,
)
from tautrank.errors import DataError, OptionError, unknown

if TYPE_CHECKING:
    from xgboost import Booster


class XGBoostModel(FittedModel):
    """Trees in XGBoost's memory; kept in a file as UBJSON, which is data only.

    Args:
        booster: a booster that holds the trees to use, and no more.
    """

    tool: ClassVar[str] = "xgboost"
    member: ClassVar[str] = "model.ubj"
    sums_are_single: ClassVar[bool] = True

    def __init__(self, booster: Booster) -> None:
        self.booster = booster
        self.n_features = int(booster.num_features())
        self.n_trees = int(booster.num_boosted_rounds())

    def _predict(self, X: Any, threads: int, **options: bool) -> Any:
        self.booster.set_param({"nthread": threads})
        matrix = package("xgboost").DMatrix(dense(X), nthread=threads)
        return self.booster.predict(matrix, **options)

    def _scores(self, X: Any, threads: int) -> Any:
        return self._predict(X, threads, output_margin=True)

    def _contributions(self, X: Any, threads: int) -> Any:
        scores = np.asarray(self._scores(X, threads), dtype=np.float64)
        parts = np.asarray(self._predict(X, threads, pred_contribs=True), dtype=np.float64)
        # XGBoost adds float32 numbers; what its rounding has lost goes to the features by their
        # size.
        sizes = np.abs(parts)
        sizes[:, -1] = 0.0
        sum_of_sizes = np.maximum(sizes.sum(axis=1), np.finfo(np.float64).tiny)
        share_of_lost = (scores - parts.sum(axis=1)) / sum_of_sizes
        return parts + sizes * share_of_lost[:, np.newaxis]

    def _leaves(self, X: Any, threads: int) -> Any:
        return self._predict(X, threads, pred_leaf=True)

    def truncated(self, n_trees: int) -> FittedModel:
        """Return the model of the first trees.

        Args:
            n_trees: their number.
        """
        content = bytes(self.booster[:n_trees].save_raw("ubj"))
        return self.read(content, self.n_features, self.scale)

    def importances(self) -> F64:
        """Return the gain of each feature over all splits, as shares that sum to 1."""
        gains = self.booster.get_score(importance_type="total_gain")
        return shares([gains.get(f"f{column}", 0.0) for column in range(self.n_features)])

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
        booster = package(cls.tool).Booster(model_file=bytearray(content))
        booster.feature_names = None  # the ranker has them; XGBoost would want them in every matrix
        return cls(booster)

    @classmethod
    def tool_errors(cls) -> tuple[type[Exception], ...]:
        """Return XGBoost's exception."""
        return (package(cls.tool).core.XGBoostError,)

    @classmethod
    def weighted_sum(
        cls, models: Sequence[XGBoostModel], factors: Sequence[float]
    ) -> FittedModel | None:
        """Return one booster with the trees of all models, their leaves scaled, in float32 as
        XGBoost keeps them.

        Args:
            models: the models.
            factors: one per model.
        """
        descriptions = [model._described() for model in models]
        if any(kind_of(described) != "gbtree" for described in descriptions):
            return None
        trees = []
        base = 0.0
        for described, model, factor in zip(descriptions, models, factors, strict=True):
            scale = factor * model.scale
            base += scale * base_score(described["learner"])
            multiply = functools.partial(np.multiply, scale)
            trees += [with_leaves(tree, multiply) for tree in trees_in(described)]
        content = with_trees(descriptions[0], trees, base)
        return cls.from_bytes(content, models[0].n_features)

    def rounded(self, unit: float) -> FittedModel:
        """Return the model with leaves, and a score to start from, that are multiples of a number.

        Args:
            unit: the number.
        """

        def rounded_leaves(leaves: F64) -> F64:
            return np.rint(leaves / unit) * unit

        described = self._described()
        trees = [with_leaves(tree, rounded_leaves) for tree in trees_in(described)]
        base = round(base_score(described["learner"]) / unit) * unit
        return self.from_bytes(with_trees(described, trees, base), self.n_features)

    @classmethod
    def joined(cls, contents: Sequence[bytes], n_features: int) -> FittedModel:
        """Return one model with the trees of several, one after the other, and the score that the
        first starts from.

        Args:
            contents: what `to_bytes` returned for each.
            n_features: number of features that each has.
        """
        descriptions = []
        trees = []
        for content in contents:
            described = cls.from_bytes(content, n_features)._described()
            descriptions.append(described)
            trees += trees_in(described)
        return cls.from_bytes(with_trees(descriptions[0], trees), n_features)

    def _described(self) -> Any:
        """Return the model as XGBoost describes it in JSON."""
        return json.loads(self.booster.save_raw("json"))

    def unscaled_trees(self) -> list[Tree]:
        """Return the trees as arrays, the first of one leaf: the score that all start from."""
        described = self._described()
        kind = kind_of(described)
        if kind != "gbtree":
            raise OptionError(f"format: found XGBoost's booster {kind}; expected gbtree")
        start = Tree.constant(base_score(described["learner"]))
        return [start, *map(tree_of, trees_in(described))]


class XGBoost(Engine):
    """Gradient boosted trees by XGBoost.

    Chen and Guestrin, *XGBoost: A Scalable Tree Boosting System*, KDD 2016.

    XGBoost's own defaults ``min_child_weight=1`` and ``reg_lambda=1`` are made for hessians of
    about 1, and those of ranking losses are far smaller. For a loss of this library a leaf
    therefore needs the hessians of 20 documents of the first tree (XGBoost has no least number of
    documents), and there is no L2 regularisation, unless they are given: both are what LightGBM
    does. Trees of these losses are the same bits for any number of threads.

    ``num_leaves`` is XGBoost's ``max_leaves``, grown best first as LightGBM does; a ``max_depth``
    given among the engine's parameters is used instead of it. Sparse features are made dense:
    XGBoost would read what is not stored as missing, where every other engine reads it as 0.
    """

    name: ClassVar[str] = "xgboost"
    model_class: ClassVar[type[FittedModel]] = XGBoostModel
    objectives: ClassVar[tuple[str, ...]] = (
        "rank:ndcg",
        "rank:pairwise",
        "rank:map",
        "reg:squarederror",
    )
    sampling: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "features": ("colsample_bytree", "colsample_bylevel", "colsample_bynode"),
        "rows": ("subsample",),
    }

    def start(self, task: Task, settings: Settings) -> Learner:
        """Begin a training.

        Args:
            task: what to learn from what.
            settings: how to train; `extra` holds any parameter of XGBoost.
        """
        return _Learner(task, settings)

    def translate_parameters(
        self, parameters: Mapping[str, Any], fixed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Leave out the minimum of documents per leaf, which XGBoost does not have.

        Args:
            parameters: values under the names that scikit-learn and LightGBM use.
            fixed: names of the parameters that are set besides.

        >>> XGBoost().translate_parameters({"learning_rate": 0.1, "min_child_samples": 5})
        {'learning_rate': 0.1}
        """
        return {name: value for name, value in parameters.items() if name != "min_child_samples"}


class _Learner(RefillableLearner):
    """One XGBoost training. On a cluster its matrices hold the scores of a model that it starts
    from, to whose trees the new ones are joined.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        self._rate = settings.learning_rate
        self._params = parameters(task, settings)
        self.l2 = float(self._params.get("reg_lambda", 1.0))
        self._filled_leaves: dict[int, dict[int, float]] = {}
        is_on_cluster = task.sample is not None
        make_matrices = _sampled_matrices if is_on_cluster else _matrices
        self._parts: dict[Part, Any] = make_matrices(task, settings, self._params)
        self._n_documents = task.train.n_documents if task.whole is None else task.whole[0]
        self._start = task.start if isinstance(task.start, XGBoostModel) else None
        self._rounds_before = 0
        model_file = None
        if self._start is not None and is_on_cluster:
            self._rounds_before = self._start.n_trees
        if self._start is not None and self._rounds_before == 0:
            model_file = self._start.booster
        self._booster: Booster = package("xgboost").Booster(
            self._params, [*self._parts.values()], model_file=model_file
        )

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        if rate != self._rate:
            self._booster.set_param({"learning_rate": rate})
            self._rate = rate
        train = self._parts["train"]
        if gradients is None:
            self._booster.update(train, self.rounds)
            return
        gradient, hessian = gradients(self.scores("train"))
        if "min_child_weight" not in self._params:
            self._set_min_child_weight(hessian)
        self._booster.boost(train, iteration=self.rounds, grad=gradient, hess=hessian)

    def _set_min_child_weight(self, hessian: F32) -> None:
        """Let a leaf have the hessians of so many documents of the first tree at least."""
        # Kept in the model: a training that continues it goes on with the same number.
        kept = None if self._start is None else self._start.booster.attr("min_child_weight")
        collective = package("xgboost").collective
        # Of all workers, where there are several.
        local_sum = np.array([hessian.sum(dtype=np.float64)])
        total = collective.allreduce(local_sum, collective.Op.SUM)[0]
        least = kept or repr(_LEAST_DOCUMENTS * float(total / self._n_documents))
        self._params["min_child_weight"] = least
        self._booster.set_param({"min_child_weight": least})
        self._booster.set_attr(min_child_weight=least)

    @property
    def rounds(self) -> int:
        return self._rounds_before + int(self._booster.num_boosted_rounds())

    def scores(self, part: Part) -> Array:
        # XGBoost keeps the scores of the matrices in its cache, so that this costs one tree.
        return np.asarray(self._booster.predict(self._parts[part], output_margin=True))

    def model(self, rounds: int) -> FittedModel:
        kept = self._booster if rounds == self.rounds else self._booster[:rounds]
        n_features = self._booster.num_features()
        if not self._filled_leaves:
            return XGBoostModel.from_bytes(bytes(kept.save_raw("ubj")), n_features)
        described = json.loads(kept.save_raw("json"))
        for number, tree in enumerate(trees_in(described)):
            for leaf, value in self._filled_leaves.get(number, {}).items():
                tree["split_conditions"][leaf] = value
        return XGBoostModel.from_bytes(json.dumps(described).encode(), n_features)

    def leaves(self, part: Part) -> Array:
        """Return the leaf of each document in the last tree."""
        last = self._booster[self.rounds - 1 :]
        return np.ravel(last.predict(self._parts[part], pred_leaf=True)).astype(np.int64)

    def fill(self, leaves: Array, values: F64) -> F64:
        """Change the values of leaves of the last tree, in float32 as XGBoost keeps them."""
        kept: F64 = values.astype(np.float32).astype(np.float64)
        value_by_leaf = dict(zip(leaves.tolist(), kept.tolist(), strict=True))
        self._filled_leaves[self.rounds - 1] = value_by_leaf
        return kept

    def last_tree(self) -> bytes:
        """Return a model of the last of the trees."""
        return bytes(self._booster[self._booster.num_boosted_rounds() - 1 :].save_raw("ubj"))


def _matrices(task: Task, settings: Settings, params: Mapping[str, Any]) -> dict[Part, Any]:
    """Return XGBoost's matrices of the training and validation data.

    Trainings side by side share them, with their bins. XGBoost adds those to a matrix when it is
    first trained on, so one tree is grown on it before any other training may see it.
    """
    is_ranking = isinstance(task.loss, NativeLoss) and task.loss.objective.startswith("rank:")
    # XGBoost takes weights of queries when it ranks, of documents when it does not.
    weights = task.weights if is_ranking else task.document_weights
    xgboost = package("xgboost")

    def make() -> dict[Part, Any]:
        matrices: dict[Part, Any] = {}
        for part, data in task.parts.items():
            matrices[part] = xgboost.DMatrix(
                dense(data.X),
                label=data.labels,
                weight=weights if part == "train" else None,
                group=data.sizes if is_ranking else None,
                **_matrix_options(task, settings),
            )
        if task.bins is not None:
            train = matrices["train"]
            xgboost.Booster(dict(params), cache=[train]).update(train, 0)
        return matrices

    if task.bins is None:
        return make()
    key = content_key(
        (task.train, task.valid),
        "xgboost",
        is_ranking,
        weights,
        task.categorical,
        params.get("max_bin"),
    )
    matrices: dict[Part, Any] = task.bins.get(key, make)
    return matrices


def _matrix_options(task: Task, settings: Settings) -> dict[str, Any]:
    """Return what all matrices of a training are made with."""
    kinds = ["c" if column in task.categorical else "q" for column in range(task.train.n_features)]
    has_categories = bool(task.categorical)
    return {
        "feature_types": kinds if has_categories else None,
        "enable_categorical": has_categories,
        "nthread": settings.threads,
    }


def _sampled_matrices(task: Task, settings: Settings, params: Mapping[str, Any]) -> dict[Part, Any]:
    """Return XGBoost's matrices of one worker's part of a training, in bins found from a sample of
    all documents.

    Features are read from files in chunks, and held as bins only.
    """
    assert task.sample is not None
    xgboost = package("xgboost")
    options = _matrix_options(task, settings)
    options["max_bin"] = params.get("max_bin", 256)
    reference = xgboost.QuantileDMatrix(task.sample, **options)
    feature_types = options.pop("feature_types")
    coded_columns = list(task.categorical)
    highest_codes = np.nanmax(task.sample[:, coded_columns], axis=0, initial=0.0)

    class Chunks(xgboost.DataIter):  # type: ignore[name-defined, misc]
        """The chunks of some features, as XGBoost asks for them."""

        def __init__(self, X: Any) -> None:
            self._X = X
            self.reset()
            super().__init__()

        def reset(self) -> None:
            if isinstance(self._X, StreamedRows):
                self._chunks = self._X.chunks(settings.threads)
            else:
                self._chunks = iter([dense(self._X)])

        def next(self, put: Any) -> bool:
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            _check_codes(chunk[:, coded_columns], highest_codes)
            put(data=chunk, feature_types=feature_types)
            return True

    matrices: dict[Part, Any] = {}
    for part, data in task.parts.items():
        matrix = xgboost.QuantileDMatrix(Chunks(data.X), ref=reference, **options)
        if task.start is not None:
            matrix.set_base_margin(task.start.unscaled_scores(data.X, settings.threads))
        matrices[part] = matrix
    return matrices


def _check_codes(codes: Array, highest_codes: Array) -> None:
    """Refuse codes that are not in the sample: XGBoost would take them for its highest."""
    if (codes > highest_codes).any():
        raise DataError(
            "categorical_feature: found a code above those of the sample that bins are found from; "
            "expected codes by falling frequency, or the engine lightgbm"
        )


def parameters(task: Task, settings: Settings) -> dict[str, Any]:
    """Return XGBoost's parameters for a training.

    Args:
        task: what to learn.
        settings: how to train.
    """
    extra = {_MAIN_NAMES.get(name, name): value for name, value in settings.extra.items()}
    for name in extra:
        if name not in _known_names():
            known_names = {*_known_names(), *_MAIN_NAMES, *OTHER_NAMES}
            raise unknown("parameter of xgboost", name, known_names)
    check_leaves(settings.langevin, extra)
    _check_booster(task, settings, extra)
    params: dict[str, Any] = {
        "tree_method": "hist",
        "learning_rate": settings.learning_rate,
        "nthread": settings.threads,
        "disable_default_eval_metric": 1,
    }
    if isinstance(task.loss, NativeLoss):
        params["objective"] = task.loss.objective
        params["seed"] = settings.seed % 2**31
    else:
        params["objective"] = "reg:squarederror"
        # Trees that are added to a model take other samples.
        params["seed"] = (settings.seed + task.start_step) % 2**31
        params["base_score"] = 0.0
        params["reg_lambda"] = 0.0
    if not {"max_depth", "grow_policy"} & set(extra):
        params["grow_policy"] = "lossguide"
        params["max_leaves"] = settings.num_leaves
        params["max_depth"] = 0
    return {**params, **extra}


def _check_booster(task: Task, settings: Settings, extra: Mapping[str, Any]) -> None:
    """Refuse boosters other than trees, and dropped trees where they do not work."""
    booster = choice("booster", extra.get("booster", "gbtree"), ("gbtree", "dart"))
    drops_trees = booster == "dart" or extra.get("rate_drop") or extra.get("one_drop")
    if not drops_trees:
        return
    if not isinstance(task.loss, NativeLoss):
        raise OptionError(
            "booster: found dart, which works with XGBoost's own objectives only; expected gbtree"
        )
    settings.refuse_dart()


# As many documents as a leaf of LightGBM needs by default.
_LEAST_DOCUMENTS = 20

# XGBoost's short names for parameters that its settings list under the long ones.
_MAIN_NAMES = {
    "lambda": "reg_lambda",
    "alpha": "reg_alpha",
    "gamma": "min_split_loss",
    "eta": "learning_rate",
}


@functools.cache
def _known_names() -> frozenset[str]:
    """Return the names of XGBoost's parameters, as it lists them itself; it would only warn about
    others.
    """
    xgboost = package("xgboost")
    names = set()
    tiny = xgboost.DMatrix(np.zeros((1, 1), np.float32), label=[0.0])
    for booster in ("gbtree", "dart"):
        params = {"booster": booster, "tree_method": "hist"}
        config = xgboost.Booster(params, cache=[tiny]).save_config()
        for name in re.findall(r'"(\w+)": ?"', config):
            names.add(_MAIN_NAMES.get(name, name))
    return frozenset(names - {"name"})
