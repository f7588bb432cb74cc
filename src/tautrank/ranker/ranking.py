"""Documents in the order of their scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tautrank.arguments import whole
from tautrank.arrays import F64, I64, Array
from tautrank.notebooks import pandas
from tautrank.tables import Table

_ROWS_IN_NOTEBOOK = 20


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
        """Return the ranking cut to the best ``k`` documents of each query.

        Args:
            k: number of documents.
        """
        # Ranks are 1, 2, ... within each query.
        is_top = self.rank <= whole("k", k, least=1)
        return Ranking(
            qid=self.qid[is_top],
            document=self.document[is_top],
            rank=self.rank[is_top],
            score=self.score[is_top],
            doc_id=None if self.doc_id is None else self.doc_id[is_top],
        )

    def to_frame(self) -> Any:
        """Return the ranking as a pandas frame: a row per document, with its query, rank, row number,
        score, and id if the data had ids.
        """
        columns: dict[str, Array] = {"qid": self.qid, "rank": self.rank, "document": self.document}
        if self.doc_id is not None:
            columns["doc_id"] = self.doc_id
        columns["score"] = self.score
        return pandas().DataFrame(columns)

    def _repr_html_(self) -> str:
        """Return the first rows of the ranking as an HTML table, which a notebook shows; a note says
        how many more there are.
        """
        documents = self.document if self.doc_id is None else self.doc_id
        columns = [self.qid, self.rank, documents, self.score]
        rows: list[list[str]] = []
        for qid, rank, document, score in zip(*columns, strict=True):
            if len(rows) == _ROWS_IN_NOTEBOOK:
                break
            rows.append([str(qid), str(rank), str(document), f"{score:.6g}"])

        n_left_out = len(self) - len(rows)
        note = f"and {n_left_out:,} more" if n_left_out else ""
        return Table.of(["qid", "rank", "document", "score"], rows, note).to_html()

    def __len__(self) -> int:
        return int(self.document.size)
