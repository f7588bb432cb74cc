"""A ranking problem: documents with features and labels, the documents of a query adjacent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tautrank.arguments import one_or_more, whole
from tautrank.arrays import F32, I64, Array, check_each, dense, flat_numbers
from tautrank.data.features import checked_features, checked_labels, frame_features
from tautrank.data.frames import Levels, as_frame
from tautrank.data.queries import (
    Queries,
    checked_ids,
    checked_queries,
    joined_ids,
    offsets_from_sizes,
)
from tautrank.data.summary import DataSummary, summarise
from tautrank.data.table_columns import TableColumns
from tautrank.errors import DataError, OptionError
from tautrank.notebooks import pandas
from tautrank.tables import Table

_LARGEST_ERROR_OF_SUM = 1e-6  # of fractions that sum to 1

Names = tuple[str, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class RankingData:
    """Queries, their documents, and the documents' labels and features, as flat arrays.

    Query ``q`` owns the documents ``offsets[q]`` to ``offsets[q + 1] - 1``; its id is ``qids[q]``.

    Args:
        X: float32 ``[n, d]``, or a SciPy CSR matrix of float32; float64 if float32 would change a
            value above 2^24.
        labels: float32 ``[n]``, finite and at least 0.
        offsets: int64 ``[q + 1]``.
        qids: one id per query, integers or text.
        feature_names: one name per column, where the source had names.
        source_rows: where documents were gathered, the row each had in its source; None if they
            stand as they were.
        doc_ids: one id per document, text; None if the source had none.
        categories: levels of the columns that hold categories, by name; ``X`` has their numbers.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 2, 1], qid=["a", "a", "b"])
    >>> data
    RankingData(2 queries, 3 documents, 1 features)
    >>> data.offsets
    array([0, 2, 3])
    """

    X: Any
    labels: F32
    offsets: I64
    qids: Array
    feature_names: Names = None
    source_rows: I64 | None = None
    doc_ids: Array | None = None
    categories: Levels = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        qid: Any = None,
        *,
        group: Any = None,
        feature_names: Sequence[str] | None = None,
        doc_ids: Any = None,
    ) -> RankingData:
        """Make ranking data from arrays: NumPy, lists, SciPy sparse matrices, and frames of pandas,
        Polars, PyArrow, DuckDB, Ibis, Modin or any other library that narwhals knows.

        Rows of a query may be scattered: they are gathered, queries in order of first appearance
        and documents in input order, and a warning says so once. NaN in `X` is a missing value;
        infinities are an error. Columns of categories (pandas, Polars, Arrow dictionaries) become
        codes, and `categories` keeps their levels.

        Args:
            X: ``[n, d]`` features.
            y: ``[n]`` labels, finite and at least 0.
            qid: one query id per row; or
            group: number of rows of each query, in order, as LightGBM and XGBoost take it.
            feature_names: names of the columns; a frame brings its own.
            doc_ids: one id per row, to name the documents by.

        >>> RankingData.from_arrays([[1.0], [2.0]], [1, 0], group=[2]).qids
        array([0])
        """
        features = checked_features(X, feature_names)
        n_rows = features.X.shape[0]
        labels = checked_labels(y, n_rows)
        if doc_ids is not None:
            doc_ids = checked_ids(doc_ids, n_rows, name="doc_ids").astype(str)
        if qid is None and group is None:
            raise DataError(
                "qid, group: found neither; expected one of them, to say which documents belong "
                "together"
            )
        queries = checked_queries(n_rows, None, qid, group, of="X")
        return cls.of_queries(
            features.X,
            labels,
            queries,
            feature_names=features.names,
            doc_ids=doc_ids,
            categories=features.levels,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str = "label",
        qid: str = "qid",
        doc_id: str | None = None,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        unlabelled: bool = False,
        where: str = "frame",
    ) -> RankingData:
        """Make ranking data from a frame with one row per document.

        Frames of pandas, Polars, PyArrow, DuckDB, Ibis, Modin and any other library that narwhals
        knows are taken; a lazy one is collected.

        Args:
            frame: the table.
            label: name of the column of labels.
            qid: name of the column of query ids, integers or text.
            doc_id: name of the column of document ids, if there is one.
            features: names of the feature columns; default every other column of numbers or
                categories. Columns of text or dates are left out, and a warning names them. Nulls
                are missing values.
            drop: names of columns to leave out.
            categorical: names of feature columns of any type whose values are categories; columns
                with a type of categories need not be named.
            unlabelled: whether the column of labels may be missing, which makes all labels 0.
            where: what errors and warnings call the table.

        >>> import pandas as pd
        >>> prices = {"sku": ["a", "b"], "price": [3.5, 2.0]}
        >>> frame = pd.DataFrame({"label": [1, 0], "qid": [7, 7], **prices})
        >>> RankingData.from_frame(frame, doc_id="sku").doc_ids.tolist()
        ['a', 'b']
        """
        frame = as_frame(frame, where)
        columns = TableColumns(
            label=label,
            qid=qid,
            doc_id=doc_id,
            features=None if features is None else one_or_more(features),
            drop=one_or_more(drop or ()),
            categorical=one_or_more(categorical or ()),
            unlabelled=unlabelled,
            where=where,
        )
        columns.check(frame)
        names = columns.feature_names(frame)
        try:
            checked = frame_features(frame, names, categorical=columns.categorical)
            queries = columns.queries(frame)
            doc_ids = columns.doc_ids(frame)
            labels = columns.labels(frame)
        except DataError as error:
            sentence = str(error).removeprefix("X: ")
            raise DataError(f"{where}: {sentence}") from None
        return cls.of_queries(
            checked.X,
            labels,
            queries,
            feature_names=checked.names,
            doc_ids=doc_ids,
            categories=checked.levels,
        )

    @classmethod
    def of_queries(
        cls, X: Any, labels: F32, queries: Queries, **names_and_categories: Any
    ) -> RankingData:
        """Make ranking data from checked arrays whose rows are grouped into queries; scattered rows
        are brought into the order of the queries.

        Args:
            X, labels: one row per document, in the order of the source.
            queries: which rows belong to which query.
            **names_and_categories: `feature_names`, `doc_ids` and `categories`.
        """
        data = cls(X, labels, queries.offsets, queries.qids, **names_and_categories)
        if queries.order is None:
            return data
        # `order` has the source row of each document in the order of the queries.
        rows_gathered = data.with_rows(queries.order, queries.offsets, queries.qids)
        return replace(rows_gathered, source_rows=queries.order)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.offsets.size - 1)

    @property
    def n_documents(self) -> int:
        """Number of documents of all queries."""
        return int(self.labels.size)

    @property
    def n_features(self) -> int:
        """Number of columns of `X`."""
        return int(self.X.shape[1])

    @property
    def sizes(self) -> I64:
        """Number of documents of each query; what boosting libraries call `group`."""
        return np.diff(self.offsets)

    @property
    def qid_of_document(self) -> Array:
        """The query id of every document; what scikit-learn calls `groups`."""
        return np.repeat(self.qids, self.sizes)

    def __repr__(self) -> str:
        return (
            f"RankingData({self.n_queries} queries, {self.n_documents} documents, "
            f"{self.n_features} features)"
        )

    def to_frame(self) -> Any:
        """Return a pandas frame of one row per document: qid, label, doc_id if there are ids, and
        the features.

        >>> X = [[1.0], [2.0]]
        >>> data = RankingData.from_arrays(X, [1, 0], group=[2], feature_names=["bm25"])
        >>> [*data.to_frame().columns]
        ['qid', 'label', 'bm25']
        """
        columns = {"qid": self.qid_of_document, "label": self.labels}
        if self.doc_ids is not None:
            columns["doc_id"] = self.doc_ids
        names = self.feature_names or [f"f{number}" for number in range(1, self.n_features + 1)]
        for name, values in zip(names, dense(self.X).T, strict=True):
            if name in self.categories:
                # pandas writes a missing category as the code -1.
                codes = np.nan_to_num(values, nan=-1.0).astype(np.int64)
                values = pandas().Categorical.from_codes(codes, list(self.categories[name]))
            columns[name] = values
        return pandas().DataFrame(columns)

    def _repr_html_(self) -> str:
        count_by_name = {
            "queries": self.n_queries,
            "documents": self.n_documents,
            "features": self.n_features,
        }
        rows = [[name, f"{count:,}"] for name, count in count_by_name.items()]
        return Table.of(["", ""], rows).to_html(titles=False)

    def subset(self, queries: Any) -> RankingData:
        """Return the data of some queries, in the order given.

        Args:
            queries: positions of queries (negative ones count from the end), or a boolean mask of
                one value per query.

        >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 2, 1], group=[1, 2])
        >>> data.subset([1]).X.tolist()
        [[2.0], [3.0]]
        """
        positions = self._query_positions(queries)
        sizes = self.sizes[positions]
        offsets = offsets_from_sizes(sizes)
        if positions.size and np.all(np.diff(positions) == 1):
            # A range of rows is not copied.
            first_row = int(self.offsets[positions[0]])
            rows: Any = slice(first_row, first_row + int(offsets[-1]))
        else:
            # A query's documents have consecutive rows before and after: all shift by as much.
            shift = self.offsets[:-1][positions] - offsets[:-1]
            rows = np.arange(offsets[-1]) + np.repeat(shift, sizes)
        return self.with_rows(rows, offsets, self.qids[positions])

    def with_rows(
        self, rows: Any, offsets: I64, qids: Array, labels: F32 | None = None
    ) -> RankingData:
        """Return the documents of some rows as those of other queries.

        Args:
            rows: which documents, in order; one may be there several times.
            offsets: where each query's documents start in the result.
            qids: one id per query.
            labels: new labels of the documents; default their own.

        >>> data = RankingData.from_arrays([[1.0], [2.0]], [0, 2], group=[2])
        >>> data.with_rows([1, 0, 1], np.array([0, 3]), data.qids).labels.tolist()
        [2.0, 0.0, 2.0]
        """
        return RankingData(
            X=self.X[rows],
            labels=self.labels[rows] if labels is None else labels,
            offsets=offsets,
            qids=qids,
            feature_names=self.feature_names,
            doc_ids=None if self.doc_ids is None else self.doc_ids[rows],
            categories=self.categories,
        )

    def _query_positions(self, queries: Any) -> I64:
        """Return which queries a user asked for as positions of at least 0.

        Args:
            queries: positions, of which negative ones count from the end, or a boolean mask.
        """
        positions = flat_numbers("queries", queries, "query")
        if positions.dtype == bool:
            mask = flat_numbers("queries", positions, "query", self.n_queries)
            return np.flatnonzero(mask)
        if positions.size and positions.dtype.kind == "f":
            raise DataError(
                f"queries: found values of type {positions.dtype}; "
                "expected positions or a boolean mask"
            )
        n_queries = self.n_queries
        is_position = (positions >= -n_queries) & (positions < n_queries)
        expected = f"a position below {n_queries}, the number of queries"
        check_each("queries", positions, is_position, expected)
        from_start = positions % max(1, n_queries)  # -1 becomes n_queries - 1
        return from_start.astype(np.int64)

    def split(self, fractions: Sequence[float], seed: int = 0) -> list[RankingData]:
        """Divide the queries at random into parts of the given sizes; queries keep their order
        inside a part.

        Args:
            fractions: positive numbers that sum to 1.
            seed: the same seed divides the same way on every machine.

        >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
        >>> [part.n_queries for part in data.split([0.6, 0.2, 0.2], seed=0)]
        [6, 2, 2]
        """
        shares = flat_numbers("fractions", fractions, "part")
        are_positive = shares.size > 0 and np.all(shares > 0)
        if not are_positive or abs(shares.sum() - 1) > _LARGEST_ERROR_OF_SUM:
            raise OptionError(
                f"fractions: found {list(fractions)}; expected positive numbers that sum to 1"
            )
        exact_ends = np.cumsum(shares) * self.n_queries
        ends = np.rint(exact_ends).astype(np.int64)
        sizes = np.diff(ends, prepend=0)
        if np.any(sizes == 0):
            raise OptionError(
                f"fractions: {list(fractions)} leaves a part of {self.n_queries} queries "
                "empty; expected at least one query per part"
            )
        parts = np.split(self._shuffled_positions(seed), ends[:-1])
        # Sorted, so that the queries of a part keep their order.
        return [self.subset(np.sort(part)) for part in parts]

    def folds(self, n: int = 5, seed: int = 0) -> Iterator[tuple[RankingData, RankingData]]:
        """Yield `n` pairs (train, test) whose test parts divide the queries; cross validation by
        query.

        >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
        >>> [(train.n_queries, test.n_queries) for train, test in data.folds(3)]
        [(6, 4), (7, 3), (7, 3)]
        """
        if whole("n", n, 2) > self.n_queries:
            raise OptionError(
                f"n: found {n!r}; expected from 2 to the {self.n_queries} queries there are"
            )
        positions = np.arange(self.n_queries)
        shuffled = self._shuffled_positions(seed)
        for test_part in np.array_split(shuffled, int(n)):
            test = np.sort(test_part)
            train = np.setdiff1d(positions, test)
            yield self.subset(train), self.subset(test)

    def _shuffled_positions(self, seed: int) -> I64:
        """Return the positions of the queries in random order."""
        rng = np.random.default_rng(whole("seed", seed, most=math.inf))
        return rng.permutation(self.n_queries)

    @classmethod
    def concat(cls, parts: Sequence[RankingData], *, repeated: str = "error") -> RankingData:
        """Put data sets one after the other.

        Args:
            parts: data with the same number of features (and the same names, where they have
                names).
            repeated: what a query id in two parts means: ``"error"``, or ``"separate"`` to keep
                them as two queries.

        >>> data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], qid=[7, 8])
        >>> RankingData.concat([data.subset([1]), data.subset([0])]).qids
        array([8, 7])
        """
        if not parts:
            raise DataError("parts: found an empty list; expected at least one data set")
        if repeated not in ("error", "separate"):
            raise OptionError(f"repeated: found {repeated!r}; expected 'error' or 'separate'")
        _check_same_columns(parts)
        levels = _join_levels(parts)
        parts = [part.with_levels(levels, f"parts: part {i}") for i, part in enumerate(parts)]
        qids = joined_ids([part.qids for part in parts])
        if repeated == "error":
            _check_different_queries(qids)
        sizes = np.concatenate([part.sizes for part in parts])
        return cls(
            X=_concatenated_features([part.X for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            offsets=offsets_from_sizes(sizes),
            qids=qids,
            feature_names=parts[0].feature_names,
            doc_ids=_concatenated_ids([part.doc_ids for part in parts]),
            categories=levels,
        )

    def with_n_features(self, n_features: int) -> RankingData:
        """Return the same documents with columns of zeros added up to `n_features`.

        Text files leave out features that are 0, so a test file may show fewer columns than its
        training file.

        >>> RankingData.from_arrays([[1.0]], [0], group=[1]).with_n_features(3).X.tolist()
        [[1.0, 0.0, 0.0]]
        """
        if whole("n_features", n_features) < self.n_features:
            raise DataError(
                f"n_features: found {n_features}; "
                f"expected at least the {self.n_features} features there are"
            )
        n_added = n_features - self.n_features
        if n_added == 0:
            return self
        if isinstance(self.X, np.ndarray):
            # No rows are added, and columns only at the end.
            X: Any = np.pad(np.ascontiguousarray(self.X), ((0, 0), (0, n_added)))
        else:
            X = self.X.copy()  # CSR, whose resize works in place
            X.resize(self.n_documents, n_features)
        return replace(self, X=X, feature_names=None, categories={})

    def with_levels(self, levels: Levels, where: str) -> RankingData:
        """Return the same documents with the codes of other levels; values that are not among them
        become missing.

        Args:
            levels: the levels of the same columns.
            where: what the data is called in errors.

        >>> import pandas as pd
        >>> colours = pd.DataFrame({"colour": pd.Series(["red", "blue"], dtype="category")})
        >>> data = RankingData.from_arrays(colours, [0, 1], group=[2])
        >>> data.with_levels({"colour": ("red", "green")}, "test").X.tolist()
        [[0.0], [nan]]
        """
        if self.categories == levels:
            return self
        self._check_same_categories(levels, where)

        X = self.X.copy()
        for name, new_levels in levels.items():
            code_by_level = {level: code for code, level in enumerate(new_levels)}
            new_code_of_old = [code_by_level.get(level, np.nan) for level in self.categories[name]]
            # A missing value gets the old code -1, which picks the last entry.
            new_code_of_old.append(np.nan)
            column = (self.feature_names or ()).index(name)
            old_codes = np.nan_to_num(X[:, column], nan=-1.0).astype(np.int64)
            X[:, column] = np.array(new_code_of_old)[old_codes]
        return replace(self, X=X, categories=levels)

    def _check_same_categories(self, levels: Levels, where: str) -> None:
        """Raise an error about a column that holds categories here and numbers in the training
        data, or the other way round.

        Args:
            levels: the levels of each column of categories of the training data.
            where: what the error calls the data.
        """
        in_only_one = sorted(set(levels) ^ set(self.categories))  # ^: in one but not in both
        if not in_only_one:
            return
        name = in_only_one[0]
        here, expected = "categories", "numbers"
        if name in levels:
            here, expected = "numbers", "categories"
        raise DataError(
            f"{where}: column '{name}' holds {here}; expected {expected}, as in the training data"
        )

    @property
    def document_names(self) -> Array:
        """What to call the documents: their ids, or d1, d2, ... by their rows in the source if they
        have none.
        """
        if self.doc_ids is not None:
            return self.doc_ids
        # Rows may have been gathered by query: each document keeps the number of its source row.
        numbers = self.in_document_order(np.arange(1, self.n_documents + 1))
        return np.char.add("d", numbers.astype(str))

    def in_document_order(self, values: Array) -> Array:
        """Bring one value per source row (a score file's lines) into the order of the documents
        here.

        The two differ only where scattered rows were gathered.
        """
        return values if self.source_rows is None else values[self.source_rows]

    def in_source_order(self, values: Array) -> Array:
        """Bring one value per document here into the order of the source's rows; undoes
        `in_document_order`.
        """
        if self.source_rows is None:
            return values
        result = np.empty_like(values)
        result[self.source_rows] = values
        return result

    def describe(self) -> DataSummary:
        """Count queries, documents, features, labels, list lengths, empty and constant queries,
        duplicate rows.

        >>> data = RankingData.from_arrays([[1.0], [2.0], [2.0]], [0, 2, 1], group=[1, 2])
        >>> data.describe().empty_queries
        1
        """
        return summarise(self.X, self.labels, self.offsets)


def _check_same_columns(parts: Sequence[RankingData]) -> None:
    """Raise an error about a part that is no ranking data, or has other columns than part 0."""
    first = checked_data("parts[0]", parts[0])
    for i, part in enumerate(parts):
        n_features = checked_data(f"parts[{i}]", part).n_features
        if n_features != first.n_features:
            raise DataError(
                f"parts: part {i} has {n_features} features; "
                f"expected {first.n_features}, as part 0 has"
            )
        have_names = bool(part.feature_names and first.feature_names)
        if have_names and part.feature_names != first.feature_names:
            raise DataError(
                f"parts: part {i} has other feature names than part 0; expected the same"
            )


def _join_levels(parts: Sequence[RankingData]) -> Levels:
    """Return the levels (distinct values) of each column of categories that any of several data
    sets has, in the order in which they first appear.
    """
    levels_by_column = {}
    for column in parts[0].categories:
        levels: dict[str, None] = {}  # its keys are a set that keeps the order
        for part in parts:
            for level in part.categories.get(column, ()):
                levels[level] = None
        levels_by_column[column] = tuple(levels)
    return levels_by_column


def _check_different_queries(qids: Array) -> None:
    """Raise an error about the first query id that occurs more than once."""
    ids, counts = np.unique(qids, return_counts=True)
    if ids.size < qids.size:  # there are fewer different ids than ids
        first_repeated = ids[counts > 1][0]
        raise DataError(
            f"parts: qid {first_repeated} is in more than one place; "
            "expected distinct ids (repeated='separate' keeps both)"
        )


def _concatenated_features(parts: list[Any]) -> Any:
    """Concatenate the rows of feature matrices: dense if all are dense, else CSR (SciPy's
    compressed sparse rows).
    """
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    from scipy.sparse import csr_matrix, vstack

    return vstack([csr_matrix(part) for part in parts], format="csr")


def _concatenated_ids(parts: Sequence[Array | None]) -> Array | None:
    """Concatenate the document ids of several data sets; None if one of them has no ids."""
    parts_with_ids = [part for part in parts if part is not None]
    if len(parts_with_ids) < len(parts):
        return None
    return np.concatenate(parts_with_ids)


def checked_data(name: str, argument: object) -> RankingData:
    """Return an argument if it is ranking data.

    Args:
        name: what errors call it.
        argument: anything.

    >>> checked_data("train", [1, 2])
    Traceback (most recent call last):
    tautrank.errors.DataError: train: found list;
    expected RankingData (RankingData.from_arrays makes it of arrays)
    """
    if not isinstance(argument, RankingData):
        raise DataError(
            f"{name}: found {type(argument).__name__}; "
            "expected RankingData (RankingData.from_arrays makes it of arrays)"
        )
    return argument
