"""Data sets as they are unpacked: the layouts that are known, and what is said of others."""

from __future__ import annotations

import gzip

import pytest

import tautrank as tr
from tautrank.errors import DataError


def lines(first_qid: int, queries: int, width: int) -> str:
    return "".join(f"{q % 3} qid:{first_qid + q} {width}:1\n" for q in range(queries))


@pytest.mark.parametrize(
    ("names", "sizes"),
    [
        (["Fold2/train.txt", "Fold2/vali.txt", "Fold2/test.txt"], (3, 1, 2)),
        (
            [
                "MSLR-WEB10K/Fold2/train.txt",
                "MSLR-WEB10K/Fold2/vali.txt",
                "MSLR-WEB10K/Fold2/test.txt",
            ],
            (3, 1, 2),
        ),
        (["set2.train.txt", "set2.valid.txt", "set2.test.txt"], (3, 1, 2)),
        (["Fold2/train.txt.gz", "Fold2/vali.txt.gz", "Fold2/test.txt.gz"], (3, 1, 2)),
    ],
)
def test_published_layouts(tmp_path, names, sizes):
    for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = lines(10 * i, size, width=3 - i).encode()
        file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    splits = tr.data.read_folder(tmp_path, fold=2)
    assert tuple(part.n_queries for part in splits) == sizes
    assert [part.n_features for part in splits] == [3, 3, 3]  # the widest decides
    assert tr.data.list_folds(tmp_path) == [2]


def test_istella_full_has_no_validation_part(tmp_path):
    (tmp_path / "train.txt").write_text(lines(0, 3, 2))
    (tmp_path / "test.txt").write_text(lines(5, 2, 2))
    splits = tr.data.read_folder(tmp_path)
    assert splits.valid is None
    assert (splits.train.n_queries, splits.test.n_queries) == (3, 2)


def test_letor_parts_make_the_published_folds(tmp_path):
    for i in range(1, 6):
        (tmp_path / f"S{i}.txt").write_text(f"1 qid:{i} 1:1\n")
    for fold, (train, valid, test) in {1: ([1, 2, 3], [4], [5]), 4: ([4, 5, 1], [2], [3])}.items():
        splits = tr.data.read_folder(tmp_path, fold)
        assert [part.qids.tolist() for part in splits] == [train, valid, test]
    assert tr.data.list_folds(tmp_path) == [1, 2, 3, 4, 5]


def test_folder_errors(tmp_path):
    with pytest.raises(
        DataError, match=r"absent: cannot be listed \(No such file or directory\); expected Fold1/"
    ):
        tr.data.read_folder(tmp_path / "absent")
    with pytest.raises(DataError, match=r"found no known data set; expected Fold1/"):
        tr.data.read_folder(tmp_path)
    (tmp_path / "Fold1").mkdir()
    (tmp_path / "Fold1" / "train.txt").write_text("1 qid:1 1:1\n")
    (tmp_path / "Fold1" / "test.txt").write_text("1 qid:2 1:1\n")
    with pytest.raises(DataError, match=r"found no complete fold 7; expected one of: 1"):
        tr.data.read_folder(tmp_path, 7)


def test_the_folds_of_a_folder(tmp_path):
    assert tr.data.list_folds(tmp_path) == []
    (tmp_path / "train.txt").write_text("1 qid:1 1:1\n")
    assert tr.data.list_folds(tmp_path) == [1]
    for part in range(1, 6):
        (tmp_path / f"part{part}.txt").write_text(f"1 qid:{part} 1:1\n")
    assert tr.data.list_folds(tmp_path) == [1, 2, 3, 4, 5]
    with pytest.raises(DataError, match=r"absent: cannot be listed \("):
        tr.data.list_folds(tmp_path / "absent")
