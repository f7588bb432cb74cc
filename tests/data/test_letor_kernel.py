"""The kernel that parses LETOR text, on what its fast paths do not take."""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.data.feature_store import FeatureStore

pytestmark = pytest.mark.uncompiled

HARD = (
    "0.1234567890123456789012",
    "123456789012345678901234567890",
    "1e-310",
    "+.5",
    "-7.",
    "9007199254740993",
    "0e999",
)


@pytest.mark.filterwarnings("ignore:.*values of more than nine digits")
def test_numbers_that_are_hard_to_read_are_the_nearest_float32(tmp_path):
    file = tmp_path / "hard.txt"
    file.write_text(
        " ".join(["1 qid:1", *(f"{i}:{text}" for i, text in enumerate(HARD, 1)), "99:NaN # end"])
        + "\n"
    )
    X = tr.read_letor(file, allow_nan=True).X
    assert X[0, : len(HARD)].tolist() == [np.float32(float(text)) for text in HARD]
    assert np.isnan(X[0, 98])


@pytest.mark.parametrize(("old", "new"), [(2, 2), (2, 3), (2, 5), (0, 2)])
def test_rows_are_widened_in_place(old, new):
    store, rows = FeatureStore(False), np.arange(1.0, 1 + 3 * old, dtype=np.float32).reshape(3, old)
    store.append(np.arange(4) * old, np.tile(np.arange(old, dtype=np.int32), 3), rows.ravel(), old)
    store.append(np.array([0, 1]), np.array([new - 1], np.int32), np.ones(1, np.float32), new)
    assert np.array_equal(
        store.finished(), np.vstack([np.pad(rows, ((0, 0), (0, new - old))), np.eye(new)[-1]])
    )
