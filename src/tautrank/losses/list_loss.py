"""`ListLoss`: add a loss of your own by writing a function of one list."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tautrank.arguments import real
from tautrank.arrays import F64, Floats
from tautrank.errors import OptionError
from tautrank.losses.base import Loss, Objective, TrainingLists

_LISTS = ("scores", "labels", "grad", "hess")
_HELD = "held"


@dataclass(frozen=True, kw_only=True, repr=False)
class ListLoss(Loss):
    """Base class of losses that are written as one function of one list, which is compiled.

    A subclass is a frozen dataclass of parameters with a static method
    ``one_list(scores, labels, grad, hess, ...)``. The function gets the documents of one query,
    writes the first derivatives to ``grad`` and the second derivatives (at least 0) to ``hess``,
    and returns the loss of the list. Both arrays arrive filled with 0. After ``hess`` it names the
    parameters of the dataclass that it needs.

    This class compiles the function with Numba and runs it over all queries on all cores. It also
    takes care of query weights, noise, printing and parsing, and of queries without a relevant
    document, which get value 0 and gradient 0 and never reach the function. Arrays and parameters
    are float32 in training and float64 for values and checks. The results do not depend on the
    number of threads.

    Before the compiled function runs for the first time, and again for longer lists and higher
    labels, it runs on a few lists where an index out of range is an error: compiled code would read
    and write past the end of an array without noticing.

    Weights that depend on the ranking and are not differentiated, such as those of LambdaRank, are
    computed from the scores ``held``, an argument directly after ``hess``. In training they equal
    ``scores``; when the derivative is checked, they stay fixed while ``scores`` move.

    docs/add-a-loss.md builds a loss step by step.

    Args:
        noise: see `Loss`.
        strength: see `Loss`.

    >>> from tautrank.losses import REGISTRY, loss, register
    >>> @register("my-mse")
    ... @dataclass(frozen=True)
    ... class MyMSE(ListLoss):
    ...     slope: float = 1.0
    ...
    ...     @staticmethod
    ...     def one_list(scores, labels, grad, hess, slope):
    ...         value = 0.0
    ...         for i in range(scores.size):
    ...             grad[i] = slope * (scores[i] - labels[i])
    ...             hess[i] = slope
    ...             value += 0.5 * slope * (scores[i] - labels[i]) ** 2
    ...         return value
    >>> objective = loss("my-mse(slope=2)").bind(labels=[0, 2, 0], offsets=[0, 2, 3])
    >>> objective.gradients([1.0, 1.5, 7.0])
    (array([ 2., -1.,  0.]), array([2., 2., 0.]))
    >>> objective.values([1.0, 1.5, 7.0])
    array([1.25, 0.  ])
    >>> del REGISTRY["my-mse"]
    """

    one_list: ClassVar[Callable[..., float]]

    def __post_init__(self) -> None:
        super().__post_init__()
        _signature(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            # 5 and 5.0 are the same loss and the same compiled code.
            if isinstance(field.default, float) and not isinstance(value, float):
                object.__setattr__(self, field.name, real(field.name, value, least=-math.inf))

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        return _ListObjective(self, lists, seed, threads)


class _ListObjective(Objective):
    loss: ListLoss

    def __init__(self, loss: ListLoss, lists: TrainingLists, seed: int, threads: int) -> None:
        # Most losses compare every pair of documents; the others merely get smaller shares.
        super().__init__(loss, lists, seed, threads, lists.sizes.astype(np.float64) ** 2)
        self._tried = False
        self._labels = {
            kind: lists.labels.astype(kind) for kind in (np.dtype(np.float32), np.dtype(np.float64))
        }

    def _results(self, scores: Floats, held: Floats, step: int) -> tuple[Floats, Floats, F64]:
        from numba import typeof

        from tautrank.losses._list_kernel import compiled, try_out

        one_list = type(self.loss).one_list
        names, holds = _signature(type(self.loss))
        parameters = tuple(_in_lane(getattr(self.loss, name), scores.dtype) for name in names)
        kernel = compiled(one_list, scores.dtype, typeof(parameters), holds)  # type: ignore[no-untyped-call]
        labels, offsets = self._labels[scores.dtype], self.lists.offsets
        given = (scores, labels, held if holds else None, offsets, self.lists.weights, parameters)
        if not self._tried:
            try_out(one_list, *given)
            self._tried = True
        try:
            return self._filled_results(kernel, scores.dtype, *given)
        except Exception as error:
            found = f"{one_list.__qualname__} stopped with {type(error).__name__}: {error}"
            raise OptionError(
                f"one_list: {found}; expected code that runs for every list"
            ) from error


def _in_lane(value: Any, kind: np.dtype[Any]) -> Any:
    """Convert a parameter to the kernel's precision: one float64 would turn float32 arithmetic into
    float64.
    """
    if isinstance(value, tuple):
        return tuple(_in_lane(item, kind) for item in value)
    return kind.type(value) if isinstance(value, float) else value


@functools.cache
def _signature(cls: type[ListLoss]) -> tuple[tuple[str, ...], bool]:
    """Return the names of the parameters that ``one_list`` takes, and whether it takes ``held``."""
    function = getattr(cls, "one_list", None)
    expected = f"one_list({', '.join(_LISTS)}, ...)"
    if function is None:
        raise OptionError(f"one_list: {cls.__name__} has none; expected {expected}")
    if not isinstance(inspect.getattr_static(cls, "one_list"), staticmethod):
        raise OptionError(
            f"one_list: {cls.__name__}.one_list is not a static method; expected @staticmethod above it"
        )
    names = tuple(inspect.signature(getattr(function, "py_func", function)).parameters)
    if names[: len(_LISTS)] != _LISTS:
        raise OptionError(
            f"one_list: found {cls.__name__}.one_list({', '.join(names)}); expected {expected}"
        )
    rest = names[len(_LISTS) :]
    holds = rest[:1] == (_HELD,)
    fields = [field.name for field in dataclasses.fields(cls)]
    for name in rest[holds:]:
        if name not in fields:
            found = f"the argument '{name}' of {cls.__name__}.one_list"
            expected = f"parameters of its dataclass ({', '.join(fields)}), or '{_HELD}' directly after 'hess'"
            raise OptionError(f"one_list: found {found}; expected {expected}")
    return rest[holds:], holds
