"""Read the folders of published data sets as they are unpacked: MSLR, LETOR 4.0, OHSUMED, Yahoo!
and Istella.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tautrank.data.letor import read_letor
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import COMPRESSED_ENDINGS, first_file
from tautrank.errors import DataError
from tautrank.files import PathLike, path_of

_VALIDATION_NAMES = ("vali", "valid", "validation")
_PARTS = 5
_EXPECTED = "Fold1/, set1.train.txt, S1.txt to S5.txt, part1.txt to part5.txt or train.txt in it"


class Splits(NamedTuple):
    """The three parts of a published split; `valid` is None where the data set has none (Istella's
    full set).
    """

    train: RankingData
    valid: RankingData | None
    test: RankingData


def read_folder(path: PathLike, fold: int = 1, **options: Any) -> Splits:
    """Read one published split of a data set from the folder it was unpacked to.

    Known layouts, compressed or not, in the folder itself or one folder below it:

    ========================== =====================================================================
    MSLR-WEB10K/30K, LETOR     ``Fold1/{train,vali,test}.txt``; `fold` picks the folder
    LETOR 4.0 parts            ``S1.txt`` .. ``S5.txt``: fold i trains on S(i), S(i+1), S(i+2),
                               validates on S(i+3) and tests on S(i+4), counting round after 5, as
                               published
    other data in five parts   ``part1.txt`` .. ``part5.txt``: fold i tests on part i, validates on
                               the one after it and trains on the other three
    Yahoo! LTRC                ``set1.{train,valid,test}.txt``; `fold` picks the set
    Istella                    ``train.txt``, ``test.txt`` and, where there is one, ``vali.txt``
    ========================== =====================================================================

    The three parts get the same number of columns.

    Args:
        path: the folder.
        fold: number of the fold (or set).
        options: options of `read_letor`.

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "Fold1").mkdir()
    >>> for name in ("train", "vali", "test"):
    ...     _ = (root / "Fold1" / f"{name}.txt").write_text("1 qid:1 1:0.5\\n")
    >>> read_folder(root).train
    RankingData(1 queries, 1 documents, 1 features)
    """
    files = _files_of_fold(path_of(path), fold)
    train = read_letor(files.train, **options)
    valid = read_letor(files.valid, **options) if files.valid else None
    test = read_letor(files.test, **options)

    width = max(part.n_features for part in (train, valid, test) if part is not None)
    return Splits(
        train.with_n_features(width),
        None if valid is None else valid.with_n_features(width),
        test.with_n_features(width),
    )


def list_folds(path: PathLike) -> list[int]:
    """Return the numbers of the folds (or sets) a folder holds, as `read_folder` takes them.

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = [(root / f"Fold{i}").mkdir() for i in (1, 2)]
    >>> list_folds(root)
    [1, 2]
    """
    for folder in _candidates(path_of(path)):
        numbers = _numbers_in_names(folder, r"[Ff]old(\d+)")
        if not numbers:
            numbers = _numbers_in_names(folder, r"set(\d+)\.train\.txt(?:\.\w+)?")
        if numbers:
            return numbers
        if _five_parts(folder, "S") or _five_parts(folder, "part"):
            return list(range(1, _PARTS + 1))
        if _file(folder, "train"):
            return [1]
    return []


class _Files(NamedTuple):
    """The files of the three parts of a split; none of `valid` where there is none."""

    train: list[Path]
    valid: list[Path]
    test: list[Path]


def _files_of_fold(root: Path, fold: int) -> _Files:
    """Return the files of a fold, found in the folder itself or one below it."""
    for folder in _candidates(root):
        for files in _layouts(folder, fold):
            if files is not None:
                return files
    folds = list_folds(root)
    if folds:
        listed = ", ".join(str(number) for number in folds)
        raise DataError(f"{root}: found no complete fold {fold}; expected one of: {listed}")
    raise DataError(f"{root}: found no known data set; expected {_EXPECTED}")


def _candidates(root: Path) -> list[Path]:
    """Return the folder itself, then the folders in it: archives often unpack to one more level."""
    try:
        paths = sorted(root.iterdir())
    except OSError as error:
        raise DataError(
            f"{root}: cannot be listed ({error.strerror}); expected {_EXPECTED}"
        ) from None
    folders = [root]
    for path in paths:
        is_fold = re.fullmatch(r"[Ff]old\d+", path.name)
        if path.is_dir() and not is_fold:
            folders.append(path)
    return folders


def _numbers_in_names(folder: Path, pattern: str) -> list[int]:
    """Return the numbers in the names of files that have a pattern."""
    numbers = set()
    for path in folder.iterdir():
        match = re.fullmatch(pattern, path.name)
        if match:
            numbers.add(int(match[1]))
    return sorted(numbers)


def _layouts(folder: Path, fold: int) -> Iterator[_Files | None]:
    """Yield the files of a fold in each layout of `read_folder`; None where the folder has another
    layout.
    """
    yield _three_files(folder / f"Fold{fold}")
    yield _three_files(folder / f"fold{fold}")
    yield _three_files(folder, f"set{fold}.")
    parts = _five_parts(folder, "S", first=fold)
    if parts:
        yield _Files(train=parts[:3], valid=parts[3:4], test=parts[4:])
    parts = _five_parts(folder, "part", first=fold)
    if parts:
        yield _Files(train=parts[2:], valid=parts[1:2], test=parts[:1])
    if fold == 1:
        yield _three_files(folder)


def _three_files(folder: Path, prefix: str = "") -> _Files | None:
    """Return the files called train, test and perhaps validation; None if one of the first two is
    missing.
    """
    train = _file(folder, f"{prefix}train")
    test = _file(folder, f"{prefix}test")
    if train is None or test is None:
        return None
    valid = _file(folder, *(prefix + name for name in _VALIDATION_NAMES))
    return _Files(train=[train], valid=[] if valid is None else [valid], test=[test])


def _five_parts(folder: Path, stem: str, first: int = 1) -> list[Path]:
    """Return the five parts of that name, starting at `first` and wrapping around; none if one is
    missing.
    """
    if not 1 <= first <= _PARTS:
        return []
    parts = []
    for i in range(_PARTS):
        number = (first - 1 + i) % _PARTS + 1
        file = _file(folder, f"{stem}{number}")
        if file is None:
            return []
        parts.append(file)
    return parts


def _file(folder: Path, *stems: str) -> Path | None:
    """Return the first text file of these names, compressed or not."""
    endings = ("", *COMPRESSED_ENDINGS)
    return first_file(folder / f"{stem}.txt{ending}" for stem in stems for ending in endings)
