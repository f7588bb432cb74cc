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
        """Return these options of the command line as keyword arguments of `tautrank.read`, which
        calls the option ``doc`` ``doc_id``.
        """
        # Options that take several names were typed as texts with commas.
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
        """Read the files of one data set with the same feature columns; columns of the first file
        such as weights are taken out of its features and returned by themselves.

        Args:
            *paths: the files, the training data first; None for one that was not given.
            **names_aside: names of columns of the first file that hold numbers which are no
                features, by what `fit` calls them, such as ``weights="clicks"``; their values are
                returned by the same keywords.
        """
        files = [path for path in paths if path is not None]
        require_files(*files)
        column_by_argument = {
            argument: column for argument, column in names_aside.items() if column is not None
        }
        options_of_first = self
        if self.features:
            # Columns to take out have to be read, too.
            features = [*self.features, *column_by_argument.values()]
            options_of_first = dataclasses.replace(self, features=features)

        first_part = options_of_first.file(files[0])
        values_aside = {}
        for argument, column in column_by_argument.items():
            error_prefix = f"{files[0]}: {argument}"
            first_part, values = set_aside(first_part, column, error_prefix)
            values_aside[argument] = values
        parts = [first_part]
        for path in files[1:]:
            parts.append(self.file(path))
        return same_columns(parts, files), values_aside

    def in_files(
        self,
        *paths: Path | None,
        memory: str | None = None,
        client: Any = None,
        unlabelled: bool = False,
    ) -> list[RankingData]:
        """Read files that do not fit in memory: labels and queries are read now, the features stay
        in the files and are read later, in chunks or by a cluster's workers.

        Args:
            *paths: files or patterns of one data set, the training data first; None for one that
                was not given.
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
        """Return the options with which `read_streamed` reads a file in chunks: those of LETOR text
        or those of tables.
        """
        values = self.keywords()
        # A file that is no table of a format readable in chunks is taken for LETOR text.
        is_text = format_of_table(path) not in IN_CHUNKS
        if is_text:
            return {name: values[name] for name in ("zero_based", "allow_nan")}
        options: dict[str, Any] = {"unlabelled": unlabelled}
        for name in ("label", "qid", "drop", "features"):
            if values[name]:
                options[name] = values[name]
        return options

    def folder(self, path: Path, fold: int) -> Splits:
        """Read one fold of a data set's folder."""
        with show_reading(f"reading {path}"):
            return read_folder(
                path, fold, zero_based=self.zero_based, allow_nan=self.allow_nan, cache=self.cache
            )

    def parts(self, path: Path, fold: int) -> dict[str, RankingData]:
        """Read a file, or the training, validation and test data of one fold of a folder; return
        the data by names to print, such as ``MSLR/train``.
        """
        if not path.is_dir():
            return {str(path): self.file(path)}
        folder_name = path.name or path  # the path "." has no name
        splits = self.folder(path, fold)
        part_by_name = {}
        for name, part in splits._asdict().items():
            if part is not None:
                part_by_name[f"{folder_name}/{name}"] = part
        return part_by_name

    def scored(self, scores: Path, data: Path) -> JudgedRun:
        """Read scores and the data they belong to, or a TREC run and its relevance judgments."""
        with show_reading(f"reading {data.name}") as progress:
            return read_judged_scores(scores, data, progress=progress, **self.keywords())

    def for_ranker(
        self, ranker: Ranker, path: Path, *, unlabelled: bool = False, memory: str | None = None
    ) -> RankingData:
        """Read one file for a fitted ranker, with the feature columns that it was fitted on.

        Args:
            ranker: the fitted ranker.
            path: the file.
            unlabelled: whether a table needs no label column.
            memory: memory there is for reading the features in chunks; None to read them whole.
        """
        # Columns that held categories when the ranker was fitted hold them here too.
        options = dataclasses.replace(self, categorical=list(ranker.categories_) or None)
        if memory is None:
            data = options.file(path, unlabelled=unlabelled)
        else:
            (data,) = options.in_files(path, memory=memory, unlabelled=unlabelled)
        names = getattr(ranker, "feature_names_in_", None)
        return columns_of_model(data, ranker.n_features_in_, names, path)

    def changed(self) -> dict[str, Any]:
        """Return the options whose values are not their defaults, by name; without the option of
        the cache, which changes no result.
        """
        changed = {}
        for field in dataclasses.fields(self):
            # The default of a field is an option of Typer, which has the user's default.
            default = field.default.default  # type: ignore[union-attr]
            value = getattr(self, field.name)
            if value != default and field.name != "cache":
                changed[field.name] = value
        return changed


def load_ranker(model: Path, *data: Path) -> Ranker:
    """Read a model file; raise an error about a file that is no model, or missing data files,
    before the slow import of what models need.

    Args:
        model: the file of the model.
        data: data files that the command reads afterwards.
    """
    from tautrank.ranker.model_file import check_model

    check_model(model)
    require_files(*data)
    from tautrank.ranker.estimator import Ranker

    return Ranker.load(model)


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator of a Typer command: a parameter whose type is a dataclass of options becomes one
    option of the command line per field.

    The decorated function takes the values of all options, puts those of each dataclass together,
    and calls the command.

    Args:
        command: function for Typer whose parameters are all keyword-only.
    """
    dataclass_by_parameter: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    signature = inspect.signature(command, eval_str=True)
    for name, parameter in signature.parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            dataclass_by_parameter[name] = parameter.annotation
            parameters += _parameters_of_group(parameter.annotation)
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        # Typer passes each option by itself: those of a dataclass are taken out and put together.
        for name, options_class in dataclass_by_parameter.items():
            field_names = [field.name for field in dataclasses.fields(options_class)]
            field_values = {field_name: values.pop(field_name) for field_name in field_names}
            values[name] = options_class(**field_values)
        command(**values)

    # Typer reads the options from the signature and the annotations.
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return with_options


def _parameters_of_group(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass of options as keyword-only parameters of a command."""
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
    """Return the metrics that --metrics names; without it, those default metrics that the tool
    named by --like (such as trec_eval) can compute.

    Args:
        texts: values of --metrics as typed; None if it was not given.
        default: names of metrics to use without --metrics.
        **rules: options of every metric, `like` among them; None for one that was not given.

    >>> metrics_of(None, ["ndcg@5", "map"], like="sklearn")
    [metric('ndcg(ties=expected,empty=zero,gain=linear)@5')]
    """
    options = {name: value for name, value in rules.items() if value is not None}
    names = names_of(texts, "--metrics") or list(default)
    # A metric such as ndcg@10 is known to a tool by its name without the cutoff.
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
