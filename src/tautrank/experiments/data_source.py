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
        """The numbers of the folds of a folder, or of the splits in memory; [1] for other data."""
        if self.fold is not None:
            return [self.fold]
        if self.held:
            return list(range(1, len(self.held) + 1))
        return (list_folds(self.given[0]) if Path(self.given[0]).is_dir() else []) or [1]

    def read(self, fold: int = 1) -> RankingData | Splits | None:
        """Return the data as it comes, in one piece or in three parts; None for ``none``.

        Args:
            fold: the number of the fold.
        """
        if self.held:
            return self.held[fold - 1]
        text, paths = self.given[0], [Path(path) for path in self.given]
        if len(paths) > 1:
            parts = same_columns([read(path) for path in paths], paths)
            return Splits(parts[0], parts[1] if len(parts) == 3 else None, parts[-1])
        if text == NONE:
            return None
        if text == FIVE_DOCUMENTS:
            return five_documents()
        if text.startswith(f"{SIMULATED}:"):
            made: RankingData = simulate_web_search(**_simulation(text))
            return made
        return read_folder(text, fold) if paths[0].is_dir() else read(paths[0])


def read_source(given: str | Sequence[str], fold: int | None = None) -> DataSource:
    """Check the name of some data before anything is read.

    Args:
        given: one name, or several files.
        fold: the only fold (or set) of a folder to use; None for all.

    >>> read_source("simulated:mslr:200").folds()
    [1]
    >>> read_source("simulated:mlsr:200")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown shape of simulated data 'mlsr'; did you mean 'mslr'? (known: mslr, simple, ...)
    """
    texts = (given,) if isinstance(given, str) else tuple(given)
    if fold is not None and not (len(texts) == 1 and Path(texts[0]).expanduser().is_dir()):
        raise OptionError(
            f"--fold: found {fold} for {', '.join(texts)}; expected a folder with folds"
        )
    if not 1 <= len(texts) <= 3:
        expected = f"{_EXAMPLE}, or training, validation and test files"
        raise OptionError(f"--data: found {len(texts)} names; expected {expected}")
    is_simulated = texts[0].partition(":")[0] == SIMULATED
    if len(texts) == 1 and (is_simulated or texts[0] in (NONE, FIVE_DOCUMENTS)):
        if is_simulated:
            _simulation(texts[0])
        return DataSource(texts)
    paths = [Path(text).expanduser() for text in texts]
    for text, path in zip(texts, paths, strict=True):
        if not path.exists():
            raise DataError(_not_there(text, path))
    return DataSource(tuple(str(path.resolve()) for path in paths), fold)


def fingerprint_of(data: RankingData | Splits | None) -> str:
    """Return a hash of everything in some data, so that changed data does not get old results.

    Args:
        data: in one piece or in parts; None for no data.

    >>> fingerprint_of(None)
    'none'
    """
    if data is None:
        return NONE
    return content_key(data if isinstance(data, Splits) else Splits(data, None, data.subset([])))


def _simulation(text: str) -> dict[str, Any]:
    """The arguments of `simulate_web_search` in ``simulated:mslr:200,seed=1``."""
    where = f"--data: found '{text}'; expected simulated:SHAPE:QUERIES, such as simulated:mslr:200"
    shape, colon, rest = text.partition(":")[2].partition(":")
    if shape:
        choice("shape of simulated data", shape, SHAPES)
    number, *options = rest.split(",")
    if not colon or not number.isdecimal() or int(number) < 1:
        raise OptionError(where)
    given: dict[str, Any] = {"n_queries": int(number), "like": SHAPES[shape]}
    for option in options:
        name, _, value = option.partition("=")
        choice("parameter of simulated data", name, ("seed", "n_features", "mean_length", "noise"))
        try:
            given[name] = json.loads(value)
        except ValueError:
            raise OptionError(f"{where} (followed by ,{name}=NUMBER)") from None
    return given


def _not_there(text: str, path: Path) -> str:
    word = text.partition(":")[0]
    beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    words = difflib.get_close_matches(word.lower(), (SIMULATED, FIVE_DOCUMENTS), n=1)
    guesses = [f"{known}{text[len(word) :]}" for known in words]
    guesses += [
        str(path.parent / name) for name in difflib.get_close_matches(path.name, beside, n=1)
    ]
    hint = f"; did you mean '{guesses[0]}'?" if guesses else ""
    return f"--data: found no file or folder '{text}'{hint}; expected {_EXAMPLE}"
