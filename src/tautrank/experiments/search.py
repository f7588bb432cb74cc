"""A search for parameters: what is declared and checked before anything is trained."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tautrank
from tautrank.arguments import check_fields, checked_by, choice, job_count, real, truth, whole
from tautrank.data.ranking_data import RankingData, checked_data
from tautrank.engines import DEFAULTS, NativeLoss, Settings, read_loss
from tautrank.errors import DataError, OptionError, require
from tautrank.experiments.plan import Experiment, Plan, System
from tautrank.experiments.protocols import GivenSplits
from tautrank.experiments.space import Search, Space, parameters_of, spaces_of
from tautrank.files import PathLike, require_writable
from tautrank.losses import Loss
from tautrank.metrics import Metric, metric
from tautrank.ranker.columns import Columns, check_columns
from tautrank.ranker.stored_names import with_stored_names

_VERSION = 2
# How often a trial is compared with the others; docs/tuning.md has the measurements.
_N_CHECKPOINTS = 20
_MOST_SEED = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How configurations are proposed and trained.

    Args:
        sampler: ``random`` or ``tpe``.
        prune: Whether to stop trials whose validation curve falls behind the others.
        seed: The seed of all randomness.
        n_trials: The number of trials, including those of an earlier run.
        timeout: The seconds this run may take; trials still running then are given up. None for no
            limit.
        n_jobs: The number of threads in all, which the processes share.
        workers: The number of processes that train in parallel.
        store: The file that keeps the trials; None keeps nothing.
        final_fit: The data for the final training of the best model: ``train``, ``train+valid``, or
            None for no training.
    """

    sampler: str = field(default="random", metadata=checked_by(choice, known=("random", "tpe")))
    prune: bool = field(default=True, metadata=checked_by(truth, expected="True or False"))
    seed: int = field(default=0, metadata=checked_by(whole, least=0, most=_MOST_SEED))
    n_trials: int = field(default=50, metadata=checked_by(whole, least=1))
    timeout: float | None = field(default=None, metadata=checked_by(real, above=True))
    n_jobs: int | None = None
    workers: int = field(default=1, metadata=checked_by(whole, least=1))
    store: PathLike | None = None
    final_fit: str | None = field(
        default="train", metadata=checked_by(choice, known=("train", "train+valid"))
    )

    def __post_init__(self) -> None:
        check_fields(self)
        # Called for its check alone.
        job_count(self.n_jobs)
        if self.store is None:
            return
        # Optuna takes addresses of data bases, a store here is a file.
        if "://" in os.fspath(self.store):
            raise OptionError(
                f"store: found the address '{self.store}'; expected a file, such as tune.db"
            )
        try:
            require_writable(self.store)
        except DataError as error:
            raise OptionError(
                f"store: {error}; expected a file that can be written, such as tune.db"
            ) from None


