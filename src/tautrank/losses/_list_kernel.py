"""Turn a function of one list into a kernel over queries.

The function is called through a pointer. The loop over queries is therefore compiled once per kind
of parameters instead of once per loss, both parts stay in Numba's cache (which cannot keep code
that was compiled around another function), and the function is the same machine code wherever it is
called from, so it gives the same bits. Next to the work on a list, a call through a pointer costs
nothing.
"""

from __future__ import annotations

import functools
import hashlib
import re
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

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
# Longer lists are cut before they run uncompiled: comparing every pair of 200 documents takes a
# tenth of a second.
_LONGEST_UNCOMPILED = 200
# A failure on a longer list than this is reported without its line, which would take more than ten
# seconds to find.
_LONGEST_WITH_LINE = 2000
# The longest list and the highest label that each function has been tried on in this process.
_tried: dict[Callable[..., Any], tuple[int, float]] = {}


def _of_list(held: Any, start: int, stop: int) -> tuple[Any, ...]:
    """Return the list's part of ``held`` as a tuple of one argument; an empty tuple without
    ``held``.
    """
    return () if held is None else (held[start:stop],)


@overload(_of_list, strict=False)
def _compiled_of_list(held: Any, start: int, stop: int) -> Any:
    """Return what stands for `_of_list` in compiled code."""
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
    """Call ``one_list`` for the queries ``first`` to ``last``, and weigh what it writes.

    Args:
        one_list: as `ListLoss` describes it.
        scores: one per document.
        labels: one per document.
        held: the scores that weights are computed from, one per document; None if the function does
            not take them.
        offsets: start of each query.
        scale: weight of each query; 0 where it has no relevant document.
        parameters: further arguments of ``one_list``.
        first, last: the first query, and one past the last.
        grad: receives the gradient, one number per document; filled with 0.
        hess: receives the hessian, one number per document; filled with 0.
        values: receives one value per query; filled with 0.
    """
    for query in range(first, last):
        start = offsets[query]
        stop = offsets[query + 1]
        if scale[query] == 0.0:
            continue
        s = scores[start:stop]
        y = labels[start:stop]
        g = grad[start:stop]
        h = hess[start:stop]
        value = one_list(s, y, g, h, *(_of_list(held, start, stop) + parameters))
        values[query] = scale[query] * value
        factor = grad.dtype.type(scale[query])
        for document in range(g.shape[0]):
            g[document] *= factor
            h[document] *= factor


@functools.lru_cache(maxsize=256)
def compiled(
    one_list: Callable[..., Any], kind: np.dtype[Any], parameters: Any, holds: bool
) -> Callable[..., None]:
    """Return `each_list` bound to a function of one list, compiled once per process or read from
    Numba's cache.

    Args:
        one_list: the function, compiled or not.
        kind: type of the scores, ``float32`` or ``float64``.
        parameters: Numba's type of the tuple of arguments after the lists.
        holds: whether the function takes ``held``.
    """
    lane = from_dtype(kind)
    # A function that writes to the scores or the labels would change the next call: it does not
    # compile.
    read_only = types.Array(lane, 1, "C", readonly=True)
    writable = types.Array(lane, 1, "C")
    held = [read_only] if holds else []
    signature = types.float64(read_only, read_only, writable, writable, *held, *parameters.types)
    function = _jitted(one_list)
    try:
        function.compile(signature)
    except (NumbaError, UnsupportedBytecodeError) as error:  # the second is none of the first
        raise OptionError(_sentence(one_list, error)) from None

    lists = (read_only, read_only, read_only if holds else types.none, _WHOLES, _FLOATS)
    queries = (types.int64, types.int64)
    results = (writable, writable, _FLOATS)
    # The result of `compile` is called directly: the dispatcher would treat the function as a type
    # of its own and compile everything around it again in every process.
    over_queries = each_list.compile(
        types.void(types.FunctionType(signature), *lists, parameters, *queries, *results)
    )
    return functools.partial(over_queries, function)


def try_out(one_list: Callable[..., Any], *arguments: Any) -> None:
    """Run a function where an index out of range is an error, before it runs compiled, where it is
    not.

    The function runs uncompiled on the shortest list, the longest, the first and the first with the
    highest label; and if the longest has too many documents for Python, compiled with checks of all
    indices. It is tried again when lists are longer or labels higher than before. Errors other than
    an index out of range are left to the compiled function, which computes some things that Python
    refuses, such as ``1 / 0``.

    Args:
        one_list: the function, compiled or not.
        arguments: the arguments ``scores`` to ``parameters`` of `each_list`.
    """
    lists = _Lists(*arguments)
    queries = np.flatnonzero(lists.scale)
    if queries.size == 0:
        return
    sizes = np.diff(lists.offsets)
    longest = queries[np.argmax(sizes[queries])]
    is_counted = np.repeat(lists.scale != 0, sizes)
    highest = np.argmax(np.where(is_counted, lists.labels, -1.0))
    of_highest = np.searchsorted(lists.offsets, highest, side="right") - 1
    longest_before, highest_before = _tried.get(one_list, (0, -1.0))
    if sizes[longest] <= longest_before and lists.labels[highest] <= highest_before:
        return

    plain = _copy(one_list, {}, lambda function: function)
    shortest = queries[np.argmin(sizes[queries])]
    for query in {shortest, longest, queries[0], of_highest}:
        error = lists.index_error(plain, query, _LONGEST_UNCOMPILED)
        if error is not None:
            n = min(int(sizes[query]), _LONGEST_UNCOMPILED)
            raise OptionError(_out_of_range(plain, error, n))

    n = _LONGEST_UNCOMPILED
    while n < sizes[longest]:
        n = min(2 * n, int(sizes[longest]))
        error = lists.index_error(_checked(one_list), longest, n)
        if error is not None:
            with_line = None
            if n <= _LONGEST_WITH_LINE:
                with_line = lists.index_error(plain, longest, n)
            raise OptionError(_out_of_range(plain, with_line or error, n))
    _tried[one_list] = (
        max(int(sizes[longest]), longest_before),
        max(float(lists.labels[highest]), highest_before),
    )


