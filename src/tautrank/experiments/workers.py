"""What runs trials: this process, processes of this machine, or a cluster; all give the same results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

import tautrank
from tautrank.arguments import whole
from tautrank.experiments.plan import Trial, own_losses_of
from tautrank.experiments.processes import Ask, Lost, run_jobs
from tautrank.experiments.trial import FAILED, Outcome, attempt
from tautrank.losses.own_losses import OwnLoss


class Workers(Protocol):
    """Runs trials and hands back what came of each, in any order, each once."""

    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Outcome]]:
        """Run trials; what is not finished when the iterator is closed is given up.

        Args:
            trials: which.
        """
        ...


class ThisProcess:
    """One trial after the other, here.

    >>> list(ThisProcess().run([]))
    []
    """

    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Outcome]]:
        """Run trials in their order.

        Args:
            trials: which.
        """
        for trial in trials:
            yield trial, attempt(trial.spec, tautrank.__version__)


class LocalProcesses:
    """Processes of this machine, a trial in each.

    Args:
        n: how many.

    >>> list(LocalProcesses(2).run([]))
    []
    """

    def __init__(self, n: int) -> None:
        self.n = whole("workers", n, 1)

    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Outcome]]:
        """Run trials; they come back as they finish.

        Args:
            trials: which.
        """
        work = partial(_attempt, tautrank.__version__, own_losses_of(trials, "workers"))
        for trial, outcome in run_jobs(min(self.n, len(trials)), work, trials):
            yield trial, Outcome(FAILED, error=str(outcome)) if isinstance(outcome, Lost) else outcome


def _attempt(version: str, own: tuple[OwnLoss, ...], trial: Trial, _: Ask) -> Outcome:
    return attempt(trial.spec, version, own)
