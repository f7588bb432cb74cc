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
    booster_kind,
    parse_tree,
    trees_in,
    with_changed_leaves,
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
        """Return what XGBoost's ``predict`` returns for some features, with its own options."""
        self.booster.set_param({"nthread": threads})
        matrix = package("xgboost").DMatrix(dense(X), nthread=threads)
        return self.booster.predict(matrix, **options)

    def _scores(self, X: Any, threads: int) -> Any:
        return self._predict(X, threads, output_margin=True)

    def _contributions(self, X: Any, threads: int) -> Any:
        """Return what each feature adds to each score, and the mean score in the last column; a row
        adds up to the score.

        XGBoost's own contributions miss the score a little, since it adds float32 numbers. What is
        missing is divided among the features, in proportion to their contributions.
        """
        scores = np.asarray(self._scores(X, threads), dtype=np.float64)
        rounded = np.asarray(self._predict(X, threads, pred_contribs=True), dtype=np.float64)
        missing = scores - rounded.sum(axis=1)

        proportions = np.abs(rounded)
        proportions[:, -1] = 0.0  # the mean score is the same for all documents
        # Above 0 where no feature contributes: nothing is then divided, by a number other than 0.
        divisors = np.maximum(proportions.sum(axis=1), np.finfo(np.float64).tiny)
        missing_per_unit = missing / divisors
        return rounded + proportions * missing_per_unit[:, np.newaxis]

    def _leaves(self, X: Any, threads: int) -> Any:
        return self._predict(X, threads, pred_leaf=True)

    def truncated(self, n_trees: int) -> FittedModel:
        """Return the model of the first trees.

        Args:
            n_trees: their number.
        """
        first_trees = self.booster[:n_trees]
        content = bytes(first_trees.save_raw("ubj"))
        return self.read(content, self.n_features, self.scale)

    def importances(self) -> F64:
        """Return the gain of each feature over all splits, as shares that sum to 1."""
        # XGBoost calls the columns f0, f1, ..., and leaves out those that no split tests.
        gain_by_name = self.booster.get_score(importance_type="total_gain")
        gains = [gain_by_name.get(f"f{column}", 0.0) for column in range(self.n_features)]
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
        """Return one model whose score is a weighted sum of the scores of several models.

        Its booster holds the trees of all of them, with their leaves multiplied, in float32 as
        XGBoost keeps them. None where a booster's trees have weights of their own (dart).

        Args:
            models: the models, of the same features.
            factors: the weight of each model.
        """
        # Each model as XGBoost's JSON, read into dictionaries.
        descriptions = [model._json_description() for model in models]
        if any(booster_kind(description) != "gbtree" for description in descriptions):
            return None
        trees = []
        start_score = 0.0
        for description, model, factor in zip(descriptions, models, factors, strict=True):
            # `model.scale` is what Langevin boosting has shrunk the model to. The start score is what
            # all documents have before the first tree.
            scale = factor * model.scale
            start_score += scale * base_score(description["learner"])
            multiply = functools.partial(np.multiply, scale)
            trees += [with_changed_leaves(tree, multiply) for tree in trees_in(description)]
        content = with_trees(descriptions[0], trees, start_score)
        return cls.from_bytes(content, models[0].n_features)

    def rounded(self, unit: float) -> FittedModel:
        """Return the model with leaves, and a score to start from, that are multiples of a number.

        Args:
            unit: the number.
        """

        def round_leaves(leaves: F64) -> F64:
            return np.rint(leaves / unit) * unit

        description = self._json_description()
        trees = [with_changed_leaves(tree, round_leaves) for tree in trees_in(description)]
        # The start score of XGBoost's JSON, rounded like a leaf.
        start_score = round(base_score(description["learner"]) / unit) * unit
        content = with_trees(description, trees, start_score)
        return self.from_bytes(content, self.n_features)

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
            model = cls.from_bytes(content, n_features)
            description = model._json_description()
            descriptions.append(description)
            trees += trees_in(description)
        return cls.from_bytes(with_trees(descriptions[0], trees), n_features)

    def _json_description(self) -> Any:
        """Return XGBoost's JSON of the model, as nested dictionaries and lists."""
        return json.loads(self.booster.save_raw("json"))

    def unscaled_trees(self) -> list[Tree]:
        """Return the trees as arrays; the first has one leaf, the score that all documents start
        from.
        """
        description = self._json_description()
        kind = booster_kind(description)
        if kind != "gbtree":
            raise OptionError(f"format: found XGBoost's booster {kind}; expected gbtree")
        trees = [Tree.constant(base_score(description["learner"]))]
        for tree in trees_in(description):
            trees.append(parse_tree(tree))
        return trees


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
    """One XGBoost training, tree by tree.

    It may start from a model (`Task.start`). XGBoost itself then adds trees to that model; but on a
    cluster its matrices hold the scores of that model, and the new trees are a model of their own.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        self._rate = settings.learning_rate
        self._params = parameters(task, settings)
        self.l2 = float(self._params.get("reg_lambda", 1.0))
        self._filled_leaves: dict[int, dict[int, float]] = {}
        is_on_cluster = task.sample is not None
        make_matrices = _matrices_in_sampled_bins if is_on_cluster else _matrices
        self._matrices: dict[Part, Any] = make_matrices(task, settings, self._params)
        # Of all workers, where there are several.
        self._n_documents = task.train.n_documents if task.whole is None else task.whole[0]
        self._start = task.start if isinstance(task.start, XGBoostModel) else None
        self._rounds_before = 0
        if self._start is not None and is_on_cluster:
            self._rounds_before = self._start.n_trees
        booster_to_continue = None
        if self._start is not None and self._rounds_before == 0:
            booster_to_continue = self._start.booster
        self._booster: Booster = package("xgboost").Booster(
            self._params, list(self._matrices.values()), model_file=booster_to_continue
        )

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        """Grow a tree for the gradients of a loss at the current scores; None for XGBoost's own
        objective.
        """
        if rate != self._rate:
            self._booster.set_param({"learning_rate": rate})
            self._rate = rate
        train = self._matrices["train"]
        # `update` has XGBoost compute gradients, `boost` takes those of a loss of this library.
        if gradients is None:
            self._booster.update(train, self.rounds)
            return
        gradient, hessian = gradients(self.scores("train"))
        if "min_child_weight" not in self._params:
            self._set_min_child_weight(hessian)
        self._booster.boost(train, iteration=self.rounds, grad=gradient, hess=hessian)

    def _set_min_child_weight(self, hessian: F32) -> None:
        """Set XGBoost's minimum of the sum of hessians in a leaf, before the first tree.

        It is as much as 20 documents have on average, in place of the minimum of documents that
        XGBoost does not have. A training that continues a model takes the minimum of that model.

        Args:
            hessian: hessian of each document, at the scores that training starts from.
        """
        # The mean over the documents of all workers, where there are several: `allreduce` adds up
        # what each of them has.
        collective = package("xgboost").collective
        local_sum = np.array([hessian.sum(dtype=np.float64)])
        total = collective.allreduce(local_sum, collective.Op.SUM)[0]
        mean_hessian = float(total / self._n_documents)
        minimum = repr(_LEAST_DOCUMENTS * mean_hessian)

        if self._start is not None:
            # None if the model does not say.
            minimum = self._start.booster.attr("min_child_weight") or minimum
        self._params["min_child_weight"] = minimum
        self._booster.set_param({"min_child_weight": minimum})
        # An attribute is stored in the model.
        self._booster.set_attr(min_child_weight=minimum)

    @property
    def rounds(self) -> int:
        return self._rounds_before + int(self._booster.num_boosted_rounds())

    def scores(self, part: Part) -> Array:
        """Return the current score of each document of the training or the validation data."""
        # XGBoost keeps the scores of the matrices in its cache, so that this costs one tree.
        return np.asarray(self._booster.predict(self._matrices[part], output_margin=True))

    def model(self, rounds: int) -> FittedModel:
        """Return the model of the first rounds, with the leaves that `fill` has changed.

        `_filled_leaves` holds, by the number of a tree, the new values by the number of the leaf.
        """
        # A slice of a booster is a booster of some of its rounds.
        booster = self._booster if rounds == self.rounds else self._booster[:rounds]
        n_features = self._booster.num_features()
        if not self._filled_leaves:
            return XGBoostModel.from_bytes(bytes(booster.save_raw("ubj")), n_features)

        # XGBoost cannot change leaves, but its JSON can be: the condition of a leaf is its value.
        description = json.loads(booster.save_raw("json"))
        for tree_number, tree in enumerate(trees_in(description)):
            value_by_leaf = self._filled_leaves.get(tree_number, {})
            for leaf, value in value_by_leaf.items():
                tree["split_conditions"][leaf] = value
        content = json.dumps(description).encode()
        return XGBoostModel.from_bytes(content, n_features)

    def leaves(self, part: Part) -> Array:
        """Return the number of the leaf that each document of a part (training or validation data)
        reaches in the last tree.
        """
        # A slice of a booster is a booster of some of its rounds.
        last_tree = self._booster[self.rounds - 1 :]
        leaves = last_tree.predict(self._matrices[part], pred_leaf=True)
        return np.ravel(leaves).astype(np.int64)

    def fill(self, leaves: Array, values: F64) -> F64:
        """Change the values of leaves of the last tree, and return them as XGBoost keeps them: in
        float32.

        The booster itself is not changed: `model` writes the values into the model it returns.

        Args:
            leaves: numbers of the leaves.
            values: their new values.
        """
        # To float32 and back to doubles: the type of the result, with the bits of float32.
        rounded_values: F64 = values.astype(np.float32).astype(np.float64)
        value_by_leaf = dict(zip(leaves.tolist(), rounded_values.tolist(), strict=True))
        self._filled_leaves[self.rounds - 1] = value_by_leaf
        return rounded_values

    def last_tree(self) -> bytes:
        """Return a model of the last tree alone, as UBJSON."""
        last = self._booster.num_boosted_rounds() - 1
        return bytes(self._booster[last:].save_raw("ubj"))


def _matrices(task: Task, settings: Settings, params: Mapping[str, Any]) -> dict[Part, Any]:
    """Return XGBoost's matrices of the training data, and of the validation data if there is any.

    Trainings on the same data share the matrices and their bins (`Task.bins`). XGBoost finds bins
    when a matrix is first trained on, so one tree is grown here, and thrown away, before any other
    training may use the matrix.
    """
    is_ranking = isinstance(task.loss, NativeLoss) and task.loss.objective.startswith("rank:")
    # XGBoost takes weights of queries when it ranks, of documents when it does not.
    weights = task.weights if is_ranking else task.document_weights
    xgboost = package("xgboost")

    def make_matrices() -> dict[Part, Any]:
        """Return one matrix per part; those that trainings share have their bins found here."""
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
            # XGBoost finds bins when a matrix is first trained on: by one tree, thrown away.
            train = matrices["train"]
            booster = xgboost.Booster(dict(params), cache=[train])
            booster.update(train, 0)
        return matrices

    if task.bins is None:
        return make_matrices()
    # All that the matrices and their bins depend on.
    key = content_key(
        (task.train, task.valid),
        "xgboost",
        is_ranking,
        weights,
        task.categorical,
        params.get("max_bin"),
    )
    matrices: dict[Part, Any] = task.bins.get(key, make_matrices)
    return matrices


def _matrix_options(task: Task, settings: Settings) -> dict[str, Any]:
    """Return the options that all of XGBoost's matrices of a training are made with: types of the
    feature columns, where some hold category codes, and the number of threads.
    """
    # XGBoost's types of columns: "c" for category codes, "q" for quantities.
    types = ["q"] * task.train.n_features
    for column in task.categorical:
        types[column] = "c"
    has_categories = bool(task.categorical)
    return {
        "feature_types": types if has_categories else None,
        "enable_categorical": has_categories,
        "nthread": settings.threads,
    }


def _matrices_in_sampled_bins(
    task: Task, settings: Settings, params: Mapping[str, Any]
) -> dict[Part, Any]:
    """Return XGBoost's matrices of the documents that one worker of a cluster holds, in bins found
    from a sample of the documents of all workers.

    Features are read from files in chunks, and held as bins only. Where training starts from a
    model, the matrices hold its scores too.
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
        """The features of some documents, chunk by chunk, as XGBoost asks for them."""

        def __init__(self, X: Any) -> None:
            self._X = X
            self.reset()
            super().__init__()

        def reset(self) -> None:
            """Begin with the first chunk again."""
            if isinstance(self._X, StreamedRows):
                self._chunks = self._X.chunks(settings.threads)
            else:
                self._chunks = iter([dense(self._X)])

        def next(self, take_chunk: Any) -> bool:
            """Give XGBoost the next chunk, and return whether there was one."""
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            _check_codes(chunk[:, coded_columns], highest_codes)
            take_chunk(data=chunk, feature_types=feature_types)
            return True

    matrices: dict[Part, Any] = {}
    for part, data in task.parts.items():
        matrix = xgboost.QuantileDMatrix(Chunks(data.X), ref=reference, **options)
        if task.start is not None:
            start_scores = task.start.unscaled_scores(data.X, settings.threads)
            matrix.set_base_margin(start_scores)
        matrices[part] = matrix
    return matrices


