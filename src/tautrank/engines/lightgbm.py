"""LightGBM: trees for any loss of this library, and for LightGBM's own objectives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tautrank.data import RankingData
from tautrank.engines.base import F64, Engine, FittedModel, Record, Settings, Task, shares
from tautrank.engines.boosting import Gradients, boost, document_weights
from tautrank.engines.forking import make_safe
from tautrank.engines.langevin import Shrinking, Shrunk, shrink, unshrink
from tautrank.engines.lightgbm_leaves import leaf_numbers, with_leaf_numbers
from tautrank.engines.native_loss import NativeLoss, imported, in_one_sentence, refuse_name
from tautrank.errors import DataError, OptionError, unknown

if TYPE_CHECKING:
    from lightgbm import Booster

# LightGBM's name of each parameter that has a name of its own here.
_OURS = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "num_threads": "n_jobs",
    "seed": "random_state",
    "objective": "loss",
    "metric": "metric",
    "eval_at": "metric (as ndcg@5)",
    "early_stopping_round": "early_stopping_rounds",
    "categorical_feature": "categorical_feature",
    "input_model": "init_model",
}
# Parameters of LightGBM's own objectives, and where the losses of this library have them.
_OF_OBJECTIVES = {
    "label_gain": "the loss's gain, as loss='lambdarank(gain=linear)'",
    "lambdarank_truncation_level": "the loss's k, as loss='lambdarank(k=10)'",
    "lambdarank_norm": "the loss's norm, as loss='lambdarank(norm=lightgbm)'",
    "sigmoid": "the loss's sigma, as loss='lambdarank(sigma=2)'",
    "objective_seed": "random_state",
}
# Of no use, or harmful, to a training that has its data in memory.
_FOR_FILES = ("config", "task", "data", "valid", "output_model", "output_result", "convert_model", "snapshot_freq")

# The kinds of boosting that add each tree at the learning rate, and leave it as it is.
_ADDING = ("gbdt", "gbrt", "goss")

_FEW_FEATURES = 300
_FEW_THREADS = 16
_FEW_DOCUMENTS = 10_000


class LightGBMModel(FittedModel):
    """Trees in LightGBM's memory; kept in a file as LightGBM's own text.

    Args:
        booster: a booster that holds the trees to use, and no more.
    """

    tool: ClassVar[str] = "lightgbm"
    member: ClassVar[str] = "model.txt"

    def __init__(self, booster: Booster) -> None:
        self.booster = booster
        self.n_features = int(booster.num_feature())
        self.n_trees = int(booster.num_trees())

    def _scores(self, X: Any, threads: int) -> Any:
        return self.booster.predict(X, raw_score=True, num_threads=threads)

    def importances(self) -> F64:
        """Gain of each feature over all splits, as shares that sum to 1."""
        make_safe(self.tool)
        return shares(self.booster.feature_importance("gain"))

    def to_text(self) -> str:
        """The model as LightGBM writes it: what LightGBM itself, treelite or a search engine can read."""
        return str(self.booster.model_to_string(num_iteration=-1))

    def to_bytes(self) -> bytes:
        """`to_text` in UTF-8."""
        return self.to_text().encode()

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> LightGBMModel:
        """Read a model text.

        Args:
            content: UTF-8.
            n_features: how many features the model must have.
        """
        text = content.decode()
        # LightGBM reads what it can of a damaged text, and may then score with half a model.
        if not text.startswith("tree\n") or "\nend of trees\n" not in text:
            raise DataError("found something else than a LightGBM model text")
        try:
            model = cls(_booster(text))
        except imported(cls.tool).basic.LightGBMError as error:
            raise DataError(f"LightGBM cannot read the model text ({error})") from None
        if model.n_features != n_features:
            raise DataError(f"found a LightGBM model of {model.n_features} features; expected {n_features}")
        return model


class LightGBMEngine(Engine):
    """Gradient boosted trees by LightGBM.

    Ke et al., *LightGBM: A Highly Efficient Gradient Boosting Decision Tree*, NIPS 2017.

    Trees of this library's losses are the same bits for any number of threads and any layout of the histograms, since
    the gradients have exact sums (see `exact_sums`).
    """

    name: ClassVar[str] = "lightgbm"
    model: ClassVar[type[FittedModel]] = LightGBMModel

    def fit(self, task: Task, settings: Settings) -> tuple[FittedModel, Record]:
        """Train.

        Args:
            task: what to learn from what.
            settings: how; `extra` holds any parameter of LightGBM.
        """
        with in_one_sentence(task.loss, self.name, imported(self.name).basic.LightGBMError):
            return boost(_Grower, task, settings)


class _Grower:
    """One LightGBM training: `lightgbm.train` for the first tree, which sets everything up, `update` for the rest.

    A model that shrinks lies in LightGBM unshrunk, see `Shrinking`.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        self._task = task
        self._settings = settings
        self._params = _parameters(task, settings)
        self._shrinking = shrinking = Shrinking.of(
            settings.langevin, settings.learning_rate, task.start_step, task.start_shrunk
        )
        self._ended: dict[int, str] = {}
        self._booster: Booster | None = None
        self._step = 0
        self._objective: Callable[..., Any] | None = None
        if not isinstance(task.loss, NativeLoss):
            gradients = Gradients(task, settings)

            # A plain function: LightGBM copies its parameters deeply, and a bound method would take the data along.
            def objective(scores: NDArray[Any], _: Any) -> tuple[NDArray[Any], NDArray[Any]]:
                if shrinking is not None:
                    scores = scores * shrinking.before(self._step)
                return gradients(scores, self._step)

            self._objective = objective

    def grow(self, step: int) -> None:
        self._step = step
        if self._booster is None:
            self._begin(self._start())
        elif self._shrinking is None:
            self._booster.update(fobj=self._objective)
        elif self._shrinking.stretch(step) == step:
            self._begin(self._end_stretch())
        else:
            self._booster.reset_parameter({"learning_rate": self._shrinking.rate(step)})
            self._booster.update(fobj=self._objective)

    def n_trees(self) -> int:
        return int(self._grown.num_trees())

    def train_scores(self) -> NDArray[Any]:
        return self._scores(self._grown.eval_train)

    def valid_scores(self) -> NDArray[Any]:
        return self._scores(self._grown.eval_valid)

    def finish(self, n_trees: int, steps: int) -> tuple[FittedModel, Shrunk | None]:
        # Through the text, so that a model predicts the same before it is saved and after; it also frees the data.
        if self._shrinking is None:
            return LightGBMModel(_booster(self._grown.model_to_string(num_iteration=n_trees))), None
        stretch = self._shrinking.stretch(steps - 1)
        ended = self._ended.get(stretch)
        text = self._text(n_trees) if ended is None else _booster(ended).model_to_string(num_iteration=n_trees)
        booster, lost = self._shrunk(text, steps - 1)
        return LightGBMModel(booster), Shrunk(self._shrinking.factor, stretch, lost)

    def _begin(self, start: Booster | None) -> None:
        lightgbm = imported("lightgbm")
        # Bins must be the same when training continues, samples of documents and features must not.
        params = {**self._params, "seed": (self._settings.seed + self._step) % 2**31}
        if self._shrinking is not None:
            params["learning_rate"] = self._shrinking.rate(self._step)

        task = self._task

        def dataset(data: RankingData, weights: F64 | None, reference: Any) -> Any:
            return lightgbm.Dataset(
                data.X,
                label=data.labels,
                group=data.sizes,
                weight=weights,
                reference=reference,
                params=params,
                categorical_feature=list(task.categorical) or "auto",
            )

        # A loss of this library is bound to the weights already.
        weights = document_weights(task.train, task.weights) if self._objective is None else None
        train = dataset(task.train, weights, None)
        self._booster = lightgbm.train(
            {**params, "objective": self._objective} if self._objective is not None else params,
            train,
            num_boost_round=1,
            valid_sets=None if task.valid is None else [dataset(task.valid, None, train)],
            init_model=start,
            keep_training_booster=True,
        )

    def _start(self) -> Booster | None:
        """The trees to start from; unshrunk where they were in the midst of a stretch."""
        model, shrunk, step = self._task.start, self._task.start_shrunk, self._task.start_step
        if not isinstance(model, LightGBMModel):
            return None
        if self._shrinking is None or shrunk is None or self._shrinking.stretch(step) == step:
            return model.booster
        text, scale = model.to_text(), self._shrinking.before(step)
        numbers = unshrink(leaf_numbers(text), scale, shrunk.lost)
        return _booster(with_leaf_numbers(text, numbers, 1 / scale))

    def _end_stretch(self) -> Booster:
        """The shrunk model, to start anew from."""
        assert self._shrinking is not None
        text, last = self._text(-1), self._step - 1
        if self._settings.early_stopping_rounds is not None:
            self._ended[self._shrinking.stretch(last)] = text
        return self._shrunk(text, last)[0]

    def _shrunk(self, text: str, step: int) -> tuple[Booster, str]:
        """The model after a step from the text of its trees unshrunk, and what rounding lost."""
        assert self._shrinking is not None
        scale = self._shrinking.after(step)
        numbers, lost = shrink(leaf_numbers(text), scale)
        return _booster(with_leaf_numbers(text, numbers, scale)), lost

    def _text(self, n_trees: int) -> str:
        # The text ends with the parameters of the training, which the rate of its last tree is not.
        self._grown.reset_parameter({"learning_rate": self._settings.learning_rate})
        return str(self._grown.model_to_string(num_iteration=n_trees))

    @property
    def _grown(self) -> Booster:
        assert self._booster is not None, "grow comes first"
        return self._booster

    def _scores(self, evaluate: Callable[[Any], Any]) -> NDArray[Any]:
        """The scores LightGBM keeps for its data sets, which it shows to evaluation functions."""
        seen: list[NDArray[Any]] = []

        def take(scores: NDArray[Any], _: Any) -> tuple[str, float, bool]:
            seen.append(scores)
            return "seen", 0.0, True

        evaluate(take)
        return seen[0] if self._shrinking is None else seen[0] * self._shrinking.after(self._step)


