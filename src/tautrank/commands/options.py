"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import typer

import tautrank as tr
from tautrank.arguments import choice, whole
from tautrank.commands.output import reading_bar
from tautrank.data import Judged, RankingData, Splits, read_folder
from tautrank.data.columns import columns_of_model, same_columns, set_aside
from tautrank.data.files import read_data, read_judged_scores
from tautrank.data.text_source import require_files
from tautrank.engines import DEFAULT_ENGINE, Settings, engine_for, members_of, read_loss
from tautrank.engines.packages import check_installed
from tautrank.errors import OptionError, refuse
from tautrank.losses import own_losses
from tautrank.metrics import TOOLS, Metric
from tautrank.names import name_of, split_at_commas
from tautrank.ranker.model_file import check_model


def option(default: Any, text: str, *names: str) -> Any:
    """Declare an option of a command.

    Args:
        default: default value; ``...`` for an option that is required.
        text: help text.
        names: names on the command line; default the name of the parameter.
    """
    return typer.Option(default, *names, help=text)


def argument(text: str, default: Any = ...) -> Any:
    """Declare a positional argument of a command.

    Args:
        text: help text.
        default: default value; ``...`` for an argument that is required.
    """
    return typer.Argument(default, help=text)


AS_JSON = option(False, "Print JSON instead of a table.", "--json")
IMPORTED = option(None, "Python file or module that registers your own loss or metric. Its code is run.", "--import")
LEARNING_RATE = option(Settings.learning_rate, "Learning rate: the factor by which each tree is scaled.")
LEAVES = option(Settings.num_leaves, "Maximum number of leaves per tree.")
MEMORY = option(None, "Memory there is, such as 3G: features stay in the file and are read in chunks.")
METRIC = option("ndcg@10", "Metric for validation and early stopping.")
LIKE = option(None, f"Tool whose rules the metrics follow: {', '.join(TOOLS)}.")
SEED = option(0, "Random seed.")


@dataclasses.dataclass(frozen=True)
class Training:
    """The options of every command that trains with the user's parameters."""

    engine: str = option(
        DEFAULT_ENGINE, "Engine for losses of this library; 'tool:objective' is always trained by that tool."
    )
    imported: list[str] | None = IMPORTED
    trees: int = option(Settings.n_estimators, "Maximum number of trees.")
    early_stopping: int = option(
        Settings.early_stopping_rounds or 0,
        "Stop after this many trees without a better validation value; 0 to never stop early.",
    )
    list_features: str | None = option(
        None,
        "Describe documents relative to their list too: all features, auto to choose them on validation data, or names "
        "or numbers (from 0) of features, separated by commas.",
    )
    speed: str = option(Settings.speed, "exact, or fast for coarser bins and quantised gradients (LightGBM).")
    param: list[str] | None = option(None, "Engine parameter as name=value; may be repeated.")
    seed: int = SEED
    jobs: int | None = option(None, "Number of threads; default by the size of the data.", "--jobs", "-j")

    def parameters(self, losses: Sequence[str], **others: Any) -> dict[str, Any]:
        """Import the user's losses and return parameters of `Ranker`; refuse an engine that cannot train the losses.

        Args:
            losses: names of the losses to train.
            **others: parameters that `--param` may replace.
        """
        import_losses(self.imported)
        given = engine_parameters(self.param)
        own = (*tr.Ranker._get_param_names(), "categorical_feature") if given else ()
        for loss in losses:
            for member in members_of(read_loss(loss)):
                engine = engine_for(self.engine, member)
                check_installed(engine.name)
                if given and engine.name == self.engine:  # the tool knows the names, and is slow to import
                    refuse(engine.wrong_names(member, [name for name in given if name not in own]))
        others["n_estimators"] = whole("--trees", self.trees, 1)
        others["early_stopping_rounds"] = self.early_stopping or None
        if self.engine != DEFAULT_ENGINE:  # the default is left out, so that finished trainings are found again
            others["engine"] = self.engine
        if self.speed != Settings.speed:
            others["speed"] = choice("speed", self.speed, ("exact", "fast"))
        if self.list_features is not None:
            chosen = self.list_features
            others["list_features"] = {"all": True, "auto": "auto"}.get(chosen) or names_of([chosen], "--list-features")
        return others | given