def _check_codes(codes: Array, highest_codes: Array) -> None:
    """Raise an error if a category code is above all codes of its column in the sample that bins are
    found from: XGBoost would take it for the highest of those.

    Args:
        codes: one row per document, one column per feature of codes.
        highest_codes: the highest code of each column in the sample.
    """
    if (codes > highest_codes).any():
        raise DataError(
            "categorical_feature: found a code above those of the sample that bins are found from; "
            "expected codes by falling frequency, or the engine lightgbm"
        )


def parameters(task: Task, settings: Settings) -> dict[str, Any]:
    """Return XGBoost's parameters for a training, from the settings of this library and XGBoost's
    own parameters among them (`Settings.extra`), which take precedence.

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
        # Trees that are added to a model take other samples than its own trees.
        params["seed"] = (settings.seed + task.start_step) % 2**31
        params["base_score"] = 0.0
        params["reg_lambda"] = 0.0
    says_how_to_grow = "max_depth" in extra or "grow_policy" in extra
    if not says_how_to_grow:
        # The leaf of the greatest gain is split first, to any depth (0).
        params["grow_policy"] = "lossguide"
        params["max_leaves"] = settings.num_leaves
        params["max_depth"] = 0
    return {**params, **extra}


def _check_booster(task: Task, settings: Settings, extra: Mapping[str, Any]) -> None:
    """Raise an error if the booster is not of trees, or if it drops trees (dart) in a training for
    which that does not work.
    """
    booster = choice("booster", extra.get("booster", "gbtree"), ("gbtree", "dart"))
    # The rates say how many trees dart drops; they mean dart even if it is not named.
    drops_trees = booster == "dart" or extra.get("rate_drop") or extra.get("one_drop")
    if not drops_trees:
        return
    if not isinstance(task.loss, NativeLoss):
        raise OptionError(
            "booster: found dart, which works with XGBoost's own objectives only; expected gbtree"
        )
    settings.refuse_dart()  # an error if early stopping is asked for


# As many documents as a leaf of LightGBM has at least, by default.
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
    """Return the names of all parameters of XGBoost, which itself would only warn of wrong names.

    They are read from the configuration that XGBoost writes of boosters without trees.
    """
    xgboost = package("xgboost")
    one_document = xgboost.DMatrix(np.zeros((1, 1), np.float32), label=[0.0])
    names = set()
    for kind in ("gbtree", "dart"):
        booster = xgboost.Booster({"booster": kind, "tree_method": "hist"}, cache=[one_document])
        # JSON, in which a parameter is a name and a text.
        configuration = booster.save_config()
        for name in re.findall(r'"(\w+)": ?"', configuration):
            # Some parameters are more widely known by another name.
            names.add(_MAIN_NAMES.get(name, name))
    # The configuration's own entry for what a part of it is called.
    names.discard("name")
    return frozenset(names)
