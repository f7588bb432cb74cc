"""What `compare`, `tune` and a study return: data in attributes, and one method for each form to
show it in.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tautrank.experiments import comparison_tables
from tautrank.experiments.comparison_values import (
    Cell,
    CellResult,
    ComparisonValues,
    Failure,
    PairTest,
    Place,
    PlannedValues,
    SystemResult,
)
from tautrank.files import PathLike, also_written
from tautrank.notebooks import pandas
from tautrank.report.terminal import as_text
from tautrank.tables import Table

if TYPE_CHECKING:
    from tautrank.report.page import Page

__all__ = [
    "Cell",
    "CellResult",
    "Comparison",
    "Failure",
    "PairTest",
    "Place",
    "Result",
    "SystemResult",
    "TrainedComparison",
]


class Result(ABC):
    """What `compare`, `tune` and a study return: data in attributes, and one method for each form
    to show it in.

    A result prints as its table. `Comparison`, `Tuning` and `StudyResult` are results and describe
    their attributes.

    >>> import tautrank as tr
    >>> parts = tr.simulate.simulate_web_search(60, n_features=16, mean_length=15).split([.5, .25, .25])
    >>> result = tr.compare(*parts, losses=["mse", "listnet"], metrics=["ndcg@5"], repeats=2, n_estimators=5)
    >>> isinstance(result, tr.Result), [cell.system for cell in result.cells]
    (True, ['mse', 'listnet'])
    """

    @abstractmethod
    def titled_tables(self) -> dict[str, Table]:
        """Return the tables of the result by title, the main one first."""

    @abstractmethod
    def note(self) -> str:
        """Return one paragraph on how to read the tables."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""

    @abstractmethod
    def page(self, *, figures: bool = False, command: str | None = None) -> Page:
        """Return the page that `to_html` writes.

        Args:
            figures, command: as those of `to_html`.
        """

    def table(self) -> Table:
        """Return the main table, each cell with its numbers in full; `rich.print` prints it."""
        return self.tables()[0]

    def tables(self) -> list[Table]:
        """Return all tables; `rich.print` prints them."""
        return list(self.titled_tables().values())

    def to_csv(self, path: PathLike | None = None) -> str:
        """Return the result as CSV with all digits; written to `path`, too."""
        return also_written(self._csv(), path)

    def to_frame(self) -> Any:
        """Return what `to_csv` writes as a pandas frame."""
        return pandas().read_csv(io.StringIO(self.to_csv()))

    def to_latex(self, path: PathLike | None = None) -> str:
        """Return the result as a LaTeX table (booktabs); written to `path`, too."""
        return also_written(self._latex(), path)

    def to_markdown(self, path: PathLike | None = None) -> str:
        """Return the result as Markdown; written to `path`, too."""
        return also_written(self._markdown(), path)

    def to_html(
        self, path: PathLike | None = None, *, figures: bool = False, command: str | None = None
    ) -> str:
        """Return the result as one self-contained HTML page.

        Args:
            path: a file to write the page to, too.
            figures: whether to draw figures and let tables sort (needs
                ``pip install 'tautrank[report]'``); without them the page has no script. The page
                of a study always has them.
            command: the command that reproduces it in a terminal; by default the page shows the
                call in Python.
        """
        return self.page(figures=figures, command=command).to_html(path)

    def _csv(self) -> str:
        """Return the text that `to_csv` writes: the main table, unless a kind of result overrides
        this.
        """
        return self.table().to_csv()

    def _latex(self) -> str:
        """Return the text that `to_latex` writes: the main table, unless a kind of result
        overrides this.
        """
        return self.table().to_latex()

    def _markdown(self) -> str:
        """Return the text that `to_markdown` writes: the main table, unless a kind of result
        overrides this.
        """
        return self.table().to_markdown()

    def _repr_html_(self) -> str:
        """Return all tables as HTML, which notebooks display."""
        return "".join(table.to_html() for table in self.tables())

    def __str__(self) -> str:
        """Return all tables and the note on how to read them as text, wide enough for the table
        with the most columns.
        """
        tables = self.tables()
        most_columns = max(len(table.columns) for table in tables)
        # A column of numbers with its heading takes about 16 characters.
        width = max(100, 16 * most_columns)  # characters
        return as_text(*tables, self.note(), width=width)

    __repr__ = __str__


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Comparison(ComparisonValues, Result):
    """What `compare` and `compare_runs` return; a study's result is one with verdicts.

    Values are kept by (condition, system) or (condition, system, metric), one entry per trial; a
    comparison of several folds has one trial per repeat and fold. One system is significantly
    better than another if `systems_test`, adjusted by Holm's method over the comparisons of the
    metric, gives a p-value of at most `alpha`.

    >>> import tautrank as tr
    >>> parts = tr.simulate.simulate_web_search(60, n_features=16, mean_length=15).split([.5, .25, .25])
    >>> result = tr.compare(*parts, losses=["mse", "listnet"], metrics=["ndcg@5"], repeats=2, n_estimators=5)
    >>> result.systems[1].values["ndcg@5"].shape, len(result.tests("ndcg@5"))
    ((2, 15), 1)
    """

    @abstractmethod
    def opening(self) -> str:
        """Return the first sentences on how to read the tables."""

    def titled_tables(self) -> dict[str, Table]:
        """Return the tables by title: the results of each metric, and if every two systems are
        compared, a table of the pairs.
        """
        tables = comparison_tables.result_tables(self, self.opening())
        # Too few systems or queries leave nothing to test.
        has_pairs = any(self.tests(metric) for metric in self.metrics)
        if self.pairs == "all" and has_pairs:
            tables["Every pair"] = comparison_tables.pair_table(self)
        return tables

    def note(self) -> str:
        """Return how to read the tables of results, in one paragraph."""
        return comparison_tables.note_on_tables(self, self.opening(), self.cells)

    def answer(self) -> list[str]:
        """Return the result in words: what is missing, and which system is best on each metric."""
        from tautrank.experiments import comparison_page

        return comparison_page.answer(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return comparison_tables.to_dict(self)

    def _csv(self) -> str:
        return comparison_tables.result_table(self, self.cells).to_csv()

    def _latex(self) -> str:
        """Return the tables of results in LaTeX, with the trials that failed as comments."""
        tables = comparison_tables.result_tables(self, self.opening())
        comments = []
        for failure in self.failures:
            comments.append(f"failed: {failure.title}: {failure.error}")
        return comparison_tables.to_latex(tables, comments)

    def _markdown(self) -> str:
        return comparison_tables.to_markdown(self.titled_tables(), self.failures)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TrainedComparison(PlannedValues, Comparison):
    """What `compare` returns: a comparison of losses, and the plan of its trainings."""

    def opening(self) -> str:
        """Return the first sentences on how to read the tables."""
        return comparison_tables.training_opening(self)

    def page(self, *, figures: bool = False, command: str | None = None) -> Page:
        """Return the page that `to_html` writes.

        Args:
            figures, command: as those of `to_html`.
        """
        from tautrank.experiments import comparison_page

        settings = comparison_page.comparison_settings(self)
        subject = comparison_page.Subject(
            kind="losses",
            competitors="losses",
            settings=comparison_page.trials_section(self, settings),
            call=comparison_page.python_call(self),
        )
        return comparison_page.comparison_page(
            self, self.titled_tables(), subject, figures=figures, command=command
        )
