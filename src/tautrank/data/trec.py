"""TREC runs and relevance judgments (qrels), and both as flat arrays for the metrics."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import F64, I64, Array, Bools, numbers, place
from tautrank.data.arrays import check_words, gathered, offsets_from_sizes
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import finite_number, line_of, read_text
from tautrank.errors import DataError

RUN_COLUMNS = 6
QRELS_COLUMNS = 4

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, float]]


class _Form(NamedTuple):
    """What the lines of a file hold: how many columns, which one is the number, what it is, and all of it in words."""

    columns: int
    value_column: int
    value: str
    shape: str


_RUN = _Form(RUN_COLUMNS, 4, "score", "a TREC run has 'qid Q0 docno rank score tag'")
_QRELS = _Form(QRELS_COLUMNS, 3, "relevance", "qrels have 'qid iteration docno relevance'")


@dataclass(frozen=True, eq=False)
class Listing:
    """One number per named document of each query: a run with its scores, or judgments.

    Attributes:
        text: all names, as UTF-8.
        starts, lengths: where the name of each document is in `text`; documents of a query are adjacent.
        values: one number per document.
        offsets, qids: the queries.
    """

    text: bytearray
    starts: I64
    lengths: I64
    values: F64
    offsets: I64
    qids: list[str]

    @classmethod
    def of(cls, given: Mapping[str, Mapping[str, float]], what: str = "run") -> Listing:
        """Lay out numbers by query and document.

        Args:
            given: the numbers.
            what: what they are, for errors.

        >>> listing = Listing.of({"q1": {"d1": 9.5, "d2": 8.0}})
        >>> listing.name(1), listing.values.tolist()
        ('d2', [9.5, 8.0])
        """
        if not all(isinstance(documents, Mapping) for documents in given.values()):
            raise DataError(f"{what}: expected {{query: {{document: number}}}}")
        names = [str(name) for documents in given.values() for name in documents]
        values = numbers(what, [value for documents in given.values() for value in documents.values()])
        offsets = offsets_from_sizes(np.array([len(documents) for documents in given.values()], np.int64))
        listing = cls._named(names, values, offsets, list(map(str, given)))
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            where = f"{what}: document '{listing.name(bad[0])}' of query '{listing.query(bad[0])}'"
            raise DataError(f"{where}: found {values[bad[0]]:g}; expected a finite number")
        return listing

    @classmethod
    def of_data(cls, data: RankingData) -> Listing:
        """Return the labels of ranking data as judgments of its documents, by their ids.

        Args:
            data: the data; documents without ids are called d1, d2, ... by their rows in its source.

        >>> Listing.of_data(RankingData.from_arrays([[1.0], [2.0]], [0, 2], group=[2])).to_dict()
        {'0': {'d1': 0.0, 'd2': 2.0}}
        """
        qids = list(map(str, data.qids.tolist()))
        return cls._named(data.document_names.tolist(), data.labels.astype(np.float64), data.offsets, qids)

    @classmethod
    def _named(cls, names: list[str], values: F64, offsets: I64, qids: list[str]) -> Listing:
        words = [name.encode() for name in names]
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        return cls(bytearray(b"".join(words)), np.cumsum(lengths) - lengths, lengths, values, offsets, qids)

    @property
    def names(self) -> tuple[Array, I64, I64]:
        """The names as the kernels take them."""
        return np.frombuffer(self.text, np.uint8), self.starts, self.lengths

    def name(self, document: int) -> str:
        """Return the name of a document."""
        start = int(self.starts[document])
        return self.text[start : start + int(self.lengths[document])].decode()

    def query(self, document: int) -> str:
        """Return the query of a document."""
        return self.qids[place(self.offsets, document)[0]]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the numbers by query and document."""
        names, values = map(self.name, range(self.values.size)), iter(self.values.tolist())
        pairs = zip(names, values, strict=True)
        return {
            qid: dict(next(pairs) for _ in range(size))
            for qid, size in zip(self.qids, np.diff(self.offsets).tolist(), strict=True)
        }


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a TREC run, ``qid Q0 docno rank score tag``, as scores by query and document.

    The score orders the documents; the rank column is ignored, as trec_eval does.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.txt"
    >>> _ = file.write_text("q1 Q0 d1 1 9.5 me\\nq1 Q0 d2 2 8 me\\n")
    >>> read_run(file)
    {'q1': {'d1': 9.5, 'd2': 8.0}}
    """
    return list_run(Path(path)).to_dict()


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Read TREC judgments, ``qid iteration docno relevance``, as relevance by query and document.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "qrels.txt"
    >>> _ = file.write_text("q1 0 d1 2\\nq1 0 d9 1\\n")
    >>> read_qrels(file)
    {'q1': {'d1': 2.0, 'd9': 1.0}}
    """
    return list_qrels(Path(path)).to_dict()


