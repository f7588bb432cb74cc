"""The claims of a paper in a form that numbers can contradict: each is a number that should be
positive.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from tautrank.arguments import one_or_more
from tautrank.arrays import F64
from tautrank.experiments.plan import PLAIN
from tautrank.experiments.result import Cell
from tautrank.json_values import declare

Values: TypeAlias = Callable[[Cell], F64]
"""From a cell to its values (greater is better): one per trial, one per query of a trial, or one
curve per trial.
"""

_PARTS = {"train": " of the training queries", "valid": " of the validation queries"}


@dataclass(frozen=True, kw_only=True)
class Claim(ABC):
    """A sentence of the paper and the number that decides it.

    Args:
        metric: the metric it is about.
        text: the claim in the paper's words or close to them; by default a sentence made from the
            other arguments.
        part: the queries it is about: ``"test"``, or others that the study judges (or has curves
            of).
    """

    metric: str
    text: str = ""
    part: str = "test"

    @abstractmethod
    def cells(self, conditions: tuple[str, ...]) -> list[tuple[Cell, ...]]:
        """Return the cells that are compared: one group per comparison that the claim makes."""

    def advantage(self, values: Values, cells: tuple[Cell, ...]) -> F64:
        """Return what should be positive, one number per trial (or per query): by default, first
        minus second cell.
        """
        return values(cells[0]) - values(cells[1])

    def query_advantage(self, values: Values, cells: tuple[Cell, ...]) -> F64:
        """Return what should be positive in one trial, one number per query, whose mean is the
        trial's advantage.
        """
        return self.advantage(values, cells)

    @abstractmethod
    def sentence(self, cells: tuple[Cell, ...]) -> str:
        """Return one comparison in words."""

    by_query = True
    """Whether the advantage of a trial is the mean of the advantages of its queries."""

    of_curves = False
    """Whether it is about training curves: values are then ``[trials, trees]``, the best value so
    far.
    """

    @property
    def measured(self) -> str:
        """The metric and its queries, in words."""
        return f"{self.metric}{_PARTS.get(self.part, '')}"


@dataclass(frozen=True, kw_only=True)
class _PerCondition(Claim):
    """A claim about one system, or about two, in one condition or in each."""

    condition: str = ""

    compared: ClassVar[tuple[str, ...]] = ("system",)
    """The arguments that name systems."""

    def cells(self, conditions: tuple[str, ...]) -> list[tuple[Cell, ...]]:
        """Return the cells (condition, system, metric) that the claim compares: a group per
        condition, or one group if the claim names its condition.

        Args:
            conditions: all conditions of the study, which is what it varies.
        """
        # `compared` has the names of the claim's arguments that are systems, such as "better".
        systems = [getattr(self, argument) for argument in self.compared]
        claimed_conditions = (self.condition,) if self.condition else conditions
        groups = []
        for condition in claimed_conditions:
            groups.append(tuple((condition, system, self.metric) for system in systems))
        return groups


@dataclass(frozen=True, kw_only=True)
class Better(_PerCondition):
    """One system is better than another, in one condition or in each.

    Args:
        better: the name of the system that should win.
        worse: the name of the other.
        condition: the condition; by default every condition.

    >>> claim = Better(better="xendcg", worse="listnet", metric="ndcg@5")
    >>> [claim.sentence(cells) for cells in claim.cells(("10%", "20%"))]
    ['xendcg is better than listnet on ndcg@5 (10%)', 'xendcg is better than listnet on ndcg@5 (20%)']
    """

    better: str
    worse: str

    compared = ("better", "worse")

    def sentence(self, cells: tuple[Cell, ...]) -> str:
        """Which is better than which, and where."""
        claim = f"{self.better} is better than {self.worse} on {self.measured}"
        return claim + _condition_suffix(cells[0])


@dataclass(frozen=True, kw_only=True)
class BetterUnder(Claim):
    """One system is better under one condition than under another.

    Args:
        system: its name.
        better: the condition that should give more.
        worse: the other condition.

    >>> BetterUnder(system="ndcg-loss2++", better="10", worse="0.1", metric="ndcg@5").cells(())
    [(('10', 'ndcg-loss2++', 'ndcg@5'), ('0.1', 'ndcg-loss2++', 'ndcg@5'))]
    """

    system: str
    better: str
    worse: str

    def cells(self, conditions: tuple[str, ...]) -> list[tuple[Cell, ...]]:
        """Return the two cells (condition, system, metric) that are compared: the system under the
        condition that should be better, and under the other; the study's conditions do not count.
        """
        better = (self.better, self.system, self.metric)
        worse = (self.worse, self.system, self.metric)
        return [(better, worse)]

    def sentence(self, cells: tuple[Cell, ...]) -> str:
        """Which condition is better than which."""
        conditions = f"under {self.better} than under {self.worse}"
        return f"{self.system} is better {conditions} on {self.measured}"


@dataclass(frozen=True, kw_only=True)
class GapGrows(Claim):
    """How far one system is ahead of another grows from one condition to another: one degrades more
    slowly.

    ``(better - worse) at last  -  (better - worse) at first``; with ``relative`` each gap is divided by the value of
    the worse system, as in "the gain is 5.3%".

    Args:
        better: the system whose lead should grow.
        worse: the other.
        first: the condition to start from.
        last: the condition to end at.
        relative: whether gaps are shares of the worse system's value.

    >>> import numpy as np
    >>> claim = GapGrows(better="a", worse="b", first="0%", last="50%", metric="ndcg@5")
    >>> table = {"0%": {"a": 0.50, "b": 0.50}, "50%": {"a": 0.40, "b": 0.30}}
    >>> claim.advantage(lambda cell: np.array([table[cell[0]][cell[1]]]), claim.cells(())[0])
    array([0.1])
    """

    better: str
    worse: str
    first: str
    last: str
    relative: bool = False

    def cells(self, conditions: tuple[str, ...]) -> list[tuple[Cell, ...]]:
        """Return the one group of cells (condition, system, metric) that is compared: the better and
        the worse system under the last condition, then both under the first.
        """
        cells = []
        for condition in (self.last, self.first):
            cells.append((condition, self.better, self.metric))
            cells.append((condition, self.worse, self.metric))
        return [tuple(cells)]

    def advantage(self, values: Values, cells: tuple[Cell, ...]) -> F64:
        """Return by how much the lead of the better over the worse system grew from the first to the
        last condition, one number per trial; relative leads are shares of the worse one's value.

        Args:
            values: from a cell to its values, one per trial.
            cells: both systems under the last condition, then both under the first.
        """
        better_last, worse_last, better_first, worse_first = (values(cell) for cell in cells)
        lead_last = better_last - worse_last
        lead_first = better_first - worse_first
        if self.relative:
            return lead_last / worse_last - lead_first / worse_first
        return lead_last - lead_first

    def query_advantage(self, values: Values, cells: tuple[Cell, ...]) -> F64:
        """Return by how much the lead of the better over the worse system grew from the first to the
        last condition in one trial, as one number per query whose mean is the trial's number.

        Args:
            values: from a cell to its values, one per query.
            cells: both systems under the last condition, then both under the first.
        """
        if not self.relative:
            return self.advantage(values, cells)
        # better / worse - 1 is the relative lead; the two ones cancel in the difference. A ratio of
        # means is no mean of ratios, so each is made linear in the queries.
        better_last, worse_last, better_first, worse_first = (values(cell) for cell in cells)
        return _linear_ratio(better_last, worse_last) - _linear_ratio(better_first, worse_first)

    def sentence(self, cells: tuple[Cell, ...]) -> str:
        """Return the claim as a sentence: whose lead over whom, by which metric, grows from which
        condition to which; it is the same for all cells.
        """
        kind = "relative lead" if self.relative else "lead"
        lead = f"the {kind} of {self.better} over {self.worse}"
        return f"{lead} on {self.measured} grows from {self.first} to {self.last}"


@dataclass(frozen=True, kw_only=True)
class Reaches(_PerCondition):
    """A system reaches a value, up to rounding.

    Args:
        system: its name.
        value: the value to reach.
        tolerance: how much less still counts.
        condition: the condition; by default every condition.

    >>> import numpy as np
    >>> claim = Reaches(system="stochasticrank", value=0.917, tolerance=0.0005, metric="ndcg@3")
    >>> claim.advantage(lambda cell: np.array([0.9172, 0.9032]), claim.cells(("plain",))[0]).round(4)
    array([ 0.0007, -0.0133])
    """

    system: str
    value: float
    tolerance: float = 0.0

    by_query = False  # the mean has to reach the value, not every query

    def advantage(self, values: Values, cells: tuple[Cell, ...]) -> F64:
        """What the system has above the value less the tolerance."""
        return values(cells[0]) - (self.value - self.tolerance)

    def sentence(self, cells: tuple[Cell, ...]) -> str:
        """Who reaches what, and where."""
        claim = f"{self.system} reaches {self.value:g} on {self.measured}"
        return claim + _condition_suffix(cells[0])


@dataclass(frozen=True, kw_only=True)
class LeadsEarly(Better):
    """One system leads another by more with few trees than with all of them.

    Args:
        better: the system that should be quicker.
        worse: the other.
        early: the share of the trees that counts as few.
        condition: the condition; by default every condition.

    >>> import numpy as np
    >>> claim = LeadsEarly(better="xendcg", worse="lambdamart", metric="ndcg@5")
    >>> curves = {"xendcg": np.array([[0.4, 0.45, 0.5, 0.5]]), "lambdamart": np.array([[0.3, 0.42, 0.49, 0.5]])}
    >>> claim.advantage(lambda cell: curves[cell[1]], claim.cells(("plain",))[0]).round(3)
    array([0.1])
    """

    early: float = 0.1
    part: str = "valid"

    of_curves = True

    def advantage(self, values: Values, cells: tuple[Cell, ...]) -> F64:
        """Return the lead of the better system with few trees less its lead with all, one number per
        trial; positive if it leads by more early.

        Args:
            values: from a cell to its training curves, trials by trees.
            cells: the better system's cell, then the worse one's.
        """
        # Trials by trees: the first cell's curves less the second's.
        lead = super().advantage(values, cells)
        n_trees = lead.shape[1]
        # `early` is the share of the trees that counts as few: at least one tree.
        n_early = max(math.ceil(self.early * n_trees), 1)
        early, last = lead[:, n_early - 1], lead[:, -1]
        return np.asarray(early - last)

    def sentence(self, cells: tuple[Cell, ...]) -> str:
        """Return the claim as a sentence: who leads whom by more after which share of the trees than
        after all, by which metric, and under which condition if there are several.
        """
        few = f"{100 * self.early:g}% of the trees"
        lead = f"{self.better} leads {self.worse} by more after {few} than after all of them"
        return f"{lead} on {self.measured}{_condition_suffix(cells[0])}"


@dataclass(frozen=True, kw_only=True)
class Converges(_PerCondition):
    """Little of what training gains is gained by its last trees.

    Args:
        system: its name.
        last: the share of the trees that counts as last.
        share: the most that they may gain, as a share of the gain since the first tree.
        condition: the condition; by default every condition.

    >>> import numpy as np
    >>> claim = Converges(system="lambdarank", metric="ndcg@5")
    >>> curves = np.array([[0.3, 0.4, 0.49, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4, 0.5]])
    >>> claim.advantage(lambda cell: curves, claim.cells(("plain",))[0]).round(3)
    array([ 0.01, -0.08])
    """

    system: str
    last: float = 0.2
    share: float = 0.05
    part: str = "valid"

    of_curves = True

    def advantage(self, values: Values, cells: tuple[Cell, ...]) -> F64:
        """Return what the last trees may gain less what they do gain, one number per trial; positive
        if the system has converged.

        Args:
            values: from a cell to its training curves, trials by trees.
            cells: the only cell of the claim.
        """
        curve = values(cells[0])
        n_trees = curve.shape[1]
        # `last` is the share of the trees that counts as the last ones.
        n_before = max(math.floor((1 - self.last) * n_trees), 1)
        first, before, end = curve[:, 0], curve[:, n_before - 1], curve[:, -1]
        # They may gain a share of what all trees after the first one gain.
        allowed = self.share * (end - first)
        gained = end - before
        return np.asarray(allowed - gained)

    def sentence(self, cells: tuple[Cell, ...]) -> str:
        """Return the claim as a sentence: which system has converged by which metric, and what that
        means (the last trees give at most a share of the gain).
        """
        trees, share = f"{100 * self.last:g}%", f"{100 * self.share:g}%"
        little = f"the last {trees} of the trees give at most {share} of the gain"
        claim = f"{self.system} has converged on {self.measured}"
        return f"{claim}: {little}{_condition_suffix(cells[0])}"


def each(claim: Callable[..., Claim], **arguments: str | Iterable[str]) -> tuple[Claim, ...]:
    """Return one claim of a kind for every combination of the values given for its arguments; of two
    claims that follow each other, the last argument differs first.

    Args:
        claim: the kind of claim.
        **arguments: its arguments; several values in place of one make several claims.

    >>> [claim.better for claim in each(Better, better=("xendcg", "listnet"), worse="mse", metric="ndcg@5")]
    ['xendcg', 'listnet']
    """
    choices = [one_or_more(values) for values in arguments.values()]
    claims = []
    for values in itertools.product(*choices):
        # The names of the arguments, in the same order as their values.
        value_by_argument = dict(zip(arguments, values, strict=True))
        claims.append(claim(**value_by_argument))
    return tuple(claims)


def _linear_ratio(above: F64, below: F64) -> F64:
    """Return one number per query whose mean is the ratio of the means of two arrays (`above` divided
    by `below`), so that a test over queries can be made of a ratio.

    For a query with the values a and b, and the means A and B over all queries, it is ``A/B + (a -
    A/B b) / B``, which is linear in a and b (delta method). NaN, an undefined value, does not count
    in the means.
    """
    mean_below = np.nanmean(below)
    ratio = np.nanmean(above) / mean_below
    return np.asarray(ratio + (above - ratio * below) / mean_below)


def _condition_suffix(cell: Cell) -> str:
    """Return the condition of a cell as it follows a sentence."""
    condition, _, _ = cell
    return "" if condition == PLAIN else f" ({condition})"


declare(__name__)
