"""The names of a model's features in the system it is exported to."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tautrank.errors import DataError
from tautrank.ranker.estimator import Ranker


def feature_names(ranker: Ranker, given: Sequence[str] | str | os.PathLike[str] | None) -> tuple[tuple[str, ...], bool]:
    """Return one name per column, and whether they are known: the given ones, else the ranker's, else ``f1, f2, ...``.

    Args:
        ranker: a fitted ranker.
        given: the names, or a file that holds them.
    """
    count = ranker.n_features_in_
    where = "features"
    if isinstance(given, (str, os.PathLike)):
        where = os.fspath(given)
        names: Sequence[Any] = read_names(given)
    elif given is not None:
        names = list(given)
    elif hasattr(ranker, "feature_names_in_"):
        names = ranker.feature_names_in_.tolist()
    else:
        return tuple(f"f{column}" for column in range(1, count + 1)), False
    if len(names) != count:
        raise DataError(f"{where}: found {len(names)} names; expected {count}, one per feature of the model")
    seen: set[str] = set()
    for column, name in enumerate(names, 1):
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise DataError(f"{where}: the name of feature {column} is {name!r}; expected text on one line")
        if name in seen:
            raise DataError(f"{where}: found the name '{name}' twice; expected names that differ")
        seen.add(name)
    return tuple(names), True


def read_names(path: str | os.PathLike[str]) -> list[Any]:
    """Read names from a file: one per line, a JSON list, or Solr's definition of features (JSON objects with ``name``).

    Args:
        path: file to read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "names.txt").write_text("title_bm25\\nclicks\\n")
    ...     read_names(Path(folder, "names.txt"))
    ['title_bm25', 'clicks']
    """
    target = Path(path)
    try:
        text = target.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{target}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(f"{target}: found bytes that are not text; expected names in UTF-8, one per line") from None
    if not text.lstrip().startswith("["):
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        raise DataError(f"{target}: found broken JSON ({reason}); expected a list of names") from None
    return [entry.get("name") if isinstance(entry, dict) else entry for entry in listed]