def list_run(file: Path) -> Listing:
    """Read a TREC run as flat arrays: two million lines per second and core."""
    return _read(file, _RUN)


def list_qrels(file: Path) -> Listing:
    """Read TREC judgments as flat arrays."""
    return _read(file, _QRELS)


def run_lines(qid: Any, name: Any, rank: Any, score: Any, tag: str) -> str:
    """Return the lines of a TREC run.

    Args:
        qid, name, rank, score: arrays of one value per line: the query, the document's id, its rank and its score.
        tag: name of the run.

    >>> run_lines(np.array([7]), np.array(["d1"]), np.array([1]), np.array([0.5]), "me")
    '7 Q0 d1 1 0.5 me\\n'
    """
    check_words("qid", qid)
    check_words("doc_ids: the document id", name)
    columns = qid.tolist(), name.tolist(), rank.tolist(), score.tolist()
    if repeated := [pair for pair, n in Counter(zip(*columns[:2], strict=True)).items() if n > 1]:
        raise DataError(
            f"doc_ids: document '{repeated[0][1]}' of query '{repeated[0][0]}' is repeated; expected it once"
        )
    return "".join(
        f"{qid} Q0 {name} {place} {score!r} {tag}\n" for qid, name, place, score in zip(*columns, strict=True)
    )


def csv_lines(qid: Any, name: Any, rank: Any, score: Any) -> str:
    """Return a ranking as CSV with the columns qid, doc, rank and score.

    Args:
        qid, name, rank, score: arrays of one value per line.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("qid", "doc", "rank", "score"))
    writer.writerows(zip(qid.tolist(), name.tolist(), rank.tolist(), score.tolist(), strict=True))
    return text.getvalue()


def _read(file: Path, form: _Form) -> Listing:
    from tautrank.data._trec_kernel import first_repeated, parse_lines

    text = read_text(file)
    rows = text.count(b"\n")
    starts, lengths, values = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows)
    runs, slow = np.empty((rows, 3), np.int64), np.empty((rows, 3), np.int64)  # pages never touched cost no memory
    out = starts, lengths, values, runs, slow
    stop, rows, n_runs, n_slow = parse_lines(np.frombuffer(text, np.uint8), form.columns, form.value_column, out)
    for row, start, end in slow[:n_slow].tolist():
        word = text[start:end].decode()
        value = finite_number(word)
        if value is None and row < rows:  # the line that stopped the kernel has another error
            where = f"{file}:{line_of(text, start)}"
            raise DataError(f"{where}: found {form.value} '{word}'; expected a finite number")
        values[row] = value or 0.0
    expected = f"{form.columns} columns ({form.shape})"
    if stop < len(text):
        found = len(text[stop : text.index(b"\n", stop)].split())
        raise DataError(
            f"{file}:{line_of(text, stop)}: found {found} columns; expected {expected.replace(' columns', '')}"
        )
    if not rows:
        raise DataError(f"{file}: found an empty file; expected lines of {expected}")
    runs = runs[:n_runs]
    words = np.array([text[start : start + length].decode() for start, length in runs[:, 1:].tolist()])
    offsets, qids, order = gathered(runs[:, 0], words, rows, None)
    taken = slice(rows) if order is None else order
    listing = Listing(text, starts[taken], lengths[taken], values[taken], offsets, qids.tolist())
    repeated = first_repeated(listing.names, offsets)
    if repeated >= 0:
        raise DataError(
            f"{file}:{line_of(text, int(listing.starts[repeated]))}: document '{listing.name(repeated)}' of query "
            f"'{listing.query(repeated)}' is repeated; expected it once"
        )
    return listing


@dataclass(frozen=True)
class Judged:
    """A run under judgments, or the scores of labelled data, as the flat arrays every metric takes.

    Attributes:
        scores: the run's scores; ``-inf`` marks a judged document that the run did not retrieve.
        labels: the judgments; unjudged documents and negative judgments are 0, as trec_eval counts them.
        offsets, qids: the queries, in the order of the judgments.
        not_in_run: judged queries without a document in the run; they count, with nothing retrieved (trec_eval -c).
        not_judged: queries of the run without judgments; they are left out.
        judged: which documents have a judgment, one of at least 0; None if all have.
        names: the run and the place of each document in it; None for documents without names.
    """

    scores: F64
    labels: Array
    offsets: I64
    qids: Array
    not_in_run: int = 0
    not_judged: int = 0
    judged: Bools | None = None
    names: tuple[Listing, I64] | None = field(default=None, repr=False)

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was left out or filled in."""
        counts = {
            "judged {} not in the run; counted with nothing retrieved": (self.not_in_run, "query is", "queries are"),
            "{} of the run without judgments; left out": (self.not_judged, "query", "queries"),
        }
        return [f"{n} {what.format(one if n == 1 else more)}" for what, (n, one, more) in counts.items() if n]

    @property
    def answered(self) -> Bools:
        """Which queries have a document that was retrieved."""
        retrieved = np.concatenate(([0], np.cumsum(self.scores > -np.inf)))
        return np.asarray(np.diff(retrieved[self.offsets]) > 0)

    def for_trec_eval(self) -> Judged:
        """Return the same with trec_eval's order as the order of the rows, for ``ties="input"``.

        trec_eval keeps scores in 32 bits and ranks equal ones by document name, the last name of the alphabet first.
        Documents without names keep their order.

        >>> judged = judge_run({"q": {"a": 1.0, "c": 1.0, "b": 2.0}}, {"q": {"a": 1}})
        >>> judged.labels.tolist(), judged.for_trec_eval().labels.tolist()
        ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
        """
        scores = self.scores.astype(np.float32)
        if self.names is None:
            return replace(self, scores=scores.astype(np.float64))
        run, places = self.names
        query = np.repeat(np.arange(self.qids.size), np.diff(self.offsets))
        order = np.lexsort((-scores, query))
        ranked, query = scores[order], query[order]
        same = (ranked[1:] == ranked[:-1]) & (query[1:] == query[:-1]) & (ranked[1:] > -np.inf)
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        group = np.cumsum(np.append(True, ~same))[tied]
        words = np.array([run.name(document) for document in places[order[tied]]])
        order[tied] = order[tied[np.lexsort((words, -group))[::-1]]]
        return replace(
            self,
            scores=ranked.astype(np.float64),
            labels=self.labels[order],
            judged=None if self.judged is None else self.judged[order],
            names=(run, places[order]),
        )


