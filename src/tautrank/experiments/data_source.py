"""The data of an experiment: a folder, files, or synthetic data by name; or data in memory."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tautrank.arguments import choice
from tautrank.data import RankingData, Splits, list_folds, read_folder
from tautrank.data.columns import same_columns
from tautrank.data.reading import read
from tautrank.engines.binned import content_key
from tautrank.errors import DataError, OptionError
from tautrank.simulate import five_documents, simulate_web_search

NONE, FIVE_DOCUMENTS, SIMULATED, MEMORY = "none", "five-documents", "simulated", "memory"
SHAPES = {"mslr": "mslr", "yahoo": "yahoo", "simple": None}
_EXAMPLE = "a folder, a file, or simulated:mslr:200"


@dataclass(frozen=True)
class DataSource:
    """Where data comes from; reading it twice gives the same.

    Args:
        given: the user's words: ``none``, ``five-documents``, ``simulated:SHAPE:QUERIES`` (followed
            by ``,seed=1`` and other parameters of `simulate_web_search`), a folder, a file, or
            training and test files with the validation file between them; ``memory`` for `held`.
        fold: the only fold (or set) of a folder to use; None for all.
        held: data in memory, one split per fold.

    >>> read_source("simulated:mslr:30,mean_length=5").read()
    RankingData(30 queries, ... documents, 136 features)
    """

    given: tuple[str, ...]
    fold: int | None = None
    held: tuple[Splits, ...] = field(default=(), repr=False, compare=False)

    def folds(self) -> list[int]:
        """Return the numbers of the folds of a folder, or of the splits in memory; [1] for other
        data.

        `held` are splits in memory, `given` the paths or the name that the user gave, and `fold`
        the fold that was asked for, if any.
        """
        # A single fold was asked for.
        if self.fold is not None:
            return [self.fold]
        if self.held:
            return list(range(1, len(self.held) + 1))
        if Path(self.given[0]).is_dir():
            # A folder without numbered subfolders holds one fold.
            return list_folds(self.given[0]) or [1]
        return [1]

    def read(self, fold: int = 1) -> RankingData | Splits | None:
        """Read one fold of the data: all queries in one piece, or in training, validation and test
        parts where the data has them; None for the source ``none``.

        `held` are splits in memory; `given` are paths of files or a folder, or the name of made-up
        data such as ``simulated:mslr:200``.

        Args:
            fold: the number of the fold, from 1.
        """
        if self.held:
            return self.held[fold - 1]
        if len(self.given) > 1:
            return _read_files([Path(path) for path in self.given])
        name = self.given[0]
        if name == NONE:
            return None
        if name == FIVE_DOCUMENTS:
            return five_documents()
        if name.startswith(f"{SIMULATED}:"):
            simulated: RankingData = simulate_web_search(**_simulation_arguments(name))
            return simulated
        path = Path(name)
        return read_folder(name, fold) if path.is_dir() else read(path)


def _read_files(paths: Sequence[Path]) -> Splits:
    """Read two files as training and test data, or three as training, validation and test data; all
    get the same columns of features.
    """
    data_sets = [read(path) for path in paths]
    parts = same_columns(data_sets, paths)
    # The last file has the test data, and the middle one of three the validation data.
    valid = parts[1] if len(parts) == 3 else None
    return Splits(parts[0], valid, parts[-1])


def read_source(names: str | Sequence[str], fold: int | None = None) -> DataSource:
    """Check the name of some data before anything is read.

    Args:
        names: one name, or several files.
        fold: the only fold (or set) of a folder to use; None for all.

    >>> read_source("simulated:mslr:200").folds()
    [1]
    >>> read_source("simulated:mlsr:200")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown shape of simulated data 'mlsr'; did you mean 'mslr'? (known: mslr, simple, ...)
    """
    texts = (names,) if isinstance(names, str) else tuple(names)
    is_one_folder = len(texts) == 1 and Path(texts[0]).expanduser().is_dir()
    if fold is not None and not is_one_folder:
        raise OptionError(
            f"--fold: found {fold} for {', '.join(texts)}; expected a folder with folds"
        )
    if not 1 <= len(texts) <= 3:
        raise OptionError(
            f"--data: found {len(texts)} names;"
            f" expected {_EXAMPLE}, or training, validation and test files"
        )
    if len(texts) == 1 and _is_synthetic(texts[0]):
        return DataSource(texts)
    absolute_paths = []
    for text in texts:
        path = Path(text).expanduser()
        if not path.exists():
            raise DataError(_missing_file_text(text, path))
        absolute_paths.append(str(path.resolve()))
    return DataSource(tuple(absolute_paths), fold)


def _is_synthetic(name: str) -> bool:
    """Return whether a name stands for synthetic data, or for no data, rather than for a file.

    The parameters of simulated data, as in ``simulated:mslr:200``, are checked on the way.
    """
    first_word = name.partition(":")[0]
    if first_word == SIMULATED:
        _simulation_arguments(name)
        return True
    return name in (NONE, FIVE_DOCUMENTS)


def fingerprint_of(data: RankingData | Splits | None) -> str:
    """Return a hash of the features, labels and queries of some data, by which stored results find
    out that the data has changed.

    Args:
        data: in one piece or in parts; None for no data.

    >>> fingerprint_of(None)
    'none'
    """
    if data is None:
        return NONE
    if isinstance(data, RankingData):
        data = Splits(data, None, data.subset([]))
    return content_key(data)


def _simulation_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of `simulate_web_search` that a text such as
    ``simulated:mslr:200,seed=1`` stands for: the number of queries, the shape, and more by name.
    """
    problem = (
        f"--data: found '{text}'; expected simulated:SHAPE:QUERIES, such as simulated:mslr:200"
    )
    # The text is SIMULATED:SHAPE:QUERIES,NAME=VALUE,...: cut it at the colons, then at the commas.
    shape_and_size = text.partition(":")[2]
    shape, colon, size_and_options = shape_and_size.partition(":")
    if shape:
        choice("shape of simulated data", shape, SHAPES)
    size, *options = size_and_options.split(",")
    is_size = size.isdecimal() and int(size) >= 1
    if not colon or not is_size:
        raise OptionError(problem)

    arguments: dict[str, Any] = {"n_queries": int(size), "like": SHAPES[shape]}
    option_names = ("seed", "n_features", "mean_length", "noise")
    for option in options:
        name, _equals, value = option.partition("=")
        choice("parameter of simulated data", name, option_names)
        try:
            arguments[name] = json.loads(value)
        except ValueError:
            raise OptionError(f"{problem} (followed by ,{name}=NUMBER)") from None
    return arguments


def _missing_file_text(text: str, path: Path) -> str:
    """Return the error message about a file or folder that does not exist, with a guess at what the
    user meant: synthetic data or a file of a similar name.

    Args:
        text: what the user typed.
        path: the path that it stands for.
    """
    word = text.partition(":")[0]
    guesses = []
    for name in difflib.get_close_matches(word.lower(), (SIMULATED, FIVE_DOCUMENTS), n=1):
        # What follows a misspelt name, such as ":mslr:200", stays.
        guesses.append(name + text.removeprefix(word))
    if path.parent.is_dir():
        neighbours = [neighbour.name for neighbour in path.parent.iterdir()]
        for name in difflib.get_close_matches(path.name, neighbours, n=1):
            guesses.append(str(path.parent / name))
    hint = f"; did you mean '{guesses[0]}'?" if guesses else ""
    return f"--data: found no file or folder '{text}'{hint}; expected {_EXAMPLE}"
