"""A fitted model of any tool, ready to score."""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tautrank.arrays import F64, I64, Array
from tautrank.data import StreamedRows
from tautrank.engines.packages import TOOLS, make_safe, package, usable_threads
from tautrank.engines.trees import Tree, more_than_comparisons
from tautrank.errors import DataError, OptionError

if TYPE_CHECKING:
    from tautrank.engines.scoring import Scorer


class FittedModel(abc.ABC):
    """A fitted model, ready to score: no training data, no loss, no metric."""

    tool: ClassVar[str]
    """The engine whose format `to_bytes` writes."""
    member: ClassVar[str]
    """Name of the bytes inside a model file."""

    sums_are_single: ClassVar[bool] = False
    """Whether the tool adds up its trees in float32."""

    n_features: int
    n_trees: int
    scale: float = 1.0
    """What the scores of the trees are multiplied by: below 1 where Langevin boosting has shrunk
    the model.
    """
    by_list: bool = False
    """Whether a score depends on the other documents of the list; `_scores` then takes their
    offsets too.
    """

    def predict(self, X: Any, n_jobs: int | None = None, offsets: Array | None = None) -> F64:
        """Return the model's scores of some documents, one per row of features.

        Args:
            X: checked features, float32 or float64 (dense or CSR), `n_features` columns.
            n_jobs: number of threads; the result does not depend on it.
            offsets: first row of each list, and the number of rows at the end, for a model that is
                `by_list`; None for one list.
        """
        n_rows = X.shape[0]
        if n_rows == 0:  # LightGBM refuses an empty matrix
            return np.zeros(0)

        scorer = self.scorer
        # The scorer is this library's own compiled scoring, None for models it cannot score; `few`
        # is the number of rows up to which further threads do not pay.
        is_small = scorer is not None and n_rows <= scorer.few
        may_use_one_thread = n_jobs in (None, 1, -1)
        if is_small and may_use_one_thread:
            threads = 1  # finding out how many there are would take longer
        else:
            threads = usable_threads(n_jobs)

        # Only models of whole lists take offsets.
        list_arguments = {"offsets": offsets} if self.by_list else {}
        unscaled = self.unscaled_scores(X, threads, **list_arguments)
        return scaled(unscaled, self.scale)

    def unscaled_scores(self, X: Any, threads: int, **lists: Any) -> F64:
        """Return the scores of the trees before they are multiplied by `scale`.

        Float32 features are scored by this library's compiled loops to the bits of the tool,
        others by the tool itself; features that stay in files are read in chunks.

        Args:
            X: features, at least one row.
            threads: number of threads.
            **lists: the offsets of the lists, for a model whose scores depend on the whole list.
        """
        if isinstance(X, StreamedRows):
            if lists:
                raise OptionError(
                    "X: found features in files, read in chunks; expected whole lists in memory"
                )
            chunks = X.chunks(threads)
            return np.concatenate([self.unscaled_scores(chunk, threads) for chunk in chunks])
        scorer = self.scorer  # this library's compiled scoring; None for models it cannot score
        if scorer is not None and isinstance(X, np.ndarray):
            # Doubles may be rounded to float32 if the tool does so too (`single`).
            is_scored_as_float32 = X.dtype == np.float32 or scorer.single
        else:
            is_scored_as_float32 = False
        if scorer is not None and is_scored_as_float32:
            return scorer.scores(np.ascontiguousarray(X, np.float32), threads)
        # In a forked process some tools would hang with threads; this prevents it.
        make_safe(self.tool)
        return np.asarray(self._scores(X, threads, **lists), dtype=np.float64)

    @functools.cached_property
    def scorer(self) -> Scorer | None:
        """The trees packed for this library's own scoring, to the same bits; None where the tool
        itself must score.
        """
        try:
            trees = self.unscaled_trees()
        except OptionError:
            return None
        from tautrank.engines.scoring import Scorer

        return Scorer.of(trees, single=self.sums_are_single)

    @abc.abstractmethod
    def _scores(self, X: Any, threads: int) -> Any:
        """Return unscaled scores of at least one row, as the tool gives them."""

    def contributions(self, X: Any, n_jobs: int | None = None) -> F64:
        """Return what each feature contributes to the score of each document: SHAP values by the
        tool's own exact TreeSHAP.

        Lundberg et al., *From local explanations to global understanding with explainable AI for
        trees*, 2020.

        Args:
            X: as for `predict`.
            n_jobs: threads.

        Returns:
            One row per document, one column per feature, and a last column for the mean score that
            all start from; each row sums to the score.
        """
        if X.shape[0] == 0:  # tools refuse an empty matrix
            return np.zeros((0, self.n_features + 1))
        make_safe(self.tool)
        # What a tool raises for a kind of model that it cannot explain.
        errors_of_incapable: tuple[type[Exception], ...] = (
            NotImplementedError,
            *self.tool_errors(),
        )
        try:
            unscaled = self._contributions(X, usable_threads(n_jobs))
        except errors_of_incapable:
            raise OptionError(
                f"explain: {self.tool} has no contributions for this kind of model; expected trees "
                "with one number per leaf, of lightgbm or xgboost"
            ) from None
        return scaled(np.asarray(unscaled, dtype=np.float64), self.scale)

    def _contributions(self, X: Any, threads: int) -> Any:
        """Return unscaled contributions of at least one row, as the tool gives them."""
        raise NotImplementedError

    def leaves(self, X: Any, n_jobs: int | None = None) -> I64:
        """Return the number of the leaf that each document reaches in each tree, as the tool numbers
        leaves: one row per document, one column per tree.

        Args:
            X: as for `predict`.
            n_jobs: threads.
        """
        make_safe(self.tool)
        leaves = np.asarray(self._leaves(X, usable_threads(n_jobs)), np.int64)
        # Of one tree, a tool may return a flat array.
        return leaves.reshape(X.shape[0], -1)

    def _leaves(self, X: Any, threads: int) -> Any:
        raise OptionError(
            f"pred_leaf: {self.tool} has no leaves; expected a model of lightgbm or xgboost"
        )

    def truncated(self, n_trees: int) -> FittedModel:
        """Return the model of the first trees.

        Args:
            n_trees: their number.
        """
        raise OptionError(
            f"num_iteration: a model of {self.tool} predicts as a whole; expected None"
        )

    @abc.abstractmethod
    def importances(self) -> F64:
        """Return what each feature added to the objective over all splits, as shares that sum to 1
        (0 if no splits).
        """

    @abc.abstractmethod
    def to_bytes(self) -> bytes:
        """Return the unscaled model in the tool's own format; `from_bytes` gives the same bits
        back.
        """

    @classmethod
    @abc.abstractmethod
    def from_bytes(cls, content: bytes, n_features: int) -> FittedModel:
        """Read what `to_bytes` wrote; `read` turns the tool's exceptions into one sentence.

        Args:
            content: the model in the tool's own format.
            n_features: columns of the data it was trained on, for tools that do not keep it.
        """

    @classmethod
    def tool_errors(cls) -> tuple[type[Exception], ...]:
        """Return the tool's own exceptions about a model or a training that it cannot handle."""
        return ()

    @classmethod
    def read(cls, content: bytes, n_features: int, scale: float = 1.0) -> FittedModel:
        """Read a model from bytes in the tool's own format; raise a `DataError` in one sentence if
        they hold no such model.

        Args:
            content: what `to_bytes` returned.
            n_features: number of features that the model must have.
            scale: factor of the model's scores.
        """
        tool_name = TOOLS[cls.tool].display_name
        try:
            model = cls.from_bytes(content, n_features)
        except cls.tool_errors():
            raise DataError(
                f"{tool_name} cannot read the model; expected the trees as {cls.tool} saves them"
            ) from None
        if model.n_features != n_features:
            raise DataError(
                f"found {tool_name}'s model of {model.n_features} features; expected {n_features}"
            )
        model.scale = scale
        return model

    def unscaled_trees(self) -> list[Tree]:
        """Return the trees as arrays, in the order in which the tool adds them up; an error if the
        model has none.
        """
        raise OptionError(
            f"format: found a model trained by {self.tool}, which can only be saved; expected one "
            "trained by lightgbm or xgboost"
        )

    def trees(self) -> list[Tree]:
        """Return the trees of the model as plain arrays, with leaf values that include the model's
        scale; exports are written from them.

        Refused are trees that do more than compare a feature with a threshold.
        """
        trees = self.unscaled_trees()
        # The end of a sentence that says what else the trees do; None if nothing.
        peculiarity = more_than_comparisons(trees)
        if peculiarity is not None:
            expected = "a model without that"
            if self.tool == "lightgbm":
                expected = "lightgbm, which can do so too"
            raise OptionError(f"format: the model {peculiarity}; expected {expected}")
        if self.scale == 1:
            return trees
        return [tree.times(self.scale) for tree in trees]

    @classmethod
    def weighted_sum(cls, models: Sequence[Any], factors: Sequence[float]) -> FittedModel | None:
        """Return one model of this tool whose scores are the sum of the models' scores, each times
        its factor.

        Args:
            models: models of this class.
            factors: one per model.

        Returns:
            None where the tool's format cannot hold a sum; the models are then kept side by side.
        """
        return None

    def rounded(self, unit: float) -> FittedModel:
        """Return the model with leaves that are multiples of a number; the model as it is where its
        tool has no leaves.

        Args:
            unit: the number.
        """
        return self

    def version(self) -> str:
        """Return the version of the tool that is installed."""
        return str(package(self.tool).__version__)

    def __reduce__(self) -> tuple[Any, ...]:
        # Trees live in the tool's own memory; worker processes receive them in the tool's own
        # format.
        return type(self).read, (self.to_bytes(), self.n_features, self.scale)


def scaled(scores: Array, scale: float) -> Array:
    """Return ``scores * scale``; the same array where the scale is 1."""
    return scores if scale == 1 else scores * scale


def shares(values: Any) -> F64:
    """Scale non-negative numbers to sum to 1; all zeros stay.

    >>> shares([1.0, 3.0])
    array([0.25, 0.75])
    """
    numbers = np.asarray(values, dtype=np.float64)
    total = numbers.sum()
    return numbers / total if total > 0 else numbers
