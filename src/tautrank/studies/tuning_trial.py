"""One trial of a search: a ranker of one configuration, trained and judged on the validation data."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tautrank.data import RankingData
from tautrank.engines import Step
from tautrank.engines.langevin import Langevin
from tautrank.errors import DataError, TautrankError, TautrankWarning
from tautrank.metrics import Metric
from tautrank.ranker import Ranker
from tautrank.studies.study import with_parameters
from tautrank.studies.tuning import in_words_of

DONE, PRUNED, FAILED, UNFINISHED = "done", "pruned", "failed", "unfinished"

Report = Callable[[int, float], bool]
"""Told the number of trees and the best validation value so far; True if the trial is hopeless."""

# Under either name of it: who sets how often rows are sampled knows what for.
_SAMPLING_RATE = {"subsample_freq", "bagging_freq"}


@dataclass(frozen=True)
class Configuration:
    """What a trial tries.

    Args:
        loss: what `Ranker` takes, without the parameters that are searched.
        values: by the names of the space.
    """

    loss: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Args:
        state: ``done``; ``pruned``, where its curve was hopeless; ``failed``, where it cannot be trained; or
            ``unfinished``, where time was up.
        score: the best validation value; of a pruned trial the best until then.
        trees: how many trees give it.
        grown: how many there were.
        seconds: what the training took.
        error: one sentence, where it failed.
    """

    state: str
    score: float | None = None
    trees: int = 0
    grown: int = 0
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class TrialRecord:
    """A trial that has ended.

    Args:
        number: from 0.
        configuration: what was tried.
        outcome: what came of it.
    """

    number: int
    configuration: Configuration
    outcome: Outcome


def parameters_of(configuration: Configuration, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """What `Ranker` takes to train a configuration, in the words of the tool that trains its loss.

    Args:
        configuration: what is tried.
        fixed: parameters that are the same in all trials.

    >>> tried = Configuration("lambdarank", {"loss.k": 5, "learning_rate": 0.2, "langevin.temperature": 1e9})
    >>> parameters_of(tried, {"num_leaves": 7})
    {'loss': 'lambdarank(k=5)', 'num_leaves': 7, 'learning_rate': 0.2, 'langevin': Langevin(temperature=1e+09, ...)}
    """
    loss = with_parameters(configuration.loss, _behind("loss.", configuration.values))
    plain = {name: value for name, value in configuration.values.items() if "." not in name}
    said = in_words_of(loss, plain)
    if _SAMPLING_RATE & {*fixed, *plain}:
        said = {name: value for name, value in said.items() if name not in _SAMPLING_RATE}
        said |= {name: plain[name] for name in _SAMPLING_RATE & plain.keys()}
    given = {"loss": loss, **fixed, **said}
    langevin = _behind("langevin.", configuration.values)
    if langevin:
        given["langevin"] = Langevin(**{**dataclasses.asdict(fixed.get("langevin") or Langevin()), **langevin})
    return given


def run_tuning_trial(
    parameters: Mapping[str, Any],
    metric: Metric,
    train: RankingData,
    valid: RankingData,
    *,
    report: Report | None = None,
    every: int = 1,
    deadline: float | None = None,
) -> Outcome:
    """Train and say what came of it, whatever that is.

    Args:
        parameters: as `parameters_of` gives them.
        metric: judges.
        train, valid: what to train and to judge on.
        report: asked whether to go on.
        every: after how many trees it is asked, each time.
        deadline: by `time.monotonic`, when to stop.
    """
    start = time.perf_counter()
    watch = _Watch(metric, report, every, deadline)
    try:
        with warnings.catch_warnings():
            # A trial that learns nothing is no news; the model that is kept says so itself.
            warnings.simplefilter("ignore", TautrankWarning)
            Ranker(metric=metric, **parameters).fit(train, valid, callbacks=[watch])
        if watch.best != watch.best:
            raise DataError(f"{metric} of the validation data is not a number; expected a query that counts")
    except TautrankError as error:
        return Outcome(FAILED, seconds=time.perf_counter() - start, error=str(error))
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        said = f"{type(error).__name__}: {first}".rstrip(": ")
        return Outcome(FAILED, seconds=time.perf_counter() - start, error=said)
    return Outcome(watch.state, watch.best, watch.trees, watch.grown, time.perf_counter() - start)


class _Watch:
    """The callback of a trial: keeps the best value, and stops what is hopeless or late."""

    def __init__(self, metric: Metric, report: Report | None, every: int, deadline: float | None) -> None:
        self._name = str(metric)
        self._report = report
        self._every = every
        self._deadline = deadline
        self.state = DONE
        self.best = float("nan")
        self.trees = 0
        self.grown = 0

    def __call__(self, step: Step) -> bool:
        self.grown = step.step + 1
        self.trees = step.best_step + 1
        self.best = step.history["valid"][self._name][step.best_step]
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.state = UNFINISHED
        elif self._report is not None and self.grown % self._every == 0 and self._report(self.grown, self.best):
            self.state = PRUNED
        return self.state != DONE


def _behind(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}
