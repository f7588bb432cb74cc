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

# The module of each command, in the order in which a new user meets them. A command is a function
# of its name there, a group of commands is `<name>_app`.
_MODULE_BY_COMMAND = {
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

_EXIT_CODE_OF_BROKEN_PIPE = 141  # as of a program that the signal SIGPIPE ends
_LONGEST_SENTENCE = 1000  # characters: longer than any, so that none is cut


class _Commands(TyperGroup):
    """The group of all commands; each is imported when it is asked for, so that none waits for what
    another needs.
    """

    def __init__(self, **options: Any) -> None:
        options["commands"] = dict.fromkeys(_MODULE_BY_COMMAND)
        super().__init__(**options)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module of a command, and return the command or the group of that name for
        Click; None if there is none.
        """
        if cmd_name not in _MODULE_BY_COMMAND:
            return None
        module = importlib.import_module(f"tautrank.commands.{_MODULE_BY_COMMAND[cmd_name]}")
        # A group of commands such as `study` is an object study_app; a command is a function.
        command_group = getattr(module, f"{cmd_name}_app", None)
        if command_group is not None:
            return _simplify_help(typer.main.get_group(command_group))

        function = getattr(module, cmd_name.replace("-", "_"))
        group_of_one = group("")  # Typer makes commands only inside a group
        register = group_of_one.command(cmd_name)
        register(takes_groups(function))
        return _simplify_help(typer.main.get_command(group_of_one))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # Typer would print nothing
            ERR.print(f"stopped{stop}")
            raise typer.Exit(130) from None


def _simplify_help(command: Any) -> Any:
    """Change how the help of a command, or of all commands of a group, is printed, and return it.

    Arguments are called DATA instead of Typer's {DATA} and DATA <list[Path]>, and lists of commands
    show first sentences whole, which Click would cut short.
    """
    # A command that is no group has no commands of its own.
    for subcommand in [command, *getattr(command, "commands", {}).values()]:
        subcommand.short_help = subcommand.get_short_help_str(_LONGEST_SENTENCE)
        for parameter in subcommand.params:
            if isinstance(parameter, TyperArgument):
                _show_name_alone(parameter)
    return command


def _show_name_alone(argument: TyperArgument) -> None:
    """Let help call an argument of a command by its name alone: ``DATA``, ``DATA...`` if it takes
    several values, ``[DATA]`` if it may be left out.
    """
    name = argument.metavar
    if argument.nargs == -1:  # as Click says "any number of values"
        name = f"{name}..."
    if not argument.required:
        name = f"[{name}]"
    # Replaces two methods of Typer for this argument only.
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
        # Standard output is pointed at a file that swallows everything.
        # What is left in the buffer goes nowhere; Python would report it at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        sys.exit(_EXIT_CODE_OF_BROKEN_PIPE)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print a warning of this library as a note; takes the place of `warnings.showwarning`."""
    if issubclass(category, TautrankWarning):
        ERR.print(Text.assemble(("note:", "yellow"), f" {message}"))


if __name__ == "__main__":
    main()
