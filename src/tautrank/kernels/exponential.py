"""The exponential function in vector lanes, for float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

_LOG2_E = math.log2(math.e)
# Adding it rounds a number to a whole one and leaves that in the low bits; then they are moved to
# the exponent.
_ROUND = 1.5 * 2.0**52
_EXPONENT = np.int64(52)
# Beyond 2 to this power, float32 numbers are infinite, or 0.
_MOST = 200.0


def exponential(x: Any) -> Any:
    """Return ``exp(x)``: of a float32 number, in a loop that vectorises, and to half a unit in the
    last place.

    ``exp(x) = 2^(n + f)`` with a minimax polynomial of ``2^f``, in float64, whose relative error is
    4e-11: about one result in a thousand is the neighbour of the nearest float32 number. For
    float64 it is the C library's function.

    >>> float(exponential(np.float32(0.0)))
    1.0
    """
    return np.exp(x)


@njit(error_model="numpy", fastmath={"contract"}, forceinline=True)
def _single(x: Any) -> Any:
    t = min(max(np.float64(x) * _LOG2_E, -_MOST), _MOST)
    rounded = t + _ROUND
    f = t - (rounded - _ROUND)
    p = 0.0096180272539097 + f * (
        0.0013333922529804455 + f * (0.00015469291101901966 + f * 1.520193021018367e-05)
    )
    p = 0.9999999999616828 + f * (
        0.6931471807284377 + f * (0.2402265119815426 + f * (0.055504103534825794 + f * p))
    )
    power = np.int64(np.float64(rounded).view(np.int64) << _EXPONENT)
    return np.float32(np.int64(np.float64(p).view(np.int64) + power).view(np.float64))


@overload(exponential, strict=False, jit_options={"forceinline": True})
def _compiled_exponential(x: Any) -> Any:
    return (lambda x: _single(x)) if x == types.float32 else (lambda x: math.exp(x))
