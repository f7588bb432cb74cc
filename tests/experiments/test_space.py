"""Ranges and search spaces: what is read, refused, and left out."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tautrank as tr
from tautrank.errors import OptionError, TautrankError
from tautrank.experiments.space import (
    SPACES,
    Choice,
    Uniform,
    WholeNumber,
    read_range,
    space_named_or_in_file,
    spaces_of,
)


def between(numbers, kind, log):
    ends = st.tuples(numbers, numbers).filter(lambda e: e[0] != e[1])
    return st.tuples(ends, log).map(lambda e: kind(min(e[0]), max(e[0]), e[1]))


ranges = st.one_of(
    between(st.floats(-1e9, 1e9), Uniform, st.just(False)),
    between(st.floats(1e-9, 1e9), Uniform, st.just(True)),
    between(st.integers(1, 10**6), WholeNumber, st.booleans()),
    st.lists(
        st.one_of(st.none(), st.integers(2, 99), st.text(max_size=5)),
        min_size=1,
        max_size=4,
        unique=True,
    ).map(lambda values: Choice(tuple(values))),
)
anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.sampled_from(["float", "int", "choice", "log"]),
    ),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=8,
)


@given(ranges)
@settings(max_examples=50)
def test_ranges_survive_json(one):
    assert read_range("x", json.loads(json.dumps(one.to_plain()))) == one
    assert read_range("x", one) == one
    assert read_range("x", tuple(one.to_plain())) == one


@given(
    st.one_of(
        anything,
        st.tuples(st.sampled_from(["float", "int", "choice"]), anything, anything, anything),
    )
)
@settings(max_examples=150)
def test_anything_written_is_a_range_or_one_sentence(written):
    try:
        one, said = read_range("num_leaves", written), ""
    except OptionError as error:
        one, said = None, str(error)
    if one is None:
        assert "num_leaves" in said
        assert "expected" in said or "known" in said
        assert "\n" not in said
    else:
        assert read_range("num_leaves", one.to_plain()) == one
        assert isinstance(one, Choice) or one.low < one.high


def test_named_spaces_hold_for_every_loss():
    for name in SPACES:
        for loss in tr.losses.REGISTRY:
            (space,) = spaces_of([loss], name, {})
            assert {"learning_rate", "num_leaves"} <= set(space)
            assert all(read_range(key, one.to_plain()) == one for key, one in space.items())


def test_the_space_of_the_stochasticrank_paper_is_its_appendix():
    assert SPACES["stochasticrank"](tr.loss("stochasticrank")) == {
        "learning_rate": Uniform(1e-3, 1.0, log=True),
        "num_leaves": Choice((64, 128, 256, 512, 1024)),
        "reg_lambda": Choice((0.0,)),
        "langevin.shrink_rate": Uniform(1e-5, 1e-2, log=True),
        "langevin.temperature": Uniform(1e8, 1e11, log=True),
        "loss.mu": Uniform(1e-2, 10.0, log=True),
    }
    noisy = SPACES["stochasticrank"](tr.loss("lambdarank", noise="gumbel"))
    assert noisy["loss.strength"] == Uniform(0.0, 1.0)
    assert noisy["reg_lambda"] == Uniform(0.1, 10.0, log=True)
    assert "langevin.temperature" not in noisy


def test_a_space_with_a_name_leaves_out_what_is_given():
    (space,) = spaces_of(["ndcg-loss2++(k=5)"], None, {"learning_rate": 0.1})
    assert "loss.mu" in space
    assert not {"learning_rate", "loss.k"} & set(space)
    (without_ties,) = spaces_of(["stochasticrank(metric=dcg-rr)"], None, {})
    assert "loss.mu" not in without_ties


def test_space_files(tmp_path):
    file = tmp_path / "space.json"
    file.write_text('{"loss.k": ["choice", 5, null], "num_leaves": ["int", 2, 9, "log"]}')
    assert space_named_or_in_file(str(file)) == {
        "loss.k": Choice((5, None)),
        "num_leaves": WholeNumber(2, 9, log=True),
    }
    for text, said in (
        ("{", "is not JSON"),
        ("[1]", "found something else; expected an object such as"),
        ('{"a": ["int", 1, 2], "a": ["int", 1, 3]}', "found 'a' twice; expected every name once"),
        ('{"a": ["int", 3, 2]}', "a: found a range from 3 to 2"),
        ("{}", "space: found nothing in it"),
    ):
        file.write_text(text)
        with pytest.raises(TautrankError, match=re.escape(f"{file}: {said}")):
            space_named_or_in_file(str(file))
