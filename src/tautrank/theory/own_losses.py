"""Bring in losses that a user has written: from a file, or from a module that Python can import."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from pathlib import Path

from tautrank.errors import OptionError
from tautrank.losses import REGISTRY


def import_losses(source: str) -> list[str]:
    """Run a file or a module, and return the names of the losses it registers.

    Running it executes whatever stands in it: import only what you trust.

    Args:
        source: the path of a file that ends in ``.py``, or the name of a module.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "own.py"
    >>> _ = file.write_text('''
    ... from dataclasses import dataclass
    ... from tautrank.losses import MSE
    ... from tautrank.losses.base import register
    ...
    ... @register("my-mse")
    ... @dataclass(frozen=True, kw_only=True, repr=False)
    ... class MyMSE(MSE):
    ...     pass
    ... ''')
    >>> import_losses(str(file))
    ['my-mse']
    >>> del REGISTRY["my-mse"]
    >>> import_losses("no_such_module")
    Traceback (most recent call last):
    tautrank.errors.OptionError: import: found 'no_such_module'; expected a file that ends in .py, or a module that
    Python can import
    """
    before = dict(REGISTRY)
    if source.endswith(".py"):
        _run_file(Path(source))
    else:
        _import_module(source)
    return [name for name, kind in REGISTRY.items() if before.get(name) is not kind]


def _run_file(path: Path) -> None:
    if not path.is_file():
        raise OptionError(f"import: found no file {path}; expected Python code that registers a loss")
    # Dataclasses look their module up by its name, and no other module may lose its name to this one.
    name = "_tautrank_own_" + re.sub(r"\W", "_", str(path.resolve()))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise OptionError(f"import: {path}{_line(error, path)}: {_said(error)}; expected code that runs") from None


def _import_module(name: str) -> None:
    unknown = OptionError(
        f"import: found '{name}'; expected a file that ends in .py, or a module that Python can import"
    )
    if not all(part.isidentifier() for part in name.split(".")):
        raise unknown
    # A console script does not look where it was started; `python -m` does, and so does this.
    sys.path.insert(0, "")
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise unknown from None
        raise OptionError(f"import: {name}: {_said(error)}; expected code that runs") from None
    finally:
        sys.path.remove("")


def _line(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f", line {lines[-1]}" if lines else ""


def _said(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}".replace("\n", " ").rstrip(": ")
