"""From a function of one list to a kernel over queries.

The function is called through a pointer. So the loops here are compiled once for a kind of parameters, not once for a
loss; both parts are kept in Numba's cache, which cannot keep what was compiled around another function; and the
function is the same machine code wherever it is called from, hence the same bits. What a call through a pointer costs
is nothing beside a list.
"""

from __future__ import annotations

import functools
import hashlib
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba import from_dtype, njit, types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numpy.typing import NDArray

from tautrank.errors import OptionError
from tautrank.losses._ranking_kernel import REORDER

_FLOATS = types.Array(types.float64, 1, "C")
_WHOLES = types.Array(types.int64, 1, "C")
_type_of: Any = numba.typeof


@njit(nogil=True, cache=True, error_model="numpy")
def each_list(
    one_list: Any,
    scores: NDArray[Any],
    labels: NDArray[Any],
    offsets: NDArray[np.int64],
    scale: NDArray[np.float64],
    parameters: Any,
    first: int,
    last: int,
    grad: NDArray[Any],
    hess: NDArray[Any],
    values: NDArray[np.float64],
) -> None:
    """Call ``one_list`` for the queries ``first`` to ``last``.

    Args:
        one_list: as `ListLoss` describes it.
        scores: one a document.
        labels: one a document.
        offsets: where each query starts.
        scale: the weight of each query; 0 where it has no relevant document.
        parameters: what ``one_list`` takes behind ``hess``.
        first: first query.
        last: one past the last query.
        grad: receives the gradient, one a document.
        hess: receives the hessian, one a document.
        values: receives one value a query.
    """
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        g = grad[start:stop]
        h = hess[start:stop]
        g[:] = 0.0
        h[:] = 0.0
        values[query] = 0.0
        if scale[query] != 0.0:
            value = one_list(scores[start:stop], labels[start:stop], g, h, *parameters)
            values[query] = scale[query] * value
            _scale(g, h, scale[query])


@njit(nogil=True, cache=True, error_model="numpy")
def each_list_held(
    one_list: Any,
    scores: NDArray[Any],
    labels: NDArray[Any],
    held: NDArray[Any],
    offsets: NDArray[np.int64],
    scale: NDArray[np.float64],
    parameters: Any,
    first: int,
    last: int,
    grad: NDArray[Any],
    hess: NDArray[Any],
    values: NDArray[np.float64],
) -> None:
    """`each_list` for a function that takes weights from other scores than those it is differentiated by.

    Args:
        one_list: as in `each_list`; it takes ``held`` behind ``hess``.
        scores: one a document.
        labels: one a document.
        held: the scores that weights are taken from, one a document.
        offsets: where each query starts.
        scale: as in `each_list`.
        parameters: what ``one_list`` takes behind ``held``.
        first: first query.
        last: one past the last query.
        grad: receives the gradient, one a document.
        hess: receives the hessian, one a document.
        values: receives one value a query.
    """
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        g = grad[start:stop]
        h = hess[start:stop]
        g[:] = 0.0
        h[:] = 0.0
        values[query] = 0.0
        if scale[query] != 0.0:
            value = one_list(scores[start:stop], labels[start:stop], g, h, held[start:stop], *parameters)
            values[query] = scale[query] * value
            _scale(g, h, scale[query])


@njit(error_model="numpy", inline="always")
def _scale(grad: NDArray[Any], hess: NDArray[Any], by: float) -> None:
    factor = grad.dtype.type(by)
    for document in range(grad.shape[0]):
        grad[document] *= factor
        hess[document] *= factor


class Compiled:
    """A function of one list made ready for one kind of scores and parameters.

    Args:
        one_list: the function, compiled or not.
        kind: of the scores, ``float32`` or ``float64``.
        parameters: Numba's type of the tuple of what it takes behind the lists.
        holds: whether it takes ``held``.
    """

    def __init__(self, one_list: Callable[..., Any], kind: np.dtype[Any], parameters: Any, holds: bool) -> None:
        lane = from_dtype(kind)
        # Who writes into the scores or the labels would change the next call: that does not compile.
        read = types.Array(lane, 1, "C", readonly=True)
        written = types.Array(lane, 1, "C")
        more = (read,) if holds else ()
        signature = types.float64(read, read, written, written, *more, *parameters.types)
        self._one_list = _jitted(one_list)
        try:
            self._one_list.compile(signature)
        except (NumbaError, UnsupportedBytecodeError) as error:  # the second is none of the first
            raise OptionError(_sentence(one_list, error)) from None
        kernel = each_list_held if holds else each_list
        lists = (read, read, *more, _WHOLES, _FLOATS)
        rest = (parameters, types.int64, types.int64, written, written, _FLOATS)
        # What `compile` returns is called as it is: the dispatcher would take the function for a type of its own, and
        # compile everything around it again in every process.
        self._kernel = kernel.compile(types.void(types.FunctionType(signature), *lists, *rest))

    def __call__(self, *arguments: Any) -> None:
        """Run the kernel; arguments as those of `each_list` behind the function."""
        self._kernel(self._one_list, *arguments)


@functools.lru_cache(maxsize=256)
def _compiled(one_list: Callable[..., Any], kind: np.dtype[Any], parameters: Any, holds: bool) -> Compiled:
    return Compiled(one_list, kind, parameters, holds)


def compiled(one_list: Callable[..., Any], kind: np.dtype[Any], parameters: tuple[Any, ...], holds: bool) -> Compiled:
    """The kernel of a function of one list; compiled once a process, or read from Numba's cache.

    Args:
        one_list: the function.
        kind: of the scores.
        parameters: what it takes behind the lists.
        holds: whether it takes ``held``.
    """
    return _compiled(one_list, kind, _type_of(parameters), holds)


def _jitted(one_list: Callable[..., Any]) -> Any:
    if isinstance(one_list, Dispatcher):
        return one_list
    function: Any = one_list
    file = Path(function.__code__.co_filename)
    in_file = file.is_file()
    text = str(file.resolve()).encode() + file.read_bytes() if in_file else uuid.uuid4().bytes
    # What Numba keeps remembers its module and a name. One file may be imported under several names, and two classes,
    # or one before and after an edit, may have the same: the copy is a function of this module, named after its code.
    copy = FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
    copy.__module__ = __name__
    copy.__qualname__ = f"{function.__qualname__}_{hashlib.sha256(text).hexdigest()[:16]}"
    # What was typed into a session is in no file whose change the cache could watch.
    return njit(copy, cache=in_file, error_model="numpy", fastmath=REORDER)


def _sentence(one_list: Any, error: Any) -> str:
    """Numba's page of reasons, cut down to the reason and the line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith(("Failed in", "File ", "def ", "<source", "During:", "-"))]
    reason = next((line for line in reasons if not line.startswith("No implementation of function")), "")
    where = f", line {error.loc.line}" if getattr(error, "loc", None) is not None else ""
    name = getattr(one_list, "py_func", one_list).__qualname__
    reason = re.sub(r"\.? *Raised from .*", "", reason or lines[0])
    return (
        f"one_list: {name}{where}: Numba says '{reason}'; expected code that Numba can "
        "compile and that only reads scores and labels"
    )
