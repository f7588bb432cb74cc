"""Parse LETOR text block by block, several blocks at a time, by the compiled loop."""

from __future__ import annotations

import itertools
import re
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tautrank.arrays import F32, I32, I64, Array
from tautrank.data.feature_store import FeatureStore
from tautrank.data.letor_errors import Stop, check_stop
from tautrank.data.letor_options import LetorOptions
from tautrank.data.parsed_files import ParsedArrays
from tautrank.data.text_source import TextSource, file_size
from tautrank.errors import DataError, TautrankWarning
from tautrank.progress import Progress, Silent

_BLOCK_BYTES = 2 * 2**20
_NO_FEATURE = -1


def parse_letor(
    file: Path,
    options: LetorOptions,
    jobs: int,
    store: FeatureStore | None = None,
    progress: Progress | None = None,
) -> ParsedArrays:
    """Parse a LETOR file into labels, query ids and document ids, and append its features to
    `store`; warn once if float32 rounds values of many digits.

    Args:
        file: the file.
        options: how to read it.
        jobs: number of threads.
        store: what the features are appended to; None to leave them out.
        progress: what is told how many bytes have been read.
    """
    documents = _Documents()  # collects labels and ids of all blocks
    width = options.n_features or 0
    rounded_feature: int | None = None
    is_empty = True
    for block in _parsed_blocks(file, options, jobs, progress or Silent()):
        is_empty = False
        documents.add(block)
        if store is not None:
            store.append(block.indptr, block.indices, block.values, block.width)
        width = max(width, block.width)
        if rounded_feature is None:
            rounded_feature = block.rounded_feature

    if documents.n_rows == 0:
        content = "an empty file" if is_empty else "no documents, only comments or blank lines"
        raise DataError(f"{file}: found {content}; expected lines such as '2 qid:1 1:0.5'")
    if rounded_feature is not None:
        warnings.warn(
            f"{file}: feature {rounded_feature} has values of more than nine digits, "
            "which are rounded to float32 (7 digits); arrays and tables keep them",
            TautrankWarning,
            stacklevel=4,  # the caller of `read_letor`
        )
    return documents.parsed(width)


def letor_chunks(file: Path, options: LetorOptions, jobs: int, rows: int) -> Iterator[F32]:
    """Yield the features of a LETOR file in order, as dense matrices of at least `rows` rows each
    (the last one may have fewer).

    Args:
        file: the file.
        options: how to read it; they say how many columns there are.
        jobs: number of threads.
        rows: smallest number of rows of a matrix.
    """
    store = FeatureStore(False, options.n_features)  # False: dense
    for block in _parsed_blocks(file, options, jobs, Silent()):
        store.append(block.indptr, block.indices, block.values, block.width)
        if store.rows >= rows:
            yield store.finished()
            store = FeatureStore(False, options.n_features)
    yield store.finished()


@dataclass
class _Documents:
    """Collects labels, query ids and document ids of parsed blocks; features go elsewhere.

    Attributes:
        n_rows: number of documents so far.
        starts: the first row of every run of documents with the same query id.
        tokens: the query id of each run.
        labels: one array per block.
        ids: the bytes of all document ids of a block, one after the other; one array per block.
        id_sizes: the number of bytes of each document's id; one array per block.
    """

    n_rows: int = 0
    starts: list[int] = field(default_factory=list)
    tokens: list[bytes] = field(default_factory=list)
    labels: list[F32] = field(default_factory=list)
    ids: list[Array] = field(default_factory=list)
    id_sizes: list[I64] = field(default_factory=list)

    def add(self, block: _Block) -> None:
        """Append the labels, query ids and document ids of the next block of a file; adjacent rows
        with the same query id (a run) have it stored once, with the first row of the run.
        """
        for row_in_block, query_id in block.query_runs:
            # A query may go on from one block to the next.
            is_new_query = not self.tokens or self.tokens[-1] != query_id
            if is_new_query:
                self.starts.append(self.n_rows + row_in_block)
                self.tokens.append(query_id)
        self.labels.append(block.labels)
        self.ids.append(block.ids)
        self.id_sizes.append(block.id_sizes)
        self.n_rows += block.n_rows

    def parsed(self, width: int) -> ParsedArrays:
        """Return labels, query ids and document ids of all blocks as arrays.

        Args:
            width: number of feature columns of the file.
        """
        return ParsedArrays(
            labels=np.concatenate(self.labels),
            starts=np.array(self.starts, np.int64),
            tokens=self.tokens,
            width=width,
            ids=self._document_ids(),
        )

    def _document_ids(self) -> Array | None:
        """Return the document ids as one array of byte strings; None if a document has no id."""
        sizes = np.concatenate(self.id_sizes)  # bytes of each document's id; 0 without an id
        every_document_has_id = sizes.all()
        if not every_document_has_id:
            return None
        longest = sizes.max()
        ids = np.zeros(self.n_rows, f"S{longest}")  # short ids end in zero bytes

        # The bytes of all ids are written at once: row by row, as many bytes as each id has.
        bytes_of_ids = ids.view(np.uint8).reshape(self.n_rows, longest)
        is_used = np.arange(longest) < sizes[:, None]
        bytes_of_ids[is_used] = np.concatenate(self.ids)
        return ids


