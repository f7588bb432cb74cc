"""One grammar for what users type, ``name(key=value,...)@k``, and the registries of what has such a
name.

Losses and metrics print as text of this grammar, so they travel through files and command lines and
parse back.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tautrank.errors import OptionError, unknown

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])

_FORM = re.compile(
    r"\s*(?P<name>[^()@\s]+)\s*(?:\((?P<options>.*)\))?\s*(?:@(?P<k>.*))?", re.DOTALL
)
_WORDS = {"none": None, "true": True, "false": False}
_LARGEST_EXACT_INTEGER = 2**53  # of those that a float64 holds


class Registry(dict[str, type[T]], Generic[T]):
    """The classes of one kind, such as the losses, by the name that users type.

    Args:
        base: the class of what is made.
        kind: what errors call it: "loss", "metric".
        example: names as one types them, for errors.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Shape:
    ...     pass
    >>> shapes = Registry(Shape, "shape", "'square' or 'square(side=2)'")
    >>> @shapes.register("square")
    ... @dataclasses.dataclass(frozen=True)
    ... class Square(Shape):
    ...     side: float = 1.0
    >>> shapes.make("square(side=2)") == shapes.make("Square", side=2)
    True
    >>> shapes.make("sqare")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown shape 'sqare'; did you mean 'square'? (known: square)
    """

    def __init__(self, base: type[T], kind: str, example: str) -> None:
        super().__init__()
        self.base = base
        self.kind = kind
        self.example = example
        self.aliases: dict[str, str] = {}

    def register(self, name: str, *aliases: str) -> Callable[[C], C]:
        """Class decorator: make a class known by ``name``, here and on the command line.

        Args:
            name: what a user types, and what is printed.
            *aliases: what others call it, in lower case; these names are read, but never printed.
        """
        # These characters separate names, options and cutoffs where a text is read.
        if not re.fullmatch(r"[^()@,=\s]+", name):
            raise OptionError(
                f"register: found '{name}'; expected a name without spaces, commas and ()@="
            )

        def enter(cls: C) -> C:
            self._check_free(name, cls)
            cls.name = name
            # A dataclass without repr=False writes its own, which does not parse back.
            cls.__repr__ = self.base.__repr__  # type: ignore[assignment]
            self[name] = cls
            self.aliases |= dict.fromkeys(aliases, name)
            return cls

        return enter

    def _check_free(self, name: str, cls: type[Any]) -> None:
        """Raise an error if a name of the library would get another meaning; users may edit a class
        of their own and register it again.
        """
        if name in self and is_ours(self[name]) and not is_ours(cls):
            raise OptionError(
                f"register: found '{name}', a {self.kind} of the library; "
                "expected a name that is not taken"
            )

    def find(self, name: str) -> type[T]:
        """Return the class with this name or alias, in any case.

        Args:
            name: the name alone, as typed.
        """
        # `self` maps names to classes, `self.aliases` other names to these names.
        for spelling in (name, name.lower()):
            cls = self.get(spelling) or self.get(self.aliases.get(spelling, ""))
            if cls is not None:
                return cls
        raise unknown(self.kind, name, self, self.aliases)

    def read(self, text: object) -> tuple[type[T], list[tuple[str, Any]]]:
        """Return the class of what was typed, and its options in the order typed.

        Args:
            text: a name, perhaps followed by options and a cutoff.
        """
        # The form is NAME(OPTIONS)@K, with the last two optional.
        form = _FORM.fullmatch(text) if isinstance(text, str) else None
        if form is None:
            quoted = f"'{text}'" if isinstance(text, str) else repr(text)
            raise OptionError(
                f"{self.kind}: found {quoted}; expected a name such as {self.example}"
            )
        cls = self.find(form["name"])
        options = _read_options(form["options"] or "", f"{self.kind} '{text}'")
        if form["k"] is not None:
            # The cutoff after @ is the option k.
            options.append(("k", read_value(form["k"].strip())))
        return cls, options

    def make(self, text_or_object: str | T, **options: Any) -> T:
        """Make what was typed.

        Args:
            text_or_object: a name, perhaps followed by options in parentheses and a cutoff after
                ``@``; or an object of the kind, which comes back as it is, or with ``options``
                changed.
            **options: more options, none of which is also typed.
        """
        if isinstance(text_or_object, self.base):
            self._check_parameters(type(text_or_object), options)
            if not options:
                return text_or_object
            return dataclasses.replace(text_or_object, **options)  # type: ignore[type-var]
        # A text: its class, and pairs of option and value.
        cls, typed_options = self.read(text_or_object)
        all_options = [*typed_options, *options.items()]
        self._check_parameters(cls, [name for name, _ in all_options])
        return cls(**_each_once(all_options))

    def _check_parameters(self, cls: type[T], names: Iterable[str]) -> None:
        """Raise an error about a name that is no parameter of a class."""
        parameters = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in names:
            if name not in parameters:
                kind = f"parameter of the {self.kind} {cls.name}:"  # type: ignore[attr-defined]
                raise unknown(kind, name, parameters)


def _each_once(options: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs of option and value as a dictionary; raise an `OptionError` about an option that
    is there twice.
    """
    value_by_option: dict[str, Any] = {}
    for option, value in options:
        if option in value_by_option:
            first = write_value(value_by_option[option])
            second = write_value(value)
            raise OptionError(f"{option}: given twice, as {first} and {second}; expected one value")
        value_by_option[option] = value
    return value_by_option


