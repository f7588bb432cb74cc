"""Two rankings of the same queries side by side: what moved, where it gained or lost, and which
features say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautrank.arguments import whole
from tautrank.arrays import F64, query_of, ranks_in
from tautrank.data.ranking_data import RankingData, checked_data
from tautrank.errors import DataError, OptionError, counted
from tautrank.metrics import Metric, rank_order
from tautrank.metrics import metric as read_metric
from tautrank.ranker.estimator import Ranker
from tautrank.report.page import Page, Section, Text, data_script, packaged
from tautrank.significance.systems import systems_test

_MOST_QUERIES = 1_000
_REASONS = 4


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
    if len(names) != 2 or names[0] == names[1] or not all(names):
        raise OptionError(f"names: found {list(names)}; expected two names that differ")
    documents = whole("documents", documents, least=1)
    judge = read_metric(metric)
    checked_data("data", data)
    scores = [_scores(given, data, name) for given, name in zip((a, b), names, strict=True)]
    values = np.array([judge.per_query(each, data) for each in scores])
    gains = judge.sign * (values[1] - values[0])
    known = np.flatnonzero(~np.isnan(gains))
    if not known.size:
        raise DataError(f"data: found no query that {judge} can judge; expected labels")
    chosen = np.sort(known[np.argsort(-np.abs(gains[known]), kind="stable")[:_MOST_QUERIES]])
    some = data.subset(chosen)
    rows = np.isin(query_of(data.offsets), chosen)
    ranks = np.empty((2, some.n_documents), dtype=np.int64)
    for found, each in zip(
        ranks, scores, strict=True
    ):  # equal scores as metrics rank them by default
        found[rank_order(each[rows], some)] = ranks_in(some.offsets)
    shown = ranks.min(axis=0) <= documents
    weighed = [_reasons(given, some, shown) for given in (a, b)]
    called = ranks_in(some.offsets) - 1 if some.doc_ids is None else some.doc_ids
    queries = []
    for at, (start, end) in enumerate(zip(some.offsets[:-1], some.offsets[1:], strict=True)):
        listed = []
        for row in np.flatnonzero(shown[start:end]) + start:
            why = [reasons[row] for _, reasons in weighed if reasons]
            listed.append(
                [str(called[row]), float(some.labels[row]), *ranks[:, row].tolist(), *why]
            )
        numbers = [
            round(float(number), 4) for number in (*values[:, chosen[at]], gains[chosen[at]])
        ]
        query = {
            "qid": str(some.qids[at]),
            "values": numbers[:2],
            "gain": numbers[2],
            "size": int(some.sizes[at]),
        }
        queries.append({**query, "documents": listed})
    features = next((features for features, _ in weighed if features), [])
    content = {"names": list(names), "metric": str(judge), "features": features, "queries": queries}
    answer, *more = _summary(gains[known], values[:, known], names, judge, chosen.size)
    if left_out := gains.size - known.size:
        more.insert(1, f"Left out: {counted(left_out, 'query')} that {judge} skips.")
    sections = [
        *([Text("How sure is this?", more)] if more else []),
        Rankings("Query by query", content),
    ]
    return Page(f"{names[0]} and {names[1]} side by side", sections, lead=answer)


def _summary(gains: F64, values: F64, names: Sequence[str], judge: Metric, shown: int) -> list[str]:
    mean, n = float(gains.mean()), gains.size
    words = "above" if mean > 0 else "below" if mean < 0 else "level with"
    by = f" by {abs(mean):.4f} {judge} on average" if mean else f" in {judge}"
    up, down = int(np.sum(gains > 0)), int(np.sum(gains < 0))
    counts = f"{up} better, {down} worse, {n - up - down} as before"
    found = [f"{names[1]} is {words} {names[0]}{by} over {counted(n, 'query')}: {counts}."]
    if n > 1:
        test = systems_test(values[:, np.newaxis, :])
        low, high = sorted((test.low[1, 0], test.high[1, 0]))
        interval = f"The 95 % interval of the difference is {low:+.4f} to {high:+.4f}, p = {test.p_values[1, 0]:.2g}"
        found.append(
            f"{interval}. This is about the two models, not about the methods that trained them."
        )
    if shown < n:
        found.append(f"Below are the {shown:,} queries whose {judge} changed most.")
    return found


def _scores(given: Any, data: RankingData, name: str) -> F64:
    scores: F64 = (
        given.predict(data) if isinstance(given, Ranker) else np.asarray(given, dtype=np.float64)
    )
    if scores.shape != (data.n_documents,) or np.isnan(scores).any():
        found = "NaN" if scores.shape == (data.n_documents,) else f"scores of shape {scores.shape}"
        raise DataError(f"{name}: found {found}; expected a ranker, or {data.n_documents} scores")
    return scores


def _reasons(given: Any, data: RankingData, shown: Any) -> tuple[list[str], list[list[float]]]:
    """The features of a model, and of each shown document those with the largest contributions:
    place, amount, ...
    """
    if not isinstance(given, Ranker):
        return [], []
    explained = given.explain(data)
    reasons: list[list[float]] = [[] for _ in range(data.n_documents)]
    for row in np.flatnonzero(shown):
        parts = explained.contributions[row]
        largest = np.argsort(-np.abs(parts), kind="stable")[:_REASONS]
        reasons[row] = [
            number for at in largest if parts[at] for number in (int(at), float(f"{parts[at]:.3g}"))
        ]
    return list(explained.features), reasons
