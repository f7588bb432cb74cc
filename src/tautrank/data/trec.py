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
    """How lines of words hold a number: the query first, the document third.

    Attributes:
        n_columns: number of words per line.
        value_column: the position of the number.
        value: what the number is.
        shape: a sentence about the columns, for errors.
    """

    n_columns: int
    value_column: int
    value: str
    shape: str

    def read(self, file: Path) -> Named:
        """Read the numbers of a file by query and document."""
        numbers_by_query: Named = {}
        for line, text in enumerate(io.BytesIO(read_text(file)), 1):
            words = text.split()
            if words:
                self._add(words, numbers_by_query, f"{file}:{line}")
        if not numbers_by_query:
            raise DataError(
                f"{file}: found an empty file; "
                f"expected lines of {self.n_columns} columns ({self.shape})"
            )
        return numbers_by_query

    def _add(self, words: list[bytes], numbers_by_query: Named, where: str) -> None:
        """Add the number of a line.

        Args:
            words: the words of the line.
            numbers_by_query: what it is added to.
            where: file and line, for errors.
        """
        if len(words) != self.n_columns:
            raise DataError(
                f"{where}: found {len(words)} columns; expected {self.n_columns} ({self.shape})"
            )
        qid, name = words[0].decode(), words[2].decode()
        word = words[self.value_column].decode()
        number = finite_number(word)
        if number is None:
            raise DataError(f"{where}: found {self.value} '{word}'; expected a finite number")
        number_by_document = numbers_by_query.setdefault(qid, {})
        if name in number_by_document:
            raise DataError(
                f"{where}: document '{name}' of query '{qid}' is repeated; expected it once"
            )
        number_by_document[name] = number


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
    qids, names = qid.tolist(), name.tolist()
    _check_once(qids, names)
    lines = []
    for query, document, place, value in zip(
        qids, names, rank.tolist(), score.tolist(), strict=True
    ):
        lines.append(f"{query} Q0 {document} {place} {value!r} {tag}\n")
    return "".join(lines)


