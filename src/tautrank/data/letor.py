"""Reading LETOR text, the SVMlight dialect of ranking: ``label qid:7 1:0.5 2:0.25 # comment``."""

from __future__ import annotations

import os
import queue
import re
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from tautrank.arguments import job_count, whole
from tautrank.arrays import F32, I64
from tautrank.data import cache as parsed_cache
from tautrank.data.feature_store import FeatureStore, Sparse
from tautrank.data.grouping import offsets_from_runs, offsets_from_sizes, read_group_sizes, side_file
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import TextSource, file_size, line_blocks
from tautrank.errors import DataError, OptionError

PathLike = str | os.PathLike[str]

_BLOCK = 2 * 2**20
DEFAULT_MAX_FEATURES = 1_000_000


@dataclass(frozen=True)
class LetorOptions:
    """What decides how a LETOR file is understood; part of the key of the parsed-data cache."""

    zero_based: bool = False
    n_features: int | None = None
    max_features: int = DEFAULT_MAX_FEATURES
    allow_nan: bool = False
    sparse: Sparse = "auto"

    def __post_init__(self) -> None:
        for name in ("n_features", "max_features"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole(name, value, 1))
        if self.sparse not in (True, False, "auto"):
            raise OptionError(f"sparse: found {self.sparse!r}; expected True, False or 'auto'")

    @property
    def first_index(self) -> int:
        """The smallest feature index a file may use."""
        return 0 if self.zero_based else 1

    @property
    def last_index(self) -> int:
        """The largest feature index a file may use; int32 columns bound it in any case."""
        return min(self.n_features or self.max_features, 2**31 - 2) + self.first_index - 1


