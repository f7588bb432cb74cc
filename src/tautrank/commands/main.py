"""The command line: the commands in order, and what their errors, warnings and interruptions print."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from tautrank import __version__
from tautrank.commands.data import data_app
from tautrank.commands.demo import demo
from tautrank.commands.experiments import compare, tune
from tautrank.commands.model import explain, model_app
from tautrank.commands.options import option
from tautrank.commands.output import ERR, OUT
from tautrank.commands.study import study_app
from tautrank.commands.theory import theory_app
from tautrank.commands.train import evaluate, export, rank, train
from tautrank.errors import TautrankError, TautrankWarning


class _Commands(TyperGroup):
    """The commands in the order in which a new user meets them."""

    _order = (
        "demo", "data", "train", "evaluate", "rank", "explain", "model", "export", "compare", "tune", "study", "theory",
    )  # fmt: skip

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=self._order.index)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # Typer would print nothing
            ERR.print(f"stopped{stop}")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    help="Learning to rank that optimises the ranking metric itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, train, evaluate, rank, explain, export, compare, tune):
    app.command()(command)
for name, group in (("data", data_app), ("model", model_app), ("study", study_app), ("theory", theory_app)):
    app.add_typer(group, name=name)


@app.callback(invoke_without_command=True)
def _root(version: bool = option(False, "Print the version and exit.", "--version")) -> None:
    if version:
        OUT.print(f"tautrank {__version__}")
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the console script `tautrank`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TautrankWarning)
            warnings.showwarning = _show_warning
            app(args=arguments, prog_name="tautrank", obj=sys.argv[1:] if arguments is None else arguments)
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
