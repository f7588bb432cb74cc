"""The workers of a cluster that train together: which there are, and calls to all of them."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tautrank.engines.base import CutShortError
from tautrank.engines.dask_private import address_of

# Seconds that others have to notice a worker that is gone, and that a cluster has to start another
# one.
_GRACE = 10.0
_PATIENCE = 60.0


class LostError(Exception):
    """A worker does not answer, or the network of the tool is broken."""


class ClusterWorkers:
    """Parts of one training that live on the workers of a cluster, one actor each.

    Args:
        client: the ``distributed.Client``.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._parts: list[Any] = []
        # An actor without a future may be released before the first call to it.
        self._futures: list[Any] = []
        self._silent: set[str] = set()  # addresses of workers that do not answer

    @property
    def have_parts(self) -> bool:
        """Whether the parts are on the workers."""
        return bool(self._parts)

    def threads_by_address(self) -> dict[str, int]:
        """Return the number of threads of each worker that answers, by its address in order; wait
        for a worker to start if there is none.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                threads = self._client.nthreads()  # of each worker Dask knows, by address
            except Exception as error:
                raise CutShortError(
                    f"client: the Dask cluster is gone ({error or type(error).__name__})"
                ) from None
            # Workers that did not answer in time before are passed over.
            answering = sorted(threads.keys() - self._silent)
            if answering:
                return {address: threads[address] for address in answering}
            if time.monotonic() > deadline or self._client.status != "running":
                raise CutShortError("client: the Dask cluster has no workers left")
            time.sleep(0.2)

    def place(self, part_class: type[Any], arguments_by_part: Sequence[tuple[str, Any]]) -> None:
        """Create one object per part of a training on the worker that is to hold it.

        Args:
            part_class: the class of the objects.
            arguments_by_part: for each part the address of its worker and the arguments of the
                class.
        """
        for address, arguments in arguments_by_part:
            # An actor is an object that stays on its worker and keeps its state; not pure, so that
            # each call makes a new object.
            options = {"actor": True, "workers": [address], "pure": False}
            self._futures.append(self._client.submit(part_class, *arguments, **options))
        try:
            with self._client.as_current():  # actors look for it
                self._parts = [future.result(timeout=_PATIENCE) for future in self._futures]
        except (OSError, TimeoutError, RuntimeError) as error:
            raise LostError(str(error) or type(error).__name__) from None

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of all parts at the same time, each on its worker; return their answers in
        order.

        If a worker is lost, the others get some seconds to notice; those that still do not answer
        count as lost too, and a `LostError` is raised.

        Args:
            method: name of the method.
            *arguments: arguments of the method.
        """
        try:
            with self._client.as_current():
                calls = [part.do(method, *arguments) for part in self._parts]
        except RuntimeError as error:
            raise LostError(str(error)) from None

        answers: list[Any] = [None] * len(calls)
        unanswered = set(range(len(calls)))
        first_loss = ""
        deadline = float("inf")  # there is none until a worker is lost
        while unanswered and time.monotonic() < deadline:
            for number in sorted(unanswered):
                try:
                    answers[number] = calls[number].result(timeout=1.0)
                except (TimeoutError, asyncio.TimeoutError):
                    # Either it is not done yet, or its answer is a timeout of its own.
                    if not calls[number].done():
                        continue
                # Of Dask about its worker, or of the tool about its network.
                except Exception as error:
                    if not _is_loss(error):
                        raise
                    first_loss = first_loss or f"{type(error).__name__}: {_reason(error)}"
                    deadline = min(deadline, time.monotonic() + _GRACE)
                unanswered.discard(number)
        if first_loss:
            self._silent |= {address_of(self._parts[number]) for number in unanswered}
            raise LostError(first_loss)
        return answers

    def release(self) -> None:
        """Close the parts on all workers and forget them; restart workers that do not answer, where
        the cluster can.

        Errors are ignored: workers may be gone already.
        """
        parts = self._parts
        self._parts = []
        self._futures = []
        # All parts are asked to close at once; then each has a second to do so.
        with suppress(Exception), self._client.as_current():
            closings = [part.do("close") for part in parts]
            for closing in closings:
                with suppress(Exception):
                    closing.result(timeout=1.0)
        if self._silent:
            with suppress(Exception):
                self._client.restart_workers(
                    sorted(self._silent), timeout=_GRACE, raise_for_error=False
                )


def _is_loss(error: Exception) -> bool:
    """Return whether an error of a worker means that a worker is gone, rather than that the tool
    cannot train on the data.

    It does if it comes from the operating system, or if the tool complains about its network.
    """
    if isinstance(error, OSError):
        return True
    is_of_tool = type(error).__name__ in ("LightGBMError", "XGBoostError")
    word_of_network = re.search(r"[Ss]ocket|connect|[Pp]ort|[Nn]etwork|/collective/", str(error))
    return is_of_tool and word_of_network is not None


def _reason(error: Exception) -> str:
    """Return the last line of an error message, without XGBoost's stack trace and the place in its
    code.
    """
    # XGBoost writes lines such as "- [/path/file.cc:78]: reason", and then "Stack trace: ...".
    message, _marker, _trace = str(error).partition("Stack trace:")
    lines = message.strip().splitlines()
    if not lines:
        return ""
    place_in_code = r"^- \[\S+\]: "
    return re.sub(place_in_code, "", lines[-1])
