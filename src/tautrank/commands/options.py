"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tautrank.arguments import choice
from tautrank.commands.output import show_reading
from tautrank.data import JudgedRun, RankingData, Splits, read_folder, read_streamed
from tautrank.data.columns import columns_of_model, same_columns, set_aside
from tautrank.data.distributed import read_distributed
from tautrank.data.reading import read
from tautrank.data.table_files import IN_CHUNKS, format_of_table
from tautrank.data.text_source import require_files
from tautrank.data.trec import read_judged_scores
from tautrank.errors import OptionError
from tautrank.metrics import TOOLS, Metric, metric
from tautrank.names import name_of, split_at_commas

if TYPE_CHECKING:
    from tautrank.ranker.estimator import Ranker


def group(text: str, **typer_options: Any) -> typer.Typer:
    """Make a group of commands.

    Args:
        text: help text.
        **typer_options: more options of `typer.Typer`.
    """
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        **typer_options,
    )


def option(text: str, default: Any = None, *names: str) -> Any:
    """Declare an option of a command.

    Args:
        text: help text.
        default: default value; ``...`` for an option that is required.
        names: names on the command line; default the name of the parameter.
    """
    return typer.Option(default, *names, help=text, metavar="VALUE")


def several(text: str, *names: str) -> Any:
    """Declare an option that takes several names, see `names_of`.

    Args:
        text: help text.
        names: names on the command line; default the name of the parameter.
    """
    return option(f"{text} Separated by commas; may be repeated.", None, *names)


def flag(text: str, name: str) -> Any:
    """Declare an option that is either given or not.

    Args:
        text: help text.
        name: name on the command line.
    """
    return typer.Option(False, name, help=text)


def argument(text: str, default: Any = ..., shown: str = "DATA") -> Any:
    """Declare a positional argument of a command.

    Args:
        text: help text.
        default: default value; ``...`` for an argument that is required.
        shown: what stands for it in help texts.
    """
    return typer.Argument(default, help=text, metavar=shown)


AS_JSON = flag("Print JSON instead of a table.", "--json")
IMPORTED = option(
    "Python file or module that registers your own loss or metric. Its code is run.",
    None,
    "--import",
)
MEMORY = option("Memory limit, such as 3G: features stay in the file and are read in chunks.")
MODEL = argument("Model of 'tautrank train', LightGBM or XGBoost.", shown="MODEL")
SEED = option("Random seed.", 0)

_EXAMPLES = {"--metrics": "ndcg@10,map", "--list-features": "bm25,price"}


@dataclasses.dataclass(frozen=True)
class ReaderOptions:
    """The options of every command that reads ranking data, and the readers that use them."""

    zero_based: bool = flag("Feature indices in LETOR text start at 0.", "--zero-based")
    allow_nan: bool = flag("Read 'nan' as a missing value.", "--allow-nan")
    cache: bool | None = option(
        "Keep the parsed data next to the file; default for files of 64 MiB or more."
    )
    label: str = option("Label column of a table (Parquet, Arrow, CSV, JSON lines).", "label")
    qid: str = option("Query id column of a table.", "qid")
    doc: str | None = option("Document id column of a table.")
    features: list[str] | None = several(
        "Feature columns of a table; default all other columns of numbers."
    )
    drop: list[str] | None = several("Columns of a table to leave out.")
    categorical: list[str] | None = several("Columns of a table that hold categories.")
    separator: str | None = option("Character that separates the columns of CSV; default a comma.")

    def keywords(self) -> dict[str, Any]:
        """The options of `tautrank.read`."""
        values = dataclasses.asdict(self)
        for name in ("features", "drop", "categorical"):
            values[name] = names_of(values[name], f"--{name}")
        values["doc_id"] = values.pop("doc")
        return values

    def file(self, path: Path, *, unlabelled: bool = False) -> RankingData:
        """Read one file; with `unlabelled`, a table needs no label column."""
        with show_reading(f"reading {path.name}") as progress:
            return read(path, unlabelled=unlabelled, progress=progress, **self.keywords())

    def files(
        self, *paths: Path | None, **names_aside: str | None
    ) -> tuple[list[RankingData], dict[str, Any]]:
        """Read the given files of one data set and align their feature columns.

        Args:
            *paths: the files, the training data first; None for one that was not given.
            **names_aside: names of columns of the first file that hold numbers which are no
                features, by what `fit` calls them; their values are returned by the same names.
        """
        files = [path for path in paths if path is not None]
        require_files(*files)
        name_by_kind = {kind: name for kind, name in names_aside.items() if name is not None}
        options = self
        if self.features:
            features = [*self.features, *name_by_kind.values()]
            options = dataclasses.replace(self, features=features)

        first = options.file(files[0])
        values_aside = {}
        for kind, name in name_by_kind.items():
            first, values_aside[kind] = set_aside(first, name, f"{files[0]}: {kind}")
        parts = [first, *(self.file(path) for path in files[1:])]
        return same_columns(parts, files), values_aside

    def in_files(
        self,
        *paths: Path | None,
        memory: str | None = None,
        client: Any = None,
        unlabelled: bool = False,
    ) -> list[RankingData]:
        """Read files whose features stay there: labels and queries now, features in chunks or on a
        cluster's workers.

        Args:
            *paths: files or patterns of one data set, the training data first.
            memory: memory there is for chunks.
            client: client of a cluster, whose workers read the first of the files.
            unlabelled: whether a table needs no label column.
        """
        for name in ("doc", "categorical", "separator"):
            if getattr(self, name):
                raise OptionError(
                    f"--{name}: needs the data in memory; "
                    "expected no --memory, --cluster or --workers"
                )
        files = [path for path in paths if path is not None]
        parts: list[RankingData] = []
        for path in files:
            options = self._options_in_files(path, unlabelled=unlabelled)
            with show_reading(f"reading {path.name}"):
                if client is not None and not parts:
                    parts.append(read_distributed(path, client=client, **options))
                else:
                    parts.append(read_streamed(path, memory=memory, **options))
        return same_columns(parts, files)

    def _options_in_files(self, path: Path, *, unlabelled: bool) -> dict[str, Any]:
        """Return the options of `read_streamed` for a file."""
        values = self.keywords()
        if format_of_table(path) not in IN_CHUNKS:
            return {name: values[name] for name in ("zero_based", "allow_nan")}
        columns = {name: values[name] for name in ("label", "qid", "drop", "features")}
        columns = {name: value for name, value in columns.items() if value}
        return {**columns, "unlabelled": unlabelled}

    def folder(self, path: Path, fold: int) -> Splits:
        """Read one fold of a data set's folder."""
        with show_reading(f"reading {path}"):
            return read_folder(
                path, fold, zero_based=self.zero_based, allow_nan=self.allow_nan, cache=self.cache
            )

    def parts(self, path: Path, fold: int) -> dict[str, RankingData]:
        """Read a file, or the parts of one fold of a folder, by name."""
        if not path.is_dir():
            return {str(path): self.file(path)}
        folder = path.name or path
        parts = {}
        for name, part in self.folder(path, fold)._asdict().items():
            if part is not None:
                parts[f"{folder}/{name}"] = part
        return parts

    def scored(self, scores: Path, data: Path) -> JudgedRun:
        """Read scores and the data they belong to, or a TREC run and its relevance judgments."""
        with show_reading(f"reading {data.name}") as progress:
            return read_judged_scores(scores, data, progress=progress, **self.keywords())

    def for_ranker(
        self, ranker: Ranker, path: Path, *, unlabelled: bool = False, memory: str | None = None
    ) -> RankingData:
        """Read one file and align it with the columns that a ranker was fitted on; with `memory`,
        in chunks.
        """
        options = dataclasses.replace(self, categorical=list(ranker.categories_) or None)
        if memory is None:
            data = options.file(path, unlabelled=unlabelled)
        else:
            (data,) = options.in_files(path, memory=memory, unlabelled=unlabelled)
        names = getattr(ranker, "feature_names_in_", None)
        return columns_of_model(data, ranker.n_features_in_, names, path)

    def changed(self) -> dict[str, Any]:
        """The options that were given, without those of the cache, which change no result."""
        changed = {}
        for field in dataclasses.fields(self):
            default = field.default.default  # type: ignore[union-attr]
            value = getattr(self, field.name)
            if value != default and field.name != "cache":
                changed[field.name] = value
        return changed


