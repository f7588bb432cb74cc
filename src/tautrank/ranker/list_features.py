"""List features: columns that describe a document relative to the other documents of its list.

Let ``x_1, ..., x_n`` be the values of a column in one list, without missing ones. A document gets

    z score      (x_i - mean(x)) / sd(x), where sd divides by n
    rank         (number of values below x_i - number of values above x_i) / (n - 1)
    difference   x_i - max(x)

All are 0 if the values of the list are equal or there is only one, and missing where the value is.
The rank is the average rank of equal values, scaled from -1 (the lowest value of the list) to 1
(the highest). Sums run over the sorted values, so that the same bits come out for any order of
queries and documents and any number of threads.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tautrank.arguments import truth
from tautrank.arrays import F64, I64, Array
from tautrank.data import RankingData
from tautrank.engines import FittedModel, Record, Task
from tautrank.errors import OptionError
from tautrank.kernels.threads import balanced_ranges, run
from tautrank.ranker.columns import column_positions

_EXPECTED = "True, 'auto', or names or numbers of columns"
_KINDS = {"z_score": "z in list", "rank": "rank in list", "difference": "difference in list"}
# What the probes of "auto" divide the number of columns by that the first of them used; the last
# takes none.
_PROBE_SHARES = (2, 4, 8, sys.maxsize)
PROBE_TREES = 100
"""Trees of a probe of "auto", at most."""

FitProbe: TypeAlias = Callable[[Task], tuple[FittedModel, Record]]
"""Trains a few trees, for a look at what list features are worth."""


@dataclass(frozen=True)
class ListFeatures:
    """Which columns are also described relative to the list, and how:
    `Ranker(list_features=ListFeatures(...))`.

    With ``n`` values ``x`` of a column in one list, missing ones left out, ``z_score`` is
    ``(x_i - mean(x)) / sd(x)``, ``rank`` is ``(values below x_i - values above x_i) / (n - 1)``,
    from -1 to 1, and ``difference`` is ``x_i - max(x)``. All are 0 in a list of equal values, and
    missing where the value is missing.

    Args:
        columns: ``"all"`` (but those of category codes), ``"auto"`` to choose on the validation
            data, or the names or numbers of columns.
        z_score: whether to add z-scores.
        rank: whether to add relative ranks.
        difference: whether to add differences to the largest value.

    >>> ListFeatures(["bm25"], difference=True)
    ListFeatures(columns=('bm25',), z_score=True, rank=True, difference=True)
    >>> ListFeatures([0], rank=False).names()
    ('column 0 (z in list)',)
    """

    columns: Any = "all"
    z_score: bool = True
    rank: bool = True
    difference: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.columns, str) and self.columns in ("all", "auto")):
            object.__setattr__(self, "columns", _checked_columns(self.columns))
        for name in _KINDS:
            truth(f"list_features: {name}", getattr(self, name))
        if not any(self.kinds):
            raise OptionError(
                "list_features: found nothing to add; "
                f"expected {', '.join(_KINDS)}, or some of them"
            )

    @property
    def kinds(self) -> tuple[bool, bool, bool]:
        """Whether z-scores, ranks and differences are added, in the order of their blocks of
        columns.
        """
        return self.z_score, self.rank, self.difference

    @property
    def width(self) -> int:
        """Number of columns that are added, once the columns are known by number."""
        return sum(self.kinds) * len(self.columns)

    def names(self, features: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the names of the columns that are added, such as ``bm25 (z in list)``.

        Args:
            features: the names of all features of the data, if they have names.
        """
        if features is None:
            sources = [f"column {column}" for column in self.columns]
        else:
            sources = [features[column] for column in self.columns]
        kinds = [text for name, text in _KINDS.items() if getattr(self, name)]
        return tuple(f"{source} ({kind})" for kind in kinds for source in sources)

    def transform(self, X: Any, offsets: I64, threads: int = 1) -> Any:
        """Return the features with the list features behind them, one block of columns for each
        kind.

        Args:
            X: features, dense or CSR; the result is of the same kind and type.
            offsets: start of each query.
            threads: number of threads; the result does not depend on it.

        >>> X = np.array([[1], [3], [2], [5]], np.float32)
        >>> ListFeatures([0]).transform(X, np.array([0, 3, 4])).tolist()[1:]
        [[3.0, 1.2247449159622192, 1.0], [2.0, 0.0, 0.0], [5.0, 0.0, 0.0]]
        """
        columns = np.array(self.columns, np.int64)
        if isinstance(X, np.ndarray):
            n_features = X.shape[1]
            described = np.full((X.shape[0], n_features + self.width), np.nan, X.dtype)
            described[:, :n_features] = X
            self._describe(np.ascontiguousarray(X), columns, offsets, described, threads)
            return described

        from scipy.sparse import csr_matrix, hstack

        values = np.ascontiguousarray(X[:, columns].toarray())
        added = np.full((X.shape[0], self.width), np.nan, X.dtype)
        self._describe(values, np.arange(columns.size), offsets, added, threads)
        return hstack([X, csr_matrix(added)], format="csr", dtype=X.dtype)

    def _describe(
        self, values: Array, columns: I64, offsets: I64, out: Array, threads: int
    ) -> None:
        """Write the list features of some columns into the last columns of an array."""
        from tautrank.ranker._list_features_kernel import describe_lists

        start = out.shape[1] - self.width

        def describe(first: int, last: int) -> None:
            describe_lists(values, columns, offsets, first, last, self.kinds, start, out)

        # A value costs about as much as 30 of the pairs that `balanced_ranges` counts in.
        costs = 30.0 * columns.size * np.diff(offsets)
        run(describe, balanced_ranges(costs, threads), threads)

    def added_to(self, task: Task, threads: int) -> Task:
        """Return the task with the list features added to its training and validation data.

        Args:
            task: what to learn.
            threads: number of threads.
        """

        return dataclasses.replace(
            task,
            train=self._added_to_data(task.train, threads),
            valid=None if task.valid is None else self._added_to_data(task.valid, threads),
            own_columns=task.train.n_features,
        )

    def _added_to_data(self, data: RankingData, threads: int) -> RankingData:
        """Return data with the list features as its last columns."""
        names = data.feature_names
        if names is not None:
            names += self.names(names)
        features = self.transform(data.X, data.offsets, threads)
        return dataclasses.replace(data, X=features, feature_names=names)

    def by_source(self, gains: F64) -> F64:
        """Return one value per feature of the data: its own, plus those of the columns made from
        it.

        Args:
            gains: one value per column of the transformed features.
        """
        n_features = len(gains) - self.width
        totals, gains_of_added = np.split(np.asarray(gains, np.float64), [n_features])
        sources = np.tile(self.columns, sum(self.kinds))
        np.add.at(totals, sources, gains_of_added)
        return totals


