"""The tables of a comparison: means with their tests, every pair of systems, what was trained, and
the values of the tables as dictionaries.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tautrank.experiments.changes import Change
from tautrank.experiments.comparison_values import (
    CellResult,
    ComparisonValues,
    Failure,
    PairTest,
    PlannedValues,
)
from tautrank.experiments.plan import PLAIN
from tautrank.json_values import from_json, or_nan
from tautrank.report.terminal import EMPTY_QUERIES
from tautrank.significance.verdicts import UNDECIDED, TestOutcome, win_tie_loss
from tautrank.tables import (
    Cell,
    Column,
    Table,
    Titled,
    difference_text,
    mean_text,
    number_cell,
    p_cell,
    p_text,
    text_cell,
)

OWN_MARK, MARK = "†", "*"
"""What marks a difference that the paper's test, or the test over queries, finds significant."""


# ---- Results


def result_tables(
    result: ComparisonValues, opening: str, *, with_costs: bool = True
) -> dict[str, Table]:
    """Return the tables of means with their significance tests, by title: one table per metric; the
    note of the last one says how to read all of them.

    There is a single table, titled "Results", for one metric or one system, and where conditions
    (variants of the data or parameters) are evaluated by metrics of their own.

    Args:
        result: the values of a comparison or a study.
        opening: the first sentences of the note.
        with_costs: whether the first table shows the numbers of trees and the seconds, which are
            the same for all metrics.
    """
    metrics = result.metric_names
    has_one_system = len(result.system_names) == 1
    # Metrics of their own under each condition do not line up as one table per metric.
    has_one_table = has_one_system or result.has_own_metrics or len(metrics) == 1
    if has_one_table:
        note = note_on_tables(result, opening, result.cells)
        return {"Results": result_table(result, result.cells, note, with_costs=with_costs)}

    tables = {}
    for metric in metrics:
        cells = [cell for cell in result.cells if cell.metric == metric]
        if metric == metrics[-1]:
            note = note_on_tables(result, opening, cells)
        else:
            note = _note_on_tests(result, cells)
        # Trees and seconds are the same for all metrics: the first table has them.
        shows_costs = with_costs and metric == metrics[0]
        tables[metric] = result_table(result, cells, note, with_costs=shows_costs)
    return tables


def training_opening(result: PlannedValues) -> str:
    """Return the first sentences on how to read the tables of a comparison of losses: how often
    each loss was trained, how parameters were searched, how ties and empty queries count.

    Args:
        result: the values of the comparison.
    """
    n_configurations = result.plan.budget.configurations
    sentences = [_describe_mean(result)]
    if n_configurations:
        sentences.append(
            f"Each training picks the best of {n_configurations} random configurations by"
            f" validation {result.metrics[0]}; 'all tried' is the mean over all of them."
        )
    sentences.append(ties_and_remarks(result))
    return " ".join(sentences)


def _describe_mean(result: PlannedValues) -> str:
    """Return the sentence on the trainings that a mean is taken over: how many there are, and what
    differs between them.
    """
    if result.n_repeats == 1:
        return "One training each: nothing is known of other seeds and splits."
    difference = "other seeds"
    if result.varied == "splits":
        difference = "training/validation splits drawn anew"
    return f"Mean ± standard deviation over {result.n_repeats} repeats ({difference})."


def ties_and_remarks(result: ComparisonValues) -> str:
    """Return sentences on how metrics treat tied scores and queries without relevant documents,
    and on queries that were left out or filled in.

    Args:
        result: the values of a comparison.
    """
    first_metric = result.metrics[0]
    # The option `empty` says what a query without relevant documents counts; here in words.
    empty_queries = EMPTY_QUERIES[first_metric.empty]
    conventions = f"Ties: {first_metric.ties}; empty queries: {empty_queries}."
    return " ".join([conventions, *result.remarks])


