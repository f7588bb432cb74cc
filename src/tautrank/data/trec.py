"""TREC runs and relevance judgments (qrels); runs, or scores of labelled data, as flat arrays for
the metrics.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import (
    F32,
    F64,
    FINITE_OR_MISSING,
    I64,
    Bools,
    check_each,
    flat_numbers,
    numbers,
)
from tautrank.data.lists import Lists
from tautrank.data.queries import check_words, offsets_from_sizes
from tautrank.data.ranking_data import RankingData
from tautrank.data.reading import LETOR, format_of, read, read_scores
from tautrank.data.text_source import finite_number, first_line, read_text
from tautrank.errors import DataError, counted
from tautrank.files import PathLike, csv_text, path_of

RUN_COLUMNS = 6
QRELS_COLUMNS = 4
_NOT_JUDGED = -1.0  # a negative label means the same, as in trec_eval

Named = dict[str, dict[str, float]]
"""One number per document of each query: a run with its scores, or judgments."""


def read_run(path: PathLike) -> Named:
    """Read a TREC run, ``qid Q0 docno rank score tag``, as scores by query and document.

    The score orders the documents; the rank column is ignored, as trec_eval does.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.txt"
    >>> _ = file.write_text("q1 Q0 d1 1 9.5 me\\nq1 Q0 d2 2 8 me\\n")
    >>> read_run(file)
    {'q1': {'d1': 9.5, 'd2': 8.0}}
    """
    return _RUN.read(path_of(path))


def read_qrels(path: PathLike) -> Named:
    """Read TREC judgments, ``qid iteration docno relevance``, as relevance by query and document.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "qrels.txt"
    >>> _ = file.write_text("q1 0 d1 2\\nq1 0 d9 1\\n")
    >>> read_qrels(file)
    {'q1': {'d1': 2.0, 'd9': 1.0}}
    """
    return _QRELS.read(path_of(path))


class _Format(NamedTuple):
    """A format of TREC: lines of words, query id first, document's name third, and a number.

    Attributes:
        n_columns: number of words per line.
        value_column: the position of the number.
        value_name: what the number is called, for errors.
        columns: what the columns are, in words, for errors.
    """

    n_columns: int
    value_column: int
    value_name: str
    columns: str

    def read(self, file: Path) -> Named:
        """Read a run or judgments from a file of this format, as numbers by query and document;
        blank lines are skipped.
        """
        numbers_by_query: Named = {}
        lines = io.BytesIO(read_text(file))
        for line_number, line in enumerate(lines, 1):
            words = line.split()
            if words:
                self._add_line(words, numbers_by_query, f"{file}:{line_number}")
        if not numbers_by_query:
            raise DataError(
                f"{file}: found an empty file; "
                f"expected lines of {self.n_columns} columns ({self.columns})"
            )
        return numbers_by_query

    def _add_line(self, words: list[bytes], numbers_by_query: Named, where: str) -> None:
        """Check the words of a line and store its number in `numbers_by_query[query][document]`.

        Args:
            words: the words of the line.
            numbers_by_query: the numbers so far; this changes it.
            where: file and line, for errors.
        """
        if len(words) != self.n_columns:
            raise DataError(
                f"{where}: found {len(words)} columns; expected {self.n_columns} ({self.columns})"
            )
        # Runs and judgments both have the query first and the document third.
        qid = words[0].decode()
        document = words[2].decode()
        word = words[self.value_column].decode()
        number = finite_number(word)
        if number is None:
            raise DataError(f"{where}: found {self.value_name} '{word}'; expected a finite number")
        number_by_document = numbers_by_query.setdefault(qid, {})
        if document in number_by_document:
            raise DataError(
                f"{where}: document '{document}' of query '{qid}' is repeated; expected it once"
            )
        number_by_document[document] = number


_RUN = _Format(RUN_COLUMNS, 4, "score", "a TREC run has 'qid Q0 docno rank score tag'")
_QRELS = _Format(QRELS_COLUMNS, 3, "relevance", "qrels have 'qid iteration docno relevance'")


def run_lines(qid: Any, name: Any, rank: Any, score: Any, tag: str) -> str:
    """Return the lines of a TREC run.

    Args:
        qid, name, rank, score: arrays of one value per line: the query, the document's id, its rank
            and its score.
        tag: name of the run.

    >>> run_lines(np.array([7]), np.array(["d1"]), np.array([1]), np.array([0.5]), "me")
    '7 Q0 d1 1 0.5 me\\n'
    """
    check_words("qid", qid)
    check_words("doc_ids: the document id", name)
    query_ids = qid.tolist()
    documents = name.tolist()
    ranks = rank.tolist()
    scores = score.tolist()
    _check_no_repetition(query_ids, documents)
    lines = []
    for fields in zip(query_ids, documents, ranks, scores, strict=True):
        query_id, document, rank_of_document, score_of_document = fields
        lines.append(f"{query_id} Q0 {document} {rank_of_document} {score_of_document!r} {tag}\n")
    return "".join(lines)


def _check_no_repetition(qids: Sequence[Any], names: Sequence[str]) -> None:
    """Raise an error about the first pair of query id and document name that occurs twice.

    Args:
        qids, names: query id and name of each document.
    """
    count_by_pair = Counter(zip(qids, names, strict=True))
    for (qid, name), count in count_by_pair.items():
        if count > 1:
            raise DataError(
                f"doc_ids: document '{name}' of query '{qid}' is repeated; expected it once"
            )


def csv_lines(qid: Any, name: Any, rank: Any, score: Any) -> str:
    """Return a ranking as CSV with the columns qid, doc, rank and score.

    Args:
        qid, name, rank, score: arrays of one value per line.
    """
    rows = zip(qid.tolist(), name.tolist(), rank.tolist(), score.tolist(), strict=True)
    return csv_text([("qid", "doc", "rank", "score"), *rows])


def named_numbers(argument: Mapping[str, Mapping[str, float]], name: str) -> Named:
    """Check a run or judgments given as ``{query: {document: number}}``: return them with ids as
    text and numbers as finite floats.

    Args:
        argument: the run or the judgments.
        name: what errors call the argument.

    >>> named_numbers({7: {"d1": 2, "d9": 1}}, "qrels")
    {'7': {'d1': 2.0, 'd9': 1.0}}
    """
    numbers_by_query: Named = {}
    for qid, number_by_document in argument.items():
        if not isinstance(number_by_document, Mapping):
            raise DataError(f"{name}: expected {{query: {{document: number}}}}")
        values = numbers(name, list(number_by_document.values())).tolist()
        documents = [str(document) for document in number_by_document]
        numbers_by_query[str(qid)] = dict(zip(documents, values, strict=True))
    for qid, number_by_document in numbers_by_query.items():
        for document, number in number_by_document.items():
            if not math.isfinite(number):
                raise DataError(
                    f"{name}: document '{document}' of query '{qid}': found {number:g}; "
                    "expected a finite number"
                )
    return numbers_by_query


def named_labels(data: RankingData) -> Named:
    """Return the labels of ranking data as judgments of its documents, by their ids.

    Args:
        data: the data; documents without ids are called d1, d2, ... by their rows in its source.

    >>> named_labels(RankingData.from_arrays([[1.0], [2.0]], [0, 2], group=[2]))
    {'0': {'d1': 0.0, 'd2': 2.0}}
    """
    qids = data.qid_of_document.tolist()
    names = data.document_names.tolist()
    _check_no_repetition(qids, names)
    labels_by_query: Named = {str(qid): {} for qid in data.qids.tolist()}
    for qid, name, label in zip(qids, names, data.labels.tolist(), strict=True):
        labels_by_query[str(qid)][name] = label
    return labels_by_query


@dataclass(frozen=True)
class JudgedRun:
    """A run under judgments, or the scores of labelled data: what every metric takes.

    Attributes:
        scores: the run's scores; ``-inf`` marks a judged document that the run did not retrieve.
        lists: the judged queries, in the order of the judgments. Documents without a judgment and
            those with a negative one have the label 0, as trec_eval counts them.
        not_in_run: judged queries without a document in the run; they count, with nothing retrieved
            (trec_eval -c).
        not_judged: queries of the run without judgments; they are left out.
        names: the names of the documents; None for documents without names.
    """

    scores: F64
    lists: Lists
    not_in_run: int = 0
    not_judged: int = 0
    names: list[str] | None = field(default=None, repr=False)

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was left out or filled in."""
        sentences = []
        if self.not_in_run:
            queries = counted(self.not_in_run, "judged query")
            verb = "is" if self.not_in_run == 1 else "are"
            sentences.append(f"{queries} {verb} not in the run; counted with nothing retrieved")
        if self.not_judged:
            queries = counted(self.not_judged, "query")
            sentences.append(f"{queries} of the run without judgments; left out")
        return sentences

    @property
    def answered(self) -> Bools:
        """Which queries have a document that was retrieved."""
        is_retrieved = self.scores > -np.inf
        # Entry i counts the retrieved documents before document i: the differences between the
        # offsets, where queries begin, are the counts of the queries.
        n_retrieved_before = np.concatenate(([0], np.cumsum(is_retrieved)))
        n_retrieved_of_query = np.diff(n_retrieved_before[self.lists.offsets])
        return np.asarray(n_retrieved_of_query > 0)

    def for_trec_eval(self) -> JudgedRun:
        """Return the same with trec_eval's order as the order of the rows, for ``ties="input"``.

        trec_eval keeps scores in 32 bits and ranks equal ones by document name, the last name of
        the alphabet first. Documents without names keep their order.

        >>> judged = judge_run({"q": {"a": 1.0, "c": 1.0, "b": 2.0}}, {"q": {"a": 1}})
        >>> judged.lists.labels.tolist(), judged.for_trec_eval().lists.labels.tolist()
        ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
        """
        scores = self.scores.astype(np.float32)  # 32 bits, as in trec_eval
        if self.names is None:
            return replace(self, scores=scores.astype(np.float64))
        order = self._order_of_trec_eval(scores, self.names)
        judged = self.lists.judged
        lists = replace(
            self.lists,
            labels=self.lists.labels[order],
            judged=None if judged is None else judged[order],
        )
        return replace(
            self,
            scores=scores[order].astype(np.float64),
            lists=lists,
            names=[self.names[document] for document in order],
        )

    def _order_of_trec_eval(self, scores: F32, names: Sequence[str]) -> I64:
        """Return the positions of all documents sorted by query, falling score and falling name.

        Args:
            scores: the scores in 32 bits.
            names: the documents' names.
        """
        query_of_document = self.lists.query
        order = np.lexsort((-scores, query_of_document))
        ranked_scores = scores[order]
        ranked_queries = query_of_document[order]

        # Names are sorted only among documents that were retrieved with equal scores: comparing
        # text takes long.
        same_query = ranked_queries[1:] == ranked_queries[:-1]
        same_score = ranked_scores[1:] == ranked_scores[:-1]
        is_retrieved = ranked_scores[1:] > -np.inf
        ties_with_previous = same_query & same_score & is_retrieved
        is_tied = np.append(ties_with_previous, False) | np.append(False, ties_with_previous)
        tied_positions = np.flatnonzero(is_tied)
        # Documents that tie with each other have the same group number.
        group_of_position = np.cumsum(np.append(True, ~ties_with_previous))
        groups = group_of_position[tied_positions]
        tied_names = np.array([names[document] for document in order[tied_positions]])

        # Reversed, so that names fall; groups, sorted from the last, then rise.
        by_group_and_falling_name = np.lexsort((tied_names, -groups))[::-1]
        order[tied_positions] = order[tied_positions[by_group_and_falling_name]]
        return order


