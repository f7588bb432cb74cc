"""Read LETOR text, the SVMlight dialect of ranking: ``label qid:7 1:0.5 2:0.25 # comment``."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tautrank.arguments import check_fields, checked_by, job_count, whole
from tautrank.arrays import F32, I64, Array
from tautrank.data import cache as parsed_cache
from tautrank.data.arrays import offsets_from_sizes
from tautrank.data.cache import ParsedArrays, named_together, together
from tautrank.data.feature_store import FeatureStore, Sparse
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import TextSource, file_size, first_file, read_lines
from tautrank.errors import DataError, OptionError, TautrankWarning
from tautrank.files import PathLike, paths_of
from tautrank.progress import PartOf, Progress, Silent

_BLOCK = 2 * 2**20
DEFAULT_MAX_FEATURES = 1_000_000
SMALL = 3 * 2**20
"""The largest file, in bytes, that is read without the compiler: in a quarter of a second."""
_MOST_VALUES = 2**24
# Documents as most tools write them. A float of a word is the nearest double, as the compiled
# reader finds it.
_ROW = re.compile(
    rb"^([0-9]{1,7}(?:\.[0-9]{1,9})?) qid:([^\s#]+)"
    rb"((?: [0-9]{1,9}:-?[0-9]{1,7}(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,2})?)*) ?"
    rb"(?:# ?docid = ([^\s]{1,250})(?: [^\n]*)?)?\r?\n",
    re.MULTILINE,
)


@dataclass(frozen=True)
class LetorOptions:
    """The options that decide how a LETOR file is read; part of the key of the cache."""

    zero_based: bool = False
    n_features: int | None = field(default=None, metadata=checked_by(whole, least=1))
    max_features: int = field(default=DEFAULT_MAX_FEATURES, metadata=checked_by(whole, least=1))
    allow_nan: bool = False
    sparse: Sparse = "auto"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.sparse not in (True, False, "auto"):
            raise OptionError(f"sparse: found {self.sparse!r}; expected True, False or 'auto'")

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest feature index a file may use; int32 columns bound it in any
        case.
        """
        first = 0 if self.zero_based else 1
        return first, min(self.n_features or self.max_features, 2**31 - 2) + first - 1


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
    progress: Progress | None = None,
) -> RankingData:
    """Read one or several LETOR / SVMlight ranking files as one data set.

    A line is ``label qid:ID index:value ... # comment``; absent features are 0. Files compressed
    with gzip, bzip2 or xz are read directly. If every document has a comment of one word or with
    ``docid = ID``, that is its id (`RankingData.doc_ids`). Where no line has a ``qid:``, the group
    sizes are taken from a side file, as LightGBM (``FILE.query``) and XGBoost (``FILE.group``) have
    them. Rows of a query that are not adjacent are gathered in the order they appear, and a warning
    says so once. A value is the float32 nearest to the double the text denotes.

    Reading is parallel and streaming: the text is never in memory as a whole.

    Args:
        paths: a path or a sequence of paths, read in that order.
        zero_based: the file's first feature index is 0, as LightGBM writes it; default is 1, the
            LETOR convention.
        n_features: the number of columns, if known; a larger index in the file is then an error.
        max_features: the largest feature index believed when `n_features` is not given.
        allow_nan: read ``nan`` as a missing value; otherwise it is an error, as ``inf`` always is.
        sparse: ``True`` returns `X` as SciPy CSR, ``False`` as a dense array, ``"auto"`` dense
            unless that takes more than 64 MiB and more than eight times the memory of CSR.
        cache: keep the parsed arrays next to the file (``FILE.tautcache``) and use them while size,
            time stamp and content hash of the file are unchanged. ``None``: for files of at least
            64 MiB in a writable folder, unless the environment says ``TAUTRANK_CACHE=0``.
        n_jobs: number of parsing threads; default all cores of this process.
        progress: what is told how many bytes of the files have been read.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = file.write_text("2 qid:7 1:0.5 3:1 # a\\n0 qid:7 2:0.25\\n1 qid:8 1:1\\n")
    >>> data = read_letor(file)
    >>> data
    RankingData(2 queries, 3 documents, 3 features)
    >>> data.X.tolist()
    [[0.5, 0.0, 1.0], [0.0, 0.25, 0.0], [1.0, 0.0, 0.0]]
    """
    files = paths_of(paths)
    options = LetorOptions(zero_based, n_features, max_features, allow_nan, sparse)
    jobs = job_count(n_jobs)
    n_bytes = max(1, sum(map(file_size, files)))
    n_bytes_before = 0
    store = FeatureStore(options.sparse, options.n_features)
    parts: list[ParsedArrays] = []
    for file in files:
        of_file = PartOf(progress or Silent(), n_bytes_before, n_bytes)
        parsed = _read_file(file, options, store, jobs, cache, of_file)
        n_bytes_before += file_size(file)
        of_file.update(file_size(file), file_size(file), "")
        _apply_group_sizes(file, parsed)
        parts.append(parsed)
        if bool(parsed.tokens) != bool(parts[0].tokens):
            raise DataError(
                f"{file}: some files have 'qid:' and others group sizes in a side file; expected one kind"
            )
    labels, queries = together(parts, named_together(files))
    return RankingData.of_queries(
        store.finished(), labels, queries, doc_ids=_decoded([part.ids for part in parts])
    )


