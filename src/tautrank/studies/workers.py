"""What runs trials: this process, processes of this machine, or a cluster; all give the same results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import tautrank
from tautrank.studies.plan import Trial
from tautrank.studies.trial import FAILED, Outcome, attempt

MOST_LOSSES = 3
"""How often a trial may lose its worker before it counts as failed: a trial too big for its machine ends there."""


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
            yield trial, attempt(trial.key, trial.spec, tautrank.__version__)


def lost(trial: Trial, times: int, how: str) -> Outcome:
    """What is recorded of a trial whose workers died again and again.

    Args:
        trial: which.
        times: how often.
        how: what is known of the last death.
    """
    return Outcome(
        trial.key, FAILED, error=f"its worker died {times} times ({how}); perhaps there is not enough memory"
    )
