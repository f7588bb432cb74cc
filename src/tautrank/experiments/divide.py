"""Which queries a trial trains, validates and tests on."""

from __future__ import annotations

import numpy as np

from tautrank.data import RankingData, Splits
from tautrank.errors import DataError
from tautrank.experiments.fit_best import hold_out
from tautrank.papers.study import FixedParts, OnItself, OwnFolds, Protocol, Resampling

_PARTS = 5


def fold_of(protocol: Protocol, trial: int, folds: list[int]) -> int:
    """The fold of the data that a trial reads.

    Args:
        protocol: of the study.
        trial: its number, from 0.
        folds: those the data has.

    >>> [fold_of(OwnFolds(), trial, [1, 2, 3]) for trial in range(4)]
    [1, 2, 3, 1]
    """
    if isinstance(protocol, OwnFolds):
        return folds[trial % len(folds)]
    return protocol.fold if isinstance(protocol, FixedParts) and len(folds) > 1 else folds[0]


def divide(data: RankingData | Splits, protocol: Protocol, trial: int, seed: int, trial_seed: int) -> Splits:
    """The three parts of a trial; every system and every condition of the trial gets the same.

    Args:
        data: in one piece, or in parts as published (those of the trial's fold).
        protocol: how to divide it.
        trial: its number, from 0.
        seed: of the study, for what all trials share.
        trial_seed: of the trial.

    >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
    >>> [part.n_queries for part in divide(data, Resampling(), 0, 0, 7)]
    [6, 2, 2]
    >>> [part.n_queries for part in divide(data, OwnFolds(), 4, 0, 7)]
    [6, 2, 2]
    """
    if takes_all_queries(protocol):
        pool = together(data)
        if not isinstance(protocol, Resampling):
            return Splits(pool, pool, pool)
        return Splits(*pool.split([protocol.train, protocol.valid, protocol.test], seed=trial_seed))
    if isinstance(data, RankingData) and isinstance(protocol, OwnFolds):
        return _turned(data, trial % _PARTS, seed)
    splits = data if isinstance(data, Splits) else Splits(*data.split([0.6, 0.2, 0.2], seed=seed))
    train, valid = splits.train, splits.valid
    if valid is None:
        train, valid = hold_out(train, valid, seed)
    # The first trial keeps the parts as they were published.
    if isinstance(protocol, FixedParts) and protocol.redivide and trial:
        train, valid = hold_out(train, valid, trial_seed)
    return Splits(train, valid, splits.test)


def takes_all_queries(protocol: Protocol) -> bool:
    """Whether the division that data comes with is of no account.

    Args:
        protocol: of the study.

    >>> takes_all_queries(Resampling()), takes_all_queries(OwnFolds())
    (True, False)
    """
    return isinstance(protocol, Resampling | OnItself)


def together(data: RankingData | Splits) -> RankingData:
    """All queries in one piece.

    Args:
        data: in one piece, or in parts.
    """
    if isinstance(data, RankingData):
        return data
    return RankingData.concat([part for part in data if part is not None], repeated="separate")


def _turned(data: RankingData, fold: int, seed: int) -> Splits:
    """Five parts, turned by one from fold to fold: three to train, one to validate, one to test, as LETOR does."""
    if data.n_queries < _PARTS:
        raise DataError(f"data: found {data.n_queries} queries; expected at least {_PARTS}, one a fold")
    parts = np.array_split(np.random.default_rng(seed).permutation(data.n_queries), _PARTS)
    turned = [parts[(fold + i) % _PARTS] for i in range(_PARTS)]
    chosen = (np.concatenate(turned[:3]), turned[3], turned[4])
    return Splits(*(data.subset(np.sort(queries)) for queries in chosen))
