"""What a ranker answers: documents in order, why a document has its score, and why one is above
another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautrank.arguments import whole
from tautrank.arrays import F64, I64, Array
from tautrank.errors import DataError
from tautrank.json_values import to_json
from tautrank.notebooks import pandas
from tautrank.tables import Cell, Column, Table

_SHOWN, _MOST_NAMED = 20, 4  # documents of a table in a notebook, and features of each


@dataclass(frozen=True, eq=False)
class Ranking:
    """Documents in the order a ranker puts them: query after query, the best document of each
    first.

    Args:
        qid: the query of each line.
        document: the row of the document in the data that was ranked.
        rank: 1 for the best document of a query.
        score: the score it was ranked by.
        doc_id: the id of the document; None if the data had no ids.

    >>> import numpy as np
    >>> ranking = Ranking(np.array([7, 7]), np.array([1, 0]), np.array([1, 2]), np.array([0.5, 0.1]))
    >>> ranking.top(1).document
    array([1])
    """

    qid: Array
    document: I64
    rank: I64
    score: F64
    doc_id: Array | None = None

    def top(self, k: int) -> Ranking:
        """Return the best ``k`` documents of each query.

        Args:
            k: number of documents.
        """
        kept = self.rank <= whole("k", k, least=1)
        named = None if self.doc_id is None else self.doc_id[kept]
        return Ranking(
            self.qid[kept], self.document[kept], self.rank[kept], self.score[kept], named
        )

    def to_frame(self) -> Any:
        """Return a pandas frame of one row per line, with the document's id if it has one."""
        names = {} if self.doc_id is None else {"doc_id": self.doc_id}
        columns = {
            "qid": self.qid,
            "rank": self.rank,
            "document": self.document,
            **names,
            "score": self.score,
        }
        return pandas().DataFrame(columns)

    def _repr_html_(self) -> str:
        documents = self.document if self.doc_id is None else self.doc_id
        columns = (self.qid, self.rank, documents, self.score)
        rows = []
        for qid, rank, document, score in zip(
            *(column[:_SHOWN] for column in columns), strict=True
        ):
            rows.append([str(qid), str(rank), str(document), f"{score:.6g}"])
        more = f"and {len(self) - _SHOWN:,} more" if len(self) > _SHOWN else ""
        return Table.of(["qid", "rank", "document", "score"], rows, more).to_html()

    def __len__(self) -> int:
        return int(self.document.size)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What each feature adds to the score of each document, by exact TreeSHAP;
    ``base + contributions`` is the score.

    Args:
        documents: what the documents are called: their ids if the data has ids, else numbers from
            0.
        features: the names of the features; ``f1``, ``f2``, ... if the data had none.
        values: the features themselves.
        contributions: one row per document, one column per feature.
        base: the mean score, which all documents start from.
        scores: the scores.
        predict: from rows of features to scores.
        by_list: whether a score also depends on the other documents (list features); `predict` then
            takes all rows.
    """

    documents: Array
    features: tuple[str, ...]
    values: Array
    contributions: F64
    base: float
    scores: F64
    predict: Callable[[Any], F64]
    by_list: bool = False

    def why(self, above: Any, below: Any) -> Difference:
        """Compare two documents feature by feature, and find a few changes that would swap them.

        The changes are found greedily: features of the lower document take the values of the upper
        one, those with the largest difference first, until its score is the greater one. Changes
        that are not needed are then undone.

        Args:
            above: the document with the greater score, as in `documents`, or its number within the
                list, from 0.
            below: the other document.
        """
        high, low = self._row(above, "above"), self._row(below, "below")
        if self.scores[high] < self.scores[low]:
            found = f"{above} has the score {self.scores[high]:.6g} and document {below} {self.scores[low]:.6g}"
            raise DataError(
                f"above: document {found}; expected the one with the greater score first"
            )
        differences = self.contributions[high] - self.contributions[low]
        order = np.argsort(-np.abs(differences), kind="stable")
        changes, after = self._changes(high, low, [int(at) for at in order if differences[at] > 0])
        return Difference(
            above=self.documents[high].item(),
            below=self.documents[low].item(),
            features=tuple(self.features[at] for at in order),
            values_above=self.values[high, order],
            values_below=self.values[low, order],
            differences=differences[order],
            score_above=float(self.scores[high]),
            score_below=float(self.scores[low]),
            changes=tuple(self.features[at] for at in changes),
            score_after=after,
        )

    def _changes(self, high: int, low: int, order: list[int]) -> tuple[list[int], float | None]:
        rows = np.arange(len(self.values)) if self.by_list else np.array([high, low])
        places = [high, low] if self.by_list else [0, 1]

        def scores(columns: list[int]) -> F64:
            changed = self.values[rows]
            changed[places[1], columns] = self.values[high, columns]
            return self.predict(changed)[places]

        def swaps(columns: list[int]) -> bool:
            upper, lower = scores(columns)
            return bool(lower > upper)

        needed = next((n for n in range(1, len(order) + 1) if swaps(order[:n])), None)
        if needed is None:
            return [], None
        kept = order[:needed]
        for column in reversed(order[:needed]):
            fewer = [each for each in kept if each != column]
            kept = fewer if swaps(fewer) else kept
        return kept, float(scores(kept)[1])

    def _row(self, document: Any, name: str) -> int:
        found = np.flatnonzero([str(each) == str(document) for each in self.documents])
        if not found.size and str(document).isdecimal() and int(document) < self.documents.size:
            return int(document)
        if found.size != 1:
            expected = f"one of {self.documents.size}, such as {self.documents[0] if self.documents.size else 'none'}"
            raise DataError(f"{name}: found document {document}; expected {expected}")
        return int(found[0])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        names = ("documents", "features", "base", "scores", "contributions")
        return {name: to_json(getattr(self, name), name) for name in names}

    def to_frame(self) -> Any:
        """Return contributions as a pandas data frame, one row per document, with ``base`` and
        ``score``.
        """
        frame = pandas().DataFrame(
            self.contributions, index=self.documents, columns=list(self.features)
        )
        return frame.assign(base=self.base, score=self.scores)

    def to_text(self, most: int | None = None) -> str:
        """Return a line per document, the best first: its score, and the features that add or take
        most.

        Args:
            most: the number of documents to show; None for all.
        """
        return self._table(most).to_text(titles=False)

    def _table(self, most: int | None) -> Table:
        """Return a row per document, the best first; `most` of them, or all."""
        columns = (
            Column("document"),
            Column("score"),
            Column("largest contributions", words=True),
        )
        rows = []
        for document in (-self.scores).argsort(kind="stable")[:most]:
            parts = self.contributions[document]
            largest = [at for at in (-abs(parts)).argsort(kind="stable")[:_MOST_NAMED] if parts[at]]
            named = ", ".join(f"{self.features[at]} {parts[at]:+.4f}" for at in largest)
            texts = (str(self.documents[document]), f"{self.scores[document]:+.4f}", named)
            rows.append(tuple(map(Cell, texts)))
        return Table(columns, tuple(rows), self._note())

    def _note(self) -> str:
        more = (
            f"; {len(self.documents) - _SHOWN:,} more are not shown"
            if len(self.documents) > _SHOWN
            else ""
        )
        return f"Every document starts from {self.base:.4f}{more}"

    def __repr__(self) -> str:
        return f"{self.to_text(_SHOWN)}\n{self._note()}"

    def _repr_html_(self) -> str:
        return self._table(_SHOWN).to_html()


@dataclass(frozen=True, eq=False)
class Difference:
    """One document over another, feature by feature, the largest difference first.

    Args:
        above, below: the documents.
        features: the names of the features.
        values_above, values_below: the features of the two documents.
        differences: what each feature adds to the lead of the upper document; they sum to that
            lead.
        score_above, score_below: the scores.
        changes: features that would put the lower document above, if it had their values of the
            upper one; empty if there are none: with all values of the other, a document only ties
            with it.
        score_after: the score of the lower document after these changes; None if there are none.
    """

    above: Any
    below: Any
    features: tuple[str, ...]
    values_above: Array
    values_below: Array
    differences: F64
    score_above: float
    score_below: float
    changes: tuple[str, ...]
    score_after: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; a missing value is None."""
        return {name: to_json(value, name) for name, value in vars(self).items()}

    def to_frame(self) -> Any:
        """Return one row per feature as a pandas data frame."""
        columns = {
            "above": self.values_above,
            "below": self.values_below,
            "difference": self.differences,
        }
        return pandas().DataFrame(columns, index=list(self.features))

    def __str__(self) -> str:
        table = self._table()
        return f"{table.to_text()}\n{table.note}"

    def _repr_html_(self) -> str:
        return self._table().to_html()

    def _table(self) -> Table:
        """Return a row for each feature that differs and one for the scores, and as its note what
        would swap the two documents.
        """
        rows = zip(
            self.features, self.values_above, self.values_below, self.differences, strict=True
        )
        scores = ("score", self.score_above, self.score_below, self.score_above - self.score_below)
        cells = []
        for name, above, below, difference in [*(row for row in rows if row[-1] != 0), scores]:
            texts = (name, f"{above:.6g}", f"{below:.6g}", f"{difference:+.4f}")
            cells.append(tuple(map(Cell, texts)))
        longest_name = max(len(name) for name in ("feature", *self.features))
        columns = (
            Column("feature", words=True, width=longest_name),
            Column(str(self.above), width=12),
            Column(str(self.below), width=12),
            Column("difference"),
        )
        answer = f"No value of {self.above} would put {self.below} above it."
        if self.score_after is not None:
            named = ", ".join(self.changes)
            answer = f"With {named} of {self.above}, {self.below} would have the score {self.score_after:.6g}."
        return Table(columns, tuple(cells), answer)