def _parsed_blocks(
    file: Path, options: LetorOptions, jobs: int, progress: Progress
) -> Iterator[_Block]:
    """Parse a LETOR file in blocks of lines by several threads, and yield the blocks in order;
    raise an error with file and line at the first line that is not LETOR text.

    The arrays of a block are valid only until the next block is asked for: they are then used for
    another part of the file.
    """
    # Blocks whose arrays can be used again, and blocks that threads are parsing, in file order.
    unused: list[_Block] = []
    pending: deque[Future[_Block]] = deque()
    n_lines = 0
    # A file has query ids on all lines or on none; None until a line with a document has been seen.
    lines_before_have_qid: bool | None = None
    n_bytes = file_size(file)
    with TextSource(file) as source, ThreadPoolExecutor(jobs) as pool:
        texts = source.blocks(_BLOCK_BYTES)
        while True:
            # One block per thread is being parsed, and one more waits.
            n_free = jobs + 1 - len(pending)
            for text in itertools.islice(texts, n_free):
                block = unused.pop() if unused else _Block()
                pending.append(pool.submit(block.parse, text, options))
            if not pending:
                return
            block = pending.popleft().result()
            # `stop` says where and why parsing stopped; an error unless that is the block's end.
            check_stop(block.stop(file, n_lines), options, lines_before_have_qid)
            n_lines += block.n_lines
            if block.n_rows:
                lines_before_have_qid = block.has_qid
            yield block
            unused.append(block)
            n_bytes_read = min(source.position(), n_bytes)
            progress.update(n_bytes_read, n_bytes, "")


class _Output(NamedTuple):
    """Arrays that the compiled parser fills, in the order in which it takes them.

    Attributes:
        labels: one per row.
        indptr, indices, values: the features as compressed rows.
        query_runs: first row, and first byte and length of the query id, of each run of rows with
            the same query id.
        unproven_numbers: slot, first byte and end of each number that is left to Python.
        ids: the bytes of all document ids.
        id_ends: the end of each row's id in `ids`.
        rounded_feature: one number: a feature with more digits than float32 holds, or -1.
    """

    labels: F32
    indptr: I64
    indices: I32
    values: F32
    query_runs: I64
    unproven_numbers: I64
    ids: Array
    id_ends: I64
    rounded_feature: I64

    @classmethod
    def for_text(cls, n_bytes: int) -> _Output:
        """Return empty arrays that are large enough for what any text of `n_bytes` bytes holds."""
        # The shortest row is "0\n", the shortest feature " 1:0": these bounds cannot be exceeded.
        # Pages that are never touched cost no memory.
        n_rows = n_bytes // 2 + 1
        n_values = n_bytes // 4 + 1
        return cls(
            labels=np.empty(n_rows, np.float32),
            indptr=np.empty(n_rows + 1, np.int64),
            indices=np.empty(n_values, np.int32),
            values=np.empty(n_values, np.float32),
            query_runs=np.empty((n_rows, 3), np.int64),
            unproven_numbers=np.empty((n_rows + n_values, 3), np.int64),
            ids=np.empty(n_bytes, np.uint8),
            id_ends=np.empty(n_rows, np.int64),
            rounded_feature=np.empty(1, np.int64),
        )


