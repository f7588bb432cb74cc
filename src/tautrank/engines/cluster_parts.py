"""What each worker of a cluster has of a training: its documents, their gradients, and its end of
the tool's own network.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tautrank.arrays import F32, Array
from tautrank.engines import lightgbm, xgboost
from tautrank.engines.gradients import Gradients, LargestValues
from tautrank.engines.packages import package
from tautrank.engines.registry import read_member
from tautrank.engines.task import Part, Settings, Task
from tautrank.engines.xgboost_private import silence_log
from tautrank.losses.own_losses import OwnLoss, import_own

# Minutes that a part waits for the others within a tree.
_TIME_OUT = 2
# What LightGBM's network needs, as a model says it that was trained without one.
_WITHOUT_NETWORK = {
    "tree_learner": "serial",
    "num_machines": 1,
    "local_listen_port": 12400,
    "machines": "",
    "time_out": 120,
    "num_threads": 0,
}


class Grown(NamedTuple):
    """What a part has after a tree.

    Args:
        rounds: number of rounds.
        valid_scores: scores of its validation data, if there is any.
        tree: a model of the new tree, from the first part; empty from the others.
    """

    rounds: int
    valid_scores: Array | None
    tree: bytes


class WorkerPart:
    """What one worker has of a training.

    Args:
        task: its part of the training; the loss is sent as text.
        settings: how to train.
        number: its place among all parts.
        custom_losses: losses of the user's own to import.
    """

    engine: ClassVar[Any]
    sampling_off: ClassVar[Mapping[str, Any]]
    """Parameters that sample documents, by which trees would depend on the number of workers, and
    their values for not at all."""
    instead_of_sampling: ClassVar[str] = "it unset"
    single_valued: ClassVar[tuple[str, ...]]
    """Parameters for which a cluster takes their default only."""

    def __init__(
        self, task: Task, settings: Settings, number: int, custom_losses: tuple[OwnLoss, ...]
    ) -> None:
        import_own(custom_losses)
        self._task = replace(task, loss=read_member(task.loss))
        self._settings = settings
        self._number = number
        # A network belongs to the thread that made it.
        self._thread = ThreadPoolExecutor(1)
        self._learner: Any = None  # until the bins are known

    @staticmethod
    def portable(content: bytes) -> bytes:
        """Return the bytes of a model without what they say about the network."""
        return content

    async def do(self, method: str, *arguments: Any) -> Any:
        """Run a method in the thread of this part; the worker stays free to answer.

        Args:
            method: its name.
            *arguments: its arguments.
        """
        running = self._thread.submit(getattr(self, method), *arguments)
        return await asyncio.wrap_future(running)

    def sample(self, rows_of_parts: list[Any]) -> Any:
        """Return the features of some documents of this part, whose numbers are given for all
        parts.
        """
        rows = rows_of_parts[self._number]
        return self._task.train.X.take(rows, self._settings.threads)

    def bin(self, sample: F32, hosts: list[str]) -> Any:
        """Start the training of this part with features in bins; return the network address by
        which the other parts find it.

        Args:
            sample: features of some of all documents, which bins are found from.
            hosts: the hosts of all parts.
        """
        # Bagging is the sampling of queries for each tree; None for all queries.
        bagging = self._settings.bagging or self.engine.query_bagging(self._settings)
        self._gradients = Gradients(self._task, self._settings, bagging)
        task_with_sample = replace(self._task, sample=sample)
        self._learner = self.engine.start(task_with_sample, self._settings)
        return self.address(hosts)

    def address(self, hosts: list[str]) -> Any:
        """Return where this part is, for those that must know it.

        Args:
            hosts: the hosts of all parts.
        """

    def measure(self, step: int, scale: float) -> LargestValues:
        """Compute the gradients; return the largest gradient and hessian."""
        return self._gradients.measured(self.scores("train"), step, scale)

    def grow(self, largest: LargestValues, rate: float) -> Grown:
        """Grow one tree together with the other parts, and return what the client needs of it.

        Gradients were computed by `measure`; they are rounded to a grid that all parts share, so
        that their sums are exact.

        Args:
            largest: the largest gradient and hessian of all parts, which decide the grid.
            rate: learning rate.
        """
        # The learner passes its scores, but the gradients at them have been computed already.
        self._learner.grow(lambda _scores: self._gradients.rounded(largest), rate)
        valid_scores = None
        if self._task.valid is not None:
            valid_scores = self.scores("valid")
        tree = b""
        if self._number == 0:  # all parts have the same tree
            tree = self._learner.last_tree()
        return Grown(self._learner.rounds, valid_scores, tree)

    def scores(self, part: Part) -> Array:
        """Return the scores of this part's documents."""
        return np.asarray(self._learner.scores(part))

    def close(self) -> None:
        """Leave the network."""
        self._learner = None


