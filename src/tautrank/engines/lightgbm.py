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
_PARAMETERS_OF_OBJECTIVES = {
    "label_gain": "the loss's gain, as loss='lambdarank(gain=linear)'",
    "lambdarank_truncation_level": "the loss's k, as loss='lambdarank(k=10)'",
    "lambdarank_norm": "the loss's norm, as loss='lambdarank(norm=lightgbm)'",
    "sigmoid": "the loss's sigma, as loss='lambdarank(sigma=2)'",
    "objective_seed": "random_state",
    "num_class": "one score per document",
}
# Useless or harmful for a training that has its data in memory.
_PARAMETERS_OF_COMMAND_LINE = (
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
_KINDS_THAT_KEEP_TREES = ("gbdt", "gbrt", "goss")

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

# Up to so many features and threads, counting histograms by row is faster than by column.
_MOST_FEATURES_BY_ROW = 300
_MOST_THREADS_BY_ROW = 16
# With fewer documents the least size of a leaf may leave no feature to split.
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
        content = self._unscaled_text(n_trees).encode()
        return self.read(content, self.n_features, self.scale)

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
        """Return LightGBM's text of the first trees, or of all (-1), without `scale`."""
        return str(self.unscaled.model_to_string(num_iteration=n_trees))

    def to_bytes(self) -> bytes:
        """Return LightGBM's text of the unscaled trees, in UTF-8."""
        return self._unscaled_text().encode()

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> LightGBMModel:
        """Return the model that LightGBM has written as text.

        Args:
            content: text in UTF-8.
            n_features: number of features that the model must have.
        """
        text = content.decode()
        # LightGBM reads what it can of a damaged text, and may then score with half a model.
        if not text.startswith("tree\n") or "\nend of trees\n" not in text:
            raise DataError("found something else than a LightGBM model text")
        return cls._from_text(text)

    @classmethod
    def _from_text(cls, text: str) -> LightGBMModel:
        """Return the model of a text, which is kept until `unscaled_trees` has read it."""
        model = cls(package(cls.tool).Booster(model_str=text))
        model._text = text
        return model

    @classmethod
    def tool_errors(cls) -> tuple[type[Exception], ...]:
        """Return LightGBM's exception."""
        return (package(cls.tool).basic.LightGBMError,)

    @classmethod
    def weighted_sum(
        cls, models: Sequence[LightGBMModel], factors: Sequence[float]
    ) -> FittedModel | None:
        """Return one model whose score is a weighted sum of the scores of several models; its
        booster holds the trees of all of them, with their leaves multiplied.

        Args:
            models: the models, of the same features.
            factors: the weight of each model.
        """
        texts = []
        for model, factor in zip(models, factors, strict=True):
            texts.append(scaled_text(model.to_text(), factor))
        return cls._from_text(joined_text(texts))

    def rounded(self, unit: float) -> FittedModel:
        """Return the model with the value of each leaf rounded to the nearest multiple of a number.

        Args:
            unit: the number.
        """

        # LightGBM's text has one line leaf_value=... per tree; the numbers in it are replaced.
        def round_leaves(line: re.Match[str]) -> str:
            leaves = numbers_in(line[1], np.float64)
            rounded_leaves = np.rint(leaves / unit) * unit
            return "leaf_value=" + text_of(rounded_leaves)

        text = re.sub(r"^leaf_value=(.*)$", round_leaves, self.to_text(), flags=re.M)
        # The text also says how long each tree's text is: that is counted anew.
        return self._from_text(with_sizes(text))

    @classmethod
    def joined(cls, contents: Sequence[bytes], n_features: int) -> FittedModel:
        """Return one model with the trees of several, one after the other.

        Args:
            contents: what `to_bytes` returned for each.
            n_features: number of features that each has.
        """
        texts = [content.decode() for content in contents]
        return cls._from_text(joined_text(texts))

    def unscaled_trees(self) -> list[Tree]:
        """Return the trees as arrays; the sum of their leaves is the unscaled score."""
        text = self._text
        if text is None:
            # Writing the text takes LightGBM longer than reading it takes us.
            text = self._unscaled_text()
        self._text = None  # it is not needed again, and may be large
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
        """Return an error sentence for each name of a parameter that cannot be given to LightGBM:
        unknown ones, those that have another name in this library, are useless in this training,
        or were given under two names.

        LightGBM has several names for most parameters, of which one is the main name.

        Args:
            loss: the loss to train.
            names: names of parameters that a ranker does not have itself.
        """
        errors = []
        main_names_seen = set()
        for name in names:
            main_name = main_names().get(name)
            if main_name is None:
                known_names = {*main_names(), *OTHER_NAMES}
                errors.append(str(unknown("parameter of lightgbm", name, known_names)))
                continue
            # An error if this library has a parameter of its own for it.
            errors += our_name(name, main_name)
            if main_name in _PARAMETERS_OF_OBJECTIVES and not isinstance(loss, NativeLoss):
                counterpart = _PARAMETERS_OF_OBJECTIVES[main_name]
                errors.append(f"{name}: is for LightGBM's own objectives; expected {counterpart}")
            if main_name in _PARAMETERS_OF_COMMAND_LINE:
                errors.append(
                    f"{name}: is for LightGBM's command line; expected a parameter of training"
                )
            if main_name in main_names_seen:
                errors.append(
                    f"{name}: given twice, under two of LightGBM's names for {main_name}; "
                    "expected it once"
                )
            main_names_seen.add(main_name)
        return errors

    def query_bagging(self, settings: Settings) -> QueryBagging | None:
        """Return how this library samples queries for each tree, as ``bagging_by_query`` asks for;
        None where all queries are used. LightGBM itself samples them for its own objectives only.

        Quantised gradients are sampled by query too: LightGBM sums those of other documents than
        the sampled ones (LightGBM#7397). Documents of queries that are not drawn still count for
        ``min_data_in_leaf``.

        Args:
            settings: how to train.
        """
        extra = _extra_by_main_name(settings)
        if not _samples_by_query(extra):
            return None
        # `whole` and `_share` check the type and the range of a value.
        seed = settings.seed + whole("bagging_seed", extra.get("bagging_seed", 0))
        share = _share(extra, "bagging_fraction")
        rounds_per_draw = whole("bagging_freq", extra.get("bagging_freq", 0))
        if rounds_per_draw <= 0 or share >= 1:
            return None
        return QueryBagging(share, rounds_per_draw, seed)

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
        """Return parameters as LightGBM takes them: a share of rows to sample (``subsample``) is
        completed by how often they are sampled, without which LightGBM samples none.

        Args:
            parameters: values by name.
            fixed: names of the parameters that are set besides.

        >>> LightGBM().translate_parameters({"subsample": 0.5})
        {'subsample': 0.5, 'subsample_freq': 1}
        """
        all_names = {*parameters, *fixed}
        says_how_often = "subsample_freq" in all_names or "bagging_freq" in all_names
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
        self._booster: Any = None  # LightGBM's model, until the first tree
        # L2 regularisation: added to the sum of hessians that a leaf's gradients are divided by.
        self.l2 = float(self.params.get("lambda_l2", 0.0))
        self._rate = settings.learning_rate  # of the last tree
        # On a cluster data is binned now: from the first tree on, the other workers wait for it.
        self._binned: BinnedParts | None = None
        if task.sample is not None:
            self._binned = LightGBMBinning(task, self.params).make()
        # A model to start from whose trees are put before the new ones when training is over.
        self._start_to_join = task.start if is_joined(task, self.params) else None
        self._rounds_before = 0 if self._start_to_join is None else self._start_to_join.n_trees

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        """Grow one tree of LightGBM for the gradients of a loss at the current scores, scaled by the
        learning rate `rate`; without gradients (None), for LightGBM's own objective.
        """
        # LightGBM calls a function as objective to get gradients; None for its own.
        objective = None if gradients is None else _objective_function(gradients)
        if self._booster is None:
            self._grow_first_tree(objective, rate)
        else:
            self._set_rate(rate)
            self._booster.update(fobj=objective)

    @property
    def rounds(self) -> int:
        return self._rounds_before + int(self._booster.num_trees())

    def scores(self, part: Part) -> Array:
        """Return the current score of each document of the training or the validation data."""
        if self._booster is not None:
            data_index = 0 if part == "train" else 1
            return lightgbm_private.current_scores(self._booster, data_index)
        # Before the first tree: 0, or the scores of the model that training continues.
        X = self._task.parts[part].X
        if self._task.start is None:
            return np.zeros(X.shape[0])
        return self._task.start.unscaled_scores(X, self._settings.threads)

    def model(self, rounds: int) -> FittedModel:
        """Return the model of the first rounds, those of the model that training started from
        included.
        """
        # Through the text, so that a model predicts the same before it is saved and after; it also
        # frees the data.
        # Trees of a model to start from that is joined below are not in the booster.
        n_new_rounds = rounds - self._rounds_before
        text = self._model_text(0, n_new_rounds)
        if self._start_to_join is not None:
            text_of_start = self._start_to_join.to_bytes().decode()
            text = joined_text([text_of_start, text])
        return LightGBMModel._from_text(text)

    def leaves(self, part: Part) -> Array:
        """Return the number of the leaf that each document reaches in the last tree.

        This library's own scoring finds it faster than LightGBM does: it scores with a tree whose
        leaves have their numbers for values.
        """
        from tautrank.engines.scoring import Scorer

        X = self._task.parts[part].X
        threads = self._settings.threads
        last_round = self.rounds - 1
        text = self._booster.model_to_string(start_iteration=last_round, num_iteration=1)
        tree = lightgbm_trees(text)[0]
        leaf_numbers = np.arange(tree.leaf.size, dtype=np.float64)
        numbered_tree = dataclasses.replace(tree, leaf=leaf_numbers)
        scorer = Scorer.of([numbered_tree])  # None for a tree that it cannot score

        is_dense_float32 = isinstance(X, np.ndarray) and X.dtype == np.float32
        if scorer is None or not is_dense_float32:
            leaves = self._booster.predict(X, last_round, 1, pred_leaf=True, num_threads=threads)
            return np.ravel(leaves)
        return scorer.scores(X, threads).astype(np.int64)

    def fill(self, leaves: Array, values: F64) -> F64:
        """Change the values of leaves of the last tree, and return them as LightGBM keeps them."""
        for leaf, value in zip(leaves, values, strict=True):
            self._booster.set_leaf_output(self.rounds - 1, leaf, value)
        return values

    def last_tree(self) -> bytes:
        """Return a model of the last tree alone, as LightGBM's text in UTF-8."""
        last = int(self._booster.num_trees()) - 1
        return self._model_text(last, 1).encode()

    def _model_text(self, first: int, n_trees: int) -> str:
        """Return LightGBM's text of some of the new trees, from the tree number `first` on."""
        # The text ends with the parameters of the training; the rate of its last tree is not one of
        # them.
        self._set_rate(self._settings.learning_rate)
        return str(self._booster.model_to_string(start_iteration=first, num_iteration=n_trees))

    def _grow_first_tree(self, objective: Callable[..., Any] | None, rate: float) -> None:
        """Bin the data, make the booster, and grow the first tree.

        With quantised gradients one thread makes the booster: each thread that makes it draws
        random numbers for rounding, so that trees would depend on the number of threads.

        Args:
            objective: the gradients of a loss of this library; None for LightGBM's own objective.
            rate: learning rate of the tree.
        """
        params = {
            **self.params,
            "learning_rate": rate,
            # Bins must be the same when training continues, samples of documents and features must
            # not.
            "seed": (self._settings.seed + self._task.start_step) % 2**31,
        }
        self._rate = rate
        binned = self._binned
        if binned is None:
            binned = LightGBMBinning(self._task, params).shared()
        if objective is not None:
            params["objective"] = objective
        booster_to_continue = self._booster_to_continue(is_our_loss=objective is not None)

        if is_quantised(params):
            is_new_and_alone = booster_to_continue is None and self._task.sample is None
            if is_new_and_alone and is_set(params, "force_row_wise"):
                self._booster = _start_booster_by_one_thread(params, binned)
                return
            params["num_threads"] = 1
        self._booster = package("lightgbm").train(
            params,
            binned.train,
            num_boost_round=1,
            valid_sets=None if binned.valid is None else [binned.valid],
            init_model=booster_to_continue,
            keep_training_booster=True,
        )
        if is_quantised(params):
            self._booster.reset_parameter({"num_threads": self.params["num_threads"]})

    def _booster_to_continue(self, *, is_our_loss: bool) -> Booster | None:
        """Return the booster that LightGBM itself adds trees to; None for a new one.

        A loss of this library goes on from the unscaled scores of a model, LightGBM's own objective
        from its scores.
        """
        start = self._task.start
        if self._start_to_join is not None or not isinstance(start, LightGBMModel):
            return None
        return start.unscaled if is_our_loss else start.booster

    def _set_rate(self, rate: float) -> None:
        """Set the learning rate of the next tree, if it is not that of the last one."""
        if rate == self._rate:
            return
        new_params = {"learning_rate": rate}
        if is_set(self.params, "extra_trees"):
            # A change of parameters makes LightGBM draw the random thresholds of extra_trees from
            # the start again: with the same seed, each tree would have the same thresholds.
            n_trees = int(self._booster.num_trees())
            rng = np.random.default_rng((self._settings.seed, self._task.start_step, n_trees))
            new_params["extra_seed"] = int(rng.integers(2**31))
        self._booster.reset_parameter(new_params)
        self._rate = rate


def _objective_function(gradients: GradientsAt) -> Callable[[Array, Any], tuple[F32, F32]]:
    """Return a function of scores and data set, as LightGBM calls an objective, that returns the
    gradients and hessians of a loss.

    It is a plain function because LightGBM copies its parameters deeply: an object that holds the
    data would be copied with the data, a function is not.
    """

    def objective(scores: Array, _: Any) -> tuple[F32, F32]:
        return gradients(scores)

    return objective


def _start_booster_by_one_thread(params: Mapping[str, Any], binned: BinnedParts) -> Any:
    """Return a booster with its first tree, whose trees do not depend on the number of threads
    although gradients are quantised: rounded at random to a few levels.

    When a booster is made, each thread draws the random numbers of its share of the documents, from
    a seed of its own; and histograms by row are counted by as many threads as then. So the booster
    is made by one thread. For its histograms to be counted by all threads, it is made of a stand-in
    for the training data, of as many documents but without features, which is then replaced.

    Two things must be the same in both: the layout of histograms, which LightGBM would choose for
    the stand-in, and the groups of features. LightGBM bundles sparse features of the training data,
    but never those of documents that are binned like others.

    Args:
        params: LightGBM's parameters; a function as objective is a loss of this library.
        binned: training and validation data.
    """
    lightgbm = package("lightgbm")
    # A function is a loss of this library; a name is an objective of LightGBM's own.
    objective = params["objective"] if callable(params["objective"]) else None
    one_thread_params = {**params, "num_iterations": 1, "num_threads": 1}
    if objective is not None:
        one_thread_params["objective"] = "none"

    train = binned.train.construct()
    stand_in = lightgbm.Dataset(None, params=one_thread_params)
    lightgbm_private.make_room_as_in(stand_in, train, train.num_data())
    lightgbm_private.mark_finished(stand_in)
    # LightGBM's own objectives look at labels and queries.
    stand_in.set_label(train.get_label())
    stand_in.set_group(train.get_group())

    booster = lightgbm.Booster(one_thread_params, stand_in)
    booster.reset_parameter({"num_threads": params["num_threads"]})
    if binned.valid is not None:
        booster.add_valid(binned.valid, "valid_0")
    # LightGBM compares the new data with the old: `stand_in` must live until here.
    booster.update(train, objective)
    return booster


def parameters(task: Task, settings: Settings) -> dict[str, Any]:
    """Return LightGBM's parameters for a training, from the settings of this library and LightGBM's
    own parameters among them (`Settings.extra`), which take precedence.

    Args:
        task: what to learn.
        settings: how to train.
    """
    # LightGBM itself would silently ignore wrong names; `refuse` raises an error if there are any.
    refuse(LightGBM().name_errors(task.loss, settings.extra))
    extra = _extra_by_main_name(settings)
    _check_boosting(task, settings, extra)
    if not isinstance(task.loss, NativeLoss) and _samples_by_query(extra):
        # This library samples the queries (`query_bagging`): LightGBM would draw none.
        extra = {name: value for name, value in extra.items() if not name.startswith("bagging_")}
    check_leaves(settings.langevin, extra)
    # The features that stay in files and are read in chunks, with a limit of memory.
    streams = [data.X for data in task.parts.values() if isinstance(data.X, StreamedRows)]
    check_memory(streams, extra.get("max_bin", 255))

    params = _parameters_of_settings(task, settings)
    says_layout = "force_row_wise" in extra or "force_col_wise" in extra
    if not says_layout:
        params |= _histogram_layout(task, settings, streams)
    params |= extra
    if is_quantised(params):
        _avoid_wrong_sums(params)
    return params


def _check_boosting(task: Task, settings: Settings, extra: Mapping[str, Any]) -> None:
    """Raise an error if LightGBM's kind of boosting does not work with early stopping, Langevin
    boosting or sampling by query, where these are asked for.

    Args:
        task: what to learn.
        settings: how to train.
        extra: LightGBM's own parameters among the settings, by their main names.
    """
    boosting = extra.get("boosting", "gbdt")
    if boosting == "dart":
        settings.refuse_dart()
    if settings.langevin is not None and boosting not in _KINDS_THAT_KEEP_TREES:
        raise OptionError(
            f"langevin: LightGBM's boosting={boosting} weights trees differently; expected gbdt or "
            "goss"
        )
    uses_goss = "goss" in (boosting, extra.get("data_sample_strategy"))
    if uses_goss and _samples_by_query(extra) and not isinstance(task.loss, NativeLoss):
        # Goss keeps the documents of large gradients: two ways of sampling at once.
        raise OptionError(
            "bagging_by_query: goss samples documents by their gradients; expected one of the two"
        )


def _parameters_of_settings(task: Task, settings: Settings) -> dict[str, Any]:
    """Return the settings that all engines have under LightGBM's names, and what follows from the
    loss and the number of documents.
    """
    params: dict[str, Any] = {
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.num_leaves,
        "num_threads": settings.threads,
        # Members of a committee share the bins, and so the seed of the sample they are found from.
        "data_random_seed": settings.seed if task.bin_seed is None else task.bin_seed,
        "verbosity": -1,
        "metric": "None",  # this library judges the rounds itself
    }
    # On a cluster, `whole` holds the numbers of documents and queries of all workers.
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
    """Return the parameter that makes LightGBM count the histograms of features by row or by
    column; no parameter where LightGBM may choose by timing the first tree.

    A histogram holds the sums of gradients in each bin of a feature; splits are found from it.

    Args:
        task: what to learn.
        settings: how to train.
        streams: the features that are read from files in chunks, if any.
    """
    has_memory_limit = any(rows.memory is not None for rows in streams)
    has_few_features = task.train.n_features <= _MOST_FEATURES_BY_ROW
    is_small = has_few_features and settings.threads <= _MOST_THREADS_BY_ROW
    is_dense = isinstance(task.train.X, np.ndarray | StreamedRows)
    if is_small and is_dense and not has_memory_limit:
        # Faster than LightGBM's own choice on dense data whose histograms fit a core's cache, at
        # the price of a second copy of the bins.
        return {"force_row_wise": True}
    # A choice by timing could change the bits of LightGBM's own gradients' sums from run to run.
    if has_memory_limit or isinstance(task.loss, NativeLoss):
        return {"force_col_wise": True}
    return {}


def _avoid_wrong_sums(params: dict[str, Any]) -> None:
    """Replace, in `params` itself, parameters with which LightGBM's sums of quantised gradients
    would be wrong or depend on the number of threads. Quantised gradients are rounded to a few
    levels, for speed.

    A share of the features for each tree becomes a share for each node.
    """
    if "feature_fraction" in params:
        # Sums are wrong where a whole tree has some of the features only (LightGBM#7397).
        share_per_tree = _share(params, "feature_fraction")
        del params["feature_fraction"]
        share_per_node = params.get("feature_fraction_bynode", 1.0)
        params["feature_fraction_bynode"] = share_per_tree * share_per_node
    if is_set(params, "force_row_wise"):
        # Bundles of sparse features would be found for the training data alone, but the booster is
        # made of a stand-in for it; see `_start_booster_by_one_thread`.
        params["enable_bundle"] = False


def _share(params: Mapping[str, Any], name: str) -> float:
    """Return a parameter that is a share, above 0 and at most 1; 1 where it is not set."""
    return real(name, params.get(name, 1.0), least=0.0, above=True, most=1.0)


def _extra_by_main_name(settings: Settings) -> dict[str, Any]:
    """Return LightGBM's own parameters among the settings, and those that ``speed="fast"`` sets,
    by their main names.
    """
    extra = _by_main_name(settings.extra)
    if settings.speed == "fast":
        return {**_FAST, **extra}
    return extra


def _samples_by_query(extra: Mapping[str, Any]) -> bool:
    """Whether queries are sampled: quantised gradients cannot be sampled by document."""
    if is_set(extra, "bagging_by_query"):
        return True
    return is_quantised(extra) and "bagging_fraction" in extra


def _by_main_name(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by LightGBM's main names; unknown names stay."""
    return {main_names().get(name, name): value for name, value in params.items()}


@functools.cache
def main_names() -> dict[str, str]:
    """Return LightGBM's main name for each of its names."""
    return lightgbm_private.main_names()
