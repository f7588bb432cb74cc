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
    # `REGISTRY` has the class of each loss by its name; running the code adds to it.
    classes_before = dict(REGISTRY)
    if source.endswith(".py"):
        _run_file(Path(source))
    else:
        _import_module(source)
    new_names = []
    for name, cls in REGISTRY.items():
        # New, or defined anew under a name that was known.
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
    """Return where to import the user-defined ones among some losses and metrics, without repeats.

    Args:
        losses: losses and metrics, or their names; objectives of other tools are ignored.

    >>> own_losses(["lambdarank(k=5)", "lightgbm:lambdarank"])
    ()
    """
    losses_by_name: dict[str, OwnLoss] = {}
    for item in losses:
        # A name with options, as in "lambdarank(k=5)", is looked up without them; names that are
        # neither a loss nor a metric belong to other tools.
        cls: type[Any] | None
        if isinstance(item, Loss | Metric):
            name, cls = item.name, type(item)
        else:
            name = name_of(str(item))
            cls = REGISTRY.get(name) or METRICS.get(name)
        if cls is not None and not is_ours(cls):
            # Where to import the class, and a hash that shows whether its code is the same there.
            source, code_hash = _locate_class(cls)
            losses_by_name[name] = OwnLoss(name, source, code_hash)
    return tuple(losses_by_name.values())


def sendable(losses: Iterable[object], needed_by: str = "workers") -> tuple[OwnLoss, ...]:
    """Return `own_losses`, after checking that other processes can import all of them.

    Args:
        losses: losses, or their text.
        needed_by: name of the argument that asks for other processes.
    """
    custom_losses = own_losses(losses)
    for loss in custom_losses:
        # An empty source: the class is in no file.
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
        # Known here already, from the same source and with the same code.
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
def _locate_class(cls: type[Any]) -> tuple[str, str]:
    """Return the file or module from which another process can import a class, and a hash of its
    code.

    A class that was typed into a session has no file: its source is empty, and its hash random.
    """
    module = cls.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    # A random hash equals no other: such a class is never taken for the same as before.
    if file is None or not Path(file).is_file():
        return "", uuid.uuid4().hex

    code_hash = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:32]
    # A script, or a file that was run by its path, cannot be imported by its module name.
    is_known_by_path = module in _SCRIPTS or module.startswith(_FILE_MODULE)
    source = str(Path(file).resolve()) if is_known_by_path else module
    return source, code_hash


def _run_file(path: Path) -> None:
    """Run a Python file as a module named after its path, so that the losses in it are registered;
    raise an error with the line where the file stops.
    """
    if not path.is_file():
        raise OptionError(
            f"import: found no file {path}; expected Python code that registers a loss"
        )
    # Dataclasses look up their module by its name, which must not replace that of another module.
    name = _FILE_MODULE + re.sub(r"\W", "_", str(path.resolve()))
    spec: Any = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs, as an import does it, and taken out again if the code stops.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        file_and_line = f"{path}{_describe_line(error, path)}"
        raise OptionError(f"import: {file_and_line}: {_format_error(error)}") from None


def _import_module(name: str) -> None:
    """Import a module by name, also one of the current folder; raise an error of this library if
    there is none or if its code stops.
    """
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
            # What was not found is the module itself, or a package that it is in (``a`` of
            # ``a.b``); not something that the module imports.
            is_name_or_package = f"{name}.".startswith(f"{error.name}.")
            if is_name_or_package:
                raise unknown from None
        raise OptionError(f"import: {name}: {_format_error(error)}") from None
    finally:
        sys.path.remove("")


def _describe_line(error: BaseException, path: Path) -> str:
    """Return the text ``, line 12`` for the line of a file that raised an error; an empty text if
    the file is not in the traceback.
    """
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    line = None
    # Of several calls (frames) in the file the innermost one, which comes last.
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename) == path:
            line = frame.lineno
    return "" if line is None else f", line {line}"


def _format_error(error: BaseException) -> str:
    """Return an error as one line, ``ValueError: text; expected code that runs``; the text alone
    for an error of this library, which says itself what it expected.
    """
    if isinstance(error, TautrankError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    sentence = f"{type(error).__name__}: {text}".replace("\n", " ").rstrip(": ")
    return f"{sentence}; expected code that runs"