def note_on_tables(result: ComparisonValues, opening: str, cells: Sequence[CellResult]) -> str:
    """Return one paragraph on how to read the tables of results: intervals, p-values, detectable
    differences, and queries won and lost. Without significance tests, it is the opening alone.

    Args:
        result: the values of a comparison or a study.
        opening: the first sentences of the paragraph.
        cells: the values (of one system on one metric each) in the table above the paragraph.
    """
    test_names = dict.fromkeys(cell.tested.test for cell in result.cells if cell.tested)
    if not test_names:
        return opening

    comparisons = f"every system with {result.baseline}"
    if result.pairs == "all":
        comparisons = "every two systems"
    confidence = f"{100 * (1 - result.alpha):g} %"
    sentences = [
        opening,
        f"'minus {result.baseline}' has its {confidence} confidence interval.",
        f"p is from the {' or '.join(test_names)}, adjusted by Holm's method for comparing"
        f" {comparisons} on a metric; {MARK} marks p of at most {result.alpha:g}.",
        "Detectable is the smallest true difference that the comparison alone would find with 80 %"
        " power.",
        _note_on_tests(result, cells),
    ]
    if not result.measures_only:
        unit = "by their means over trials" if result.tests_same_queries else "of all trials"
        sentences.append(
            f"w/t/l: test queries {unit} won, tied and lost against {result.baseline}."
        )
    return " ".join(sentences)


def _note_on_tests(result: ComparisonValues, cells: Sequence[CellResult]) -> str:
    """Return sentences on the significance tests of some cells (one system on one metric each):
    the smallest differences that the tests find, and the tests' own notes, each once.
    """
    tests_by_metric: dict[str, list[TestOutcome]] = {}
    notes: list[str] = []
    for cell in cells:
        if cell.tested is None:
            continue
        tests_by_metric.setdefault(cell.metric, []).append(cell.tested)
        note = cell.tested.note
        if note and note not in notes:
            notes.append(note)

    n_comparisons = None
    if result.pairs == "all":
        # None: the number follows from the tests, one per system against the baseline.
        n_comparisons = math.comb(len(result.system_names), 2)
    sentences = [power_note(tests_by_metric, result.alpha, n_comparisons)]
    sentences += [f"Note: {note}." for note in notes]
    return " ".join(sentence for sentence in sentences if sentence)


def power_note(
    tests_by_metric: Mapping[str, Sequence[TestOutcome]],
    level: float,
    n_comparisons: int | None = None,
) -> str:
    """Return a sentence on the true differences that significance tests find with 80 % power, for
    each metric; empty if no difference varies by chance.

    A test alone uses the significance level. In the first step of Holm's method, the smallest
    p-value of m comparisons must be below the level / m, so that only larger differences are
    found.

    Args:
        tests_by_metric: the outcomes that Holm's method corrects together, by metric.
        level: the significance level.
        n_comparisons: the number of comparisons, m; by default the number of tests of the metric.
    """
    sizes_alone: dict[str, str] = {}
    sizes_at_first_step: dict[str, str] = {}
    for metric, tests in tests_by_metric.items():
        uncertain_tests = [test for test in tests if test.standard_error > 0]
        if uncertain_tests:
            level_of_first_step = level / (n_comparisons or len(tests))
            sizes_alone[metric] = _detectable_text(uncertain_tests, level)
            sizes_at_first_step[metric] = _detectable_text(uncertain_tests, level_of_first_step)
    if not sizes_alone:
        return ""

    has_one_metric = len(sizes_alone) == 1
    if has_one_metric:
        size = next(iter(sizes_alone.values()))
        text = f"A true difference of {size} would be found with 80 % power"
    else:
        sizes = [f"{size} on {metric}" for metric, size in sizes_alone.items()]
        text = f"True differences of {', '.join(sizes)} would be found with 80 % power"
    if sizes_at_first_step != sizes_alone:
        pronoun = "one" if has_one_metric else "those"
        first_sizes = ", ".join(sizes_at_first_step.values())
        text += f", and {pronoun} of {first_sizes} at the first step of Holm's method"
    return f"{text}."


def _detectable_text(tests: Sequence[TestOutcome], level: float) -> str:
    """Return as text the smallest true difference that every one of the tests finds with 80 %
    power at a significance level: the largest of their detectable differences.
    """
    detectable_differences = []
    for test in tests:
        # Name and difference do not matter for what a test could find.
        test_at_level = TestOutcome.of("", 0.0, test.standard_error, test.degrees, level)
        detectable_differences.append(test_at_level.detectable)
    text = difference_text(max(detectable_differences))
    # Differences are written with their sign, which a size does not need.
    return text.removeprefix("+")


