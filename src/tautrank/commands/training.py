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
_N_FEATURES_NAMED = 5  # after a training


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
        """Return these options as parameters of `Ranker`, after importing the user's own losses;
        raise an error if the engine cannot train one of the losses.

        Args:
            losses: names of the losses to train.
            **defaults: more parameters of `Ranker`, which `--param` may replace.
        """
        options.register_own_losses(self.imported)
        parameters_of_engine = engine_parameters(self.param)
        for loss in losses:
            self._check_engine(loss, parameters_of_engine)
        parameters = {
            **defaults,
            "n_estimators": whole("--trees", self.trees, 1),
            "early_stopping_rounds": self.early_stopping or None,  # 0 is off
        }
        # Defaults are left out, so that finished trainings are found again.
        if self.engine != DEFAULT_ENGINE:
            parameters["engine"] = self.engine
        if self.speed != Settings.speed:
            parameters["speed"] = choice("speed", self.speed, ("exact", "fast"))
        if self.list_features is not None:
            parameters["list_features"] = _parse_list_features(self.list_features)
        return parameters | parameters_of_engine  # the latter take precedence

    def _check_engine(self, loss: str, parameters_of_engine: dict[str, Any]) -> None:
        """Raise an error if the engine that trains a loss, or a member of a committee of losses, is
        not installed, or does not know a parameter.

        Args:
            loss: name of the loss.
            parameters_of_engine: parameters of the engine, of `--param`.
        """
        for member in members_of(read_loss(loss)):
            engine = engine_for(self.engine, member)
            check_installed(engine.name)
            # Only with parameters to check: the tool knows their names, and is slow to import.
            if parameters_of_engine and engine.name == self.engine:
                # Names that are no parameters of `Ranker` itself must be known to the engine.
                names_of_ranker = (*tr.Ranker._get_param_names(), "categorical_feature")
                names = [name for name in parameters_of_engine if name not in names_of_ranker]
                refuse(engine.name_errors(member, names))


def _parse_list_features(text: str) -> bool | str | list[str]:
    """Return the value of the parameter `list_features` of `Ranker` for the text of
    --list-features: True for all, ``"auto"``, or names of features.
    """
    if text == "all":
        return True
    if text == "auto":
        return text
    return options.names_of([text], "--list-features")


def engine_parameters(texts: list[str] | None) -> dict[str, Any]:
    """Parse the name=value pairs of --param into a dictionary; a value is a number, true, false, or
    text.

    Args:
        texts: pairs as typed; None if there are none.

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
        # Numbers, true and false are JSON. A value that is no JSON stays text.
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
        """Return these options as the parameter `langevin` of `Ranker`; None if neither was given,
        for training without Langevin boosting.
        """
        parameters = {}
        if self.langevin_temperature is not None:
            parameters["temperature"] = self.langevin_temperature
        if self.langevin_shrink_rate is not None:
            parameters["shrink_rate"] = self.langevin_shrink_rate
        return tr.Langevin(**parameters) if parameters else None


@dataclasses.dataclass(frozen=True)
class _FeaturePlace:
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
        # Where the features are: in files read in chunks, on a cluster, or with local processes.
        options_of_place = [self.memory, self.cluster, self.workers]
        n_given = sum(value is not None for value in options_of_place)
        if n_given > 1:
            raise OptionError(
                "--memory, --cluster, --workers: found more than one; expected one of them"
            )
        if not self.is_in_memory and has_columns_aside:
            raise OptionError("--weights, --propensity: need the data in memory; expected neither")

    def client(self, stack: ExitStack) -> Any:
        """Connect to the Dask cluster of --cluster, or start one of --workers processes on this
        machine, and return its client; None with --memory, which needs no cluster.

        Args:
            stack: closes the client, and a local cluster, when it is closed itself.
        """
        if self.memory is not None:
            return None
        workers = 1 if self.workers is None else self.workers
        n_workers = whole("--workers", workers, 1)
        address = self.cluster or LOCAL
        return connect(address, n_workers, stack, "--cluster")


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
    place: _FeaturePlace,
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
        interrupts = stack.enter_context(_catch_interrupts())
        start = time.perf_counter()
        parameters_of_ranker: dict[str, Any] = {
            "loss": loss,
            "metric": bound_metric,
            "langevin": langevin_value,
            "cross_validate_trees": cross_validate_trees,
            "random_state": training.seed,
            "n_jobs": training.jobs,
        }
        parameters_of_ranker |= parameters
        ranker = tr.Ranker(**parameters_of_ranker)
        ranker.fit(
            *parts,
            **columns_aside,
            init_model=init_model,
            callbacks=[lambda step: bool(interrupts)],  # true ends the training
        )
    ranker.save(model)
    say(f"{model}: {_size_and_value(ranker)}")
    seconds = time.perf_counter() - start
    say(_describe_training(ranker, seconds))
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


def _describe_training(ranker: Any, seconds: float) -> str:
    """Return text for the user on a training: how long it took, why it stopped early, and the most
    important features.
    """
    text = f"trained in {duration_text(seconds)}{_why_it_stopped(ranker)}"
    most_important = top_features(ranker)[:_N_FEATURES_NAMED]
    shares = [f"{name} {share:.0%}" for name, share in most_important]
    if shares:
        text += f"\ntop features by gain: {', '.join(shares)}"
    return text


def _why_it_stopped(ranker: Any) -> str:
    """Return the end of a sentence that says after which tree no validation value was better; empty
    text if the training did not stop early.
    """
    from tautrank.engines.task import Committee

    histories = ranker.evals_result_.get("valid", {})
    if not histories:
        return ""
    name, values = next(iter(histories.items()))  # the first metric decides
    is_committee = isinstance(read_loss(ranker.loss), Committee)
    if is_committee and len(values) > 1:
        # The last value is that of the finished committee; those before are of its rounds, in each
        # of which every member gets a tree. The sign makes a larger value the better one.
        values_of_rounds = tr.metric(name).sign * np.array(values[:-1])
        best_round = values_of_rounds.argmax() + 1
        return (
            f" to tree {values_of_rounds.size} of each member; "
            f"after tree {best_round} no validation value of their sum was better"
        )
    # There is one value per round. More rounds than trees: those after the best have been dropped.
    n_trees = ranker.n_trees_
    if len(values) > n_trees and n_trees == ranker.best_iteration_:
        return f" to tree {len(values)}; after tree {n_trees} no validation value was better"
    return ""


@contextmanager
def _catch_interrupts() -> Iterator[list[int]]:
    """Context manager in which the first Ctrl-C raises nothing, but is put into the list that this
    yields, so that training can end after the current tree; a second Ctrl-C stops at once.
    """
    interrupts: list[int] = []

    def on_interrupt(signal_number: int, frame: Any) -> None:
        if interrupts:
            raise KeyboardInterrupt
        interrupts.append(signal_number)
        ERR.print("stopping after this tree; Ctrl-C again stops at once, without a model")

    # Ctrl-C sends the signal SIGINT.
    previous_handler = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, previous_handler)
