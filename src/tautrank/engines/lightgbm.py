"""LightGBM: trees for any loss of this library, and for LightGBM's own objectives."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tautrank.arguments import real, whole
from tautrank.arrays import F64, Array, dense
from tautrank.data import StreamedRows
from tautrank.engines import lightgbm_private
from tautrank.engines.base import Engine, GradientsAt, Learner, RefillableLearner
from tautrank.engines.langevin import check_leaves
from tautrank.engines.lightgbm_binning import (
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
        return (
            self.unscaled
            if self.scale == 1
            else package("lightgbm").Booster(model_str=self.to_text())
        )

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
        content = str(self.unscaled.model_to_string(num_iteration=n_trees)).encode()
        return self.read(content, self.n_features, self.scale)

    def importances(self) -> F64:
        """Return the gain of each feature over all splits, as shares that sum to 1."""
        make_safe(self.tool)
        return shares(self.unscaled.feature_importance("gain"))

    def to_text(self) -> str:
        """Return the model as LightGBM writes it, for LightGBM itself, treelite or a search
        engine.
        """
        return scaled_text(str(self.unscaled.model_to_string(num_iteration=-1)), self.scale)

    def to_bytes(self) -> bytes:
        """Return LightGBM's text of the unscaled trees, in UTF-8."""
        return str(self.unscaled.model_to_string(num_iteration=-1)).encode()

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

        def line(found: re.Match[str]) -> str:
            leaves = np.rint(numbers_in(found[1], np.float64) / unit) * unit
            return "leaf_value=" + " ".join(f"{leaf:.17g}" for leaf in leaves)

        return self._of_text(
            with_sizes(re.sub(r"^leaf_value=(.*)$", line, self.to_text(), flags=re.M))
        )

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
        text, self._text = (
            self._text,
            None,
        )  # writing it takes LightGBM longer than reading it takes us
        return lightgbm_trees(text or str(self.unscaled.model_to_string(num_iteration=-1)))


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
            settings: how; `extra` holds any parameter of LightGBM.
        """
        return _Learner(task, settings)

    def name_errors(self, loss: AnyLoss, names: Iterable[str]) -> list[str]:
        """Return a sentence about each parameter that LightGBM does not have, or that has another
        name here.

        Args:
            loss: the loss to train.
            names: names of parameters that a ranker does not have itself.
        """
        known = main_names()
        wrong, seen = [], set()
        for name in names:
            if name not in known:
                wrong.append(str(unknown("parameter of lightgbm", name, {*known, *OTHER_NAMES})))
                continue
            main = known[name]
            wrong += our_name(name, main)
            if main in _OF_OBJECTIVES and not isinstance(loss, NativeLoss):
                wrong.append(
                    f"{name}: is for LightGBM's own objectives; expected {_OF_OBJECTIVES[main]}"
                )
            if main in _FOR_FILES:
                wrong.append(
                    f"{name}: is for LightGBM's command line; expected a parameter of training"
                )
            if main in seen:
                wrong.append(
                    f"{name}: given twice, under two of LightGBM's names for {main}; expected it once"
                )
            seen.add(main)
        return wrong

    def query_bagging(self, settings: Settings) -> QueryBagging | None:
        """Return the sampling that ``bagging_by_query`` asks for; LightGBM has it for its own
        objectives only.

        Quantised gradients are sampled by query too: LightGBM's sum of them is that of other
        documents than the sampled ones (LightGBM#7397). Documents of queries that are not drawn
        still count for ``min_data_in_leaf``.

        Args:
            settings: how to train.
        """
        extra = _given(settings)
        if not _by_query(extra):
            return None
        seed = settings.seed + whole("bagging_seed", extra.get("bagging_seed", 0))
        share = real(
            "bagging_fraction", extra.get("bagging_fraction", 1.0), least=0.0, above=True, most=1.0
        )
        every = whole("bagging_freq", extra.get("bagging_freq", 0))
        return QueryBagging(share, every, seed) if every > 0 and share < 1 else None

    def may_sample(self, what: str, extra: Collection[str]) -> bool:
        """Whether features or rows can be sampled, and the user has not said how under any of
        LightGBM's names.

        Args:
            what: a key of `sampling`.
            extra: names of the parameters that the user has set.

        >>> LightGBM().may_sample("features", ["sub_feature"]), LightGBM().may_sample("rows", ["sub_feature"])
        (False, True)
        """
        return super().may_sample(what, _by_main_name(dict.fromkeys(extra)))

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
        renamed = dict(parameters)
        if "subsample" in renamed and not {"subsample_freq", "bagging_freq"} & {*renamed, *fixed}:
            renamed["subsample_freq"] = 1
        return renamed


class _Learner(RefillableLearner):
    """One LightGBM training: `lightgbm.train` for the first tree, which sets everything up,
    `update` for the rest.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        self._task, self._settings = task, settings
        self.params = parameters(task, settings)
        self.l2 = float(self.params.get("lambda_l2", 0.0))
        self._booster: Any = None  # until the first tree
        self._rate = settings.learning_rate
        # On a cluster the network is waiting from the first tree on.
        self._ready = None if task.sample is None else LightGBMBinning(task, self.params).make()
        self._joined = task.start if is_joined(task, self.params) else None
        self._before = 0 if self._joined is None else self._joined.n_trees

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        # A plain function: LightGBM copies its parameters deeply, and any other callable would take
        # the data along.
        given = None if gradients is None else lambda scores, _: gradients(scores)
        if self._booster is None:
            self._begin(given, rate)
        else:
            self._set_rate(rate)
            self._booster.update(fobj=given)

    @property
    def rounds(self) -> int:
        return self._before + int(self._booster.num_trees())

    def scores(self, part: Part) -> Array:
        """Return the scores LightGBM keeps for its data sets."""
        if self._booster is None:
            start, X = self._task.start, self._task.parts[part].X
            return (
                np.zeros(X.shape[0])
                if start is None
                else start.unscaled_scores(X, self._settings.threads)
            )
        return lightgbm_private.current_scores(self._booster, 0 if part == "train" else 1)

    def model(self, rounds: int) -> FittedModel:
        # Through the text, so that a model predicts the same before it is saved and after; it also
        # frees the data.
        text = self._text(0, rounds - self._before)
        if self._joined is not None:
            text = joined_text([self._joined.to_bytes().decode(), text])
        return LightGBMModel._of_text(text)

    def leaves(self, part: Part) -> Array:
        """Return the leaf of each document in the last tree."""
        from tautrank.engines.scoring import Scorer

        X, last, threads = self._task.parts[part].X, self.rounds - 1, self._settings.threads
        (tree,) = lightgbm_trees(
            self._booster.model_to_string(start_iteration=last, num_iteration=1)
        )
        numbers = Scorer.of(
            [dataclasses.replace(tree, leaf=np.arange(tree.leaf.size, dtype=np.float64))]
        )
        if numbers is None or not isinstance(X, np.ndarray) or X.dtype != np.float32:
            return np.ravel(self._booster.predict(X, last, 1, pred_leaf=True, num_threads=threads))
        return numbers.scores(X, threads).astype(np.int64)

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
        lightgbm, task = package("lightgbm"), self._task
        # Bins must be the same when training continues, samples of documents and features must not.
        params = {
            **self.params,
            "learning_rate": rate,
            "seed": (self._settings.seed + task.start_step) % 2**31,
        }
        self._rate = rate

        train, valid = self._ready or LightGBMBinning(task, params).shared()
        # A loss of this library continues the unscaled trees.
        own, start = (
            objective is not None,
            task.start if isinstance(task.start, LightGBMModel) else None,
        )
        params |= {"objective": objective} if own else {}
        begun = None if self._joined or start is None else start.unscaled if own else start.booster
        if (
            is_quantised(params)
            and begun is None
            and task.sample is None
            and is_set(params, "force_row_wise")
        ):
            self._booster = _begun_by_one_thread(params, train, valid)
            return
        threads = {"num_threads": params["num_threads"]}
        params |= {"num_threads": 1} if is_quantised(params) else {}
        valids = None if valid is None else [valid]
        self._booster = lightgbm.train(
            params, train, 1, valids, init_model=begun, keep_training_booster=True
        )
        if is_quantised(params):
            self._booster.reset_parameter(threads)

    def _set_rate(self, rate: float) -> None:
        if rate == self._rate:
            return
        # LightGBM then begins to draw the thresholds of extra_trees from the seed again: the same
        # ones for every tree.
        draw = np.random.default_rng(
            (self._settings.seed, self._task.start_step, int(self._booster.num_trees()))
        )
        anew = (
            {"extra_seed": int(draw.integers(2**31))} if is_set(self.params, "extra_trees") else {}
        )
        self._booster.reset_parameter({"learning_rate": rate, **anew})
        self._rate = rate


def _begun_by_one_thread(params: Mapping[str, Any], train: Any, valid: Any) -> Any:
    """Return a booster of one tree, whose trees with quantised gradients do not depend on the
    number of threads.

    Such gradients are rounded by random numbers that each thread draws, from a seed of its own,
    when the booster is made; and as many threads as then will count histograms by row. So one
    thread makes it, of as many documents without features, and the training data is put in their
    place. Two things must be the same in both: the layout of histograms, which LightGBM would
    choose for the documents without features, and the groups of features. LightGBM bundles sparse
    features of the training data, but never those of documents that are binned like others.
    """
    lightgbm, threads = package("lightgbm"), params["num_threads"]
    objective = params["objective"] if callable(params["objective"]) else None
    params = {**params, "num_iterations": 1, "num_threads": 1} | (
        {} if objective is None else {"objective": "none"}
    )
    documents = lightgbm.Dataset(None, params=params)
    train.construct()
    lightgbm_private.make_room_as_in(documents, train, train.num_data())
    lightgbm_private.mark_finished(documents)
    documents.set_label(train.get_label()).set_group(
        train.get_group()
    )  # which LightGBM's own objectives look at
    booster = lightgbm.Booster(params, documents)
    booster.reset_parameter({"num_threads": threads})
    if valid is not None:
        booster.add_valid(valid, "valid_0")
    booster.update(train, objective)  # while `documents` are there: LightGBM compares the two
    return booster


def parameters(task: Task, settings: Settings) -> dict[str, Any]:
    """Return LightGBM's parameters for a training.

    Args:
        task: what to learn.
        settings: how.
    """
    native = task.loss if isinstance(task.loss, NativeLoss) else None
    refuse(
        LightGBM().name_errors(task.loss, settings.extra)
    )  # LightGBM itself would silently ignore them
    extra = _given(settings)
    if extra.get("boosting") == "dart":
        settings.refuse_dart()
    if settings.langevin is not None and extra.get("boosting", "gbdt") not in _ADDING:
        found = f"LightGBM's boosting={extra['boosting']} weights trees differently"
        raise OptionError(f"langevin: {found}; expected gbdt or goss")
    if native is None and _by_query(extra):
        if "goss" in (extra.get("boosting"), extra.get("data_sample_strategy")):
            raise OptionError(
                "bagging_by_query: goss samples documents by their gradients; expected one of the two"
            )
        # The loop samples the queries: without an objective of its own, LightGBM would draw none.
        extra = {name: value for name, value in extra.items() if not name.startswith("bagging_")}
    check_leaves(settings.langevin, extra)
    streams = [data.X for data in task.parts.values() if isinstance(data.X, StreamedRows)]
    check_memory(streams, extra.get("max_bin", 255))
    params: dict[str, Any] = {
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.num_leaves,
        "num_threads": settings.threads,
        # Members of a committee share the bins.
        "data_random_seed": settings.seed if task.bin_seed is None else task.bin_seed,
        "verbosity": -1,
        "metric": "None",
    }
    if (task.whole or (task.train.n_documents,))[0] < _FEW_DOCUMENTS:
        # LightGBM drops the features that no leaf size allows to split, and then fails if none is
        # left.
        params["feature_pre_filter"] = False
    if native is not None:
        # LightGBM's own gradients have no exact sums: their order must not be left to chance.
        params |= {"objective": native.objective, "deterministic": True}
    if not {"force_row_wise", "force_col_wise"} & extra.keys():
        # By row is faster than LightGBM's own choice (by timing the first tree) on dense data whose
        # histograms fit a core's cache, at the price of a second copy of the bins.
        small = task.train.n_features <= _FEW_FEATURES and settings.threads <= _FEW_THREADS
        limited = any(rows.memory is not None for rows in streams)
        by_row = small and isinstance(task.train.X, np.ndarray | StreamedRows) and not limited
        if by_row or limited or native is not None:
            params["force_row_wise" if by_row else "force_col_wise"] = True
    params |= extra
    if is_quantised(params) and "feature_fraction" in params:
        # LightGBM's sums of them are wrong where a whole tree has some of the features only
        # (LightGBM#7397).
        share = real(
            "feature_fraction", params.pop("feature_fraction"), least=0.0, above=True, most=1.0
        )
        params["feature_fraction_bynode"] = share * params.get("feature_fraction_bynode", 1.0)
    if is_quantised(params) and is_set(params, "force_row_wise"):
        params["enable_bundle"] = False  # see `_begun_by_one_thread`
    return params


def _given(settings: Settings) -> dict[str, Any]:
    return {**(_FAST if settings.speed == "fast" else {}), **_by_main_name(settings.extra)}


def _by_query(extra: Mapping[str, Any]) -> bool:
    return is_set(extra, "bagging_by_query") or (
        is_quantised(extra) and "bagging_fraction" in extra
    )


@functools.cache
def main_names() -> dict[str, str]:
    """Return LightGBM's main name for each of its names."""
    return lightgbm_private.main_names()


def _by_main_name(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {main_names().get(name, name): value for name, value in extra.items()}
