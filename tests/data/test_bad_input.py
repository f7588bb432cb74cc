"""What a user sees who brings a broken file or a wrong argument: one sentence, exit code 2, nothing
half-written.
"""

from __future__ import annotations

import gzip
import math
import os
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import tautrank as tr
from tautrank.errors import TautrankError
from tests.command_line import run

pytestmark = pytest.mark.uncompiled

LETOR = b"1 qid:1 1:0.5\n"
HINT = "LETOR text such as '2 qid:1 1:0.5'"

# name: content of data.txt, and what `tautrank data info data.txt` says; {f} stands for the file.
FILES: dict[str, tuple[bytes, str]] = {
    "label missing": (b"1 qid:1 1:2\nqid:1 1:3\n", "{f}:2: the line starts with 'qid:1'; expected a label first"),
    "label missing, features first": (b"1:2 2:3\n", "{f}:1: the line starts with '1:2'; expected a label first"),
    "label NaN": (b"nan qid:1 1:2\n", "{f}:1: found label 'nan'; expected a finite number of at least 0"),
    "label infinite": (b"inf qid:1 1:2\n", "{f}:1: found label 'inf'; expected a finite number of at least 0"),
    "label too large": (b"1e39 qid:1 1:2\n", "{f}:1: found label '1e39'; expected a finite number of at least 0"),
    "label far too large": (b"1e999 qid:1 1:2\n", "{f}:1: found label '1e999'; expected a finite number of at least 0"),
    "label negative": (b"1 qid:1 1:2\n-1 qid:1 1:2\n", "{f}:2: found label '-1'; expected a finite number of at least 0"),
    "label is text": (b"good qid:1 1:2\n", "{f}:1: found label 'good'; expected a finite number of at least 0"),
    "label half a number": (b"1x qid:1 1:2\n", "{f}:1: found label '1x'; expected a finite number of at least 0"),
    "label after a comment line": (b"# head\n\n1 qid:1 1:2\nx qid:1\n", "{f}:4: found label 'x'; expected a finite number of at least 0"),
    "qid missing in some lines": (b"1 qid:1 1:2\n0 1:3\n", "{f}:2: found no 'qid:' after the label; expected one, as on the lines before"),
    "qid only in later lines": (b"1 1:2\n0 qid:1 1:3\n", "{f}:2: found a 'qid:', but the lines before have none; expected it on all lines or none"),
    "qid nowhere": (b"1 1:2\n0 1:3\n", "{f}:1: no 'qid:' in the file and no data.txt.query next to it; expected one or the other"),
    "qid empty": (b"1 qid: 1:2\n", "{f}:1: found 'qid:' without an id; expected 'qid:' and the query's id without a space"),
    "feature index 0": (b"1 qid:1 0:2\n", "{f}:1: found feature index 0; expected indices from 1 on (zero_based=True if the file counts from 0)"),
    "feature index descending": (b"1 qid:1 3:2 2:1\n", "{f}:1: feature index 2 is out of order; expected ascending indices, each once"),
    "feature index repeated": (b"1 qid:1 3:2 3:1\n", "{f}:1: feature index 3 is repeated; expected ascending indices, each once"),
    "feature index absurd": (b"1 qid:1 1:1 999999999:1\n", "{f}:1: found feature index 999999999; expected at most 1000000 (max_features=1000000)"),
    "feature index beyond any integer": (b"1 qid:1 99999999999999999999999:1\n", "{f}:1: found feature index 99999999999999999999999; expected at most 1000000 (max_features=1000000)"),
    "feature index negative": (b"1 qid:1 -1:2\n", "{f}:1: found '-1:2' where a feature belongs; expected 'index:value' such as '3:0.5'"),
    "feature index is text": (b"1 qid:1 bm25:2\n", "{f}:1: found 'bm25:2' where a feature belongs; expected 'index:value' such as '3:0.5'"),
    "feature without a colon": (b"1 qid:1 1:2 7\n", "{f}:1: found '7' where a feature belongs; expected 'index:value' such as '3:0.5'"),
    "two labels": (b"1 0 qid:1 1:2\n", "{f}:1: found '0' where a feature belongs; expected 'index:value' such as '3:0.5'"),
    "value nan": (b"1 qid:1 1:2 2:nan\n", "{f}:1: feature 2 has the value 'nan'; expected a finite number; allow_nan=True (--allow-nan) reads it as a missing value"),
    "value inf": (b"1 qid:1 1:-inf\n", "{f}:1: feature 1 has the value '-inf'; expected a finite number"),
    "value is text": (b"1 qid:1 1:high\n", "{f}:1: feature 1 has the value 'high'; expected a number"),
    "value missing": (b"1 qid:1 1: 2:3\n", "{f}:1: feature 1 has the value ''; expected a number"),
    "value with a comma": (b"1 qid:1 1:0,5\n", "{f}:1: feature 1 has the value '0,5'; expected a number"),
    "value with underscore": (b"1 qid:1 1:1_000\n", "{f}:1: feature 1 has the value '1_000'; expected a number"),
    "value hexadecimal": (b"1 qid:1 1:0x10\n", "{f}:1: feature 1 has the value '0x10'; expected a number"),
    "value with two points": (b"1 qid:1 1:1.2.3\n", "{f}:1: feature 1 has the value '1.2.3'; expected a number"),
    "value exponent without digits": (b"1 qid:1 1:1e\n", "{f}:1: feature 1 has the value '1e'; expected a number"),
    "value too large": (b"1 qid:1 1:1e39\n", "{f}:1: feature 1 has the value '1e39', too large for float32; expected at most 3.4e38"),
    "value far too large": (b"1 qid:1 1:-1e999\n", "{f}:1: feature 1 has the value '-1e999', too large for float32; expected at most 3.4e38"),
    "empty file": (b"", "{f}: found an empty file; expected lines such as '2 qid:1 1:0.5'"),
    "only comments": (b"# a\n\n  \n", "{f}: found no documents, only comments or blank lines; expected lines such as '2 qid:1 1:0.5'"),
    "binary file": (bytes(range(256)) * 4, "{f}:1: found binary data; expected " + HINT),
    "binary after text": (LETOR + b"\x00\x01\x02\x03", "{f}:2: found binary data; expected " + HINT),
    "truncated gzip": (gzip.compress(LETOR * 1000)[:-12], "{f}: the gzip data ends too early; expected a complete file (is it truncated?)"),
    "zip archive": (b"PK\x03\x04....", "{f}: is a zip archive; expected text (unpack it first)"),
    "zstd": (b"\x28\xb5\x2f\xfd....", "{f}: is zstd-compressed; expected plain text, .gz, .bz2 or .xz (unpack it first)"),
    "UTF-16": ("1 qid:1 1:2\n".encode("utf-16"), "{f}: is UTF-16 text; expected UTF-8 or ASCII"),
    "Parquet under another name": (b"PAR1....", "{f}: is a Parquet file; expected LETOR text (tautrank.data.read_parquet reads it)"),
    "a CSV header": (b"label,qid,f1\n1,1,0.5\n", "{f}:1: found label 'label,qid,f1'; expected a finite number of at least 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_broken_data_files(tmp_path, capsys, case):
    content, sentence = FILES[case]
    file = tmp_path / "data.txt"
    file.write_bytes(content)
    code, out, err = run(capsys, "data", "info", file)
    assert (code, out, err) == (2, "", f"error: {sentence.format(f=file)}\n")
    assert [p.name for p in tmp_path.iterdir()] == ["data.txt"]


# name: files to write, the arguments, and the sentence; {d} stands for the folder.
COMMANDS: dict[str, tuple[dict[str, bytes], list[str], str]] = {
    "no such file": ({}, ["data", "info", "{d}/absent.txt"], "{d}/absent.txt: no such file"),
    "a directory": ({"x/y.bin": b""}, ["evaluate", "{d}/x", "--scores", "{d}/x/y.bin"], "{d}/x: is a directory; expected a file (tautrank.data.read_folder reads a data set's folder)"),
    "a folder without data": ({"x/y.bin": b""}, ["data", "info", "{d}/x"], "{d}/x: found no known data set; expected Fold1/, set1.train.txt, S1.txt to S5.txt, part1.txt to part5.txt or train.txt in it"),
    "group sizes that do not sum": ({"a": b"1 1:1\n0 1:2\n", "a.query": b"1\n2\n"}, ["data", "info", "{d}/a"], "{d}/a.query: the group sizes add up to 3, but a has 2 documents; expected the same number"),
    "group size is text": ({"a": b"1 1:1\n", "a.query": b"one\n"}, ["data", "info", "{d}/a"], "{d}/a.query:1: found 'one'; expected the number of documents of a query, at least 1"),
    "group size 0": ({"a": b"1 1:1\n", "a.query": b"1\n0\n"}, ["data", "info", "{d}/a"], "{d}/a.query:2: found '0'; expected the number of documents of a query, at least 1"),
    "side file against qid": ({"a": b"1 qid:1 1:1\n0 qid:1 1:2\n", "a.query": b"1\n1\n"}, ["data", "info", "{d}/a"], "{d}/a.query: the group sizes disagree with the 'qid:' of a; expected them to agree (delete the one out of date)"),
    "scores of another length": ({"a": LETOR * 3, "s": b"1\n2\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s: found 2 scores, but {d}/a has 3 documents; expected one per document"),
    "scores with text": ({"a": LETOR, "s": b"high\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s:1: found 'high'; expected one finite score per line"),
    "scores with nan": ({"a": LETOR * 2, "s": b"1\nnan\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s:2: found 'nan'; expected one finite score per line"),
    "scores with a blank line": ({"a": LETOR * 3, "s": b"1\n\n2\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s:2: found a blank line; expected one finite score per line"),
    "scores with two columns": ({"a": LETOR, "s": b"1 2\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s: found 2 columns in the first line; expected 6, a TREC run, or one score per line"),
    "scores empty": ({"a": LETOR, "s": b""}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s: found an empty file; expected one score per line"),
    "scores binary": ({"a": LETOR, "s": b"1\n\xff\xff\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s:2: found bytes that are not UTF-8; expected text (is this a binary file?)"),
    "unknown metric": ({"a": LETOR, "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s", "-m", "ndgc@10"], "unknown metric 'ndgc'; did you mean 'ndcg'? (known: arp, auc, bpref, dcg, dcg-rr, err, f1, judged, lambdarank-metric, map, mrr, ndcg, precision, r-precision, rbp, recall, success)"),
    "run without qrels": ({"a": LETOR, "s": b"q Q0 d 1 2.0 t\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s: shares no query with the judgments; expected the same ids (found 'q' and '1' first)"),
    "qrels without run": ({"a": b"q 0 d 1\n", "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/a: is qrels, but {d}/s holds scores, one per line; expected ranking data with labels"),
    "run with a short line": ({"a": b"q 0 d 1\n", "s": b"q Q0 d 1 2.0 t\nq Q0 e 1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s:2: found 4 columns; expected 6 (a TREC run has 'qid Q0 docno rank score tag')"),
    "run with a repeated document": ({"a": b"q 0 d 1\n", "s": b"q Q0 d 1 2.0 t\nq Q0 d 2 1.0 t\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s:2: document 'd' of query 'q' is repeated; expected it once"),
    "run with a bad score": ({"a": b"q 0 d 1\n", "s": b"q Q0 d 1 high t\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/s:1: found score 'high'; expected a finite number"),
    "qrels with bad relevance": ({"a": b"q 0 d yes\n", "s": b"q Q0 d 1 2 t\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s"], "{d}/a:1: found relevance 'yes'; expected a finite number"),
    "output folder missing": ({"a": LETOR, "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s", "--per-query", "{d}/no/q.csv"], "{d}/no/q.csv: cannot be written (No such file or directory)"),
    "no metric named": ({"a": LETOR, "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s", "-m", ","], "--metrics: found no name; expected names such as 'ndcg@10,map'"),
    "unknown tie policy": ({"a": LETOR, "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s", "--ties", "wurst"], "unknown ties 'wurst'; did you mean 'worst'? (known: best, expected, input, worst)"),
    "unknown empty policy": ({"a": LETOR, "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s", "--empty", "zeros"], "unknown empty 'zeros'; did you mean 'zero'? (known: one, skip, zero)"),
    "label above ERR's scale": ({"a": b"7 qid:1 1:1\n", "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s", "-m", "err"], "labels[0]: found 7; expected at most err's max_label = 4, the highest label of the scale"),
    "cutoff 0": ({"a": LETOR, "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s", "-m", "ndcg@0"], "k: found 0; expected a whole number of at least 1, or None for the full list"),
    "cutoff text": ({"a": LETOR, "s": b"1\n"}, ["evaluate", "{d}/a", "--scores", "{d}/s", "-m", "ndcg@ten"], "k: found 'ten'; expected a whole number of at least 1, or None for the full list"),
}  # fmt: skip


@pytest.mark.parametrize("case", COMMANDS)
def test_wrong_commands(tmp_path, capsys, case):
    files, arguments, sentence = COMMANDS[case]
    for name, content in files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    code, out, err = run(capsys, *(a.format(d=tmp_path) for a in arguments))
    assert (code, out, err) == (2, "", f"error: {sentence.format(d=tmp_path)}\n")
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


def test_an_existing_file_survives_a_failed_write(tmp_path, monkeypatch):
    from tautrank.files import atomic_write

    target = tmp_path / "out.csv"
    target.write_text("old")

    def write_half() -> None:
        with atomic_write(target) as file:
            file.write(b"half of the new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    from tautrank.files import require_writable, write_whole

    (tmp_path / "v1.taut").write_text("old")
    (tmp_path / "latest.taut").symlink_to("v1.taut")
    write_whole(tmp_path / "latest.taut", "new")
    assert (tmp_path / "latest.taut").is_symlink()
    assert (tmp_path / "v1.taut").read_text() == "new"

    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    require_writable(pipe)
    write_whole(pipe, "through")
    assert pipe.is_fifo()  # as root, /dev/null would have become a file
    reader.join(10)
    assert read == ["through"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["latest.taut", "pipe", "v1.taut"]


OK = np.zeros((3, 2))
# name: what is called, and the sentence.
CALLS = {
    "X of one dimension": (lambda: tr.RankingData.from_arrays([1.0, 2.0], [0, 1], group=[2]), "X: found 1 dimension; expected 2, documents by features"),
    "y as a column of text": (lambda: tr.RankingData.from_arrays([[1.0], [2.0]], np.array([1, "good"], object), group=[2]), "y: row 1 is 'good'; expected numbers"),
    "X with ragged rows": (lambda: tr.RankingData.from_arrays([[1.0], [2.0, 3.0]], [0, 1], group=[2]), "X: cannot be read as an array of numbers; expected numbers in rows of equal length"),
    "X with text": (lambda: tr.RankingData.from_arrays([["a"]], [0], group=[1]), "X: found values of type <U1; expected numbers"),
    "X infinite": (lambda: tr.RankingData.from_arrays([[0.0, np.inf]], [0], group=[1]), "X: row 0, column 1 has the value inf; expected a finite number or NaN for missing"),
    "X too large": (lambda: tr.RankingData.from_arrays([[1e300]], [0], group=[1]), "X: row 0, column 0 has the value 1e+300, too large for float32; expected at most 3.4e38"),
    "X as numbers and others": (lambda: tr.RankingData.from_arrays([[1.0, object()]], [0], group=[1]), "X: cannot be read as an array of numbers; expected numbers in rows of equal length"),
    "X without columns": (lambda: tr.RankingData.from_arrays(pd.DataFrame(index=[0]), [0], group=[1]), "X: found a frame without columns; expected at least one feature"),
    "X with a name twice": (lambda: tr.RankingData.from_arrays(pd.DataFrame([[1, 2]], columns=["a", "a"]), [0], group=[1]), "X: found two columns 'a'; expected every name once"),
    "sparse X of complex numbers": (lambda: tr.RankingData.from_arrays(sparse.csr_matrix([[1j]]), [0], group=[1]), "X: found a sparse matrix of type complex128; expected numbers"),
    "sparse X infinite": (lambda: tr.RankingData.from_arrays(sparse.csr_matrix([[0, 1], [0, np.inf]]), [0, 0], group=[2]), "X: row 1, column 1 has the value inf; expected a finite number or NaN for missing"),
    "y of two dimensions": (lambda: tr.RankingData.from_arrays(OK, OK, group=[3]), "y: found 2 dimensions; expected 1, one label per document"),
    "qid of two dimensions": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], qid=OK), "qid: found 2 dimensions; expected 1, one id per document"),
    "qid complex": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], qid=[1j, 1j, 2j]), "qid: found values of type complex128; expected integers or text"),
    "group of halves": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], group=[1.5, 1.5]), "group: expected a list of whole numbers, the number of documents of each query"),
    "y of another length": (lambda: tr.RankingData.from_arrays(OK, [0, 1], group=[3]), "y: found 2 labels, but X has 3 rows; expected one label per row"),
    "y negative": (lambda: tr.RankingData.from_arrays(OK, [0, -1, 0], group=[3]), "y[1]: found -1; expected a finite number of at least 0"),
    "y NaN": (lambda: tr.RankingData.from_arrays(OK, [0, 0, math.nan], group=[3]), "y[2]: found nan; expected a finite number of at least 0"),
    "qid of another length": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], qid=[1, 1]), "qid: found 2 ids, but X has 3 rows; expected one id per row"),
    "qid with a hole": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], qid=[1, None, 2]), "qid: row 1 has no id; expected an integer or text"),
    "qid NaN": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], qid=[1.0, np.nan, 2.0]), "qid[1]: found nan; expected an integer or text"),
    "neither qid nor group": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2]), "qid, group: found neither; expected one of them, to say which documents belong together"),
    "both qid and group": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], qid=[1, 1, 1], group=[3]), "qid, group: found both; expected one, to say which documents belong together"),
    "group does not sum": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], group=[1, 1]), "group: the sizes sum to 2, but X has 3 rows; expected the same number"),
    "group with 0": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], group=[3, 0]), "group[1]: found 0; expected at least 1 document"),
    "feature names too few": (lambda: tr.RankingData.from_arrays(OK, [0, 1, 2], group=[3], feature_names=["a"]), "feature_names: found 1 names; expected 2, one per column of X"),
    "fractions do not sum": (lambda: data().split([0.5, 0.4]), "fractions: found [0.5, 0.4]; expected positive numbers that sum to 1"),
    "part without a query": (lambda: data().split([0.9, 0.1]), "fractions: [0.9, 0.1] leaves a part of 3 queries empty; expected at least one query per part"),
    "seed negative": (lambda: data().split([0.5, 0.5], seed=-1), "seed: found -1; expected a whole number of at least 0"),
    "too many folds": (lambda: list(data().folds(4)), "n: found 4; expected from 2 to the 3 queries there are"),
    "subset out of range": (lambda: data().subset([3]), "queries[0]: found 3; expected a position below 3, the number of queries"),
    "subset mask too short": (lambda: data().subset([True]), "queries: found length 1; expected 3, one per query"),
    "subset by numbers with points": (lambda: data().subset([0.5]), "queries: found values of type float64; expected positions or a boolean mask"),
    "subset by a table": (lambda: data().subset([[0]]), "queries: found an array of shape (1, 1); expected one number per query (1-D)"),
    "concat of other names": (lambda: tr.RankingData.concat([named("a"), named("b")]), "parts: part 1 has other feature names than part 0; expected the same"),
    "concat by another rule": (lambda: tr.RankingData.concat([data()], repeated="merge"), "repeated: found 'merge'; expected 'error' or 'separate'"),
    "concat of nothing": (lambda: tr.RankingData.concat([]), "parts: found an empty list; expected at least one data set"),
    "concat of unlike widths": (lambda: tr.RankingData.concat([data(), data().with_n_features(5)]), "parts: part 1 has 5 features; expected 2, as part 0 has"),
    "concat with a repeated qid": (lambda: tr.RankingData.concat([data(), data()]), "parts: qid 0 is in more than one place; expected distinct ids (repeated='separate' keeps both)"),
    "fewer columns than there are": (lambda: data().with_n_features(1), "n_features: found 1; expected at least the 2 features there are"),
    "no files": (lambda: tr.read_letor([]), "paths: found an empty list; expected at least one file"),
    "n_features 0": (lambda: tr.read_letor("x", n_features=0), "n_features: found 0; expected a whole number of at least 1"),
    "sparse maybe": (lambda: tr.read_letor("x", sparse="maybe"), "sparse: found 'maybe'; expected True, False or 'auto'"),
    "n_jobs 0": (lambda: tr.read_letor("x", n_jobs=0), "n_jobs: found 0; expected a whole number of at least 1, or -1 for all cores"),
    "simulate nothing": (lambda: tr.simulate.simulate_web_search(0), "n_queries: found 0; expected a whole number of at least 1"),
}  # fmt: skip


