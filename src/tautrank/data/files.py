"""Read any file a user names: the format is recognised by the ending, or by the content."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arrays import F64, check_each, flat_numbers
from tautrank.data.letor import read_letor
from tautrank.data.ranking_data import RankingData
from tautrank.data.tables import read_csv, read_parquet
from tautrank.data.text_source import TextSource, ending, finite_number, read_lines
from tautrank.data.trec import QRELS_COLUMNS, RUN_COLUMNS, Judged, Listing, judge, list_qrels, list_run
from tautrank.errors import DataError, OptionError

_TABLES = {".parquet": read_parquet, ".pq": read_parquet, ".csv": read_csv, ".tsv": read_csv}
_OF_TABLES = ("label", "qid", "doc", "features", "drop", "categorical", "unlabelled")


def read_data(
    path: Path, *, separator: str | None = None, progress: Callable[[float], None] | None = None, **options: Any
) -> RankingData:
    """Read Parquet, CSV or TSV if the file's name has that ending, else LETOR text.

    Args:
        path: the file, compressed or not.
        separator: what separates the columns of CSV; with it, any file is CSV.
        progress: function called while text is read.
        **options: of a table, label, qid, doc, features, drop, categorical and unlabelled, as in
            `RankingData.from_frame`; all others are options of `read_letor`.
    """
    given = {name: value for name in _OF_TABLES if (value := options.pop(name, None))}
    reader = _TABLES.get(ending(path))
    if reader is None and separator is None:
        if wrong := [name for name in ("doc", "features", "drop", "categorical") if name in given]:
            raise OptionError(f"{wrong[0]}: found with {path}, which is read as LETOR text; expected a table")
        return read_letor(path, progress=progress, **options)
    columns = {"doc_id" if name == "doc" else name: value for name, value in given.items()}
    return read_parquet(path, **columns) if reader is read_parquet else read_csv(path, separator=separator, **columns)


def read_scores(path: str | os.PathLike[str]) -> F64:
    """Read one finite score per line; compressed files too.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "scores.txt"
    >>> _ = file.write_text("0.5\\n-1e3\\n")
    >>> read_scores(file).tolist()
    [0.5, -1000.0]
    """
    file = Path(path)
    lines = read_lines(file)
    if not lines:
        raise DataError(f"{file}: found an empty file; expected one score per line")
    scores = [finite_number(line) for line in lines]
    if None in scores:
        number = scores.index(None)
        words = lines[number].split()
        found = f"'{words[0][:40]}'" if len(words) == 1 else f"{len(words)} columns" if words else "a blank line"
        raise DataError(f"{file}:{number + 1}: found {found}; expected one finite score per line")
    return np.array(scores, np.float64)


def read_judged_scores(scores: Path, data: Path, **options: Any) -> Judged:
    """Read a score file and its data, or a TREC run and its judgments.

    Args:
        scores: file of one score per line, or a run.
        data: file of labelled data, or qrels.
        options: options of `read_data`.
    """
    _first_line(scores)  # a file that is not there is reported before the data is read
    return judge_given(scores, read_judgments(data, **options), str(scores), str(data))


Judgments = Listing | RankingData


def read_judgments(given: Any, **options: Any) -> Judgments:
    """Return judgments: of named documents, or data with labels.

    Args:
        given: file of labelled data, or qrels; relevance by query and document; or data as it is.
        options: options of `read_data`.

    >>> read_judgments({"q1": {"d1": 2, "d9": 1}}).qids
    ['q1']
    """
    if isinstance(given, RankingData):
        return given
    if isinstance(given, Mapping):
        return Listing.of(given, "judged")
    if not isinstance(given, str | os.PathLike):
        raise DataError(
            f"judged: found {type(given).__name__}; expected qrels, {{query: {{document: label}}}}, or RankingData"
        )
    path = Path(given)
    is_qrels = ending(path) not in _TABLES and _looks_like_qrels(_first_line(path))
    return list_qrels(path) if is_qrels else read_data(path, **options)


def judge_given(given: Any, judgments: Judgments, where: str = "run", judged: str = "judged") -> Judged:
    """Judge a run of named documents, or the scores of labelled data.

    Args:
        given: TREC run, or scores by query and document, which labelled data judges by its document ids; score file, in
            the order of the data's file, or one score per document of the data, in its order.
        judgments: what `read_judgments` returns.
        where, judged: what both are called in errors.

    >>> judge_given({"q1": {"d1": 0.5}}, read_judgments({"q1": {"d1": 2, "d9": 1}})).labels.tolist()
    [2.0, 1.0]
    """
    is_file = isinstance(given, str | os.PathLike)
    columns = len(_first_line(Path(given))) if is_file else 0
    if 1 < columns < RUN_COLUMNS:
        expected = f"{RUN_COLUMNS}, a TREC run, or one score per line"
        raise DataError(f"{where}: found {columns} columns in the first line; expected {expected}")
    is_run = columns == RUN_COLUMNS if is_file else isinstance(given, Mapping)
    if is_run:
        qrels = judgments if isinstance(judgments, Listing) else Listing.of_data(judgments)
        found = judge(list_run(Path(given)) if is_file else Listing.of(given, where), qrels, where)
        if isinstance(judgments, RankingData) and not np.any(found.scores[found.judged] > -np.inf):
            known = "" if judgments.doc_ids is not None else ", which has no document ids: they are called d1, d2, ..."
            raise DataError(f"{where}: shares no document with {judged}{known}; expected the same ids")
        return found
    if isinstance(judgments, Listing):
        raise DataError(
            f"{judged}: is qrels, but {where} holds scores, one per line; expected ranking data with labels"
        )
    scores = read_scores(given) if is_file else flat_numbers(where, given)
    if scores.size != judgments.n_documents:
        raise DataError(
            f"{where}: found {scores.size} scores, but {judged} has {judgments.n_documents} documents; "
            "expected one per document"
        )
    check_each(
        where, scores, scores < np.inf, "a finite number, or -inf for a document not retrieved", judgments.offsets
    )
    if is_file:
        scores = judgments.in_document_order(scores)
    return Judged(scores, judgments.labels, judgments.offsets, judgments.qids)


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
