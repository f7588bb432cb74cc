"""The LETOR reader against a slow reader written from the format's definition, and on its own
promises.
"""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import tautrank as tr
from tautrank.data import letor_blocks
from tautrank.errors import DataError, TautrankWarning
from tests.recorded_progress import RecordedProgress

# Made-up numbers are often beyond what float32 holds exactly.
pytestmark = pytest.mark.filterwarnings("ignore:.*values of more than nine digits")


def write(folder: Path, text: str | bytes, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def slow_read(text: str) -> tuple[list[list[float]], list[float], list[str]]:
    """The format's definition, one line at a time."""
    rows, labels, qids = [], [], []
    for line in text.splitlines():
        tokens = line.split("#")[0].split()
        if not tokens:
            continue
        labels.append(float(tokens[0]))
        assert tokens[1].startswith("qid:")
        qids.append(tokens[1][4:])
        rows.append({int(t.split(":")[0]): float(t.split(":")[1]) for t in tokens[2:]})
    width = max((max(row) for row in rows if row), default=0)
    return [[row.get(i + 1, 0.0) for i in range(width)] for row in rows], labels, qids


number = st.one_of(
    st.floats(-1e30, 1e30, allow_nan=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-1000, 1000, places=6).map(str),
    st.integers(-(10**19), 10**19).map(str),
    st.sampled_from(
        [
            "0",
            "-0",
            "+1",
            "1.",
            ".5",
            "-.5e-3",
            "1E5",
            "00012.500",
            "1e-300",
            "5e-324",
            "1e-46",
            "0e999",
            "0.00000000000000000000012345",
            "0.0000000000000000000001234567890123456789012",
            "1111111111111111111111111.5",
        ]
    ),
    # Halfway between two float32 values, and just beside it: where rounding twice or guessing goes
    # wrong.
    st.integers(0, 2**24).map(lambda i: repr((1 + (2 * i + 1) * 2.0**-24) * 2.0**3)),
    st.integers(0, 2**24).map(lambda i: f"{(1 + (2 * i + 1) * 2.0**-24):.30f}1"),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(number, min_size=1, max_size=20))
def test_values_are_the_float32_of_the_double_the_text_denotes(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("numbers")
    path = write(folder, "".join(f"1 qid:1 1:{text}\n" for text in texts))
    got = tr.read_letor(path).X[:, 0]
    expected = np.array([float(text) for text in texts]).astype(np.float32)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@st.composite
def letor_text(draw):
    lines = []
    for query in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 4))):
            indices = sorted(draw(st.sets(st.integers(1, 9), max_size=5)))
            sep = draw(st.sampled_from([" ", "\t", "  "]))
            cells = sep.join(
                f"{i}:{draw(st.sampled_from(['0.5', '1', '-2.25', '1e-3']))}" for i in indices
            )
            comment = draw(st.sampled_from(["", " # a:b 3:4", "#x", " "]))
            label = draw(st.sampled_from(["0", "1", "2.5", "4"]))
            lines.append(f"{label}{sep}qid:{query + 10}{sep}{cells}{comment}")
            if draw(st.integers(0, 4)) == 0:
                lines.append(draw(st.sampled_from(["", "  ", "# only a comment"])))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end]))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=letor_text(), block=st.integers(16, 400), jobs=st.integers(1, 3))
def test_every_cut_into_blocks_reads_the_same(tmp_path_factory, monkeypatch, text, block, jobs):
    monkeypatch.setattr(letor_blocks, "_BLOCK_BYTES", block)
    path = write(tmp_path_factory.mktemp("blocks"), text)
    data = tr.read_letor(path, n_jobs=jobs)
    rows, labels, qids = slow_read(text)
    np.testing.assert_array_equal(data.X, np.array(rows, np.float32).reshape(len(labels), -1))
    np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_array_equal(data.qid_of_document.astype(str), qids)


