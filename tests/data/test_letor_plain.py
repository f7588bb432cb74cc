"""Small regular text is read without the compiler, and exactly as by the compiled reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tautrank.data import letor
from tautrank.data.letor import read_letor
from tautrank.data.letor_options import LetorOptions
from tautrank.data.letor_plain import SMALL, read_plain


def _by(
    reader: str, file: Path, monkeypatch: pytest.MonkeyPatch, **options: object
) -> tuple[list[object], bool]:
    used = []

    def plain(*given: object) -> object:
        found = read_plain(*given) if reader == "plain" else None  # type: ignore[arg-type]
        used.append(found is not None)
        return found

    monkeypatch.setattr(letor, "read_plain", plain)
    monkeypatch.setattr(letor, "_has_compiler", lambda: False)
    data = read_letor(file, **options)  # type: ignore[arg-type]
    monkeypatch.undo()
    arrays = [np.asarray(data.X), data.labels, data.offsets, data.qids, data.doc_ids]
    return [a if a is None else (a.dtype.str, a.shape, a.tobytes()) for a in arrays], any(used)


def _text(seed: int, ids: bool) -> str:
    draw = np.random.default_rng(seed)
    lines = []
    for qid in draw.permutation(12):
        for document in range(draw.integers(1, 6)):
            columns = np.flatnonzero(draw.random(9) < 0.7) + 1
            numbers = draw.standard_normal(columns.size) * 10.0 ** draw.integers(
                -30, 6, columns.size
            )
            kinds = (repr, "{:.6f}".format, "{:.3e}".format, "{:.0f}".format)
            features = "".join(
                f" {at}:{kinds[draw.integers(4)](float(x))}"
                for at, x in zip(columns, numbers, strict=True)
            )
            comment = f" #docid = G{qid}-{document} inc = 1" if ids else ""
            lines.append(f"{draw.integers(0, 5)} qid:{qid}{features}{comment}\n")
    return "".join(lines)


@pytest.mark.parametrize("seed", range(8))
def test_it_reads_the_same_bits_as_the_compiled_reader(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text(
        _text(seed, ids=seed % 2 == 0)[: -1 if seed % 3 else None],
        newline="\r\n" if seed > 5 else "\n",
    )
    found, plainly = _by("plain", file, monkeypatch)
    assert plainly
    assert found == _by("compiled", file, monkeypatch)[0]


@pytest.mark.parametrize(
    "line",
    [
        "1 qid:2 2:0.5 1:3", "1 qid:2 1:0.5 1:3", "1 qid:2 0:1", "1 qid:2 7:nan", "1 qid:2 1:inf", "1 qid:2 1:1e39",
        "-1 qid:2 1:1", "1 qid:2 1:123456789.5", "1 qid:2  1:4", "# comment", "1 qid:2 1:4 # word", "1 qid: 1:2",
        "1 1:2", "1 qid:2 1000001:1",
        "1 qid:2 1:+4", "1 qid:2 1:.5", "1 qid:2 1:4#docid = a b\0", "1 qid:2 900000:1\n1 qid:3 1:1",
    ],
)  # fmt: skip
def test_it_leaves_the_rest_to_the_compiled_reader(line: str, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    lines = ["1 qid:2 1:0.5\n"] * 20 + [line + "\n"] + ["1 qid:2 1:0.5\n"] * 20
    file.write_text("".join(lines))
    assert read_plain(file, LetorOptions()) is None


def test_options_hold_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("1 qid:2 0:0.5 3:1\n0 qid:2 2:0.5\n")
    for options in ({"zero_based": True}, {"zero_based": True, "n_features": 6}):
        found, plainly = _by("plain", file, monkeypatch, **options)
        assert plainly
        assert found == _by("compiled", file, monkeypatch, **options)[0]
    assert read_plain(file, LetorOptions(max_features=10)) is None
    assert read_plain(file, LetorOptions(max_features=3, zero_based=True)) is None


def test_a_large_or_compressed_file_is_not_small(tmp_path: Path) -> None:
    import gzip

    file = tmp_path / "a.txt.gz"
    file.write_bytes(gzip.compress(b"1 qid:2 1:0.5\n" * (SMALL // 14 + 1)))
    assert read_plain(file, LetorOptions(max_features=10)) is None