def read_letor(
    paths: PathLike | Sequence[PathLike],
    *,
    zero_based: bool = False,
    n_features: int | None = None,
    max_features: int = DEFAULT_MAX_FEATURES,
    allow_nan: bool = False,
    sparse: Sparse = "auto",
    cache: bool | None = None,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> RankingData:
    """Read one or several LETOR / SVMlight ranking files as one data set.

    A line is ``label qid:ID index:value ... # comment``; absent features are 0. Files compressed with gzip, bzip2 or xz
    are read directly. Where no line has a ``qid:``, the group sizes are taken from a side file, as LightGBM
    (``FILE.query``) and XGBoost (``FILE.group``) have them. Rows of a query that are not adjacent are gathered in the
    order they appear, and a warning says so once. A value is the float32 nearest to the double the text denotes.

    Reading is parallel and streaming: the text is never in memory as a whole.

    Args:
        paths: a path or a sequence of paths, read in that order.
        zero_based: the file's first feature index is 0, as LightGBM writes it; default is 1, the LETOR convention.
        n_features: the number of columns, if known; a larger index in the file is then an error.
        max_features: the largest feature index believed when `n_features` is not given.
        allow_nan: read ``nan`` as a missing value; otherwise it is an error, as ``inf`` always is.
        sparse: ``True`` returns `X` as SciPy CSR, ``False`` as a dense array, ``"auto"`` dense unless that takes more
            than 64 MiB and more than eight times the memory of CSR.
        cache: keep the parsed arrays beside the file (``FILE.tautcache``) and use them while size, time stamp and
            content hash of the file are unchanged. ``None``: for files of at least 64 MiB in a writable folder, unless
            the environment says ``TAUTRANK_CACHE=0``.
        n_jobs: number of parsing threads; default all cores of this process.
        progress: called now and then with the share of the files' bytes that has been read, from 0 to 1.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = file.write_text("2 qid:7 1:0.5 3:1 # a\\n0 qid:7 2:0.25\\n1 qid:8 1:1\\n")
    >>> data = read_letor(file)
    >>> data
    RankingData(2 queries, 3 documents, 3 features)
    >>> data.X.tolist()
    [[0.5, 0.0, 1.0], [0.0, 0.25, 0.0], [1.0, 0.0, 0.0]]
    """
    files = [Path(paths)] if isinstance(paths, (str, os.PathLike)) else [Path(p) for p in paths]
    if not files:
        raise DataError("paths: found an empty list; expected at least one file")
    options = LetorOptions(zero_based, n_features, max_features, allow_nan, sparse)
    jobs = job_count(n_jobs)

    store = FeatureStore(options.sparse, options.n_features)
    labels: list[F32] = []
    qid_runs: list[tuple[int, bytes]] = []
    sizes: list[I64] = []
    meter = _Meter(files, progress)
    for file in files:
        first_row = store.rows
        parsed = _read_file(file, options, store, jobs, cache, meter)
        meter.finish(file)
        labels.append(parsed.labels)
        side = side_file(file)
        if parsed.runs is not None:
            qid_runs.extend((first_row + row, token) for row, token in parsed.runs)
            if side is not None:
                _check_side_file(side, file, parsed)
        elif side is None:
            raise DataError(
                f"{file}:1: no 'qid:' in the file and no {file.name}.query beside it; expected one or the other"
            )
        else:
            sizes.append(read_group_sizes(side, file, parsed.labels.size))
        if sizes and qid_runs:
            raise DataError(f"{file}: some files have 'qid:' and others group sizes in a side file; expected one kind")

    all_labels = labels[0] if len(labels) == 1 else np.concatenate(labels)
    X = store.finished()
    where = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    if sizes:
        offsets = offsets_from_sizes(np.concatenate(sizes))
        return RankingData(X, all_labels, offsets, np.arange(offsets.size - 1))
    return RankingData._from_query_codes(X, all_labels, *offsets_from_runs(qid_runs, all_labels.size), where=where)


class _Meter:
    """Turns bytes taken from the files into the share of all their bytes."""

    def __init__(self, files: Sequence[Path], report: Callable[[float], None] | None) -> None:
        self._report = report
        self._total = max(1, sum(file_size(file) for file in files)) if report else 1
        self._before = 0

    def at(self, position: int) -> None:
        if self._report:
            self._report(min(1.0, (self._before + position) / self._total))

    def finish(self, file: Path) -> None:
        if self._report:
            self._before += file_size(file)
            self.at(0)


def _read_file(
    file: Path, options: LetorOptions, store: FeatureStore, jobs: int, cache: bool | None, meter: _Meter
) -> parsed_cache.ParsedArrays:
    key = parsed_cache.key_for(file, options, cache, jobs)
    hit = parsed_cache.load(key) if key is not None else None
    if hit is not None:
        store.append_parsed(hit)
        return hit
    first_row = store.rows
    parsed = _parse_file(file, options, store, jobs, meter)
    if key is not None:
        parsed_cache.save(key, store.with_rows_since(first_row, parsed))
    return parsed


class _Scratch:
    """One block's text and the arrays it is parsed into; reused, so that memory is bounded by the blocks in flight."""

    def __init__(self, size: int) -> None:
        self.buffer = bytearray(size)
        self._fit()

    def _fit(self) -> None:
        size = len(self.buffer)
        self.fitted = size
        # The shortest row is "0\n", the shortest feature " 1:0": these bounds cannot be exceeded. Pages that are
        # never touched cost no memory.
        rows, stored = size // 2 + 1, size // 4 + 1
        self.labels = np.empty(rows, np.float32)
        self.indptr = np.empty(rows + 1, np.int64)
        self.indices = np.empty(stored, np.int32)
        self.values = np.empty(stored, np.float32)
        self.runs = np.empty((rows, 3), np.int64)
        self.slow = np.empty((rows + stored, 3), np.int64)

    def parse(self, start: int, end: int, options: LetorOptions) -> tuple[int, ...]:
        from tautrank.data._letor_kernel import parse_block

        if len(self.buffer) > self.fitted:
            self._fit()
        text = np.frombuffer(self.buffer, np.uint8, end - start, start)
        allowed = (options.first_index, options.last_index, options.allow_nan)
        arrays = (self.labels, self.indptr, self.indices, self.values, self.runs, self.slow)
        result: tuple[int, ...] = parse_block(text, end - start, *allowed, *arrays)
        return result


def _parse_file(
    file: Path, options: LetorOptions, store: FeatureStore, jobs: int, meter: _Meter
) -> parsed_cache.ParsedArrays:
    collected = _Collected(file, options, store)
    block = min(_BLOCK, max(file_size(file) + 2, 4096))
    free: queue.SimpleQueue[_Scratch] = queue.SimpleQueue()
    pending: deque[tuple[Future[tuple[int, ...]], _Scratch, int]] = deque()
    taken: list[_Scratch] = []

    def take() -> bytearray:
        scratch = free.get() if not free.empty() else _Scratch(block)
        taken.append(scratch)
        return scratch.buffer

    def finish_oldest() -> None:
        future, scratch, start = pending.popleft()
        collected.add(scratch, start, future.result())
        free.put(scratch)

    with TextSource(file) as source, ThreadPoolExecutor(jobs) as pool:
        for _, start, end in line_blocks(source, take):
            scratch = taken.pop()
            pending.append((pool.submit(scratch.parse, start, end, options), scratch, start))
            if len(pending) > jobs:
                finish_oldest()
                meter.at(source.position())
        while pending:
            finish_oldest()
    return collected.finished()


class _Collected:
    """What has been parsed so far, block after block in the order of the file."""

    def __init__(self, file: Path, options: LetorOptions, store: FeatureStore) -> None:
        self._file = file
        self._options = options
        self._store = store
        self.width = options.n_features or 0
        self._lines = 0
        self._rows = 0
        self._labels: list[F32] = []
        self._runs: list[tuple[int, bytes]] = []

    def add(self, scratch: _Scratch, start: int, result: tuple[int, ...]) -> None:
        from tautrank.data import _letor_kernel as kernel

        status, stop, lines, rows, stored, n_runs, n_slow, width = result
        text = memoryview(scratch.buffer)[start:]
        if rows and self._rows and status != kernel.BAD_LABEL and bool(self._runs) != bool(n_runs):
            # This block's first row disagrees with the rows before it on whether there is a qid.
            status = kernel.UNEXPECTED_QID if n_runs else kernel.MISSING_QID
            stop = _first_row_start(text)
            lines = bytes(text[:stop]).count(b"\n")
        if n_slow:
            self._reread(scratch, text, n_slow)
        if status != kernel.OK:
            _raise(status, self._file, self._lines + lines + 1, text, stop, self._options)
        for row, token, length in scratch.runs[:n_runs].tolist():
            qid = bytes(text[token : token + length])
            if not self._runs or self._runs[-1][1] != qid:
                self._runs.append((self._rows + row, qid))
        self._labels.append(scratch.labels[:rows].copy())
        self._store.append(scratch.indptr[: rows + 1], scratch.indices[:stored], scratch.values[:stored], width)
        self.width = max(self.width, width)
        self._lines += lines
        self._rows += rows

    def _reread(self, scratch: _Scratch, text: memoryview, n_slow: int) -> None:
        """Let Python read the numbers whose nearest float32 the kernel could not prove."""
        from tautrank.data import _letor_kernel as kernel

        for slot, begin, end in scratch.slow[:n_slow].tolist():
            with np.errstate(over="ignore"):
                value = np.float32(float(bytes(text[begin:end])))
            if not np.isfinite(value):
                status = kernel.BAD_LABEL if slot < 0 else kernel.VALUE_OVERFLOW
                line = self._lines + bytes(text[:begin]).count(b"\n") + 1
                _raise(status, self._file, line, text, _token_start(text, begin), self._options)
            if slot < 0:
                scratch.labels[-1 - slot] = value
            else:
                scratch.values[slot] = value

    def finished(self) -> parsed_cache.ParsedArrays:
        if self._rows == 0:
            what = "no documents, only comments or blank lines" if self._lines else "an empty file"
            raise DataError(f"{self._file}: found {what}; expected lines such as '2 qid:1 1:0.5'")
        return parsed_cache.ParsedArrays(np.concatenate(self._labels), self._runs or None, self.width)


def _first_row_start(text: memoryview) -> int:
    """Where the first line that is neither blank nor a comment begins."""
    match = re.search(rb"^[ \t\r]*[^ \t\r\n#]", text, re.MULTILINE)
    return match.start() if match else 0


def _token_start(text: memoryview, position: int) -> int:
    while position > 0 and text[position - 1] not in b" \t\r\n":
        position -= 1
    return position


def _line_at(text: memoryview, position: int) -> bytes:
    raw = bytes(text[: position + 2**16])
    return raw[raw.rfind(b"\n", 0, position) + 1 :].partition(b"\n")[0]


def _token_at(text: memoryview, position: int) -> str:
    match = re.match(rb"[^ \t\r\n#]*", bytes(text[position : position + 200]))
    token = match.group().decode("utf-8", "replace") if match else ""
    return token if len(token) <= 40 else token[:37] + "..."


def _raise(status: int, file: Path, line: int, text: memoryview, stop: int, options: LetorOptions) -> NoReturn:
    """Word what stopped the kernel."""
    from tautrank.data import _letor_kernel as kernel

    where = f"{file}:{line}"
    content = _line_at(text, stop)
    if b"\0" in content or sum(c < 9 or 13 < c < 32 for c in content) > 2:
        raise DataError(f"{where}: found binary data; expected LETOR text such as '2 qid:1 1:0.5'")
    token = _token_at(text, stop)
    index, _, value = token.partition(":")
    where_in_line = stop - (bytes(text[:stop]).rfind(b"\n") + 1)
    same = re.search(rb"[ \t]" + re.escape(index.encode()) + rb":", content[:where_in_line])
    limit = "n_features" if options.n_features else "max_features"
    bad_label = f"found label '{token}'; expected a finite number of at least 0"
    if token.startswith("qid:") or re.fullmatch(r"\d+:.*", token):
        bad_label = f"the line starts with '{token}'; expected a label first"
    bad_value = f"feature {index} has the value '{value}'; expected a number"
    if value.lower().lstrip("+-") in {"nan", "inf", "infinity"}:
        hint = "; allow_nan=True (--allow-nan) reads it as a missing value" if "nan" in value.lower() else ""
        bad_value = f"feature {index} has the value '{value}'; expected a finite number{hint}"
    sentences = {
        kernel.BAD_LABEL: bad_label,
        kernel.NEGATIVE_LABEL: f"found label '{token}'; expected a number of at least 0",
        kernel.BAD_QID: "found 'qid:' without an id; expected 'qid:' and the query's id without a space",
        kernel.MISSING_QID: "found no 'qid:' after the label; expected one, as on the lines before",
        kernel.UNEXPECTED_QID: "found a 'qid:', but the lines before have none; expected it on all lines or none",
        kernel.BAD_INDEX: f"found '{token}' where a feature belongs; expected 'index:value' such as '3:0.5'",
        kernel.INDEX_TOO_SMALL: f"found feature index {index}; expected indices from {options.first_index} on "
        "(zero_based=True if the file counts from 0)",
        kernel.INDEX_NOT_ASCENDING: f"feature index {index} is {'repeated' if same else 'out of order'}; "
        "expected ascending indices, each once",
        kernel.INDEX_TOO_LARGE: f"found feature index {index}; expected at most {options.last_index} "
        f"({limit}={getattr(options, limit)})",
        kernel.BAD_VALUE: bad_value,
        kernel.VALUE_OVERFLOW: f"feature {index} has the value '{value}', too large for float32; "
        "expected at most 3.4e38",
    }
    raise DataError(f"{where}: {sentences[status]}")


def _check_side_file(side: Path, file: Path, parsed: parsed_cache.ParsedArrays) -> None:
    """A file with both qids and a side file must say the same twice: otherwise one of them is out of date."""
    assert parsed.runs is not None
    starts = np.array([row for row, _ in parsed.runs] + [parsed.labels.size])
    sizes = read_group_sizes(side, file, parsed.labels.size)
    if not np.array_equal(np.diff(starts), sizes):
        raise DataError(
            f"{side}: the group sizes disagree with the 'qid:' of {file.name}; "
            "expected them to agree (delete the one out of date)"
        )
