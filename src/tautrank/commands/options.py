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
from tautrank.data import Judged, RankingData, Splits, read_folder, read_streamed
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


def group(text: str, **given: Any) -> typer.Typer:
    """Make a group of commands.

    Args:
        text: help text.
        given: more options of `typer.Typer`.
    """
    return typer.Typer(
        help=text, no_args_is_help=True, add_completion=False, rich_markup_mode=None, **given
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


@dataclasses.dataclass(frozen=True)
class Reading:
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

    def given(self) -> dict[str, Any]:
        """The options of `tautrank.data.read`."""
        columns = {
            name: names_of(getattr(self, name), f"--{name}")
            for name in ("features", "drop", "categorical")
        }
        options = dataclasses.asdict(self) | columns
        options["doc_id"] = options.pop("doc")
        return options

    def file(self, path: Path, *, unlabelled: bool = False) -> RankingData:
        """Read one file; with `unlabelled`, a table needs no label column."""
        with show_reading(f"reading {path.name}") as progress:
            return read(path, unlabelled=unlabelled, progress=progress, **self.given())

    def files(
        self, *paths: Path | None, **aside: str | None
    ) -> tuple[list[RankingData], dict[str, Any]]:
        """Read the given files of one data set and align their feature columns.

        Args:
            *paths: the files, the training data first; None for one that was not given.
            **aside: names of columns of the first file that hold numbers which are no features, by
                what `fit` calls them; their values are returned by the same names.
        """
        given = [path for path in paths if path is not None]
        require_files(*given)
        named = {kind: name for kind, name in aside.items() if name is not None}
        asked = (
            dataclasses.replace(self, features=[*self.features, *named.values()])
            if self.features
            else self
        )
        parts, values = [asked.file(given[0])], dict[str, Any]()
        for kind, name in named.items():
            parts[0], values[kind] = set_aside(parts[0], name, f"{given[0]}: {kind}")
        return same_columns([*parts, *map(self.file, given[1:])], given), values

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
        if wrong := [name for name in ("doc", "categorical", "separator") if getattr(self, name)]:
            raise OptionError(
                f"--{wrong[0]}: needs the data in memory; expected no --memory, --cluster or --workers"
            )
        asked, found = self.given(), list[RankingData]()
        text = {name: asked[name] for name in ("zero_based", "allow_nan")}
        table = {name: asked[name] for name in ("label", "qid", "drop", "features") if asked[name]}
        given = [path for path in paths if path is not None]
        for path in given:
            how = (
                {**table, "unlabelled": unlabelled} if format_of_table(path) in IN_CHUNKS else text
            )
            with show_reading(f"reading {path.name}"):
                if client is not None and not found:
                    found.append(read_distributed(path, client=client, **how))
                else:
                    found.append(read_streamed(path, memory=memory, **how))
        return same_columns(found, given)

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
        parts = self.folder(path, fold)._asdict()
        return {
            f"{path.name or path}/{name}": part for name, part in parts.items() if part is not None
        }

    def scored(self, scores: Path, data: Path) -> Judged:
        """Read scores and the data they belong to, or a TREC run and its relevance judgments."""
        with show_reading(f"reading {data.name}") as progress:
            return read_judged_scores(scores, data, progress=progress, **self.given())

    def for_ranker(
        self, ranker: Ranker, path: Path, *, unlabelled: bool = False, memory: str | None = None
    ) -> RankingData:
        """Read one file and align it with the columns that a ranker was fitted on; with `memory`,
        in chunks.
        """
        known = dataclasses.replace(self, categorical=[*ranker.categories_] or None)
        if memory is None:
            data = known.file(path, unlabelled=unlabelled)
        else:
            (data,) = known.in_files(path, memory=memory, unlabelled=unlabelled)
        return columns_of_model(
            data, ranker.n_features_in_, getattr(ranker, "feature_names_in_", None), path
        )

    def changed(self) -> dict[str, Any]:
        """The options that were given, without those of the cache, which change no result."""
        usual = {field.name: field.default.default for field in dataclasses.fields(self)}  # type: ignore[union-attr]
        return {
            name: value
            for name, value in vars(self).items()
            if value != usual[name] and name != "cache"
        }


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
    """Replace every parameter of a command that is a group of options, such as `Reading`, by its
    options.

    Args:
        command: function for Typer whose parameters are all keyword-only.
    """
    groups, parameters = dict[str, Any](), list[inspect.Parameter]()
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            fields = inspect.signature(groups[name], eval_str=True).parameters.values()
            parameters += [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in fields]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(
                **{field.name: given.pop(field.name) for field in dataclasses.fields(group)}
            )
        command(**given)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return with_options


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
    found = []
    for text in texts or []:
        names = split_at_commas(text)
        if not names:
            example = {"--metrics": "ndcg@10,map", "--list-features": "bm25,price"}.get(
                option, "lambdarank,xendcg"
            )
            raise OptionError(f"{option}: found no name; expected names such as '{example}'")
        found += names
    return found


def metrics_of(texts: list[str] | None, default: Sequence[str], **given: Any) -> list[Metric]:
    """Return the metrics named by an option, or those of the default that the tool of ``--like``
    has.

    Args:
        texts: values of the option as typed; None if it was not given.
        default: names to use then.
        given: options of every metric, `like` among them; None for one that was not given.

    >>> metrics_of(None, ["ndcg@5", "map"], like="sklearn")
    [metric('ndcg(ties=expected,empty=zero,gain=linear)@5')]
    """
    options = {name: value for name, value in given.items() if value is not None}
    names = names_of(texts, "--metrics") or list(default)
    if texts is None and "like" in options:
        known = TOOLS[choice("like", options["like"], tuple(TOOLS))].always
        names = [name for name in names if name_of(name) in known]
    return [metric(name, **options) for name in names]


def register_own_losses(sources: list[str] | None) -> list[str]:
    """Import the user's own losses and return their names.

    Args:
        sources: Python files and modules.
    """
    from tautrank.losses import own_losses

    return [name for source in sources or [] for name in own_losses.import_losses(source)]
