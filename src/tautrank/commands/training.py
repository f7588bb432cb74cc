"""The command `tautrank train`, and the options of all that train."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import typer

import tautrank as tr
from tautrank.arguments import choice, whole
from tautrank.commands import options
from tautrank.commands.models import size_of, top_features
from tautrank.commands.options import argument, flag, option
from tautrank.commands.output import ERR, say
from tautrank.data.distributed import LOCAL, connect
from tautrank.engines import DEFAULT_ENGINE, Settings, engine_for, members_of, read_loss
from tautrank.engines.packages import check_installed
from tautrank.errors import OptionError, refuse
from tautrank.files import require_writable
from tautrank.progress import duration_text

METRIC = option("Metric for validation and early stopping.", "ndcg@10")
LEARNING_RATE = option(
    "Learning rate: the factor by which each tree is scaled.", Settings.learning_rate
)
LEAVES = option("Maximum number of leaves per tree.", Settings.num_leaves)
_TOP = 5  # features that are named after a training


@dataclasses.dataclass(frozen=True)
class Training:
    """The options of every command that trains with the user's parameters."""

    engine: str = option(
        "Engine for the losses of this library; 'tool:objective' names its own.", DEFAULT_ENGINE
    )
    imported: list[str] | None = options.IMPORTED
    trees: int = option("Maximum number of trees.", Settings.n_estimators)
    early_stopping: int = option(
        "Stop after this many trees without a better validation value; 0: never.",
        Settings.early_stopping_rounds or 0,
    )
    list_features: str | None = option(
        "Features to describe relative to the list too: "
        "all, auto (by validation data), or names or numbers from 0."
    )
    speed: str = option(
        "exact, or fast for coarser bins and quantised gradients (LightGBM).", Settings.speed
    )
    param: list[str] | None = option("Engine parameter as name=value; may be repeated.")
    seed: int = options.SEED
    jobs: int | None = option(
        "Number of threads; default by the size of the data.", None, "--jobs", "-j"
    )

    def parameters(self, losses: Sequence[str], **defaults: Any) -> dict[str, Any]:
        """Import the user's losses and return parameters of `Ranker`; refuse an engine that cannot
        train the losses.

        Args:
            losses: names of the losses to train.
            **defaults: parameters that `--param` may replace.
        """
        options.register_own_losses(self.imported)
        of_engine = engine_parameters(self.param)
        for loss in losses:
            self._check_engine(loss, of_engine)
        parameters = {
            **defaults,
            "n_estimators": whole("--trees", self.trees, 1),
            "early_stopping_rounds": self.early_stopping or None,
        }
        # Defaults are left out, so that finished trainings are found again.
        if self.engine != DEFAULT_ENGINE:
            parameters["engine"] = self.engine
        if self.speed != Settings.speed:
            parameters["speed"] = choice("speed", self.speed, ("exact", "fast"))
        if self.list_features is not None:
            parameters["list_features"] = _list_features(self.list_features)
        return parameters | of_engine

    def _check_engine(self, loss: str, of_engine: dict[str, Any]) -> None:
        """Raise an error if the engine of a loss is not installed, or does not know a parameter.

        Args:
            loss: name of the loss.
            of_engine: parameters of the engine.
        """
        for member in members_of(read_loss(loss)):
            engine = engine_for(self.engine, member)
            check_installed(engine.name)
            # The tool knows the names, and is slow to import.
            if of_engine and engine.name == self.engine:
                of_ranker = (*tr.Ranker._get_param_names(), "categorical_feature")
                names = [name for name in of_engine if name not in of_ranker]
                refuse(engine.name_errors(member, names))


def _list_features(text: str) -> bool | str | list[str]:
    """Return the parameter of `Ranker` for what was typed for --list-features."""
    if text == "all":
        return True
    if text == "auto":
        return text
    return options.names_of([text], "--list-features")


def engine_parameters(texts: list[str] | None) -> dict[str, Any]:
    """Parse name=value pairs; a value is a number, true, false, or text.

    Args:
        texts: pairs as typed.

    >>> engine_parameters(["min_data_in_leaf=50", "boosting=goss"])
    {'min_data_in_leaf': 50, 'boosting': 'goss'}
    """
    parameters: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise OptionError(
                f"--param: found '{text}'; expected name=value, such as min_data_in_leaf=50"
            )
        parameters[name] = value
        with suppress(ValueError):
            parameters[name] = json.loads(value)
    return parameters


@dataclasses.dataclass(frozen=True)
class _LangevinOptions:
    """The options of Langevin boosting."""

    langevin_temperature: float | None = option(
        "Langevin boosting: inverse temperature of the noise. "
        "Default 1e8 if a shrink rate is given."
    )
    langevin_shrink_rate: float | None = option(
        "Langevin boosting: shrinkage of the model before each tree. "
        "Default 1e-4 if a temperature is given."
    )

    def value(self) -> tr.Langevin | None:
        """Return the parameter of `Ranker`, None without Langevin boosting."""
        strengths = {
            "temperature": self.langevin_temperature,
            "shrink_rate": self.langevin_shrink_rate,
        }
        typed = {name: value for name, value in strengths.items() if value is not None}
        return tr.Langevin(**typed) if typed else None