_LISTS = ("features", "drop", "categorical")


@dataclasses.dataclass(frozen=True)
class Reading:
    """The options of every command that reads ranking data, and the readers that use them."""

    zero_based: bool = option(False, "Feature indices in LETOR text start at 0.", "--zero-based")
    allow_nan: bool = option(False, "Read 'nan' as a missing value.", "--allow-nan")
    cache: bool | None = option(
        None, "Keep the parsed data next to the file; default for files of 64 MiB or more.", "--cache/--no-cache"
    )
    label: str = option("label", "Label column of Parquet and CSV files.", "--label")
    qid: str = option("qid", "Query id column of Parquet and CSV files.", "--qid")
    doc: str | None = option(None, "Document id column of Parquet and CSV files.", "--doc")
    features: list[str] | None = option(
        None, "Feature columns of Parquet and CSV files, separated by commas; default all other numbers.", "--features"
    )
    drop: list[str] | None = option(None, "Columns of Parquet and CSV files to leave out, by commas.", "--drop")
    categorical: list[str] | None = option(
        None, "Columns of Parquet and CSV files whose values are categories, separated by commas.", "--categorical"
    )
    separator: str | None = option(None, "What separates the columns of CSV; default a comma.", "--separator")

    def given(self) -> dict[str, Any]:
        """The options of `read_data`."""
        columns = {name: names_of(getattr(self, name), f"--{name}") for name in _LISTS}
        return dataclasses.asdict(self) | columns

    def file(self, path: Path, *, unlabelled: bool = False) -> RankingData:
        """Read one file; with `unlabelled`, a table needs no label column."""
        with reading_bar(f"reading {path.name}") as report:
            return read_data(path, unlabelled=unlabelled, progress=report, **self.given())

    def files(self, *paths: Path | None) -> list[RankingData]:
        """Read the given files of one data set and align their feature columns."""
        given = [path for path in paths if path is not None]
        require_files(*given)
        return same_columns([self.file(path) for path in given], given)

    def training(self, data: Path, valid: Path | None, **aside: str | None) -> tuple[list[RankingData], dict[str, Any]]:
        """Read training and validation data, and columns of the training data that hold numbers which are no features.

        Args:
            data, valid: the files.
            **aside: names of such columns, by what `fit` calls them.
        """
        named = {kind: name for kind, name in aside.items() if name is not None}
        asked = dataclasses.replace(self, features=[*self.features, *named.values()]) if self.features else self
        train, values = asked.file(data), dict[str, Any]()
        for kind, name in named.items():
            train, values[kind] = set_aside(train, name, f"{data}: {kind}")
        if valid is None:
            return [train], values
        return same_columns([train, self.file(valid)], [data, valid]), values

    def in_files(
        self, *paths: Path | None, memory: str | None = None, client: Any = None, unlabelled: bool = False
    ) -> list[RankingData]:
        """Read files whose features stay there: labels and queries now, features in chunks or on a cluster's workers.

        Args:
            *paths: files or patterns of one data set, the training data first.
            memory: what a training may use.
            client: client of the cluster that reads the training data.
            unlabelled: whether a table needs no label column.
        """
        if wrong := [name for name in ("doc", "categorical", "separator") if getattr(self, name)]:
            raise OptionError(f"--{wrong[0]}: needs the data in memory; expected no --memory, --cluster or --workers")
        asked, found = self.given(), list[RankingData]()
        text = {name: asked[name] for name in ("zero_based", "allow_nan")}
        table = {name: asked[name] for name in ("label", "qid", "drop")} | {"unlabelled": unlabelled}
        table["features"] = asked["features"] or None
        given = [path for path in paths if path is not None]
        for path in given:
            how = table if path.suffix in (".parquet", ".pq") else text
            with reading_bar(f"reading {path.name}"):
                if client is not None and not found:
                    found.append(tr.read_distributed(path, client=client, **how))
                else:
                    found.append(tr.read_streamed(path, memory=memory, **how))
        return same_columns(found, given)

    def folder(self, path: Path, fold: int) -> Splits:
        """Read one fold of a data set's folder."""
        with reading_bar(f"reading {path}"):
            return read_folder(path, fold, zero_based=self.zero_based, allow_nan=self.allow_nan, cache=self.cache)

    def parts(self, path: Path, fold: int) -> dict[str, RankingData]:
        """Read a file, or the parts of one fold of a folder, by name."""
        if not path.is_dir():
            return {str(path): self.file(path)}
        parts = self.folder(path, fold)._asdict()
        return {f"{path.name or path}/{name}": part for name, part in parts.items() if part is not None}

    def scored(self, scores: Path, data: Path) -> Judged:
        """Read scores and the data they belong to, or a TREC run and its relevance judgments."""
        with reading_bar(f"reading {data.name}") as report:
            return read_judged_scores(scores, data, progress=report, **self.given())

    def for_ranker(
        self, ranker: tr.Ranker, path: Path, *, unlabelled: bool = False, memory: str | None = None
    ) -> RankingData:
        """Read one file and align it with the columns that a ranker was fitted on; with `memory`, in chunks."""
        names = getattr(ranker, "feature_names_in_", None)
        known = dataclasses.replace(self, categorical=[*ranker.categories_] or None)
        if memory is None:
            data = known.file(path, unlabelled=unlabelled)
        else:
            (data,) = known.in_files(path, memory=memory, unlabelled=unlabelled)
        return columns_of_model(data, ranker.n_features_in_, names, path)

    def as_typed(self) -> list[str]:
        """The same options as typed on the command line, without those of the cache, which change no result."""
        words = []
        for name in ("label", "qid", "doc", *_LISTS, "separator", "zero_based", "allow_nan"):
            given = getattr(self, name)
            if given != getattr(Reading, name).default:
                value = [] if given is True else [",".join(given) if isinstance(given, list) else given]
                words += [f"--{name.replace('_', '-')}", *value]
        return words


