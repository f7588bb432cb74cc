"""LightGBM: trees for any loss of this library, and for LightGBM's own objectives."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tautrank.arguments import real, whole
from tautrank.arrays import F32, F64, Array, dense
from tautrank.data import StreamedRows
from tautrank.engines import lightgbm_private
from tautrank.engines.base import Engine, GradientsAt, Learner, RefillableLearner
from tautrank.engines.langevin import check_leaves
from tautrank.engines.lightgbm_binning import (
    BinnedParts,
    LightGBMBinning,
    check_memory,
    is_joined,
    is_quantised,
    is_set,
)
from tautrank.engines.lightgbm_text import (
    joined_text,
    lightgbm_trees,
    numbers_in,
    scaled_text,
    text_of,
    with_sizes,
)
from tautrank.engines.model import FittedModel, shares
from tautrank.engines.packages import make_safe, package
from tautrank.engines.parameter_names import OTHER_NAMES, our_name
from tautrank.engines.task import AnyLoss, NativeLoss, Part, QueryBagging, Settings, Task
from tautrank.engines.trees import Tree
from tautrank.errors import DataError, OptionError, refuse, unknown

if TYPE_CHECKING:
    from lightgbm import Booster

# Parameters of LightGBM's own objectives, and their counterparts in this library.
_OF_OBJECTIVES = {
    "label_gain": "the loss's gain, as loss='lambdarank(gain=linear)'",
    "lambdarank_truncation_level": "the loss's k, as loss='lambdarank(k=10)'",
    "lambdarank_norm": "the loss's norm, as loss='lambdarank(norm=lightgbm)'",
    "sigmoid": "the loss's sigma, as loss='lambdarank(sigma=2)'",
    "objective_seed": "random_state",
    "num_class": "one score per document",
}
# Useless or harmful for a training that has its data in memory.
_FOR_FILES = (
    "config",
    "task",
    "data",
    "valid",
    "output_model",
    "output_result",
    "convert_model",
    "snapshot_freq",
)

# The kinds of boosting that add each tree at the learning rate and never change it again.
_ADDING = ("gbdt", "gbrt", "goss")

# What `speed="fast"` sets. Shi et al., Quantized Training of Gradient Boosting Decision Trees,
# NeurIPS 2022: integers of a few bits instead of gradients find the splits, the gradients
# themselves fill the leaves. Rounding must be random:
# to the nearest of even 64 levels most gradients of a list are 0, since a few are much larger than
# the rest.
# Bins that coarse need no more documents to be found from: the quantiles between them are known to
# a fifth of a bin.
_FAST = {
    "max_bin": 63,
    "bin_construct_sample_cnt": 20_000,
    "use_quantized_grad": True,
    "num_grad_quant_bins": 16,
    "quant_train_renew_leaf": True,
}


_FEW_FEATURES = 300
_FEW_THREADS = 16
_FEW_DOCUMENTS = 10_000


class LightGBMModel(FittedModel):
    """Trees in LightGBM's memory; kept in a file as LightGBM's own text.

    Args:
        unscaled: a booster that holds the trees to use, and no more; `scale` is not in its leaves.
    """

    tool: ClassVar[str] = "lightgbm"
    member: ClassVar[str] = "model.txt"

    def __init__(self, unscaled: Booster) -> None:
        self.unscaled = unscaled
        self.n_features = int(unscaled.num_feature())
        self.n_trees = int(unscaled.num_trees())
        self._text: str | None = None

    @functools.cached_property
    def booster(self) -> Booster:
        """The model as a LightGBM booster: ``booster.predict(X, raw_score=True)`` gives the scores
        of `predict`.
        """
        if self.scale == 1:
            return self.unscaled
        scaled_booster: Booster = package("lightgbm").Booster(model_str=self.to_text())
        return scaled_booster

    def _scores(self, X: Any, threads: int) -> Any:
        return self.unscaled.predict(X, raw_score=True, num_threads=threads)

    def _contributions(self, X: Any, threads: int) -> Any:
        return dense(
            self.unscaled.predict(X, raw_score=True, pred_contrib=True, num_threads=threads)
        )

    def _leaves(self, X: Any, threads: int) -> Any:
        return self.unscaled.predict(X, pred_leaf=True, num_threads=threads)

    def truncated(self, n_trees: int) -> FittedModel:
        """Return the model of the first trees.

        Args:
            n_trees: their number.
        """
        return self.read(self._unscaled_text(n_trees).encode(), self.n_features, self.scale)

    def importances(self) -> F64:
        """Return the gain of each feature over all splits, as shares that sum to 1."""
        make_safe(self.tool)
        return shares(self.unscaled.feature_importance("gain"))

    def to_text(self) -> str:
        """Return the model as LightGBM writes it, for LightGBM itself, treelite or a search
        engine.
        """
        return scaled_text(self._unscaled_text(), self.scale)

    def _unscaled_text(self, n_trees: int = -1) -> str:
        """Return LightGBM's text of the first trees, or of all."""
        return str(self.unscaled.model_to_string(num_iteration=n_trees))

    def to_bytes(self) -> bytes:
        """Return LightGBM's text of the unscaled trees, in UTF-8."""
        return self._unscaled_text().encode()

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> LightGBMModel:
        """Read a model text.

        Args:
            content: text in UTF-8.
            n_features: number of features that the model must have.
        """
        text = content.decode()
        # LightGBM reads what it can of a damaged text, and may then score with half a model.
        if not text.startswith("tree\n") or "\nend of trees\n" not in text:
            raise DataError("found something else than a LightGBM model text")
        return cls._of_text(text)

    @classmethod
    def _of_text(cls, text: str) -> LightGBMModel:
        model = cls(package(cls.tool).Booster(model_str=text))
        model._text = text  # until the trees are packed for scoring
        return model

    @classmethod
    def tool_errors(cls) -> tuple[type[Exception], ...]:
        """Return LightGBM's exception."""
        return (package(cls.tool).basic.LightGBMError,)

    @classmethod
    def weighted_sum(
        cls, models: Sequence[LightGBMModel], factors: Sequence[float]
    ) -> FittedModel | None:
        """Return one booster with the trees of all models, their leaves scaled.

        Args:
            models: the models.
            factors: one per model.
        """
        texts = [
            scaled_text(model.to_text(), factor)
            for model, factor in zip(models, factors, strict=True)
        ]
        return cls._of_text(joined_text(texts))

    def rounded(self, unit: float) -> FittedModel:
        """Return the model with leaves that are multiples of a number.

        Args:
            unit: the number.
        """

        def rounded_line(line: re.Match[str]) -> str:
            leaves = numbers_in(line[1], np.float64)
            return "leaf_value=" + text_of(np.rint(leaves / unit) * unit)

        text = re.sub(r"^leaf_value=(.*)$", rounded_line, self.to_text(), flags=re.M)
        return self._of_text(with_sizes(text))

    @classmethod
    def joined(cls, contents: Sequence[bytes], n_features: int) -> FittedModel:
        """Return one model with the trees of several, one after the other.

        Args:
            contents: what `to_bytes` returned for each.
            n_features: number of features that each has.
        """
        return cls._of_text(joined_text([content.decode() for content in contents]))

    def unscaled_trees(self) -> list[Tree]:
        """Return the trees as arrays; the sum of their leaves is the unscaled score."""
        # Writing the text takes LightGBM longer than reading it takes us.
        text = self._text or self._unscaled_text()
        self._text = None
        return lightgbm_trees(text)


