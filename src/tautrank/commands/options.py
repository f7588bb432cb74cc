"""Options that several commands share: stated once, and understood in one way."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tautrank.commands.output import reading_bar
from tautrank.errors import OptionError

if TYPE_CHECKING:
    from tautrank.data import Judged, RankingData, Splits
    from tautrank.ranker.estimator import Ranker

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
EarlyStopping = Annotated[int, typer.Option(help="Stop after so many trees without a better validation; 0: never.")]
EngineParameters = Annotated[
    list[str] | None, typer.Option("--param", help="Any parameter of the engine, as name=value; may be repeated.")
]
Imported = Annotated[
    list[str] | None,
    typer.Option("--import", help="A .py file, or a module, that registers a loss of yours; it is run."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; default all cores.")]
LearningRate = Annotated[float, typer.Option(help="What each tree is scaled by.")]
Leaves = Annotated[int, typer.Option(help="Leaves of a tree.")]
Seed = Annotated[int, typer.Option(help="Where all randomness starts.")]
Trees = Annotated[int, typer.Option(help="Number of trees, at most.")]


@dataclass(frozen=True)
class Reading:
    """How files are read: the options of every command that reads ranking data, and what they are for."""

    zero_based: Annotated[bool, typer.Option("--zero-based", help="Feature indices in the text start at 0.")] = False
    allow_nan: Annotated[bool, typer.Option("--allow-nan", help="Read 'nan' as a missing value.")] = False
    cache: Annotated[
        bool | None,
        typer.Option(
            "--cache/--no-cache", help="Keep the parsed data beside the file; by default for 64 MiB and more."
        ),
    ] = None
    label: Annotated[str, typer.Option("--label", help="Column of labels in Parquet and CSV.")] = "label"
    qid: Annotated[str, typer.Option("--qid", help="Column of query ids in Parquet and CSV.")] = "qid"

    def file(self, path: Path, *, unlabelled: bool = False) -> RankingData:
        """Read one file; `unlabelled` tables need no labels."""
        from tautrank.data.files import read_data

        with reading_bar(f"reading {path.name}") as report:
            return read_data(path, unlabelled=unlabelled, progress=report, **asdict(self))

    def files(self, *paths: Path | None) -> list[RankingData]:
        """Read the files of one data set, as far as they are given, to the same columns."""
        from tautrank.data.columns import same_columns

        given = [path for path in paths if path is not None]
        return same_columns([self.file(path) for path in given], given)

    def folder(self, path: Path, fold: int) -> Splits:
        """Read a fold of a data set's folder."""
        from tautrank.data import read_folder

        with reading_bar(f"reading {path}"):
            return read_folder(path, fold, zero_based=self.zero_based, allow_nan=self.allow_nan, cache=self.cache)

    def scored(self, scores: Path, data: Path) -> Judged:
        """Read scores and the data they belong to, or a TREC run and its judgments."""
        from tautrank.data.files import read_judged_scores

        with reading_bar(f"reading {data.name}") as report:
            return read_judged_scores(scores, data, progress=report, **asdict(self))

    def for_ranker(self, ranker: Ranker, path: Path, *, unlabelled: bool = False) -> RankingData:
        """Read one file to the columns that a ranker was fitted to."""
        from tautrank.data.columns import columns_of_model

        names = getattr(ranker, "feature_names_in_", None)
        return columns_of_model(self.file(path, unlabelled=unlabelled), ranker.n_features_in_, names, path)

    def as_typed(self) -> list[str]:
        """The words that give the same options again; without those of the cache, which change no result."""
        words = []
        for name in ("label", "qid", "zero_based", "allow_nan"):
            given = getattr(self, name)
            if given != getattr(Reading, name):
                words += [f"--{name.replace('_', '-')}", *([] if given is True else [given])]
        return words


def reads_files(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command have the options of `Reading` in the place of its parameter ``reading``.

    Args:
        command: a function for Typer, all of whose parameters are given by name.
    """

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        command(reading=Reading(**{name: given.pop(name) for name in options}), **given)

    options = {
        name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(Reading, eval_str=True).parameters.items()
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        parameters += options.values() if name == "reading" else [parameter]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def names_of(texts: list[str] | None, option: str) -> list[str]:
    """All names of an option that takes several: cut at the commas outside parentheses, and it may be repeated.

    Args:
        texts: as given; None gives none.
        option: for the sentence.

    >>> names_of(["ndcg@10,err(max_label=2,ties=best)@5", "map"], "--metrics")
    ['ndcg@10', 'err(max_label=2,ties=best)@5', 'map']
    """
    found = []
    for text in texts or []:
        depth, names = 0, [""]
        for character in text:
            depth += (character == "(") - (character == ")")
            if character == "," and depth <= 0:
                names.append("")
            else:
                names[-1] += character
        names = [name.strip() for name in names if name.strip()]
        if not names:
            example = "ndcg@10,map" if option == "--metrics" else "lambdarank,xendcg"
            raise OptionError(f"{option}: found no name; expected names such as '{example}'")
        found += names
    return found


def engine_parameters(given: list[str] | None) -> dict[str, Any]:
    """Read name=value pairs; a value is a number, true, false, or text.

    Args:
        given: as typed.

    >>> engine_parameters(["min_data_in_leaf=50", "boosting=goss"])
    {'min_data_in_leaf': 50, 'boosting': 'goss'}
    """
    result = {}
    for item in given or []:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"--param: found '{item}'; expected name=value, such as min_data_in_leaf=50")
        try:
            result[name.strip()] = json.loads(value)
        except ValueError:
            result[name.strip()] = value
    return result


def import_losses(sources: list[str] | None) -> list[str]:
    """Bring losses of the user's in; their names.

    Args:
        sources: files and modules.
    """
    from tautrank.losses import own_losses

    return [name for source in sources or [] for name in own_losses.import_losses(source)]
