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
    if len(model_classes) == 1:
        total = model_classes.pop().weighted_sum(models, plain_factors)
        if total is not None:
            return total
    return SumModel(models, plain_factors)


def exact_in_float32(total: FittedModel) -> FittedModel:
    """Return the model with leaves rounded such that float32 adds them up exactly, in any order.

    Solr, Elasticsearch, OpenSearch and RankLib, which add leaves in float32, then give the same
    bits as `predict`. The model stays as it is where that would round too much, or where its trees
    are not its own.

    Args:
        total: a committee.
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
        self.by_list = any(model.by_list for model in models)

    def _terms(self) -> Iterator[tuple[FittedModel, float]]:
        """Yield the models, each with its factor."""
        return zip(self.models, self.factors, strict=True)

    def _scores(self, X: Any, threads: int, offsets: Any = None) -> Any:
        total = np.zeros(X.shape[0])
        for model, factor in self._terms():
            total += factor * model.predict(columns_of(X, model), threads, offsets)
        return total

    def contributions(self, X: Any, n_jobs: int | None = None) -> F64:
        """Return the sum of the members' contributions, each times its factor.

        Args:
            X: as for `predict`.
            n_jobs: threads.
        """
        total: F64 = np.zeros((X.shape[0], self.n_features + 1))
        for model, factor in self._terms():
            part = factor * model.contributions(columns_of(X, model), n_jobs)
            total[:, : model.n_features] += part[:, :-1]
            total[:, -1] += part[:, -1]
        return scaled(total, self.scale)

    def importances(self) -> F64:
        """Return the mean share of each feature over the members."""
        total: F64 = np.zeros(self.n_features)
        for model in self.models:
            total[: model.n_features] += model.importances()
        return shares(total)

    def to_bytes(self) -> bytes:
        """Return a line of JSON that describes the members, and their own bytes."""
        descriptions = []
        contents = []
        for model, factor in self._terms():
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
        """Read what `to_bytes` wrote.

        Args:
            content: the bytes.
            n_features: number of features of the data; a member that says nothing else must have as
                many.
        """
        head, _, contents = content.partition(b"\n")
        models = []
        factors = []
        try:
            for description in json.loads(head):
                size = int(description["bytes"])
                models.append(_read_term(description, contents[:size], n_features))
                factors.append(float(description["factor"]))
                contents = contents[size:]
        except (ValueError, KeyError, TypeError):
            raise DataError("found something else than the members of a committee") from None
        if not models:
            raise DataError("found a committee without members")
        return cls(models, factors)

    @classmethod
    def read(cls, content: bytes, n_features: int, scale: float = 1.0) -> FittedModel:
        """Read what `to_bytes` wrote; each member checks its own bytes and features.

        Args:
            content: the bytes.
            n_features: number of features of the data.
            scale: what the scores are multiplied by.
        """
        model = cls.from_bytes(content, n_features)
        model.scale = scale
        return model

    def rounded(self, unit: float) -> FittedModel:
        """Return the sum of members whose leaves, times their factors, are multiples of a number.

        Args:
            unit: the number.
        """
        rounded_models = []
        for model, factor in self._terms():
            scaled_model = type(model).weighted_sum([model], [factor])
            if scaled_model is None:
                return self
            rounded_models.append(scaled_model.rounded(unit))
        return SumModel(rounded_models, [1.0] * len(rounded_models))

    def trees(self) -> list[Tree]:
        """Return the trees of all members as plain arrays, scaled."""
        trees = []
        for model, factor in self._terms():
            trees += [tree.times(factor * self.scale) for tree in model.trees()]
        return trees

    def version(self) -> str:
        """Return the versions of the tools."""
        versions = {f"{model.tool} {model.version()}" for model in self.models}
        return ", ".join(sorted(versions))


def _read_term(description: Any, content: bytes, n_features: int) -> FittedModel:
    """Read one model of a sum; a `ValueError` if its description cannot be."""
    size = int(description["bytes"])
    width = int(description.get("features", n_features))
    is_whole = 0 <= size == len(content)
    if description["tool"] == SumModel.tool or not is_whole or not 0 < width <= n_features:
        raise ValueError
    model_class = engine_named(description["tool"]).model_class
    return model_class.read(content, width, float(description["scale"]))
