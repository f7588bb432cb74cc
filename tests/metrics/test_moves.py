"""What moving one document of a list is worth: sums against the metric computed anew, for every document and place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautrank.errors import DataError, OptionError
from tautrank.losses.scale_free import SelectionMoves
from tautrank.metrics import DCGRR, Moves, metric

METRICS = [
    "dcg", "dcg@1", "dcg@3", "ndcg", "ndcg@2", "ndcg@5", "ndcg(gain=linear,discount=reciprocal)@4",
    "ndcg(gain=0/1/3/3/10,discount=1/0.5/0.25)", "err", "err@1", "err@4", "err(max_label=5)", "err(max_label=50)@6",
    "mrr", "mrr@1", "mrr@3", "mrr(relevant=2)", "mrr(relevant=3)@2",
]  # fmt: skip


def moved(things: np.ndarray, i: int, p: int) -> np.ndarray:
    """The list with the element at place ``i`` taken out and put in at place ``p``."""
    return np.insert(np.delete(things, i), p, things[i])


def worth(name: str, lists: list[np.ndarray]) -> np.ndarray:
    """The metric of lists of labels in rank order, by ranking scores that fall; 0 where the metric skips a list."""
    n = lists[0].size
    falling = np.tile(-np.arange(n, dtype=float), len(lists))
    return np.nan_to_num(metric(name).per_query(falling, np.concatenate(lists), np.arange(len(lists) + 1) * n))


def every_move(name: str, labels: np.ndarray) -> np.ndarray:
    n = labels.size
    return worth(name, [moved(labels, i, p) for i in range(n) for p in range(n)]).reshape(n, n)


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_every_move_is_the_metric_of_the_moved_list(name: str, labels: list[int]) -> None:
    y = np.array(labels, dtype=float)
    n = y.size
    moves = Moves(name, y)
    table = moves.values(np.arange(1, n + 1)[:, np.newaxis], np.arange(1, n + 1))
    np.testing.assert_allclose(table, every_move(name, y), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.diag(table), moves.value, rtol=1e-12, atol=1e-14)
    assert moves.value == pytest.approx(worth(name, [y])[0], abs=1e-14)


@pytest.mark.parametrize("labels", [[50, 50, 3, 50, 0], [60, 0, 60, 60, 1], [1000, 999, 1000, 0, 998]], ids=str)
@pytest.mark.parametrize("k", ["", "@3"])
def test_stops_that_are_certain_or_almost_certain_lose_no_digits(labels: list[int], k: str) -> None:
    # 1 - R is 2^-50, or nothing at all: dividing by it would leave no digit of what lies behind.
    name = f"err(max_label={max(labels)}){k}"
    y = np.array(labels, dtype=float)
    table = Moves(name, y).values(np.arange(1, 6)[:, np.newaxis], np.arange(1, 6))
    np.testing.assert_allclose(table, every_move(name, y), rtol=0, atol=1e-15)


def test_long_lists_in_which_few_readers_are_left() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 3000).astype(float)
    for name in ("err", "ndcg", "mrr(relevant=4)"):
        moves = Moves(name, y)
        i, p = np.append(rng.integers(0, 3000, (20, 2)), [[0, 2999], [2999, 0]], axis=0).T
        expected = worth(name, [moved(y, *move) for move in zip(i, p, strict=True)])
        np.testing.assert_allclose(moves.values(i + 1, p + 1), expected, rtol=1e-10)


def test_a_list_without_gain_is_worth_nothing_wherever_its_documents_go() -> None:
    for name in ("ndcg@3", "dcg", "err", "mrr(relevant=2)"):
        moves = Moves(name, [0, 1, 0] if "relevant" in name else [0, 0, 0])
        assert moves.value == 0
        assert not moves.values([[1], [2], [3]], [1, 2, 3]).any()


@pytest.mark.parametrize("k", [None, 1, 2, 4])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(documents=st.lists(st.tuples(st.integers(0, 4), st.floats(-2, 2)), min_size=1, max_size=8))
def test_showing_and_hiding_a_document(k: int | None, documents: list[tuple[int, float]]) -> None:
    labels, scores = (np.array(column, dtype=float) for column in zip(*documents, strict=True))
    n = labels.size
    subject = DCGRR(k=k, gain="exp2")
    moves = SelectionMoves(subject)
    values = moves.document_values(labels)
    depth = n if k is None else min(k, n)
    sums = moves.sums(values, scores, depth)
    for i in range(n):
        for place, score in ((0, -1.0), (1, 1.0)):
            placed = scores.copy()
            placed[i] = score
            expected = np.nan_to_num(subject.per_query(placed, labels, [0, n])[0])
            assert moves.moved(values, sums, i, place, depth) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: Moves("map", [0, 1]), OptionError, "metric: found map, which does not say what moving a document"),
        (lambda: Moves("ndgc", [0, 1]), OptionError, "unknown metric 'ndgc'; did you mean 'ndcg'?"),
        (lambda: Moves("ndcg", [0, -1]), DataError, "labels[1]: found -1; expected a finite number"),
        (lambda: Moves("err", [0, 5]), DataError, "labels[1]: found 5, above max_label = 4"),
        (lambda: Moves("ndcg", [0, 1]).values(0, 1), DataError, "document: found 0; expected ranks, whole numbers"),
        (lambda: Moves("ndcg", [0, 1]).values(1, [1, 3]), DataError, "to: found [1, 3]; expected ranks, whole numbers"),
        (lambda: Moves("ndcg", [0, 1]).values(1.5, 1), DataError, "document: found 1.5; expected ranks, whole numbers"),
    ],
)
def test_bad_input_is_named(call, error: type[Exception], sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(sentence)
