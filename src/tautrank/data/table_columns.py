"""Which columns of a table hold labels, query ids, document ids and features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tautrank.arrays import F32, Array
from tautrank.data.features import checked_labels
from tautrank.data.frames import column_numbers, is_numeric
from tautrank.data.queries import Queries, checked_ids, checked_queries
from tautrank.errors import DataError, TautrankWarning, counted, unknown

if TYPE_CHECKING:
    from tautrank.data.frames import Frame

_VALUE_OF_ROLE = {"label": "a label", "qid": "a query id", "doc_id": "a document id"}


@dataclass(frozen=True)
class TableColumns:
    """Which columns of a table hold what.

    Attributes:
        label, qid, doc_id: columns of labels, query ids and document ids.
        features: columns of features; None for all others that hold numbers or categories.
        drop: columns to leave out.
        categorical: columns of features that hold categories whatever their type.
        unlabelled: whether the column of labels may be missing, and `drop` name columns that are
            not there.
        where: what errors and warnings call the table.
    """

    label: str
    qid: str
    doc_id: str | None
    features: Sequence[str] | None
    drop: Sequence[str]
    categorical: Sequence[str]
    unlabelled: bool
    where: str

    def check(self, frame: Frame) -> None:
        """Raise an error about a named column that the table does not have, a table without rows,
        or an empty cell among labels and ids.
        """
        name_by_role = self._column_by_role(frame)
        # A role is what a column is for: label, query id, document id.
        expected_columns = list(name_by_role.items())
        expected_columns += [("features", name) for name in self.features or ()]
        expected_columns += [("categorical", name) for name in self.categorical]
        # Data without labels may lack columns that were dropped from the training data.
        if not self.unlabelled:
            expected_columns += [("drop", name) for name in self.drop]
        for role, name in expected_columns:
            if name not in frame.columns:
                raise DataError(f"{self.where}: {role}: {unknown('column', name, frame.columns)}")

        if len(frame) == 0:
            raise DataError(f"{self.where}: found no rows; expected one row per document")
        for role, name in name_by_role.items():
            n_empty = frame.get_column(name).null_count()
            if n_empty:
                raise DataError(
                    f"{self.where}: column '{name}' has {counted(n_empty, 'empty cell')}; "
                    f"expected {_VALUE_OF_ROLE[role]} in every row"
                )

    def _column_by_role(self, frame: Frame) -> dict[str, str]:
        """Return the names of the columns of labels, query ids and document ids, by role."""
        column_by_role = {}
        if self._has_labels(frame):
            column_by_role["label"] = self.label
        column_by_role["qid"] = self.qid
        if self.doc_id is not None:
            column_by_role["doc_id"] = self.doc_id
        return column_by_role

    def _has_labels(self, frame: Frame) -> bool:
        """Return whether labels are required, or there all the same."""
        return not self.unlabelled or self.label in frame.columns

    def feature_names(self, frame: Frame) -> list[str]:
        """Return the names of the feature columns: those the user named, or else all other columns
        of numbers or categories; raise an error if there are none.
        """
        if self.features is not None:
            names = list(self.features)
        else:
            names = self._columns_of_numbers(frame)
        if not names:
            raise DataError(
                f"{self.where}: found no feature columns besides '{self.label}' and "
                f"'{self.qid}'; expected at least one"
            )
        return names

    def _columns_of_numbers(self, frame: Frame) -> list[str]:
        """Return the columns of numbers or categories that hold no labels or ids; a warning names
        columns of text or dates, which are left out.
        """
        no_features = {self.label, self.qid, self.doc_id, *self.drop}
        names = []
        left_out = []
        for name in frame.columns:
            if name in no_features:
                continue
            if name in self.categorical or is_numeric(frame.get_column(name)):
                names.append(name)
            else:
                left_out.append(f"'{name}'")
        if left_out:
            # Reported for the caller of `from_frame`, or of `read_csv` and the like.
            calls_between = 4 if self.where == "frame" else 5
            warnings.warn(
                f"{self.where}: left out {', '.join(left_out)}, without numbers",
                TautrankWarning,
                stacklevel=calls_between,
            )
        return names

    def labels(self, frame: Frame) -> F32:
        """Return the labels, 0 for all documents of a table without labels."""
        n_rows = len(frame)
        if not self._has_labels(frame):
            return np.zeros(n_rows, np.float32)
        name = f"column '{self.label}'"
        numbers = column_numbers(frame.get_column(self.label), name)
        return checked_labels(numbers, n_rows, name)

    def queries(self, frame: Frame) -> Queries:
        """Return the rows of the table grouped into queries by the column of query ids; a warning
        says so if the rows of a query are scattered.
        """
        ids = frame.get_column(self.qid).to_native()
        return checked_queries(len(frame), None, ids, None, of="X", where=self.where)

    def doc_ids(self, frame: Frame) -> Array | None:
        """Return one document id per row as text, None if no column has them."""
        if self.doc_id is None:
            return None
        ids = frame.get_column(self.doc_id).to_native()
        return checked_ids(ids, len(frame), name="doc_id").astype(str)
