"""Read LETOR text, the SVMlight dialect of ranking: ``label qid:7 1:0.5 2:0.25 # comment``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arguments import job_count
from tautrank.arrays import Array
from tautrank.data import cache as cached_files
from tautrank.data.feature_store import FeatureStore, Sparse
from tautrank.data.letor_blocks import parse_letor
from tautrank.data.letor_options import DEFAULT_MAX_FEATURES, LetorOptions
from tautrank.data.letor_plain import SMALL, read_plain
from tautrank.data.parsed_files import ParsedArrays, joined_files, name_of_files
from tautrank.data.queries import offsets_from_sizes
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import file_size, first_file, read_lines
from tautrank.errors import DataError
from tautrank.files import PathLike, paths_of
from tautrank.progress import PartOf, Progress, Silent


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
    reader = _FileReader(
        options=options,
        jobs=job_count(n_jobs),
        cache=cache,
        store=FeatureStore(options.sparse, options.n_features),
    )
    sizes = [file_size(file) for file in files]
    n_bytes = max(1, sum(sizes))
    parts: list[ParsedArrays] = []
    for number, (file, size) in enumerate(zip(files, sizes, strict=True)):
        progress_of_file = PartOf(progress or Silent(), sum(sizes[:number]), n_bytes)
        parsed = reader.read(file, progress_of_file)
        progress_of_file.update(size, size, "")
        _apply_group_sizes(file, parsed)
        parts.append(parsed)
        if bool(parsed.tokens) != bool(parts[0].tokens):
            raise DataError(
                f"{file}: some files have 'qid:' and others group sizes in a side file; "
                "expected one kind"
            )

    labels, queries = joined_files(parts, name_of_files(files))
    doc_ids = _decode_ids([part.ids for part in parts])
    return RankingData.of_queries(reader.store.finished(), labels, queries, doc_ids=doc_ids)


@dataclass(frozen=True)
class _FileReader:
    """Reads files one by one: their features into one store, all else as arrays.

    Attributes:
        options: how text is read.
        jobs: number of threads.
        cache: whether parsed arrays are kept next to the files; None for large files.
        store: collects the features.
    """

    options: LetorOptions
    jobs: int
    cache: bool | None
    store: FeatureStore

    def read(self, file: Path, progress: Progress) -> ParsedArrays:
        """Read a LETOR file: its features go to the store, labels and ids are returned.

        There are three ways: from the file's cache, without the compiler for a small file, or with
        the compiled parser, which fills the store itself.
        """
        parsed: ParsedArrays | None
        # The stamp by which a valid cache is recognised; None if the file is not to be cached.
        stamp = cached_files.stamp_of(file, self.options, self.cache)
        if stamp is not None:
            parsed = self._read_cached(file, stamp, progress)
        else:
            parsed = self._read_small(file)
            if parsed is None:
                return parse_letor(file, self.options, self.jobs, self.store, progress)
        self.store.append_matrix(parsed.X)
        parsed.X = None  # the store has the features: no second reference keeps them in memory
        return parsed

    def _read_cached(self, file: Path, stamp: dict[str, Any], progress: Progress) -> ParsedArrays:
        """Return a file's arrays from its cache; without a valid cache, parse the file and write
        one.

        Args:
            file: the text file.
            stamp: size, time and options that a valid cache was made from.
            progress: what is told how many bytes have been read.
        """
        parsed = cached_files.load(file, stamp, self.jobs)
        if parsed is None:
            store = FeatureStore(self.options.sparse, self.options.n_features)
            parsed = parse_letor(file, self.options, self.jobs, store, progress)
            parsed.X = store.finished()
            cached_files.save(file, stamp, self.jobs, parsed)
        return parsed

    def _read_small(self, file: Path) -> ParsedArrays | None:
        """Parse a small file by a regular expression instead of the compiled parser, whose import
        takes longer than the parsing; None if the compiled parser has to, or may as well, read it.
        """
        is_small = 0 < file_size(file) <= SMALL
        if not is_small or _has_compiler():
            return None
        if self.store.rows > 0 or self.options.sparse is True:
            return None
        return read_plain(file, self.options)


def _has_compiler() -> bool:
    """Return whether Numba has been imported."""
    return "numba" in sys.modules


def _apply_group_sizes(file: Path, parsed: ParsedArrays) -> None:
    """Set `parsed.starts`, the first row of each query of a LETOR file, from the side file of group
    sizes (documents per query) that LightGBM (``FILE.query``) or XGBoost (``FILE.group``) reads.

    A file without 'qid:' needs a side file; if it has both, they must agree.
    """
    candidates = [file.with_name(file.name + suffix) for suffix in (".query", ".group")]
    side_file = first_file(candidates)
    if side_file is None:
        if not parsed.tokens:
            raise DataError(
                f"{file}:1: no 'qid:' in the file and no {file.name}.query next to it; "
                "expected one or the other"
            )
        return

    sizes = _read_group_sizes(side_file)
    n_documents = parsed.labels.size
    if sum(sizes) != n_documents:
        raise DataError(
            f"{side_file}: the group sizes add up to {sum(sizes)}, "
            f"but {file.name} has {n_documents} documents; expected the same number"
        )
    # Offsets are where each query begins, and the number of documents at the end.
    starts = offsets_from_sizes(np.array(sizes, np.int64))[:-1]
    if parsed.tokens and not np.array_equal(parsed.starts, starts):
        raise DataError(
            f"{side_file}: the group sizes disagree with the 'qid:' of {file.name}; "
            "expected them to agree (delete the one out of date)"
        )
    parsed.starts = starts


def _read_group_sizes(side_file: Path) -> list[int]:
    """Read a file of group sizes: one number of documents per line and query; blank lines are
    skipped.
    """
    sizes = []
    for line_number, line in enumerate(read_lines(side_file), 1):
        word = line.strip()
        if not word:
            continue
        is_size = re.fullmatch(r"[0-9]{1,15}", word) and int(word) > 0
        if not is_size:
            raise DataError(
                f"{side_file}:{line_number}: found '{word[:40]}'; "
                "expected the number of documents of a query, at least 1"
            )
        sizes.append(int(word))
    return sizes


def _decode_ids(parts: Sequence[Array | None]) -> Array | None:
    """Return the document ids of several files as one array of text; None if a file has no ids.

    Args:
        parts: the ids of each file as bytes; None for a file without ids.
    """
    parts_with_ids = [part for part in parts if part is not None]
    is_one_without_ids = len(parts_with_ids) < len(parts)
    if is_one_without_ids:
        return None
    ids = np.concatenate(parts_with_ids)
    try:
        return ids.astype(str)  # reads ASCII only, but ten times as fast
    except UnicodeDecodeError:
        return np.char.decode(ids, "utf-8", "backslashreplace")
