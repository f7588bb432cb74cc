"""The one place where labels, scores, offsets and weights are checked: each sentence names the argument and the spot.

The NaN policy of the library's metrics stands here too: a score may be ``-inf`` (the document was not
retrieved) but never NaN or ``+inf``; a NaN in a result means one thing, that the query was skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.errors import DataError

# Integers up to here are exact in a float64.
_LARGEST_EXACT_INTEGER = 2**53


def check_lists(labels: ArrayLike, offsets: ArrayLike) -> tuple[NDArray[np.number], NDArray[np.int64]]:
    """Return labels and offsets as arrays that describe lists of documents, or say what is wrong.

    Args:
        labels: one non-negative finite number a document.
        offsets: ``n_queries + 1`` integers; query ``q`` owns the documents ``offsets[q]:offsets[q + 1]``.

    >>> check_lists([0, 1, 2], [0, 2, 3])
    (array([0, 1, 2]), array([0, 2, 3]))
    >>> check_lists([0, 1, 2], [2, 1])
    Traceback (most recent call last):
    tautrank.errors.DataError: offsets: found 2 first; expected 0 (these look like the sizes of the lists:
    offsets are their running sum, from 0)
    """
    y = check_labels(labels)
    return y, check_offsets(offsets, y.size)


def check_labels(labels: ArrayLike) -> NDArray[np.number]:
    """Return ``labels`` as a flat numeric array, or name the first one that is not a label.

    Args:
        labels: one non-negative finite number a document.

    >>> check_labels([0, 2, -1])
    Traceback (most recent call last):
    tautrank.errors.DataError: labels[2]: found -1; expected a finite number, 0 or above
    """
    y = _flat("labels", labels, "one label a document")
    if y.size == 0:
        return np.zeros(0)
    _check_numbers("labels", y)
    if y.dtype == np.bool_:
        return y.astype(np.int64)
    _check_not_negative("labels", y)
    return y


def check_offsets(offsets: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return ``offsets`` as int64, or say why they do not cut ``n`` documents into lists.

    Args:
        offsets: integers from 0 to ``n`` that never fall.
        n: how many documents there are.

    >>> check_offsets([0, 2, 5], 4)
    Traceback (most recent call last):
    tautrank.errors.DataError: offsets: found 5 last; expected 4, the number of documents
    """
    cuts = _flat("offsets", offsets, "one integer a query and one more")
    if cuts.size == 0:
        raise DataError("offsets: found no value; expected 0, then the end of every list")
    if cuts.dtype.kind not in "iu":
        raise DataError(f"offsets: found values of type {cuts.dtype}; expected integers")
    cuts = cuts.astype(np.int64, copy=False)
    if cuts[0] != 0:
        sizes = bool((cuts >= 0).all()) and int(cuts.sum()) == n
        hint = " (these look like the sizes of the lists: offsets are their running sum, from 0)" if sizes else ""
        raise DataError(f"offsets: found {cuts[0]} first; expected 0{hint}")
    falls = cuts[1:] < cuts[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        raise DataError(f"offsets[{at + 1}]: found {cuts[at + 1]} after {cuts[at]}; expected values that never fall")
    if cuts[-1] != n:
        raise DataError(f"offsets: found {cuts[-1]} last; expected {n}, the number of documents")
    return cuts


def check_scores(scores: ArrayLike, offsets: NDArray[np.int64]) -> NDArray[np.floating]:
    """Return ``scores`` as float32 or float64 whose order and sign are those given, or say what is wrong.

    Args:
        scores: one number a document; ``-inf`` marks a document that was not retrieved.
        offsets: checked offsets of the lists.

    >>> check_scores([1, 3, 2], np.array([0, 3]))
    array([1., 3., 2.])
    >>> check_scores([1, float("nan"), 2], np.array([0, 1, 3]))
    Traceback (most recent call last):
    tautrank.errors.DataError: scores[1], in query 1 counted from 0: found nan; expected a finite number,
    or -inf for a document not retrieved
    """
    s = _flat("scores", scores, "one score a document")
    n = int(offsets[-1])
    if s.size != n:
        raise DataError(f"scores: {s.size} values, but labels has {n}; expected one score a document")
    if s.size == 0:
        return np.zeros(0)
    _check_numbers("scores", s)
    if s.dtype.kind != "f":
        return _as_floats(s)
    if s.dtype != np.float32:
        s = s.astype(np.float32 if s.dtype == np.float16 else np.float64, copy=False)
    # One reduction covers both: NaN makes the comparison false.
    if not s.max() < np.inf:
        at = int(np.argmax(~(s < np.inf)))
        query = int(np.searchsorted(offsets, at, side="right")) - 1
        raise DataError(
            f"scores[{at}], in query {query} counted from 0: found {float(s[at]):g}; "
            "expected a finite number, or -inf for a document not retrieved"
        )
    return s


def check_weights(weights: ArrayLike, n_queries: int) -> NDArray[np.float64]:
    """Return ``weights`` as float64, one a query, or say what is wrong.

    Args:
        weights: one non-negative finite number a query.
        n_queries: how many queries there are.

    >>> check_weights([1, 2], 3)
    Traceback (most recent call last):
    tautrank.errors.DataError: weights: 2 values, but there are 3 queries; expected one weight a query
    """
    w = _flat("weights", weights, "one weight a query")
    if w.size != n_queries:
        raise DataError(f"weights: {w.size} values, but there are {n_queries} queries; expected one weight a query")
    if w.size == 0:
        return np.zeros(0)
    _check_numbers("weights", w)
    w = w.astype(np.float64, copy=False)
    _check_not_negative("weights", w)
    return w


def _flat(name: str, values: ArrayLike, expected: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError(f"{name}: found lists of different lengths; expected {expected} (1-D)") from None
    if array.ndim != 1:
        raise DataError(f"{name}: found an array of shape {array.shape}; expected {expected} (1-D)")
    return array


def _check_numbers(name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind not in "iufb":
        raise DataError(f"{name}: found values of type {array.dtype}; expected numbers")


def _check_not_negative(name: str, array: NDArray[Any]) -> None:
    # Two reductions instead of a mask: NaN makes the comparison false, so every bad value is caught.
    if not (array.min() >= 0 and array.max() < np.inf):
        at = int(np.argmax(~((array >= 0) & (array < np.inf))))
        raise DataError(f"{name}[{at}]: found {float(array[at]):g}; expected a finite number, 0 or above")


def _as_floats(s: NDArray[Any]) -> NDArray[np.float64]:
    if s.dtype.kind != "b" and max(abs(int(s.min())), abs(int(s.max()))) > _LARGEST_EXACT_INTEGER:
        # float64 would tie integers that differ, so their order stands in for them, 0 staying where it was.
        distinct, codes = np.unique(s, return_inverse=True)
        return np.asarray(codes - np.count_nonzero(distinct <= 0) + 1, dtype=np.float64)
    return s.astype(np.float64)
