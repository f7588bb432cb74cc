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
# Each further probe of "auto" describes the number of columns that the first one used, divided by
# one of these; the last describes none.
_PROBE_DIVISORS = (2, 4, 8, sys.maxsize)
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
        n_documents, n_features = X.shape
        if isinstance(X, np.ndarray):
            features = np.full((n_documents, n_features + self.width), np.nan, X.dtype)
            features[:, :n_features] = X
            self._describe(np.ascontiguousarray(X), columns, offsets, features, threads)
            return features

        from scipy.sparse import csr_matrix, hstack

        # Of sparse features only the columns that are described are made dense.
        dense_columns = np.ascontiguousarray(X[:, columns].toarray())
        list_features = np.full((n_documents, self.width), np.nan, X.dtype)
        self._describe(dense_columns, np.arange(columns.size), offsets, list_features, threads)
        return hstack([X, csr_matrix(list_features)], format="csr", dtype=X.dtype)

    def _describe(
        self, values: Array, columns: I64, offsets: I64, out: Array, threads: int
    ) -> None:
        """Compute the list features (values relative to the list) of some columns, and write them
        into the last columns of `out`.

        Args:
            values: documents by columns.
            columns: the numbers of the columns to describe.
            offsets: the first document of each list, and the end of the last.
            out: receives the list features.
            threads: number of threads, each of which takes a range of lists.
        """
        from tautrank.ranker._list_features_kernel import describe_lists

        # `width` is the number of columns that are added; `kinds` says which kinds they are of.
        first_column = out.shape[1] - self.width

        def describe_range(first_list: int, end_list: int) -> None:
            describe_lists(
                values, columns, offsets, first_list, end_list, self.kinds, first_column, out
            )

        documents_per_list = np.diff(offsets)
        # Threads get ranges of lists of about equal cost. A value costs about as much as 30 of the
        # pairs that `balanced_ranges` counts in.
        cost_per_list = 30.0 * columns.size * documents_per_list
        run(describe_range, balanced_ranges(cost_per_list, threads), threads)

    def added_to(self, task: Task, threads: int) -> Task:
        """Return a copy of a training task whose training and validation data have the list features
        as further columns.

        Args:
            task: the data, loss and metric of a training.
            threads: number of threads.
        """
        train = self._added_to_data(task.train, threads)
        valid = None
        if task.valid is not None:
            valid = self._added_to_data(task.valid, threads)
        # The task keeps the number of columns that are the data's own, which come first.
        n_features = task.train.n_features
        return dataclasses.replace(task, train=train, valid=valid, own_columns=n_features)

    def _added_to_data(self, data: RankingData, threads: int) -> RankingData:
        """Return a copy of data with the list features as its last columns, and their names if its
        columns have names.
        """
        names = data.feature_names
        if names is not None:
            names = names + self.names(names)
        features = self.transform(data.X, data.offsets, threads)
        return dataclasses.replace(data, X=features, feature_names=names)

    def by_source(self, gains: F64) -> F64:
        """Return gains (or contributions) of all columns of a model as one value per feature of the
        data: its own gain, plus the gains of the list features that are made from it.

        Args:
            gains: one value (or row) per column: the features, then the list features.
        """
        gains = np.asarray(gains, np.float64)
        n_features = len(gains) - self.width
        totals = gains[:n_features]
        gains_of_list_features = gains[n_features:]
        # The columns of each kind stand in the order of the features that they are made from.
        sources = np.tile(self.columns, sum(self.kinds))
        # Unlike ``totals[sources] += ...`` this adds all gains of a source that occurs repeatedly.
        np.add.at(totals, sources, gains_of_list_features)
        return totals


def _checked_columns(columns: Any) -> tuple[Any, ...]:
    """Return the columns that a user named, one or several names or numbers, as a tuple; raise an
    error if they are something else, or none.
    """
    # To Python True is a number, but no number of a column.
    is_one_column = isinstance(columns, str | int | np.integer) and not isinstance(columns, bool)
    if is_one_column:
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
    """Return a training task with the list features that a ranker asks for in its data, and these
    list features with columns by number; the task unchanged and None if there are none.

    Args:
        argument: the parameter `list_features` of the ranker.
        task: the data, loss and metric of the training.
        fit_probe: trains a few trees, to choose columns for ``"auto"``.
        threads: number of threads.
        before: the list features of the model that training continues; None if it has none.
    """
    # `declared` has the kinds (z-score, rank, ...) and columns; columns may be "all" or "auto".
    declared = read_list_features(argument)
    is_automatic = declared is not None and declared.columns == "auto"
    list_features = None if declared is None else _with_column_numbers(declared, task)
    if task.start is not None:
        # A model that is continued keeps the columns that it has.
        if not is_automatic and list_features != before:
            expected = "none" if before is None else repr(before)
            raise OptionError(
                f"list_features: found {argument!r}; expected those of init_model: {expected}"
            )
        list_features = before
    elif is_automatic and list_features is not None:
        list_features = _best_by_validation(list_features, task, fit_probe, threads)

    if list_features is None:
        return task, None
    return list_features.added_to(task, threads), list_features


