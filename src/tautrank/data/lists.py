"""Labelled lists: the labels of documents and the queries they belong to, checked once."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautrank import arrays
from tautrank.arrays import I64, Array, Bools, Numbers
from tautrank.data.queries import checked_queries
from tautrank.data.ranking_data import RankingData
from tautrank.errors import DataError


@dataclass(frozen=True, eq=False, repr=False)
class Lists:
    """Labelled lists of documents, one list per query; `Lists.of` makes and checks them.

    Query ``q`` owns the documents ``offsets[q]`` to ``offsets[q + 1] - 1``.

    Attributes:
        labels: one number of at least 0 per document, the documents of a query adjacent.
        offsets: int64, start of each query, and the number of documents at the end.
        qids: one id per query.
        judged: which documents somebody has judged; None if all are.
        order: rows in the order of the lists, where the rows of a query were scattered; None if
            they were adjacent.

    >>> lists = Lists.of([0, 1, 2], qid=["a", "b", "b"])
    >>> lists
    Lists(2 queries, 3 documents)
    >>> lists.offsets, lists.qids
    (array([0, 1, 3]), array(['a', 'b'], dtype='<U1'))
    """

    labels: Numbers
    offsets: I64
    qids: Array
    judged: Bools | None = None
    order: I64 | None = None

    @classmethod
    def of(
        cls,
        labels_or_data: Any,
        offsets: Any = None,
        *,
        qid: Any = None,
        group: Any = None,
        judged: Any = None,
    ) -> Lists:
        """Return checked lists.

        Args:
            labels_or_data: one finite number of at least 0 per document; or `RankingData`, or
                `Lists`, which have their queries.
            offsets: ``n_queries + 1`` integers, where documents of a query are adjacent; or
            qid: one query id per document. Scattered documents of a query are gathered, with a
                warning, and queries are in order of first appearance; or
            group: number of documents of each query, in order. Without any of the three, all
                documents are one query.
            judged: which documents have been judged, one true or false per document; None for all.

        >>> Lists.of([0, 1, -1], [0, 2, 3])
        Traceback (most recent call last):
        tautrank.errors.DataError: labels[2] (query 1, document 0): found -1; expected a finite
        number of at least 0
        >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 0], group=[2, 1])
        >>> Lists.of(data).labels
        array([0., 1., 0.], dtype=float32)
        """
        if isinstance(labels_or_data, Lists | RankingData):
            _check_no_second_queries(labels_or_data, offsets=offsets, qid=qid, group=group)
            lists = cls._of_checked(labels_or_data)
        else:
            lists = cls._of_arrays(labels_or_data, offsets, qid, group)
        if judged is None:
            return lists
        is_judged = arrays.check_flags("judged", judged, lists.n_documents)
        return dataclasses.replace(lists, judged=lists.in_list_order(is_judged))

    @classmethod
    def _of_checked(cls, data: Lists | RankingData) -> Lists:
        """Return the lists of data whose labels and queries have been checked."""
        if isinstance(data, Lists):
            return data
        return cls(data.labels, data.offsets, data.qids)

    @classmethod
    def _of_arrays(cls, labels: Any, offsets: Any, qid: Any, group: Any) -> Lists:
        """Return lists of labels after checking them and what says which documents belong to a
        query: offsets, one query id per document, or group sizes.
        """
        numbers = arrays.flat_numbers("labels", labels)
        # `order` has the input row of each document if documents of a query were scattered.
        offsets, qids, order = checked_queries(numbers.size, offsets, qid, group)
        if order is None:
            return cls(arrays.check_labels(numbers, offsets), offsets, qids)
        # Errors about scattered rows name the row alone: it has another place in its query.
        return cls(arrays.check_labels(numbers)[order], offsets, qids, order=order)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.offsets.size - 1)

    @property
    def n_documents(self) -> int:
        """Number of documents of all queries."""
        return int(self.labels.size)

    @functools.cached_property
    def sizes(self) -> I64:
        """Number of documents of each query."""
        return np.diff(self.offsets)

    @property
    def longest(self) -> int:
        """Number of documents of the longest list; 0 without queries."""
        return int(self.sizes.max(initial=0))

    @property
    def query(self) -> I64:
        """Number of the query of each document."""
        return arrays.query_of(self.offsets)

    def in_list_order(self, values: Array) -> Array:
        """Return one value per row in the order of the lists.

        Args:
            values: in the order in which the rows were given.

        >>> Lists.of([0, 1, 2], group=[1, 2]).in_list_order(np.array([3.0, 4.0, 5.0]))
        array([3., 4., 5.])
        """
        return values if self.order is None else values[self.order]

    def __repr__(self) -> str:
        return f"Lists({self.n_queries} queries, {self.n_documents} documents)"


def _check_no_second_queries(data: Lists | RankingData, **queries: Any) -> None:
    """Raise an error if data that already knows its queries is given with offsets, qid or group."""
    for name, value in queries.items():
        if value is not None:
            raise DataError(
                f"{name}: found both {type(data).__name__} and {name}; expected one, to say which"
                " documents belong together"
            )
