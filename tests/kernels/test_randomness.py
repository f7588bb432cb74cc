"""The counter-based generator: known answers, and what its numbers are distributed like."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tautrank.kernels.randomness import add_noise, fill_gumbel, fill_normal, fill_uniform, philox
from tautrank.kernels.streams import GAMMA_STREAM, GUMBEL_STREAM

pytestmark = pytest.mark.uncompiled


# The vectors of the Random123 distribution (kat_vectors, philox4x32 with 10 rounds).
@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        (
            "00000000 00000000 00000000 00000000",
            "00000000 00000000",
            "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        ),
        (
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(counter: str, key: str, answer: str) -> None:
    words = philox(*(np.uint64(int(word, 16)) for word in f"{counter} {key}".split()))
    assert " ".join(format(int(word), "08x") for word in words) == answer


def drawn(fill, n: int, seed: int = 1, step: int = 2, query: int = 3, stream: int = GAMMA_STREAM):  # type: ignore[no-untyped-def]
    out = np.empty(n)
    fill(out, np.uint64(seed), step, query, stream)
    return out


@pytest.mark.parametrize(
    ("fill", "distribution"),
    [(fill_uniform, stats.uniform()), (fill_gumbel, stats.gumbel_r()), (fill_normal, stats.norm())],
    ids=["uniform", "gumbel", "normal"],
)
def test_numbers_are_distributed_as_named(fill, distribution) -> None:  # type: ignore[no-untyped-def]
    assert stats.kstest(drawn(fill, 100_000), distribution.cdf).pvalue > 1e-3


def test_numbers_do_not_depend_on_the_length_of_the_list() -> None:
    whole = drawn(fill_uniform, 11)
    for n in range(12):
        np.testing.assert_array_equal(drawn(fill_uniform, n), whole[:n])


@pytest.mark.parametrize(
    "other", [{"seed": 2}, {"seed": 1 + 2**32}, {"step": 3}, {"query": 4}, {"stream": 1}], ids=str
)
def test_every_part_of_the_key_gives_unrelated_numbers(other: dict[str, int]) -> None:
    a, b = drawn(fill_uniform, 20_000), drawn(fill_uniform, 20_000, **other)
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(20_000)
    assert not np.intersect1d(a, b).size > 5


def test_neighbouring_queries_and_steps_are_unrelated() -> None:
    firsts = np.array(
        [[drawn(fill_uniform, 1, step=s, query=q)[0] for s in range(60)] for q in range(60)]
    )
    assert stats.kstest(firsts.ravel(), stats.uniform().cdf).pvalue > 1e-3
    for a, b in ((firsts[1:], firsts[:-1]), (firsts[:, 1:], firsts[:, :-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5 / np.sqrt(a.size)


def test_normals_in_a_pair_are_uncorrelated() -> None:
    pairs = drawn(fill_normal, 100_000).reshape(-1, 2)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5 / np.sqrt(50_000)
    assert abs(np.corrcoef(pairs.T**2)[0, 1]) < 5 / np.sqrt(50_000)


def test_noise_is_scaled_and_added_query_by_query() -> None:
    scores, offsets = np.arange(5.0), np.array([0, 2, 5])
    out = np.empty(5)
    add_noise(scores, offsets, 0.5, np.uint64(9), 4, GUMBEL_STREAM, 0, 2, out)
    expected = [drawn(fill_gumbel, n, 9, 4, q, GUMBEL_STREAM) for q, n in enumerate((2, 3))]
    np.testing.assert_allclose(out, scores + 0.5 * np.concatenate(expected), rtol=1e-15)
