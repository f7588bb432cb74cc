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
        """Return the HTML of an empty box, which the program of the page fills with two columns of
        documents, and a script element with their data as JSON.
        """
        box = f'<div class="rankings" data-rankings="{name}-rankings"></div>\n'
        without_scripts = (
            "<noscript><p>The rankings are drawn by JavaScript, which is switched off here.</p>"
            "</noscript>\n"
        )
        return box + without_scripts + data_script(f"{name}-rankings", self.content)

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
    data = checked_data("data", data)
    comparison = _Comparison.of((a, b), names, data, read_metric(metric))
    queries = comparison.largest_changes(_MOST_QUERIES)
    answer, *details = _summary(comparison, n_shown=queries.size)

    sections: list[Section] = []
    if details:
        sections.append(Text("How sure is this?", details))
    content = _content(comparison, (a, b), queries, documents)
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
        """Score all documents by two rankings, and compute the metric of each query under both.

        Args:
            rankings: two rankers, or arrays with the scores of all documents.
            names: what the two are called.
            data: the queries, with labels.
            metric: what a query gains or loses by.
        """
        scores_of_rankings = []
        values_of_rankings = []
        for ranking, name in zip(rankings, names, strict=True):
            scores = _scores(ranking, data, name)
            scores_of_rankings.append(scores)
            values_of_rankings.append(metric.per_query(scores, data.labels, data.offsets))
        comparison = cls(names, data, metric, scores_of_rankings, np.array(values_of_rankings))
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
        """The indices of the queries that the metric does not skip."""
        return np.flatnonzero(~np.isnan(self.gains))

    def largest_changes(self, most: int) -> I64:
        """Return the indices of the ``most`` queries whose metric differs most between the two
        rankings, in the order of the data.
        """
        changes = np.abs(self.gains[self.judged])
        # Stable: of equal changes, the query that comes first in the data.
        largest_first = np.argsort(-changes, kind="stable")
        most_changed = self.judged[largest_first[:most]]
        return np.sort(most_changed)


def _scores(ranking: Any, data: RankingData, name: str) -> F64:
    """Return the scores of all documents: those that a ranker predicts, or the given array after a
    check of its shape and for NaN.
    """
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
    """Return sentences about which of two rankings is better, and how sure that is.

    Args:
        comparison: the two rankings.
        n_shown: how many queries the page has.
    """
    metric = comparison.metric
    judged = comparison.judged
    sentences = [_difference_sentence(comparison)]
    if judged.size > 1:
        sentences.append(_certainty_sentences(comparison.values[:, judged]))
    n_skipped = comparison.data.n_queries - judged.size
    if n_skipped:
        sentences.append(f"Left out: {counted(n_skipped, 'query')} that {metric} skips.")
    if n_shown < judged.size:
        sentences.append(f"Below are the {n_shown:,} queries whose {metric} changed most.")
    return sentences


def _difference_sentence(comparison: _Comparison) -> str:
    """Return a sentence about the mean difference of the metric between two rankings, with the
    numbers of queries on which the second one is better, worse and equal.
    """
    # A gain is positive where the second ranking is better, one per query; `judged` are the indices
    # of the queries that the metric does not skip.
    gains = comparison.gains[comparison.judged]
    mean_gain = float(gains.mean())
    n_better = int(np.sum(gains > 0))
    n_worse = int(np.sum(gains < 0))
    n_equal = gains.size - n_better - n_worse
    counts = f"{n_better} better, {n_worse} worse, {n_equal} as before"

    first, second = comparison.names
    over_queries = f"over {counted(gains.size, 'query')}"
    if mean_gain == 0:
        return f"{second} is level with {first} in {comparison.metric} {over_queries}: {counts}."
    direction = "above" if mean_gain > 0 else "below"
    amount = f"by {abs(mean_gain):.4f} {comparison.metric} on average {over_queries}"
    return f"{second} is {direction} {first} {amount}: {counts}."