@dataclasses.dataclass(frozen=True)
class _Place:
    """The options that say where features are while a model is trained."""

    memory: str | None = options.MEMORY
    cluster: str | None = option(
        "Train on a Dask cluster: the address of its scheduler, or its scheduler file."
    )
    workers: int | None = option("Train in this many worker processes of this machine.")

    @property
    def is_in_memory(self) -> bool:
        """Whether all features are read into the memory of this process."""
        return self.memory is None and self.cluster is None and self.workers is None

    def check(self, has_columns_aside: bool) -> None:
        """Raise an error about options that exclude each other.

        Args:
            has_columns_aside: whether columns of weights or propensities were named.
        """
        n_missing = [self.memory, self.cluster, self.workers].count(None)
        if n_missing < 2:
            raise OptionError(
                "--memory, --cluster, --workers: found more than one; expected one of them"
            )
        if not self.is_in_memory and has_columns_aside:
            raise OptionError("--weights, --propensity: need the data in memory; expected neither")

    def client(self, stack: ExitStack) -> Any:
        """Return the client of the cluster, None where features are read in chunks.

        Args:
            stack: what closes the client.
        """
        if self.memory is not None:
            return None
        n_workers = whole("--workers", 1 if self.workers is None else self.workers, 1)
        return connect(self.cluster or LOCAL, n_workers, stack, "--cluster")


def train(
    *,
    data: Path = argument(
        "Training data (LETOR text or a table); several as 'part-*.parquet' with --workers."
    ),
    model: Path = option("File to save the model in.", ..., "--model", "-o"),
    valid: Path | None = option("Validation data, for early stopping."),
    loss: str = option(
        "Loss to optimise, such as 'ndcg-loss2++'; 'committee' for six in one model.", "lambdarank"
    ),
    metric: str = METRIC,
    cross_validate_trees: bool = flag(
        "Choose the number of trees by cross-validation, then train on all queries.",
        "--cross-validate-trees",
    ),
    training: Training,
    learning_rate: float = LEARNING_RATE,
    leaves: int = LEAVES,
    langevin: _LangevinOptions,
    weights: str | None = option("Column of a table with the weight of each row's query."),
    propensity: str | None = option(
        "Column of a table with the probability that a user looked at the document."
    ),
    init_model: Path | None = option("Model to add trees to, also one of LightGBM or XGBoost."),
    place: _Place,
    reader: options.ReaderOptions,
) -> None:
    """Train a model and save it in one file. Ctrl-C ends the training and keeps the trees so far.

    Example: tautrank train train.txt --valid vali.txt --loss ndcg-loss2++ --model model.taut
    """
    parameters = training.parameters([loss], learning_rate=learning_rate, num_leaves=leaves)
    bound_metric = tr.metric(metric)  # refuse a wrong name before reading the data
    langevin_value = langevin.value()
    require_writable(model)
    _check_model(init_model)
    place.check(has_columns_aside=bool(weights or propensity))
    with ExitStack() as stack:
        columns_aside: dict[str, Any] = {}
        if place.is_in_memory:
            parts, columns_aside = reader.files(
                data, valid, weights=weights, propensities=propensity
            )
        else:
            client = place.client(stack)
            parts = reader.in_files(data, valid, memory=place.memory, client=client)
        interrupts = stack.enter_context(_interrupted())
        start = time.perf_counter()
        defaults = {
            "loss": loss,
            "metric": bound_metric,
            "langevin": langevin_value,
            "cross_validate_trees": cross_validate_trees,
            "random_state": training.seed,
            "n_jobs": training.jobs,
        }
        ranker = tr.Ranker(**{**defaults, **parameters})
        ranker.fit(
            *parts,
            **columns_aside,
            init_model=init_model,
            callbacks=[lambda step: bool(interrupts)],
        )
    ranker.save(model)
    say(f"{model}: {_size_and_value(ranker)}")
    say(_how_it_went(ranker, time.perf_counter() - start))
    if interrupts:
        ERR.print(f"stopped: {model} has the trees so far")
        raise typer.Exit(130)


def _check_model(path: Path | None) -> None:
    """Raise an error about a file that is no model; None is fine."""
    if path is not None:
        from tautrank.ranker.model_file import check_model

        check_model(path)


def _size_and_value(ranker: Any) -> str:
    """Return how large a model is, and its value on validation data."""
    size = size_of(ranker)
    if ranker.best_score_ is None:
        return size
    return f"{size}, validation {ranker.metric} {ranker.best_score_:.4f}"


def _how_it_went(ranker: Any, seconds: float) -> str:
    """Return how long the training took, why it stopped, and which features count."""
    text = f"trained in {duration_text(seconds)}{_why_it_stopped(ranker)}"
    shares = [f"{name} {share:.0%}" for name, share in top_features(ranker)[:_TOP]]
    if shares:
        text += f"\ntop features by gain: {', '.join(shares)}"
    return text


def _why_it_stopped(ranker: Any) -> str:
    """Return after which tree no validation value was better; nothing if training did not stop."""
    from tautrank.engines.task import Committee

    histories = ranker.evals_result_.get("valid", {})
    if not histories:
        return ""
    name, values = next(iter(histories.items()))
    is_committee = isinstance(read_loss(ranker.loss), Committee)
    if is_committee and len(values) > 1:
        rounds = tr.metric(name).sign * np.array(values[:-1])
        best = rounds.argmax() + 1
        return (
            f" to tree {rounds.size} of each member; "
            f"after tree {best} no validation value of their sum was better"
        )
    n_trees = ranker.n_trees_
    if len(values) > n_trees and n_trees == ranker.best_iteration_:
        return f" to tree {len(values)}; after tree {n_trees} no validation value was better"
    return ""


@contextmanager
def _interrupted() -> Iterator[list[int]]:
    """Note Ctrl-C instead of raising, so that training ends after the current tree; a second one
    stops at once.
    """
    signals: list[int] = []

    def note(number: int, frame: Any) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)
        ERR.print("stopping after this tree; Ctrl-C again stops at once, without a model")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, before)