def _apply_group_sizes(file: Path, parsed: ParsedArrays) -> None:
    """Take the queries of a file without 'qid:' from the side file of LightGBM or XGBoost; one
    beside them agrees.
    """
    side = first_file(file.with_name(file.name + suffix) for suffix in (".query", ".group"))
    if side is None:
        if not parsed.tokens:
            found = f"no 'qid:' in the file and no {file.name}.query next to it"
            raise DataError(f"{file}:1: {found}; expected one or the other")
        return
    sizes = []
    for number, line in enumerate(read_lines(side), 1):
        token = line.strip()
        if token and (not re.fullmatch(r"[0-9]{1,15}", token) or int(token) == 0):
            expected = "the number of documents of a query, at least 1"
            raise DataError(f"{side}:{number}: found '{token[:40]}'; expected {expected}")
        sizes += [int(token)] if token else []
    if sum(sizes) != parsed.labels.size:
        found = f"the group sizes add up to {sum(sizes)}, but {file.name} has {parsed.labels.size} documents"
        raise DataError(f"{side}: {found}; expected the same number")
    starts = offsets_from_sizes(np.array(sizes, np.int64))[:-1]
    if parsed.tokens and not np.array_equal(parsed.starts, starts):
        expected = "them to agree (delete the one out of date)"
        raise DataError(
            f"{side}: the group sizes disagree with the 'qid:' of {file.name}; expected {expected}"
        )
    parsed.starts = starts


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
    file: Path,
    options: LetorOptions,
    store: FeatureStore,
    jobs: int,
    cache: bool | None,
    progress: Progress,
) -> ParsedArrays:
    """Read a file: its features into a store, and the rest as arrays."""
    stamp = parsed_cache.stamp_of(file, options, cache)
    parsed = None if stamp is None else parsed_cache.load(file, stamp, jobs)
    small = (
        0 < file_size(file) <= SMALL
        and stamp is None
        and store.rows == 0
        and options.sparse is not True
    )
    if small and not _has_compiler():
        parsed = read_plain(file, *options.limits, options.n_features)
    if parsed is None:
        if stamp is None:
            return parse_letor(file, options, jobs, store, progress)
        own = FeatureStore(options.sparse, options.n_features)
        parsed = parse_letor(file, options, jobs, own, progress)
        parsed.X = own.finished()
        parsed_cache.save(file, stamp, jobs, parsed)
    store.append_matrix(parsed.X)
    parsed.X = None
    return parsed


def _has_compiler() -> bool:
    return "numba" in sys.modules


def read_plain(file: Path, first: int, last: int, n_features: int | None) -> ParsedArrays | None:
    """Read a small, regular file without the compiler, whose import and loading take longer than
    the reading.

    Returns what the compiled reader would; None for what only that one reads, or finds the words
    for.

    Args:
        file: file of at most `SMALL` bytes; a compressed one is not for this reader.
        first, last: the smallest and the largest index of a feature.
        n_features: number of columns, if known.
    """
    with TextSource(file) as source:
        text = next(source.blocks(SMALL), b"")
    rows = _ROW.findall(text) if len(text) <= SMALL and b"\0" not in text else []
    if not rows or len(rows) != text.count(b"\n"):
        return None
    labels, qids, features, ids = zip(*rows, strict=True)
    words = b"".join(features).replace(b":", b" ").split()
    indices = np.array([*map(int, words[::2])], np.int64)
    values = np.array([*map(float, words[1::2])])
    sizes = np.array([part.count(b":") for part in features])
    row = np.repeat(np.arange(sizes.size), sizes)
    ascending = (np.diff(indices) > 0) | (np.diff(row) > 0)
    if indices.size and not (ascending.all() and indices.min() >= first and indices.max() <= last):
        return None
    width = max(n_features or 0, int(indices.max(initial=first - 1)) - first + 1)
    if width * sizes.size > _MOST_VALUES or not np.all(np.abs(values) <= _MOST_VALUES):
        return None
    dense = np.zeros((sizes.size, width), np.float32)
    dense[row, indices - first] = values
    starts = [0] + [at for at in range(1, len(qids)) if qids[at] != qids[at - 1]]
    named = np.array(ids) if all(ids) else None
    found = np.array([*map(float, labels)], np.float32)
    return ParsedArrays(found, np.array(starts), [qids[at] for at in starts], width, named, dense)