def _certainty_sentences(values: F64) -> str:
    """Return sentences with the 95 % confidence interval and the p-value of the difference between
    two rankings.

    Args:
        values: the metric, ``[rankings, queries]``, without NaN.
    """
    # The test takes values of [systems, trials, queries]: here there is one trial. Its results are
    # matrices over pairs of systems.
    values_of_one_trial = values[:, np.newaxis, :]
    test = systems_test(values_of_one_trial)
    # Entry [1, 0] is system 1 minus system 0, so the second ranking minus the first.
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
    """Return the top documents of two rankings in some queries as JSON values, for the program of
    the page.

    A document is a list: its id, its label, its rank in either ranking, and the features that weigh
    most in its score for each ranking that is a model.

    Args:
        comparison: the two rankings.
        rankings: the same as the user gave them; rankers explain their scores.
        queries: the indices of the queries.
        n_documents: how many of the first documents of each ranking are shown.
    """
    data = comparison.data.subset(queries)
    ranks = _ranks(comparison, data, queries)
    best_ranks = ranks.min(axis=0)
    is_shown = best_ranks <= n_documents
    reasons_of_rankings = [_explain(ranking, data, is_shown) for ranking in rankings]
    reasons_of_models = [reasons for reasons in reasons_of_rankings if reasons.features]

    document_ids = data.doc_ids
    if document_ids is None:
        document_ids = ranks_in(data.offsets) - 1  # the index of the document in its query

    def document_values(row: int) -> list[Any]:
        top_features = [reasons.by_document[row] for reasons in reasons_of_models]
        label = float(data.labels[row])
        return [str(document_ids[row]), label, *ranks[:, row].tolist(), *top_features]

    gains = comparison.gains
    entries = []
    for number, query in enumerate(queries):
        begin, end = data.offsets[number], data.offsets[number + 1]
        shown_rows = np.flatnonzero(is_shown[begin:end]) + begin
        metric_values = comparison.values[:, query].tolist()
        entries.append(
            {
                "qid": str(data.qids[number]),
                "values": [round(value, 4) for value in metric_values],
                "gain": round(float(gains[query]), 4),
                "size": int(data.sizes[number]),
                "documents": [document_values(row) for row in shown_rows],
            }
        )
    return {
        "names": list(comparison.names),
        "metric": str(comparison.metric),
        "features": reasons_of_models[0].features if reasons_of_models else [],
        "queries": entries,
    }


def _ranks(comparison: _Comparison, data: RankingData, queries: I64) -> I64:
    """Return the ranks of the documents of some queries in two rankings, counted from 1 in each
    query, as an array ``[rankings, documents]``.

    Documents of equal scores are ranked as metrics rank them by default.

    Args:
        comparison: the rankings of all queries.
        data: the selected queries alone.
        queries: the indices of the selected queries.
    """
    # `query_of` has the index of the query of each document.
    is_selected = np.isin(query_of(comparison.data.offsets), queries)
    ranks = np.empty((2, data.n_documents), dtype=np.int64)
    for index, scores in enumerate(comparison.scores):
        best_first = rank_order(scores[is_selected], data.labels, data.offsets)
        # `best_first` has the documents of each query in ranked order, and `ranks_in` counts 1, 2,
        # ... in each query: so each document gets its rank.
        ranks[index, best_first] = ranks_in(data.offsets)
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


def _explain(ranking: Any, data: RankingData, is_shown: Bools) -> _Reasons:
    """Return the features that contribute most to the scores of documents, by a ranker; nothing for
    scores that come without a model.

    Args:
        ranking: a ranker, or an array of scores.
        data: the documents.
        is_shown: whether to explain each document; the others get an empty list.
    """
    if not isinstance(ranking, Ranker):
        return _Reasons([], [])
    explanation = ranking.explain(data)
    reasons_by_document: list[list[float]] = [[] for _ in range(data.n_documents)]
    for row in np.flatnonzero(is_shown):
        contributions = explanation.contributions[row]
        # A contribution is how much a feature raises or lowers the score, in the units of the
        # score.
        largest_first = np.argsort(-np.abs(contributions), kind="stable")
        for column in largest_first[:_MOST_REASONS]:
            contribution = contributions[column]
            if contribution:
                # Three digits are enough to read, and keep the page small.
                three_digits = float(f"{contribution:.3g}")
                reasons_by_document[row] += [int(column), three_digits]
    return _Reasons(list(explanation.features), reasons_by_document)
