"""The errors and warnings that users see: each is one sentence that says what to change."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Sequence
from typing import Any


class TautrankError(Exception):
    """Base of every error this library raises on purpose.

    The message is one sentence: where (file and line, or argument), what was found, what was
    expected. The command line prints it and exits with code 2.
    """


class DataError(TautrankError, ValueError):
    """The content of a file or an array cannot be used as ranking data."""


class OptionError(TautrankError, ValueError):
    """A name or a parameter is unknown or out of range."""


class MissingDependencyError(TautrankError, ImportError):
    """An optional dependency is not installed; the message holds the ``pip install`` to run."""


class TautrankWarning(UserWarning):
    """Something was repaired or assumed; the result is usable and the message says what was
    done.
    """


_MOST_NAMED = 40  # of the known names; a longer list buries the sentence


def unknown(kind: str, word: str, known: Iterable[str], aliases: Iterable[str] = ()) -> OptionError:
    """Build the error for an unknown ``word`` where one of ``known`` was expected; aliases are
    suggested, not listed.

    >>> print(unknown("metric", "ndgc", ["ndcg", "err"]))
    unknown metric 'ndgc'; did you mean 'ndcg'? (known: err, ndcg)
    >>> print(unknown("column", "label", ["LABEL", "qid"]))
    unknown column 'label'; did you mean 'LABEL'? (known: LABEL, qid)
    >>> print(unknown("metric", "zzz", ["ndcg", "err"]))
    unknown metric 'zzz' (known: err, ndcg)
    """
    names = sorted(known)
    # By its lower-case spelling, so that capitals do not count as differences.
    name_by_spelling = {name.lower(): name for name in (*aliases, *names)}
    nearest_spellings = difflib.get_close_matches(word.lower(), name_by_spelling, n=1, cutoff=0.5)
    hint = ""
    if nearest_spellings:
        nearest_name = name_by_spelling[nearest_spellings[0]]
        hint = f"; did you mean '{nearest_name}'?"
    # All names are listed if they are few, else the closest ones.
    if len(names) <= _MOST_NAMED:
        return OptionError(f"unknown {kind} '{word}'{hint} (known: {', '.join(names)})")

    close_spellings = difflib.get_close_matches(word.lower(), name_by_spelling, n=5, cutoff=0.3)
    close_names = [name_by_spelling[spelling] for spelling in close_spellings]
    listed_names = ", ".join(close_names) or "none"
    return OptionError(f"unknown {kind} '{word}'{hint} (closest: {listed_names})")


def refuse(problems: Sequence[str]) -> None:
    """Raise one `OptionError` about all problems, if there are any.

    Args:
        problems: sentences.

    >>> refuse(["eta: is called learning_rate here; expected that name", "seed: found -1"])
    Traceback (most recent call last):
    tautrank.errors.OptionError: eta: is called learning_rate here; expected that name. seed: found
    -1
    """
    if problems:
        raise OptionError(". ".join(problems))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "query"), counted(2000, "query")
    ('1 query', '2,000 queries')
    """
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun}"


def require(module: str, needed: str, extra: str) -> Any:
    """Import a module of an optional dependency, or raise the error that says how to install it.

    Args:
        module: its name.
        needed: what needs it, for the error.
        extra: the extra of this library that installs it.

    >>> require("no_such_module", "dreaming needs Sheep", "sheep")
    Traceback (most recent call last):
    tautrank.errors.MissingDependencyError: dreaming needs Sheep; install it with: pip install
    'tautrank[sheep]'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependencyError(
            f"{needed}; install it with: pip install 'tautrank[{extra}]'"
        ) from None