class _Block:
    """Lines of text, and the arrays they are parsed into, which are used again and again."""

    text = b""
    _size = -1

    def parse(self, text: bytes, options: LetorOptions) -> _Block:
        from tautrank.data import _letor_kernel as kernel

        self.text = text
        if len(text) > self._size:
            # The shortest row is "0\n", the shortest feature " 1:0": these bounds cannot be
            # exceeded. Pages that are never touched cost no memory.
            self._size = len(text) * 9 // 8
            rows, stored = self._size // 2 + 1, self._size // 4 + 1
            labels, indptr = np.empty(rows, np.float32), np.empty(rows + 1, np.int64)
            indices, values = np.empty(stored, np.int32), np.empty(stored, np.float32)
            runs, slow = np.empty((rows, 3), np.int64), np.empty((rows + stored, 3), np.int64)
            ids, id_ends = np.empty(self._size, np.uint8), np.empty(rows, np.int64)
            self._arrays = labels, indptr, indices, values, runs, slow, ids, id_ends
        labels, indptr, indices, values, runs, slow, ids, id_ends = self._arrays
        rounded = np.full(1, -1)
        how = (*options.limits, options.allow_nan, (*self._arrays, rounded))
        found = kernel.parse_block(np.frombuffer(text, np.uint8), *how)
        self.status, self.stop, self.lines, self.rows, stored, n_runs, n_slow, self.width = found
        self.rounded = int(rounded[0])
        self.runs = [(row, text[at : at + length]) for row, at, length in runs[:n_runs].tolist()]
        for slot, begin, stop in slow[:n_slow].tolist():
            # Python reads the numbers whose nearest float32 the kernel could not prove.
            with np.errstate(over="ignore"):
                value = np.float32(float(text[begin:stop]))
            if not np.isfinite(value):
                token = re.search(rb"[^ \t\r\n]*\Z", text[:begin])
                self.status = kernel.BAD_LABEL if slot < 0 else kernel.VALUE_OVERFLOW
                self.stop = token.start() if token else begin
                break
            if slot < 0:
                labels[-1 - slot] = value
            else:
                values[slot] = value
        id_sizes = np.diff(id_ends[: self.rows], prepend=0)
        self.documents = labels[: self.rows].copy(), ids[: id_sizes.sum()].copy(), id_sizes
        self.features = indptr[: self.rows + 1], indices[:stored], values[:stored], self.width
        return self


def _parsed_blocks(
    file: Path, options: LetorOptions, jobs: int, progress: Progress
) -> Iterator[_Block]:
    """Parse a file, and yield its blocks in order; each has its values until the next one is asked
    for.
    """
    free: list[_Block] = []
    pending: deque[Future[_Block]] = deque()
    lines, has_qid = 0, None
    n_bytes = file_size(file)
    with TextSource(file) as source, ThreadPoolExecutor(jobs) as pool:
        texts = source.blocks(_BLOCK)
        while True:
            for text in itertools.islice(texts, jobs + 1 - len(pending)):
                block = free.pop() if free else _Block()
                pending.append(pool.submit(block.parse, text, options))
            if not pending:
                return
            block = pending.popleft().result()
            _check(block, file, lines, has_qid, options)
            lines += block.lines
            has_qid = bool(block.runs) if block.rows else has_qid
            yield block
            free.append(block)
            progress.update(min(source.position(), n_bytes), n_bytes, "")