def _check_once(qids: Sequence[Any], names: Sequence[str]) -> None:
    """Raise an error about the first document that is there twice for a query."""
    n_times = Counter(zip(qids, names, strict=True))
    for (qid, name), times in n_times.items():
        if times > 1:
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
    """Return numbers by query and document after checking that they are finite.

    Args:
        argument: the numbers.
        name: what errors call them.

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
    qids, names = data.qid_of_document.tolist(), data.document_names.tolist()
    _check_once(qids, names)
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
        retrieved = np.concatenate(([0], np.cumsum(self.scores > -np.inf)))
        return np.asarray(np.diff(retrieved[self.lists.offsets]) > 0)

    def for_trec_eval(self) -> JudgedRun:
        """Return the same with trec_eval's order as the order of the rows, for ``ties="input"``.

        trec_eval keeps scores in 32 bits and ranks equal ones by document name, the last name of
        the alphabet first. Documents without names keep their order.

        >>> judged = judge_run({"q": {"a": 1.0, "c": 1.0, "b": 2.0}}, {"q": {"a": 1}})
        >>> judged.lists.labels.tolist(), judged.for_trec_eval().lists.labels.tolist()
        ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
        """
        scores = self.scores.astype(np.float32)
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
        """Return the documents by query, falling score and falling name."""
        query = self.lists.query
        order = np.lexsort((-scores, query))
        ranked, query = scores[order], query[order]

        # Names are sorted where scores are equal only: comparing text takes long.
        has_same_score = (ranked[1:] == ranked[:-1]) & (ranked[1:] > -np.inf)
        ties_with_last = has_same_score & (query[1:] == query[:-1])
        is_tied = np.append(ties_with_last, False) | np.append(False, ties_with_last)
        tied = np.flatnonzero(is_tied)
        group = np.cumsum(np.append(True, ~ties_with_last))[tied]
        tied_names = np.array([names[document] for document in order[tied]])
        by_group_and_falling_name = np.lexsort((tied_names, -group))[::-1]
        order[tied] = order[tied[by_group_and_falling_name]]
        return order


def judge_run(
    run: Mapping[str, Mapping[str, float]], qrels: Mapping[str, Mapping[str, float]]
) -> JudgedRun:
    """Put a run and its judgments together.

    >>> judged = judge_run({"q1": {"d1": 9.5, "d2": 8.0}}, {"q1": {"d1": 2, "d9": 1}})
    >>> judged.scores.tolist(), judged.lists.labels.tolist()
    ([9.5, 8.0, -inf], [2.0, 0.0, 1.0])
    """
    return _judged(named_numbers(run, "run"), named_numbers(qrels, "qrels"))


def _judged(run: Named, qrels: Named, where: str = "run") -> JudgedRun:
    """Put a run and its judgments together.

    Args:
        run: scores by query and document.
        qrels: judgments by query and document.
        where: the name of the run, for errors.
    """
    n_shared = len(run.keys() & qrels.keys())
    if n_shared == 0:
        first_of_run, first_of_qrels = _first_id(run), _first_id(qrels)
        raise DataError(
            f"{where}: shares no query with the judgments; "
            f"expected the same ids (found {first_of_run} and {first_of_qrels} first)"
        )
    names: list[str] = []
    scores: list[float] = []
    labels: list[float] = []
    sizes = []
    for qid, judged in qrels.items():
        retrieved = run.get(qid, {})
        documents = list(retrieved | judged)  # those of the run first
        names += documents
        scores += [retrieved.get(document, -math.inf) for document in documents]
        labels += [judged.get(document, -1.0) for document in documents]
        sizes.append(len(documents))

    grades = np.array(labels)
    lists = Lists(
        labels=np.maximum(grades, 0.0),
        offsets=offsets_from_sizes(np.array(sizes)),
        qids=np.array(list(qrels)),
        judged=grades >= 0,
    )
    return JudgedRun(
        scores=np.array(scores),
        lists=lists,
        not_in_run=len(qrels) - n_shared,
        not_judged=len(run) - n_shared,
        names=names,
    )


def _first_id(numbers_by_query: Named) -> str:
    """Return the first query id, for an error."""
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
    """Return whether the first line of a file has the words of qrels, and not of LETOR text."""
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
    """Judge a run of named documents, or the scores of labelled data.

    Args:
        source: TREC run, or scores by query and document, which labelled data judges by its
            document ids; score file, in the order of the data's file, or one score per document of
            the data, in its order.
        judgments: what `read_judgments` returns.
        where, judged: what both are called in errors.

    >>> qrels = {"q1": {"d1": 2, "d9": 1}}
    >>> judge_given({"q1": {"d1": 0.5}}, qrels).lists.labels.tolist()
    [2.0, 1.0]
    """
    run = _run_or_none(source, where)
    if run is not None:
        if isinstance(judgments, RankingData):
            return _run_judged_by_data(run, judgments, where, judged)
        return _judged(run, judgments, where)

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


def _run_or_none(source: Any, where: str) -> Named | None:
    """Return the scores of a run by query and document; None if the source is no run.

    Args:
        source: file, scores by query and document, or an array.
        where: what errors call it.
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


def _run_judged_by_data(run: Named, data: RankingData, where: str, judged: str) -> JudgedRun:
    """Judge a run by the labels of data whose documents have its names.

    Args:
        run: scores by query and document.
        data: the data.
        where, judged: what both are called in errors.
    """
    result = _judged(run, named_labels(data), where)
    is_retrieved = result.scores[result.lists.judged] > -np.inf
    if not np.any(is_retrieved):
        hint = ""
        if data.doc_ids is None:
            hint = ", which has no document ids: they are called d1, d2, ..."
        raise DataError(f"{where}: shares no document with {judged}{hint}; expected the same ids")
    return result
