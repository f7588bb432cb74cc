"""TREC runs and relevance judgments (qrels), and both as flat arrays for the metrics."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arrays import F64, I64, Array
from tautrank.data.grouping import offsets_from_sizes
from tautrank.data.text_source import finite_number, read_lines
from tautrank.errors import DataError
from tautrank.files import write_whole

RUN_COLUMNS = 6
QRELS_COLUMNS = 4

Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, float]]


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a TREC run, ``qid Q0 docno rank score tag``, as scores by query and document.

    The score orders the documents; the rank column is ignored, as trec_eval does.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.txt"
    >>> _ = file.write_text("q1 Q0 d1 1 9.5 me\\nq1 Q0 d2 2 8 me\\n")
    >>> read_run(file)
    {'q1': {'d1': 9.5, 'd2': 8.0}}
    """
    return _read(Path(path), RUN_COLUMNS, 4, "score", "a TREC run has 'qid Q0 docno rank score tag'")


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Read TREC judgments, ``qid iteration docno relevance``, as relevance by query and document.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "qrels.txt"
    >>> _ = file.write_text("q1 0 d1 2\\nq1 0 d9 1\\n")
    >>> read_qrels(file)
    {'q1': {'d1': 2.0, 'd9': 1.0}}
    """
    return _read(Path(path), QRELS_COLUMNS, 3, "relevance", "qrels have 'qid iteration docno relevance'")


def write_run(path: str | os.PathLike[str], qid: Any, row: Any, rank: Any, score: Any, tag: str) -> None:
    """Write a TREC run; documents are named by their row in the file they were read from: d1, d2, ...

    Args:
        path: the file.
        qid, row, rank, score: arrays of one value per line; rows count from 0.
        tag: name of the run.
    """
    columns = (qid.tolist(), (row + 1).tolist(), rank.tolist(), score.tolist())
    lines = (f"{qid} Q0 d{row} {place} {score!r} {tag}\n" for qid, row, place, score in zip(*columns, strict=True))
    write_whole(path, "".join(lines))


def _read(file: Path, columns: int, value_column: int, what: str, shape: str) -> dict[str, dict[str, float]]:
    result: dict[str, dict[str, float]] = {}
    for number, line in enumerate(read_lines(file), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != columns:
            raise DataError(f"{file}:{number}: found {len(parts)} columns; expected {columns} ({shape})")
        value = finite_number(parts[value_column])
        if value is None:
            raise DataError(f"{file}:{number}: found {what} '{parts[value_column]}'; expected a finite number")
        documents = result.setdefault(parts[0], {})
        if parts[2] in documents:
            raise DataError(
                f"{file}:{number}: document '{parts[2]}' of query '{parts[0]}' is repeated; expected it once"
            )
        documents[parts[2]] = value
    if not result:
        raise DataError(f"{file}: found an empty file; expected lines of {columns} columns ({shape})")
    return result


@dataclass(frozen=True)
class Judged:
    """A run under judgments, or the scores of labelled data, as the flat arrays every metric takes.

    Attributes:
        scores: the run's scores; ``-inf`` marks a judged document that the run did not retrieve.
        labels: the judgments; unjudged documents and negative judgments are 0, as trec_eval counts them.
        offsets, qids: the queries, in the order of the judgments.
        not_in_run: judged queries without a document in the run; they count, with nothing retrieved (trec_eval -c).
        not_judged: queries of the run without judgments; they are left out.
    """

    scores: F64
    labels: Array
    offsets: I64
    qids: Array
    not_in_run: int = 0
    not_judged: int = 0

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was left out or filled in."""
        counts = {
            "judged queries are not in the run; they count with nothing retrieved": self.not_in_run,
            "queries of the run have no judgments; they are left out": self.not_judged,
        }
        return [f"{count} {what}" for what, count in counts.items() if count]


def judge_run(run: Mapping[str, Mapping[str, float]], qrels: Mapping[str, Mapping[str, float]]) -> Judged:
    """Turn a run and its judgments into flat arrays.

    >>> judged = judge_run({"q1": {"d1": 9.5, "d2": 8.0}}, {"q1": {"d1": 2, "d9": 1}})
    >>> judged.scores.tolist(), judged.labels.tolist()
    ([9.5, 8.0, -inf], [2.0, 0.0, 1.0])
    """
    scores: list[float] = []
    labels: list[float] = []
    sizes: list[int] = []
    for qid, judgments in qrels.items():
        retrieved = run.get(qid, {})
        documents = list(dict.fromkeys([*retrieved, *judgments]))
        scores += [retrieved.get(document, -math.inf) for document in documents]
        labels += [max(0.0, judgments.get(document, 0.0)) for document in documents]
        sizes.append(len(documents))
    offsets = offsets_from_sizes(np.array(sizes, np.int64))
    return Judged(
        np.array(scores, np.float64),
        np.array(labels, np.float64),
        offsets,
        np.array(list(qrels)),
        sum(qid not in run for qid in qrels),
        sum(qid not in qrels for qid in run),
    )
