"""The exponential function in lanes: at most one unit in the last place from the exact value,
compiled and plain.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from tautrank.kernels.exponential import _single, exponential


@njit
def compiled(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(x.size):
        out[i] = exponential(x[i])


X = np.concatenate([np.linspace(-87, 88, 2001), [0.0, -0.0, 1e-30]]).astype(np.float32)


def within_one_unit(found: np.ndarray) -> bool:
    exact = np.exp(X.astype(np.float64)).astype(np.float32)
    return bool((np.abs(found.view(np.int32).astype(np.int64) - exact.view(np.int32)) <= 1).all())


@pytest.mark.uncompiled
def test_float32_is_within_one_unit_in_the_last_place():
    found = np.array([_single(each) for each in X], np.float32)
    assert within_one_unit(found)
    assert found[-3:].tolist() == [1.0, 1.0, 1.0]


def test_compiled_float32_is_within_one_unit_in_the_last_place():
    found = np.empty_like(X)
    compiled(X, found)
    assert within_one_unit(found)


def test_float64_is_the_function_of_the_c_library():
    x = np.linspace(-700, 700, 101)
    found = np.empty_like(x)
    compiled(x, found)
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-15)
