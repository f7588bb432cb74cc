"""One trial of a search: a ranker of one configuration, trained and judged on the validation data."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tautrank.data import RankingData
from tautrank.engines import Step
from tautrank.errors import DataError, TautrankWarning
from tautrank.experiments.configuration import Configuration
from tautrank.experiments.fit_best import in_a_sentence
from tautrank.losses.own_losses import OwnLoss, import_own
from tautrank.metrics import Metric
from tautrank.ranker.estimator import Ranker

DONE, PRUNED, FAILED, UNFINISHED = "done", "pruned", "failed", "unfinished"


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Args:
        state: ``done``; ``pruned``, where its curve was hopeless; ``failed``, where it cannot be trained; or
            ``unfinished``, where time was up or its process died.
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


@dataclass(frozen=True)
class TuningTrial:
    """A trial that is to be run.

    Args:
        number: from 0.
        configuration: what is tried.
        parameters: what `Ranker` takes to train it.
    """

    number: int
    configuration: Configuration
    parameters: Mapping[str, Any]


def run_tuning_trial(
    trial: TuningTrial,
    is_hopeless: Callable[[tuple[int, float]], bool],
    *,
    metric: Metric,
    train: RankingData,
    valid: RankingData,
    every: int | None,
    own: Sequence[OwnLoss] = (),
    deadline: float | None = None,
) -> Outcome:
    """Train and say what came of it, whatever that is.

    Args:
        trial: which.
        is_hopeless: told the number of trees and the best validation value so far; True ends the trial.
        metric: judges.
        train, valid: what to train and to judge on.
        every: after how many trees `is_hopeless` is asked, each time; None for never.
        own: losses that are not of this library, to be imported here.
        deadline: by `time.monotonic`, when to stop.
    """
    start = time.perf_counter()
    state, score, trees, grown = DONE, math.nan, 0, 0

    def watch(step: Step) -> bool:
        nonlocal state, score, trees, grown
        grown, trees = step.step + 1, step.best_step + 1
        score = step.history["valid"][str(metric)][step.best_step]
        if deadline is not None and time.monotonic() > deadline:
            state = UNFINISHED
        elif every is not None and grown % every == 0 and is_hopeless((grown, score)):
            state = PRUNED
        return state != DONE

    try:
        import_own(own)
        with warnings.catch_warnings():
            # A trial that learns nothing is no news; the model that is kept says so itself.
            warnings.simplefilter("ignore", TautrankWarning)
            Ranker(metric=metric, **trial.parameters).fit(train, valid, callbacks=[watch])
        if math.isnan(score):
            raise DataError(f"{metric} of the validation data is not a number; expected a query that counts")
    except Exception as error:
        return Outcome(FAILED, seconds=time.perf_counter() - start, error=in_a_sentence(error))
    return Outcome(state, score, trees, grown, time.perf_counter() - start)
