"""Protocols: which queries a trial trains, validates and tests on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np

from tautrank.arguments import check_fields, checked_by, choice
from tautrank.arrays import I64
from tautrank.data import RankingData, Splits
from tautrank.errors import DataError, OptionError
from tautrank.json_values import declare

PARTS = ("train", "valid", "test")
HELD_OUT = 0.2
"""The share of the training queries that validates if the data has no validation part."""

_N_FOLDS = 5  # of data that has none
_FOLD_DISTANCE = 2**32  # between the numbers of queries of different folds


@dataclass(frozen=True)
class Draw:
    """Which trial of an experiment it is, and the seeds of its random division.

    Args:
        trial: the number of the trial, from 0.
        seed: the seed of the experiment, for what all trials share.
        trial_seed: the seed of the trial.
        fold: the number of the fold of the data, from 1.
    """

    trial: int = 0
    seed: int = 0
    trial_seed: int = 0
    fold: int = 1


class Protocol(ABC):
    """Where the training, validation and test queries of trials come from."""

    uses_own_split: ClassVar[bool] = True
    """Whether the data's own parts count; else all queries are put together."""

    tests_same_queries: ClassVar[bool] = True
    """Whether all trials test on the same queries."""

    tests_unseen_queries: ClassVar[bool] = True
    """Whether test queries are no training queries."""

    @property
    def varied(self) -> str:
        """What differs between the repeats of a comparison; empty for a protocol of a study."""
        return ""

    @abstractmethod
    def divide(self, data: RankingData | Splits, draw: Draw) -> Splits:
        """Return the parts of a trial; all systems and conditions of the trial get the same.

        Args:
            data: in one piece, or in parts (those of the trial's fold).
            draw: which trial it is.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return where the queries of a trial come from, in words."""

    def folds_of(self, trial: int, folds: Sequence[int]) -> list[int]:
        """Return the folds of the data that a trial reads.

        Args:
            trial: its number, from 0.
            folds: the folds there are.
        """
        return [folds[0]]

    def overlap(self, sizes: Mapping[str, int]) -> float:
        """Return Nadeau and Bengio's held out over not held out; 0 if all trials train alike.

        Args:
            sizes: the numbers of training, validation and test queries of a trial.
        """
        return 0.0

    def seed_of(self, seed: int, trial: int, occurrence: int) -> int:
        """Return the seed of a trial, the same for all systems and conditions.

        So they see the same queries and the same noise.

        Args:
            seed: the seed of the experiment.
            trial: the number of the trial.
            occurrence: how many of the systems before this one are equal to it.
        """
        return int(np.random.SeedSequence([seed, trial]).generate_state(1)[0] % 2**31)


@dataclass(frozen=True)
class Resampling(Protocol):
    """Every trial divides all queries at random.

    Args:
        train, valid, test: the shares of the queries.

    >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
    >>> [part.n_queries for part in Resampling().divide(data, Draw(trial_seed=7))]
    [6, 2, 2]
    >>> Resampling().overlap({"train": 60, "valid": 20, "test": 20})
    0.25
    >>> Resampling(train=0.8)
    Traceback (most recent call last):
    tautrank.errors.OptionError: train, valid, test: found (0.8, 0.2, 0.2); expected shares above 0 that sum to 1
    """

    train: float = 0.6
    valid: float = 0.2
    test: float = 0.2

    uses_own_split = False
    tests_same_queries = False

    def __post_init__(self) -> None:
        shares = self._shares
        are_parts = all(0 < share < 1 for share in shares) and abs(sum(shares) - 1) <= 1e-9
        if not are_parts:
            raise OptionError(
                f"train, valid, test: found {shares}; expected shares above 0 that sum to 1"
            )

    @property
    def _shares(self) -> tuple[float, float, float]:
        return self.train, self.valid, self.test

    def divide(self, data: RankingData | Splits, draw: Draw) -> Splits:
        """Return the parts of a trial, drawn with its seed."""
        return Splits(*pooled(data).split(self._shares, seed=draw.trial_seed))

    def describe(self) -> str:
        """Return where the queries of a trial come from, in words."""
        percent = "/".join(f"{100 * share:g}" for share in self._shares)
        return f"every trial splits the queries at random, {percent}"

    def overlap(self, sizes: Mapping[str, int]) -> float:
        """Return held out over not held out: the test queries over all others."""
        return _test_over_others(sizes)


