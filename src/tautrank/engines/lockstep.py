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
        members: number of trainings.
        judge: called after each round with the validation scores of all; returns whether to stop.
        at_once: how many may grow at the same time.
    """

    def __init__(self, members: int, judge: Callable[[list[Array]], bool], at_once: int) -> None:
        self._judge = judge
        self._scores: list[Array] = [np.zeros(0)] * members
        self._growing = set(range(members))
        self._waiting: set[int] = set()
        self._changed = threading.Condition()
        self._places = threading.Semaphore(at_once)
        self.stop = False
        """Whether all end with their next round."""

    def train(self, number: int, engine: Engine, task: Task, settings: Settings) -> FittedModel:
        """Train one of them; the others go on without it when it has ended, and stop if it has
        failed.

        Args:
            number: its number, from 0.
            engine: what grows the model.
            task: what to learn; with validation data.
            settings: how.
        """
        try:
            with self._places:
                monitor = TrainingMonitor(task, settings, after=partial(self.after_round, number))
                return train_rounds(engine, task, settings, monitor)
        except BaseException:
            self.stop = True
            raise
        finally:
            with self._changed:
                self._growing.remove(number)
                self._judge_round()

    def after_round(self, number: int, scores: Array) -> bool:
        """Wait for the others; return whether to stop.

        Args:
            number: number of the training.
            scores: its validation scores.
        """
        self._scores[number] = scores
        self._places.release()
        with self._changed:
            self._waiting.add(number)
            self._judge_round()
            self._changed.wait_for(lambda: number not in self._waiting)
        self._places.acquire()
        return self.stop

    def _judge_round(self) -> None:
        if self._waiting and self._waiting == self._growing:
            self._waiting.clear()
            self._changed.notify_all()
            stopped, self.stop = self.stop, True  # also if the judge fails
            self.stop = stopped or self._judge(self._scores)
