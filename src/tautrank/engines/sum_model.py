"""Sums of models, each times its factor: one model of trees where a tool can hold it, else the
models side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from tautrank.arrays import F64
from tautrank.engines.member_factors import columns_of
from tautrank.engines.model import FittedModel, scaled, shares
from tautrank.engines.registry import engine_named
from tautrank.engines.trees import Tree, exact_unit
from tautrank.errors import DataError, OptionError

# Leaves are rounded to multiples of at most this much; the scores of a committee differ by about 1
# within queries.
_COARSEST_UNIT = 2.0**-17


def weighted_sum(models: Sequence[FittedModel], factors: Iterable[float]) -> FittedModel:
    """Return one model whose scores are the sum of the models' scores, each times its factor.

    Args:
        models: at least one.
        factors: one per model.
    """
    plain_factors = [float(factor) for factor in factors]
    model_classes = {type(model) for model in models}
    # A tool may join models of its own into one; None if it cannot.
    if len(model_classes) == 1:
        total = model_classes.pop().weighted_sum(models, plain_factors)
        if total is not None:
            return total
    return SumModel(models, plain_factors)


def exact_in_float32(total: FittedModel) -> FittedModel:
    """Return a model of trees with leaf values rounded such that float32 adds them up exactly, in
    any order.

    Solr, Elasticsearch, OpenSearch and RankLib, which add leaf values in float32, then give the
    same bits as `predict`. The model is returned unchanged where that would round too much, or
    where it does not consist of trees.

    Args:
        total: the model of a committee, a sum of its members' trees.
    """
    try:
        unit = exact_unit(total.trees())
    except OptionError:
        return total
    return total.rounded(unit) if unit <= _COARSEST_UNIT else total


class SumModel(FittedModel):
    """A sum of models of several tools; kept in a file as one member that holds them all.

    Args:
        models: the models.
        factors: what the scores of each are multiplied by.
    """

    tool: ClassVar[str] = "committee"
    member: ClassVar[str] = "committee.bin"

    def __init__(self, models: Sequence[FittedModel], factors: Sequence[float]) -> None:
        self.models = tuple(models)
        self.factors = tuple(factors)
        self.n_features = max(model.n_features for model in models)
        self.n_trees = sum(model.n_trees for model in models)
        # Whether a score depends on the other documents of the list.
        self.by_list = any(model.by_list for model in models)

    def _models_with_factors(self) -> Iterator[tuple[FittedModel, float]]:
        """Yield the models, each with the factor that its scores are multiplied by."""
        return zip(self.models, self.factors, strict=True)

    def _scores(self, X: Any, threads: int, offsets: Any = None) -> Any:
        """Return the sum of all models' scores, each times its factor; one score per row."""
        summed_scores = np.zeros(X.shape[0])
        # `columns_of` returns the first columns where a model knows fewer features than the sum.
        for model, factor in self._models_with_factors():
            summed_scores += factor * model.predict(columns_of(X, model), threads, offsets)
        return summed_scores

    def contributions(self, X: Any, n_jobs: int | None = None) -> F64:
        """Return the feature contributions to the scores of a sum of models: the sum of the models'
        own contributions, each times its factor.

        Args:
            X: features, one row per document.
            n_jobs: number of threads.

        Returns:
            One row per document, one column per feature, and a last column for the mean score.
        """
        summed: F64 = np.zeros((X.shape[0], self.n_features + 1))
        for model, factor in self._models_with_factors():
            contributions = factor * model.contributions(columns_of(X, model), n_jobs)
            # A model may know the first features only; the last column is not a feature's, but the
            # mean score.
            summed[:, : model.n_features] += contributions[:, :-1]
            summed[:, -1] += contributions[:, -1]
        return scaled(summed, self.scale)

    def importances(self) -> F64:
        """Return the importance of each feature, averaged over the models; they sum to 1."""
        total: F64 = np.zeros(self.n_features)
        for model in self.models:
            total[: model.n_features] += model.importances()
        return shares(total)

    def to_bytes(self) -> bytes:
        """Return the models as bytes: a line of JSON that describes all of them, then the bytes of
        each, one after the other.
        """
        descriptions = []
        contents = []
        for model, factor in self._models_with_factors():
            content = model.to_bytes()
            contents.append(content)
            description = {
                "tool": model.tool,
                "bytes": len(content),
                "scale": model.scale,
                "factor": factor,
                "features": model.n_features,
            }
            descriptions.append(description)
        return json.dumps(descriptions).encode() + b"\n" + b"".join(contents)

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> SumModel:
        """Read a sum of models from bytes: a line of JSON that describes the models, then the bytes
        of each.

        Args:
            content: what `to_bytes` returned.
            n_features: number of features of the data; a model whose description has no number of
                its own must have as many.
        """
        json_line, _newline, unread = content.partition(b"\n")
        models = []
        factors = []
        try:
            for description in json.loads(json_line):
                # The bytes of this model are cut off the front of what is unread.
                size = int(description["bytes"])
                models.append(_read_model(description, unread[:size], n_features))
                factors.append(float(description["factor"]))
                unread = unread[size:]
        except (ValueError, KeyError, TypeError):
            raise DataError("found something else than the members of a committee") from None
        if not models:
            raise DataError("found a committee without members")
        return cls(models, factors)

    @classmethod
    def read(cls, content: bytes, n_features: int, scale: float = 1.0) -> FittedModel:
        """Read a sum of models from what `to_bytes` returned, and set the factor of its scores.

        Each model checks its own bytes and its number of features.
        """
        model = cls.from_bytes(content, n_features)
        model.scale = scale
        return model

    def rounded(self, unit: float) -> FittedModel:
        """Return the sum with all leaf values, times the factors of their models, rounded to
        multiples of a unit.

        The factors become part of the leaves and are 1 afterwards. The sum is returned unchanged
        where a model's format cannot take up a factor.
        """
        rounded_models = []
        for model, factor in self._models_with_factors():
            # A sum of one model: its leaves are multiplied by the factor.
            scaled_model = type(model).weighted_sum([model], [factor])
            if scaled_model is None:
                return self
            rounded_models.append(scaled_model.rounded(unit))
        return SumModel(rounded_models, [1.0] * len(rounded_models))

    def trees(self) -> list[Tree]:
        """Return the trees of all models as plain arrays; leaf values are scaled, so that the trees
        simply add up to the score.
        """
        trees = []
        for model, factor in self._models_with_factors():
            trees += [tree.times(factor * self.scale) for tree in model.trees()]
        return trees

    def version(self) -> str:
        """Return the names and versions of the tools that trained the models."""
        versions = {f"{model.tool} {model.version()}" for model in self.models}
        return ", ".join(sorted(versions))


def _read_model(description: Any, content: bytes, n_features: int) -> FittedModel:
    """Read one model of a sum from its bytes; raise a `ValueError` if they do not fit its
    description.

    Args:
        description: entry of the JSON line: tool, number of bytes and of features, and scale.
        content: the bytes of the model.
        n_features: number of features of the data, for a description without one.
    """
    tool = description["tool"]
    size = int(description["bytes"])
    width = int(description.get("features", n_features))
    is_complete = 0 <= size == len(content)  # shorter at the end of a file that was cut
    is_nested_sum = tool == SumModel.tool
    if is_nested_sum or not is_complete or not 0 < width <= n_features:
        raise ValueError
    model_class = engine_named(tool).model_class
    return model_class.read(content, width, float(description["scale"]))