# ---- One row per cell


def result_table(
    result: ComparisonValues,
    cells: Sequence[CellResult],
    note: str = "",
    *,
    with_costs: bool = True,
) -> Table:
    """Return the table of results with one row per cell (the values of one system on one metric):
    the names that tell the cells apart, the mean, and the tests against the baseline.

    Args:
        result: the values of a comparison or a study.
        cells: the cells to show.
        note: how to read the table.
        with_costs: whether to show the number of trees and the seconds.
    """
    rows = [_result_row(result, cells, cell, with_costs=with_costs) for cell in cells]
    return Table.of_rows(rows, note)


def _result_row(
    result: ComparisonValues,
    cells_of_table: Sequence[CellResult],
    cell: CellResult,
    *,
    with_costs: bool,
) -> list[Titled]:
    """Return the row of a table for one cell of a result: the values of one system on one metric.

    Args:
        result: the values of a comparison or a study.
        cells_of_table: the cells of all rows; a column that would be empty for all is left out.
        cell: the cell to show.
        with_costs: whether to show the number of trees and the seconds.
    """
    has_several_systems = len(result.system_names) > 1
    row = _name_columns(result, cells_of_table, cell)
    row.append(_mean_column(cells_of_table, cell, mark_best=has_several_systems))
    # A search tries several configurations: `tried` is the mean over all of them.
    if _has_search(cells_of_table):
        mean_of_tried = mean_text(cell.tried, spread=None)
        row.append(number_cell("all tried", cell.tried, mean_of_tried))
    # "Printed" numbers are those of the paper that is reproduced.
    if _has_printed(cells_of_table):
        row += _columns_on_print(result, cell)
    if has_several_systems:
        row += _columns_on_baseline(result, cell)
    if with_costs:
        row += _cost_columns(result, cell.condition, cell.system)
    return row


def _name_columns(
    result: ComparisonValues, cells_of_table: Sequence[CellResult], cell: CellResult
) -> list[Titled]:
    """Return the first columns of a row of results: the names of its system, and of its condition,
    metric and part of the data if the table has several of them.
    """
    columns = []
    if result.condition_names != (PLAIN,):
        # A CSV file also gets the number that the condition stands for, such as a noise level.
        axis_value = _axis_value(result, cell.condition)
        column = Column("condition", ("value", "condition"), words=True)
        columns.append((column, Cell(cell.condition, (axis_value, cell.condition))))
    columns.append(text_cell("system", cell.system))
    if _has_several_metrics(cells_of_table):
        # The suffix says that lower is better, where it is so.
        metric_cell = Cell(cell.metric + _direction_suffix(cell), (cell.metric,))
        columns.append((Column("metric", words=True), metric_cell))
    if len(result.judged_parts) > 1:
        columns.append(text_cell("queries", cell.part))
    return columns


def _axis_value(result: ComparisonValues, condition_name: str) -> float | None:
    """Return the position of a condition on the x axis of a study's figures, such as the share of
    noisy labels that the condition is about.
    """
    values = {condition.name: condition.value for condition in result.conditions}
    return values[condition_name]


def _mean_column(
    cells_of_table: Sequence[CellResult], cell: CellResult, *, mark_best: bool
) -> Titled:
    """Return the column of a system's mean on a metric, with the standard deviation; the best of
    all systems' means is bold if `mark_best`.
    """
    # With one metric, its name is the heading of the column.
    title = cell.metric + _direction_suffix(cell)
    if _has_several_metrics(cells_of_table):
        title = "mean"
    csv_names = ("mean", "deviation", "low", "high")
    csv_values = (cell.mean, cell.deviation, *cell.interval)
    column = Column(title, csv_names, high_first=cell.higher_is_better)

    is_best = cell.mean == _best_mean(cells_of_table, cell)
    style = "bold" if mark_best and is_best else ""
    return column, Cell(mean_text(cell.mean, cell.deviation), csv_values, style=style)


