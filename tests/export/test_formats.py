"""Numbers and trees as the formats have them."""

from __future__ import annotations

import math

import numpy as np

from tautrank.engines.trees import Tree, greatest_float32
from tautrank.export.formats import float32_text
from tests.export.interpreters import (
    f32,
)


def test_float32_thresholds_mean_the_same_for_every_float32():
    rng = np.random.default_rng(0)
    thresholds = np.concatenate(
        [rng.normal(size=2000) * 10.0 ** rng.integers(-30, 30, 2000), [0, 1e300, -1e300, 1e-50]]
    )
    low = greatest_float32(thresholds)
    assert (low <= thresholds).all()
    with np.errstate(over="ignore"):
        assert (np.nextafter(low, f32(math.inf)) > thresholds).all()


def test_numbers_read_back_as_the_same_bits():
    rng = np.random.default_rng(0)
    for number in (rng.normal(size=500) * 10.0 ** rng.integers(-40, 38, 500)).astype(f32):
        assert f32(float32_text(number)) == number
    assert float32_text(f32("inf")) == "Infinity"


def test_trees_deeper_than_the_stack(tmp_path):
    depth = 20_000
    inner = np.arange(depth)
    right = np.append(inner[1:], ~depth)
    leaves = np.zeros(depth + 1)
    tree = Tree.of(inner * 0, inner * 1.0, inner >= 0, ~inner, right, leaves)
    text = tree.nested_text(lambda _, __: ("(", ",", ")"), lambda _, __: "x")
    assert text == "(x," * depth + "x" + ")" * depth
