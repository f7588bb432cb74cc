"""Sorting documents inside queries: blocks of similar lists, tie groups, and the order itself.

Lists are sorted as rows of a matrix. One row holds one list; lists of similar length share a matrix
and the short ones end in padding. NumPy sorts short rows an order of magnitude faster than it sorts
one long array of (query, score) pairs, and a matrix of some tens of thousands of documents stays in
the processor's cache.

Rows are sorted by ``keys``, the negated scores. Padding has the key ``+inf``, and so has a document
that was not retrieved (score ``-inf``): both earn nothing, so nothing needs to tell them apart.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import choice
from tautrank.arrays import F64, I64, Array, Floats, Numbers, check_scores
from tautrank.data.lists import Lists
from tautrank.data.ranking_data import RankingData
from tautrank.errors import OptionError

TIES = ("worst", "expected", "best", "input")

Codes: TypeAlias = Callable[[], I64] | None
"""What breaks ties: computes a code of every document, the lowest first; None where ties are not
broken.
"""

# Documents in a matrix: large enough to make NumPy's cost per call vanish, small enough for the L2
# cache.
BLOCK_DOCUMENTS = 65536
# Labels that are integers below this are their own tie code; others are coded by their order.
_LARGEST_OWN_CODE = 65535
_KEY_BITS = 63


class Block(NamedTuple):
    """Lists of similar length, seen as the rows of one matrix.

    Args:
        queries: which query each row is.
        starts: where each row's documents begin in the flat arrays.
        lengths: how many documents each row has, at most ``width``.
        width: the number of columns.
        contiguous: whether the rows are neighbours without padding, so that the matrix is a view.

    >>> block = next(blocks(np.array([0, 2, 4])))
    >>> block.matrix(np.array([1.0, 2.0, 3.0, 4.0]), fill=0.0)
    array([[1., 2.],
           [3., 4.]])
    """

    queries: I64
    starts: I64
    lengths: I64
    width: int
    contiguous: bool

    @property
    def padded(self) -> bool:
        """Whether some row is shorter than the matrix is wide."""
        if self.contiguous:
            return False
        is_short = self.lengths < self.width
        return bool(is_short.any())

    def matrix(self, values: Array, fill: float) -> Array:
        """Return values of documents as a matrix with a row per query of this block, padded with
        ``fill`` where a query has fewer documents than the matrix has columns. It may be a view of
        ``values``: do not write to it.

        Args:
            values: one per document of all queries, query after query.
            fill: the value of the padding.
        """
        # Consecutive queries that all fill their rows need no copy.
        if self.contiguous:
            n_rows = self.lengths.size
            first = int(self.starts[0])
            end = first + n_rows * self.width
            return values[first:end].reshape(n_rows, self.width)
        columns = np.arange(self.width)
        rows = self.take(values, columns)
        if self.padded:
            is_padding = columns >= self.lengths[:, None]
            rows[is_padding] = fill
        return rows

    def take(self, values: Array, columns: I64, rows: I64 | slice = slice(None)) -> Array:
        """Return the values of the documents in the given columns of the rows; any value where a
        row has fewer documents than that.

        Args:
            values: one per document of all lists, query after query.
            columns: the same columns for each row, or a row of columns for each.
            rows: the rows; all by default.
        """
        starts = self.starts[rows]
        # The padding of the last list would point past the end: clip it.
        return values.take(starts[:, None] + columns, mode="clip")


def blocks(offsets: I64) -> Iterator[Block]:
    """Yield the queries in blocks of similar length, which are sorted together as the rows of a
    matrix; queries without documents are in none.

    Args:
        offsets: where each query's documents begin, and the number of documents at the end.

    >>> [(block.width, block.queries.tolist()) for block in blocks(np.array([0, 1, 41, 42, 82]))]
    [(1, [0, 2]), (40, [1, 3])]
    """
    lengths = np.diff(offsets)
    # A block has queries of about the same length: as rows they are padded to one width.
    for queries, width in of_similar_width(lengths):
        # Full rows of consecutive queries can be taken from the flat arrays without copying.
        are_full = bool((lengths[queries] == width).all())
        distance = int(queries[-1] - queries[0])
        are_neighbours = distance == queries.size - 1
        block = Block(
            queries=queries,
            starts=offsets[queries],
            lengths=lengths[queries],
            width=width,
            contiguous=are_full and are_neighbours,
        )
        yield block


def of_similar_width(lengths: I64) -> Iterator[tuple[I64, int]]:
    """Group rows of similar length: yield the numbers of the rows that share a matrix, and its
    width; rows of length 0 are in none.

    A row's width depends on its own length alone, so that its sum has the same bits whatever its
    neighbours are.

    Args:
        lengths: how many columns each row needs.

    >>> list(of_similar_width(np.array([3, 0, 40, 3])))
    [(array([0, 3]), 3), (array([2]), 40)]
    """
    widths = row_widths(lengths)  # each length rounded up a little, so that many are equal
    by_width = np.argsort(widths, kind="stable")
    sorted_widths = widths[by_width]
    first = int(np.searchsorted(sorted_widths, 1))  # behind the rows of width 0
    while first < by_width.size:
        width = int(sorted_widths[first])
        end_of_width = int(np.searchsorted(sorted_widths, width, side="right"))
        n_rows = max(1, BLOCK_DOCUMENTS // width)  # a bound on the memory of one matrix
        end = min(end_of_width, first + n_rows)
        yield by_width[first:end], width
        first = end


def row_widths(lengths: I64) -> I64:
    """Round each length up to one of eight widths an octave: at most an eighth of a matrix is
    padding.

    Args:
        lengths: non-negative integers.

    >>> row_widths(np.array([0, 1, 15, 17, 120, 121]))
    array([  0,   1,  15,  18, 120, 128])
    """
    # frexp gives the exponent e of 2^(e-1) <= length < 2^e exactly, where log2 could round.
    exponents = np.frexp(lengths.astype(np.float64))[1].astype(np.int64)
    # The octave (doubling) from 2^(e-1) to 2^e is 8 steps of 2^(e-4); a step is at least 1.
    step = np.left_shift(1, np.maximum(exponents - 4, 0))
    n_steps = -(-lengths // step)  # rounded up: // rounds down, so both signs are changed
    return n_steps * step


class TieGroups(NamedTuple):
    """Rows in rank order, cut into groups of documents with equal scores.

    Args:
        values: what each document brings, in rank order; the order inside a group has no meaning.
        starts: where each group begins in ``values.ravel()``.
        sizes: how many documents each group has.
        row_starts: which group is each row's first.

    >>> groups = TieGroups.of(np.array([[1.0, 2.0, 2.0]]), np.array([[5.0, 3.0, 1.0]]))
    >>> groups.sums(groups.values), groups.positions()
    (array([5., 4.]), array([0, 1]))
    """

    values: F64
    starts: I64
    sizes: I64
    row_starts: I64

    @classmethod
    def of(cls, sorted_keys: Floats, values: F64) -> TieGroups:
        """Find the groups of documents with equal scores in lists that are sorted by score.

        Args:
            sorted_keys: a row per list: the negated scores, best document first.
            values: what each of these documents brings to the metric.
        """
        is_first_of_group = np.ones(sorted_keys.shape, dtype=bool)
        is_first_of_group[:, 1:] = sorted_keys[:, 1:] != sorted_keys[:, :-1]
        starts = np.flatnonzero(is_first_of_group)  # positions in the rows laid end to end
        width = sorted_keys.shape[1]
        return cls(
            values=values,
            starts=starts,
            sizes=np.diff(starts, append=is_first_of_group.size),
            # Numbers of the groups that begin a row: the first document of a row begins a group.
            row_starts=np.flatnonzero(starts % width == 0),
        )

    def sums(self, values: F64) -> F64:
        """Add up ``values`` (one per position) inside each group."""
        return np.add.reduceat(np.ravel(values), self.starts)

    def row_sums(self, of_groups: F64) -> F64:
        """Add up ``of_groups`` (one per group) inside each row."""
        return np.add.reduceat(of_groups, self.row_starts)

    def positions(self) -> I64:
        """How many documents of its row come before each group."""
        return np.asarray(self.starts % self.values.shape[1])

    def rows(self) -> I64:
        """Which row each group is in."""
        return np.asarray(self.starts // self.values.shape[1])


class SortedRows(NamedTuple):
    """The rows of a block, sorted.

    Args:
        order: the positions of each row's documents by rank; arbitrary inside open ties.
        keys: the key of each document, in the order of the row.
        head: the keys at the first ranks, those that matter.
        open_ties: the rows with ties that are left open and reach into those ranks. Ties at
            ``+inf`` are none: nothing is earned there.
    """

    order: I64
    keys: Floats
    head: Floats
    open_ties: I64


def sort_rows(block: Block, scores: Floats, depth: int, codes: Codes) -> SortedRows:
    """Sort the lists of a block by score, the best score first, and break or report their ties.

    Args:
        block: lists of similar length, one per row.
        scores: checked scores of all documents.
        depth: how many ranks matter to the metric.
        codes: returns the tie codes of all documents, by which ties are broken, see `tie_codes`;
            None leaves ties open.

    >>> block = next(blocks(np.array([0, 3, 6])))
    >>> rows = sort_rows(block, np.array([1.0, 3.0, 2.0, 1.0, 1.0, 5.0]), 2, None)
    >>> rows.order, rows.head, rows.open_ties
    (array([[1, 2, 0],
           [2, 0, 1]]), array([[-3., -2.],
           [-5., -1.]]), array([1]))
    >>> sort_rows(block, np.zeros(6), 2, lambda: np.array([2, 0, 1, 0, 1, 2])).order
    array([[1, 2, 0],
           [0, 1, 2]])
    """
    # Ascending keys are best first, and padding comes last.
    keys: Floats = np.negative(block.matrix(scores, -np.inf))
    order = np.argsort(keys, axis=1)

    # One rank further, since a tie between the last rank that matters and the next one matters.
    head = np.take_along_axis(keys, order[:, : depth + 1], axis=1)
    next_keys = head[:, 1:]
    is_tied = (next_keys == head[:, :-1]) & (next_keys < np.inf)
    tied_rows = np.flatnonzero(is_tied.any(axis=1))

    if codes is not None and tied_rows.size:
        tied_order = order[tied_rows]
        tied_keys = np.take_along_axis(keys[tied_rows], tied_order, axis=1)
        tied_codes = block.take(codes(), tied_order, tied_rows)
        order[tied_rows] = break_ties(tied_order, tied_keys, tied_codes)
        tied_rows = tied_rows[:0]
    return SortedRows(order=order, keys=keys, head=head[:, :depth], open_ties=tied_rows)


def break_ties(order: I64, sorted_keys: Floats, codes: I64) -> I64:
    """Return the ranking of each list with the documents of each tie reordered by code, then by
    position in the list.

    Args:
        order: a row per list: the positions of its documents, sorted by key.
        sorted_keys: the keys (negated scores) in that order; equal ones are a tie.
        codes: the code of each document in that order; in a tie the lower one comes first.

    >>> break_ties(np.array([[2, 0, 1]]), np.array([[1.0, 2.0, 2.0]]), np.array([[0, 1, 0]]))
    array([[2, 1, 0]])
    """
    # Number the ties (runs of equal keys) of each row from 0: the number rises with each new key.
    tie_number = np.zeros(order.shape, dtype=np.int64)
    starts_new_tie = sorted_keys[:, 1:] != sorted_keys[:, :-1]
    np.cumsum(starts_new_tie, axis=1, out=tie_number[:, 1:])

    # Tie numbers and positions are below the number of columns.
    position_bits = int(order.shape[1]).bit_length()
    code_bits = int(codes.max()).bit_length()
    fits_one_integer = 2 * position_bits + code_bits <= _KEY_BITS
    if not fits_one_integer:
        by_tie = np.lexsort((order, codes, tie_number), axis=-1)
        return np.take_along_axis(order, by_tie, axis=1)

    # (tie number, code, position) packed into the bits of one integer, the position lowest: sorting
    # values is several times faster than sorting indices, and the low bits are then the ranking.
    packed = (tie_number << code_bits) | codes
    packed = (packed << position_bits) | order
    packed.sort(axis=1)
    position_mask = (1 << position_bits) - 1
    return packed & position_mask


def tie_codes(labels: Numbers, ties: str) -> I64:
    """Return one integer per document: inside a tie the lower code comes first.

    Args:
        labels: checked labels.
        ties: ``"worst"`` (lower label first), ``"best"`` (higher label first) or ``"input"``.

    >>> tie_codes(np.array([0.5, 2.0, 0.0]), "worst")
    array([1, 2, 0])
    >>> tie_codes(np.array([0.5, 2.0, 0.0]), "best")
    array([1, 0, 2])
    """
    if ties == "input" or labels.size == 0:
        return np.zeros(labels.size, dtype=np.int64)
    codes = _codes_by_label(labels)
    # "worst" puts the lower label first, "best" the higher one.
    return codes if ties == "worst" else codes.max() - codes


def _codes_by_label(labels: Numbers) -> I64:
    """Return one integer of at least 0 per document that rises with its label: the labels
    themselves if they are whole and small, else their rank among the different labels.
    """
    if labels.max() <= _LARGEST_OWN_CODE:
        whole_labels = labels.astype(np.int64)
        if np.array_equal(whole_labels, labels):
            return whole_labels
    _labels, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.int64, copy=False)


def when_tied(labels: Numbers, ties: str) -> Codes:
    """Return a function that computes the `tie_codes` when the first tie is met, and once; None for
    expected ties.

    Args:
        labels: checked labels.
        ties: one of `TIES`.

    >>> when_tied(np.array([0.5, 2.0, 0.0]), "expected") is None
    True
    """
    if ties == "expected":
        return None
    return functools.cache(lambda: tie_codes(labels, ties))


def missing_last(scores: Floats) -> Floats:
    """Return finite scores with the same ranking, in which documents that were not retrieved
    (score ``-inf``) are tied below all the rest.

    Args:
        scores: checked scores; returned unchanged if all of them are finite.

    >>> missing_last(np.array([2.5, -np.inf, 2.5, 9.0]))
    array([1., 0., 1., 2.])
    """
    if scores.min(initial=np.inf) > -np.inf:  # `initial` is for no scores at all
        return scores
    # Whole numbers in the order of the scores; -inf becomes 0.
    ascending_ranks = np.unique(scores, return_inverse=True)[1]
    return np.asarray(ascending_ranks, dtype=np.float64)


def rank_order(
    scores: ArrayLike,
    labels: ArrayLike | RankingData | Lists,
    offsets: ArrayLike | None = None,
    ties: str = "worst",
) -> I64:
    """Return the documents in rank order: queries stay in place, the best score of each comes
    first.

    Equal scores are ordered by label as ``ties`` says, then by their order in the input. The
    policies are those of McSherry and Najork, *Computing Information Retrieval Performance Measures
    Efficiently in the Presence of Tied Scores*, ECIR 2008. Documents that were not retrieved (score
    ``-inf``) are tied at the bottom.

    Args:
        scores: one number per document.
        labels: one finite number of at least 0 per document; or `RankingData` or `Lists`, which
            have their queries.
        offsets: ``n_queries + 1`` integers; query ``q`` owns the documents
            ``offsets[q]:offsets[q + 1]``. None for one query.
        ties: ``"worst"`` (lower label first), ``"best"`` (higher label first) or ``"input"`` (input
            order).

    >>> rank_order([1.0, 2.0, 2.0, 0.0, 5.0], [0, 1, 0, 2, 0], [0, 3, 5])
    array([2, 1, 0, 4, 3])
    """
    lists = Lists.of(labels, offsets)
    checked = check_scores(scores, lists.offsets, adjacent=lists.order is None)
    if choice("ties", ties, TIES) == "expected":
        raise OptionError(
            "ties: found 'expected', which is not an order; expected 'worst', 'best' or 'input'"
        )
    codes = when_tied(lists.labels, ties)  # by which tied documents are ordered
    ranked = flat_order(missing_last(lists.in_list_order(checked)), lists.offsets, codes)
    # `lists.order` has the input row of each document if queries were scattered in the input.
    return ranked if lists.order is None else lists.order[ranked]


def flat_order(scores: Floats, offsets: I64, codes: Codes) -> I64:
    """Return the documents in rank order: queries stay in place, the best score of each comes
    first.

    Args:
        scores: checked scores, all of them finite.
        offsets: checked offsets of the lists.
        codes: returns the tie codes of all documents, see `tie_codes`; None leaves ties in any
            order.

    >>> flat_order(np.array([1.0, 2.0, 0.0, 5.0]), np.array([0, 2, 4]), None)
    array([1, 0, 3, 2])
    """
    ranked = np.empty(scores.size, dtype=np.int64)
    # Lists of similar length are sorted together, as the rows of a matrix padded to one width.
    for block in blocks(offsets):
        order = sort_rows(block, scores, block.width, codes).order
        # Padding sorts behind every document, so a row's documents are its first `length` entries.
        columns = np.arange(block.width)
        is_document = columns < block.lengths[:, None]
        starts = block.starts[:, None]  # first document of each list in the flat arrays
        target_positions = starts + columns
        documents = starts + order
        ranked[target_positions[is_document]] = documents[is_document]
    return ranked


def query_sums(values: Array, offsets: I64) -> F64:
    """Add up ``values`` (one per document) inside each query; 0 where a query has no documents.

    Args:
        values: one number per document; of booleans the true ones are counted.
        offsets: checked offsets of the lists.

    >>> query_sums(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3]))
    array([3., 0., 3.])
    """
    return _reduce_queries(np.add, values.astype(np.float64, copy=False), offsets)


def query_maxima(values: F64, offsets: I64) -> F64:
    """Return the highest of the ``values`` (one per document) of each query; 0 where a query has no
    documents.

    Args:
        values: one number per document.
        offsets: checked offsets of the lists.

    >>> query_maxima(np.array([1.0, 3.0, -2.0]), np.array([0, 2, 2, 3]))
    array([ 3.,  0., -2.])
    """
    return _reduce_queries(np.maximum, values, offsets)


def _reduce_queries(operation: np.ufunc, values: Array, offsets: I64) -> F64:
    """Return the sum, or the maximum, of the values of each query; 0 for a query without documents.

    Args:
        operation: `numpy.add` or `numpy.maximum`.
        values: one per document.
        offsets: where each query's documents begin, and the number of documents at the end.
    """
    results = np.zeros(offsets.size - 1)
    # `reduceat` returns the next element instead of 0 for an empty list: leave these out.
    with_documents = np.flatnonzero(np.diff(offsets))
    if with_documents.size:
        results[with_documents] = operation.reduceat(values, offsets[with_documents])
    return results
