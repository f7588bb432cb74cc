"""Read LETOR text, the SVMlight dialect of ranking: ``label qid:7 1:0.5 2:0.25 # comment``."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from tautrank.arguments import job_count, whole
from tautrank.arrays import F32, I64, Array
from tautrank.data import cache as parsed_cache
from tautrank.data._letor_plain import SMALL, read_plain
from tautrank.data.feature_store import FeatureStore, Sparse
from tautrank.data.grouping import offsets_from_sizes, read_group_sizes, side_file, typed_ids
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import TextSource, file_size
from tautrank.errors import DataError, OptionError, TautrankWarning

PathLike = str | os.PathLike[str]

_BLOCK = 2 * 2**20
DEFAULT_MAX_FEATURES = 1_000_000


@dataclass(frozen=True)
class LetorOptions:
    """The options that decide how a LETOR file is read; part of the key of the cache."""

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
    are read directly. If every document has a comment of one word or with ``docid = ID``, that is its id
    (`RankingData.doc_ids`). Where no line has a ``qid:``, the group sizes are taken from a side file, as LightGBM
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
        cache: keep the parsed arrays next to the file (``FILE.tautcache``) and use them while size, time stamp and
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
    total, done = max(1, sum(map(file_size, files))), 0

    def report(position: int) -> None:
        if progress is not None:
            progress(min(1.0, (done + position) / total))

    store = FeatureStore(options.sparse, options.n_features)
    labels: list[F32] = []
    starts: list[I64] = []
    tokens: list[bytes] = []
    sizes: list[I64] = []
    ids: list[Array | None] = []
    for file in files:
        first_row = store.rows
        parsed = _read_file(file, options, store, jobs, cache, report)
        done += file_size(file)
        report(0)
        labels.append(parsed.labels)
        starts.append(first_row + parsed.starts)
        tokens += parsed.tokens
        ids.append(parsed.ids)
        side = side_file(file)
        if side is not None:
            group = read_group_sizes(side, file, parsed.labels.size)
            if not parsed.tokens:
                sizes.append(group)
            elif not np.array_equal(np.diff(parsed.starts, append=parsed.labels.size), group):
                raise DataError(
                    f"{side}: the group sizes disagree with the 'qid:' of {file.name}; "
                    "expected them to agree (delete the one out of date)"
                )
        elif not parsed.tokens:
            raise DataError(
                f"{file}:1: no 'qid:' in the file and no {file.name}.query next to it; expected one or the other"
            )
        if sizes and tokens:
            raise DataError(f"{file}: some files have 'qid:' and others group sizes in a side file; expected one kind")

    arrays = store.finished(), np.concatenate(labels)
    doc_ids = _decoded(ids)
    if sizes:
        offsets = offsets_from_sizes(np.concatenate(sizes))
        return RankingData(*arrays, offsets, np.arange(offsets.size - 1), doc_ids=doc_ids)
    where = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    return RankingData._from_runs(*arrays, np.concatenate(starts), typed_ids(tokens), where=where, doc_ids=doc_ids)


def _decoded(ids: Sequence[Array | None]) -> Array | None:
    """Return the document ids of all files as text; None if a file has none."""
    known = [part for part in ids if part is not None]
    if len(known) < len(ids):
        return None
    together = np.concatenate(known)
    try:
        return together.astype(str)  # ASCII, ten times as fast
    except UnicodeDecodeError:
        return np.char.decode(together, "utf-8", "backslashreplace")


def _read_file(
    file: Path, options: LetorOptions, store: FeatureStore, jobs: int, cache: bool | None, report: Callable[[int], None]
) -> parsed_cache.ParsedArrays:
    key = parsed_cache.key_for(file, options, cache, jobs)
    hit = parsed_cache.load(key) if key is not None else None
    if hit is not None:
        store.append_parsed(hit)
        return hit
    first_row = store.rows
    small = 0 < file_size(file) <= SMALL and key is None and first_row == 0 and options.sparse is not True
    if small and not _has_compiler():
        plain = read_plain(file, options.first_index, options.last_index, options.n_features)
        if plain is not None:
            store.append_parsed(plain)
            return plain
    parsed = _parse_file(file, options, store, jobs, report)
    if key is not None:
        parsed_cache.save(key, replace(parsed, features=store.rows_since(first_row, parsed.width)))
    return parsed


def _has_compiler() -> bool:
    return "numba" in sys.modules


class _Scratch:
    """One block's text and the arrays it is parsed into; reused, so that memory is bounded by the blocks in flight."""

    def __init__(self, size: int) -> None:
        self.buffer = bytearray(size)
        self._size = 0

    def parse(self, end: int, options: LetorOptions) -> tuple[int, ...]:
        from tautrank.data._letor_kernel import parse_block

        if len(self.buffer) > self._size:
            self._size = len(self.buffer)
            # The shortest row is "0\n", the shortest feature " 1:0": these bounds cannot be exceeded. Pages that are
            # never touched cost no memory.
            rows, stored = self._size // 2 + 1, self._size // 4 + 1
            self.labels = np.empty(rows, np.float32)
            self.indptr = np.empty(rows + 1, np.int64)
            self.indices = np.empty(stored, np.int32)
            self.values = np.empty(stored, np.float32)
            self.runs = np.empty((rows, 3), np.int64)
            self.slow = np.empty((rows + stored, 3), np.int64)
            self.ids = np.empty(self._size, np.uint8)
            self.id_ends = np.empty(rows, np.int64)
            self.rounded = np.empty(1, np.int64)
        text = np.frombuffer(self.buffer, np.uint8, end)
        self.rounded[0] = -1
        features = self.labels, self.indptr, self.indices, self.values
        out = (*features, self.runs, self.slow, self.ids, self.id_ends, self.rounded)
        result: tuple[int, ...] = parse_block(text, options.first_index, options.last_index, options.allow_nan, out)
        return result


