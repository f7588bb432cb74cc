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
from typing import Any

import numpy as np

from tautrank.arrays import (
    F64,
    FINITE_OR_MISSING,
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
    return _read(
        path_of(path), RUN_COLUMNS, 4, "score", "a TREC run has 'qid Q0 docno rank score tag'"
    )


def read_qrels(path: PathLike) -> Named:
    """Read TREC judgments, ``qid iteration docno relevance``, as relevance by query and document.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "qrels.txt"
    >>> _ = file.write_text("q1 0 d1 2\\nq1 0 d9 1\\n")
    >>> read_qrels(file)
    {'q1': {'d1': 2.0, 'd9': 1.0}}
    """
    return _read(
        path_of(path), QRELS_COLUMNS, 3, "relevance", "qrels have 'qid iteration docno relevance'"
    )


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
    columns = qid.tolist(), name.tolist(), rank.tolist(), score.tolist()
    _check_once(*columns[:2])
    lines = (
        f"{qid} Q0 {name} {rank} {score!r} {tag}\n"
        for qid, name, rank, score in zip(*columns, strict=True)
    )
    return "".join(lines)


def _check_once(qids: Sequence[Any], names: Sequence[str]) -> None:
    if repeated := [pair for pair, n in Counter(zip(qids, names, strict=True)).items() if n > 1]:
        qid, name = repeated[0]
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


def _read(file: Path, columns: int, value_column: int, value: str, shape: str) -> Named:
    """Read lines of words: the query first, the document third, and a number."""
    found: Named = {}
    for line, text in enumerate(io.BytesIO(read_text(file)), 1):
        words = text.split()
        if not words:
            continue
        if len(words) != columns:
            raise DataError(
                f"{file}:{line}: found {len(words)} columns; expected {columns} ({shape})"
            )
        qid, name, word = words[0].decode(), words[2].decode(), words[value_column].decode()
        number = finite_number(word)
        if number is None:
            raise DataError(f"{file}:{line}: found {value} '{word}'; expected a finite number")
        documents = found.setdefault(qid, {})
        if name in documents:
            raise DataError(
                f"{file}:{line}: document '{name}' of query '{qid}' is repeated; expected it once"
            )
        documents[name] = number
    if not found:
        raise DataError(
            f"{file}: found an empty file; expected lines of {columns} columns ({shape})"
        )
    return found


def named_numbers(given: Mapping[str, Mapping[str, float]], what: str) -> Named:
    """Return numbers by query and document after checking that they are finite.

    Args:
        given: the numbers.
        what: what they are, for errors.

    >>> named_numbers({7: {"d1": 2, "d9": 1}}, "qrels")
    {'7': {'d1': 2.0, 'd9': 1.0}}
    """
    if not all(isinstance(documents, Mapping) for documents in given.values()):
        raise DataError(f"{what}: expected {{query: {{document: number}}}}")
    values = iter(
        numbers(
            what, [value for documents in given.values() for value in documents.values()]
        ).tolist()
    )
    found = {
        str(qid): {str(name): next(values) for name in documents}
        for qid, documents in given.items()
    }
    for qid, documents in found.items():
        for name, value in documents.items():
            if not math.isfinite(value):
                where = f"{what}: document '{name}' of query '{qid}'"
                raise DataError(f"{where}: found {value:g}; expected a finite number")
    return found


def named_labels(data: RankingData) -> Named:
    """Return the labels of ranking data as judgments of its documents, by their ids.

    Args:
        data: the data; documents without ids are called d1, d2, ... by their rows in its source.

    >>> named_labels(RankingData.from_arrays([[1.0], [2.0]], [0, 2], group=[2]))
    {'0': {'d1': 0.0, 'd2': 2.0}}
    """
    found: Named = {str(qid): {} for qid in data.qids.tolist()}
    columns = data.qid_of_document.tolist(), data.document_names.tolist(), data.labels.tolist()
    _check_once(*columns[:2])
    for qid, name, label in zip(*columns, strict=True):
        found[str(qid)][name] = label
    return found


@dataclass(frozen=True)
class Judged:
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
        are = "is" if self.not_in_run == 1 else "are"
        absent = f"{counted(self.not_in_run, 'judged query')} {are} not in the run; counted with nothing retrieved"
        unjudged = f"{counted(self.not_judged, 'query')} of the run without judgments; left out"
        return [
            remark for n, remark in ((self.not_in_run, absent), (self.not_judged, unjudged)) if n
        ]

    @property
    def answered(self) -> Bools:
        """Which queries have a document that was retrieved."""
        retrieved = np.concatenate(([0], np.cumsum(self.scores > -np.inf)))
        return np.asarray(np.diff(retrieved[self.lists.offsets]) > 0)

    def for_trec_eval(self) -> Judged:
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
        lists = self.lists
        query = lists.query
        order = np.lexsort((-scores, query))
        ranked, query = scores[order], query[order]
        same = (ranked[1:] == ranked[:-1]) & (query[1:] == query[:-1]) & (ranked[1:] > -np.inf)
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        group = np.cumsum(np.append(True, ~same))[tied]
        words = np.array([self.names[document] for document in order[tied]])
        order[tied] = order[tied[np.lexsort((words, -group))[::-1]]]
        judged = None if lists.judged is None else lists.judged[order]
        return replace(
            self,
            scores=ranked.astype(np.float64),
            lists=replace(lists, labels=lists.labels[order], judged=judged),
            names=[self.names[document] for document in order],
        )


def judge_run(
    run: Mapping[str, Mapping[str, float]], qrels: Mapping[str, Mapping[str, float]]
) -> Judged:
    """Put a run and its judgments together.

    >>> judged = judge_run({"q1": {"d1": 9.5, "d2": 8.0}}, {"q1": {"d1": 2, "d9": 1}})
    >>> judged.scores.tolist(), judged.lists.labels.tolist()
    ([9.5, 8.0, -inf], [2.0, 0.0, 1.0])
    """
    return _judged(named_numbers(run, "run"), named_numbers(qrels, "qrels"))


def _judged(run: Named, qrels: Named, where: str = "run") -> Judged:
    """Put a run and its judgments together.

    Args:
        run: scores by query and document.
        qrels: judgments by query and document.
        where: the name of the run, for errors.
    """
    shared = run.keys() & qrels.keys()
    if not shared:
        its, theirs = (f"'{next(iter(ids))}'" if ids else "none" for ids in (run, qrels))
        expected = f"the same ids (found {its} and {theirs} first)"
        raise DataError(f"{where}: shares no query with the judgments; expected {expected}")
    names, scores, labels, sizes = list[str](), list[float](), list[float](), list[int]()
    for qid, judged in qrels.items():
        retrieved = run.get(qid, {})
        documents = list(retrieved | judged)  # those of the run first
        names += documents
        scores += [retrieved.get(name, -math.inf) for name in documents]
        labels += [judged.get(name, -1.0) for name in documents]
        sizes.append(len(documents))
    grades = np.array(labels)
    lists = Lists(
        labels=np.maximum(grades, 0.0),
        offsets=offsets_from_sizes(np.array(sizes)),
        qids=np.array(list(qrels)),
        judged=grades >= 0,
    )
    return Judged(
        scores=np.array(scores),
        lists=lists,
        not_in_run=len(qrels) - len(shared),
        not_judged=len(run) - len(shared),
        names=names,
    )


def read_judged_scores(scores: Path, data: Path, **options: Any) -> Judged:
    """Read a score file and its data, or a TREC run and its judgments.

    Args:
        scores: file of one score per line, or a run.
        data: file of labelled data, or qrels.
        options: options of `read`.
    """
    first_line(scores)  # a file that is not there is reported before the data is read
    return judge_given(scores, read_judgments(data, **options), str(scores), str(data))


Judgments = Named | RankingData


def read_judgments(given: Any, **options: Any) -> Judgments:
    """Return judgments: of named documents, or data with labels.

    Args:
        given: file of labelled data, or qrels; relevance by query and document; or data as it is.
        options: options of `read`.

    >>> read_judgments({"q1": {"d1": 2, "d9": 1}})
    {'q1': {'d1': 2.0, 'd9': 1.0}}
    """
    if isinstance(given, RankingData):
        return given
    if isinstance(given, Mapping):
        return named_numbers(given, "judged")
    if not isinstance(given, str | os.PathLike):
        expected = "qrels, {query: {document: label}}, or RankingData"
        raise DataError(f"judged: found {type(given).__name__}; expected {expected}")
    path = Path(given)
    words = first_line(path).split() if format_of(path) == LETOR else []
    is_letor = len(words) > 3 and (words[1].startswith("qid:") or re.match(r"\d+:", words[3]))
    return (
        read_qrels(path) if len(words) == QRELS_COLUMNS and not is_letor else read(path, **options)
    )


def judge_given(
    given: Any, judgments: Judgments, where: str = "run", judged: str = "judged"
) -> Judged:
    """Judge a run of named documents, or the scores of labelled data.

    Args:
        given: TREC run, or scores by query and document, which labelled data judges by its document
            ids; score file, in the order of the data's file, or one score per document of the data,
            in its order.
        judgments: what `read_judgments` returns.
        where, judged: what both are called in errors.

    >>> judge_given({"q1": {"d1": 0.5}}, read_judgments({"q1": {"d1": 2, "d9": 1}})).lists.labels.tolist()
    [2.0, 1.0]
    """
    is_file = isinstance(given, str | os.PathLike)
    columns = len(first_line(Path(given)).split()) if is_file else 0
    if 1 < columns < RUN_COLUMNS:
        expected = f"{RUN_COLUMNS}, a TREC run, or one score per line"
        raise DataError(f"{where}: found {columns} columns in the first line; expected {expected}")
    is_run = columns == RUN_COLUMNS if is_file else isinstance(given, Mapping)
    if is_run:
        qrels = named_labels(judgments) if isinstance(judgments, RankingData) else judgments
        result = _judged(read_run(given) if is_file else named_numbers(given, where), qrels, where)
        if isinstance(judgments, RankingData) and not np.any(
            result.scores[result.lists.judged] > -np.inf
        ):
            known = (
                ""
                if judgments.doc_ids is not None
                else ", which has no document ids: they are called d1, d2, ..."
            )
            raise DataError(
                f"{where}: shares no document with {judged}{known}; expected the same ids"
            )
        return result
    if not isinstance(judgments, RankingData):
        found = f"is qrels, but {where} holds scores, one per line"
        raise DataError(f"{judged}: {found}; expected ranking data with labels")
    scores = read_scores(given) if is_file else flat_numbers(where, given)
    if scores.size != judgments.n_documents:
        found = f"{scores.size} scores, but {judged} has {judgments.n_documents} documents"
        raise DataError(f"{where}: found {found}; expected one per document")
    check_each(where, scores, scores < np.inf, FINITE_OR_MISSING, judgments.offsets)
    if is_file:
        scores = judgments.in_document_order(scores)
    return Judged(scores, Lists.of(judgments))