def _best_mean(cells: Sequence[CellResult], cell: CellResult) -> float:
    """Return the best mean of all systems under the condition of a cell, on its metric and part of
    the data; NaN if no system has a value there.
    """
    # Cells measure alike under the same condition, on the same metric and part.
    rivals = [rival for rival in cells if _measure_alike(rival, cell)]
    means = [rival.mean for rival in rivals if rival.means.size]
    if not means:
        return math.nan
    return max(means) if cell.higher_is_better else min(means)


def _measure_alike(first: CellResult, second: CellResult) -> bool:
    """Return whether two cells have the same condition, metric and part of the data, so that their
    systems can be compared.
    """
    return (
        first.condition == second.condition
        and first.metric == second.metric
        and first.part == second.part
    )


def _has_search(cells: Sequence[CellResult]) -> bool:
    """Return whether any system was tuned, so that there is a mean over all configurations."""
    return any(not math.isnan(cell.tried) for cell in cells)


def _has_printed(cells: Sequence[CellResult]) -> bool:
    """Return whether the paper that is reproduced prints a number for any of the cells."""
    return any(cell.printed is not None for cell in cells)


def _has_paper_tests(cells: Sequence[CellResult]) -> bool:
    """Return whether any of the cells has an outcome of the significance test of a paper."""
    return any(cell.own for cell in cells)


def _has_several_metrics(cells: Sequence[CellResult]) -> bool:
    metrics = {cell.metric for cell in cells}
    return len(metrics) > 1


def _direction_suffix(cell: CellResult) -> str:
    """Return what follows the name of a metric in a title: a warning if lower values are better."""
    return "" if cell.higher_is_better else " (lower is better)"


def _columns_on_print(result: ComparisonValues, cell: CellResult) -> list[Titled]:
    """Return the columns that compare a system's mean with the number that a paper prints: the
    printed number, our mean minus it, and the printed lead over the baseline.
    """
    baseline_cell = result.cell(cell.condition, result.baseline, cell.metric, cell.part)
    printed = or_nan(cell.printed)
    # Without a printed number, `printed` is NaN, and so are the differences from it.
    excess = cell.mean - printed
    printed_lead = math.nan
    if cell is not baseline_cell:
        printed_lead = printed - or_nan(baseline_cell.printed)

    column = Column("in print", ("in print", "in print spread"), high_first=cell.higher_is_better)
    csv_values = (printed, cell.printed_spread)
    return [
        (column, Cell(mean_text(printed, cell.printed_spread), csv_values)),
        number_cell("here minus print", excess, difference_text(excess)),
        number_cell("lead in print", printed_lead, difference_text(printed_lead)),
    ]


def _columns_on_baseline(result: ComparisonValues, cell: CellResult) -> list[Titled]:
    """Return the columns that compare a system with the baseline: the difference, its p-value, the
    difference that the test could detect, the paper's own test, and the queries won and lost.

    They are empty for the baseline itself, which is not tested.
    """
    # An outcome without numbers (all NaN) leaves the columns of the baseline empty.
    outcome = cell.tested or TestOutcome("")
    p_value = p_text(outcome.adjusted) if cell.tested else ""
    p_column = Column("p", ("p", "p of one comparison"))
    columns = [
        difference_cell(f"minus {result.baseline}", outcome, _significance_marks(cell)),
        (p_column, Cell(p_value, (outcome.adjusted, outcome.p_value))),
        detectable_cell(outcome),
    ]
    if _has_paper_tests(result.cells):
        columns.append(_paper_test_column(cell))
    if not result.measures_only:
        columns.append(_win_tie_loss_column(result, cell))
    return columns


def _significance_marks(cell: CellResult) -> str:
    """Return a mark for each test by which a system differs significantly from the baseline: the
    paper's own test, and the test over queries.
    """
    marks = ""
    # `own` is the test that the reproduced paper prescribes, `tested` the one over queries.
    if cell.own and cell.own.verdict != UNDECIDED:
        marks += OWN_MARK
    if cell.tested and cell.tested.verdict != UNDECIDED:
        marks += MARK
    return marks


def _paper_test_column(cell: CellResult) -> Titled:
    """Return the column of the p-value by the paper's own test; empty where it was not done."""
    if cell.own is None:
        return p_cell("p own", math.nan, "")
    return p_cell("p own", cell.own.p_value)