def _booster(text: str) -> Booster:
    booster: Booster = imported("lightgbm").Booster(model_str=text)
    return booster


def _parameters(task: Task, settings: Settings) -> dict[str, Any]:
    extra = _checked_names(settings.extra, own=not isinstance(task.loss, NativeLoss))
    if settings.early_stopping_rounds is not None and extra.get("boosting") == "dart":
        raise OptionError(
            "early_stopping_rounds: dart rescales the trees it has, so that the best cannot be kept; "
            "expected None, or another boosting"
        )
    if settings.langevin is not None and extra.get("boosting", "gbdt") not in _ADDING:
        raise OptionError(
            f"langevin: LightGBM's boosting={extra['boosting']} weighs trees in its own way; expected gbdt or goss"
        )
    params: dict[str, Any] = {
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.num_leaves,
        "num_threads": settings.threads,
        "data_random_seed": settings.seed,
        "verbosity": -1,
        "metric": "None",
    }
    if task.train.n_documents < _FEW_DOCUMENTS:
        # LightGBM drops the features that no leaf size allows to split, and then fails if none is left.
        params["feature_pre_filter"] = False
    if isinstance(task.loss, NativeLoss):
        params["objective"] = task.loss.objective
        # LightGBM's own gradients have no exact sums: their order must not be left to chance.
        params["deterministic"] = True
    if not {"force_row_wise", "force_col_wise"} & extra.keys():
        by_row = _suits_rows(task.train, settings.threads)
        if by_row or isinstance(task.loss, NativeLoss):
            params["force_row_wise" if by_row else "force_col_wise"] = True
    return {**params, **extra}