def without_network(content: bytes) -> bytes:
    """Return LightGBM's text of a model with its network parameters set to those of a training on
    one machine.

    Args:
        content: LightGBM's model text.

    >>> without_network(b"[num_machines: 4]\\n[max_bin: 255]\\n")
    b'[num_machines: 1]\\n[max_bin: 255]\\n'
    """
    for name, value in _WITHOUT_NETWORK.items():
        # A model ends with its parameters, one to a line: [name: value].
        line = re.compile(rf"^\[{name}: .*\]$".encode(), re.M)
        content = line.sub(f"[{name}: {value}]".encode(), content)
    return content


class LightGBMPart(WorkerPart):
    """A part that LightGBM's network connects with the others; it is made with the first tree."""

    engine = lightgbm.LightGBM()
    sampling_off: ClassVar[Mapping[str, Any]] = {"bagging_fraction": 1.0, "bagging_freq": 0}
    instead_of_sampling = "bagging_by_query=True beside it"
    single_valued = (
        "boosting",
        "data_sample_strategy",
        "linear_tree",
        "tree_learner",
        "num_machines",
        "machines",
        "time_out",
    )
    portable = staticmethod(without_network)

    def address(self, hosts: list[str]) -> str:
        """Return the network address of this part: its host and a free port, ``"host:port"``."""
        # Parts may be on one machine: each takes the user's first port plus its own number.
        first_port = self._settings.extra.get("local_listen_port")
        port = 0 if first_port is None else first_port + self._number  # 0 is any free one
        # A socket is bound for a moment, to learn which port is free.
        with socket.socket() as probe:
            probe.bind(("", port))
            _host, free_port = probe.getsockname()
        return f"{hosts[self._number]}:{free_port}"

    def join(self, addresses: list[Any]) -> None:
        """Set the tool's parameters by which this part finds the others when it grows a tree.

        Args:
            addresses: ``"host:port"`` of all parts.
        """
        _host, _colon, port = addresses[self._number].rpartition(":")
        self._learner.params |= {
            "machines": ",".join(addresses),
            "local_listen_port": int(port),
            "num_machines": len(addresses),
            "tree_learner": "data",  # machines hold different documents, and add up histograms
            "time_out": _TIME_OUT,
        }


class XGBoostPart(WorkerPart):
    """A part that XGBoost's collective connects with the others; the tracker that introduces them
    is in the first.
    """

    engine = xgboost.XGBoost()
    sampling_off: ClassVar[Mapping[str, Any]] = {"subsample": 1.0}
    single_valued = (
        "booster",
        "tree_method",
        "process_type",
        "updater",
        "num_parallel_tree",
        "multi_strategy",
        "device",
    )

    def address(self, hosts: list[str]) -> Any:
        """Start XGBoost's tracker in the first part, and return its address; None from the others.

        The tracker introduces the parts of a training to each other.
        """
        if self._number > 0:
            return None
        tracker_module = package("xgboost").tracker
        self._tracker = tracker_module.RabitTracker(
            n_workers=len(hosts), host_ip=hosts[0], sortby="task"
        )
        self._tracker.start()
        return self._tracker.worker_args()

    def join(self, addresses: list[Any]) -> None:
        """Join the network of all parts, which XGBoost's tracker connects.

        Args:
            addresses: the tracker's address, from the first part, and None from the others.
        """
        collective = package("xgboost").collective
        silence_log()
        address_of_tracker = addresses[0]  # keyword arguments, as the tracker has returned them
        collective.init(
            **address_of_tracker,
            dmlc_task_id=f"{self._number:06}",  # the tracker sorts by this text
            dmlc_timeout=60 * _TIME_OUT,  # from minutes to seconds
        )
        # Kept by this thread: when the thread ends, it leaves the network.
        _of_thread.leaving = _LeavingAtEnd(collective.finalize)

    def grow(self, largest: LargestValues, rate: float) -> Grown:
        """Grow one tree together with the other parts; leave the network after an error, so that
        the other parts notice instead of waiting.
        """
        try:
            return super().grow(largest, rate)
        except Exception:
            with suppress(Exception):
                self.close()
            raise

    def close(self) -> None:
        """Leave the network."""
        super().close()
        package("xgboost").collective.finalize()

    def __del__(self) -> None:
        with suppress(Exception):  # a tracker complains of parts that are gone
            self._tracker.free()


class _LeavingAtEnd:
    """Leaves XGBoost's network when its thread ends, also that of a part that nobody closes:
    XGBoost would end the process with a network that was not left.
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def __del__(self) -> None:
        with suppress(Exception):
            self._leave()


_of_thread = threading.local()

PART_CLASSES: dict[str, type[WorkerPart]] = {"lightgbm": LightGBMPart, "xgboost": XGBoostPart}
"""The parts of a training by the names of the engines."""