def _with_column_numbers(declared: ListFeatures, task: Task) -> ListFeatures | None:
    """Return list features with their columns as numbers instead of names, "all" or "auto"; None if
    all columns hold category codes, which are not compared within a list.

    Args:
        declared: the list features as the user declared them.
        task: the training, whose data has the columns.
    """
    if declared.columns in ("all", "auto"):
        columns_of_numbers = []
        for column in range(task.train.n_features):
            if column not in task.categorical:
                columns_of_numbers.append(column)
        if not columns_of_numbers:
            return None
        return dataclasses.replace(declared, columns=tuple(columns_of_numbers))

    columns = column_positions("list_features", declared.columns, task.train)
    for column in columns:
        if column in task.categorical:
            raise OptionError(
                f"list_features: column {column} holds category codes; expected columns of numbers"
            )
    return dataclasses.replace(declared, columns=columns)


def _best_by_validation(
    list_features: ListFeatures, task: Task, fit_probe: FitProbe, threads: int
) -> ListFeatures | None:
    """Return the list features with the columns that give the best score on the validation data, by
    a short training (probe) of each choice; None if it is best to have no list features.

    The first probe describes all columns. The others describe the half, quarter, ... of the columns
    in use whose list features had the most gain in it, the last probe none.

    Args:
        list_features: the list features of all columns.
        task: the data, loss and metric of the training.
        fit_probe: trains a probe.
        threads: number of threads.
    """
    if task.valid is None:
        raise OptionError(
            "list_features: found 'auto' without validation data; expected an eval_set to choose by"
        )
    # A record has the scores of a training; the gain of a column is what its splits improved.
    model, record = fit_probe(list_features.added_to(task, threads))
    columns_by_gain = _columns_by_gain(list_features, model)
    numbers_of_columns = [columns_by_gain.size // divisor for divisor in _PROBE_DIVISORS]

    best: ListFeatures | None = list_features
    best_score = record.best_score
    # Two shares of few columns may be the same number of them: each is tried once.
    for n_columns in dict.fromkeys(numbers_of_columns):
        candidate = None
        probe_task = task
        if n_columns:
            columns = np.sort(columns_by_gain[:n_columns]).tolist()
            candidate = dataclasses.replace(list_features, columns=tuple(columns))
            probe_task = candidate.added_to(task, threads)
        _model, record = fit_probe(probe_task)
        # Of equal scores the later one wins, which has fewer columns. The sign is -1 for costs.
        if _is_no_worse(record.best_score, best_score, task.metric.sign):
            best, best_score = candidate, record.best_score
    return best


def _columns_by_gain(list_features: ListFeatures, model: FittedModel) -> I64:
    """Return the numbers of the columns whose list features a model splits by, those with the most
    gain first.
    """
    columns = np.array(list_features.columns, np.int64)
    gains = model.importances()
    # The list features are the last columns of the model: a block of columns for each kind.
    gains_of_list_features = gains[-list_features.width :]
    gains_by_kind = gains_of_list_features.reshape(-1, columns.size)
    gain_per_column = gains_by_kind.sum(axis=0)

    # Columns without gain are not split by: sorted by gain, they come last and are cut off.
    n_used = np.count_nonzero(gain_per_column)
    order = np.argsort(-gain_per_column, kind="stable")
    return columns[order[:n_used]]


def _is_no_worse(score: float | None, best_score: float | None, sign: int) -> bool:
    """Whether a validation score is at least as good as the best so far, or either is unknown.

    Args:
        score: the score.
        best_score: the best score so far.
        sign: 1 if greater scores are better, -1 if the metric is a cost.
    """
    if score is None or best_score is None:
        return True
    return sign * score >= sign * best_score