def _win_tie_loss_column(result: ComparisonValues, cell: CellResult) -> Titled:
    """Return the column of the numbers of test queries that a system wins, ties and loses against
    the baseline; empty where the two cannot be compared.
    """
    from tautrank.experiments.query_gains import query_gains

    column = Column("w/t/l", ("won", "tied", "lost"), high_first=True)
    gains = None
    if cell.tested:
        gains = query_gains(result, cell.condition, cell.metric, [cell.system])
    if gains is None:
        return column, Cell("", (None, None, None))

    # One difference from the baseline per query, positive where the system is better.
    gains_of_system = gains.gains[cell.system]
    counts = win_tie_loss(gains_of_system)
    text = "/".join(map(str, counts))
    return column, Cell(text, counts)


def difference_cell(title: str, outcome: TestOutcome | PairTest, marks: str = "") -> Titled:
    """Return the column of a difference between systems, with its confidence interval.

    Args:
        title: the title of the column.
        outcome: the test of the difference; numbers that are not known are NaN.
        marks: signs to put behind the number; with `MARK`, the difference is significant, and green
            or red by its sign.
    """
    text = ""
    if not math.isnan(outcome.difference):
        text = difference_text(outcome.difference)
    if not math.isnan(outcome.low):
        text += f" [{difference_text(outcome.low)}, {difference_text(outcome.high)}]"
    style = ""
    if MARK in marks:
        style = "green" if outcome.difference > 0 else "red"
    csv_names = (title, f"{title} low", f"{title} high")
    csv_values = (outcome.difference, outcome.low, outcome.high)
    column = Column(title, csv_names, high_first=True)
    return column, Cell(text, csv_values, marks, style)


def detectable_cell(outcome: TestOutcome) -> Titled:
    """Return the column of the smallest true difference that a test alone finds with 80 % power;
    empty if it is not known.
    """
    difference = outcome.detectable
    text = ""
    if not math.isnan(difference):
        text = difference_text(difference).removeprefix("+")
    return number_cell("detectable", difference, text, high_first=False)


def _cost_columns(result: ComparisonValues, condition: str, system: str) -> list[Titled]:
    """Return the columns of what a system costs: the number of trees and the seconds of a trial,
    averaged over trials. A column is left out if no system has such values.
    """
    columns = []
    trees_and_seconds = (("trees", result.trees, 0), ("seconds", result.seconds, 2))
    for title, values_by_system, n_digits in trees_and_seconds:
        if not values_by_system:
            continue
        mean = math.nan
        # What is shown for a system without such values, such as one that was only measured.
        text = "-"
        if (condition, system) in values_by_system:
            values_of_trials = values_by_system[condition, system]
            mean = float(np.mean(values_of_trials))
            text = f"{mean:.{n_digits}f}"
        # A click on the heading sorts costs from low to high.
        columns.append(number_cell(title, mean, text, high_first=False))
    return columns


# ---- Every pair


def pair_table(result: ComparisonValues) -> Table:
    """Return a table with one row per metric and pair of systems: which system is better, by how
    much, and the p-values.

    Args:
        result: the values of a comparison.
    """
    systems = result.system_names
    rows = []
    for metric in result.metric_names:
        for test in result.tests(metric):
            rows.append(
                [
                    text_cell("metric", metric),
                    # A test names its two systems by their position in the comparison.
                    text_cell("better", systems[test.better]),
                    text_cell("worse", systems[test.worse]),
                    difference_cell("difference", test),
                    p_cell("p of one comparison", test.p_value),
                    p_cell("p", test.adjusted),
                ]
            )
    return Table.of_rows(rows, "p counts all pairs of a metric, by Holm's method.")


# ---- What was trained


