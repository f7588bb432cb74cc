"""LightGBM: trees for any loss of this library, and for LightGBM's own objectives."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tautrank.arguments import whole
from tautrank.arrays import F64
from tautrank.data import RankingData, StreamedRows
from tautrank.engines.base import Engine, FittedModel, GradientsAt, LeafValues, Learner, Part, Settings, Task, shares
from tautrank.engines.langevin import check_leaves
from tautrank.engines.lightgbm_bins import LightGBMBinning, check_memory
from tautrank.engines.lightgbm_text import joined_text, lightgbm_trees, scaled_text
from tautrank.engines.packages import make_safe, package
from tautrank.engines.query_bagging import QueryBagging
from tautrank.engines.registry import OTHER_NAMES, AnyLoss, NativeLoss, other_name
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
}
# Useless or harmful for a training that has its data in memory.
_FOR_FILES = ("config", "task", "data", "valid", "output_model", "output_result", "convert_model", "snapshot_freq")

# The kinds of boosting that add each tree at the learning rate and never change it again.
_ADDING = ("gbdt", "gbrt", "goss")

# Leaves whose values differ by more than this part of the scores can be told apart by what they add to them.
_CLEAR = 2.0**-40

# What `speed="fast"` sets. Shi et al., Quantized Training of Gradient Boosting Decision Trees, NeurIPS 2022: integers
# of a few bits instead of gradients find the splits, the gradients themselves fill the leaves. Rounding must be random:
# to the nearest of even 64 levels most gradients of a list are 0, since a few are much larger than the rest.
# Bins that coarse need no more documents to be found from: the quantiles between them are known to a fifth of a bin.
_FAST = {
    "max_bin": 63,
    "bin_construct_sample_cnt": 20_000,
    "use_quantized_grad": True,
    "num_grad_quant_bins": 16,
    "quant_train_renew_leaf": True,
}

_TRUE = ("true", "1", "+")
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
        """The model as a LightGBM booster: ``booster.predict(X, raw_score=True)`` gives the scores of `predict`."""
        return self.unscaled if self.scale == 1 else package("lightgbm").Booster(model_str=self.to_text())

    def _scores(self, X: Any, threads: int) -> Any:
        return self.unscaled.predict(X, raw_score=True, num_threads=threads)

    def _contributions(self, X: Any, threads: int) -> Any:
        found: Any = self.unscaled.predict(X, raw_score=True, pred_contrib=True, num_threads=threads)
        return found.toarray() if hasattr(found, "toarray") else found

    def _leaves(self, X: Any, threads: int) -> Any:
        return self.unscaled.predict(X, pred_leaf=True, num_threads=threads)

    def _first(self, trees: int) -> bytes:
        return str(self.unscaled.model_to_string(num_iteration=trees)).encode()

    def importances(self) -> F64:
        """Return the gain of each feature over all splits, as shares that sum to 1."""
        make_safe(self.tool)
        return shares(self.unscaled.feature_importance("gain"))

    def to_text(self) -> str:
        """Return the model as LightGBM writes it, for LightGBM itself, treelite or a search engine."""
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
    def added(cls, models: Sequence[LightGBMModel], factors: Sequence[float]) -> FittedModel | None:
        """Return one booster with the trees of all models, their leaves scaled.

        Args:
            models: the models.
            factors: one per model.
        """
        texts = [scaled_text(model.to_text(), factor) for model, factor in zip(models, factors, strict=True)]
        return cls._of_text(joined_text(texts))

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
        text, self._text = self._text, None  # writing it takes LightGBM longer than reading it takes us
        return lightgbm_trees(text or str(self.unscaled.model_to_string(num_iteration=-1)))


class LightGBM(Engine):
    """Gradient boosted trees by LightGBM.

    Ke et al., *LightGBM: A Highly Efficient Gradient Boosting Decision Tree*, NIPS 2017.

    Trees of this library's losses are the same bits for any number of threads and any layout of the histograms, since
    the gradients have exact sums (see `boosting.round_to_grid`).
    """

    name: ClassVar[str] = "lightgbm"
    written: ClassVar[str] = "LightGBM"
    model_class: ClassVar[type[FittedModel]] = LightGBMModel
    objectives: ClassVar[tuple[str, ...]] = ("lambdarank", "rank_xendcg", "regression")
    sampling: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "features": ("feature_fraction", "feature_fraction_bynode"),
        "rows": ("bagging_fraction", "bagging_freq", "bagging_by_query"),
    }
    has_fast = True
    uses_openmp: ClassVar[bool] = True

    def start(self, task: Task, settings: Settings) -> Learner:
        """Begin a training.

        Args:
            task: what to learn from what.
            settings: how; `extra` holds any parameter of LightGBM.
        """
        return _Learner(task, settings) if settings.langevin is None else _RefillingLearner(task, settings)

    def wrong_names(self, loss: AnyLoss, names: Iterable[str]) -> list[str]:
        """Return a sentence about each parameter that LightGBM does not have, or that has another name here.

        Args:
            loss: the loss to train.
            names: names of parameters that a ranker does not have itself.
        """
        known = main_names()
        wrong, seen = [], set()
        for name in names:
            main = known.get(name) if known else name
            if main is None:
                wrong.append(str(unknown("parameter of lightgbm", name, {*known, *OTHER_NAMES})))
                continue
            wrong += other_name(name, main)
            if main in _OF_OBJECTIVES and not isinstance(loss, NativeLoss):
                wrong.append(f"{name}: is for LightGBM's own objectives; expected {_OF_OBJECTIVES[main]}")
            if main in _FOR_FILES:
                wrong.append(f"{name}: is for LightGBM's command line; expected a parameter of training")
            if main in seen:
                wrong.append(f"{name}: given twice, under two of LightGBM's names for {main}; expected it once")
            seen.add(main)
        return wrong

    def query_bagging(self, settings: Settings) -> QueryBagging | None:
        """Return the sampling that ``bagging_by_query`` asks for; LightGBM has it for its own objectives only.

        Documents of queries that are not drawn still count for ``min_data_in_leaf``.

        Args:
            settings: how to train.
        """
        extra = _by_main_name(settings.extra)
        if not _by_query(extra):
            return None
        seed = settings.seed + whole("bagging_seed", extra.get("bagging_seed", 0))
        return QueryBagging.of(extra.get("bagging_fraction", 1.0), extra.get("bagging_freq", 0), seed)

    def may_sample(self, what: str, extra: Collection[str]) -> bool:
        """Whether features or rows can be sampled, and the user has not said how under any of LightGBM's names.

        Args:
            what: a key of `sampling`.
            extra: names of the parameters that the user has set.

        >>> LightGBM().may_sample("features", ["sub_feature"]), LightGBM().may_sample("rows", ["sub_feature"])
        (False, True)
        """
        return super().may_sample(what, _by_main_name(dict.fromkeys(extra)))

    def errors(self) -> tuple[type[Exception], ...]:
        """Return LightGBM's exceptions about a training that it cannot do."""
        return (package(self.name).basic.LightGBMError,)

    def in_its_words(self, parameters: Mapping[str, Any], fixed: Collection[str] = ()) -> dict[str, Any]:
        """Return the parameters, and how often rows are sampled: LightGBM samples them only when told how often.

        Args:
            parameters: values by name.
            fixed: names of the parameters that are set besides.

        >>> LightGBM().in_its_words({"subsample": 0.5})
        {'subsample': 0.5, 'subsample_freq': 1}
        """
        said = dict(parameters)
        if "subsample" in said and not {"subsample_freq", "bagging_freq"} & {*said, *fixed}:
            said["subsample_freq"] = 1
        return said

    def limit_to_one_thread(self) -> None:
        """Hold LightGBM to one thread, also where it takes no ``num_threads``, as in reading a model."""
        from lightgbm.basic import _LIB  # type: ignore[attr-defined, unused-ignore]

        _LIB.LGBM_SetMaxThreads(ctypes.c_int(1))