def judge_run(
    run: Mapping[str, Mapping[str, float]], qrels: Mapping[str, Mapping[str, float]]
) -> JudgedRun:
    """Return the scores of a run and the labels that judgments give to its documents, by query.

    Judged documents that the run did not retrieve get the score ``-inf``, documents without a
    judgment the label 0.

    >>> judged = judge_run({"q1": {"d1": 9.5, "d2": 8.0}}, {"q1": {"d1": 2, "d9": 1}})
    >>> judged.scores.tolist(), judged.lists.labels.tolist()
    ([9.5, 8.0, -inf], [2.0, 0.0, 1.0])
    """
    return _judge_named(named_numbers(run, "run"), named_numbers(qrels, "qrels"))


def _judge_named(run: Named, qrels: Named, where: str = "run") -> JudgedRun:
    """Put a run and its relevance judgments together as flat arrays of the judged queries.

    The documents of a query are those of the run, then those that only the judgments have.

    Args:
        run: scores by query and document.
        qrels: judgments by query and document.
        where: the name of the run, for errors.
    """
    n_shared = len(run.keys() & qrels.keys())
    if n_shared == 0:
        first_of_run = _quote_first_id(run)
        first_of_qrels = _quote_first_id(qrels)
        raise DataError(
            f"{where}: shares no query with the judgments; "
            f"expected the same ids (found {first_of_run} and {first_of_qrels} first)"
        )
    names: list[str] = []
    scores: list[float] = []
    labels: list[float] = []
    sizes = []
    for qid, label_by_document in qrels.items():
        score_by_document = run.get(qid, {})
        documents = list(score_by_document | label_by_document)
        names += documents
        scores += [score_by_document.get(document, -math.inf) for document in documents]
        labels += [label_by_document.get(document, _NOT_JUDGED) for document in documents]
        sizes.append(len(documents))

    labels_or_negative = np.array(labels)
    lists = Lists(
        labels=np.maximum(labels_or_negative, 0.0),
        offsets=offsets_from_sizes(np.array(sizes)),
        qids=np.array(list(qrels)),
        judged=labels_or_negative >= 0,
    )
    return JudgedRun(
        scores=np.array(scores),
        lists=lists,
        not_in_run=len(qrels) - n_shared,
        not_judged=len(run) - n_shared,
        names=names,
    )