def _parse_file(
    file: Path, options: LetorOptions, store: FeatureStore, jobs: int, report: Callable[[int], None]
) -> parsed_cache.ParsedArrays:
    collected = _Collected(file, options, store)
    for _ in _parsed_blocks(collected, jobs, report):
        pass
    return collected.finished()


def scan_letor(file: Path, options: LetorOptions, jobs: int) -> parsed_cache.ParsedArrays:
    """Read all of a LETOR file but its features: labels, queries and ids of documents, and the number of columns.

    Args:
        file: the file.
        options: how to read it.
        jobs: number of threads.
    """
    return _parse_file(file, options, _NoFeatures(), jobs, lambda _: None)


def letor_chunks(file: Path, options: LetorOptions, jobs: int, rows: int) -> Iterator[F32]:
    """Yield the features of a LETOR file in order, about so many dense rows at a time.

    Args:
        file: the file.
        options: how to read it; they say how many columns there are.
        jobs: number of threads.
        rows: number of rows to yield at a time, at least.
    """

    def empty() -> FeatureStore:
        return FeatureStore(False, options.n_features)

    collected = _Collected(file, options, empty())
    for _ in _parsed_blocks(collected, jobs, lambda _: None):
        if collected.store.rows >= rows:
            yield np.asarray(collected.replace(empty()).finished())
    yield np.asarray(collected.store.finished())


class _NoFeatures(FeatureStore):
    """Takes rows and keeps nothing of them."""

    def append(self, indptr: Array, indices: Array, values: Array, width: int) -> None:
        self.rows += indptr.size - 1


def _parsed_blocks(collected: _Collected, jobs: int, report: Callable[[int], None]) -> Iterator[None]:
    """Parse a file; after each block that was collected, the caller has a turn."""
    file, options = collected.file, collected.options
    block = min(_BLOCK, max(file_size(file) + 2, 4096))
    free: list[_Scratch] = []
    pending: deque[tuple[Future[tuple[int, ...]], _Scratch]] = deque()

    def finish_oldest() -> None:
        future, scratch = pending.popleft()
        collected.add(scratch, future.result())
        free.append(scratch)

    with TextSource(file) as source, ThreadPoolExecutor(jobs) as pool:
        scratch = _Scratch(block)
        while end := source.fill(scratch.buffer):
            pending.append((pool.submit(scratch.parse, end, options), scratch))
            if len(pending) > jobs:
                finish_oldest()
                report(source.position())
                yield
            scratch = free.pop() if free else _Scratch(block)
        while pending:
            finish_oldest()
            yield


