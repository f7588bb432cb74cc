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
from tautrank.arrays import F64, I64
from tautrank.engines import FittedModel, Record, Task
from tautrank.errors import OptionError
from tautrank.kernels.threads import balanced_ranges, run
from tautrank.ranker import inputs

_EXPECTED = "True, 'auto', or names or numbers of columns"
_KINDS = {"z_score": "z in list", "rank": "rank in list", "difference": "difference in list"}
# What the probes of "auto" divide the number of columns by that the first of them used; the last
# takes none.
_PROBE_SHARES = (2, 4, 8, sys.maxsize)
PROBE_TREES = 100
"""Trees of a probe of "auto", at most."""

Training: TypeAlias = Callable[[Task], tuple[FittedModel, Record]]


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
            one = isinstance(self.columns, (str, int, np.integer)) and not isinstance(
                self.columns, bool
            )
            if not one and (isinstance(self.columns, dict) or not np.iterable(self.columns)):
                raise OptionError(f"list_features: found {self.columns!r}; expected {_EXPECTED}")
            object.__setattr__(self, "columns", (self.columns,) if one else tuple(self.columns))
            if not self.columns:
                raise OptionError(f"list_features: found no column; expected {_EXPECTED}")
        for name in _KINDS:
            truth(f"list_features: {name}", getattr(self, name))
        if not any(self.kinds):
            raise OptionError(
                f"list_features: found nothing to add; expected {', '.join(_KINDS)}, or some of them"
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
        sources = [
            features[column] if features is not None else f"column {column}"
            for column in self.columns
        ]
        added = [text for name, text in _KINDS.items() if getattr(self, name)]
        return tuple(f"{source} ({text})" for text in added for source in sources)

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
        from tautrank.ranker._list_features_kernel import describe_lists

        columns, dense = np.array(self.columns, np.int64), isinstance(X, np.ndarray)
        values = np.ascontiguousarray(X if dense else X[:, columns].toarray())
        numbers = columns if dense else np.arange(columns.size)
        start = X.shape[1] if dense else 0
        out = np.full((X.shape[0], start + self.width), np.nan, X.dtype)
        out[:, :start] = values[:, :start]

        def task(first: int, last: int) -> None:
            describe_lists(values, numbers, offsets, first, last, self.kinds, start, out)

        # A value costs about as much as 30 of the pairs that `balanced_ranges` counts in.
        run(task, balanced_ranges(30.0 * columns.size * np.diff(offsets), threads), threads)
        if dense:
            return out
        from scipy.sparse import csr_matrix, hstack

        return hstack([X, csr_matrix(out)], format="csr", dtype=X.dtype)

    def added_to(self, task: Task, threads: int) -> Task:
        """Return the task with the list features added to its training and validation data.

        Args:
            task: what to learn.
            threads: number of threads.
        """

        def described(data: Any) -> Any:
            names = data.feature_names
            X = self.transform(data.X, data.offsets, threads)
            return dataclasses.replace(
                data, X=X, feature_names=None if names is None else names + self.names(names)
            )

        valid = None if task.valid is None else described(task.valid)
        own_columns = task.train.n_features
        return dataclasses.replace(
            task, train=described(task.train), valid=valid, own_columns=own_columns
        )

    def by_source(self, gains: F64) -> F64:
        """Return one value per feature of the data: its own, plus those of the columns made from
        it.

        Args:
            gains: one value per column of the transformed features.
        """
        own, added = np.split(np.asarray(gains, np.float64), [len(gains) - self.width])
        np.add.at(own, np.tile(self.columns, sum(self.kinds)), added)
        return own


def read_list_features(given: Any) -> ListFeatures | None:
    """Return what the parameter `list_features` of a ranker stands for; None for no list features.

    Args:
        given: True or False (or None), ``"auto"``, names or numbers of columns, or `ListFeatures`.

    >>> read_list_features("auto")
    ListFeatures(columns='auto', z_score=True, rank=True, difference=False)
    """
    if given is None or given is False:
        return None
    if isinstance(given, ListFeatures):
        return given
    return ListFeatures() if given is True else ListFeatures(given)


def with_list_features(
    given: Any, task: Task, fit: Training, threads: int, before: ListFeatures | None
) -> tuple[Task, ListFeatures | None]:
    """Return the task with list features, and which they are, with columns by number; None if there
    are none.

    Args:
        given: the parameter of the ranker.
        task: what to learn.
        fit: trains a short probe, for ``"auto"``.
        threads: number of threads.
        before: the list features of the model that training continues, if it does.
    """
    asked = read_list_features(given)
    lists = None if asked is None else _with_numbers(asked, task)
    automatic = asked is not None and asked.columns == "auto"
    if task.start is not None:
        if not automatic and lists != before:
            known = "none" if before is None else repr(before)
            raise OptionError(
                f"list_features: found {given!r}; expected those of init_model: {known}"
            )
        lists = before
    elif automatic and lists is not None:
        lists = _chosen(lists, task, fit, threads)
    return (task if lists is None else lists.added_to(task, threads)), lists


def _with_numbers(asked: ListFeatures, task: Task) -> ListFeatures | None:
    if asked.columns in ("all", "auto"):
        columns = tuple(
            column for column in range(task.train.n_features) if column not in task.categorical
        )
        return dataclasses.replace(asked, columns=columns) if columns else None
    columns = inputs.column_positions("list_features", asked.columns, task.train)
    for column in columns:
        if column in task.categorical:
            raise OptionError(
                f"list_features: column {column} holds category codes; expected columns of numbers"
            )
    return dataclasses.replace(asked, columns=columns)


def _chosen(lists: ListFeatures, task: Task, fit: Training, threads: int) -> ListFeatures | None:
    """Return the columns that validate best: all, or the half, quarter, ... of those in use with
    the most gain.
    """
    if task.valid is None:
        raise OptionError(
            "list_features: found 'auto' without validation data; expected an eval_set to choose by"
        )
    sign = task.metric.sign
    model, record = fit(lists.added_to(task, threads))
    gains = model.importances()[-lists.width :].reshape(-1, len(lists.columns)).sum(axis=0)
    order = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains)]
    best: ListFeatures | None = lists
    best_score = record.best_score
    for count in dict.fromkeys(order.size // share for share in _PROBE_SHARES):
        columns = tuple(np.sort(np.array(lists.columns)[order[:count]]).tolist())
        some = dataclasses.replace(lists, columns=columns) if columns else None
        score = fit(task if some is None else some.added_to(task, threads))[1].best_score
        # Of equal values, fewer columns are better.
        if best_score is None or score is None or sign * score >= sign * best_score:
            best, best_score = some, score
    return best