def in_files(
    stack: ExitStack,
    reading: Reading,
    *paths: Path | None,
    memory: str | None,
    cluster: str | None,
    workers: int | None,
) -> list[RankingData]:
    """Read data whose features stay in files, here or on a cluster that lives as long as the training.

    Args:
        stack: what ends the cluster.
        reading: how to read.
        paths: training and validation data.
        memory, cluster, workers: the options of the command.
    """
    if sum(given is not None for given in (memory, cluster, workers)) > 1:
        raise OptionError("--memory, --cluster, --workers: found more than one; expected one of them")
    if memory is not None:
        return reading.in_files(*paths, memory=memory)
    from tautrank.data.distributed import LOCAL, connect

    client = connect(cluster or LOCAL, whole("--workers", workers or 1, 1), stack, "--cluster")
    return reading.in_files(*paths, client=client)


def load_ranker(model: Path, *data: Path) -> tr.Ranker:
    """Read a model; refuse a file that is none, or data that is not there, before importing what models need.

    Args:
        model: the file of the model.
        data: files that are read afterwards.
    """
    check_model(model)
    require_files(*data)
    return tr.Ranker.load(model)


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace every parameter of a command that is a group of options, such as `Reading`, by its options.

    Args:
        command: function for Typer whose parameters are all keyword-only.
    """
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
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
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def names_of(texts: list[str] | None, option: str) -> list[str]:
    """Return the names given to an option that may be repeated and takes several, separated by commas.

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
            examples = {"--metrics": "ndcg@10,map", "--list-features": "bm25,price"}
            example = examples.get(option, "lambdarank,xendcg")
            raise OptionError(f"{option}: found no name; expected names such as '{example}'")
        found += names
    return found


def metrics_of(texts: list[str] | None, default: Sequence[str], **given: Any) -> list[Metric]:
    """Return the metrics named by an option, or those of the default that the tool of ``--like`` has.

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
    return [tr.metric(name, **options) for name in names]


def engine_parameters(given: list[str] | None) -> dict[str, Any]:
    """Parse name=value pairs; a value is a number, true, false, or text.

    Args:
        given: pairs as typed.

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
    """Import the user's own losses and return their names.

    Args:
        sources: Python files and modules.
    """
    return [name for source in sources or [] for name in own_losses.import_losses(source)]