@pytest.mark.parametrize(
    ("name", "compress"),
    [("a.gz", gzip.compress), ("a.bz2", bz2.compress), ("a.xz", lzma.compress), ("a.txt", bytes)],
)
def test_compressed_text_is_told_by_its_first_bytes(tmp_path, name, compress):
    text = b"1 qid:1 1:0.5\n0 qid:1 2:3\n"
    for file_name in (name, "plain-name.txt"):
        assert tr.read_letor(write(tmp_path, compress(text), file_name)).X.tolist() == [
            [0.5, 0.0],
            [0.0, 3.0],
        ]


def test_gzip_of_several_members_is_read_to_the_end(tmp_path):
    path = write(tmp_path, gzip.compress(b"1 qid:1 1:1\n") + gzip.compress(b"2 qid:2 1:2\n"))
    assert tr.read_letor(path).labels.tolist() == [1, 2]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("first", [0, 1, 3, 10])
def test_a_pipe_can_be_read_whatever_was_written_first(tmp_path, compress, first):
    pipe, content = tmp_path / "pipe", compress(b"1 qid:1 1:0.5\n0 qid:1 1:2\n")
    os.mkfifo(pipe)

    def write_in_two_parts():
        with pipe.open("wb", buffering=0) as file:
            file.write(content[:first])
            time.sleep(0.02 * (first > 0))
            file.write(content[first:])

    writer = threading.Thread(target=write_in_two_parts)
    writer.start()
    assert tr.read_letor(pipe).X.tolist() == [[0.5], [2.0]]
    writer.join()


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_crlf_bom_and_missing_last_newline(tmp_path, compress):
    path = write(tmp_path, compress(b"\xef\xbb\xbf2 qid:1 1:0.5\r\n0 qid:1 1:1\r\n1 qid:2 1:7"))
    data = tr.read_letor(path)
    assert data.labels.tolist() == [2, 0, 1]
    assert data.X.tolist() == [[0.5], [1.0], [7.0]]
    assert data.offsets.tolist() == [0, 2, 3]


def test_several_files_are_one_data_set(tmp_path):
    a = write(tmp_path, "1 qid:1 1:1\n", "a.txt")
    b = write(tmp_path, "0 qid:2 3:1\n", "b.txt")
    data = tr.read_letor([a, b])
    assert data.X.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert data.qids.tolist() == [1, 2]


