"""Two rankings of the same queries side by side: what moved, where it gained or lost, and which
features say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tautrank.arguments import whole
from tautrank.arrays import F64, I64, Bools, query_of, ranks_in
from tautrank.data.ranking_data import RankingData, checked_data
from tautrank.errors import DataError, OptionError, counted
from tautrank.metrics import Metric, rank_order
from tautrank.metrics import metric as read_metric
from tautrank.ranker.estimator import Ranker
from tautrank.report.page import Page, Section, Text, data_script, packaged
from tautrank.significance.systems import systems_test

_MOST_QUERIES = 1_000
_MOST_REASONS = 4  # features per document


@dataclass(frozen=True)
class Rankings(Section):
    """The queries in a list to search and sort; the chosen one as two columns of documents with the
    moves between them.

    Args:
        title: the heading.
        content: what `side_by_side` collects; see there.
    """

    content: dict[str, Any]

    def body(self, name: str, level: int) -> str:
        """Return the place of the rankings, and their data."""
        return (
            f'<div class="rankings" data-rankings="{name}-rankings"></div>\n'
            "<noscript><p>The rankings are drawn by JavaScript, which is switched off here.</p></noscript>\n"
            + data_script(f"{name}-rankings", self.content)
        )

    def scripts(self) -> tuple[str, ...]:
        """Return the program that draws them."""
        return (packaged("side_by_side.js"),)


def side_by_side(
    a: Any,
    b: Any,
    data: RankingData,
    *,
    metric: str | Metric = "ndcg@10",
    names: Sequence[str] = ("A", "B"),
    documents: int = 20,
) -> Page:
    """Return a page with two rankings of the same queries side by side; ``page.to_html(path)``
    writes it.

    For each query it shows the first documents of both rankings, with their labels and moves, and
    for models the features that weigh most in their scores (exact TreeSHAP). If there are more than
    1,000 queries, the page has the 1,000 whose metric changed most.

    Args:
        a, b: rankers, or the scores of all documents from any tool.
        data: the queries, with labels.
        metric: what a query gains or loses by.
        names: what the two are called.
        documents: how many of the first documents of each ranking are shown.

    >>> data = RankingData.from_arrays([[0.0], [1.0]], [1, 0], group=[2])
    >>> page = side_by_side([0.3, 0.7], [0.7, 0.3], data, metric="ndcg@1", names=("old", "new"))
    >>> page.lead
    'new is above old by 1.0000 ndcg@1 on average over 1 query: 1 better, 0 worse, 0 as before.'
    """
    if len(set(names)) != 2 or len(names) != 2 or "" in names:
        raise OptionError(f"names: found {list(names)}; expected two names that differ")
    documents = whole("documents", documents, least=1)
    bound = _Comparison.of((a, b), names, checked_data("data", data), read_metric(metric))
    queries = bound.largest_changes(_MOST_QUERIES)
    answer, *details = _summary(bound, n_shown=queries.size)

    sections: list[Section] = []
    if details:
        sections.append(Text("How sure is this?", details))
    content = _content(bound, (a, b), queries, documents)
    sections.append(Rankings("Query by query", content))
    return Page(f"{names[0]} and {names[1]} side by side", sections, lead=answer)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Two rankings of the same queries, with their values.

    Args:
        names: what the two are called.
        data: the queries.
        metric: what a query gains or loses by.
        scores: the scores of all documents, one array per ranking.
        values: the metric, ``[rankings, queries]``; NaN where it skips a query.
    """

    names: Sequence[str]
    data: RankingData
    metric: Metric
    scores: list[F64]
    values: F64

    @classmethod
    def of(
        cls, rankings: Sequence[Any], names: Sequence[str], data: RankingData, metric: Metric
    ) -> _Comparison:
        """Score the documents by both rankings, and judge each query."""
        scores, values = [], []
        for ranking, name in zip(rankings, names, strict=True):
            scores.append(_scores(ranking, data, name))
            values.append(metric.per_query(scores[-1], data.labels, data.offsets))
        comparison = cls(names, data, metric, scores, np.array(values))
        if not comparison.judged.size:
            raise DataError(f"data: found no query that {metric} can judge; expected labels")
        return comparison

    @property
    def gains(self) -> F64:
        """What each query gains by the second ranking; NaN where the metric skips it."""
        first, second = self.values
        gains: F64 = self.metric.sign * (second - first)
        return gains

    @property
    def judged(self) -> I64:
        """The queries that the metric does not skip."""
        return np.flatnonzero(~np.isnan(self.gains))

    def largest_changes(self, most: int) -> I64:
        """Return the queries whose value changed most, in the order of the data."""
        changes = np.abs(self.gains[self.judged])
        by_change = np.argsort(-changes, kind="stable")
        return np.sort(self.judged[by_change[:most]])


def _scores(ranking: Any, data: RankingData, name: str) -> F64:
    """Return the scores of all documents by a ranker, or as they are given."""
    if isinstance(ranking, Ranker):
        scores: F64 = ranking.predict(data)
    else:
        scores = np.asarray(ranking, dtype=np.float64)
    expected = f"expected a ranker, or {data.n_documents} scores"
    if scores.shape != (data.n_documents,):
        raise DataError(f"{name}: found scores of shape {scores.shape}; {expected}")
    if np.isnan(scores).any():
        raise DataError(f"{name}: found NaN; {expected}")
    return scores


