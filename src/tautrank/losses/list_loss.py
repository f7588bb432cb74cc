"""`ListLoss`: add a loss of your own by writing a function of one list."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tautrank.arguments import real
from tautrank.arrays import F64, Floats
from tautrank.errors import OptionError
from tautrank.losses.base import Loss, Objective, TrainingLists

# The arguments that every `one_list` begins with.
_ARRAYS = ("scores", "labels", "grad", "hess")
_HELD = "held"
_PRECISIONS = (np.float32, np.float64)


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
        # Raises an error if the user's function `one_list` has other parameters than the loss.
        _parameters_of_one_list(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            should_be_float = isinstance(field.default, float)
            # 5 and 5.0 are the same loss and the same compiled code.
            if should_be_float and not isinstance(value, float):
                number = real(field.name, value, least=-math.inf)
                # The dataclass is frozen: an ordinary assignment would be an error.
                object.__setattr__(self, field.name, number)

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        """Return the objective of checked lists."""
        return _ListObjective(self, lists, seed, threads)


class _ListObjective(Objective):
    """A loss written as a function of one list, bound to lists."""

    loss: ListLoss

    def __init__(self, loss: ListLoss, lists: TrainingLists, seed: int, threads: int) -> None:
        # Most losses compare every pair of documents; the others merely get smaller shares.
        costs = lists.sizes.astype(np.float64) ** 2
        super().__init__(loss, lists, seed, threads, costs)
        # The user's function is tried out before its compiled code runs for the first time.
        self._was_tried = False
        # The labels in each float type that scores can have.
        self._labels = {np.dtype(kind): lists.labels.astype(kind) for kind in _PRECISIONS}

    def _results(self, scores: Floats, held: Floats, step: int) -> tuple[Floats, Floats, F64]:
        """Run the user's function, compiled, over all lists; return gradient and hessian (one
        number each per document) and the value of each list.

        Before the compiled code runs for the first time, the function is tried out on a few lists
        without compilation.

        Args:
            scores: scores at which the loss is taken; parameters are converted to their type.
            held: scores for weights that are not differentiated.
            step: not used.
        """
        from numba import typeof

        from tautrank.losses._list_kernel import compiled, try_out

        dtype = scores.dtype
        one_list = type(self.loss).one_list
        signature = _parameters_of_one_list(type(self.loss))
        parameters = []
        for name in signature.names:
            parameters.append(_convert_floats(getattr(self.loss, name), dtype))
        arguments = (
            scores,
            self._labels[dtype],
            held if signature.takes_held else None,
            self.lists.offsets,
            self.lists.weights,
            tuple(parameters),
        )
        parameter_type = typeof(tuple(parameters))  # type: ignore[no-untyped-call]
        kernel = compiled(one_list, dtype, parameter_type, signature.takes_held)
        if not self._was_tried:
            try_out(one_list, *arguments)
            self._was_tried = True
        try:
            return self._filled_results(kernel, dtype, *arguments)
        except Exception as error:
            raise OptionError(
                f"one_list: {one_list.__qualname__} stopped with {type(error).__name__}: {error};"
                " expected code that runs for every list"
            ) from error


def _convert_floats(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a float parameter, or the floats of a tuple, to a float type: a single float64 would
    turn float32 arithmetic into float64.
    """
    if isinstance(value, tuple):
        return tuple(_convert_floats(item, dtype) for item in value)
    if isinstance(value, float):
        return dtype.type(value)
    return value


class _Parameters(NamedTuple):
    """What ``one_list`` takes after its arrays.

    names: fields of the dataclass.
    takes_held: whether ``held`` comes before them.
    """

    names: tuple[str, ...]
    takes_held: bool


@functools.cache
def _parameters_of_one_list(cls: type[ListLoss]) -> _Parameters:
    """Return the parameters that a user's function ``one_list(scores, labels, grad, hess, ...)``
    takes after its arrays; raise an error about a function of another form.

    Args:
        cls: the user's loss class, a dataclass whose fields are the possible parameters.
    """
    function = getattr(cls, "one_list", None)
    expected = f"one_list({', '.join(_ARRAYS)}, ...)"
    if function is None:
        raise OptionError(f"one_list: {cls.__name__} has none; expected {expected}")
    if not isinstance(inspect.getattr_static(cls, "one_list"), staticmethod):
        raise OptionError(
            f"one_list: {cls.__name__}.one_list is not a static method; expected @staticmethod"
            " above it"
        )
    # A function that Numba compiled has the Python one inside.
    python_function = getattr(function, "py_func", function)
    arguments = tuple(inspect.signature(python_function).parameters)
    if arguments[: len(_ARRAYS)] != _ARRAYS:
        raise OptionError(
            f"one_list: found {cls.__name__}.one_list({', '.join(arguments)}); expected {expected}"
        )

    names = arguments[len(_ARRAYS) :]
    takes_held = names[:1] == (_HELD,)
    if takes_held:
        names = names[1:]
    fields = [field.name for field in dataclasses.fields(cls)]
    for name in names:
        if name not in fields:
            raise OptionError(
                f"one_list: found the argument '{name}' of {cls.__name__}.one_list; expected"
                f" parameters of its dataclass ({', '.join(fields)}), or '{_HELD}' directly after"
                " 'hess'"
            )
    return _Parameters(names, takes_held)