def test_scattered_rows_are_gathered_in_order_and_said_once(tmp_path):
    path = write(tmp_path, "0 qid:1 1:1\n1 qid:2 1:2\n2 qid:1 1:3\n3 qid:2 1:4\n0 qid:3 1:5\n")
    with pytest.warns(TautrankWarning) as caught:
        data = tr.read_letor(path)
    assert [str(w.message) for w in caught] == [
        f"{path}: rows of 2 queries are scattered (the first is qid 1); gathered, in the order they appear"
    ]
    assert data.X[:, 0].tolist() == [1, 3, 2, 4, 5]
    assert data.offsets.tolist() == [0, 2, 4, 5]
    # A score file written in the order of the lines is brought along.
    assert data.in_document_order(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == [1, 3, 2, 4, 5]


def test_text_ids_stay_text_and_integers_are_integers(tmp_path):
    assert tr.read_letor(write(tmp_path, "0 qid:-7 1:1\n0 qid:12 1:1\n")).qids.tolist() == [-7, 12]
    assert tr.read_letor(write(tmp_path, "0 qid:007 1:1\n0 qid:7 1:1\n")).qids.tolist() == [
        "007",
        "7",
    ]
    assert tr.read_letor(write(tmp_path, "0 qid:wt09-1 1:1\n")).qids.tolist() == ["wt09-1"]


def test_side_files_give_the_groups(tmp_path):
    texts = {"0 1:1\n1 1:2\n2 1:3\n": [0, 1], "0 qid:5 1:1\n1 qid:6 1:2\n2 qid:6 1:3\n": [5, 6]}
    for (text, qids), suffix in itertools.product(texts.items(), (".query", ".group")):
        path = write(tmp_path, text, f"rank{suffix}.train")
        write(tmp_path, "1\n2\n", path.name + suffix)
        data = tr.read_letor(path)
        assert (data.offsets.tolist(), data.qids.tolist()) == ([0, 1, 3], qids)


def test_zero_based_files_and_a_fixed_width(tmp_path):
    assert tr.read_letor(write(tmp_path, "0 qid:1 0:5 2:7\n"), zero_based=True).X.tolist() == [
        [5, 0, 7]
    ]
    assert tr.read_letor(write(tmp_path, "0 qid:1 1:5\n"), n_features=4).X.tolist() == [
        [5, 0, 0, 0]
    ]


def test_nan_is_missing_only_when_allowed(tmp_path):
    path = write(tmp_path, "0 qid:1 1:nan 2:NaN 3:1\n")
    X = tr.read_letor(path, allow_nan=True).X
    assert np.isnan(X[0, :2]).all()
    assert X[0, 2] == 1
    with pytest.raises(DataError, match="feature 1 has the value 'nan'"):
        tr.read_letor(path)


def test_a_width_that_creeps_up_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_blocks, "_BLOCK_BYTES", 64)
    text = "".join(f"0 qid:{i} {i + 1}:{i + 1}\n" for i in range(300))
    X = tr.read_letor(write(tmp_path, text), sparse=False).X
    np.testing.assert_array_equal(X, np.diag(np.arange(1, 301)).astype(np.float32))
    assert X.flags.c_contiguous


def test_sparse_input_stays_sparse_and_equal(tmp_path):
    text = "".join(f"0 qid:{i // 5} {i % 50 + 1}:0.5 900:0 {1000 + i}:1\n" for i in range(200))
    path = write(tmp_path, text)
    dense, compressed = tr.read_letor(path, sparse=False), tr.read_letor(path, sparse=True)
    assert isinstance(dense.X, np.ndarray)
    assert sparse.issparse(compressed.X)
    np.testing.assert_array_equal(compressed.X.toarray(), dense.X)
    assert isinstance(tr.read_letor(path).X, np.ndarray)  # small: dense is fine


def test_auto_turns_sparse_when_dense_would_not_fit_well(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_blocks, "_BLOCK_BYTES", 2048)
    # 1,000 x 100,000 float32 is 400 MB dense, and 8 KB of numbers.
    text = "".join(f"1 qid:{i} {i + 1}:1 {100 * (i + 1)}:2\n" for i in range(1000))
    data = tr.read_letor(write(tmp_path, text))
    assert sparse.issparse(data.X)
    assert data.X.shape == (1000, 100_000)
    assert data.X.dtype == np.float32
    assert data.X[999, 99_999] == 2
    assert data.X.nnz == 2000 - 0
    # It can still be split and put together.
    parts = data.split([0.5, 0.5], seed=1)
    assert sparse.issparse(tr.RankingData.concat(parts).X)


def test_written_data_reads_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((40, 7)) * 10.0 ** rng.integers(-30, 30, (40, 7))).astype(np.float32)
    X[3, 2] = np.nan
    data = tr.RankingData.from_arrays(
        X, rng.integers(0, 5, 40) / 2, qid=np.repeat(["a", "b-2"], 20)
    )
    for name in ("out.txt", "out.txt.gz", "out.txt.bz2", "out.txt.xz"):
        tr.data.write_letor(data, tmp_path / name)
        back = tr.read_letor(tmp_path / name, allow_nan=True)
        np.testing.assert_array_equal(back.X, data.X)
        np.testing.assert_array_equal(back.labels, data.labels)
        assert back.qids.tolist() == ["a", "b-2"]


