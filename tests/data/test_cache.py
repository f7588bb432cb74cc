"""The parsed-data cache: used while it is right, ignored when it is not, never in the way."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import cache, letor
from tautrank.errors import DataError

TEXT = "2 qid:7 1:0.5 3:1\n0 qid:7 2:0.25\n1 qid:9 1:1\n"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def parses(monkeypatch):
    """How often text was parsed."""
    calls = []
    original = letor.parse_letor
    monkeypatch.setattr(letor, "parse_letor", lambda *a: calls.append(1) or original(*a))
    return calls


def same(a, b):
    to_array = lambda X: X if isinstance(X, np.ndarray) else X.toarray()  # noqa: E731
    np.testing.assert_array_equal(to_array(a.X), to_array(b.X))
    np.testing.assert_array_equal(a.labels, b.labels)
    np.testing.assert_array_equal(a.offsets, b.offsets)
    np.testing.assert_array_equal(a.qids, b.qids)
    assert a.qids.dtype == b.qids.dtype


@pytest.mark.parametrize("sparse", [True, False, "auto"])
def test_second_read_parses_nothing_and_is_equal(source, parses, sparse):
    first = tr.read_letor(source, cache=True, sparse=sparse)
    second = tr.read_letor(source, cache=True, sparse=sparse)
    assert len(parses) == 1
    same(first, second)
    assert second.X.flags.writeable if isinstance(second.X, np.ndarray) else True
    assert sorted(p.name for p in source.parent.iterdir()) == ["train.txt", "train.txt.tautcache"]


def test_off_for_small_files_and_when_told(source, parses, monkeypatch):
    tr.read_letor(source)
    assert not list(source.parent.glob("*" + cache.SUFFIX))
    monkeypatch.setattr(cache, "CACHE_FROM_BYTES", 1)
    monkeypatch.setenv("TAUTRANK_CACHE", "0")
    tr.read_letor(source)
    assert not list(source.parent.glob("*" + cache.SUFFIX))
    monkeypatch.delenv("TAUTRANK_CACHE")
    tr.read_letor(source, cache=False)
    assert not list(source.parent.glob("*" + cache.SUFFIX))
    tr.read_letor(source)
    assert [p.name for p in source.parent.glob("*" + cache.SUFFIX)] == ["train.txt.tautcache"]


def test_changed_content_of_equal_size_and_time_is_noticed(source, parses):
    tr.read_letor(source, cache=True)
    state = source.stat()
    source.write_text(TEXT.replace("0.25", "0.75"))
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert tr.read_letor(source, cache=True).X[1, 1] == 0.75
    assert len(parses) == 2


def test_changed_time_size_or_options_are_noticed(source, parses):
    tr.read_letor(source, cache=True)
    os.utime(source, ns=(1, 1))
    tr.read_letor(source, cache=True)
    tr.read_letor(source, cache=True, n_features=5)
    source.write_text(TEXT + "1 qid:9 1:2\n")
    assert tr.read_letor(source, cache=True).n_documents == 4
    assert len(parses) == 4


def test_a_damaged_cache_is_as_good_as_none(source):
    first = tr.read_letor(source, cache=True)
    path = source.with_name("train.txt.tautcache")
    content = path.read_bytes()
    flipped = (
        content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
        for at in range(0, len(content), 3)
    )
    for damaged in (content[:-3], os.urandom(200), b"", *flipped):
        path.write_bytes(damaged)
        same(first, tr.read_letor(source, cache=True))
    same(first, tr.read_letor(source, cache=True))


def test_a_folder_that_cannot_be_written_is_no_obstacle(source, monkeypatch):
    def refuse(*_, **__):
        raise DataError("cannot be written")

    monkeypatch.setattr(cache, "atomic_write", refuse)
    assert tr.read_letor(source, cache=True).n_documents == 3


def test_several_files_each_have_their_cache(source, parses):
    other = source.with_name("more.txt")
    other.write_text("1 qid:20 5:1\n")
    first = tr.read_letor([source, other], cache=True)
    second = tr.read_letor([source, other], cache=True)
    assert len(parses) == 2
    same(first, second)
    same(tr.read_letor(other, cache=True), tr.read_letor(other, cache=False))
    same(tr.read_letor([other, source], cache=True), tr.read_letor([other, source], cache=False))


def test_a_zero_keeps_its_sign(source):
    source.write_text("2 qid:7 1:-0 3:1\n0 qid:7 1:0 2:0.25\n")
    other = source.with_name("more.txt")
    other.write_text("1 qid:20 1:-0.0 900:1\n")
    for cached in (False, True, True):
        X = tr.read_letor([source, other], cache=cached).X
        assert np.signbit(X[:, 0]).tolist() == [True, False, True]


def test_side_files_are_read_anew(source):
    plain = source.with_name("plain.txt")
    plain.write_text("1 1:1\n0 1:2\n1 1:3\n")
    side = source.with_name("plain.txt.query")
    side.write_text("1\n2\n")
    assert tr.read_letor(plain, cache=True).offsets.tolist() == [0, 1, 3]
    side.write_text("2\n1\n")
    assert tr.read_letor(plain, cache=True).offsets.tolist() == [0, 2, 3]