@dataclass(frozen=True)
class OwnFolds(Protocol):
    """A trial is a fold of the data set; after the last fold comes the first again, with another
    seed.

    Data without folds is divided into five: three for training, one for validation, one for test.

    >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
    >>> [part.n_queries for part in OwnFolds().divide(data, Draw(trial=4))]
    [6, 2, 2]
    >>> [OwnFolds().folds_of(trial, [1, 2]) for trial in range(3)]
    [[1], [2], [1]]
    """

    tests_same_queries = False

    def divide(self, data: RankingData | Splits, draw: Draw) -> Splits:
        """Return the parts of a fold."""
        if isinstance(data, RankingData):
            return _fold_of_undivided(data, draw.trial % _N_FOLDS, draw.seed)
        splits = _in_parts(data, draw.seed)
        return _with_validation(splits, draw.seed)

    def describe(self) -> str:
        """Return where the queries of a trial come from, in words."""
        return "one trial per fold"

    def folds_of(self, trial: int, folds: Sequence[int]) -> list[int]:
        """Return the fold that is the trial."""
        return [folds[trial % len(folds)]]

    def overlap(self, sizes: Mapping[str, int]) -> float:
        """Return held out over not held out: the test queries over all others."""
        return _test_over_others(sizes)


@dataclass(frozen=True)
class FixedParts(Protocol):
    """All trials train, validate and test on the same queries, so that only random seeds differ.

    Seeds change nothing if neither the loss nor the trees draw random numbers; `redivide` then
    gives trials something to vary.

    Args:
        fold: the fold (or set) of the data set; data in one piece is divided 60/20/20 once.
        redivide: whether each trial after the first divides the training and validation queries
            again.

    >>> FixedParts(fold=2).folds_of(0, [1, 2, 3])
    [2]
    """

    fold: int = 1
    redivide: bool = False

    def divide(self, data: RankingData | Splits, draw: Draw) -> Splits:
        """Return the parts of the data, the first two divided again if asked for."""
        splits = _with_validation(_in_parts(data, draw.seed), draw.seed)
        # The first trial keeps the parts as they are given.
        if self.redivide and draw.trial:
            train, valid = hold_out(splits.train, splits.valid, draw.trial_seed)
            return Splits(train, valid, splits.test)
        return splits

    def describe(self) -> str:
        """Return where the queries of a trial come from, in words."""
        varied = "only seeds differ"
        if self.redivide:
            varied = "new split of training and validation queries"
        return f"the same test queries in every trial, {varied}"

    def folds_of(self, trial: int, folds: Sequence[int]) -> list[int]:
        """Return the one fold of all trials."""
        return [self.fold] if len(folds) > 1 else [folds[0]]

    def overlap(self, sizes: Mapping[str, int]) -> float:
        """Return held out over not held out: the validation queries over the training queries."""
        return _valid_over_train(sizes) if self.redivide else 0.0


@dataclass(frozen=True)
class OnItself(Protocol):
    """Trained, validated and tested on the same queries, all there are: can the loss be optimised
    at all?
    """

    uses_own_split = False
    tests_unseen_queries = False

    def divide(self, data: RankingData | Splits, draw: Draw) -> Splits:
        """Return all queries three times."""
        pool = pooled(data)
        return Splits(pool, pool, pool)

    def describe(self) -> str:
        """Return where the queries of a trial come from, in words."""
        return "trained and tested on the same queries"


@dataclass(frozen=True)
class GivenSplits(Protocol):
    """Every trial trains and tests on every split (or fold) of the data, so that each test query
    counts once per trial.

    Args:
        vary: what differs between trials: ``"splits"`` divides training and validation queries
            again in each trial after the first, ``"seeds"`` changes only the random seed.
    """

    vary: str = field(default="splits", metadata=checked_by(choice, known=("splits", "seeds")))

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def varied(self) -> str:
        """What differs between the repeats of a comparison: splits or seeds."""
        return self.vary

    def divide(self, data: RankingData | Splits, draw: Draw) -> Splits:
        """Return the given parts; those of later trials are divided again if splits vary."""
        splits = _in_parts(data, draw.seed)
        # The first trial keeps the parts as they are given.
        redivision = draw.trial if self.vary == "splits" else 0
        if splits.valid is not None and not redivision:
            return splits
        seed = draw.seed + 7919 * redivision + 104729 * (draw.fold - 1)
        train, valid = hold_out(splits.train, splits.valid, seed)
        return Splits(train, valid, splits.test)

    def describe(self) -> str:
        """Return where the queries of a trial come from, in words."""
        return f"the given parts, with other {self.vary} in each repeat"

    def folds_of(self, trial: int, folds: Sequence[int]) -> list[int]:
        """Return all folds."""
        return list(folds)

    def overlap(self, sizes: Mapping[str, int]) -> float:
        """Return held out over not held out: the validation queries over the training queries."""
        return _valid_over_train(sizes) if self.vary == "splits" else 0.0

    def seed_of(self, seed: int, trial: int, occurrence: int) -> int:
        """Return the seed of a trial; a system that is there again has another one."""
        return seed + 1000 * trial + 1_000_000 * occurrence


