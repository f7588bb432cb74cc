"""Training on a Dask cluster: every worker computes the gradients of its documents, and the tool's
own network (LightGBM's sockets, XGBoost's collective) grows one tree from all of them.

The loop (`loop.boost`) stays with the client. Per tree, workers report the largest gradient and
hessian of their documents, and the largest of all decides the grid that all round to: sums over
documents are then exact in any order. With bins found from one sample, and random numbers keyed by
a query's place in the whole, trees are the same bits for any number of workers. LightGBM estimates
the number of documents in a leaf over its network, and counts them without one: `min_data_in_leaf`
may then decide differently, so a cluster of one worker trains two parts. XGBoost has no such
number: its trees are also those of one machine, if the sample is all documents.

The client has every tree that was grown. If a worker is lost, the others take over its documents
and go on from there.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from tautrank.arrays import F32, F64, Array
from tautrank.data import RankingData
from tautrank.data.distributed import DistributedData, check_versions
from tautrank.engines import lightgbm, xgboost
from tautrank.engines.base import CutShortError
from tautrank.engines.dask_private import address_of
from tautrank.engines.gradients import Gradients, LargestValues
from tautrank.engines.lightgbm_binning import sampled_rows
from tautrank.engines.model import FittedModel
from tautrank.engines.packages import package
from tautrank.engines.registry import read_member
from tautrank.engines.task import Part, Settings, Task
from tautrank.engines.xgboost_private import silence_log
from tautrank.errors import DataError, OptionError
from tautrank.losses.own_losses import OwnLoss, import_own, sendable

MOST_LOSSES = 3
# Seconds that others have to notice a worker that is gone, and that a cluster has to start another
# one.
_GRACE = 10.0
_PATIENCE = 60.0
# Minutes that a part waits for the others within a tree.
_TIME_OUT = 2
# What LightGBM's network needs, as a model says it that was trained without one.
_NETWORK = {
    "tree_learner": "serial",
    "num_machines": 1,
    "local_listen_port": 12400,
    "machines": "",
    "time_out": 120,
}


# What a parameter may say that means no more than its default.
_USUAL = (None, False, "gbdt", "bagging", "gbtree", "hist", "cpu")


class LostError(Exception):
    """A worker does not answer, or the network of the tool is broken."""


class WorkerPart:
    """What one worker has of a training: its documents, their gradients, and its end of the tool's
    network.

    Args:
        task: its part of the training; the loss is sent as text.
        settings: how to train.
        number: its place among all parts.
        own: losses of the user's own to import.
    """

    engine: ClassVar[Any]
    draws: ClassVar[Mapping[str, Any]]
    """Parameters that sample documents, by which trees would depend on the number of workers, and
    their values for not at all."""
    instead: ClassVar[str] = "it unset"
    unset: ClassVar[tuple[str, ...]]
    """Parameters for which a cluster takes no more than `_USUAL` values."""
    portable: ClassVar[Any] = bytes
    """Returns the bytes of a model without what they say about the network."""

    def __init__(
        self, task: Task, settings: Settings, number: int, own: tuple[OwnLoss, ...]
    ) -> None:
        import_own(own)
        self._task = replace(task, loss=read_member(task.loss))
        self._settings, self._number = settings, number
        # A network belongs to the thread that made it.
        self._thread = ThreadPoolExecutor(1)
        self._learner: Any = None

    async def do(self, what: str, *given: Any) -> Any:
        """Run a method in the thread of this part; the worker stays free to answer.

        Args:
            what: its name.
            given: its arguments.
        """
        return await asyncio.wrap_future(self._thread.submit(getattr(self, what), *given))

    def sample(self, rows: list[Any]) -> Any:
        """Return the features of some documents of this part, whose numbers are given for all
        parts.
        """
        return self._task.train.X.take(rows[self._number], self._settings.threads)

    def bin(self, sample: F32, hosts: list[str]) -> Any:
        """Put the features into bins, and return what the other parts need to know to find this
        one.
        """
        bagging = self._settings.bagging or self.engine.query_bagging(self._settings)
        self._gradients = Gradients(self._task, self._settings, bagging)
        self._learner = self.engine.start(replace(self._task, sample=sample), self._settings)
        return self.address(hosts)

    def address(self, hosts: list[str]) -> Any:
        """Return where this part is, for those that must know it; ``hosts`` are those of all
        parts.
        """

    def measure(self, step: int, scale: float) -> LargestValues:
        """Compute the gradients; return the largest gradient and hessian."""
        return self._gradients.measured(self.scores("train"), step, scale)

    def grow(self, largest: LargestValues, rate: float) -> tuple[int, Any, bytes]:
        """Add a tree; return the number of rounds, the scores of the validation data, and, from one
        part, the tree.
        """
        self._learner.grow(lambda _: self._gradients.rounded(largest), rate)
        tree = self._learner.last_tree() if self._number == 0 else b""
        return (
            self._learner.rounds,
            None if self._task.valid is None else self.scores("valid"),
            tree,
        )

    def scores(self, part: Part) -> Array:
        """Return the scores of this part's documents."""
        return np.asarray(self._learner.scores(part))

    def close(self) -> None:
        """Leave the network."""
        self._learner = None


