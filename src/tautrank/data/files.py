"""Read any file a user names: the format is recognised by the ending, or by the content."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tautrank.data.letor import read_letor
from tautrank.data.ranking_data import RankingData
from tautrank.data.score_files import read_scores
from tautrank.data.tables import read_csv, read_parquet
from tautrank.data.text_source import TextSource, ending
from tautrank.data.trec import QRELS_COLUMNS, RUN_COLUMNS, Judged, judge_run, read_qrels, read_run
from tautrank.errors import DataError

_TABLES = {".parquet": read_parquet, ".pq": read_parquet, ".csv": read_csv, ".tsv": read_csv}


def read_data(
    path: Path,
    *,
    label: str = "label",
    qid: str = "qid",
    unlabelled: bool = False,
    progress: Callable[[float], None] | None = None,
    **letor_options: Any,
) -> RankingData:
    """Read Parquet, CSV or TSV if the file's name has that ending, else LETOR text.

    Args:
        path: the file, compressed or not.
        label, qid: names of the columns of a table.
        unlabelled: whether a table may lack labels.
        progress: function called while text is read.
        letor_options: options of `read_letor`.
    """
    reader = _TABLES.get(ending(path))
    if reader is not None:
        return reader(path, label=label, qid=qid, unlabelled=unlabelled)
    return read_letor(path, progress=progress, **letor_options)


def read_judged_scores(scores: Path, data: Path, **options: Any) -> Judged:
    """Read a score file and its data, or a TREC run and its judgments.

    Args:
        scores: file of one score per line, or a run.
        data: file of labelled data, or qrels.
        options: options of `read_data`.
    """
    is_run = len(_first_line(scores)) == RUN_COLUMNS
    is_qrels = ending(data) not in _TABLES and _looks_like_qrels(_first_line(data))
    if is_run != is_qrels:
        kind, other = ("a TREC run", "qrels") if is_run else ("scores, one per line", "ranking data with labels")
        found = "qrels" if is_qrels else "not qrels"
        raise DataError(f"{data}: is {found}, but {scores} holds {kind}; expected {other}")
    if is_run:
        return judge_run(read_run(scores), read_qrels(data))
    values = read_scores(scores)
    ranking = read_data(data, **options)
    if values.size != ranking.n_documents:
        raise DataError(
            f"{scores}: found {values.size} scores, but {data} has {ranking.n_documents} documents; "
            "expected one per document"
        )
    return Judged(ranking.in_document_order(values), ranking.labels, ranking.offsets, ranking.qids)


def _first_line(path: Path) -> list[str]:
    """Return the words of the first line that has any."""
    buffer = bytearray(2**16)
    with TextSource(path) as source:
        while end := source.fill(buffer):
            for line in buffer[:end].split(b"\n"):
                if line.strip():
                    return line.decode("utf-8", "replace").split()
    return []


def _looks_like_qrels(words: list[str]) -> bool:
    return len(words) == QRELS_COLUMNS and not words[1].startswith("qid:") and not re.match(r"\d+:", words[3])