class _Outcome(NamedTuple):
    """What the compiled loop returns, in its order."""

    status: int
    position: int
    n_lines: int
    n_rows: int
    n_values: int
    n_query_runs: int
    n_unproven_numbers: int
    width: int


class _Block:
    """A block of lines and what was parsed from it; a block is used for many parts of a file.

    `indptr`, `indices` and `values` are views of arrays that the next `parse` overwrites; all other
    results are copies.
    """

    text = b""
    _capacity = -1

    def parse(self, text: bytes, options: LetorOptions) -> _Block:
        """Parse lines of LETOR text into the attributes of this block, and return the block."""
        from tautrank.data import _letor_kernel as kernel

        self.text = text
        if len(text) > self._capacity:
            # An eighth more than needed: a block that is a little longer needs no new arrays.
            self._capacity = len(text) * 9 // 8
            self._output = _Output.for_text(self._capacity)
        output = self._output
        output.rounded_feature[0] = _NO_FEATURE
        outcome = _Outcome(
            *kernel.parse_block(
                np.frombuffer(text, np.uint8),
                options.first_index,
                options.last_index,
                options.allow_nan,
                tuple(output),
            )
        )
        self.status = outcome.status
        self.position = outcome.position
        self._read_unproven_numbers(output.unproven_numbers[: outcome.n_unproven_numbers])

        self.n_lines = outcome.n_lines
        self.n_rows = outcome.n_rows
        self.width = outcome.width
        feature = int(output.rounded_feature[0])
        self.rounded_feature = None if feature == _NO_FEATURE else feature
        self.query_runs = [
            (first_row, text[start : start + length])
            for first_row, start, length in output.query_runs[: outcome.n_query_runs].tolist()
        ]
        self.has_qid = bool(self.query_runs)

        # Views: features are taken before the next text is parsed.
        self.indptr = output.indptr[: outcome.n_rows + 1]
        self.indices = output.indices[: outcome.n_values]
        self.values = output.values[: outcome.n_values]
        # Copies: these are kept until the end of the file, and the next text overwrites the arrays.
        self.labels = output.labels[: outcome.n_rows].copy()
        self.id_sizes = np.diff(output.id_ends[: outcome.n_rows], prepend=0)
        self.ids = output.ids[: self.id_sizes.sum()].copy()
        return self

    def _read_unproven_numbers(self, unproven_numbers: I64) -> None:
        """Read by Python the numbers whose nearest float32 the compiled parser could not prove, and
        write them into the arrays of labels and values.

        If one is too large for float32, status and position say that parsing stopped there.

        Args:
            unproven_numbers: slot, first byte and end of each number. A slot of at least 0 is a
                position in the values; -1 - row means the label of that row.
        """
        from tautrank.data import _letor_kernel as kernel

        for slot, start, end in unproven_numbers.tolist():
            with np.errstate(over="ignore"):
                number = np.float32(float(self.text[start:end]))
            is_label = slot < 0
            if not np.isfinite(number):
                self.status = kernel.BAD_LABEL if is_label else kernel.VALUE_OVERFLOW
                # Back to the start of the word, which is 'index:value' for a value: the pattern
                # matches all that is no blank at the very end of the text before the number.
                word_before = re.search(rb"[^ \t\r\n]*\Z", self.text[:start])
                self.position = word_before.start() if word_before else start
                return
            if is_label:
                self._output.labels[-1 - slot] = number
            else:
                self._output.values[slot] = number

    def stop(self, file: Path, n_lines_before: int) -> Stop:
        """Return where and why the compiled parser stopped in this block, for an error message.

        Args:
            file: the file that the block was read from.
            n_lines_before: number of lines of the file before the block.
        """
        return Stop(
            file=file,
            n_lines_before=n_lines_before,
            text=self.text,
            status=self.status,
            position=self.position,
            has_rows=self.n_rows > 0,
            has_qid=self.has_qid,
        )