def named(name: str) -> tr.RankingData:
    return tr.RankingData.from_arrays([[0.0]], [0], group=[1], feature_names=[name])


def data() -> tr.RankingData:
    return tr.RankingData.from_arrays(OK, [0, 1, 2], group=[1, 1, 1])


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls(case):
    call, sentence = CALLS[case]
    with pytest.raises(TautrankError) as caught:
        call()
    assert str(caught.value) == sentence
    assert isinstance(caught.value, ValueError)


def test_column_of_text_in_a_frame():
    import polars as pl
    import pyarrow as pa

    text = {"t": ["x"]}
    frames = (
        (pd.DataFrame(text), "(str|object)"),
        (pl.DataFrame(text), "String"),
        (pa.table(text), "string"),
    )
    for frame, dtype in frames:
        with pytest.raises(
            TautrankError, match=f"^X: column 't' has the type {dtype}; expected numbers$"
        ):
            tr.RankingData.from_arrays(frame, [0], group=[1])


def test_index_beyond_a_fixed_width(tmp_path):
    file = Path(tmp_path / "a")
    file.write_text("1 qid:1 5:1\n")
    with pytest.raises(TautrankError) as caught:
        tr.read_letor(file, n_features=4)
    assert (
        str(caught.value) == f"{file}:1: found feature index 5; expected at most 4 (n_features=4)"
    )


