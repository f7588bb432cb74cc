"""A progress that remembers what it was told."""

from __future__ import annotations

from collections.abc import Callable


class RecordedProgress:
    """Remembers every update.

    Args:
        act: called with each update as well; it may raise an error or kill a process.
    """

    def __init__(self, act: Callable[[float, float, str], None] | None = None) -> None:
        self.updates: list[tuple[float, float, str]] = []
        self._act = act

    def update(self, done: float, total: float, text: str) -> None:
        self.updates.append((done, total, text))
        if self._act is not None:
            self._act(done, total, text)

    @property
    def done(self) -> list[float]:
        """How much was done at each update."""
        return [done for done, _, _ in self.updates]