def _quote_first_id(numbers_by_query: Named) -> str:
    """Return the first query id in quotes, or ``none``, for an error."""
    for qid in numbers_by_query:
        return f"'{qid}'"
    return "none"


def read_judged_scores(scores: Path, data: Path, **options: Any) -> JudgedRun:
    """Read a score file and its data, or a TREC run and its judgments.

    Args:
        scores: file of one score per line, or a run.
        data: file of labelled data, or qrels.
        options: options of `read`.
    """
    first_line(scores)  # a file that is not there is reported before the data is read
    return judge_given(scores, read_judgments(data, **options), str(scores), str(data))


Judgments = Named | RankingData


def read_judgments(source: Any, **options: Any) -> Judgments:
    """Return judgments: of named documents, or data with labels.

    Args:
        source: file of labelled data, or qrels; relevance by query and document; or data as it is.
        options: options of `read`.

    >>> read_judgments({"q1": {"d1": 2, "d9": 1}})
    {'q1': {'d1': 2.0, 'd9': 1.0}}
    """
    if isinstance(source, RankingData):
        return source
    if isinstance(source, Mapping):
        return named_numbers(source, "judged")
    if not isinstance(source, str | os.PathLike):
        raise DataError(
            f"judged: found {type(source).__name__}; "
            "expected qrels, {query: {document: label}}, or RankingData"
        )
    path = Path(source)
    if _is_qrels(path):
        return read_qrels(path)
    return read(path, **options)