# ---- The answer


def _summary(comparison: _Comparison, n_shown: int) -> list[str]:
    """Return which ranking is better, and how sure that is.

    Args:
        comparison: the two rankings.
        n_shown: how many queries the page has.
    """
    metric, judged = comparison.metric, comparison.judged
    sentences = [_answer(comparison)]
    if judged.size > 1:
        sentences.append(_certainty(comparison.values[:, judged]))
    n_skipped = comparison.data.n_queries - judged.size
    if n_skipped:
        sentences.append(f"Left out: {counted(n_skipped, 'query')} that {metric} skips.")
    if n_shown < judged.size:
        sentences.append(f"Below are the {n_shown:,} queries whose {metric} changed most.")
    return sentences


def _answer(comparison: _Comparison) -> str:
    """Return by how much the second ranking is above the first, and on how many queries."""
    gains = comparison.gains[comparison.judged]
    mean = float(gains.mean())
    n_better, n_worse = int(np.sum(gains > 0)), int(np.sum(gains < 0))
    n_equal = gains.size - n_better - n_worse
    counts = f"{n_better} better, {n_worse} worse, {n_equal} as before"
    first, second = comparison.names
    over = f"over {counted(gains.size, 'query')}"
    if mean == 0:
        return f"{second} is level with {first} in {comparison.metric} {over}: {counts}."
    direction = "above" if mean > 0 else "below"
    by = f"by {abs(mean):.4f} {comparison.metric} on average {over}"
    return f"{second} is {direction} {first} {by}: {counts}."


def _certainty(values: F64) -> str:
    """Return the confidence interval of the difference, and what it is about."""
    test = systems_test(values[:, np.newaxis, :])
    low, high = sorted((test.low[1, 0], test.high[1, 0]))
    p_value = test.p_values[1, 0]
    return (
        f"The 95 % interval of the difference is {low:+.4f} to {high:+.4f}, p = {p_value:.2g}."
        " This is about the two models, not about the methods that trained them."
    )


# ---- Query by query


def _content(
    comparison: _Comparison, rankings: Sequence[Any], queries: I64, n_documents: int
) -> dict[str, Any]:
    """Return the first documents of both rankings in some queries, as the page's program reads
    them.

    Args:
        comparison: the two rankings.
        rankings: the same as the user gave them; rankers explain their scores.
        queries: the queries.
        n_documents: how many of the first documents of each ranking are shown.
    """
    data = comparison.data.subset(queries)
    ranks = _ranks(comparison, data, queries)
    is_shown = ranks.min(axis=0) <= n_documents
    explained = [_reasons(ranking, data, is_shown) for ranking in rankings]
    explained = [reasons for reasons in explained if reasons.features]

    ids = data.doc_ids
    if ids is None:
        ids = ranks_in(data.offsets) - 1
    gains = comparison.gains
    entries = []
    for number, query in enumerate(queries):
        begin, end = data.offsets[number], data.offsets[number + 1]
        documents = []
        for row in np.flatnonzero(is_shown[begin:end]) + begin:
            reasons = [of_ranker.by_document[row] for of_ranker in explained]
            document = [str(ids[row]), float(data.labels[row]), *ranks[:, row].tolist()]
            documents.append([*document, *reasons])
        values = comparison.values[:, query].tolist()
        entries.append(
            {
                "qid": str(data.qids[number]),
                "values": [round(value, 4) for value in values],
                "gain": round(float(gains[query]), 4),
                "size": int(data.sizes[number]),
                "documents": documents,
            }
        )
    return {
        "names": list(comparison.names),
        "metric": str(comparison.metric),
        "features": explained[0].features if explained else [],
        "queries": entries,
    }


def _ranks(comparison: _Comparison, data: RankingData, queries: I64) -> I64:
    """Return the ranks of the documents of some queries, ``[rankings, documents]``; documents of
    equal scores as metrics rank them by default.
    """
    rows = np.isin(query_of(comparison.data.offsets), queries)
    ranks = np.empty((2, data.n_documents), dtype=np.int64)
    for of_ranking, scores in zip(ranks, comparison.scores, strict=True):
        best_first = rank_order(scores[rows], data.labels, data.offsets)
        of_ranking[best_first] = ranks_in(data.offsets)
    return ranks


class _Reasons(NamedTuple):
    """Why a model scores documents as it does.

    Args:
        features: the names of its features; none for scores without a model.
        by_document: for each document the features with the largest contributions: column, amount,
            column, ...
    """

    features: list[str]
    by_document: list[list[float]]


def _reasons(ranking: Any, data: RankingData, is_shown: Bools) -> _Reasons:
    """Return the reasons for the scores of the documents that are shown."""
    if not isinstance(ranking, Ranker):
        return _Reasons([], [])
    explanation = ranking.explain(data)
    by_document: list[list[float]] = [[] for _ in range(data.n_documents)]
    for row in np.flatnonzero(is_shown):
        contributions = explanation.contributions[row]
        largest_first = np.argsort(-np.abs(contributions), kind="stable")
        for column in largest_first[:_MOST_REASONS]:
            amount = float(f"{contributions[column]:.3g}")
            if contributions[column]:
                by_document[row] += [int(column), amount]
    return _Reasons(list(explanation.features), by_document)
