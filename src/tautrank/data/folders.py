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

    parts = [part for part in (train, valid, test) if part is not None]
    width = max(part.n_features for part in parts)
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
    for folder in _folders_to_search(path_of(path)):
        fold_numbers = _numbers_in_names(folder, r"[Ff]old(\d+)")
        if fold_numbers:
            return fold_numbers
        set_numbers = _numbers_in_names(folder, r"set(\d+)\.train\.txt(?:\.\w+)?")
        if set_numbers:
            return set_numbers
        if _find_five_parts(folder, "S") or _find_five_parts(folder, "part"):
            return list(range(1, _PARTS + 1))
        if _find_file(folder, "train"):
            return [1]
    return []


class _Files(NamedTuple):
    """The files of the three parts of a split; none of `valid` where there is none."""

    train: list[Path]
    valid: list[Path]
    test: list[Path]


def _files_of_fold(root: Path, fold: int) -> _Files:
    """Return the training, validation and test files of a fold, searched in a data set's folder and
    the folders in it; if none are complete, raise an error that says which folds there are.
    """
    # Published data sets have different layouts; a layout that the folder does not have gives None.
    for folder in _folders_to_search(root):
        for files in _find_in_each_layout(folder, fold):
            if files is not None:
                return files
    folds = list_folds(root)
    if folds:
        listed = ", ".join(str(number) for number in folds)
        raise DataError(f"{root}: found no complete fold {fold}; expected one of: {listed}")
    raise DataError(f"{root}: found no known data set; expected {_EXPECTED}")


def _folders_to_search(root: Path) -> list[Path]:
    """Return a data set's folder, then the folders in it except folds: archives often unpack to one
    more level.
    """
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
    """Return the numbers in file names such as ``Fold3``, sorted.

    Args:
        folder: folder whose files and folders are looked at.
        pattern: regular expression of a whole name; its first group is the number.
    """
    numbers = set()
    for path in folder.iterdir():
        match = re.fullmatch(pattern, path.name)
        if match:
            numbers.add(int(match[1]))
    return sorted(numbers)


def _find_in_each_layout(folder: Path, fold: int) -> Iterator[_Files | None]:
    """Look for a fold in every layout of published data sets (``Fold1/``, ``set1.train.txt``,
    ``S1.txt`` ...), and yield its files, or None for a layout that the folder does not have.
    """
    yield _find_three_files(folder / f"Fold{fold}")
    yield _find_three_files(folder / f"fold{fold}")
    yield _find_three_files(folder, f"set{fold}.")
    # LETOR 4.0: five files counted round from number `fold`: three to train on, one to validate on
    # and one to test on.
    parts = _find_five_parts(folder, "S", first=fold)
    if parts:
        yield _Files(train=parts[:3], valid=parts[3:4], test=parts[4:])
    # Other data in five parts: fold i tests on part i and validates on the one after it.
    parts = _find_five_parts(folder, "part", first=fold)
    if parts:
        yield _Files(train=parts[2:], valid=parts[1:2], test=parts[:1])
    # A folder without folds has one split, which counts as fold 1.
    if fold == 1:
        yield _find_three_files(folder)


def _find_three_files(folder: Path, prefix: str = "") -> _Files | None:
    """Return the files ``train.txt``, ``test.txt`` and, if there is one, ``vali.txt``; None if
    training or test data is missing.

    Args:
        folder: where to look.
        prefix: what the names begin with, such as ``set1.``.
    """
    train = _find_file(folder, f"{prefix}train")
    test = _find_file(folder, f"{prefix}test")
    if train is None or test is None:
        return None
    names_of_valid = [prefix + name for name in _VALIDATION_NAMES]
    valid = _find_file(folder, *names_of_valid)
    return _Files(train=[train], valid=[] if valid is None else [valid], test=[test])


def _find_five_parts(folder: Path, stem: str, first: int = 1) -> list[Path]:
    """Return five files such as S3, S4, S5, S1, S2: starting at number `first`, and counting round
    after 5; an empty list if one of them is missing.

    Args:
        folder: where to look.
        stem: what the names begin with, such as ``S``.
        first: number of the first file.
    """
    if not 1 <= first <= _PARTS:
        return []
    parts = []
    for position in range(_PARTS):
        number = (first - 1 + position) % _PARTS + 1  # numbers count from 1
        file = _find_file(folder, f"{stem}{number}")
        if file is None:
            return []
        parts.append(file)
    return parts


def _find_file(folder: Path, *stems: str) -> Path | None:
    """Return the first text file that exists of these names, compressed or not; None if none does.

    Args:
        folder: where to look.
        stems: names without the ending ``.txt``.
    """
    candidates = []
    for stem in stems:
        for ending in ("", *COMPRESSED_ENDINGS):
            candidates.append(folder / f"{stem}.txt{ending}")
    return first_file(candidates)
