"""Trainings that grow one round at a time, wait for each other, and stop together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np

from tautrank.arrays import Array
from tautrank.engines.base import Engine
from tautrank.engines.loop import train_rounds
from tautrank.engines.model import FittedModel
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.task import Settings, Task


class Lockstep:
    """Trainings that grow one round at a time, wait for each other, and stop together.

    Args:
        n_members: number of trainings.
        stop_rule: asked after each round with the validation scores of all; returns whether to
            stop.
        n_growing: how many may grow at the same time.
    """

    def __init__(
        self, n_members: int, stop_rule: Callable[[list[Array]], bool], n_growing: int
    ) -> None:
        self._stop_rule = stop_rule
        # The last scores of each member, which the rule judges.
        self._scores: list[Array] = [np.zeros(0)] * n_members
        self._members_in_training = set(range(n_members))
        self._members_waiting: set[int] = set()
        # The lock of both sets; wakes the threads of members that wait.
        self._changed = threading.Condition()
        # A member grows only while it has one of these turns.
        self._turns = threading.Semaphore(n_growing)
        self.stop = False
        """Whether all end with their next round."""

    def train(self, number: int, engine: Engine, task: Task, settings: Settings) -> FittedModel:
        """Train one member in step with all others, from a thread of its own, and return its model.

        When this training has ended, the other members go on without it; if it has failed, they
        stop.

        Args:
            number: number of the member, from 0.
            engine: the tool that grows the model.
            task: what to learn, with validation data.
            settings: how to train.
        """
        # The member's own monitor asks `after_round` at the end of each round, which waits there.
        stop_rule = partial(self.after_round, number)
        try:
            with self._turns:
                monitor = TrainingMonitor(task, settings, stop_rule=stop_rule)
                return train_rounds(engine, task, settings, monitor)
        except BaseException:
            self.stop = True
            raise
        finally:
            # The others no longer wait for this member, so their round may be complete now.
            with self._changed:
                self._members_in_training.remove(number)
                self._end_round_if_complete()

    def after_round(self, number: int, scores: Array) -> bool:
        """Wait until all members have grown their tree of this round; return whether to stop.

        Called by the thread of one member after each of its trees. While it waits, another member
        may grow in its turn.

        Args:
            number: number of the member.
            scores: its scores of the validation documents.
        """
        self._scores[number] = scores
        # The turn to grow, which the member has held until now, goes to another one.
        self._turns.release()
        with self._changed:
            self._members_waiting.add(number)
            self._end_round_if_complete()
            # The last member to arrive empties the set of those who wait, which ends the round.
            self._changed.wait_for(lambda: number not in self._members_waiting)
        self._turns.acquire()
        return self.stop

    def _end_round_if_complete(self) -> None:
        """End the round if all members in training wait: decide whether they stop, and wake them.

        The caller holds the lock, so the members that are woken go on only after the decision.
        """
        all_wait = self._members_waiting == self._members_in_training
        if not self._members_waiting or not all_wait:
            return
        # An empty set lets those who wait go on.
        self._members_waiting.clear()
        self._changed.notify_all()
        has_stopped = self.stop
        self.stop = True  # if the rule raises an error, all members stop
        self.stop = has_stopped or self._stop_rule(self._scores)