class _Lists(NamedTuple):
    """The lists that a function is tried on: arguments of `each_list`."""

    scores: Array
    labels: Array
    held: Array | None
    offsets: I64
    scale: F64
    parameters: Any

    def index_error(
        self, function: Callable[..., Any], query: int, n_documents: int
    ) -> IndexError | None:
        """Return the error of a run on the documents of a list with the highest labels."""
        start = self.offsets[query]
        stop = self.offsets[query + 1]
        highest_first = np.argsort(-self.labels[start:stop], kind="stable")
        rows = np.sort((start + highest_first)[:n_documents])
        scores = self.scores[rows]
        held = () if self.held is None else (self.held[rows],)
        results = (np.zeros_like(scores), np.zeros_like(scores))
        try:
            with np.errstate(all="ignore"):
                function(scores, self.labels[rows], *results, *held, *self.parameters)
        except IndexError as error:
            return error
        except Exception:  # the compiled function has the last word
            return None
        return None


def _out_of_range(function: Any, error: IndexError, n_documents: int) -> str:
    """Return the sentence about an index out of range, with the line of the function."""
    frames = traceback.extract_tb(error.__traceback__)
    file = function.__code__.co_filename
    frames_of_function = [frame for frame in frames if frame.filename == file]
    place = function.__qualname__
    if frames_of_function:
        place = f"{frames_of_function[-1].filename}, line {frames_of_function[-1].lineno}"
    return (
        f"one_list: {place}: {error} (a list of {n_documents} documents); "
        "expected indices within the array"
    )


def _copy(function: Any, copies: dict[Any, Any], wrap: Callable[[Any], Any]) -> Any:
    """Return a copy of a function, wrapped instead of compiled, and so are the functions that it
    calls.
    """
    plain = getattr(function, "py_func", function)
    if plain not in copies:
        names = dict(plain.__globals__)
        code = plain.__code__
        copies[plain] = wrap(FunctionType(code, names, None, plain.__defaults__, plain.__closure__))
        for name in code.co_names:
            if isinstance(names.get(name), Dispatcher):
                names[name] = _copy(names[name], copies, wrap)
    return copies[plain]


@functools.lru_cache(maxsize=256)
def _checked(one_list: Callable[..., Any]) -> Any:
    """Return the function compiled so that an index out of range is an error."""
    return _copy(one_list, {}, functools.partial(_jitted, boundscheck=True))


def _jitted(one_list: Callable[..., Any], boundscheck: bool = False) -> Any:
    """Return a function compiled by Numba, kept in its cache if the function is in a file."""
    if isinstance(one_list, Dispatcher):
        return one_list
    function: Any = one_list
    file = Path(function.__code__.co_filename)
    in_file = file.is_file()
    text = uuid.uuid4().bytes
    if in_file:
        text = str(file.resolve()).encode() + file.read_bytes()

    # Numba's cache identifies a function by module and name. One file may be imported under several
    # names, and two classes, or one before and after an edit, may share a name: the copy is in this
    # module and named after its code.
    copy = FunctionType(
        function.__code__, function.__globals__, None, function.__defaults__, function.__closure__
    )
    hash_of_text = hashlib.sha256(text).hexdigest()[:16]
    checked = "_checked" if boundscheck else ""
    copy.__module__ = __name__
    copy.__qualname__ = f"{function.__qualname__}_{hash_of_text}{checked}"
    # Code typed into a session is in no file whose changes the cache could watch.
    return njit(copy, cache=in_file, error_model="numpy", fastmath=REORDER, boundscheck=boundscheck)


def _sentence(one_list: Any, error: Any) -> str:
    """Shorten Numba's explanation to one sentence with the reason and the line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    place_lines = ("Failed in", "File ", "def ", "<source", "During:", "-")
    reasons = [
        line
        for line in lines
        if not line.startswith((*place_lines, "No implementation of function"))
    ]
    reason = re.sub(r"\.? *Raised from .*", "", reasons[0] if reasons else lines[0])

    location = getattr(error, "loc", None)
    line = "" if location is None else f", line {location.line}"
    name = getattr(one_list, "py_func", one_list).__qualname__
    expected = "expected code that Numba can compile and that only reads scores and labels"
    return f"one_list: {name}{line}: Numba says '{reason}'; {expected}"
