"""Gradients whose sums are exact, so that a tree does not depend on the order in which threads add them.

An engine adds float32 gradients in float64, in an order that depends on the number of threads and on its memory layout,
and so do the last bits of a leaf. Rounded to multiples of ``2^-b max|g|`` with ``n 2^b <= 2^52``, every sum of them is
a whole number of at most 53 bits times that grid: exact, in any order. For a million documents ``b`` is 32, finer than
the 24 bits of a float32.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_EXACT_BITS = 52
# Beyond this a float32 power of two overflows; gradients below 2^-68 are as good as zero.
_LARGEST_SHIFT = 100


def round_to_grid(values: NDArray[np.float32], largest: float, out: NDArray[np.float32]) -> None:
    """Write ``values`` to ``out``, rounded so that any sum of them in float64 is exact.

    Args:
        values: finite numbers.
        largest: largest absolute value among them.
        out: array for the result.

    >>> out = np.empty(3, np.float32)
    >>> round_to_grid(np.array([1.0, 0.1, 2.0**-60], np.float32), 1.0, out)
    >>> out.tolist() == [1.0, float(np.float32(0.1)), 0.0]
    True
    """
    bits = _EXACT_BITS - math.ceil(math.log2(max(2, values.size)))
    exponent = math.frexp(largest)[1]  # largest < 2^exponent
    shift = max(-_LARGEST_SHIFT, min(_LARGEST_SHIFT, bits - exponent))
    np.multiply(values, np.float32(2.0**shift), out=out)
    np.rint(out, out=out)
    np.multiply(out, np.float32(2.0**-shift), out=out)