def without_network(text: bytes) -> bytes:
    """Return a model text whose parameters are those of a training on one machine.

    Args:
        text: LightGBM's model text.

    >>> without_network(b"[num_machines: 4]\\n[max_bin: 255]\\n")
    b'[num_machines: 1]\\n[max_bin: 255]\\n'
    """
    for name, value in {**_NETWORK, "num_threads": 0}.items():
        text = re.sub(
            rf"^\[{name}: .*\]$".encode(), f"[{name}: {value}]".encode(), text, flags=re.M
        )
    return text


class LightGBMPart(WorkerPart):
    """A part that LightGBM's network connects with the others; it is made with the first tree."""

    engine = lightgbm.LightGBM()
    draws: ClassVar[Mapping[str, Any]] = {"bagging_fraction": 1.0, "bagging_freq": 0}
    instead = "bagging_by_query=True beside it"
    portable = staticmethod(without_network)
    unset = (
        "boosting",
        "data_sample_strategy",
        "linear_tree",
        "tree_learner",
        "num_machines",
        "machines",
        "time_out",
    )

    def address(self, hosts: list[str]) -> str:
        """Return the host and a free port of this part."""
        first = self._settings.extra.get("local_listen_port")
        with socket.socket() as probe:
            probe.bind(("", 0 if first is None else first + self._number))
            return f"{hosts[self._number]}:{probe.getsockname()[1]}"

    def join(self, addresses: list[Any]) -> None:
        """Say where all parts are."""
        port = int(addresses[self._number].rpartition(":")[2])
        network = {
            "machines": ",".join(addresses),
            "local_listen_port": port,
            "num_machines": len(addresses),
        }
        self._learner.params |= {**network, "tree_learner": "data", "time_out": _TIME_OUT}


class XGBoostPart(WorkerPart):
    """A part that XGBoost's collective connects with the others; the tracker that introduces them
    is in the first.
    """

    engine = xgboost.XGBoost()
    draws: ClassVar[Mapping[str, Any]] = {"subsample": 1.0}
    unset = (
        "booster",
        "tree_method",
        "process_type",
        "updater",
        "num_parallel_tree",
        "multi_strategy",
        "device",
    )

    def address(self, hosts: list[str]) -> Any:
        """Return the address of the tracker, if it is here."""
        if self._number > 0:
            return None
        tracker = package("xgboost").tracker
        self._tracker = tracker.RabitTracker(n_workers=len(hosts), host_ip=hosts[0], sortby="task")
        self._tracker.start()
        return self._tracker.worker_args()

    def join(self, addresses: list[Any]) -> None:
        """Say where all parts are."""
        package("xgboost")
        silence_log()
        given = {
            **addresses[0],
            "dmlc_task_id": f"{self._number:06}",
            "dmlc_timeout": 60 * _TIME_OUT,
        }
        collective = package("xgboost").collective
        collective.init(**given)
        _of_thread.leaving = _Leaving(collective.finalize)

    def grow(self, *given: Any) -> tuple[int, Any, bytes]:
        """Add a tree as other parts do; leave the network if it breaks, so that the neighbours
        notice.
        """
        try:
            return super().grow(*given)
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


