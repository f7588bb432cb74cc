"""What a search does, apart from the data: checked before anything is trained."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from tautrank.arguments import choice, whole
from tautrank.data import RankingData
from tautrank.engines import DEFAULTS, NativeLoss, Settings, read_loss
from tautrank.errors import DataError, OptionError
from tautrank.experiments.configuration import Configuration, parameters_of
from tautrank.experiments.space import Space, spaces_of
from tautrank.json_values import canonical
from tautrank.losses import Loss
from tautrank.losses.own_losses import own_losses
from tautrank.metrics import Metric, metric
from tautrank.ranker.estimator import Ranker

SAMPLERS = ("random", "tpe")
_VERSION = 1
# How often a trial is judged against the others, and when first; docs/tuning.md has what was measured.
_CHECKPOINTS = 20
_FIRST_CHECKPOINT = 5


@dataclass(frozen=True)
class TuningPlan:
    """A search that has been checked.

    Args:
        losses: one, or several to choose from.
        metric: what is maximised, or minimised if it is a cost, on the validation data.
        spaces: what is searched, one space a loss.
        sampler: ``random`` or ``tpe``.
        prune: whether trials whose validation curve is hopeless are stopped.
        seed: where all randomness starts.
        fixed: parameters of `Ranker` that are the same in all trials.
    """

    losses: tuple[str, ...]
    metric: Metric
    spaces: tuple[Space, ...]
    sampler: str = "random"
    prune: bool = True
    seed: int = 0
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def space(self, loss: str) -> Space:
        """What is searched for one of the losses."""
        return self.spaces[self.losses.index(loss)]

    def key(self, loss: str, name: str) -> str:
        """What a range is called among all of the search's: by its name, unless another loss has another range."""
        own = self.space(loss)[name]
        alike = all(space[name] == own for space in self.spaces if name in space)
        return name if alike else f"{name} of {loss}"

    @property
    def most_trees(self) -> int:
        """How many trees a trial may have at most."""
        searched = [space["n_estimators"] for space in self.spaces if "n_estimators" in space]
        return max(
            int(most) for most in [self.fixed.get("n_estimators", 1), *chain(*(one.probes() for one in searched))]
        )

    @property
    def every(self) -> int:
        """How many trees there are between the checkpoints at which trials are compared."""
        return max(1, self.most_trees // _CHECKPOINTS)

    @property
    def warm_up(self) -> int:
        """The first checkpoint at which a trial may be pruned."""
        return self.every * min(_FIRST_CHECKPOINT, max(1, self.most_trees // self.every))

    def checkpoints(self) -> Iterator[int]:
        """The numbers of trees at which trials are compared."""
        return iter(range(self.every, self.most_trees + 1, self.every))

    def spec(self, data: str) -> dict[str, Any]:
        """All that the results of trials depend on, in plain values.

        Args:
            data: a hash of the data.
        """
        spaces = {
            self.key(loss, name): given.to_plain()
            for loss, space in zip(self.losses, self.spaces, strict=True)
            for name, given in space.items()
        }
        implied = {"random_state": self.seed, "verbose": 0}
        fixed = {name: value for name, value in self.fixed.items() if implied.get(name) != value}
        spec = {
            "version": _VERSION,
            "loss": list(self.losses),
            "metric": str(self.metric),
            "sampler": self.sampler,
            "seed": self.seed,
            "pruning": self.prune,
            "space": spaces,
            "parameter": {name: repr(value) for name, value in fixed.items()},
            "data": data,
        }
        # The text of a loss says all of one of this library; of one's own it may mean something else tomorrow.
        spec |= {f"code of {own.name}": own.code for own in own_losses(self.losses)}
        plain: dict[str, Any] = json.loads(canonical(spec))
        return plain


def make_tuning_plan(
    loss: str | Loss | Sequence[str | Loss],
    metric_name: str | Metric,
    space: str | Mapping[str, Any] | None,
    fixed: Mapping[str, Any],
    *,
    sampler: str = "random",
    prune: bool = True,
    seed: int = 0,
) -> TuningPlan:
    """Check what a user asked for and make a plan of it: what is wrong is said before anything is trained.

    Args:
        loss: one, or several to choose from.
        metric_name: a name or a metric.
        space: the name of a space, a mapping of ranges, or None for the default.
        fixed: parameters of `Ranker` that are the same in all trials.
        sampler: ``random`` or ``tpe``.
        prune: whether to stop trials whose validation curve is hopeless.
        seed: where all randomness starts.

    >>> plan = make_tuning_plan("mse", "ndcg@5", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 40})
    >>> plan.spaces, plan.every, plan.warm_up
    (({'num_leaves': WholeNumber(low=2, high=9, log=False)},), 2, 10)
    """
    losses = tuple(_written(one) for one in ([loss] if isinstance(loss, str | Loss) else list(loss)))
    if not losses:
        raise OptionError("loss: found none; expected a loss, or several to choose from")
    for one in losses:
        if losses.count(one) > 1:
            raise OptionError(f"loss: found {one} twice; expected every loss once")
    choice("sampler", sampler, SAMPLERS)
    if not isinstance(prune, bool):
        raise OptionError(f"prune: found {prune!r}; expected True or False")
    judge = metric(metric_name)
    spaces = spaces_of(losses, space, fixed)
    common = {name: value for name, value in DEFAULTS.items() if not any(name in own for own in spaces)}
    common |= {"random_state": whole("seed", seed, least=0, most=2**31 - 1), "verbose": 0, **fixed}
    plan = TuningPlan(losses, judge, tuple(spaces), sampler, prune, int(seed), common)
    _check_parameters(plan)
    return plan


def check_data(plan: TuningPlan, train: RankingData, valid: RankingData) -> None:
    """Say what is wrong with the data of a search before the first trial does.

    Args:
        plan: the search.
        train, valid: what to train and to judge on.
    """
    for name, part in (("train", train), ("valid", valid)):
        if not isinstance(part, RankingData):
            raise DataError(f"{name}: found {type(part).__name__}; expected RankingData")
        if part.n_documents == 0 or part.n_features == 0:
            raise DataError(
                f"{name}: found {part.n_documents} documents of {part.n_features} features; expected one of each"
            )
    if valid.n_features != train.n_features:
        raise DataError(f"valid: found {valid.n_features} features; expected {train.n_features}, as in train")
    if None not in (train.feature_names, valid.feature_names) and train.feature_names != valid.feature_names:
        raise DataError("valid: found other names of features than in train; expected the same, in the same order")
    if np.isnan(plan.metric.mean(np.zeros(valid.n_documents), valid.labels, valid.offsets)):
        raise DataError(
            f"valid: {plan.metric} skips every one of its {valid.n_queries} queries; expected a query with a relevant "
            "document"
        )


def _written(loss: Any) -> str:
    """The loss as text, which is what files and processes take."""
    read = read_loss(loss)
    if isinstance(loss, Loss) and read_loss(str(loss)) != read:
        raise OptionError(f"loss: found {loss}, which does not read back from its text; expected one that does")
    return str(read)


def _check_parameters(plan: TuningPlan) -> None:
    """Train a tree on next to nothing with each tool: whoever does not know a name says so at once."""
    own = {"n_estimators", "learning_rate", "num_leaves", "early_stopping_rounds", "langevin"}
    Settings(**{name: value for name, value in plan.fixed.items() if name in own})
    left_out = {"n_estimators", "categorical_feature"}
    lists = RankingData.from_arrays([[0.0], [1.0]] * 20, [0, 1] * 20, group=[20, 20])
    seen = []
    for loss, space in zip(plan.losses, plan.spaces, strict=True):
        values = {name: given.probes()[0] for name, given in space.items() if "." not in name}
        tried = Configuration(loss if isinstance(read_loss(loss), NativeLoss) else "mse", values)
        if tried in seen:
            continue
        seen.append(tried)
        parameters = {name: value for name, value in parameters_of(tried, plan.fixed).items() if name not in left_out}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Values, and data as small as this, are for the trials to complain of.
            try:
                Ranker(metric=plan.metric, n_estimators=1, n_jobs=1, **parameters).fit(lists, lists)
            except DataError:
                continue