def _checked_columns(columns: Any) -> tuple[Any, ...]:
    """Return names or numbers of columns, one or several, as a tuple."""
    if isinstance(columns, str | int | np.integer) and not isinstance(columns, bool):
        return (columns,)
    if isinstance(columns, dict) or not np.iterable(columns):
        raise OptionError(f"list_features: found {columns!r}; expected {_EXPECTED}")
    listed = tuple(columns)
    if not listed:
        raise OptionError(f"list_features: found no column; expected {_EXPECTED}")
    return listed


def read_list_features(argument: Any) -> ListFeatures | None:
    """Return what the parameter `list_features` of a ranker stands for; None for no list features.

    Args:
        argument: True or False (or None), ``"auto"``, names or numbers of columns, or
            `ListFeatures`.

    >>> read_list_features("auto")
    ListFeatures(columns='auto', z_score=True, rank=True, difference=False)
    """
    if argument is None or argument is False:
        return None
    if isinstance(argument, ListFeatures):
        return argument
    return ListFeatures() if argument is True else ListFeatures(argument)


def with_list_features(
    argument: Any, task: Task, fit_probe: FitProbe, threads: int, before: ListFeatures | None
) -> tuple[Task, ListFeatures | None]:
    """Return the task with list features, and which they are, with columns by number; None if there
    are none.

    Args:
        argument: the parameter of the ranker.
        task: what to learn.
        fit_probe: trains a short probe, for ``"auto"``.
        threads: number of threads.
        before: the list features of the model that training continues, if it does.
    """
    declared = read_list_features(argument)
    is_automatic = declared is not None and declared.columns == "auto"
    list_features = None if declared is None else _with_numbers(declared, task)
    if task.start is not None:
        # A model that is continued keeps the columns that it has.
        if not is_automatic and list_features != before:
            of_start = "none" if before is None else repr(before)
            raise OptionError(
                f"list_features: found {argument!r}; expected those of init_model: {of_start}"
            )
        list_features = before
    elif is_automatic and list_features is not None:
        list_features = _best_columns(list_features, task, fit_probe, threads)

    if list_features is None:
        return task, None
    return list_features.added_to(task, threads), list_features


def _with_numbers(declared: ListFeatures, task: Task) -> ListFeatures | None:
    """Return list features with the numbers of their columns; None if there is no such column."""
    if declared.columns in ("all", "auto"):
        features = range(task.train.n_features)
        columns = tuple(column for column in features if column not in task.categorical)
        return dataclasses.replace(declared, columns=columns) if columns else None

    columns = column_positions("list_features", declared.columns, task.train)
    for column in columns:
        if column in task.categorical:
            raise OptionError(
                f"list_features: column {column} holds category codes; expected columns of numbers"
            )
    return dataclasses.replace(declared, columns=columns)


def _best_columns(
    list_features: ListFeatures, task: Task, fit_probe: FitProbe, threads: int
) -> ListFeatures | None:
    """Return the columns that validate best: all, or the half, quarter, ... of those in use with
    the most gain; None if none are best.
    """
    if task.valid is None:
        raise OptionError(
            "list_features: found 'auto' without validation data; expected an eval_set to choose by"
        )
    model, record = fit_probe(list_features.added_to(task, threads))
    useful = _columns_by_gain(list_features, model)

    best: ListFeatures | None = list_features
    best_score = record.best_score
    # Two shares of few columns may be the same number of them.
    for n_columns in dict.fromkeys(useful.size // share for share in _PROBE_SHARES):
        candidate = None
        probe_task = task
        if n_columns:
            columns = tuple(np.sort(useful[:n_columns]).tolist())
            candidate = dataclasses.replace(list_features, columns=columns)
            probe_task = candidate.added_to(task, threads)
        _, record = fit_probe(probe_task)
        if _is_no_worse(record.best_score, best_score, task.metric.sign):
            best, best_score = candidate, record.best_score
    return best


def _columns_by_gain(list_features: ListFeatures, model: FittedModel) -> I64:
    """Return the columns whose list features a model uses, those with the most gain first."""
    n_columns = len(list_features.columns)
    gains_by_kind = model.importances()[-list_features.width :].reshape(-1, n_columns)
    gains = gains_by_kind.sum(axis=0)
    n_useful = np.count_nonzero(gains)
    order = np.argsort(-gains, kind="stable")[:n_useful]
    return np.array(list_features.columns, np.int64)[order]


def _is_no_worse(score: float | None, best_score: float | None, sign: int) -> bool:
    """Whether a score of fewer columns is as good as the best one; `sign` is that of the metric."""
    if score is None or best_score is None:
        return True
    return sign * score >= sign * best_score