class _Learner:
    """One LightGBM training: `lightgbm.train` for the first tree, which sets everything up, `update` for the rest."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self._task = task
        self._settings = settings
        self.params = parameters(task, settings)
        self._booster: Any = None  # until the first tree
        self._rate = settings.learning_rate
        # On a cluster the network is waiting from the first tree on.
        self._ready = None if task.sample is None else LightGBMBinning(task, self.params).make()
        # LightGBM predicts no data in chunks: there, trees begin from the scores of a model that is joined to them.
        self._joined = task.start if isinstance(task.train.X, StreamedRows) else None
        self._before = 0 if self._joined is None else self._joined.n_trees

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        # A plain function: LightGBM copies its parameters deeply, and any other callable would take the data along.
        given = None if gradients is None else lambda scores, _: gradients(scores)
        if self._booster is None:
            self._begin(given, rate)
        else:
            self._set_rate(rate)
            self._booster.update(fobj=given)

    @property
    def rounds(self) -> int:
        return self._before + int(self._booster.num_trees())

    def scores(self, part: Part) -> NDArray[Any]:
        """Return the scores LightGBM keeps for its data sets, which it shows to evaluation functions."""
        if self._booster is None:  # on a cluster, where gradients are computed first
            start, X = self._task.start, self._task.train.X
            return np.zeros(X.shape[0]) if start is None else start.unscaled_scores(X, self._settings.threads)
        seen: list[NDArray[Any]] = []

        def take(scores: NDArray[Any], _: Any) -> tuple[str, float, bool]:
            seen.append(scores)
            return "seen", 0.0, True

        evaluate = self._booster.eval_train if part == "train" else self._booster.eval_valid
        evaluate(take)
        return seen[0]

    def model(self, rounds: int) -> FittedModel:
        # The text ends with the parameters of the training; the rate of its last tree is not one of them.
        self._set_rate(self._settings.learning_rate)
        # Through the text, so that a model predicts the same before it is saved and after; it also frees the data.
        text = self._booster.model_to_string(num_iteration=rounds - self._before)
        if self._joined is not None:
            text = joined_text([self._joined.to_bytes().decode(), text])
        return LightGBMModel._of_text(text)

    def last_tree(self) -> bytes:
        """Return a model of the last of the trees."""
        last = int(self._booster.num_trees()) - 1
        return str(self._booster.model_to_string(start_iteration=last, num_iteration=1)).encode()

    def _begin(self, objective: Callable[..., Any] | None, rate: float) -> None:
        lightgbm, task = package("lightgbm"), self._task
        # Bins must be the same when training continues, samples of documents and features must not.
        params = {**self.params, "learning_rate": rate, "seed": (self._settings.seed + task.start_step) % 2**31}
        self._rate = rate

        train, valid = self._ready or LightGBMBinning(task, params).shared()
        # A loss of this library continues the unscaled trees.
        own, start = objective is not None, task.start if isinstance(task.start, LightGBMModel) else None
        # Quantised gradients are rounded by random numbers that each thread draws at the beginning, from a seed of its
        # own: with one thread then, and as many as wanted from the second tree on, trees do not depend on threads.
        threads = params["num_threads"]
        quantised = str(params.get("use_quantized_grad", False)).lower() in _TRUE
        params |= {"num_threads": 1} if quantised else {}
        self._booster = lightgbm.train(
            {**params, "objective": objective} if own else params,
            train,
            num_boost_round=1,
            valid_sets=None if valid is None else [valid],
            init_model=None if self._joined or start is None else start.unscaled if own else start.booster,
            keep_training_booster=True,
        )
        if quantised:
            self._booster.reset_parameter({"num_threads": threads})

    def _set_rate(self, rate: float) -> None:
        if rate != self._rate:
            self._booster.reset_parameter({"learning_rate": rate})
            self._rate = rate


class _RefillingLearner(_Learner):
    """A training whose leaves are filled again. LightGBM's own scores do not follow: the model's are kept here."""

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task, settings)
        parts: dict[Part, RankingData | None] = {"train": task.train, "valid": task.valid}
        self._X = {part: data.X for part, data in parts.items() if data is not None}
        self._kept: dict[Part, F64] = {
            part: np.zeros(X.shape[0]) if task.start is None else task.start._scores(X, settings.threads)
            for part, X in self._X.items()
        }
        self._grown = {part: scores.copy() for part, scores in self._kept.items()}  # LightGBM's own
        self._filled = 0 if task.start is None else task.start.n_trees

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        super().grow(None if gradients is None else lambda _: gradients(self._kept["train"]), rate)

    def refill(self, values: LeafValues) -> None:
        tree = self._filled
        if self.rounds == tree:  # no split was found
            return
        self._filled += 1
        text = self._booster.model_to_string(start_iteration=tree, num_iteration=1)
        grown = np.array(text.partition("\nleaf_value=")[2].partition("\n")[0].split(), np.float64)
        leaves = {part: self._leaves(part, tree, grown) for part in self._kept}
        new = self._rate * values(leaves["train"], float(self.params.get("lambda_l2", 0.0)))
        for leaf, value in enumerate(new):
            self._booster.set_leaf_output(tree, leaf, value)
        for part, scores in self._kept.items():
            scores += new[leaves[part]]

    def scores(self, part: Part) -> NDArray[Any]:
        return self._kept[part]

    def _leaves(self, part: Part, tree: int, grown: F64) -> NDArray[Any]:
        """Return the leaf of each document in the tree that was just grown, whose leaves added ``grown`` to scores."""
        after = super().scores(part)
        change, self._grown[part] = after - self._grown[part], after.copy()
        order = np.argsort(grown)
        steps = np.diff(grown[order])
        if steps.min(initial=math.inf) > _CLEAR * np.abs(after).max(initial=0.0):
            return order[np.searchsorted(grown[order][1:] - steps / 2, change)]  # ten times as fast as asking LightGBM
        threads = self._settings.threads
        return np.ravel(self._booster.predict(self._X[part], tree, 1, pred_leaf=True, num_threads=threads))


def parameters(task: Task, settings: Settings) -> dict[str, Any]:
    """Return LightGBM's parameters for a training.

    Args:
        task: what to learn.
        settings: how.
    """
    native = task.loss if isinstance(task.loss, NativeLoss) else None
    refuse(LightGBM().wrong_names(task.loss, settings.extra))  # LightGBM itself would silently ignore them
    extra = _by_main_name(settings.extra)
    if settings.early_stopping_rounds is not None and extra.get("boosting") == "dart":
        raise OptionError(
            "early_stopping_rounds: dart rescales the trees it has, so that the best cannot be kept; "
            "expected None, or another boosting"
        )
    if settings.langevin is not None and extra.get("boosting", "gbdt") not in _ADDING:
        raise OptionError(
            f"langevin: LightGBM's boosting={extra['boosting']} weights trees differently; expected gbdt or goss"
        )
    if native is None and _by_query(extra):
        if "goss" in (extra.get("boosting"), extra.get("data_sample_strategy")):
            raise OptionError("bagging_by_query: goss samples documents by their gradients; expected one of the two")
        # The loop samples the queries: without an objective of its own, LightGBM would draw none.
        extra = {name: value for name, value in extra.items() if not name.startswith("bagging_")}
    check_leaves(settings.langevin, extra)
    streams = [part.X for part in (task.train, task.valid) if part is not None and isinstance(part.X, StreamedRows)]
    if streams:
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
        # LightGBM drops the features that no leaf size allows to split, and then fails if none is left.
        params["feature_pre_filter"] = False
    if native is not None:
        params["objective"] = native.objective
        # LightGBM's own gradients have no exact sums: their order must not be left to chance.
        params["deterministic"] = True
    if not {"force_row_wise", "force_col_wise"} & extra.keys():
        # By row is faster than LightGBM's own choice (by timing the first tree) on dense data whose histograms fit a
        # core's cache, at the price of a second copy of the bins.
        small = task.train.n_features <= _FEW_FEATURES and settings.threads <= _FEW_THREADS
        limited = any(rows.memory is not None for rows in streams)
        by_row = small and isinstance(task.train.X, np.ndarray | StreamedRows) and not limited
        if by_row or limited or native is not None:
            params["force_row_wise" if by_row else "force_col_wise"] = True
    return {**params, **(_FAST if settings.speed == "fast" else {}), **extra}


def _by_query(extra: Mapping[str, Any]) -> bool:
    return str(extra.get("bagging_by_query", False)).lower() in _TRUE


def _by_main_name(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {main_names().get(name, name): value for name, value in extra.items()}


@functools.cache
def main_names() -> dict[str, str]:
    """Return LightGBM's main name for each of its names; empty if this LightGBM does not have the list."""
    try:
        from lightgbm.basic import _ConfigAliases

        known = _ConfigAliases._get_all_param_aliases()
    except (ImportError, AttributeError):
        return {}
    return {alias: main for main, aliases in known.items() for alias in aliases}
