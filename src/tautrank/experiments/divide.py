"""Which queries a trial trains, validates and tests on, and what a condition changes in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from tautrank.arguments import check_fields, checked_by, choice
from tautrank.arrays import I64
from tautrank.data import RankingData, Splits
from tautrank.errors import DataError, OptionError
from tautrank.json_values import declare
from tautrank.simulate import add_negatives, binarise, perturb_labels, simulate_clicks

PARTS = ("train", "valid", "test")
HELD_OUT = 0.2
"""The share of the training queries that validates if the data has no validation part."""

_FOLDS = 5  # of data that has none


@dataclass(frozen=True)
class Resampling:
    """Every trial divides all queries at random.

    Args:
        train, valid, test: the shares of the queries.

    >>> Resampling(train=0.8)
    Traceback (most recent call last):
    tautrank.errors.OptionError: train, valid, test: found (0.8, 0.2, 0.2); expected shares above 0 that sum to 1
    """

    train: float = 0.6
    valid: float = 0.2
    test: float = 0.2

    def __post_init__(self) -> None:
        shares = (self.train, self.valid, self.test)
        if not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
            raise OptionError(
                f"train, valid, test: found {shares}; expected shares above 0 that sum to 1"
            )


@dataclass(frozen=True)
class OwnFolds:
    """A trial is a fold of the data set; after the last fold comes the first again, with another
    seed.

    Data without folds is divided into five: three for training, one for validation, one for test.
    """


@dataclass(frozen=True)
class FixedParts:
    """All trials train, validate and test on the same queries, so that only random seeds differ.

    Seeds change nothing if neither the loss nor the trees draw random numbers; `redivide` then
    gives trials something to vary.

    Args:
        fold: the fold (or set) of the data set; data in one piece is divided 60/20/20 once.
        redivide: whether each trial after the first divides the training and validation queries
            again.
    """

    fold: int = 1
    redivide: bool = False


@dataclass(frozen=True)
class OnItself:
    """Trained, validated and tested on the same queries, all there are: can the loss be optimised
    at all?
    """


@dataclass(frozen=True)
class GivenSplits:
    """Every trial trains and tests on every split (or fold) of the data, so that each test query
    counts once per trial.

    Args:
        vary: what differs between trials: ``"splits"`` divides training and validation queries
            again in each trial after the first, ``"seeds"`` changes only the random seed.
    """

    vary: str = field(default="splits", metadata=checked_by(choice, known=("splits", "seeds")))

    def __post_init__(self) -> None:
        check_fields(self)


Protocol: TypeAlias = Resampling | OwnFolds | FixedParts | OnItself | GivenSplits


CHANGES: dict[str, Callable[..., RankingData]] = {
    "add-negatives": add_negatives,
    "perturb-labels": perturb_labels,
    "clicks": simulate_clicks,
    # Binary labels need no seed; it is accepted so that all changes are called alike.
    "binarise": lambda data, seed=0, **parameters: binarise(data, **parameters),
}
"""Every change by name: a function of (data, parameters, seed)."""


@dataclass(frozen=True)
class Change:
    """A change to the data before training.

    Args:
        kind: ``"add-negatives"`` (share), ``"perturb-labels"`` (probability), ``"clicks"``
            (impressions, probabilities) or ``"binarise"`` (threshold): see `tautrank.simulate` for
            what each does.
        parameters: the parameters of that function, without the seed, which comes from the trial.
        parts: the parts that are changed: some of ``"train"``, ``"valid"`` and ``"test"``.

    >>> Change("perturb-label", {"probability": 0.1})
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown change 'perturb-label'; did you mean 'perturb-labels'? (known: ...)
    """

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ("train",)

    def __post_init__(self) -> None:
        choice("change", self.kind, CHANGES)
        if not self.parts or not set(self.parts) <= set(PARTS):
            raise OptionError(
                f"parts: found {list(self.parts)}; expected some of train, valid and test"
            )


declare(__name__)


def folds_of(protocol: Protocol, trial: int, folds: list[int]) -> list[int]:
    """The folds of the data that a trial reads.

    Args:
        protocol: how queries are divided.
        trial: its number, from 0.
        folds: the folds of the data.

    >>> [folds_of(OwnFolds(), trial, [1, 2]) for trial in range(3)], folds_of(GivenSplits(), 0, [1, 2])
    ([[1], [2], [1]], [1, 2])
    """
    if isinstance(protocol, GivenSplits):
        return folds
    if isinstance(protocol, OwnFolds):
        return [folds[trial % len(folds)]]
    return [protocol.fold if isinstance(protocol, FixedParts) and len(folds) > 1 else folds[0]]


def divide(
    data: RankingData | Splits,
    protocol: Protocol,
    trial: int,
    seed: int,
    trial_seed: int,
    fold: int = 1,
) -> Splits:
    """Return the three parts of a trial; every system and every condition of the trial gets the
    same.

    Args:
        data: in one piece, or in parts (those of the trial's fold).
        protocol: how to divide it.
        trial: its number, from 0.
        seed: the seed of the experiment, for what all trials share.
        trial_seed: the seed of the trial.
        fold: the number of the fold, from 1.

    >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
    >>> [part.n_queries for part in divide(data, Resampling(), 0, 0, 7)]
    [6, 2, 2]
    >>> [part.n_queries for part in divide(data, OwnFolds(), 4, 0, 7)]
    [6, 2, 2]
    """
    if takes_all_queries(protocol):
        pool = pooled(data)
        if not isinstance(protocol, Resampling):
            return Splits(pool, pool, pool)
        return Splits(*pool.split([protocol.train, protocol.valid, protocol.test], seed=trial_seed))
    if isinstance(data, RankingData) and isinstance(protocol, OwnFolds):
        return _rotate(data, trial % _FOLDS, seed)
    splits = data if isinstance(data, Splits) else Splits(*data.split([0.6, 0.2, 0.2], seed=seed))
    train, valid = splits.train, splits.valid
    # The first trial keeps the parts as they are given.
    if isinstance(protocol, GivenSplits):
        again = trial if protocol.vary == "splits" else 0
        if valid is None or again:
            train, valid = hold_out(train, valid, seed + 7919 * again + 104729 * (fold - 1))
    elif valid is None:
        train, valid = hold_out(train, valid, seed)
    if isinstance(protocol, FixedParts) and protocol.redivide and trial:
        train, valid = hold_out(train, valid, trial_seed)
    return Splits(train, valid, splits.test)


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
    pool = train if valid is None else RankingData.concat([train, valid], repeated="separate")
    share = HELD_OUT if valid is None else valid.n_queries / pool.n_queries
    train, valid = pool.split([1 - share, share], seed=seed)
    return train, valid


def takes_all_queries(protocol: Protocol) -> bool:
    """Whether the data's own split is ignored.

    Args:
        protocol: how queries are divided.

    >>> takes_all_queries(Resampling()), takes_all_queries(OwnFolds())
    (True, False)
    """
    return isinstance(protocol, Resampling | OnItself)


def pooled(data: RankingData | Splits) -> RankingData:
    """Return all queries in one piece.

    Args:
        data: in one piece, or in parts.
    """
    if isinstance(data, RankingData):
        return data
    return RankingData.concat([part for part in data if part is not None], repeated="separate")


def tests_same_queries(protocol: Protocol) -> bool:
    """Whether all trials test on the same queries.

    Args:
        protocol: how queries are divided.

    >>> tests_same_queries(OnItself()), tests_same_queries(Resampling())
    (True, False)
    """
    return isinstance(protocol, FixedParts | OnItself | GivenSplits)


def vary_of(protocol: Protocol) -> str:
    """What differs between the repeats of a comparison; empty for a protocol of a study.

    Args:
        protocol: how queries are divided.

    >>> vary_of(GivenSplits("seeds")), vary_of(Resampling())
    ('seeds', '')
    """
    return protocol.vary if isinstance(protocol, GivenSplits) else ""


def part_sizes(splits: Splits) -> dict[str, int]:
    """Return the number of queries of each part, by its name.

    Args:
        splits: the parts; one that is None is left out.
    """
    return {name: part.n_queries for name, part in splits._asdict().items() if part is not None}


def overlap_of(protocol: Protocol, queries: dict[str, int]) -> float:
    """Nadeau and Bengio's held out over not held out; 0 if all trials train on the same queries.

    Args:
        protocol: how queries are divided.
        queries: the number of training, validation and test queries of a trial.

    >>> overlap_of(Resampling(), {"train": 60, "valid": 20, "test": 20})
    0.25
    """
    if isinstance(protocol, Resampling | OwnFolds):
        return queries["test"] / (queries["train"] + queries.get("valid", 0))
    if (isinstance(protocol, FixedParts) and protocol.redivide) or protocol == GivenSplits(
        "splits"
    ):
        return (
            queries["valid"] / queries["train"] if "valid" in queries else HELD_OUT / (1 - HELD_OUT)
        )
    return 0.0


@lru_cache(maxsize=1000)
def queries_of_trial(
    protocol: Protocol,
    n_queries: int,
    size: int,
    trial: int,
    seed: int,
    trial_seed: int,
    folds: int = 1,
) -> I64:
    """Return a number for each test query of a trial: in all trials, the same number is the same
    query.

    Args:
        protocol: how queries are divided.
        n_queries: the number of queries of the data.
        size: the number of test queries of the trial. If the protocol gives another number (a
            change of the data added or dropped queries), the trial's queries count as queries of
            its own.
        trial, seed, trial_seed: as those of `divide`.
        folds: the number of folds of the data.

    >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
    >>> divide(data, Resampling(), 3, 0, 7).test.qids, queries_of_trial(Resampling(), 10, 2, 3, 0, 7)
    (array([5, 9]), array([5, 9]))
    """
    if not isinstance(protocol, Resampling | OwnFolds):
        return np.arange(size)
    if folds == 1 and n_queries:
        blank = RankingData.from_arrays(
            np.zeros((n_queries, 1)), np.zeros(n_queries), group=np.ones(n_queries, int)
        )
        tested = divide(blank, protocol, trial, seed, trial_seed).test.qids
        if tested.size == size:
            return tested
    part = trial % folds if isinstance(protocol, OwnFolds) else trial
    return (part + 1) * 2**32 + np.arange(size)


def _rotate(data: RankingData, fold: int, seed: int) -> Splits:
    """Five parts, rotated by one from fold to fold: three to train, one to validate, one to test,
    as LETOR does.
    """
    if data.n_queries < _FOLDS:
        raise DataError(
            f"data: found {data.n_queries} queries; expected at least {_FOLDS}, one per fold"
        )
    parts = np.array_split(np.random.default_rng(seed).permutation(data.n_queries), _FOLDS)
    *train, valid, test = [*parts[fold:], *parts[:fold]]
    return Splits(
        *(data.subset(np.sort(queries)) for queries in (np.concatenate(train), valid, test))
    )


def changed(splits: Splits, changes: tuple[Change, ...], seed: int) -> Splits:
    """Apply changes one after the other; each part has its own random numbers, the same for every
    condition.

    Args:
        splits: the three parts; they are not modified.
        changes: the changes, in order.
        seed: the seed of the trial; with the same seed, more noise includes what less noise did.

    >>> data = RankingData.from_arrays([[0.0]] * 4, [0, 1, 2, 4], group=[4])
    >>> changed(Splits(data, data, data), (Change("binarise", parts=("train", "test")),), seed=0).train.labels.tolist()
    [0.0, 1.0, 1.0, 1.0]
    """
    for step, change in enumerate(changes):
        for place, (name, data) in enumerate(splits._asdict().items()):
            if name in change.parts and data is not None:
                own = int(np.random.SeedSequence([seed, step, place]).generate_state(1)[0])
                splits = splits._replace(
                    **{name: CHANGES[change.kind](data, **change.parameters, seed=own)}
                )
    return splits