class LightGBM(Engine):
    """Gradient boosted trees by LightGBM.

    Ke et al., *LightGBM: A Highly Efficient Gradient Boosting Decision Tree*, NIPS 2017.

    Trees of this library's losses are the same bits for any number of threads and any layout of the
    histograms, since the gradients have exact sums (see `gradients.round_to_grid`).
    """

    name: ClassVar[str] = "lightgbm"
    model_class: ClassVar[type[FittedModel]] = LightGBMModel
    objectives: ClassVar[tuple[str, ...]] = ("lambdarank", "rank_xendcg", "regression")
    sampling: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "features": ("feature_fraction", "feature_fraction_bynode"),
        "rows": ("bagging_fraction", "bagging_freq", "bagging_by_query"),
        "thresholds": ("extra_trees",),
    }
    supports_fast = True

    def start(self, task: Task, settings: Settings) -> Learner:
        """Begin a training.

        Args:
            task: what to learn from what.
            settings: how to train; `extra` holds any parameter of LightGBM.
        """
        return _Learner(task, settings)

    def name_errors(self, loss: AnyLoss, names: Iterable[str]) -> list[str]:
        """Return a sentence about each parameter that LightGBM does not have, or that has another
        name here.

        Args:
            loss: the loss to train.
            names: names of parameters that a ranker does not have itself.
        """
        errors = []
        main_names_met = set()
        for name in names:
            main = main_names().get(name)
            if main is None:
                known_names = {*main_names(), *OTHER_NAMES}
                errors.append(str(unknown("parameter of lightgbm", name, known_names)))
                continue
            errors += our_name(name, main)
            if main in _OF_OBJECTIVES and not isinstance(loss, NativeLoss):
                errors.append(
                    f"{name}: is for LightGBM's own objectives; expected {_OF_OBJECTIVES[main]}"
                )
            if main in _FOR_FILES:
                errors.append(
                    f"{name}: is for LightGBM's command line; expected a parameter of training"
                )
            if main in main_names_met:
                errors.append(
                    f"{name}: given twice, under two of LightGBM's names for {main}; "
                    "expected it once"
                )
            main_names_met.add(main)
        return errors

    def query_bagging(self, settings: Settings) -> QueryBagging | None:
        """Return the sampling that ``bagging_by_query`` asks for; LightGBM has it for its own
        objectives only.

        Quantised gradients are sampled by query too: LightGBM's sum of them is that of other
        documents than the sampled ones (LightGBM#7397). Documents of queries that are not drawn
        still count for ``min_data_in_leaf``.

        Args:
            settings: how to train.
        """
        extra = _extra_by_main_name(settings)
        if not _samples_by_query(extra):
            return None
        seed = settings.seed + whole("bagging_seed", extra.get("bagging_seed", 0))
        share = _share(extra, "bagging_fraction")
        every = whole("bagging_freq", extra.get("bagging_freq", 0))
        return QueryBagging(share, every, seed) if every > 0 and share < 1 else None

    def may_sample(self, kind: str, extra: Collection[str]) -> bool:
        """Whether features or rows can be sampled, and the user has not said how under any of
        LightGBM's names.

        Args:
            kind: a key of `sampling`.
            extra: names of the parameters that the user has set.

        >>> LightGBM().may_sample("features", ["sub_feature"])
        False
        >>> LightGBM().may_sample("rows", ["sub_feature"])
        True
        """
        return super().may_sample(kind, _by_main_name(dict.fromkeys(extra)))

    def translate_parameters(
        self, parameters: Mapping[str, Any], fixed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the parameters, and how often rows are sampled: LightGBM samples them only when
        told how often.

        Args:
            parameters: values by name.
            fixed: names of the parameters that are set besides.

        >>> LightGBM().translate_parameters({"subsample": 0.5})
        {'subsample': 0.5, 'subsample_freq': 1}
        """
        says_how_often = {"subsample_freq", "bagging_freq"} & {*parameters, *fixed}
        if "subsample" in parameters and not says_how_often:
            return {**parameters, "subsample_freq": 1}
        return dict(parameters)


class _Learner(RefillableLearner):
    """One LightGBM training: `lightgbm.train` for the first tree, which sets everything up,
    `update` for the rest.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        self._task = task
        self._settings = settings
        self.params = parameters(task, settings)
        self.l2 = float(self.params.get("lambda_l2", 0.0))
        self._booster: Any = None  # until the first tree
        self._rate = settings.learning_rate
        # On a cluster the network is waiting from the first tree on.
        self._binned: BinnedParts | None = None
        if task.sample is not None:
            self._binned = LightGBMBinning(task, self.params).make()
        self._joined = task.start if is_joined(task, self.params) else None
        self._rounds_before = 0 if self._joined is None else self._joined.n_trees

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        objective = None if gradients is None else _plain_function(gradients)
        if self._booster is None:
            self._begin(objective, rate)
        else:
            self._set_rate(rate)
            self._booster.update(fobj=objective)

    @property
    def rounds(self) -> int:
        return self._rounds_before + int(self._booster.num_trees())

    def scores(self, part: Part) -> Array:
        """Return the scores LightGBM keeps for its data sets."""
        if self._booster is not None:
            return lightgbm_private.current_scores(self._booster, 0 if part == "train" else 1)
        X = self._task.parts[part].X
        if self._task.start is None:
            return np.zeros(X.shape[0])
        return self._task.start.unscaled_scores(X, self._settings.threads)

    def model(self, rounds: int) -> FittedModel:
        # Through the text, so that a model predicts the same before it is saved and after; it also
        # frees the data.
        text = self._text(0, rounds - self._rounds_before)
        if self._joined is not None:
            text = joined_text([self._joined.to_bytes().decode(), text])
        return LightGBMModel._of_text(text)

    def leaves(self, part: Part) -> Array:
        """Return the leaf of each document in the last tree."""
        from tautrank.engines.scoring import Scorer

        X = self._task.parts[part].X
        threads = self._settings.threads
        last_round = self.rounds - 1
        text = self._booster.model_to_string(start_iteration=last_round, num_iteration=1)
        tree = lightgbm_trees(text)[0]
        leaf_numbers = np.arange(tree.leaf.size, dtype=np.float64)
        scorer = Scorer.of([dataclasses.replace(tree, leaf=leaf_numbers)])
        if scorer is None or not isinstance(X, np.ndarray) or X.dtype != np.float32:
            leaves = self._booster.predict(X, last_round, 1, pred_leaf=True, num_threads=threads)
            return np.ravel(leaves)
        return scorer.scores(X, threads).astype(np.int64)

    def fill(self, leaves: Array, values: F64) -> F64:
        """Change the values of leaves of the last tree."""
        for leaf, value in zip(leaves, values, strict=True):
            self._booster.set_leaf_output(self.rounds - 1, leaf, value)
        return values

    def last_tree(self) -> bytes:
        """Return a model of the last of the trees."""
        return self._text(int(self._booster.num_trees()) - 1, 1).encode()

    def _text(self, first: int, n_trees: int) -> str:
        # The text ends with the parameters of the training; the rate of its last tree is not one of
        # them.
        self._set_rate(self._settings.learning_rate)
        return str(self._booster.model_to_string(start_iteration=first, num_iteration=n_trees))

    def _begin(self, objective: Callable[..., Any] | None, rate: float) -> None:
        """Grow the first tree."""
        params = {
            **self.params,
            "learning_rate": rate,
            # Bins must be the same when training continues, samples of documents and features must
            # not.
            "seed": (self._settings.seed + self._task.start_step) % 2**31,
        }
        self._rate = rate
        binned = self._binned or LightGBMBinning(self._task, params).shared()
        if objective is not None:
            params["objective"] = objective
        start = self._booster_to_continue(is_our_loss=objective is not None)

        if is_quantised(params):
            is_alone = start is None and self._task.sample is None
            if is_alone and is_set(params, "force_row_wise"):
                self._booster = _begun_by_one_thread(params, binned)
                return
            params["num_threads"] = 1
        self._booster = package("lightgbm").train(
            params,
            binned.train,
            1,
            None if binned.valid is None else [binned.valid],
            init_model=start,
            keep_training_booster=True,
        )
        if is_quantised(params):
            self._booster.reset_parameter({"num_threads": self.params["num_threads"]})

    def _booster_to_continue(self, *, is_our_loss: bool) -> Booster | None:
        """Return the booster that LightGBM itself continues, if there is one; a loss of this
        library continues the unscaled trees.
        """
        start = self._task.start
        if self._joined is not None or not isinstance(start, LightGBMModel):
            return None
        return start.unscaled if is_our_loss else start.booster

    def _set_rate(self, rate: float) -> None:
        if rate == self._rate:
            return
        changed = {"learning_rate": rate}
        if is_set(self.params, "extra_trees"):
            # LightGBM now begins to draw the thresholds of extra_trees from the seed again: without
            # another one, the same thresholds for every tree.
            key = (self._settings.seed, self._task.start_step, int(self._booster.num_trees()))
            changed["extra_seed"] = int(np.random.default_rng(key).integers(2**31))
        self._booster.reset_parameter(changed)
        self._rate = rate


def _plain_function(gradients: GradientsAt) -> Callable[[Array, Any], tuple[F32, F32]]:
    """Return the gradients as LightGBM calls them: it copies its parameters deeply, and any other
    callable would take the data along.
    """

    def objective(scores: Array, _: Any) -> tuple[F32, F32]:
        return gradients(scores)

    return objective


def _begun_by_one_thread(params: Mapping[str, Any], binned: BinnedParts) -> Any:
    """Return a booster of one tree, whose trees with quantised gradients do not depend on the
    number of threads.

    Such gradients are rounded by random numbers that each thread draws, from a seed of its own,
    when the booster is made; and as many threads as then will count histograms by row. So one
    thread makes it, of as many documents without features, and the training data is put in their
    place. Two things must be the same in both: the layout of histograms, which LightGBM would
    choose for the documents without features, and the groups of features. LightGBM bundles sparse
    features of the training data, but never those of documents that are binned like others.
    """
    lightgbm = package("lightgbm")
    objective = params["objective"] if callable(params["objective"]) else None
    params_of_one = {**params, "num_iterations": 1, "num_threads": 1}
    if objective is not None:
        params_of_one["objective"] = "none"

    train = binned.train.construct()
    documents = lightgbm.Dataset(None, params=params_of_one)
    lightgbm_private.make_room_as_in(documents, train, train.num_data())
    lightgbm_private.mark_finished(documents)
    # LightGBM's own objectives look at labels and queries.
    documents.set_label(train.get_label())
    documents.set_group(train.get_group())

    booster = lightgbm.Booster(params_of_one, documents)
    booster.reset_parameter({"num_threads": params["num_threads"]})
    if binned.valid is not None:
        booster.add_valid(binned.valid, "valid_0")
    # While `documents` are there: LightGBM compares the two.
    booster.update(train, objective)
    return booster


def parameters(task: Task, settings: Settings) -> dict[str, Any]:
    """Return LightGBM's parameters for a training.

    Args:
        task: what to learn.
        settings: how to train.
    """
    # LightGBM itself would silently ignore wrong names.
    refuse(LightGBM().name_errors(task.loss, settings.extra))
    extra = _extra_by_main_name(settings)
    _check_boosting(task, settings, extra)
    if not isinstance(task.loss, NativeLoss) and _samples_by_query(extra):
        # The loop samples the queries: without an objective of its own, LightGBM would draw none.
        extra = {name: value for name, value in extra.items() if not name.startswith("bagging_")}
    check_leaves(settings.langevin, extra)
    streams = [data.X for data in task.parts.values() if isinstance(data.X, StreamedRows)]
    check_memory(streams, extra.get("max_bin", 255))

    params = _fixed_parameters(task, settings)
    if not {"force_row_wise", "force_col_wise"} & extra.keys():
        params |= _histogram_layout(task, settings, streams)
    params |= extra
    if is_quantised(params):
        _avoid_wrong_sums(params)
    return params


def _check_boosting(task: Task, settings: Settings, extra: Mapping[str, Any]) -> None:
    """Refuse kinds of boosting that do not go with what else is asked for."""
    boosting = extra.get("boosting", "gbdt")
    if boosting == "dart":
        settings.refuse_dart()
    if settings.langevin is not None and boosting not in _ADDING:
        raise OptionError(
            f"langevin: LightGBM's boosting={boosting} weights trees differently; expected gbdt or "
            "goss"
        )
    uses_goss = "goss" in (boosting, extra.get("data_sample_strategy"))
    if uses_goss and _samples_by_query(extra) and not isinstance(task.loss, NativeLoss):
        raise OptionError(
            "bagging_by_query: goss samples documents by their gradients; expected one of the two"
        )


def _fixed_parameters(task: Task, settings: Settings) -> dict[str, Any]:
    """Return what the task and the settings say, under LightGBM's names."""
    params: dict[str, Any] = {
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.num_leaves,
        "num_threads": settings.threads,
        # Members of a committee share the bins.
        "data_random_seed": settings.seed if task.bin_seed is None else task.bin_seed,
        "verbosity": -1,
        "metric": "None",
    }
    n_documents = task.train.n_documents if task.whole is None else task.whole[0]
    if n_documents < _FEW_DOCUMENTS:
        # LightGBM drops the features that no leaf size allows to split, and then fails if none is
        # left.
        params["feature_pre_filter"] = False
    if isinstance(task.loss, NativeLoss):
        params["objective"] = task.loss.objective
        # LightGBM's own gradients have no exact sums: their order must not be left to chance.
        params["deterministic"] = True
    return params


def _histogram_layout(
    task: Task, settings: Settings, streams: Sequence[StreamedRows]
) -> dict[str, bool]:
    """Return how histograms are counted; nothing where LightGBM may choose by timing the first
    tree.
    """
    has_memory_limit = any(rows.memory is not None for rows in streams)
    is_small = task.train.n_features <= _FEW_FEATURES and settings.threads <= _FEW_THREADS
    is_dense = isinstance(task.train.X, np.ndarray | StreamedRows)
    if is_small and is_dense and not has_memory_limit:
        # Faster than LightGBM's own choice on dense data whose histograms fit a core's cache, at
        # the price of a second copy of the bins.
        return {"force_row_wise": True}
    if has_memory_limit or isinstance(task.loss, NativeLoss):
        return {"force_col_wise": True}
    return {}


def _avoid_wrong_sums(params: dict[str, Any]) -> None:
    """Change parameters by which LightGBM's sums of quantised gradients are wrong, or depend on the
    number of threads.
    """
    if "feature_fraction" in params:
        # Wrong where a whole tree has some of the features only (LightGBM#7397).
        share = _share(params, "feature_fraction")
        del params["feature_fraction"]
        params["feature_fraction_bynode"] = share * params.get("feature_fraction_bynode", 1.0)
    if is_set(params, "force_row_wise"):
        params["enable_bundle"] = False  # see `_begun_by_one_thread`


def _share(params: Mapping[str, Any], name: str) -> float:
    """Return a share of all, above 0; 1 where it is not set."""
    return real(name, params.get(name, 1.0), least=0.0, above=True, most=1.0)


def _extra_by_main_name(settings: Settings) -> dict[str, Any]:
    """Return the parameters beside those that all engines have, under their main names."""
    extra = _by_main_name(settings.extra)
    return {**_FAST, **extra} if settings.speed == "fast" else extra


def _samples_by_query(extra: Mapping[str, Any]) -> bool:
    """Whether queries are sampled: quantised gradients cannot be sampled by document."""
    if is_set(extra, "bagging_by_query"):
        return True
    return is_quantised(extra) and "bagging_fraction" in extra


def _by_main_name(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {main_names().get(name, name): value for name, value in extra.items()}


@functools.cache
def main_names() -> dict[str, str]:
    """Return LightGBM's main name for each of its names."""
    return lightgbm_private.main_names()
