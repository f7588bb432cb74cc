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
from numba.extending import overload

from tautrank.arrays import F64, I64, Array
from tautrank.errors import OptionError
from tautrank.kernels.ranking import REORDER

_FLOATS = types.Array(types.float64, 1, "C")
_WHOLES = types.Array(types.int64, 1, "C")
_type_of: Any = numba.typeof


def _of_list(held: Any, start: int, stop: int) -> tuple[Any, ...]:
    """What ``one_list`` takes of ``held``: nothing, or the part of the list."""
    return () if held is None else (held[start:stop],)


@overload(_of_list, strict=False)
def _compiled_of_list(held: Any, start: int, stop: int) -> Any:
    if held == types.none:
        return lambda held, start, stop: ()
    return lambda held, start, stop: (held[start:stop],)


@njit(nogil=True, cache=True, error_model="numpy")
def each_list(
    one_list: Any,
    scores: Array,
    labels: Array,
    held: Array | None,
    offsets: I64,
    scale: F64,
    parameters: Any,
    first: int,
    last: int,
    grad: Array,
    hess: Array,
    values: F64,
) -> None:
    """Call ``one_list`` for the queries ``first`` to ``last``.

    Args:
        one_list: as `ListLoss` describes it.
        scores: one per document.
        labels: one per document.
        held: the scores that weights are taken from, one per document; None for a function that does not take them.
        offsets: start of each query.
        scale: the weight of each query; 0 where it has no relevant document.
        parameters: what ``one_list`` takes behind ``hess`` or ``held``.
        first, last: the first query, and one past the last.
        grad: receives the gradient, one per document.
        hess: receives the hessian, one per document.
        values: receives one value per query; filled with 0.
    """
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        g, h = grad[start:stop], hess[start:stop]
        g[:] = 0.0
        h[:] = 0.0
        if scale[query] == 0.0:
            continue
        more = _of_list(held, start, stop) + parameters
        values[query] = scale[query] * one_list(scores[start:stop], labels[start:stop], g, h, *more)
        factor = grad.dtype.type(scale[query])
        for document in range(g.shape[0]):
            g[document] *= factor
            h[document] *= factor


def compiled(
    one_list: Callable[..., Any], kind: np.dtype[Any], parameters: tuple[Any, ...], holds: bool
) -> Callable[..., None]:
    """`each_list` of a function of one list, as a function of what follows it; compiled once a process, or read from
    Numba's cache.

    Args:
        one_list: the function, compiled or not.
        kind: of the scores, ``float32`` or ``float64``.
        parameters: what it takes behind the lists.
        holds: whether it takes ``held``.
    """
    return _compiled(one_list, kind, _type_of(parameters), holds)


@functools.lru_cache(maxsize=256)
def _compiled(one_list: Callable[..., Any], kind: np.dtype[Any], parameters: Any, holds: bool) -> Callable[..., None]:
    lane = from_dtype(kind)
    # Who writes into the scores or the labels would change the next call: that does not compile.
    read = types.Array(lane, 1, "C", readonly=True)
    written = types.Array(lane, 1, "C")
    signature = types.float64(read, read, written, written, *([read] if holds else []), *parameters.types)
    function = _jitted(one_list)
    try:
        function.compile(signature)
    except (NumbaError, UnsupportedBytecodeError) as error:  # the second is none of the first
        raise OptionError(_sentence(one_list, error)) from None
    lists = (read, read, read if holds else types.none, _WHOLES, _FLOATS)
    rest = (parameters, types.int64, types.int64, written, written, _FLOATS)
    # What `compile` returns is called as it is: the dispatcher would take the function for a type of its own, and
    # compile everything around it again in every process.
    return functools.partial(each_list.compile(types.void(types.FunctionType(signature), *lists, *rest)), function)


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
