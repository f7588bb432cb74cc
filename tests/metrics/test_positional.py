"""What showing or hiding one document is worth to DCG-RR: sums against the metric computed anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautrank.metrics import DCGRR


@pytest.mark.parametrize("k", [None, 1, 2, 4])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(documents=st.lists(st.tuples(st.integers(0, 4), st.floats(-2, 2)), min_size=1, max_size=8))
def test_showing_and_hiding_a_document(k: int | None, documents: list[tuple[int, float]]) -> None:
    labels, scores = (np.array(column, dtype=float) for column in zip(*documents, strict=True))
    n = labels.size
    subject = DCGRR(k=k, gain="exp2")
    values = subject.document_values(labels)
    depth = n if k is None else min(k, n)
    sums = subject.sums(values, scores, depth)
    for i in range(n):
        for place, score in ((0, -1.0), (1, 1.0)):
            placed = scores.copy()
            placed[i] = score
            expected = np.nan_to_num(subject.per_query(placed, labels, [0, n])[0])
            assert subject.moved(values, sums, i, place, depth) == pytest.approx(
                expected, abs=1e-13
            )