class _Leaving:
    """Leaves XGBoost's network when its thread ends, also that of a part that nobody closes:
    XGBoost would end the process with a network that was not left."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def __del__(self) -> None:
        with suppress(Exception):
            self._leave()


_of_thread = threading.local()


_PARTS: dict[str, type[WorkerPart]] = {"lightgbm": LightGBMPart, "xgboost": XGBoostPart}


class ClusterGradients:
    """The gradients of a loss where workers hold the documents and the scores.

    Args:
        learner: the training.
    """

    def __init__(self, learner: ClusterLearner) -> None:
        self._learner = learner

    def at(self, step: int, scale: float) -> Callable[[], LargestValues]:
        """Return what has the gradients of a round computed."""
        return partial(self._learner.measure, step, scale)

    def leaf_values(self, leaves: Array, l2: float) -> F64:
        """Langevin boosting needs features in memory."""
        raise NotImplementedError


class ClusterLearner:
    """A training whose documents are with the workers of a cluster.

    Args:
        engine: name of the engine.
        task: `Task.train` is `DistributedData`.
        settings: how to train.
    """

    def __init__(self, engine: str, task: Task, settings: Settings) -> None:
        self._kind = kind = _PARTS[engine]
        if task.propensities is not None:
            raise OptionError("propensities: cannot be used on a cluster; expected none")
        self._params = {"lightgbm": lightgbm, "xgboost": xgboost}[engine].parameters(task, settings)
        for name, off in kind.draws.items():
            if self._params.get(name, off) != off:
                found = "samples the documents of each worker, so that trees depend on the number of workers"
                raise OptionError(f"{name}: {found}; expected {kind.instead}")
        for name in kind.unset:
            if self._params.get(name) not in _USUAL:
                raise OptionError(
                    f"{name}: found {self._params[name]}; expected it unset for a training on a cluster"
                )
        if task.train.n_queries < 2:
            raise DataError(
                "X: found one query; expected at least two, for a training on a cluster"
            )
        assert isinstance(task.train, DistributedData)
        self._client = task.train.client
        package(engine)
        check_versions(self._client, engine)
        self._task, self._settings = task, settings
        self.gradients = ClusterGradients(self)
        self._own = sendable([task.loss], "client")
        self._trees: list[bytes] = []
        self._losses = 0
        self._odd: set[str] = set()  # workers that do not answer
        self._parts: list[Any] = []
        self._valid: Any = None
        self._sample: Any = None
        self.rounds = self._before = 0 if task.start is None else task.start.n_trees

    def measure(self, step: int, scale: float) -> LargestValues:
        """Have the gradients computed where the documents are; return the largest of all.

        Args:
            step: number of the tree.
            scale: factor from the engine's scores to the model's.
        """
        found = self._all("measure", step, scale)
        largest_gradient = max(largest.gradient for largest in found)
        largest_hessian = max(largest.hessian for largest in found)
        return LargestValues(largest_gradient, largest_hessian)

    def grow(self, gradients: Any, rate: float) -> None:
        """Add one tree; after the loss of a worker, begin again with those that are left.

        Args:
            gradients: has the gradients of a step computed (`ClusterGradients.at`).
            rate: learning rate.
        """
        answers: list[Any] = []
        while not answers:
            try:
                if not self._parts:
                    self._begin()
                answers = self._all("grow", gradients(), rate)
            except BaseException as error:  # noqa: PERF203
                self._release()
                if not isinstance(error, LostError):
                    raise
                self._losses += 1
                if self._losses > MOST_LOSSES:
                    raise CutShortError(
                        f"client: workers were lost {self._losses} times ({error})"
                    ) from None
        if answers[0][0] > self.rounds:
            self._trees.append(answers[0][2])
        self.rounds = answers[0][0]
        self._valid = [scores for _, scores, _ in answers if scores is not None]

    def scores(self, part: Part) -> Array:
        """Return the scores of all documents of a part.

        Args:
            part: train or valid.
        """
        return np.concatenate(self._valid if part == "valid" else self._all("scores", part))

    def model(self, rounds: int) -> FittedModel:
        """Return the model of the first rounds, and let the workers go.

        Args:
            rounds: number of rounds.
        """
        self._release()
        return self._so_far(rounds)

    def _so_far(self, rounds: int) -> FittedModel:
        """Return the model of the trees that the client has."""
        start = [] if self._task.start is None else [self._task.start.to_bytes()]
        contents = map(self._kind.portable, start + self._trees[: rounds - self._before])
        model: FittedModel = self._kind.engine.model_class.joined(
            [*contents], self._task.train.n_features
        )
        return model

    def _begin(self) -> None:
        task, client = self._task, self._client
        workers = self._workers()
        n = max(2, min(len(workers), task.train.n_queries))
        train = _shares(task.train, n)
        valid = [None] * n if task.valid is None else _shares(task.valid, n)
        start = self._so_far(self.rounds) if self._trees else task.start
        whole = task.train.n_documents, task.train.n_queries
        shared: dict[str, Any] = {"loss": str(task.loss), "start": start, "whole": whole}
        addresses, queries, futures = [workers[number % len(workers)] for number in range(n)], 0, []
        for number, address in enumerate(addresses):
            placed = _placed(train[number], queries)
            queries = placed.n_queries
            weights = None if task.weights is None else task.weights[:queries]
            given = replace(task, train=placed, valid=valid[number], weights=weights, **shared)
            threads = self._settings.n_jobs or max(1, self._threads[address] * len(workers) // n)
            how = replace(self._settings, n_jobs=threads, callbacks=(), verbose=0, eval_train=False)
            on = {"actor": True, "workers": [address], "pure": False}
            futures.append(client.submit(self._kind, given, how, number, self._own, **on))
        try:
            with client.as_current():  # actors look for it
                self._parts = [future.result(timeout=_PATIENCE) for future in futures]
        except (OSError, TimeoutError, RuntimeError) as error:
            raise LostError(str(error) or type(error).__name__) from None
        # All parts find the same bins, and each other.
        if self._sample is None:
            firsts = np.cumsum([0, *(part.n_documents for part in train)])
            rows = sampled_rows(
                int(firsts[-1]), {"data_random_seed": self._settings.seed, **self._params}
            )
            asked = np.split(rows, np.searchsorted(rows, firsts[1:-1]))
            own_rows = [some - first for some, first in zip(asked, firsts, strict=False)]
            self._sample = np.concatenate(self._all("sample", own_rows))
        hosts = [urlsplit(address).hostname or "" for address in addresses]
        self._all("join", self._all("bin", self._sample, hosts))

    def _workers(self) -> list[str]:
        """Return the addresses of the workers, in order; wait for one if there is none."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                found = self._client.nthreads().items()
                self._threads = {
                    address: threads for address, threads in found if address not in self._odd
                }
            except Exception as error:
                raise CutShortError(
                    f"client: the Dask cluster is gone ({error or type(error).__name__})"
                ) from None
            if self._threads:
                return sorted(self._threads)
            if time.monotonic() > end or self._client.status != "running":
                raise CutShortError("client: the Dask cluster has no workers left")
            time.sleep(0.2)

    def _all(self, what: str, *given: Any) -> list[Any]:
        """Call a method of all parts at the same time."""
        try:
            with self._client.as_current():
                waiting = [part.do(what, *given) for part in self._parts]
        except RuntimeError as error:
            raise LostError(str(error)) from None
        answers: list[Any] = [None] * len(waiting)
        lost, end = "", float("inf")
        left = set(range(len(waiting)))
        while left and time.monotonic() < end:
            for number in sorted(left):
                try:
                    answers[number] = waiting[number].result(timeout=1.0)
                except (TimeoutError, asyncio.TimeoutError):
                    if not waiting[number].done():
                        continue
                except (
                    Exception
                ) as error:  # of Dask about its worker, or of the tool about its network
                    if not _is_loss(error):
                        raise
                    lost = lost or f"{type(error).__name__}: {_reason(error)}"
                    end = min(end, time.monotonic() + _GRACE)
                left.discard(number)
        if lost:
            self._odd |= {address_of(self._parts[number]) for number in left}
            raise LostError(lost)
        return answers

    def _release(self) -> None:
        """Let go of the parts; workers that hang in the network are started anew, if they can
        be.
        """
        parts, self._parts = self._parts, []
        with suppress(Exception), self._client.as_current():
            for waiting in [part.do("close") for part in parts]:
                with suppress(Exception):
                    waiting.result(timeout=1.0)
        if self._odd:
            with suppress(Exception):
                self._client.restart_workers(
                    sorted(self._odd), timeout=_GRACE, raise_for_error=False
                )