class _Collected:
    """What has been parsed so far, block after block in the order of the file."""

    def __init__(self, file: Path, options: LetorOptions, store: FeatureStore) -> None:
        self.file = file
        self.options = options
        self.store = store
        self._width = options.n_features or 0
        self._lines = 0
        self._rows = 0
        self._labels: list[F32] = []
        self._starts: list[int] = []
        self._tokens: list[bytes] = []
        self._warned = False
        self._ids: list[Array] = []
        self._id_lengths: list[I64] = []

    def add(self, scratch: _Scratch, result: tuple[int, ...]) -> None:
        from tautrank.data import _letor_kernel as kernel

        status, stop, lines, rows, stored, n_runs, n_slow, width = result
        text = memoryview(scratch.buffer)
        if rows and self._rows and status != kernel.BAD_LABEL and bool(self._tokens) != bool(n_runs):
            # This block's first row disagrees with the rows before it on whether there is a qid.
            status = kernel.UNEXPECTED_QID if n_runs else kernel.MISSING_QID
            first_row = re.search(rb"^[ \t\r]*[^ \t\r\n#]", text, re.MULTILINE)
            stop = first_row.start() if first_row else 0
        for slot, begin, end in scratch.slow[:n_slow].tolist():
            # Python reads the numbers whose nearest float32 the kernel could not prove.
            with np.errstate(over="ignore"):
                value = np.float32(float(bytes(text[begin:end])))
            if not np.isfinite(value):
                token = re.search(rb"[^ \t\r\n]*\Z", bytes(text[:begin]))
                status = kernel.BAD_LABEL if slot < 0 else kernel.VALUE_OVERFLOW
                stop = token.start() if token else begin
                break
            if slot < 0:
                scratch.labels[-1 - slot] = value
            else:
                scratch.values[slot] = value
        if status != kernel.OK:
            _raise(status, self.file, self._lines, bytes(text), stop, self.options)
        for row, begin, length in scratch.runs[:n_runs].tolist():
            qid = bytes(text[begin : begin + length])
            if not self._tokens or self._tokens[-1] != qid:
                self._starts.append(self._rows + row)
                self._tokens.append(qid)
        if scratch.rounded[0] >= 0 and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.file}: feature {scratch.rounded[0]} has values of more than nine digits, which are "
                "rounded to float32 (7 digits); arrays and tables keep them",
                TautrankWarning,
                stacklevel=5,
            )
        self._labels.append(scratch.labels[:rows].copy())
        if rows:
            self._ids.append(scratch.ids[: scratch.id_ends[rows - 1]].copy())
            self._id_lengths.append(np.diff(scratch.id_ends[:rows], prepend=0))
        self.store.append(scratch.indptr[: rows + 1], scratch.indices[:stored], scratch.values[:stored], width)
        self._width = max(self._width, width)
        self._lines += lines
        self._rows += rows

    def replace(self, store: FeatureStore) -> FeatureStore:
        """Go on with another store, and keep of what was collected only what the next block needs; return the old."""
        for part in (self._labels, self._ids, self._id_lengths):
            part.clear()
        old, self.store = self.store, store
        return old

    def finished(self) -> parsed_cache.ParsedArrays:
        if self._rows == 0:
            what = "no documents, only comments or blank lines" if self._lines else "an empty file"
            raise DataError(f"{self.file}: found {what}; expected lines such as '2 qid:1 1:0.5'")
        starts = np.array(self._starts, np.int64)
        lengths, ids = np.concatenate(self._id_lengths), None
        if lengths.all():  # every document has one
            from tautrank.data._letor_kernel import padded_ids

            ids = np.zeros(self._rows, f"S{lengths.max()}")
            padded_ids(np.concatenate(self._ids), np.cumsum(lengths), ids.view(np.uint8).reshape(self._rows, -1))
        return parsed_cache.ParsedArrays(np.concatenate(self._labels), starts, self._tokens, self._width, ids)


def _raise(status: int, file: Path, lines: int, text: bytes, stop: int, options: LetorOptions) -> NoReturn:
    """Raise the error for what stopped the kernel at a place of a block that has so many lines before it."""
    from tautrank.data import _letor_kernel as kernel

    line = lines + text.count(b"\n", 0, stop) + 1
    where = f"{file}:{line}"
    start = text.rfind(b"\n", 0, stop) + 1
    content = text[start : stop + 2**16].partition(b"\n")[0]
    if b"\0" in content or sum(c < 9 or 13 < c < 32 for c in content) > 2:
        raise DataError(f"{where}: found binary data; expected LETOR text such as '2 qid:1 1:0.5'")
    before, after = content[: stop - start], content[stop - start :]
    token = re.split(rb"[ \t\r#]", after, maxsplit=1)[0].decode("utf-8", "replace")
    token = token if len(token) <= 40 else token[:37] + "..."
    index, _, value = token.partition(":")
    same = re.search(rb"[ \t]" + re.escape(index.encode()) + rb":", before)
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
