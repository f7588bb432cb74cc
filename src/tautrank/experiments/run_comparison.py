"""The result of `compare_runs`: a comparison of runs that exist already, so without a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tautrank.experiments import comparison_tables
from tautrank.experiments.result import Comparison
from tautrank.tables import Table, text_cell

if TYPE_CHECKING:
    from tautrank.report.page import Page


@dataclass(frozen=True, kw_only=True)
class GivenRuns:
    """The runs that are compared, and by what.

    Args:
        labels: by system, what its runs are called: a file by its path.
        are_files: whether all runs are files, so that their labels say where they are.
        judgments: the file of judgments; None if they are not in a file.
        metrics: the names of the metrics, the first one decides.
        baseline: the system that the others are compared with; by default the first.
        options: options of all metrics, such as ``{"like": "trec_eval"}``.

    >>> GivenRuns(labels={"bm25": ("bm25.trec",)}, metrics=("map",)).baseline
    'bm25'
    """

    labels: Mapping[str, Sequence[str]]
    are_files: bool = True
    judgments: str | None = None
    metrics: tuple[str, ...]
    baseline: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.baseline:
            object.__setattr__(self, "baseline", next(iter(self.labels)))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RunComparison(Comparison):
    """What `compare_runs` returns.

    Args:
        runs: what was compared.
    """

    runs: GivenRuns

    @property
    def system_names(self) -> tuple[str, ...]:
        """The names of the systems in tables."""
        return tuple(self.runs.labels)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of the metrics, the first one decides."""
        return self.runs.metrics

    @property
    def baseline(self) -> str:
        """The name of the system that the others are compared with."""
        return self.runs.baseline

    @property
    def n_repeats(self) -> int:
        """The number of runs of each system."""
        return len(next(iter(self.runs.labels.values())))

    @property
    def varied(self) -> str:
        """What differs between the runs of a system: as far as is known, their seeds."""
        return "seeds"

    def opening(self) -> str:
        """Return the first sentences on how to read the tables: the number of runs of each system,
        and how ties and empty queries count.
        """
        sentence_on_runs = f"Mean ± standard deviation over {self.n_repeats} runs."
        if self.n_repeats == 1:
            sentence_on_runs = "One run each."
        return f"{sentence_on_runs} {comparison_tables.ties_and_remarks(self)}"

    def page(self, *, figures: bool = False, command: str | None = None) -> Page:
        """Return the page that `to_html` writes.

        Args:
            figures, command: as those of `to_html`.
        """
        from tautrank.experiments import comparison_page

        settings = comparison_page.settings_section(
            self._settings(), "What was compared", self._run_table()
        )
        subject = comparison_page.Subject(
            kind="runs", competitors="systems", settings=settings, call=self._python_call()
        )
        return comparison_page.comparison_page(
            self, self.titled_tables(), subject, figures=figures, command=command
        )

    def _settings(self) -> dict[str, str]:
        """Return the judgments, level, metrics, baseline and versions of the comparison as texts by
        name, for its page.
        """
        from tautrank.experiments import comparison_page

        return {
            "judgments": self.runs.judgments or "memory",
            "level": f"{self.alpha:g}",
            **comparison_page.measured_settings(self),
            **comparison_page.version_settings(self),
        }

    def _run_table(self) -> Table:
        """Return a table with one row per run: the name of its system, and what the run is called,
        a file by its path.
        """
        rows = []
        for system, run_labels in self.runs.labels.items():
            for run_label in run_labels:
                rows.append([text_cell("system", system), text_cell("run", run_label)])
        return Table.of_rows(rows)

    def _python_call(self) -> str:
        """Return the text of the call of `tautrank.compare_runs` that runs the comparison again;
        runs and judgments that are not files stand there as variables.
        """
        from tautrank.experiments import comparison_page

        runs = "runs"
        if self.runs.are_files:
            argument = {}
            for system, files in self.runs.labels.items():
                # A single file is written by itself, several as a list.
                argument[system] = _one_or_list(files)
            runs = repr(argument)
        judgments = "judged"
        if self.runs.judgments is not None:
            judgments = repr(self.runs.judgments)
        return comparison_page.call_text(
            "tr.compare_runs",
            # The two arguments stand on lines of their own.
            f"{runs},\n    {judgments}",
            metrics=list(self.metric_names),
            **comparison_page.arguments_of_tests(self),
            **self.runs.options,
        )


def _one_or_list(values: Sequence[str]) -> str | list[str]:
    """Return a single value by itself, and several ones as a list."""
    return values[0] if len(values) == 1 else list(values)