declare(__name__)


def _test_over_others(sizes: Mapping[str, int]) -> float:
    return sizes["test"] / (sizes["train"] + sizes.get("valid", 0))


def _valid_over_train(sizes: Mapping[str, int]) -> float:
    if "valid" in sizes:
        return sizes["valid"] / sizes["train"]
    return HELD_OUT / (1 - HELD_OUT)


def _in_parts(data: RankingData | Splits, seed: int) -> Splits:
    """Return data in parts; data in one piece is divided at random, 60/20/20."""
    if isinstance(data, Splits):
        return data
    return Splits(*data.split([0.6, 0.2, 0.2], seed=seed))


def _with_validation(splits: Splits, seed: int) -> Splits:
    """Return splits that have validation queries: held out of the training queries if need be."""
    if splits.valid is not None:
        return splits
    train, valid = hold_out(splits.train, None, seed)
    return Splits(train, valid, splits.test)


def _fold_of_undivided(data: RankingData, fold: int, seed: int) -> Splits:
    """Return a fold of five: the parts are rotated by one from fold to fold, as LETOR does."""
    if data.n_queries < _N_FOLDS:
        raise DataError(
            f"data: found {data.n_queries} queries; expected at least {_N_FOLDS}, one per fold"
        )
    parts = np.array_split(np.random.default_rng(seed).permutation(data.n_queries), _N_FOLDS)
    *train, valid, test = [*parts[fold:], *parts[:fold]]
    queries = (np.concatenate(train), valid, test)
    return Splits(*(data.subset(np.sort(part)) for part in queries))


def hold_out(
    train: RankingData, valid: RankingData | None, seed: int
) -> tuple[RankingData, RankingData]:
    """Divide the queries of training and validation at random: as many validate as before, or a
    fifth.

    Args:
        train, valid: the parts as given.
        seed: the seed of the division.

    >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
    >>> [part.n_queries for part in hold_out(data, None, 0)]
    [8, 2]
    """
    if valid is None:
        pool, share = train, HELD_OUT
    else:
        pool = RankingData.concat([train, valid], repeated="separate")
        share = valid.n_queries / pool.n_queries
    train, valid = pool.split([1 - share, share], seed=seed)
    return train, valid


def pooled(data: RankingData | Splits) -> RankingData:
    """Return all queries in one piece.

    Args:
        data: in one piece, or in parts.
    """
    if isinstance(data, RankingData):
        return data
    return RankingData.concat([part for part in data if part is not None], repeated="separate")


def part_sizes(splits: Splits) -> dict[str, int]:
    """Return the number of queries of each part, by its name.

    Args:
        splits: the parts; one that is None is left out.
    """
    return {name: part.n_queries for name, part in splits._asdict().items() if part is not None}


@lru_cache(maxsize=1000)
def queries_of_trial(
    protocol: Protocol, draw: Draw, n_tested: int, n_queries: int, n_folds: int = 1
) -> I64:
    """Return a number for each test query of a trial: in all trials, the same number is the same
    query.

    Args:
        protocol: how queries are divided.
        draw: which trial it is.
        n_tested: the number of test queries of the trial. If the protocol gives another number (a
            change of the data added or dropped queries), the trial's queries count as queries of
            its own.
        n_queries: the number of queries of the data.
        n_folds: the number of folds of the data.

    >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
    >>> draw = Draw(trial=3, trial_seed=7)
    >>> Resampling().divide(data, draw).test.qids, queries_of_trial(Resampling(), draw, 2, 10)
    (array([5, 9]), array([5, 9]))
    """
    if protocol.tests_same_queries:
        return np.arange(n_tested)
    if n_folds == 1 and n_queries:
        features, labels = np.zeros((n_queries, 1)), np.zeros(n_queries)
        blank = RankingData.from_arrays(features, labels, group=np.ones(n_queries, int))
        tested = protocol.divide(blank, draw).test.qids
        if tested.size == n_tested:
            return tested
    part = draw.trial
    if isinstance(protocol, OwnFolds):
        part = draw.trial % n_folds
    return (part + 1) * _FOLD_DISTANCE + np.arange(n_tested)
