"""Trials on a Dask cluster; needs the `distributed` extra."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import tautrank
from tautrank.data.distributed import connect
from tautrank.errors import DataError, require
from tautrank.experiments.store import FAILED, Outcome, Trial
from tautrank.experiments.trial import Surroundings, attempt
from tautrank.experiments.workers import MOST_LOSSES, Lost, Workers, own_losses_of


class DaskCluster(Workers):
    """The workers of a Dask scheduler. Each needs this version of tautrank, and the data at the same path.

    A worker that is lost loses nothing: Dask gives its trials to others, a few times.

    Args:
        address: the address of the scheduler (``tcp://host:8786``), its scheduler file, or ``local`` for a cluster on
            this machine.
        n: the number of worker processes of a local cluster.
    """

    def __init__(self, address: str, n: int = 1) -> None:
        self._distributed = require("distributed", "running trials on a cluster needs Dask", "distributed")
        super().__init__(n)
        self.address = address
        self.patience = "10s"  # with a scheduler that does not answer

    def run(self, trials: Sequence[Trial], around: Surroundings) -> Iterator[tuple[Trial, Outcome]]:
        """Run trials; they come back as they finish.

        Args:
            trials: the trials.
            around: what all of them need; data in memory is sent to each worker once.
        """
        dask = self._distributed
        around = replace(around, own=own_losses_of(trials, "dask"))
        with ExitStack() as stack:
            client = connect(self.address, self.n, stack, "--dask", self.patience)
            shared = client.scatter(around, broadcast=True, hash=False) if around.held else around
            by_key = {f"tautrank-{trial.key}": trial for trial in trials}
            # A result is a pure function of the key, but one that an earlier run left half-way must not be waited for.
            futures = [client.submit(attempt, trial.spec, shared, key=key, pure=False) for key, trial in by_key.items()]
            stack.callback(_forget, client, futures)
            try:
                for future in dask.as_completed(futures):
                    trial = by_key[future.key]
                    error = future.exception()
                    if error is None:
                        yield trial, future.result()
                    elif isinstance(error, dask.KilledWorker):
                        found = Lost(MOST_LOSSES + 1, f"last {error.last_worker.address}")
                        yield trial, Outcome(FAILED, error=str(found))
                    elif isinstance(error, dask.CancelledError):
                        raise DataError(self._gone("it cancelled a trial"))
                    else:
                        # `attempt` raises nothing: what arrives here is a worker that cannot run it.
                        raise DataError(
                            f"{self.address}: a worker cannot run trials ({type(error).__name__}: {error}); expected "
                            f"workers with tautrank {tautrank.__version__}"
                        )
                    future.release()
            except (OSError, dask.comm.CommClosedError) as error:
                raise DataError(self._gone(str(error))) from None

    def _gone(self, how: str) -> str:
        return f"{self.address}: the Dask scheduler is gone ({how}); expected it to live as long as the run"


def _forget(client: Any, futures: list[Any]) -> None:
    """Give up what is still running, so that a cluster that outlives the run does not go on with it."""
    with suppress(Exception):
        client.cancel([future for future in futures if not future.done()], force=True)
