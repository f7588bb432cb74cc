"""Check flat arrays (labels, scores, offsets, weights): each error names the argument, the place
and what was expected.

A score may be ``-inf`` for a metric (the document was not retrieved), but never NaN or ``+inf``;
losses take finite scores only. A NaN in a metric's result means one thing: the query was skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.errors import DataError

F32: TypeAlias = NDArray[np.float32]
F64: TypeAlias = NDArray[np.float64]
I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.floating]
Numbers: TypeAlias = NDArray[np.number]
Array: TypeAlias = NDArray[Any]

FINITE_OR_MISSING = "a finite number, or -inf for a document not retrieved"
"""What the scores of a metric have to be, for errors."""

_NOT_NEGATIVE = "a finite number of at least 0"
# Integers up to here are exact in a float64.
_LARGEST_EXACT_INTEGER = 2**53
# NumPy's letters for the types of truth values, integers, unsigned integers and floats.
_KINDS_OF_NUMBERS = "biuf"


def dense(X: Any) -> Array:
    """Return a matrix as a dense array; a sparse one has zeros where nothing is stored.

    >>> from scipy.sparse import csr_matrix
    >>> dense(csr_matrix([[0, 2]])).tolist()
    [[0, 2]]
    """
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)


def check_labels(labels: ArrayLike, offsets: I64 | None = None) -> Numbers:
    """Return labels as a flat array of numbers.

    Args:
        labels: one finite number of at least 0 per document.
        offsets: checked offsets of the lists, where the error can name a query.

    >>> check_labels([0, 2, -1])
    Traceback (most recent call last):
    tautrank.errors.DataError: labels[2]: found -1; expected a finite number of at least 0
    """
    numbers = flat_numbers("labels", labels)
    if numbers.dtype == np.bool_:
        return numbers.astype(np.int64)
    _check_from("labels", numbers, 0, _NOT_NEGATIVE, offsets)
    return numbers


def check_offsets(offsets: ArrayLike, n: int) -> I64:
    """Return offsets, which say where each query's documents begin, as int64; raise a `DataError`
    about offsets that cannot be.

    Args:
        offsets: integers from 0 to ``n`` that never fall.
        n: number of documents.

    >>> check_offsets([0, 2, 5], 4)
    Traceback (most recent call last):
    tautrank.errors.DataError: offsets: found 5 last; expected 4, the number of documents
    >>> check_offsets([2, 1], 3)
    Traceback (most recent call last):
    tautrank.errors.DataError: offsets: found 2 first; expected 0 (these look like the sizes of the
    lists: offsets are their running sum, from 0)
    """
    checked = _flat("offsets", offsets, "one integer per query and one more")
    if checked.size == 0:
        raise DataError("offsets: found no value; expected 0, then the end of every list")
    is_integer = checked.dtype.kind in "iu"
    if not is_integer:
        raise DataError(f"offsets: found values of type {checked.dtype}; expected integers")

    checked = np.ascontiguousarray(checked, np.int64)
    if checked[0] != 0:
        hint = ""
        look_like_sizes = (checked >= 0).all() and int(checked.sum()) == n
        if look_like_sizes:
            hint = (
                " (these look like the sizes of the lists: offsets are their running sum, from 0)"
            )
        raise DataError(f"offsets: found {checked[0]} first; expected 0{hint}")

    falls = checked[1:] < checked[:-1]
    if falls.any():
        index = int(np.argmax(falls))
        raise DataError(
            f"offsets[{index + 1}]: found {checked[index + 1]} after {checked[index]}; "
            "expected values that never fall"
        )
    if checked[-1] != n:
        raise DataError(f"offsets: found {checked[-1]} last; expected {n}, the number of documents")
    return checked


def check_scores(scores: ArrayLike, offsets: I64, adjacent: bool = True) -> Floats:
    """Return the scores of a metric as float32 or float64 in the same order and with the same
    signs.

    Args:
        scores: one number per document; ``-inf`` marks a document that was not retrieved.
        offsets: checked offsets of the lists.
        adjacent: whether the scores are in the order of the lists, so that an error can name the
            query.

    >>> check_scores([1, 3, 2], np.array([0, 3]))
    array([1., 3., 2.])
    >>> check_scores([1, float("nan"), 2], np.array([0, 1, 3]))
    Traceback (most recent call last):
    tautrank.errors.DataError: scores[1] (query 1, document 0): found nan; expected a finite number,
    or -inf for a document not retrieved
    """
    numbers = flat_numbers("scores", scores, size=int(offsets[-1]))
    # Integers and truth values: not floating-point numbers.
    if numbers.dtype.kind != "f":
        return _as_floats(numbers)
    if numbers.dtype == np.float16:
        numbers = numbers.astype(np.float32)
    # Other widths become float64; without a copy where they are float64 already.
    elif numbers.dtype != np.float32:
        numbers = numbers.astype(np.float64, copy=False)
    # `offsets` says where each query's documents begin; None: the error has the index alone.
    named_queries = offsets if adjacent else None
    _check_from("scores", numbers, -np.inf, FINITE_OR_MISSING, named_queries)
    return numbers


def check_finite_scores(scores: ArrayLike, offsets: I64) -> Floats:
    """Return the scores of a loss: float32 as it is, anything else as float64.

    Args:
        scores: one finite number per document.
        offsets: checked offsets of the lists.

    >>> check_finite_scores([0.0, float("nan")], np.array([0, 2]))
    Traceback (most recent call last):
    tautrank.errors.DataError: scores[1] (query 0, document 1): found nan; expected a finite number
    """
    numbers = flat_numbers("scores", scores, size=int(offsets[-1]))
    # The kernels are compiled for these two types.
    kind = np.float32 if numbers.dtype == np.float32 else np.float64
    numbers = np.ascontiguousarray(numbers, kind)
    # The most negative finite number, so that -inf is refused.
    smallest = float(np.finfo(numbers.dtype).min)
    _check_from("scores", numbers, smallest, "a finite number", offsets)
    return numbers


def check_weights(weights: ArrayLike, n_queries: int, name: str = "weights") -> F64:
    """Return weights as float64.

    Args:
        weights: one finite number of at least 0 per query.
        n_queries: number of queries.
        name: the argument's name.

    >>> check_weights([1, 2], 3)
    Traceback (most recent call last):
    tautrank.errors.DataError: weights: found length 2; expected 3, one per query
    """
    checked = numbers(name, weights, "query", n_queries)
    _check_from(name, checked, 0, _NOT_NEGATIVE)
    return checked


def check_flags(name: str, values: ArrayLike, size: int) -> Bools:
    """Return values that are true or false, one per document.

    Args:
        name: the argument's name.
        values: the argument.
        size: number of documents.

    >>> check_flags("judged", [1, 0], 2)
    Traceback (most recent call last):
    tautrank.errors.DataError: judged: found values of type int64; expected true or false, one per
    document
    """
    flags = flat_numbers(name, values, size=size)
    if flags.size and flags.dtype != np.bool_:
        raise DataError(
            f"{name}: found values of type {flags.dtype}; expected true or false, one per document"
        )
    return flags.astype(np.bool_)


def numbers(name: str, values: ArrayLike, each: str = "document", size: int | None = None) -> F64:
    """Return values as a contiguous flat float64 array.

    Args:
        name: the argument's name.
        values: the argument.
        each: what has one number: "document", "query".
        size: how many there should be; None for any number.

    >>> numbers("weights", ["one", "two"], "query")
    Traceback (most recent call last):
    tautrank.errors.DataError: weights: found values of type <U3; expected numbers, one per query
    """
    return np.ascontiguousarray(flat_numbers(name, values, each, size), np.float64)


def flat_numbers(
    name: str, values: ArrayLike, each: str = "document", size: int | None = None
) -> Array:
    """Return values as a one-dimensional array that keeps their type of numbers; raise a
    `DataError` about other types, other shapes and a wrong number of values.

    Args:
        name: the argument's name, for the error.
        values: the argument.
        each: what has one number: "document", "query".
        size: how many values there should be; None for any number.

    >>> flat_numbers("scores", [1, 2], size=3)
    Traceback (most recent call last):
    tautrank.errors.DataError: scores: found length 2; expected 3, one per document
    """
    array = _flat(name, values, f"one number per {each}")
    if array.size == 0:
        # An empty list has no type of its own.
        array = np.zeros(0)
    if array.dtype.kind not in _KINDS_OF_NUMBERS:
        raise DataError(
            f"{name}: found values of type {array.dtype}; expected numbers, one per {each}"
        )
    if size is not None and array.size != size:
        raise DataError(f"{name}: found length {array.size}; expected {size}, one per {each}")
    return array


def check_each(
    name: str, values: Array, good: Bools, expected: str, offsets: I64 | None = None
) -> None:
    """Raise an error about the first value that is not good.

    Args:
        name: the argument's name.
        values: the argument.
        good: whether each value can be used.
        expected: what a good value is.
        offsets: checked offsets of the lists, where the values belong to documents of queries.

    >>> values, good = np.array([0.5, 2.0]), np.array([True, False])
    >>> check_each("p_values", values, good, "a number from 0 to 1")
    Traceback (most recent call last):
    tautrank.errors.DataError: p_values[1]: found 2; expected a number from 0 to 1
    """
    if not good.all():
        # False is less than True: the first value that is not good.
        index = int(np.argmin(good))
        raise DataError(
            f"{spot(name, index, offsets)}: found {float(values[index]):g}; expected {expected}"
        )


def spot(name: str, index: int, offsets: I64 | None = None) -> str:
    """Write where a value stands: its index, and its query and document where there are queries.

    >>> spot("labels", 3), spot("labels", 3, np.array([0, 2, 2, 5]))
    ('labels[3]', 'labels[3] (query 2, document 1)')
    """
    if offsets is None:
        return f"{name}[{index}]"
    # The number of the query, and that of the document within it, both from 0.
    query, document = query_and_document(offsets, index)
    return f"{name}[{index}] (query {query}, document {document})"


def query_and_document(offsets: I64, index: int) -> tuple[int, int]:
    """Return the query that holds the document at an index of the flat arrays, and the document's
    index inside the query.

    >>> query_and_document(np.array([0, 2, 2, 5]), 3)
    (2, 1)
    """
    query = int(np.searchsorted(offsets, index, side="right")) - 1
    return query, index - int(offsets[query])


def query_of(offsets: I64) -> I64:
    """Return the number of the query of each document.

    >>> query_of(np.array([0, 2, 2, 5]))
    array([0, 0, 2, 2, 2])
    """
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))


def ranks_in(offsets: I64) -> I64:
    """Number the documents of each query from 1.

    >>> ranks_in(np.array([0, 2, 2, 3]))
    array([1, 2, 1])
    """
    rows_before = np.repeat(offsets[:-1], np.diff(offsets))
    return np.arange(1, offsets[-1] + 1) - rows_before


@contextmanager
def naming_queries(offsets: I64) -> Iterator[None]:
    """Add query and document to errors about ``labels[i]`` that the block raises.

    >>> with naming_queries(np.array([0, 2, 3])):
    ...     check_labels([0, 1, -1])
    Traceback (most recent call last):
    tautrank.errors.DataError: labels[2] (query 1, document 0): found -1; expected a finite number
    of at least 0
    """
    try:
        yield
    except DataError as error:
        # Such as "labels[2]: found -1; ...": the index, and the rest of the error.
        match = re.fullmatch(r"labels\[(\d+)\](: .*)", str(error), re.DOTALL)
        if match is None:
            raise
        index, problem = int(match[1]), match[2]
        label_with_query = spot("labels", index, offsets)
        raise DataError(f"{label_with_query}{problem}") from None


def _flat(name: str, values: ArrayLike, expected: str) -> Array:
    """Return an argument as an array of one dimension."""
    try:
        # Lists of different lengths make no array.
        array = np.asarray(values)
    except ValueError:
        raise DataError(
            f"{name}: found lists of different lengths; expected {expected} (1-D)"
        ) from None
    if array.ndim != 1:
        raise DataError(f"{name}: found an array of shape {array.shape}; expected {expected} (1-D)")
    return array


def _check_from(
    name: str, array: Array, least: float, expected: str, offsets: I64 | None = None
) -> None:
    """Raise a `DataError` about the first number that is less than ``least``, infinite or NaN.

    Args:
        name: the argument's name, for the error.
        array: the numbers.
        least: the smallest number allowed.
        expected: what the numbers should be, for the error.
        offsets: checked offsets of the lists, where the error can name a query.
    """
    if array.size == 0:
        return
    # The smallest and the largest number are faster to find than a mask. With a NaN in the array
    # both are NaN, and the comparisons are false.
    are_all_good = array.min() >= least and array.max() < np.inf
    if not are_all_good:
        is_good = (array >= least) & (array < np.inf)
        check_each(name, array, is_good, expected, offsets)


def _as_floats(scores: Array) -> F64:
    """Return scores that are integers or truth values as float64 with the same order and ties."""
    if scores.size == 0 or scores.dtype.kind == "b":
        return scores.astype(np.float64)
    # As Python's integers: the absolute value of the smallest int64 does not fit an int64.
    largest_size = max(abs(int(scores.min())), abs(int(scores.max())))
    if largest_size <= _LARGEST_EXACT_INTEGER:
        return scores.astype(np.float64)

    # float64 would round larger integers and so tie scores that differ. Their ranks stand in for
    # them, shifted so that 0 and below stay at 0 and below.
    distinct_scores, ranks = np.unique(scores, return_inverse=True)
    n_not_positive = np.count_nonzero(distinct_scores <= 0)
    # Ranks count from 0: the smallest positive score gets 1, the one below it 0.
    return np.asarray(ranks - n_not_positive + 1, dtype=np.float64)