def _is_loss(error: Exception) -> bool:
    network = re.search(r"[Ss]ocket|connect|[Pp]ort|[Nn]etwork|/collective/", str(error))
    return isinstance(error, OSError) or (
        type(error).__name__ in ("LightGBMError", "XGBoostError") and bool(network)
    )


def _reason(error: Exception) -> str:
    """Return what an error says, in one line: XGBoost's last before its stack trace, without the
    place in its code.
    """
    lines = str(error).partition("Stack trace:")[0].strip().splitlines()
    return re.sub(r"^- \[\S+\]: ", "", lines[-1]) if lines else ""


def _shares(data: RankingData, n: int) -> list[Any]:
    """Divide data into consecutive parts of whole queries: at the ends of files, if there are
    enough of them.
    """
    pieces = getattr(data.X, "pieces", ())
    ends = (
        np.cumsum([last - first for _, first, last in pieces])
        if len(pieces) >= n
        else data.offsets[1:]
    )
    cuts = [
        ends[np.argmin(np.abs(ends - target))] for target in data.n_documents * np.arange(1, n) / n
    ]
    bounds = np.array([0, *np.searchsorted(data.offsets, cuts), data.n_queries])
    if (np.diff(bounds) <= 0).any():  # files or queries of very different lengths
        bounds = np.linspace(0, data.n_queries, n + 1).astype(np.int64)
    return [
        data.subset(range(first, last)) if first < last else None
        for first, last in pairwise(bounds.tolist())
    ]


def _placed(part: RankingData, before: int) -> RankingData:
    """Return a part with the queries before it as empty ones: its own then have the numbers that
    they have in all.
    """
    offsets = np.concatenate((np.zeros(before, np.int64), part.offsets))
    qids = np.concatenate((np.zeros(before, part.qids.dtype), part.qids))
    return replace(part, offsets=offsets, qids=qids)
