"""Why a document has its score, and why one is above another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import F64, Array
from tautrank.errors import DataError
from tautrank.json_values import to_json
from tautrank.notebooks import pandas
from tautrank.tables import Cell, Column, Table

_DOCUMENTS_IN_TABLE = 20
_FEATURES_OF_DOCUMENT = 4


class _Swap(NamedTuple):
    """A change that puts the lower of two documents above the other.

    Args:
        columns: the features that take the values of the upper document; empty if there is no such
            change.
        score: the score of the lower document after it; None if there is no such change.
    """

    columns: list[int]
    score: float | None


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
            raise DataError(
                f"above: document {above} has the score {self.scores[high]:.6g} "
                f"and document {below} {self.scores[low]:.6g}; "
                "expected the one with the greater score first"
            )
        differences = self.contributions[high] - self.contributions[low]
        order = np.argsort(-np.abs(differences), kind="stable")
        swap = self._swap(high, low, [int(column) for column in order if differences[column] > 0])
        return Difference(
            above=self.documents[high].item(),
            below=self.documents[low].item(),
            features=tuple(self.features[column] for column in order),
            values_above=self.values[high, order],
            values_below=self.values[low, order],
            differences=differences[order],
            score_above=float(self.scores[high]),
            score_below=float(self.scores[low]),
            changes=tuple(self.features[column] for column in swap.columns),
            score_after=swap.score,
        )

    def _row(self, document: Any, name: str) -> int:
        """Return the number of the row of a document, which is given by its label (an id, if the
        data has ids) or by its number from 0; raise an error if there is none.

        Args:
            document: the label or number.
            name: the argument that holds it, for the error.
        """
        text = str(document)
        labels = [str(label) for label in self.documents]
        if labels.count(text) == 1:
            return labels.index(text)
        # A label goes before a number; a label that occurs twice names no document.
        is_number = text not in labels and text.isdecimal()
        if is_number and int(text) < len(labels):
            return int(text)
        example = labels[0] if labels else "none"
        raise DataError(
            f"{name}: found document {document}; expected one of {len(labels)}, such as {example}"
        )

    def _swap(self, high: int, low: int, candidates: list[int]) -> _Swap:
        """Return a small change that puts document `low` above document `high`: columns in which it
        takes the values of `high`, and its score after that; no columns if no change does.

        Args:
            high, low: the rows of the two documents.
            candidates: columns to change, those that help most first.
        """
        first_columns = self._first_that_swap(high, low, candidates)
        if not first_columns:
            return _Swap([], None)

        # Take back every change that the others do not need, the smallest one first.
        columns = first_columns
        for column in reversed(first_columns):
            without = [kept for kept in columns if kept != column]
            if self._is_swapped(high, low, without):
                columns = without
        # The scores of both documents; only that of `low` is wanted.
        _score_high, score = self._scores_after(high, low, columns)
        return _Swap(columns, float(score))

    def _first_that_swap(self, high: int, low: int, candidates: list[int]) -> list[int]:
        """Return the shortest beginning of the list of candidates whose change puts document `low`
        above document `high`; empty if not even changing all of them does.

        A changed column of `low` has the value of `high`.
        """
        for n_columns in range(1, len(candidates) + 1):
            if self._is_swapped(high, low, candidates[:n_columns]):
                return candidates[:n_columns]
        return []

    def _is_swapped(self, high: int, low: int, columns: list[int]) -> bool:
        """Whether document `low` is above `high` once it has the values of `high` in some columns."""
        score_high, score_low = self._scores_after(high, low, columns)
        return bool(score_low > score_high)

    def _scores_after(self, high: int, low: int, columns: list[int]) -> tuple[float, float]:
        """Return the scores of the documents `high` and `low` once `low` has the values of `high` in
        some columns.

        Args:
            high, low: the rows of the two documents.
            columns: the columns that are changed.
        """
        # A score depends on the whole list (list features): all rows are scored.
        if self.by_list:
            changed = self.values.copy()
            changed[low, columns] = self.values[high, columns]
            scores = self.predict(changed)
            return scores[high], scores[low]

        # Otherwise two rows are enough: the first is `high`, the second `low`.
        pair = self.values[[high, low]]
        pair[1, columns] = self.values[high, columns]
        score_high, score_low = self.predict(pair)
        return score_high, score_low

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

    def to_text(self, n_documents: int | None = None) -> str:
        """Return a line per document, the best first: its score, and the features that add or take
        most.

        Args:
            n_documents: the number of documents to print; None for all.
        """
        return self._table(n_documents).to_text(titles=False)

    def _table(self, n_documents: int | None) -> Table:
        """Return a table with a row for each of the best documents, the best first: its label, its
        score, and the features that add or take most.

        Args:
            n_documents: the number of documents; None for all.
        """
        columns = (
            Column("document"),
            Column("score"),
            Column("largest contributions", words=True),
        )
        best = np.argsort(-self.scores, kind="stable")[:n_documents]
        rows = []
        for row in best:
            document = Cell(str(self.documents[row]))
            score = Cell(f"{self.scores[row]:+.4f}")
            rows.append((document, score, Cell(self._largest_contributions(row))))
        return Table(columns, tuple(rows), self._note())

    def _largest_contributions(self, row: int) -> str:
        """Return in one text the features that add most to, or take most from, the score of the
        document in a row, such as ``bm25 +0.1, clicks -0.05``; those that add 0 are left out.
        """
        contributions = self.contributions[row]
        largest = np.argsort(-np.abs(contributions), kind="stable")[:_FEATURES_OF_DOCUMENT]
        texts = []
        for column in largest:
            if contributions[column] != 0:
                texts.append(f"{self.features[column]} {contributions[column]:+.4f}")
        return ", ".join(texts)

    def _note(self) -> str:
        """Return what stands below a table of the first documents."""
        note = f"Every document starts from {self.base:.4f}"
        n_left_out = len(self.documents) - _DOCUMENTS_IN_TABLE
        if n_left_out > 0:
            note += f"; {n_left_out:,} more are not shown"
        return note

    def __repr__(self) -> str:
        return f"{self.to_text(_DOCUMENTS_IN_TABLE)}\n{self._note()}"

    def _repr_html_(self) -> str:
        return self._table(_DOCUMENTS_IN_TABLE).to_html()


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
        """Return the table that compares two documents: a row for each feature that adds unequally
        to their scores, and one for the scores; its note says what would swap the two.
        """
        # The column is as wide as the longest name of all features, also of those left out.
        longest_name = max(len(name) for name in ("feature", *self.features))
        columns = (
            Column("feature", words=True, width=longest_name),
            Column(str(self.above), width=12),
            Column(str(self.below), width=12),
            Column("difference"),
        )
        rows = []
        # Features that add the same to both scores are left out.
        for index in np.flatnonzero(self.differences):
            rows.append(
                _cells(
                    self.features[index],
                    self.values_above[index],
                    self.values_below[index],
                    self.differences[index],
                )
            )
        lead = self.score_above - self.score_below
        rows.append(_cells("score", self.score_above, self.score_below, lead))
        return Table(columns, tuple(rows), self._note())

    def _note(self) -> str:
        """Return a sentence on what would swap the two documents: the features (`changes`) whose
        values of the upper document would put the lower one above it, and its score then.
        """
        # None: not even all values together would.
        if self.score_after is None:
            return f"No value of {self.above} would put {self.below} above it."
        return (
            f"With {', '.join(self.changes)} of {self.above}, "
            f"{self.below} would have the score {self.score_after:.6g}."
        )


def _cells(name: str, above: float, below: float, difference: float) -> tuple[Cell, ...]:
    """Return a row of the table that compares two documents: a name (a feature, or the score), its
    values in the upper and in the lower document, and what the difference adds to the score.
    """
    return Cell(name), Cell(f"{above:.6g}"), Cell(f"{below:.6g}"), Cell(f"{difference:+.4f}")