def training_table(result: PlannedValues) -> Table:
    """Return a table of what was trained (or measured): one row per system and condition (a variant
    of the data or parameters), with all parameters, trees and time.

    Args:
        result: the values of a comparison or a study.
    """
    # The plan begins with one trial of each system under each condition: repeats run the same.
    n_rows = len(result.condition_names) * len(result.system_names)
    first_trials = result.plan.trials()[:n_rows]
    specs = [trial.spec for trial in first_trials]

    # The table has these columns if any row has something to put there.
    has_search = any(spec.get("search") for spec in specs)
    has_changes = any(spec["changes"] for spec in specs)
    rows = []
    for spec in specs:
        row = _training_row(result, spec)
        if has_search:
            row += _search_columns(result, spec)
        if has_changes:
            changes = [_change_text(change) for change in from_json(spec["changes"])]
            row.append(text_cell("change of the data", "; ".join(changes)))
        rows.append(row)
    return Table.of_rows(rows, "Trees and seconds are means over trials.")


def _training_row(result: ComparisonValues, spec: Mapping[str, Any]) -> list[Titled]:
    """Return the row of the table of trainings for one system under one condition: names, loss or
    measurement, trees and seconds, and parameters.

    Args:
        result: the values of a comparison or a study.
        spec: the specification of one trial of the system.
    """
    condition, system = spec["condition"], spec["system"]
    row = []
    if result.condition_names != (PLAIN,):
        row.append(text_cell("condition", condition))
    row.append(text_cell("system", system))
    if result.measures_only:
        row.append(text_cell("measurement", spec["measure"]))
    else:
        row.append(text_cell("loss", spec["loss"]))
    row += _cost_columns(result, condition, system)

    parameters = from_json(spec["parameters"])
    row.append(text_cell("parameters", parameters_text(parameters)))
    return row


def _search_columns(result: ComparisonValues, spec: Mapping[str, Any]) -> list[Titled]:
    """Return the columns on a system's parameter search: the ranges that were searched, and the
    configuration that validated best in each trial.

    Args:
        result: the values of a comparison or a study.
        spec: the specification of one trial of the system.
    """
    condition, system = spec["condition"], spec["system"]
    # A specification is plain JSON: `from_json` makes objects of its entries again.
    ranges = from_json(spec["search"])
    best_configurations = result.chosen.get((condition, system), [])
    texts = [parameters_text(configuration) for configuration in best_configurations]
    return [
        text_cell("searched", parameters_text(ranges)),
        text_cell("chosen, trial by trial", "; ".join(texts)),
    ]


def _change_text(change: Change) -> str:
    """Return a change of the data, such as noise in the labels, as a call with its parameters and
    the parts of the data that it applies to.
    """
    parameters = parameters_text(change.parameters)
    data_parts = ", ".join(change.parts)
    return f"{change.kind}({parameters}) of {data_parts}"


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Return parameters in one line, as keyword arguments.

    >>> parameters_text({"learning_rate": 0.1, "engine": "lightgbm"})
    "learning_rate=0.1, engine='lightgbm'"
    """
    texts = [f"{name}={value!r}" for name, value in parameters.items()]
    return ", ".join(texts)


# ---- Other forms


def to_markdown(tables: Mapping[str, Table], failures: Iterable[Failure]) -> str:
    """Return tables as Markdown, each below its title, followed by a list of the trials that
    failed.

    Args:
        tables: the tables by title.
        failures: the trials that failed, with their errors.
    """
    lines = []
    for title, table in tables.items():
        lines += [f"## {title}", "", table.to_markdown()]
    failure_items = [f"- {failure.title}: {failure.error}" for failure in failures]
    if failure_items:
        lines += ["## Failed trials", "", *failure_items, ""]
    return "\n".join(lines)


def to_latex(tables: Mapping[str, Table], comments: Iterable[str]) -> str:
    """Return tables as LaTeX for a paper (booktabs), each below a comment with its title.

    Args:
        tables: the tables by title.
        comments: lines to add below the tables, as comments of LaTeX.
    """
    lines = []
    for title, table in tables.items():
        lines += [f"% {title}", table.to_latex()]
    lines += [f"% {comment}" for comment in comments]
    return "\n".join([*lines, ""])


def to_dict(result: ComparisonValues) -> dict[str, Any]:
    """Return all values of a comparison as nested dictionaries and lists, ready for JSON.

    Args:
        result: the values of the comparison.
    """
    values = {
        "repeats": result.n_repeats,
        "vary": result.varied,
        "alpha": result.alpha,
        "compared": result.pairs,
        # What comparisons and studies have in common: counts, cells, curves, failures.
        **measured_values(result),
        "remarks": result.remarks,
        "pairs": {name: _pair_entries(result, name) for name in result.metric_names},
    }
    return as_json_values(values)


def as_json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn nested values into those that JSON has, by writing and reading them: outcomes of tests
    become dictionaries, tuples lists, and NaN and infinities None.
    """

    def to_none(_constant: str) -> None:
        """Replace a constant that Python writes, but JSON does not have: NaN or an infinity."""

    # An object that JSON does not know, such as the outcome of a test, is written as its fields.
    text = json.dumps(values, default=vars)
    return dict(json.loads(text, parse_constant=to_none))


