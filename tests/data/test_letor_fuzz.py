"""Whatever bytes a file holds, the reader returns data or raises the library's own error."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tautrank as tr
from tautrank.data import letor_blocks
from tautrank.errors import DataError

LINES = st.sampled_from(
    [
        b"1 qid:1 1:0.5 2:3\n",
        b"0 qid:2 1:1e5 # c\r\n",
        b"2.5 qid:a\n",
        b"1 qid:1 1:123456789012345678901234567890.5e-12 3:-0\n",
    ]
)
FRAGMENTS = st.sampled_from(
    [
        b"qid:",
        b"1:",
        b":",
        b" ",
        b"\n",
        b"\r",
        b"#",
        b"-",
        b"+",
        b".",
        b"e",
        b"1e",
        b"9" * 30,
        b"0",
        b"nan",
        b"inf",
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x1f\x8b",
        b"BZh",
        b"1_0",
        b"0x1",
        b"999999999:1",
        b"\t",
        b"\x0b",
    ]
)


def reads_or_raises(path, **options):
    message = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = tr.read_letor(path, **options)
        except DataError as error:
            message = str(error)
    if message is not None:
        assert "\n" not in message
        assert str(path) in message
        return
    assert data.X.shape[0] == data.labels.size == data.offsets[-1] > 0
    assert np.isfinite(data.labels).all()
    assert (data.labels >= 0).all()
    stored = data.X if isinstance(data.X, np.ndarray) else data.X.data
    assert not np.isinf(stored).any()


@settings(max_examples=400, deadline=None)
@given(
    parts=st.lists(st.one_of(LINES, FRAGMENTS, st.binary(max_size=12)), max_size=12),
    block=st.integers(8, 200),
)
def test_mangled_text(tmp_path_factory, parts, block):
    path = tmp_path_factory.mktemp("fuzz") / "x.txt"
    path.write_bytes(b"".join(parts))
    before, letor_blocks._BLOCK_BYTES = letor_blocks._BLOCK_BYTES, block
    try:
        reads_or_raises(path)
        reads_or_raises(path, sparse=True, zero_based=True, allow_nan=True)
    finally:
        letor_blocks._BLOCK_BYTES = before


@settings(max_examples=150, deadline=None)
@given(
    cut=st.integers(0, 400),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4),
)
def test_damaged_gzip(tmp_path_factory, cut, flips):
    packed = bytearray(gzip.compress(b"1 qid:1 1:0.5 2:3\n0 qid:1 1:1\n" * 200))
    for place, value in flips:
        packed[place % len(packed)] = value
    path = tmp_path_factory.mktemp("fuzz") / "x.gz"
    path.write_bytes(packed[: max(1, len(packed) - cut)])
    reads_or_raises(path)


def test_no_index_leaves_its_array(tmp_path):
    """The same fuzzing with Numba's bounds checks compiled in: an access outside an array would be
    an IndexError.
    """
    checked = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        __file__,
    ]
    command += ["-k", "mangled or damaged"]
    result = subprocess.run(command, env=checked, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:]
    assert "2 passed" in result.stdout
