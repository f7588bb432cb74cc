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
        """Return the workers and how many threads each has, in order; wait for one if there is
        none.
        """
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                threads = self._client.nthreads()
            except Exception as error:
                raise CutShortError(
                    f"client: the Dask cluster is gone ({error or type(error).__name__})"
                ) from None
            answering = {name: threads[name] for name in sorted(threads.keys() - self._silent)}
            if answering:
                return answering
            if time.monotonic() > end or self._client.status != "running":
                raise CutShortError("client: the Dask cluster has no workers left")
            time.sleep(0.2)

    def place(self, part_class: type[Any], arguments_by_part: Sequence[tuple[str, Any]]) -> None:
        """Make the parts where they are to be.

        Args:
            part_class: the class of the parts.
            arguments_by_part: address and arguments of each part.
        """
        for address, arguments in arguments_by_part:
            options = {"actor": True, "workers": [address], "pure": False}
            self._futures.append(self._client.submit(part_class, *arguments, **options))
        try:
            with self._client.as_current():  # actors look for it
                self._parts = [future.result(timeout=_PATIENCE) for future in self._futures]
        except (OSError, TimeoutError, RuntimeError) as error:
            raise LostError(str(error) or type(error).__name__) from None

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of all parts at the same time, and return their answers.

        Args:
            method: its name.
            *arguments: its arguments.
        """
        try:
            with self._client.as_current():
                calls = [part.do(method, *arguments) for part in self._parts]
        except RuntimeError as error:
            raise LostError(str(error)) from None

        answers: list[Any] = [None] * len(calls)
        unanswered = set(range(len(calls)))
        loss = ""
        end = float("inf")
        while unanswered and time.monotonic() < end:
            for number in sorted(unanswered):
                try:
                    answers[number] = calls[number].result(timeout=1.0)
                except (TimeoutError, asyncio.TimeoutError):
                    if not calls[number].done():
                        continue
                # Of Dask about its worker, or of the tool about its network.
                except Exception as error:
                    if not _is_loss(error):
                        raise
                    loss = loss or f"{type(error).__name__}: {_reason(error)}"
                    end = min(end, time.monotonic() + _GRACE)
                unanswered.discard(number)
        if loss:
            self._silent |= {address_of(self._parts[number]) for number in unanswered}
            raise LostError(loss)
        return answers

    def release(self) -> None:
        """Let go of the parts; workers that hang in the network are started anew, if they can
        be.
        """
        parts = self._parts
        self._parts = []
        self._futures = []
        with suppress(Exception), self._client.as_current():
            for call in [part.do("close") for part in parts]:
                with suppress(Exception):
                    call.result(timeout=1.0)
        if self._silent:
            with suppress(Exception):
                self._client.restart_workers(
                    sorted(self._silent), timeout=_GRACE, raise_for_error=False
                )


def _is_loss(error: Exception) -> bool:
    """Whether an error says that a worker is gone, rather than that it cannot train."""
    if isinstance(error, OSError):
        return True
    is_of_tool = type(error).__name__ in ("LightGBMError", "XGBoostError")
    of_network = re.search(r"[Ss]ocket|connect|[Pp]ort|[Nn]etwork|/collective/", str(error))
    return is_of_tool and of_network is not None


def _reason(error: Exception) -> str:
    """Return what an error says, in one line: XGBoost's last before its stack trace, without the
    place in its code.
    """
    lines = str(error).partition("Stack trace:")[0].strip().splitlines()
    return re.sub(r"^- \[\S+\]: ", "", lines[-1]) if lines else ""