def judge_run(run: Mapping[str, Mapping[str, float]], qrels: Mapping[str, Mapping[str, float]]) -> Judged:
    """Turn a run and its judgments into flat arrays.

    >>> judged = judge_run({"q1": {"d1": 9.5, "d2": 8.0}}, {"q1": {"d1": 2, "d9": 1}})
    >>> judged.scores.tolist(), judged.labels.tolist()
    ([9.5, 8.0, -inf], [2.0, 0.0, 1.0])
    """
    return judge(Listing.of(run), Listing.of(qrels, "qrels"))


def judge(run: Listing, qrels: Listing, where: str = "run") -> Judged:
    """Turn a run and its judgments into flat arrays.

    Args:
        run: scores by query and document.
        qrels: judgments by query and document.
        where: the name of the run, for errors.
    """
    from tautrank.data._trec_kernel import join

    places = {qid: i for i, qid in enumerate(run.qids)}
    at = np.array([places.get(qid, -1) for qid in qrels.qids], np.int64)
    missing = int(np.count_nonzero(at < 0))
    if missing == at.size:
        theirs, its = (f"'{ids[0]}'" if ids else "none" for ids in (qrels.qids, run.qids))
        raise DataError(
            f"{where}: shares no query with the judgments; expected the same ids (found {its} and {theirs} first)"
        )
    room = run.values.size + qrels.values.size
    of_run, of_qrels, sizes = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(at.size, np.int64)
    n = join(run.names, run.offsets, qrels.names, qrels.offsets, at, (of_run, of_qrels, sizes))
    of_run, of_qrels = of_run[:n], of_qrels[:n]
    labels = _looked_up(qrels.values, of_qrels, -1.0)
    return Judged(
        scores=_looked_up(run.values, of_run, -np.inf),
        labels=np.maximum(labels, 0.0),
        offsets=offsets_from_sizes(sizes),
        qids=np.array(qrels.qids),
        not_in_run=missing,
        not_judged=len(run.qids) - (at.size - missing),
        judged=labels >= 0,
        names=(run, of_run),
    )


def _looked_up(values: F64, places: I64, otherwise: float) -> F64:
    return np.append(values, otherwise)[places]  # a place of -1 is the last