def is_ours(cls: type[Any]) -> bool:
    """Return whether a class is one of this library.

    >>> is_ours(Registry), is_ours(dict)
    (True, False)
    """
    package = cls.__module__.partition(".")[0]
    return package == "tautrank"


def name_of(text: str) -> str:
    """Return the name that a text begins with, in lower case.

    >>> name_of("NDCG (ties=best)@10"), name_of("ndcg@10")
    ('ndcg', 'ndcg')
    """
    return re.split(r"[(@]", text, maxsplit=1)[0].strip().lower()


def split_at_commas(text: str) -> list[str]:
    """Cut a text at the commas outside parentheses and brackets, without what is empty.

    >>> split_at_commas("ndcg@10, err(max_label=2,ties=best)@5, map,")
    ['ndcg@10', 'err(max_label=2,ties=best)@5', 'map']
    """
    # The last part is the one being written; `depth` counts the parentheses that are open.
    parts = [""]
    depth = 0
    for character in text:
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    stripped = [part.strip() for part in parts]
    return [part for part in stripped if part]


def read_value(text: str) -> Any:
    """Read the value of an option: none, true, false, a number, a table of numbers, or a word.

    >>> [read_value(text) for text in ("none", "5", "0.5", "0/1/3", "2/", "[1,2]", "linear")]
    [None, 5, 0.5, (0.0, 1.0, 3.0), (2.0,), (1, 2), 'linear']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text.startswith("[") and text.endswith("]"):
        items = split_at_commas(text[1:-1])
        return tuple(read_value(item) for item in items)
    if "/" in text:
        with contextlib.suppress(ValueError):
            # A table of one number ends in a slash, which tells it from a number.
            entries = text.removesuffix("/").split("/")
            return tuple(float(entry) for entry in entries)
    # What is neither is a word.
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def write_value(value: object) -> str:
    """Write the value of an option so that `read_value` reads it back.

    >>> [write_value(value) for value in (None, True, 5.0, 0.1, (0.0, 1.5), (2.0,))]
    ['none', 'true', '5', '0.1', '0/1.5', '2/']
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        table = "/".join(write_value(entry) for entry in value)
        # A table of one ends in a slash, which tells it from a number.
        return f"{table}/" if len(value) == 1 else table
    if isinstance(value, float):
        is_exact_integer = value.is_integer() and abs(value) < _LARGEST_EXACT_INTEGER
        # Such as "5" for 5.0; `repr` writes the digits that read back as the same number.
        return str(int(value)) if is_exact_integer else repr(value)
    return str(value)


def write_name(name: str, options: Mapping[str, object], k: int | None = None) -> str:
    """Write a name with its options, and a cutoff after ``@``.

    >>> write_name("ndcg", {"ties": "best", "gain": (0.0, 1.0)}, 10), write_name("mse", {})
    ('ndcg(ties=best,gain=0/1)@10', 'mse')
    """
    text = name
    if options:
        pairs = [f"{option}={write_value(value)}" for option, value in options.items()]
        text += f"({','.join(pairs)})"
    if k is not None:
        text += f"@{k}"
    return text


def changed_options(instance: Any) -> dict[str, object]:
    """Return the fields of a dataclass that are not at their default.

    >>> changed_options(dataclasses.make_dataclass("Point", [("x", int, 0), ("y", int, 0)])(0, 1))
    {'y': 1}
    """
    changed = {}
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if value != field.default:
            changed[field.name] = value
    return changed


def _read_options(text: str, where: str) -> list[tuple[str, Any]]:
    """Return the options in a text such as ``"gain=linear, k=10"`` as pairs of name and value.

    Args:
        text: what the user typed between parentheses.
        where: what the options belong to, for errors.
    """
    options = []
    for item in split_at_commas(text):
        name, _equals, value = item.partition("=")
        name = name.strip()
        value = value.strip()
        if not name.isidentifier() or not value:
            raise OptionError(f"{where}: found the option '{item}'; expected name=value")
        options.append((name, read_value(value)))
    return options
