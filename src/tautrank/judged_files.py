"""Files a user names, understood by what is in them: LETOR text, tables, TREC runs and judgments, plain scores."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tautrank.atomic import atomic_write
from tautrank.data import RankingData, judge_run, read_csv, read_letor, read_parquet, read_qrels, read_run, read_scores
from tautrank.data.text_source import TextSource, line_blocks
from tautrank.data.trec import QRELS_COLUMNS, RUN_COLUMNS
from tautrank.errors import DataError, OptionError, TautrankWarning

if TYPE_CHECKING:
    from tautrank.ranker import Ranking

_TABLES = {".parquet": read_parquet, ".pq": read_parquet, ".csv": read_csv}
_COMPRESSED = {".gz", ".bz2", ".xz"}
Progress = Callable[[float], None]


@dataclass(frozen=True)
class JudgedScores:
    """Scores and labels as every metric takes them, and remarks on what was left out or filled in."""

    scores: npt.NDArray[np.float64]
    labels: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    qids: npt.NDArray[Any]
    remarks: tuple[str, ...] = ()


def read_data(
    path: Path,
    *,
    label: str = "label",
    qid: str = "qid",
    unlabelled: bool = False,
    progress: Progress | None = None,
    **letor_options: Any,
) -> RankingData:
    """Read LETOR text, Parquet or CSV, told apart by the file's ending; `unlabelled` tables need no labels."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in _COMPRESSED]
    reader = _TABLES.get(suffixes[-1].lower()) if suffixes else None
    if reader is not None:
        return reader(path, label=label, qid=qid, unlabelled=unlabelled)
    return read_letor(path, progress=progress, **letor_options)


def with_columns(data: RankingData, names: Sequence[str], path: Path) -> RankingData:
    """The same documents with these columns in this order, found by name; a note says what is left out.

    Args:
        data: from a table.
        names: of the features that were trained on.
        path: of the table, for sentences.
    """
    found = list(data.feature_names or ())
    if found == list(names):
        return data
    missing = [name for name in names if name not in found]
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError(f"{path}: found no column '{missing[0]}'{more}; expected every feature that was trained on")
    extra = [name for name in found if name not in set(names)]
    if extra:
        told = ", ".join(f"'{name}'" for name in extra[:3]) + (", ..." if len(extra) > 3 else "")
        warnings.warn(f"{path}: left out {told}, which was not trained on", TautrankWarning, stacklevel=2)
    columns = [found.index(name) for name in names]
    return dataclasses.replace(data, X=data.X[:, columns], feature_names=tuple(names))


def read_judged_scores(scores: Path, data: Path, **options: Any) -> JudgedScores:
    """Bring a score file and its data together, or a TREC run and its judgments."""
    is_run = _columns(scores) == RUN_COLUMNS
    is_qrels = _looks_like_qrels(data)
    if is_run != is_qrels:
        kind, other = ("a TREC run", "qrels") if is_run else ("scores, one a line", "ranking data with labels")
        found = "qrels" if is_qrels else "not qrels"
        raise DataError(f"{data}: is {found}, but {scores} holds {kind}; expected {other}")
    if is_run:
        judged = judge_run(read_run(scores), read_qrels(data))
        remarks = []
        if judged.not_in_run:
            remarks.append(f"{judged.not_in_run} judged queries are not in the run; they count with nothing retrieved")
        if judged.not_judged:
            remarks.append(f"{judged.not_judged} queries of the run have no judgments; they are left out")
        return JudgedScores(judged.scores, judged.labels, judged.offsets, judged.qids, tuple(remarks))
    values = read_scores(scores)
    ranking = read_data(data, **options)
    if values.size != ranking.n_documents:
        raise DataError(
            f"{scores}: found {values.size} scores, but {data} has {ranking.n_documents} documents; "
            "expected one a document"
        )
    return JudgedScores(ranking.in_document_order(values), ranking.labels, ranking.offsets, ranking.qids)


def write_scores(path: Path, scores: npt.NDArray[np.float64]) -> None:
    """Write one score a line, with as many digits as name it exactly."""
    with atomic_write(path) as file:
        file.write("".join(f"{score!r}\n" for score in scores.tolist()).encode())


def write_run(path: Path, ranking: Ranking, source_rows: npt.NDArray[np.int64] | None, tag: str) -> None:
    """Write a TREC run; a document is called by its place in the file it was read from: d1, d2, ..."""
    if not tag or any(c.isspace() for c in tag):
        raise OptionError(f"--tag: found '{tag}'; expected text without spaces")
    rows = ranking.document if source_rows is None else source_rows[ranking.document]
    columns = (ranking.qid.tolist(), (rows + 1).tolist(), ranking.rank.tolist(), ranking.score.tolist())
    lines = (f"{qid} Q0 d{row} {place} {score!r} {tag}\n" for qid, row, place, score in zip(*columns, strict=True))
    with atomic_write(path) as file:
        file.write("".join(lines).encode())


def _first_line(path: Path) -> str:
    with TextSource(path) as source:
        for buffer, start, end in line_blocks(source, lambda: bytearray(2**16)):
            for line in bytes(memoryview(buffer)[start:end]).split(b"\n"):
                if line.strip():
                    return line.decode("utf-8", "replace")
    return ""


def _columns(path: Path) -> int:
    return len(_first_line(path).split())


def _looks_like_qrels(path: Path) -> bool:
    parts = _first_line(path).split()
    return len(parts) == QRELS_COLUMNS and not parts[1].startswith("qid:") and not re.match(r"\d+:", parts[3])