def measured_values(result: ComparisonValues) -> dict[str, Any]:
    """Return the measurements that comparisons and studies have in common as a dictionary: counts
    of trials, and lists of conditions, cells (values of one system on one metric), trees, seconds,
    curves, points of figures and failures.

    Args:
        result: the values of a comparison or a study.
    """
    trial_counts = {
        "planned": result.n_planned,
        "done": result.n_done,
        "failed": len(result.failures),
        "constant": result.n_constant,
    }
    conditions = []
    for condition in result.conditions:
        conditions.append({"name": condition.name, "value": condition.value})
    failures = []
    for failure in result.failures:
        failures.append({"trial": failure.title, "error": failure.error})

    return {
        "trained_with": result.trained_with,
        "trials": trial_counts,
        "conditions": conditions,
        "baseline": result.baseline,
        "cells": [_cell_entry(cell) for cell in result.cells],
        "trees": _trial_entries(result.trees),
        "seconds": _trial_entries(result.seconds),
        "chosen": _trial_entries(result.chosen),
        "curves": _curve_entries(result),
        "points": _point_entries(result),
        "failures": failures,
    }


def _curve_entries(result: ComparisonValues) -> list[dict[str, Any]]:
    """Return the metric after each tree as a list with one dictionary per condition, system and
    part of the data.
    """
    entries = []
    for (condition, system, data_part), curves_of_trials in result.curves.items():
        entry = {"condition": condition, "system": system, "part": data_part}
        entries.append({**entry, "by_trial": curves_of_trials})
    return entries


def _point_entries(result: ComparisonValues) -> list[dict[str, Any]]:
    """Return the points that measurements give for figures as a list with one dictionary per
    condition and system.
    """
    entries = []
    for (condition, system), points in result.points.items():
        entries.append({"condition": condition, "system": system, **points})
    return entries


def _trial_entries(values_by_system: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """Turn a dictionary from (condition, system) to the values of its trials into a list with one
    dictionary per condition and system, as JSON has no tuples for keys.
    """
    entries = []
    for (condition, system), values_of_trials in values_by_system.items():
        entries.append({"condition": condition, "system": system, "by_trial": values_of_trials})
    return entries


def _cell_entry(cell: CellResult) -> dict[str, Any]:
    """Return the values of one system on one metric as a dictionary, its means by trial number.

    `tried` is the mean over all configurations of a search, `printed` the number in the paper that
    is reproduced, `own` the test of that paper, and `tested` the test against the baseline.
    """
    # `numbers` are the numbers of the trials whose means `means` holds.
    means_by_trial = dict(zip(cell.numbers, cell.means.tolist(), strict=True))
    return {
        "condition": cell.condition,
        "system": cell.system,
        "metric": cell.metric,
        "part": cell.part,
        "by_trial": means_by_trial,
        "mean": cell.mean,
        "deviation": cell.deviation,
        "difference": cell.difference,
        "tried": cell.tried,
        "interval": cell.interval,
        "printed": cell.printed,
        "own": cell.own,
        "tested": cell.tested,
    }


def _pair_entries(result: ComparisonValues, metric: str) -> list[dict[str, Any]]:
    """Return the tests of pairs of systems on a metric as dictionaries, with the names of the
    better and the worse system instead of their numbers.
    """
    systems = result.system_names
    entries = []
    for test in result.tests(metric):
        names = {"better": systems[test.better], "worse": systems[test.worse]}
        # The names replace the numbers that the fields better and worse hold.
        entries.append({**vars(test), **names})
    return entries