def _suits_rows(data: RankingData, threads: int) -> bool:
    """Whether histograms are best built by row: measured faster than LightGBM's own choice, which it makes by timing
    the first tree, on dense data whose histograms fit a core's cache (at the price of a second copy of the bins)."""
    return isinstance(data.X, np.ndarray) and data.n_features <= _FEW_FEATURES and threads <= _FEW_THREADS


def _checked_names(extra: Any, *, own: bool) -> dict[str, Any]:
    """The parameters under LightGBM's main names; LightGBM itself would pass over an unknown one in silence, and over
    those of its objectives where the loss is our own."""
    main_names = _main_names()
    checked: dict[str, Any] = {}
    for name, value in extra.items():
        main = main_names.get(name) if main_names else name
        if main is None:
            raise unknown("parameter of lightgbm", name, set(main_names) | set(_OURS.values()))
        refuse_name("lightgbm", name, _OURS.get(main))
        if own and main in _OF_OBJECTIVES:
            raise OptionError(f"{name}: is for LightGBM's own objectives; expected {_OF_OBJECTIVES[main]}")
        if main in _FOR_FILES:
            raise OptionError(f"{name}: is for LightGBM's command line; expected a parameter of training")
        if main in checked:
            raise OptionError(f"{name}: given twice, under two of LightGBM's names for {main}; expected it once")
        checked[main] = value
    return checked


@functools.cache
def _main_names() -> dict[str, str]:
    """LightGBM's main name for each of its names; empty if this LightGBM does not tell."""
    try:
        from lightgbm.basic import _ConfigAliases

        known = _ConfigAliases._get_all_param_aliases()
    except (ImportError, AttributeError):
        return {}
    return {alias: main for main, aliases in known.items() for alias in aliases}
