"""Finished pieces of an experiment, one readable JSON file each: stopping loses nothing, a re-run goes on."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from tautrank.errors import DataError
from tautrank.files import write_whole


class UnitStore:
    """A folder of finished units, each under a key that says everything its result depends on.

    Args:
        folder: made if it is not there; None keeps nothing.

    >>> import tempfile
    >>> store = UnitStore(tempfile.mkdtemp())
    >>> store.save("a b", {"seed": 1}, {"score": 0.5})
    >>> store.load("a b", {"seed": 1}), store.load("a b", {"seed": 2})
    ({'score': 0.5}, None)
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = Path(folder) if folder is not None else None
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise DataError(f"{self.folder}: cannot be made ({error.strerror}); expected a folder") from None

    def _file(self, name: str, key: dict[str, Any]) -> Path | None:
        if self.folder is None:
            return None
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
        return self.folder / f"{re.sub(r'[^A-Za-z0-9.+-]+', '_', name)}-{digest}.json"

    def load(self, name: str, key: dict[str, Any]) -> dict[str, Any] | None:
        """Return what was saved under exactly this key; None if nothing was, or if it cannot be read."""
        file = self._file(name, key)
        if file is None or not file.is_file():
            return None
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads(file.read_text())
            if content["key"] == json.loads(json.dumps(key)):
                return dict(content["result"])
        return None

    def save(self, name: str, key: dict[str, Any], result: dict[str, Any]) -> None:
        """Write a finished unit; the file appears whole or not at all."""
        file = self._file(name, key)
        if file is not None:
            write_whole(file, json.dumps({"key": key, "result": result}, indent=1))
