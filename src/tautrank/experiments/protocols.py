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
        """Return by how much the training queries of trials overlap, as Nadeau and Bengio's test
        takes it: the ratio of the queries held out of a training to the others; 0 if all trials
        train on the same queries.

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
        random_state = np.random.SeedSequence([seed, trial]).generate_state(1)
        return int(random_state[0] % 2**31)  # training tools take signed 32-bit seeds


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
        # The shares of queries for training, validation and test.
        shares = self._shares
        are_inside = all(0 < share < 1 for share in shares)
        # Floating-point shares such as 0.6, 0.2 and 0.2 sum to 1 up to rounding.
        sum_to_one = abs(sum(shares) - 1) <= 1e-9
        if not (are_inside and sum_to_one):
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
        """Return the training, validation and test queries of the fold that is this trial."""
        if isinstance(data, RankingData):
            fold = draw.trial % _N_FOLDS
            return _cut_fold(data, fold, draw.seed)
        return _with_validation(data, draw.seed)

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
        """Return the training, validation and test queries of a trial: the test queries are the same
        in all trials, and with `redivide` the others are divided again from the second trial on.
        """
        splits = _split_if_whole(data, draw.seed)
        splits = _with_validation(splits, draw.seed)
        is_first_trial = draw.trial == 0
        if is_first_trial or not self.redivide:
            return splits
        train, valid = hold_out(splits.train, splits.valid, draw.trial_seed)
        return Splits(train, valid, splits.test)

    def describe(self) -> str:
        """Return where the queries of a trial come from, in words."""
        varied = "only seeds differ"
        if self.redivide:
            varied = "new split of training and validation queries"
        return f"the same test queries in every trial, {varied}"

    def folds_of(self, trial: int, folds: Sequence[int]) -> list[int]:
        """Return the one fold that all trials use; data that is not a folder of folds has only
        one.
        """
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
        """Return the training, validation and test queries of a trial.

        The first trial keeps the given parts. With ``vary="splits"``, each later one divides the
        training and validation queries again.
        """
        splits = _split_if_whole(data, draw.seed)
        # 0 keeps the given parts; with vary="seeds", all trials do.
        redivision = draw.trial if self.vary == "splits" else 0
        if splits.valid is not None and not redivision:
            return splits
        # Two primes keep the seeds of different trials and folds apart.
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
        """Return the seed of a trial; the second of two equal systems has another one."""
        return seed + 1000 * trial + 1_000_000 * occurrence


declare(__name__)


def _test_over_others(sizes: Mapping[str, int]) -> float:
    """Return the number of test queries over the number of training and validation queries."""
    n_others = sizes["train"] + sizes.get("valid", 0)
    return sizes["test"] / n_others


def _valid_over_train(sizes: Mapping[str, int]) -> float:
    """Return the number of validation queries over the number of training queries."""
    if "valid" in sizes:
        return sizes["valid"] / sizes["train"]
    # Without validation queries, a fixed share of the training queries is held out.
    return HELD_OUT / (1 - HELD_OUT)


def _split_if_whole(data: RankingData | Splits, seed: int) -> Splits:
    """Return data that is in parts unchanged; divide the queries of data in one piece at random,
    60 % for training, 20 % for validation and 20 % for testing.
    """
    if isinstance(data, Splits):
        return data
    shares = [0.6, 0.2, 0.2]
    return Splits(*data.split(shares, seed=seed))


def _with_validation(splits: Splits, seed: int) -> Splits:
    """Return splits that have validation queries; if there are none, a fifth of the training queries
    is held out, at random.
    """
    if splits.valid is not None:
        return splits
    train, valid = hold_out(splits.train, None, seed)
    return Splits(train, valid, splits.test)


def _cut_fold(data: RankingData, fold: int, seed: int) -> Splits:
    """Return one of five folds for cross-validation, cut from data that has none.

    The queries are shuffled and cut into five parts. Three train, one validates and one tests; from
    fold to fold the parts are rotated by one, as LETOR does.

    Args:
        data: all queries.
        fold: the number of the fold, from 0.
        seed: the seed of the shuffle, the same for all folds.
    """
    if data.n_queries < _N_FOLDS:
        raise DataError(
            f"data: found {data.n_queries} queries; expected at least {_N_FOLDS}, one per fold"
        )
    rng = np.random.default_rng(seed)
    parts = np.array_split(rng.permutation(data.n_queries), _N_FOLDS)
    rotated_parts = [*parts[fold:], *parts[:fold]]
    # The last of the five parts tests, the one before it validates.
    *train_parts, valid_queries, test_queries = rotated_parts
    train_queries = np.concatenate(train_parts)
    return Splits(
        # Sorted, so that queries keep the order of the data.
        data.subset(np.sort(train_queries)),
        data.subset(np.sort(valid_queries)),
        data.subset(np.sort(test_queries)),
    )


def hold_out(
    train: RankingData, valid: RankingData | None, seed: int
) -> tuple[RankingData, RankingData]:
    """Divide the training and validation queries anew, at random, and return both parts; as many
    queries validate as before, or a fifth if there were no validation queries.

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
        # A query id that both parts have counts as two queries.
        pool = RankingData.concat([train, valid], repeated="separate")
        share = valid.n_queries / pool.n_queries
    train, valid = pool.split([1 - share, share], seed=seed)
    return train, valid


def pooled(data: RankingData | Splits) -> RankingData:
    """Return the training, validation and test queries as one data set.

    Args:
        data: all queries, in one piece or in parts.
    """
    if isinstance(data, RankingData):
        return data
    parts = [part for part in data if part is not None]
    return RankingData.concat(parts, repeated="separate")


def part_sizes(splits: Splits) -> dict[str, int]:
    """Return the numbers of training, validation and test queries, by the name of the part.

    Args:
        splits: the parts; one that is None is left out.
    """
    part_by_name = splits._asdict()
    return {name: part.n_queries for name, part in part_by_name.items() if part is not None}


@lru_cache(maxsize=1000)
def queries_of_trial(
    protocol: Protocol, draw: Draw, n_tested: int, n_queries: int, n_folds: int = 1
) -> I64:
    """Return a number for each test query of a trial, by which results of different trials on the
    same query find each other: in all trials, the same number is the same query.

    Random divisions are repeated on made-up data, where the id of a query is its index.

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
    # The same test queries in every trial: their order is their number.
    if protocol.tests_same_queries:
        return np.arange(n_tested)

    if n_folds == 1 and n_queries:
        # One feature and one document per query: the division looks at neither.
        features = np.zeros((n_queries, 1))
        labels = np.zeros(n_queries)
        one_document_each = np.ones(n_queries, int)
        blank_data = RankingData.from_arrays(features, labels, group=one_document_each)
        tested_queries = protocol.divide(blank_data, draw).test.qids
        if tested_queries.size == n_tested:
            return tested_queries

    # Each fold, or each trial if trials are no folds, has a range of numbers of its own.
    range_number = draw.trial
    if isinstance(protocol, OwnFolds):
        range_number = draw.trial % n_folds
    # The distance is larger than any number of queries, so that ranges do not overlap.
    return (range_number + 1) * _FOLD_DISTANCE + np.arange(n_tested)