def load_ranker(model: Path, *data: Path) -> Ranker:
    """Read a model; refuse a file that is none, or data that is not there, before importing what
    models need.

    Args:
        model: the file of the model.
        data: files that are read afterwards.
    """
    from tautrank.ranker.model_file import check_model

    check_model(model)
    require_files(*data)
    from tautrank.ranker.estimator import Ranker

    return Ranker.load(model)


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace every parameter of a command that is a group of options by its options.

    Args:
        command: function for Typer whose parameters are all keyword-only.
    """
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += _parameters_of_group(parameter.annotation)
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        for name, group in groups.items():
            names = [field.name for field in dataclasses.fields(group)]
            values[name] = group(**{option: values.pop(option) for option in names})
        command(**values)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return with_options


def _parameters_of_group(group: Any) -> list[inspect.Parameter]:
    """Return the options of a group as parameters of a command."""
    fields = inspect.signature(group, eval_str=True).parameters.values()
    return [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in fields]


def names_of(texts: list[str] | None, option: str) -> list[str]:
    """Return the names given to an option that may be repeated and takes several, separated by
    commas.

    Commas inside parentheses belong to a name.

    Args:
        texts: values of the option as typed; None for an option that was not given.
        option: name of the option, for the error message.

    >>> names_of(["ndcg@10,err(max_label=2,ties=best)@5", "map"], "--metrics")
    ['ndcg@10', 'err(max_label=2,ties=best)@5', 'map']
    """
    all_names = []
    for text in texts or []:
        names = split_at_commas(text)
        if not names:
            example = _EXAMPLES.get(option, "lambdarank,xendcg")
            raise OptionError(f"{option}: found no name; expected names such as '{example}'")
        all_names += names
    return all_names


def metrics_of(texts: list[str] | None, default: Sequence[str], **rules: Any) -> list[Metric]:
    """Return the metrics named by an option, or those of the default that the tool of ``--like``
    has.

    Args:
        texts: values of the option as typed; None if it was not given.
        default: names to use then.
        **rules: options of every metric, `like` among them; None for one that was not given.

    >>> metrics_of(None, ["ndcg@5", "map"], like="sklearn")
    [metric('ndcg(ties=expected,empty=zero,gain=linear)@5')]
    """
    options = {name: value for name, value in rules.items() if value is not None}
    names = names_of(texts, "--metrics") or list(default)
    if texts is None and "like" in options:
        tool = TOOLS[choice("like", options["like"], tuple(TOOLS))]
        names = [name for name in names if name_of(name) in tool.always]
    return [metric(name, **options) for name in names]


def register_own_losses(sources: list[str] | None) -> list[str]:
    """Import the user's own losses and return their names.

    Args:
        sources: Python files and modules.
    """
    from tautrank.losses import own_losses

    names = []
    for source in sources or []:
        names += own_losses.import_losses(source)
    return names