def parse_letor(
    file: Path,
    options: LetorOptions,
    jobs: int,
    store: FeatureStore | None = None,
    progress: Progress | None = None,
) -> ParsedArrays:
    """Read a LETOR file: labels, queries and ids of documents, and the number of columns.

    Args:
        file: the file.
        options: how to read it.
        jobs: number of threads.
        store: what the features are added to; None to leave them out.
        progress: what is told how many bytes have been read.
    """
    documents: list[tuple[F32, Array, I64]] = []
    starts, tokens = list[int](), list[bytes]()
    width, rows, rounded, block = options.n_features or 0, 0, -1, None
    for block in _parsed_blocks(file, options, jobs, progress or Silent()):
        for row, qid in block.runs:
            if not tokens or tokens[-1] != qid:
                starts.append(rows + row)
                tokens.append(qid)
        documents.append(block.documents)
        if store is not None:
            store.append(*block.features)
        width = max(width, block.width)
        rows += block.rows
        rounded = block.rounded if rounded < 0 else rounded
    if rows == 0:
        what = "an empty file" if block is None else "no documents, only comments or blank lines"
        raise DataError(f"{file}: found {what}; expected lines such as '2 qid:1 1:0.5'")
    if rounded >= 0:
        note = f"feature {rounded} has values of more than nine digits, which are rounded to float32 (7 digits)"
        warnings.warn(f"{file}: {note}; arrays and tables keep them", TautrankWarning, stacklevel=4)
    labels, ids, sizes = (np.concatenate(parts) for parts in zip(*documents, strict=True))
    named = np.zeros(rows, f"S{sizes.max()}") if sizes.all() else None  # if every document has one
    if named is not None:
        named.view(np.uint8).reshape(rows, -1)[np.arange(sizes.max()) < sizes[:, None]] = ids
    return ParsedArrays(labels, np.array(starts, np.int64), tokens, width, named)


def letor_chunks(file: Path, options: LetorOptions, jobs: int, rows: int) -> Iterator[F32]:
    """Yield the features of a LETOR file in order, about so many dense rows at a time.

    Args:
        file: the file.
        options: how to read it; they say how many columns there are.
        jobs: number of threads.
        rows: number of rows to yield at a time, at least.
    """
    store = FeatureStore(False, options.n_features)
    for block in _parsed_blocks(file, options, jobs, Silent()):
        store.append(*block.features)
        if store.rows >= rows:
            yield store.finished()
            store = FeatureStore(False, options.n_features)
    yield store.finished()


def _check(
    block: _Block, file: Path, lines: int, has_qid: bool | None, options: LetorOptions
) -> None:
    """Raise the error for what stopped the kernel in a block; the `lines` before it have qids or
    not.
    """
    from tautrank.data import _letor_kernel as kernel

    status, stop, text = block.status, block.stop, block.text
    if block.rows and has_qid not in (None, bool(block.runs)) and status != kernel.BAD_LABEL:
        status = kernel.MISSING_QID if has_qid else kernel.UNEXPECTED_QID
        first_row = re.search(rb"^[ \t\r]*[^ \t\r\n#]", text, re.MULTILINE)
        stop = first_row.start() if first_row else 0
    if status == kernel.OK:
        return
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
        hint = (
            "; allow_nan=True (--allow-nan) reads it as a missing value"
            if "nan" in value.lower()
            else ""
        )
        bad_value = f"feature {index} has the value '{value}'; expected a finite number{hint}"
    sentences = {
        kernel.BAD_LABEL: bad_label,
        kernel.BAD_QID: "found 'qid:' without an id; expected 'qid:' and the query's id without a space",
        kernel.MISSING_QID: "found no 'qid:' after the label; expected one, as on the lines before",
        kernel.UNEXPECTED_QID: "found a 'qid:', but the lines before have none; expected it on all lines or none",
        kernel.BAD_INDEX: f"found '{token}' where a feature belongs; expected 'index:value' such as '3:0.5'",
        kernel.INDEX_TOO_SMALL: f"found feature index {index}; expected indices from {options.limits[0]} on "
        "(zero_based=True if the file counts from 0)",
        kernel.INDEX_NOT_ASCENDING: f"feature index {index} is {'repeated' if same else 'out of order'}; "
        "expected ascending indices, each once",
        kernel.INDEX_TOO_LARGE: f"found feature index {index}; expected at most {options.limits[1]} "
        f"({limit}={getattr(options, limit)})",
        kernel.BAD_VALUE: bad_value,
        kernel.VALUE_OVERFLOW: f"feature {index} has the value '{value}', too large for float32; "
        "expected at most 3.4e38",
    }
    raise DataError(f"{where}: {sentences[status]}")