def declare_search(
    loss: Any = "lambdarank",
    metric_name: str | Metric = "ndcg@10",
    space: str | Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Experiment:
    """Declare a search: the losses as systems, each with the ranges to search.

    Errors are reported here, before anything is trained.

    Args:
        loss: A loss, or several to choose from.
        metric_name: A metric, or its name.
        space: The name of a space, ranges by name, or None for the default.
        fixed: Parameters of `Ranker` that are the same in all trials.
        seed: The seed of all trainings.

    >>> search = declare_search("mse", "ndcg@5", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 40})
    >>> space_of(search, "mse"), checkpoints_of(search)
    ({'num_leaves': WholeNumber(low=2, high=9, log=False)}, range(2, 41, 2))
    """
    require("optuna", "tune needs Optuna", "tune")
    losses = _checked_losses(loss)
    metric_text = _metric_text(metric_name)
    spaces = spaces_of(losses, space, fixed or {})
    searched_names = {name for space_of_loss in spaces for name in space_of_loss}
    # Defaults of a search, except of what is searched; given parameters override them.
    parameters = {name: value for name, value in DEFAULTS.items() if name not in searched_names}
    parameters |= {"random_state": seed, "verbose": 0, **(fixed or {})}
    experiment = Experiment(
        systems=tuple(System(text) for text in losses),
        metrics=(metric_text,),
        # Train and valid stay as given, and each configuration is trained once.
        protocol=GivenSplits("seeds"),
        repeats=1,
        parameters=parameters,
        search=Search(everyone={}, systems=dict(zip(losses, spaces, strict=True))),
    )
    _check_parameters(experiment)
    return experiment


def space_of(experiment: Experiment, loss: str) -> Space:
    """Return the ranges that are searched for a loss, by name."""
    return dict(experiment.search.systems[loss])


def most_trees_of(experiment: Experiment) -> int:
    """Return the largest number of trees that any configuration of a search can have: the fixed
    number, or the upper end of the range if the number of trees is searched.
    """
    numbers_of_trees = [experiment.parameters.get("n_estimators", 1)]
    for space in experiment.search.systems.values():
        if "n_estimators" in space:
            # The probes of a range include both of its ends.
            numbers_of_trees += space["n_estimators"].probes()
    return max(int(number) for number in numbers_of_trees)


def checkpoints_of(experiment: Experiment) -> range:
    """Return the numbers of trees after which the validation scores of trials are compared, to stop
    those that fall behind: about 20 numbers at equal distances.
    """
    most_trees = most_trees_of(experiment)
    distance = max(1, most_trees // _N_CHECKPOINTS)
    return range(distance, most_trees + 1, distance)


def range_names(experiment: Experiment, loss: str) -> dict[str, str]:
    """Return the unique name of each searched range of a loss, by its name in the space.

    Losses that have the same range under a name share the name, so that what is learned about the
    range serves all of them; otherwise the name gets the loss added, ``"num_leaves of mse"``.

    Args:
        experiment: The search.
        loss: One of the losses.
    """
    all_spaces = experiment.search.systems.values()
    unique_names = {}
    for name, dimension in space_of(experiment, loss).items():
        same_named_ranges = [space[name] for space in all_spaces if name in space]
        # Ranges are equal if they are of the same kind and have the same ends.
        is_shared = all(same_named == dimension for same_named in same_named_ranges)
        unique_names[name] = name if is_shared else f"{name} of {loss}"
    return unique_names


def search_content(plan: Plan, options: SearchOptions) -> dict[str, Any]:
    """Return everything the results of a search depend on, as JSON values: what its store holds.

    Args:
        plan: The search on its data.
        options: How configurations are proposed.
    """
    experiment = plan.study
    content: dict[str, Any] = {
        "version": _VERSION,
        "loss": experiment.losses,
        "metric": experiment.metrics[0],
        "sampler": options.sampler,
        "seed": options.seed,
        "pruning": options.prune,
    }
    for loss in experiment.losses:
        space = space_of(experiment, loss)
        for name, unique_name in range_names(experiment, loss).items():
            content[f"space {unique_name}"] = space[name].to_plain()
    for name, value in sorted(with_stored_names(experiment.parameters).items()):
        # `repr`, as a value may be an object that JSON does not have.
        content[f"parameter {name}"] = repr(value)
    # The text of a loss of this library says everything; a loss of the user's own may mean
    # something else tomorrow.
    for name, code in plan.codes:
        content[f"code of {name}"] = code
    ((_fold, data_fingerprint),) = plan.fingerprints  # a search has one fold
    content["data"] = data_fingerprint
    return content


def check_data(experiment: Experiment, train: RankingData, valid: RankingData) -> None:
    """Raise an error about data that no trial of a search could use: empty data, validation data
    with other features, or validation queries that the metric skips.

    Args:
        experiment: The search.
        train, valid: The data to train and to validate on.
    """
    for name, part in (("train", train), ("valid", valid)):
        checked_data(name, part)
        if part.n_documents == 0 or part.n_features == 0:
            raise DataError(
                f"{name}: found {part.n_documents} documents of {part.n_features} features;"
                " expected at least one of each"
            )
    check_columns("valid", Columns.of(valid), Columns.of(train), "as in train")
    first_metric = metric(experiment.metrics[0])
    # Which queries a metric skips depends on their labels: any scores will do.
    any_scores = np.zeros(valid.n_documents)
    if np.isnan(first_metric.mean(any_scores, valid)):
        raise DataError(
            f"valid: {first_metric} skips every one of its {valid.n_queries} queries;"
            " expected a query with a relevant document"
        )


def _checked_losses(loss: Any) -> tuple[str, ...]:
    """Return one loss or several as text; raise an error if there is none, or one twice."""
    # A single loss counts as a list of one; `_loss_text` returns a loss as text.
    losses = [loss] if isinstance(loss, str | Loss) else list(loss)
    texts = tuple(_loss_text(each_loss) for each_loss in losses)
    if not texts:
        raise OptionError("loss: found none; expected a loss, or several to choose from")
    for text in texts:
        if texts.count(text) > 1:
            raise OptionError(f"loss: found {text} twice; expected every loss once")
    return texts


def _loss_text(loss: Any) -> str:
    """Return a loss as text, which files and other processes need; an object whose text does not
    read back as the same loss is refused.
    """
    value = read_loss(loss)
    if isinstance(loss, Loss) and read_loss(str(loss)) != value:
        raise OptionError(
            f"loss: found {loss}, which does not read back from its text; expected one that does"
        )
    return str(value)


def _metric_text(name: str | Metric) -> str:
    """Return a metric as text, which files and other processes need; one whose text does not read
    back as the same metric is refused.
    """
    value = metric(name)
    try:
        reads_back = metric(str(value)) == value
    except OptionError:
        reads_back = False
    if not reads_back:
        raise OptionError(
            f"metric: found {value}, which does not read back from its text; expected one that does"
        )
    return str(value)


def _check_parameters(experiment: Experiment) -> None:
    """Raise an error about a parameter name that the training tool of a loss does not know.

    The tools report such names only when they train, so one tree is trained for each loss, on two
    tiny queries.
    """
    fixed = experiment.parameters
    # Making the settings checks the number of trees, which the tiny training replaces.
    Settings(n_estimators=fixed.get("n_estimators", 1))
    # Overrides whatever the search sets, so that the training takes no time.
    smallest = {"n_estimators": 1, "n_jobs": 1, "categorical_feature": None}
    two_queries = RankingData.from_arrays([[0.0], [1.0]] * 20, [0, 1] * 20, group=[20, 20])
    for loss in experiment.losses:
        # A native loss belongs to a tool; any other one is computed here, so mse stands for it.
        is_native = isinstance(read_loss(loss), NativeLoss)
        configuration: dict[str, Any] = {"loss": loss if is_native else "mse"}
        for name, dimension in space_of(experiment, loss).items():
            # Names with a dot, such as loss.k, belong to the loss and were checked with it.
            is_of_ranker = "." not in name
            if is_of_ranker:
                # Probes are values of the range by which it is checked; any of them will do.
                first_value = dimension.probes()[0]
                configuration[name] = first_value
        # Warnings, and errors about values and about data as small as this, are left to the trials.
        with warnings.catch_warnings(), suppress(DataError):
            warnings.simplefilter("ignore")
            parameters = {
                "metric": experiment.metrics[0],
                **parameters_of(configuration, fixed),
                **smallest,
            }
            tautrank.Ranker(**parameters).fit(two_queries, two_queries)