def test_scattered_rows_are_said_once_on_the_command_line(tmp_path, capsys):
    file = tmp_path / "a.txt"
    file.write_text("1 qid:1 1:1\n0 qid:2 1:1\n2 qid:1 1:1\n")
    scores = tmp_path / "s.txt"
    scores.write_text("3\n2\n1\n")
    code, out, err = run(capsys, "evaluate", file, "--scores", scores, "-m", "ndcg", "--json")
    assert code == 0
    assert (
        err
        == f"note: {file}: rows of 1 query are scattered (the first is qid 1); gathered, in the order they appear\n"
    )
    # qid 1 has labels 1, 2 with scores 3, 1: the second score belongs to qid 2, not to the second
    # document of qid 1.
    ndcg = (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))
    assert f'"mean": {ndcg}' in out


NO_PATH = "path: found 3; expected the path of a file"
NOT_OF_THE_KIND = {
    "a number of a file": (lambda data: tr.read_letor(3), NO_PATH),
    "bytes for a path": (lambda data: tr.read_letor(b"x"), "path: found b'x'; expected the path of a file"),
    "a number among paths": (lambda data: tr.read_letor(["a.txt", 3]), NO_PATH),
    "a number of a table": (lambda data: tr.data.read_csv(3), NO_PATH),
    "a number of a stream": (lambda data: tr.data.read_streamed(3), NO_PATH),
    "a number of qrels": (lambda data: tr.data.read_qrels(3), NO_PATH),
    "no folder": (lambda data: tr.data.read_folder(None), "path: found None; expected the path of a file"),
    "written nowhere": (lambda data: tr.data.write_letor(data, 3), NO_PATH),
    "nothing to write": (lambda data: tr.data.write_letor(None, "z.txt"), "data: found NoneType; expected RankingData"),
    "joined with a number": (lambda data: tr.RankingData.concat([data, 3]), r"parts\[1\]: found int; expected Rank"),
    "shares of text": (lambda data: data.split("a"), "fractions: found an array of shape"),
    "one share": (lambda data: data.split(0.5), "fractions: found an array of shape"),
    "one name twice": (
        lambda data: tr.RankingData.from_arrays([[1.0, 2.0]], [1], group=[1], feature_names=["a", "a"]),
        "feature_names: found two columns 'a'; expected every name once",
    ),
    "a width of text": (lambda data: data.with_n_features("a"), "n_features: found 'a'; expected a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_OF_THE_KIND)
def test_things_of_another_kind(case):
    call, sentence = NOT_OF_THE_KIND[case]
    with pytest.raises(TautrankError, match=sentence):
        call(tr.RankingData.from_arrays([[1.0], [2.0]], [0, 1], group=[2]))