def _is_qrels(path: Path) -> bool:
    """Return whether a file holds TREC judgments: its first line has four words, which are not
    those of LETOR text (``2 qid:7 1:0.5 2:1``).
    """
    if format_of(path) != LETOR:
        return False
    words = first_line(path).split()
    if len(words) != QRELS_COLUMNS:
        return False
    is_letor = words[1].startswith("qid:") or re.match(r"\d+:", words[3])
    return not is_letor


def judge_given(
    source: Any, judgments: Judgments, where: str = "run", judged: str = "judged"
) -> JudgedRun:
    """Put scores and judgments together: a run of named documents with qrels or labelled data, or
    plain scores with the labelled data they belong to.

    Args:
        source: TREC run, or scores by query and document, which labelled data judges by its
            document ids; score file, in the order of the data's file, or one score per document of
            the data, in its order.
        judgments: what `read_judgments` returns.
        where: what errors call the source.
        judged: what errors call the judgments.

    >>> qrels = {"q1": {"d1": 2, "d9": 1}}
    >>> judge_given({"q1": {"d1": 0.5}}, qrels).lists.labels.tolist()
    [2.0, 1.0]
    """
    run = _read_run_or_none(source, where)
    if run is not None:
        if isinstance(judgments, RankingData):
            return _judge_run_by_data(run, judgments, where, judged)
        return _judge_named(run, judgments, where)

    if not isinstance(judgments, RankingData):
        raise DataError(
            f"{judged}: is qrels, but {where} holds scores, one per line; "
            "expected ranking data with labels"
        )
    is_file = isinstance(source, str | os.PathLike)
    scores = read_scores(source) if is_file else flat_numbers(where, source)
    if scores.size != judgments.n_documents:
        raise DataError(
            f"{where}: found {scores.size} scores, but {judged} has "
            f"{judgments.n_documents} documents; expected one per document"
        )
    check_each(where, scores, scores < np.inf, FINITE_OR_MISSING, judgments.offsets)
    if is_file:
        scores = judgments.in_document_order(scores)
    return JudgedRun(scores, Lists.of(judgments))


def _read_run_or_none(source: Any, where: str) -> Named | None:
    """Return a run as scores by query and document; None if the source is scores without names.

    Args:
        source: a run's file or its scores by query and document; or a score file, or an array.
        where: what errors call the source.
    """
    if isinstance(source, Mapping):
        return named_numbers(source, where)
    if not isinstance(source, str | os.PathLike):
        return None
    n_columns = len(first_line(Path(source)).split())
    if n_columns == RUN_COLUMNS:
        return read_run(source)
    if 1 < n_columns < RUN_COLUMNS:
        raise DataError(
            f"{where}: found {n_columns} columns in the first line; "
            f"expected {RUN_COLUMNS}, a TREC run, or one score per line"
        )
    return None


def _judge_run_by_data(run: Named, data: RankingData, where: str, judged: str) -> JudgedRun:
    """Judge a run by the labels of ranking data, whose document ids are the names in the run; raise
    an error if no retrieved document is in the data.

    Args:
        run: scores by query and document.
        data: labelled data.
        where: what errors call the run.
        judged: what errors call the data.
    """
    result = _judge_named(run, named_labels(data), where)
    # Judged documents that the run did not retrieve have the score -inf.
    is_retrieved = result.scores[result.lists.judged] > -np.inf
    if not np.any(is_retrieved):
        hint = ""
        if data.doc_ids is None:
            hint = ", which has no document ids: they are called d1, d2, ..."
        raise DataError(f"{where}: shares no document with {judged}{hint}; expected the same ids")
    return result
