"""Documents in the order a ranker puts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tautrank.arguments import whole
from tautrank.arrays import F64, I64, Array
from tautrank.notebooks import html_table, pandas

_SHOWN = 20


@dataclass(frozen=True, eq=False)
class Ranking:
    """Documents in the order a ranker puts them: query after query, the best document of each first.

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
        return Ranking(self.qid[kept], self.document[kept], self.rank[kept], self.score[kept], named)

    def to_frame(self) -> Any:
        """Return a pandas frame of one row per line, with the document's id if it has one."""
        names = {} if self.doc_id is None else {"doc_id": self.doc_id}
        columns = {"qid": self.qid, "rank": self.rank, "document": self.document, **names, "score": self.score}
        return pandas().DataFrame(columns)

    def _repr_html_(self) -> str:
        named = self.document if self.doc_id is None else self.doc_id
        lines = zip(self.qid[:_SHOWN], self.rank[:_SHOWN], named[:_SHOWN], self.score[:_SHOWN], strict=True)
        more = f"and {len(self) - _SHOWN:,} more" if len(self) > _SHOWN else ""
        return html_table(("qid", "rank", "document", "score"), lines, more)

    def __len__(self) -> int:
        return int(self.document.size)
