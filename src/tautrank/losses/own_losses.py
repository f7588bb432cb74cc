"""Import user-defined losses and metrics from a file or a module, here and in other processes.

A new process only knows the losses of this library. Work that is sent there names its losses as
text and carries one `OwnLoss` per user-defined loss: where its code is, and a hash of it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tautrank.errors import OptionError, TautrankError
from tautrank.losses.base import REGISTRY, Loss
from tautrank.metrics import METRICS, Metric
from tautrank.names import is_ours, name_of

_FILE_MODULE = "_tautrank_own_"
_SCRIPTS = ("__main__", "__mp_main__")


def import_losses(source: str) -> list[str]:
    """Run a file or a module, and return the names of the losses it registers.

    This executes all code in it: import only what you trust.

    Args:
        source: the path of a file that ends in ``.py``, or the name of a module.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "own.py"
    >>> _ = file.write_text('''
    ... from dataclasses import dataclass
    ... from tautrank.losses import MSE, register
    ...
    ... @register("my-mse")
    ... @dataclass(frozen=True)
    ... class MyMSE(MSE):
    ...     pass
    ... ''')
    >>> import_losses(str(file))
    ['my-mse']
    >>> del REGISTRY["my-mse"]
    >>> import_losses("no_such_module")
    Traceback (most recent call last):
    tautrank.errors.OptionError: import: found 'no_such_module'; expected a file that ends in .py,
    or a module that Python can import
    """
    classes_before = dict(REGISTRY)
    if source.endswith(".py"):
        _run_file(Path(source))
    else:
        _import_module(source)
    new_names = []
    for name, cls in REGISTRY.items():
        if classes_before.get(name) is not cls:
            new_names.append(name)
    return new_names


class OwnLoss(NamedTuple):
    """A user-defined loss, as another process finds it.

    Args:
        name: registered name.
        source: file or module to import; empty for a loss that was typed into a session.
        code: hash of the file; a new one in every session for a loss that was typed into it.
    """

    name: str
    source: str
    code: str


def own_losses(losses: Iterable[object]) -> tuple[OwnLoss, ...]:
    """Return the user-defined losses and metrics among these, without repeats.

    Args:
        losses: losses and metrics, or their text; objectives of other tools are ignored.

    >>> own_losses(["lambdarank(k=5)", "lightgbm:lambdarank"])
    ()
    """
    losses_by_name: dict[str, OwnLoss] = {}
    for item in losses:
        cls: type[Any] | None
        if isinstance(item, Loss | Metric):
            name, cls = item.name, type(item)
        else:
            name = name_of(str(item))
            cls = REGISTRY.get(name) or METRICS.get(name)
        if cls is not None and not is_ours(cls):
            source, code = _origin(cls)
            losses_by_name[name] = OwnLoss(name, source, code)
    return tuple(losses_by_name.values())


def sendable(losses: Iterable[object], needed_by: str = "workers") -> tuple[OwnLoss, ...]:
    """Return `own_losses`, after checking that other processes can import all of them.

    Args:
        losses: losses, or their text.
        needed_by: name of the argument that asks for other processes.
    """
    custom_losses = own_losses(losses)
    for loss in custom_losses:
        if not loss.source:
            raise OptionError(
                f"{needed_by}: found the loss '{loss.name}', which was typed into this session,"
                " where other processes cannot find it; expected its class in a file that is"
                " imported here, or workers=1"
            )
    return custom_losses


def import_own(losses: Iterable[OwnLoss]) -> None:
    """Import losses that this process does not know yet.

    Args:
        losses: result of `sendable` in the process that sends the work.
    """
    for loss in losses:
        if loss in own_losses([loss.name]):
            continue
        import_losses(loss.source)
        imported = own_losses([loss.name])
        if not imported:
            raise OptionError(
                f"import: found no loss '{loss.name}' registered by {loss.source};"
                " expected its class at the top level of that file"
            )
        if imported[0].code != loss.code:
            raise OptionError(
                f"import: found other code of the loss '{loss.name}' in {loss.source} than the work"
                " was planned with; expected the same"
            )


@functools.cache
def _origin(cls: type[Any]) -> tuple[str, str]:
    """Return where another process finds a class, and a hash of its file."""
    module = cls.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not Path(file).is_file():
        return "", uuid.uuid4().hex
    code = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:32]
    has_no_name = module in _SCRIPTS or module.startswith(_FILE_MODULE)
    source = str(Path(file).resolve()) if has_no_name else module
    return source, code


def _run_file(path: Path) -> None:
    """Run a file as a module whose name is made of its path."""
    if not path.is_file():
        raise OptionError(
            f"import: found no file {path}; expected Python code that registers a loss"
        )
    # Dataclasses look up their module by its name, which must not replace that of another module.
    name = _FILE_MODULE + re.sub(r"\W", "_", str(path.resolve()))
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        place = f"{path}{_line(error, path)}"
        raise OptionError(f"import: {place}: {_format_error(error)}") from None


def _import_module(name: str) -> None:
    """Import a module by name, also one of the current folder."""
    unknown = OptionError(
        f"import: found '{name}'; expected a file that ends in .py, or a module that Python can"
        " import"
    )
    is_module_name = all(part.isidentifier() for part in name.split("."))
    if not is_module_name:
        raise unknown
    # Unlike `python -m`, a console script does not look in the current folder.
    sys.path.insert(0, "")
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError):
            is_name_or_package = f"{name}.".startswith(f"{error.name}.")
            if is_name_or_package:
                raise unknown from None
        raise OptionError(f"import: {name}: {_format_error(error)}") from None
    finally:
        sys.path.remove("")


def _line(error: BaseException, path: Path) -> str:
    """Return the line of a file that an error comes from, as errors name it; nothing for other
    files.
    """
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    line = None
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename) == path:
            line = frame.lineno
    return "" if line is None else f", line {line}"


def _format_error(error: BaseException) -> str:
    """Return the name and the text of an error in one line; one of tautrank says it all itself."""
    if isinstance(error, TautrankError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    sentence = f"{type(error).__name__}: {text}".replace("\n", " ").rstrip(": ")
    return f"{sentence}; expected code that runs"
