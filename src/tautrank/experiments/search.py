"""A search for parameters as data: its plan, checked before anything is trained, and its result."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

import tautrank
from tautrank.arguments import check_fields, checked_by, choice, job_count, real, truth, whole
from tautrank.data.ranking_data import RankingData, checked_data
from tautrank.engines import DEFAULTS, NativeLoss, Settings, read_loss
from tautrank.errors import DataError, OptionError, require
from tautrank.experiments.space import Space, parameters_of, spaces_of
from tautrank.files import PathLike, require_writable
from tautrank.losses import Loss
from tautrank.losses.own_losses import own_losses
from tautrank.metrics import Metric, metric
from tautrank.ranker.columns import Columns, check_columns
from tautrank.ranker.stored_names import with_stored_names

_VERSION = 2
# How often a trial is compared with the others; docs/tuning.md has the measurements.
_CHECKPOINTS = 20


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """A search that has been checked; `plan_search` makes one.

    Args:
        losses: The loss, or several to choose from.
        metric: The metric to optimise on the validation data.
        spaces: The search space of each loss.
        fixed: Parameters of `Ranker` that are the same in all trials.
        sampler: ``random`` or ``tpe``.
        prune: Whether to stop trials whose validation curve falls behind the others.
        seed: The seed of all randomness.
        n_trials: The number of trials, including those of an earlier run.
        timeout: The seconds this run may take; trials still running then are given up. None for no
            limit.
        n_jobs: The number of threads in all, which the processes share.
        workers: The number of processes that train in parallel.
        store: The file that keeps the trials; None keeps nothing.
        refit: The data for the final training of the best model: ``train``, ``train+valid``, or
            None for no training.
    """

    losses: tuple[str, ...]
    metric: Metric
    spaces: tuple[Space, ...]
    fixed: Mapping[str, Any]
    sampler: str = field(default="random", metadata=checked_by(choice, known=("random", "tpe")))
    prune: bool = field(default=True, metadata=checked_by(truth, expected="True or False"))
    seed: int = 0
    n_trials: int = field(default=50, metadata=checked_by(whole, least=1))
    timeout: float | None = field(default=None, metadata=checked_by(real, above=True))
    n_jobs: int | None = None
    workers: int = field(default=1, metadata=checked_by(whole, least=1))
    store: PathLike | None = None
    refit: str | None = field(
        default="train", metadata=checked_by(choice, known=("train", "train+valid"))
    )

    def __post_init__(self) -> None:
        check_fields(self)
        job_count(self.n_jobs)
        if self.store is not None and "://" in os.fspath(self.store):
            raise OptionError(
                f"store: found the address '{self.store}'; expected a file, such as tune.db"
            )
        if self.store is not None:
            try:
                require_writable(self.store)
            except DataError as error:
                raise OptionError(
                    f"store: {error}; expected a file that can be written, such as tune.db"
                ) from None

    @property
    def most_trees(self) -> int:
        """The largest number of trees of a trial."""
        searched = [
            space["n_estimators"].probes() for space in self.spaces if "n_estimators" in space
        ]
        return max(int(most) for most in [self.fixed.get("n_estimators", 1), *chain(*searched)])

    @property
    def checkpoints(self) -> range:
        """The numbers of trees at which trials are compared."""
        every = max(1, self.most_trees // _CHECKPOINTS)
        return range(every, self.most_trees + 1, every)

    def keys(self, loss: str) -> dict[str, str]:
        """Return what each range of a loss is called in the whole search.

        A name serves several losses if they have the same range for it; otherwise the loss is added
        to the name.

        Args:
            loss: One of the losses.
        """
        own = self.spaces[self.losses.index(loss)]
        alike = {
            name: all(space[name] == one for space in self.spaces if name in space)
            for name, one in own.items()
        }
        return {name: name if alike[name] else f"{name} of {loss}" for name in own}

    def spec(self, data: str) -> dict[str, Any]:
        """Return everything the results of trials depend on, as JSON values.

        Args:
            data: A hash of the data.
        """
        spec: dict[str, Any] = {
            "version": _VERSION,
            "loss": list(self.losses),
            "metric": str(self.metric),
        }
        spec |= {"sampler": self.sampler, "seed": self.seed, "pruning": self.prune}
        for loss, space in zip(self.losses, self.spaces, strict=True):
            spec |= {
                f"space {key}": space[name].to_plain() for name, key in self.keys(loss).items()
            }
        fixed = with_stored_names(self.fixed)
        spec |= {f"parameter {name}": repr(value) for name, value in sorted(fixed.items())}
        # The text of a loss of this library says everything; a loss of the user's own may mean
        # something else tomorrow.
        spec |= {f"code of {own.name}": own.code for own in own_losses([*self.losses, self.metric])}
        return {**spec, "data": data}


def plan_search(
    loss: Any = "lambdarank",
    metric_name: str | Metric = "ndcg@10",
    space: str | Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    **options: Any,
) -> SearchPlan:
    """Check what a user asked for and make a plan of it, so that errors are reported before
    anything is trained.

    Args:
        loss: A loss, or several to choose from.
        metric_name: A metric, or its name.
        space: The name of a space, ranges by name, or None for the default.
        fixed: Parameters of `Ranker` that are the same in all trials.
        **options: The other arguments of `SearchPlan`.

    >>> plan = plan_search("mse", "ndcg@5", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 40}, seed=3)
    >>> plan.spaces, plan.checkpoints
    (({'num_leaves': WholeNumber(low=2, high=9, log=False)},), range(2, 41, 2))
    """
    require("optuna", "tune needs Optuna", "tune")
    losses = tuple(
        _loss_text(one) for one in ([loss] if isinstance(loss, str | Loss) else list(loss))
    )
    if not losses:
        raise OptionError("loss: found none; expected a loss, or several to choose from")
    for one in losses:
        if losses.count(one) > 1:
            raise OptionError(f"loss: found {one} twice; expected every loss once")
    judge = metric(metric_name)
    spaces = tuple(spaces_of(losses, space, fixed or {}))
    common = {
        name: value for name, value in DEFAULTS.items() if not any(name in own for own in spaces)
    }
    seed = whole("seed", options.pop("seed", 0), least=0, most=2**31 - 1)
    common |= {"random_state": seed, "verbose": 0, **(fixed or {})}
    plan = SearchPlan(
        losses=losses, metric=judge, spaces=spaces, fixed=common, seed=seed, **options
    )
    _check_parameters(plan)
    return plan


def check_data(plan: SearchPlan, train: RankingData, valid: RankingData) -> None:
    """Refuse data that no trial could use.

    Args:
        plan: The search.
        train, valid: The data to train and to validate on.
    """
    for name, part in (("train", train), ("valid", valid)):
        if checked_data(name, part).n_documents == 0 or part.n_features == 0:
            found = f"{part.n_documents} documents of {part.n_features} features"
            raise DataError(f"{name}: found {found}; expected at least one of each")
    check_columns("valid", Columns.of(valid), Columns.of(train), "as in train")
    if np.isnan(plan.metric.mean(np.zeros(valid.n_documents), valid)):
        found = f"{plan.metric} skips every one of its {valid.n_queries} queries"
        raise DataError(f"valid: {found}; expected a query with a relevant document")


def _loss_text(loss: Any) -> str:
    """Return the loss as text, which files and other processes need."""
    read = read_loss(loss)
    if isinstance(loss, Loss) and read_loss(str(loss)) != read:
        raise OptionError(
            f"loss: found {loss}, which does not read back from its text; expected one that does"
        )
    return str(read)


def _check_parameters(plan: SearchPlan) -> None:
    """Train one tree on tiny data with each tool, which reports the names that it does not know."""
    Settings(n_estimators=plan.fixed.get("n_estimators", 1))
    few = {"n_estimators": 1, "n_jobs": 1, "categorical_feature": None}
    lists = RankingData.from_arrays([[0.0], [1.0]] * 20, [0, 1] * 20, group=[20, 20])
    for loss, space in zip(plan.losses, plan.spaces, strict=True):
        values = {name: given.probes()[0] for name, given in space.items() if "." not in name}
        tried = {"loss": loss if isinstance(read_loss(loss), NativeLoss) else "mse", **values}
        # Warnings, and errors about values and about data as small as this, are left to the trials.
        with warnings.catch_warnings(), suppress(DataError):
            warnings.simplefilter("ignore")
            tautrank.Ranker(
                **{"metric": plan.metric, **parameters_of(tried, plan.fixed), **few}
            ).fit(lists, lists)
