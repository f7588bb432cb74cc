"""Read the folders of published data sets as they are unpacked: MSLR, LETOR 4.0, OHSUMED, Yahoo!
and Istella.
"""

from __future__ import annotations

import itertools
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
    LETOR 4.0 parts            ``S1.txt`` .. ``S5.txt``: fold i trains on S(i), S(i+1), S(i+2), validates on S(i+3)
                               and tests on S(i+4), counting round after 5, as published
    other data in five parts   ``part1.txt`` .. ``part5.txt``: fold i tests on part i, validates on the one after it
                               and trains on the other three
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
    root = path_of(path)
    files = _find(root, fold)
    parts = [read_letor(part, **options) for part in files if part]
    width = max(part.n_features for part in parts)
    train, *valid, test = (part.with_n_features(width) for part in parts)
    return Splits(train, valid[0] if valid else None, test)


def list_folds(path: PathLike) -> list[int]:
    """Return the numbers of the folds (or sets) a folder holds, as `read_folder` takes them.

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = [(root / f"Fold{i}").mkdir() for i in (1, 2)]
    >>> list_folds(root)
    [1, 2]
    """
    for folder in _candidates(path_of(path)):
        found = _numbers(folder, r"[Ff]old(\d+)") or _numbers(
            folder, r"set(\d+)\.train\.txt(?:\.\w+)?"
        )
        if found:
            return found
        if _numbered(folder, "S") or _numbered(folder, "part"):
            return list(range(1, _PARTS + 1))
        if _file(folder, "train"):
            return [1]
    return []


Files = tuple[list[Path], list[Path], list[Path]]


def _find(root: Path, fold: int) -> Files:
    for files in itertools.chain.from_iterable(
        _layouts(folder, fold) for folder in _candidates(root)
    ):
        if files:
            return files
    if folds := list_folds(root):
        raise DataError(
            f"{root}: found no complete fold {fold}; expected one of: {', '.join(map(str, folds))}"
        )
    raise DataError(f"{root}: found no known data set; expected {_EXPECTED}")


def _candidates(root: Path) -> list[Path]:
    """Return the folder itself, then the folders in it: archives often unpack to one more level."""
    try:
        return [
            root,
            *sorted(
                p for p in root.iterdir() if p.is_dir() and not re.fullmatch(r"[Ff]old\d+", p.name)
            ),
        ]
    except OSError as error:
        raise DataError(
            f"{root}: cannot be listed ({error.strerror}); expected {_EXPECTED}"
        ) from None


def _numbers(folder: Path, pattern: str) -> list[int]:
    matches = (re.fullmatch(pattern, p.name) for p in folder.iterdir())
    return sorted({int(match.group(1)) for match in matches if match})


def _file(folder: Path, *stems: str) -> Path | None:
    return first_file(
        folder / f"{stem}.txt{suffix}" for stem in stems for suffix in ("", *COMPRESSED_ENDINGS)
    )


def _triple(folder: Path, prefix: str = "") -> Files | None:
    train, test = _file(folder, f"{prefix}train"), _file(folder, f"{prefix}test")
    if train is None or test is None:
        return None
    valid = _file(folder, *(prefix + name for name in _VALIDATION_NAMES))
    return [train], [valid] if valid else [], [test]


def _layouts(folder: Path, fold: int) -> Iterator[Files | None]:
    """Yield the files of a fold in each layout of `read_folder`; None where the folder has another
    layout.
    """
    for name in (f"Fold{fold}", f"fold{fold}"):
        yield _triple(folder / name)
    yield _triple(folder, f"set{fold}.")
    published = _numbered(folder, "S", first=fold)
    yield (published[:3], published[3:4], published[4:]) if published else None
    other = _numbered(folder, "part", first=fold)
    yield (other[2:], other[1:2], other[:1]) if other else None
    yield _triple(folder) if fold == 1 else None


def _numbered(folder: Path, stem: str, first: int = 1) -> list[Path]:
    """Return the five parts of that name, starting at `first` and wrapping around; none if one is
    missing.
    """
    found = [_file(folder, f"{stem}{(first - 1 + i) % _PARTS + 1}") for i in range(_PARTS)]
    files = [file for file in found if file is not None]
    return files if len(files) == _PARTS and 1 <= first <= _PARTS else []