def test_written_sparse_data_keeps_its_width(tmp_path):
    X = sparse.csr_matrix(([1.5], ([1], [2])), shape=(2, 9), dtype=np.float32)
    data = tr.RankingData.from_arrays(X, [0, 1], group=[2])
    tr.data.write_letor(data, tmp_path / "s.txt")
    assert (tmp_path / "s.txt").read_text() == "0 qid:0 9:0.0\n1 qid:0 3:1.5\n"
    np.testing.assert_array_equal(tr.read_letor(tmp_path / "s.txt").X, X.toarray())


def test_progress_ends_at_one(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_blocks, "_BLOCK_BYTES", 64)
    progress = RecordedProgress()
    tr.read_letor(write(tmp_path, "1 qid:1 1:0.5\n" * 100), n_jobs=1, progress=progress)
    assert progress.done == sorted(progress.done)
    assert len(progress.done) > 3
    assert progress.updates[-1] == (1400, 1400, "")


def test_a_long_line_makes_the_block_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_blocks, "_BLOCK_BYTES", 32)
    cells = " ".join(f"{i}:{i}" for i in range(1, 500))
    data = tr.read_letor(write(tmp_path, f"1 qid:1 {cells}\n0 qid:1 1:1\n"))
    assert data.X.shape == (2, 499)
    assert data.X[0, 498] == 499


def test_same_numbers_as_scikit_learn_on_real_data(shared_data):
    from sklearn.datasets import load_svmlight_file

    for name in ("mq2008/S1.txt", "clueweb09/part3.txt"):
        X, y, qid = load_svmlight_file(str(shared_data / name), query_id=True)
        data = tr.read_letor(shared_data / name)
        np.testing.assert_array_equal(data.X, X.toarray().astype(np.float32))
        np.testing.assert_array_equal(data.labels, y)
        np.testing.assert_array_equal(data.qid_of_document, qid)


def test_published_statistics(shared_data):
    """LETOR 4.0's and TREC's own counts, from the README of the data."""
    parts = tr.read_letor([shared_data / f"mq2008/S{i}.txt" for i in range(1, 6)])
    assert (parts.n_queries, parts.n_documents, parts.n_features) == (784, 15_211, 46)
    assert sorted(set(parts.labels.tolist())) == [0, 1, 2]
    splits = tr.data.read_folder(shared_data / "mq2008", fold=1)
    assert [part.n_queries for part in splits] == [471, 157, 156]
    sizes = [
        [part.n_queries for part in tr.data.read_folder(shared_data / "mq2008", fold=i)]
        for i in range(1, 6)
    ]
    assert all(sum(fold) == 784 for fold in sizes)

    clueweb = tr.read_letor(sorted((shared_data / "clueweb09").glob("part*.txt")))
    assert (clueweb.n_queries, clueweb.n_documents, clueweb.n_features) == (61, 26_646, 42)
    assert (clueweb.sizes.min(), clueweb.sizes.max()) == (230, 728)
    assert set(clueweb.labels.tolist()) <= {0, 1, 2, 3, 4}

    train = tr.read_letor(shared_data / "lightgbm-lambdarank/rank.train")
    test = tr.read_letor(shared_data / "lightgbm-lambdarank/rank.test")
    assert (train.n_queries, train.n_documents, train.n_features) == (201, 3_005, 300)
    assert (test.n_queries, test.n_documents) == (50, 768)


def test_side_files_may_end_in_blank_lines_and_hold_no_binary_data(tmp_path):
    (tmp_path / "a.txt").write_text("1 1:1\n0 1:2\n")
    (tmp_path / "a.txt.group").write_text("1\n\n1\n")
    assert tr.read_letor(tmp_path / "a.txt").sizes.tolist() == [1, 1]
    (tmp_path / "a.txt.group").write_bytes(b"1\n\0\n")
    with pytest.raises(DataError, match=r"a.txt.group:2: found binary data; expected text"):
        tr.read_letor(tmp_path / "a.txt")
