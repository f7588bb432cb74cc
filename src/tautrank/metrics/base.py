"""The base of all metrics: options, text form, registry, per-query values and their mean; several
metrics at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank import arrays
from tautrank.arguments import check_fields, checked_by, choice, one_or_more, whole
from tautrank.arrays import F64, I64, Array, Bools, Floats, Numbers
from tautrank.data.lists import Lists
from tautrank.data.ranking_data import RankingData
from tautrank.errors import DataError, OptionError
from tautrank.files import PathLike, csv_text, write_whole
from tautrank.json_values import or_none
from tautrank.metrics.ordering import TIES
from tautrank.metrics.other_tools import preset, respelled
from tautrank.names import Registry, changed_options, write_name
from tautrank.notebooks import pandas
from tautrank.tables import Cell, Column, Table

EMPTY = {"skip": math.nan, "zero": 0.0, "one": 1.0}
"""Value of a query without a relevant document."""

Scorer: TypeAlias = Callable[[Floats], F64]
"""From checked scores to one value per query."""


def check_k(k: object) -> int | None:
    """Return the cut-off as an int, or None for the full list.

    >>> check_k(0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: k: found 0; expected a whole number of at least 1, or None
    for the full list
    """
    return None if k is None else whole("k", k, 1, otherwise="None for the full list")


@dataclass(frozen=True, repr=False)
class Metric(ABC):
    """A number for each query, from its scores and labels.

    A metric is an immutable set of options. It compares and hashes by value and prints as you would
    type it. Subclasses are listed in ``METRICS``; ``metric("ndcg@10")`` is the usual way to get
    one.

    Args:
        k: number of ranks that count; None for the full list.
        ties: how equal scores are ranked: ``"worst"`` (lower label first), ``"best"`` (higher label
            first), ``"input"`` (input order), or ``"expected"`` (the exact mean over every order of
            the tied documents).
        empty: value of a query without a relevant document: ``"skip"`` (NaN, left out of the mean),
            ``"zero"`` or ``"one"``.

    >>> metric("ndcg@10") == metric("NDCG", k=10)
    True
    >>> metric("ndcg@10").higher_is_better, metric("arp").higher_is_better
    (True, False)
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    has_cutoff: ClassVar[bool] = True
    """Whether ``k`` means something."""
    sees_unjudged: ClassVar[bool] = False
    """Whether documents without a judgment, labelled NaN for ``_scorer``, differ from those
    labelled 0.
    """

    k: int | None = field(default=None, metadata=checked_by(check_k))
    ties: str = field(default="worst", metadata=checked_by(choice, known=TIES))
    empty: str = field(default="skip", metadata=checked_by(choice, known=tuple(EMPTY)))

    def __post_init__(self) -> None:
        check_fields(self)
        if self.k is not None and not self.has_cutoff:
            raise OptionError(f"k: found {self.k}; expected None, {self.name} has no cutoff")

    @property
    def sign(self) -> int:
        """1 if more is better, -1 for a cost: of two values times the sign, the greater one is
        better.
        """
        return 1 if self.higher_is_better else -1

    def bind(
        self,
        labels: ArrayLike | RankingData | Lists,
        offsets: ArrayLike | None = None,
        *,
        qid: Any = None,
        group: Any = None,
        judged: ArrayLike | None = None,
    ) -> BoundMetric:
        """Fix the labels, so that many scorings of the same documents are evaluated cheaply.

        Args:
            labels: one finite number of at least 0 per document; or `RankingData` or `Lists`, which
                have their queries.
            offsets: ``n_queries + 1`` integers, where documents of a query are adjacent: query
                ``q`` owns the documents ``offsets[q]:offsets[q + 1]``; or
            qid: one query id per document. Documents of a query may be scattered: they are
                gathered, with a warning. Values and weights of queries are in order of first
                appearance; or
            group: number of documents of each query, in order. Without any of the three, all
                documents are one query.
            judged: which documents have been judged, one true or false per document; None for all.
                Only ``bpref`` and ``judged`` distinguish documents without a judgment, whatever
                their labels, from those labelled 0.

        >>> bound_metric = metric("ndcg").bind([0, 1])
        >>> bound_metric.mean([1.0, 2.0]), bound_metric.mean([2.0, 1.0])
        (1.0, 0.6309297535714575)
        """
        lists = Lists.of(labels, offsets, qid=qid, group=group, judged=judged)
        grades = lists.labels
        # A few metrics see which documents have no judgment: their label becomes NaN.
        if lists.judged is not None and self.sees_unjudged:
            grades = np.where(lists.judged, grades, np.nan)
        # The scorer is a function from scores to one value per query.
        scorer, has_relevant = self._scorer(grades, lists.offsets)
        return BoundMetric(self, lists, scorer, has_relevant)

    def per_query(
        self,
        scores: ArrayLike,
        labels: ArrayLike | RankingData | Lists,
        offsets: ArrayLike | None = None,
        *,
        qid: Any = None,
        group: Any = None,
        judged: ArrayLike | None = None,
    ) -> F64:
        """Return one value per query; NaN where the query is skipped.

        Args:
            scores: one number per document; ``-inf`` marks a document that was not retrieved.
            labels, offsets, qid, group, judged: see `bind`.

        >>> metric("mrr").per_query([1.0, 2.0, 3.0, 4.0], [1, 0, 0, 0], [0, 2, 4])
        array([0.5, nan])
        >>> metric("mrr").per_query([1.0, 2.0, 3.0, 4.0], [1, 0, 0, 1], qid=["b", "b", "a", "a"])
        array([0.5, 1. ])
        """
        return self.bind(labels, offsets, qid=qid, group=group, judged=judged).per_query(scores)

    def mean(
        self,
        scores: ArrayLike,
        labels: ArrayLike | RankingData | Lists,
        offsets: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        *,
        qid: Any = None,
        group: Any = None,
        judged: ArrayLike | None = None,
    ) -> float:
        """Return the (weighted) mean over the queries that are not skipped; NaN when all are.

        Args:
            scores: one number per document; ``-inf`` marks a document that was not retrieved.
            labels, offsets, qid, group, judged: see `bind`.
            weights: one finite number of at least 0 per query; None for equal weights.

        >>> metric("mrr").mean([1.0, 2.0, 3.0, 4.0], [1, 0, 0, 1], [0, 2, 4], weights=[3, 1])
        0.625
        >>> metric("mrr").mean([1.0, 2.0, 3.0], [1, 0, 0])
        0.3333333333333333
        >>> data = RankingData.from_arrays([[7.0], [8.0], [9.0]], [1, 0, 0], group=[3])
        >>> metric("mrr").mean([1.0, 2.0, 3.0], data)
        0.3333333333333333
        """
        return self.bind(labels, offsets, qid=qid, group=group, judged=judged).mean(scores, weights)

    @abstractmethod
    def _scorer(self, labels: Numbers, offsets: I64) -> tuple[Scorer, Bools]:
        """Compute what depends on the labels alone.

        Returns:
            The scorer, and which queries have a relevant document (the value of the others is not
            looked at).
        """

    def __str__(self) -> str:
        options = changed_options(self)
        options.pop("k", None)
        return write_name(self.name, options, self.k)

    def __repr__(self) -> str:
        return f"metric({str(self)!r})"


class BoundMetric:
    """A metric with its labels fixed, made by ``Metric.bind``.

    Args:
        metric: the metric.
        lists: the lists that are scored.
        scorer: from checked scores to one value per query.
        has_relevant: which queries have a relevant document.

    >>> metric("precision@1").bind([0, 1], [0, 2]).per_query([1.0, 2.0])
    array([1.])
    """

    def __init__(self, metric: Metric, lists: Lists, scorer: Scorer, has_relevant: Bools) -> None:
        self.metric = metric
        self.lists = lists
        self._scorer = scorer
        self._empty = np.flatnonzero(~has_relevant)

    def per_query(self, scores: ArrayLike) -> F64:
        """Return one value per query; NaN where the query is skipped.

        Args:
            scores: one number per document; ``-inf`` marks a document that was not retrieved.
        """
        lists = self.lists
        # Scores come in the user's order. `lists.order` is None if the documents of a query are
        # adjacent there; otherwise `in_list_order` gathers them.
        checked = arrays.check_scores(scores, lists.offsets, adjacent=lists.order is None)
        values = self._scorer(lists.in_list_order(checked))
        # Queries without a relevant document: NaN (skipped), 0 or 1, as the option `empty` says.
        values[self._empty] = EMPTY[self.metric.empty]
        return values

    def mean(self, scores: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the (weighted) mean over the queries that are not skipped; NaN when all are.

        Args:
            scores: one number per document; ``-inf`` marks a document that was not retrieved.
            weights: one finite number of at least 0 per query; None for equal weights.
        """
        values = self.per_query(scores)
        if weights is not None:
            weights = arrays.check_weights(weights, values.size)
        return mean_over_queries(values, weights)

    def __repr__(self) -> str:
        return f"{self.metric!r} bound to {self.lists.n_queries} queries"


def mean_over_queries(values: F64, weights: F64 | None = None) -> float:
    """Return ``sum w v / sum w`` over the queries that are not skipped; NaN when none has weight.

    Args:
        values: one per query, NaN where it is skipped.
        weights: checked weights, one per query; None for equal weights.

    >>> mean_over_queries(np.array([1.0, np.nan, 0.0]), np.array([3.0, 100.0, 1.0]))
    0.75
    """
    is_counted = ~np.isnan(values)
    values = values[is_counted]
    if values.size == 0:
        return math.nan
    if weights is None:
        return float(values.mean())
    weights = weights[is_counted]
    largest = weights.max()
    if largest == 0:
        return math.nan
    # Weights near the end of the float range would overflow in the sum, so all are divided by the
    # power of two just above the largest; dividing by a power of two rounds nothing.
    exponent = int(np.frexp(largest)[1])
    weights = np.ldexp(weights, -exponent)
    weighted_sum = (weights * values).sum()
    return float(weighted_sum / weights.sum())


_EXAMPLE = "'ndcg', 'ndcg@10' or 'ndcg(ties=expected)@10'"
METRICS: Registry[Metric] = Registry(Metric, "metric", _EXAMPLE)  # type: ignore[type-abstract]
"""Every metric by the name it is typed as."""

register = METRICS.register


def metric(name: str | Metric, *, like: str | None = None, **options: Any) -> Metric:
    """Make a metric by name: ``"ndcg"``, ``"ndcg@10"`` or ``"ndcg(ties=expected,gain=linear)@10"``.

    Args:
        name: a name of `METRICS` in any case, with options in parentheses and a cutoff after ``@``
            if you like; what others call it, such as ``"P@10"`` or ``"ndcg_cut_10"``; or a metric,
            which comes back as it is, or with ``options`` changed.
        like: the tool whose number it should give: ``"trec_eval"``, ``"sklearn"``, ``"ranx"``,
            ``"lightgbm"``, ``"xgboost"`` or ``"catboost"``. Sets ``ties``, ``empty``, ``gain`` and
            what else differs there.
        **options: the same options as keywords; an option may not be given twice.

    >>> metric("NDCG (ties = expected) @10", gain=[0, 1, 3])
    metric('ndcg(ties=expected,gain=0/1/3)@10')
    >>> metric("P@10"), metric("recip_rank"), metric("ndcg@10", like="sklearn")
    (metric('precision@10'), metric('mrr'), metric('ndcg(ties=expected,empty=zero,gain=linear)@10'))
    >>> metric("ndgc@10")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown metric 'ndgc'; did you mean 'ndcg'? (known: ...)
    """
    if callable(name):
        raise OptionError(
            "metric: found a function; expected a name, or a ListMetric for a metric of your own"
        )
    if isinstance(name, str):
        name = name.lower()
        if name not in METRICS:
            name = respelled(name)  # another tool's spelling, such as "P@10"
    if like is None:
        return METRICS.make(name, **options)
    return METRICS.make(name, **_options_like(like, name, options))


def _options_like(like: str, name: str | Metric, options: dict[str, Any]) -> dict[str, Any]:
    """Return the given options of a metric together with those that make it count as another tool
    does.

    Args:
        like: the other tool, such as ``"sklearn"``.
        name: a metric, or its name, which may have options of its own (``"ndcg(gain=linear)"``).
        options: options given as keywords.
    """
    if isinstance(name, Metric):
        metric_name = name.name
        options_of_name = changed_options(name)  # those that differ from the defaults
    else:
        metric_class, typed_options = METRICS.read(name)
        metric_name = metric_class.name
        options_of_name = dict(typed_options)
    # `preset` raises an error if an option contradicts the tool, and returns the tool's options.
    # Options inside the name stay there.
    all_given = {**options_of_name, **options}
    return preset(like, metric_name, all_given) | options


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Per-query values of several metrics; prints as a table of their means.

    Attributes:
        metrics: the metrics, in the order asked for.
        values: float64 ``[metrics, queries]``; NaN where a metric skipped a query.
        qids: one id per query.
    """

    metrics: tuple[Metric, ...]
    values: F64
    qids: Array

    def of(self, which: int | str | Metric) -> F64:
        """Return the values of a metric, one per query.

        Args:
            which: the metric, its name, or its number.

        >>> evaluate(["P@1", "ndcg"], [3.0, 2.0], [0, 1], like="trec_eval").of("P@1").tolist()
        [0.0]
        """
        index = which if isinstance(which, int) else self._index(which)
        return np.asarray(self.values[index])

    def _index(self, name: str | Metric) -> int:
        """Return the position in `self.metrics` of the metric with a name such as ``"ndcg@10"``;
        raise an error if none or several match.

        A name without options in parentheses also finds a metric of that name and cutoff that has
        options, such as those by which it counts as another tool does.
        """
        wanted_metric = metric(name)
        matches = [i for i, candidate in enumerate(self.metrics) if candidate == wanted_metric]
        if not matches and isinstance(name, str) and "(" not in name:
            name_and_cutoff = (wanted_metric.name, wanted_metric.k)
            for i, candidate in enumerate(self.metrics):
                if (candidate.name, candidate.k) == name_and_cutoff:
                    matches.append(i)
        if len(matches) != 1:
            expected = ", ".join(map(str, self.metrics))
            raise OptionError(f"metric: found {name}; expected one of {expected}")
        return matches[0]

    def mean(self, which: int | str | Metric) -> float:
        """Return the mean of a metric, given as in `of`, over the queries it did not skip; NaN if
        it skipped all.
        """
        return mean_over_queries(self.of(which))

    def standard_error(self, which: int | str | Metric) -> float:
        """Return the standard error of a metric's mean over queries; NaN for fewer than two queries
        that are not skipped.
        """
        values = self.of(which)  # one per query, NaN where it is skipped
        values = values[~np.isnan(values)]
        if values.size < 2:
            return math.nan
        deviation = values.std(ddof=1)
        return float(deviation / math.sqrt(values.size))

    def skipped(self, which: int | str | Metric) -> int:
        """Return the number of queries that a metric skipped."""
        return int(np.isnan(self.of(which)).sum())

    def to_frame(self) -> Any:
        """Return a pandas frame of one row per query and one column per metric; NaN where a metric
        skipped a query.
        """
        names = [str(metric) for metric in self.metrics]
        return pandas().DataFrame(self.values.T, index=self.qids, columns=names)

    def _table(self, error: str) -> Table:
        """Return a table with a row per metric: its mean over queries, the standard error, and the
        number of skipped queries.

        Args:
            error: the heading of the standard errors.
        """
        rows = []
        for i, metric in enumerate(self.metrics):
            texts = (str(metric), f"{self.mean(i):.4f}", f"{self.standard_error(i):.4f}")
            rows.append((*map(Cell, texts), Cell(str(self.skipped(i)))))
        columns = (
            Column("metric", words=True),
            Column("mean", width=8),
            Column(error, width=7),
            Column("skipped"),
        )
        return Table(columns, tuple(rows), f"{self.qids.size:,} queries")

    def __repr__(self) -> str:
        return self._table("error").to_text()

    def _repr_html_(self) -> str:
        return self._table("std. error").to_html()

    def to_dict(self) -> dict[str, Any]:
        """Return means, standard errors and counts of all metrics as a dictionary of plain values,
        ready for JSON; JSON has no NaN, so `or_none` turns it into None.
        """
        plain_metrics: dict[str, Any] = {}
        for i, metric in enumerate(self.metrics):
            skipped = self.skipped(i)
            plain_metrics[str(metric)] = {
                "mean": or_none(self.mean(i)),
                "standard_error": or_none(self.standard_error(i)),
                "queries": self.qids.size - skipped,
                "skipped": skipped,
                "ties": metric.ties,
                "empty": metric.empty,
                "higher_is_better": metric.higher_is_better,
            }
        return {"queries": self.qids.size, "metrics": plain_metrics}

    def write_per_query(self, path: PathLike) -> None:
        """Write a CSV with a row per query and a column per metric; a skipped query's cell is
        empty.
        """
        rows = [["qid", *map(str, self.metrics)]]
        # `self.values` has a row per metric: transposed, a row per query.
        for qid, values in zip(self.qids.tolist(), self.values.T.tolist(), strict=True):
            cells = ["" if math.isnan(value) else repr(value) for value in values]
            rows.append([qid, *cells])
        write_whole(path, csv_text(rows))


def evaluate(
    metrics: Sequence[str | Metric],
    scores: Any,
    labels: Any,
    offsets: Any = None,
    *,
    qid: Any = None,
    group: Any = None,
    judged: Any = None,
    qids: Any = None,
    **options: Any,
) -> Evaluation:
    """Evaluate one set of scores by several metrics.

    Args:
        metrics: names or metric objects.
        scores, labels, offsets, qid, group, judged: what every metric takes, see
            `Metric.per_query`; `labels` may be `RankingData` or `Lists`.
        qids: one id per query; default those of `qid` or of the data, else 0, 1, 2, ...
        options: options given to every metric named by text, such as ``ties="expected"`` or
            ``like="trec_eval"``.

    >>> evaluate(["ndcg@10", "mrr"], [3.0, 2.0, 1.0], [0, 1, 0])
    metric       mean    error  skipped
    ndcg@10    0.6309      nan        0
    mrr        0.5000      nan        0
    >>> evaluate(["ndcg@10", "mrr"], [3.0, 2.0, 1.0], [0, 1, 0]).mean("mrr")
    0.5
    >>> evaluate(["mrr"], [3.0, 2.0, 1.0], [0, 1, 1], qid=["b", "b", "a"]).qids.tolist()
    ['b', 'a']
    >>> data = RankingData.from_arrays([[7.0], [8.0], [9.0]], [0, 1, 0], group=[3])
    >>> evaluate(["mrr"], [3.0, 2.0, 1.0], data).mean("mrr")
    0.5
    """
    read_metrics = []
    for name in one_or_more(metrics):
        read_metrics.append(name if isinstance(name, Metric) else metric(name, **options))
    if not read_metrics:
        raise OptionError("metrics: found none; expected at least one, such as 'ndcg@10'")

    lists = Lists.of(labels, offsets, qid=qid, group=group, judged=judged)
    values = [metric.per_query(scores, lists) for metric in read_metrics]
    ids = lists.qids if qids is None else np.asarray(qids)
    if ids.shape != (lists.n_queries,):
        raise DataError(f"qids: found {ids.size} ids; expected {lists.n_queries}, one per query")
    return Evaluation(tuple(read_metrics), np.stack(values), ids)
