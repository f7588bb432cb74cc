"""Write files so that a reader sees either the old content or the new, never half of it; and open
them.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from tautrank.arguments import one_or_more
from tautrank.errors import DataError

PathLike: TypeAlias = str | os.PathLike[str]
STANDARD = "-"
"""What stands for standard input or output in place of a file."""


def path_of(argument: Any) -> Path:
    """Return an argument as a path, or refuse what is no path.

    >>> path_of(3)
    Traceback (most recent call last):
    tautrank.errors.DataError: path: found 3; expected the path of a file
    """
    if not isinstance(argument, str | os.PathLike):
        raise DataError(f"path: found {argument!r}; expected the path of a file")
    return Path(argument)


def paths_of(argument: Any) -> list[Path]:
    """Return the paths that one path, or a list of them, stands for.

    >>> [path.name for path in paths_of(["a.txt", "b.txt"])]
    ['a.txt', 'b.txt']
    """
    paths = [path_of(path) for path in one_or_more(argument)]
    if not paths:
        raise DataError("paths: found an empty list; expected at least one file")
    return paths


def require_writable(path: PathLike) -> None:
    """Raise an error if a file cannot be written, before hours of work go into it.

    Args:
        path: the file that `atomic_write` will write later; it is not changed.

    >>> require_writable("no/such/folder/out.txt")
    Traceback (most recent call last):
    tautrank.errors.DataError: no/such/folder/out.txt: cannot be written (No such file or directory)
    """
    target = _behind_links(path)
    if _is_stream(path):
        return
    with _errors_naming(target):
        if target.is_dir():
            # The context above turns it into an error that names the file.
            raise IsADirectoryError(0, "Is a directory")
        # A file that can be made in the folder, and is removed at once, shows that it is writable.
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part"
        ):
            pass


def opened(path: PathLike, expected: str) -> BinaryIO:
    """Open a binary file for reading, or raise an error that says why it cannot be read and what
    was expected.

    Args:
        path: the file.
        expected: what it should be.

    >>> with opened("no/such/model.taut", "a model saved by tautrank") as file:
    ...     file.read()
    Traceback (most recent call last):
    tautrank.errors.DataError: no/such/model.taut: cannot be read (No such file or directory);
    expected a model saved by tautrank
    """
    try:
        return open(path, "rb")
    except OSError as error:
        raise DataError(
            f"{os.fspath(path)}: cannot be read ({error.strerror}); expected {expected}"
        ) from None


@contextmanager
def atomic_write(path: PathLike, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a binary file for writing that appears under `path` only when the block ends without an
    error.

    The bytes go to a temporary file in the same folder, are flushed to disk, and replace `path` in
    one step. If the block raises, nothing is left behind and an existing `path` is untouched.
    ``durable=False`` skips the flush, for files that can be made again. Where a path leads to no
    file but to a pipe or a device, such as ``/dev/stdout``, and to standard output, ``-``, the
    bytes are written as they come.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "out.txt") as file:
    ...     _ = file.write(b"whole")
    >>> [p.name for p in folder.iterdir()]
    ['out.txt']
    """
    target = _behind_links(path)  # refuses a number, which the system takes for an open file
    if _is_stream(path):
        with _stream(path) as stream:
            yield stream
            stream.flush()
        return
    with _errors_naming(target):
        # In the same folder, as only within one file system a file replaces another in one step.
        descriptor, temporary_path = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part"
        )
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield cast(BinaryIO, file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        # Temporary files are private; this one gets the rights of ordinary files.
        _make_public(temporary_path)
        with _errors_naming(target):
            os.replace(temporary_path, target)
    # Ctrl-C too must leave no temporary file behind.
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary_path)
        raise


def _make_public(path: str) -> None:
    """Give a file the permissions that a plain open() gives; mkstemp makes files private."""
    umask = os.umask(0)  # the only way to read it is to set it
    os.umask(umask)
    os.chmod(path, 0o666 & ~umask)


def _stream(path: PathLike) -> AbstractContextManager[BinaryIO]:
    """Return standard output, which stays open, or a pipe or a device."""
    if str(path) == STANDARD:
        return nullcontext(sys.stdout.buffer)
    return open(path, "wb")


def _is_stream(path: PathLike) -> bool:
    """Return whether a path is standard output, a pipe or a device, which cannot be replaced as a
    file can.
    """
    if str(path) == STANDARD:
        return True
    is_file_or_folder = os.path.isfile(path) or os.path.isdir(path)
    return os.path.exists(path) and not is_file_or_folder


def _behind_links(path: PathLike) -> Path:
    """Return the file to write where a path is a link, which stays one."""
    link_or_file = path_of(path)
    if link_or_file.is_symlink():
        return Path(os.path.realpath(link_or_file))
    return link_or_file


def write_whole(path: PathLike, content: str | bytes) -> None:
    """Write a whole file in one step.

    Args:
        path: the file.
        content: text, which is written as UTF-8, or bytes.
    """
    with atomic_write(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def also_written(text: str, path: PathLike | None) -> str:
    """Return a text; if a file is given, write it there too.

    Args:
        text: the text.
        path: the file to write; None for none.

    >>> also_written("loss,trees\\n", None)
    'loss,trees\\n'
    """
    if path is not None:
        write_whole(path, text)
    return text


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV.

    >>> csv_text([("qid", "doc"), (7, "a, b")])
    'qid,doc\\n7,"a, b"\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


@contextmanager
def _errors_naming(target: Path) -> Iterator[None]:
    """Turn an error of the operating system in this block into a `DataError` that names the file
    that cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror})") from None
