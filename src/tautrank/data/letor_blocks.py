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
    documents = _Documents()
    width = options.n_features or 0
    rounded_feature = -1
    is_empty = True
    for block in _parsed_blocks(file, options, jobs, progress or Silent()):
        is_empty = False
        documents.add(block)
        if store is not None:
            store.append(block.indptr, block.indices, block.values, block.width)
        width = max(width, block.width)
        if rounded_feature < 0:
            rounded_feature = block.rounded_feature

    if documents.n_rows == 0:
        content = "an empty file" if is_empty else "no documents, only comments or blank lines"
        raise DataError(f"{file}: found {content}; expected lines such as '2 qid:1 1:0.5'")
    if rounded_feature >= 0:
        warnings.warn(
            f"{file}: feature {rounded_feature} has values of more than nine digits, "
            "which are rounded to float32 (7 digits); arrays and tables keep them",
            TautrankWarning,
            stacklevel=4,
        )
    return documents.parsed(width)


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
        store.append(block.indptr, block.indices, block.values, block.width)
        if store.rows >= rows:
            yield store.finished()
            store = FeatureStore(False, options.n_features)
    yield store.finished()


@dataclass
class _Documents:
    """All that is kept of parsed blocks but the features."""

    n_rows: int = 0
    starts: list[int] = field(default_factory=list)
    tokens: list[bytes] = field(default_factory=list)
    labels: list[F32] = field(default_factory=list)
    ids: list[Array] = field(default_factory=list)
    id_sizes: list[I64] = field(default_factory=list)

    def add(self, block: _Block) -> None:
        """Add the documents of a block."""
        for row, token in block.runs:
            # A query may go on from one block to the next.
            if not self.tokens or self.tokens[-1] != token:
                self.starts.append(self.n_rows + row)
                self.tokens.append(token)
        self.labels.append(block.labels)
        self.ids.append(block.ids)
        self.id_sizes.append(block.id_sizes)
        self.n_rows += block.n_rows

    def parsed(self, width: int) -> ParsedArrays:
        """Return the documents of all blocks."""
        return ParsedArrays(
            labels=np.concatenate(self.labels),
            starts=np.array(self.starts, np.int64),
            tokens=self.tokens,
            width=width,
            ids=self._document_ids(),
        )

    def _document_ids(self) -> Array | None:
        """Return the ids as one array of bytes, None if not every document has one."""
        sizes = np.concatenate(self.id_sizes)
        if not sizes.all():
            return None
        longest = sizes.max()
        ids = np.zeros(self.n_rows, f"S{longest}")
        letters = ids.view(np.uint8).reshape(self.n_rows, -1)
        is_used = np.arange(longest) < sizes[:, None]
        letters[is_used] = np.concatenate(self.ids)
        return ids


def _parsed_blocks(
    file: Path, options: LetorOptions, jobs: int, progress: Progress
) -> Iterator[_Block]:
    """Parse a file, and yield its blocks in order; each has its values until the next one is asked
    for.
    """
    unused: list[_Block] = []
    pending: deque[Future[_Block]] = deque()
    n_lines = 0
    has_qid: bool | None = None
    n_bytes = file_size(file)
    with TextSource(file) as source, ThreadPoolExecutor(jobs) as pool:
        texts = source.blocks(_BLOCK_BYTES)
        while True:
            for text in itertools.islice(texts, jobs + 1 - len(pending)):
                block = unused.pop() if unused else _Block()
                pending.append(pool.submit(block.parse, text, options))
            if not pending:
                return
            block = pending.popleft().result()
            check_stop(block.stop(file, n_lines), options, has_qid)
            n_lines += block.n_lines
            if block.n_rows:
                has_qid = bool(block.runs)
            yield block
            unused.append(block)
            progress.update(min(source.position(), n_bytes), n_bytes, "")


class _Output(NamedTuple):
    """Arrays that the compiled loop fills, in its order; `_letor_kernel.parse_block` explains
    them.
    """

    labels: F32
    indptr: I64
    indices: I32
    values: F32
    runs: I64
    slow: I64
    ids: Array
    id_ends: I64
    rounded_feature: I64

    @classmethod
    def for_text(cls, n_bytes: int) -> _Output:
        """Return arrays that are large enough for any text of so many bytes."""
        # The shortest row is "0\n", the shortest feature " 1:0": these bounds cannot be exceeded.
        # Pages that are never touched cost no memory.
        n_rows = n_bytes // 2 + 1
        n_values = n_bytes // 4 + 1
        return cls(
            labels=np.empty(n_rows, np.float32),
            indptr=np.empty(n_rows + 1, np.int64),
            indices=np.empty(n_values, np.int32),
            values=np.empty(n_values, np.float32),
            runs=np.empty((n_rows, 3), np.int64),
            slow=np.empty((n_rows + n_values, 3), np.int64),
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
    n_runs: int
    n_slow: int
    width: int


class _Block:
    """Lines of text, and the arrays they are parsed into, which are used again and again."""

    text = b""
    _capacity = -1

    def parse(self, text: bytes, options: LetorOptions) -> _Block:
        """Parse lines of text; the results stand in the attributes of the block."""
        from tautrank.data import _letor_kernel as kernel

        self.text = text
        if len(text) > self._capacity:
            self._capacity = len(text) * 9 // 8
            self._output = _Output.for_text(self._capacity)
        output = self._output
        output.rounded_feature[0] = -1
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
        self._read_slow_numbers(output.slow[: outcome.n_slow])

        self.n_lines = outcome.n_lines
        self.n_rows = outcome.n_rows
        self.width = outcome.width
        self.indptr = output.indptr[: outcome.n_rows + 1]
        self.indices = output.indices[: outcome.n_values]
        self.values = output.values[: outcome.n_values]
        self.rounded_feature = int(output.rounded_feature[0])
        self.runs = [
            (row, text[start : start + length])
            for row, start, length in output.runs[: outcome.n_runs].tolist()
        ]
        # Copies, since the next block overwrites the arrays.
        self.labels = output.labels[: outcome.n_rows].copy()
        self.id_sizes = np.diff(output.id_ends[: outcome.n_rows], prepend=0)
        self.ids = output.ids[: self.id_sizes.sum()].copy()
        return self

    def _read_slow_numbers(self, slow: I64) -> None:
        """Read the numbers whose nearest float32 the compiled loop could not prove.

        Args:
            slow: slot, first byte and end of each; slot -1 - row is a label, any other a value.
        """
        from tautrank.data import _letor_kernel as kernel

        for slot, start, end in slow.tolist():
            with np.errstate(over="ignore"):
                number = np.float32(float(self.text[start:end]))
            is_label = slot < 0
            if not np.isfinite(number):
                self.status = kernel.BAD_LABEL if is_label else kernel.VALUE_OVERFLOW
                token = re.search(rb"[^ \t\r\n]*\Z", self.text[:start])
                self.position = token.start() if token else start
                return
            if is_label:
                self._output.labels[-1 - slot] = number
            else:
                self._output.values[slot] = number

    def stop(self, file: Path, n_lines_before: int) -> Stop:
        """Return where and why the compiled loop stopped.

        Args:
            file: the file that the block is of.
            n_lines_before: number of lines before the block.
        """
        return Stop(
            file=file,
            n_lines_before=n_lines_before,
            text=self.text,
            status=self.status,
            position=self.position,
            has_rows=self.n_rows > 0,
            has_qid=bool(self.runs),
        )
