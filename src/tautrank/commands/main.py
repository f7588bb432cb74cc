"""The command line: the commands in order, and what their errors, warnings and interruptions
print.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperArgument, TyperGroup

from tautrank import __version__
from tautrank.commands.options import flag, group, takes_groups
from tautrank.commands.output import ERR, OUT
from tautrank.errors import TautrankError, TautrankWarning

# Where each command is, in the order in which a new user meets them; a group of commands is
# `<name>_app` there.
_PLACES = {
    "demo": "demonstration",
    "data": "using",
    "train": "training",
    "evaluate": "using",
    "rank": "using",
    "explain": "using",
    "model": "models",
    "export": "models",
    "compare": "comparing",
    "compare-runs": "comparing",
    "tune": "tuning",
    "study": "study",
    "theory": "theory",
}

_LONGEST_SENTENCE = 1000  # characters: longer than any, so that none is cut


class _Commands(TyperGroup):
    """The group of all commands; each is imported when it is asked for, so that none waits for what
    another needs.
    """

    def __init__(self, **options: Any) -> None:
        options["commands"] = dict.fromkeys(_PLACES)
        super().__init__(**options)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _PLACES:
            return None
        module = importlib.import_module(f"tautrank.commands.{_PLACES[cmd_name]}")
        if hasattr(module, f"{cmd_name}_app"):
            return _plain(typer.main.get_group(getattr(module, f"{cmd_name}_app")))
        alone = group("")
        alone.command(cmd_name)(takes_groups(getattr(module, cmd_name.replace("-", "_"))))
        return _plain(typer.main.get_command(alone))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # Typer would print nothing
            ERR.print(f"stopped{stop}")
            raise typer.Exit(130) from None


def _plain(command: Any) -> Any:
    """Let the help of a command, or of a group's commands, say DATA where Typer says {DATA} and
    DATA <list[Path]>.

    In lists of commands, Click would cut their first sentences short.
    """
    for subcommand in [command, *getattr(command, "commands", {}).values()]:
        subcommand.short_help = subcommand.get_short_help_str(_LONGEST_SENTENCE)
        for parameter in subcommand.params:
            if isinstance(parameter, TyperArgument):
                _show_plainly(parameter)
    return command


def _show_plainly(argument: TyperArgument) -> None:
    """Let help call an argument by its name alone."""
    name = argument.metavar
    if argument.nargs == -1:
        name = f"{name}..."
    if not argument.required:
        name = f"[{name}]"
    vars(argument)["_usage_display_name"] = lambda: name
    vars(argument)["display_type_rich"] = lambda ctx: None


app = group(
    "Learning to rank that optimises the ranking metric itself.",
    cls=_Commands,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(version: bool = flag("Print the version and exit.", "--version")) -> None:
    if version:
        OUT.print(f"tautrank {__version__}")
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the console script `tautrank`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TautrankWarning)
            warnings.showwarning = _show_warning
            app(
                args=arguments,
                prog_name="tautrank",
                obj=sys.argv[1:] if arguments is None else arguments,
            )
    except TautrankError as error:
        ERR.print(Text.assemble(("error:", "bold red"), f" {error}"))
        sys.exit(2)
    except BrokenPipeError:  # the program that reads our output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, TautrankWarning):
        ERR.print(Text.assemble(("note:", "yellow"), f" {message}"))


if __name__ == "__main__":
    main()
