"""The result of a search for parameters: its trials, the best of them, and the command that trains
the best model.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tautrank
from tautrank.engines.langevin import Langevin
from tautrank.experiments.plan import Experiment
from tautrank.experiments.result import Result
from tautrank.experiments.search import SearchOptions
from tautrank.experiments.space import parameters_of
from tautrank.experiments.store import DONE, FAILED, Trial, TrialOutcome
from tautrank.experiments.trial import PRUNED, UNFINISHED
from tautrank.metrics import Metric, metric
from tautrank.report.terminal import command_line
from tautrank.tables import Cell, Column, Table

if TYPE_CHECKING:
    from tautrank.report.page import Page

_MOST_SHOWN = 10  # trials in the table; CSV has all of them

# The parameters that are options of `tautrank train`, with the names of the options; all others are
# a --param.
_TRAIN_OPTIONS = {
    "loss": "loss",
    "metric": "metric",
    "engine": "engine",
    "learning_rate": "learning_rate",
    "n_estimators": "trees",
    "num_leaves": "leaves",
    "random_state": "seed",
}
_WITHOUT_OPTION = ("early_stopping_rounds", "verbose", "langevin")


@dataclass(frozen=True)
class TriedConfiguration:
    """A configuration that was tried, and what its training gave.

    Args:
        number: The number of the trial, from 0.
        configuration: The loss and the values that were tried, by their names in the space.
        state: ``done``, ``pruned`` if its curve fell behind the others, or ``failed`` if it cannot
            be trained.
        score: The best validation value; of a pruned trial the best until then.
        trees: The number of trees that gives `score`.
        grown: The number of trees that were trained.
        seconds: The time the training took.
        error: One sentence, if it failed.
        curve: The best validation value so far, at each checkpoint of the plan.
    """

    number: int
    configuration: dict[str, Any]
    state: str
    score: float | None = None
    trees: int = 0
    grown: int = 0
    seconds: float = 0.0
    error: str = ""
    curve: Sequence[float] = ()

    @classmethod
    def of(cls, trial: Trial, outcome: TrialOutcome) -> TriedConfiguration:
        """Return the tried configuration of a search that a finished trial and its outcome stand
        for.

        The JSON result of a training has the fields state, score, trees, grown and curve; a trial
        without a result failed, or did not end.
        """
        if outcome.result:
            fields = json.loads(outcome.result)
        else:
            state = FAILED if outcome.status == FAILED else UNFINISHED
            fields = {"state": state, "error": outcome.error}
        configuration = trial.spec["configuration"]
        return cls(trial.number, configuration, seconds=outcome.seconds, **fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name; the number of the trial is called ``trial``."""
        fields = dict(vars(self))
        return {"trial": fields.pop("number"), **fields}


@dataclass(frozen=True, eq=False, repr=False)
class Tuning(Result):
    """The result of a search.

    Args:
        experiment: The losses, and the ranges that were searched.
        options: How configurations were proposed and trained.
        trials: All trials that have ended, by number.
        ranker: The model of the best configuration; None if none was asked for.
    """

    experiment: Experiment
    options: SearchOptions
    trials: tuple[TriedConfiguration, ...]
    ranker: tautrank.Ranker | None = None

    @property
    def metric(self) -> Metric:
        """The metric that was optimised."""
        return metric(self.experiment.metrics[0])

    @property
    def has_best(self) -> bool:
        """Whether any trial was trained to the end."""
        return any(trial.state == DONE for trial in self.trials)

    @property
    def best(self) -> TriedConfiguration:
        """The trial with the best validation value, the first one if several have it."""
        return self.ranked()[0]

    @property
    def best_score(self) -> float:
        """The best validation value. As the best of many it is too optimistic: judge the model on
        test data.
        """
        assert self.best.score is not None
        return self.best.score

    @property
    def best_configuration(self) -> dict[str, Any]:
        """The loss and the best values, by their names in the space."""
        return self.best.configuration

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters of `Ranker` that train the best model: the best number of trees, no early
        stopping.
        """
        fixed_parameters = self.experiment.parameters
        return {
            "metric": str(self.metric),
            **parameters_of(self.best.configuration, fixed_parameters),
            "n_estimators": self.best.trees,
            "early_stopping_rounds": None,
        }

    def ranked(self) -> list[TriedConfiguration]:
        """Return the trials sorted from best to worst by their validation score; those that were
        pruned, and then those that failed, come last.
        """
        sign = self.metric.sign  # -1 for a metric of which less is better
        states = (DONE, PRUNED, FAILED)

        def sort_key(trial: TriedConfiguration) -> tuple[int, float, int]:
            # A failed trial has no score; its state alone puts it last.
            score = trial.score or 0.0
            return states.index(trial.state), -sign * score, trial.number

        return sorted(self.trials, key=sort_key)

    def titled_tables(self) -> dict[str, Table]:
        """Return the table of the best trials, by its title."""
        return {"Best trials": self._table_of(self.ranked()[:_MOST_SHOWN])}

    def note(self) -> str:
        """Return how many trials there were, what became of them, and the best score."""
        n_by_state = Counter(trial.state for trial in self.trials)

        text = f"{len(self.trials)} trials: {n_by_state[DONE]} trained to the end"
        text += f", {n_by_state[PRUNED]} pruned"
        if n_by_state[FAILED]:
            text += f", {n_by_state[FAILED]} failed"
        best = f"best validation {self.metric} {self.best_score:.4f} in trial {self.best.number}"
        return f"{text}; {best}"

    def to_dict(self) -> dict[str, Any]:
        """Return the metric, the sampler, the best trial and all trials as plain values, ready for
        JSON.
        """
        # Writing and reading JSON turns parameters that are objects into plain values.
        best_params = json.dumps(self.best_params, default=_plain_parameter)
        return {
            "metric": str(self.metric),
            "sampler": self.options.sampler,
            "seed": self.options.seed,
            "best_trial": self.best.number,
            "best_score": self.best.score,
            "best_configuration": self.best.configuration,
            "best_params": json.loads(best_params),
            "trials": [trial.to_dict() for trial in self.trials],
        }

    def page(self, *, figures: bool = False, command: str | None = None) -> Page:
        """Return the page that `to_html` writes; it has neither figures nor a command.

        Args:
            figures, command: as those of `to_html`.
        """
        from tautrank.report.page import Page, TableSection

        best = TableSection("Best trials", self.table())
        return Page("Search for parameters", [best], lead=self.note(), interactive=False)

    def _csv(self) -> str:
        return self._table_of(self.trials).to_csv()

    def _table_of(self, trials: Sequence[TriedConfiguration]) -> Table:
        """Return a table of trials with one row per trial and these columns: its number, its
        validation score, its number of trees, and one per hyperparameter that was searched.
        """
        names = _searched_names(trials)
        metric_name = str(self.metric)
        score_fields = ("state", metric_name)
        columns = [
            Column("trial"),
            Column(metric_name, score_fields, high_first=self.metric.higher_is_better),
            Column("trees", ("trees", "grown", "seconds", "error")),
        ]
        for name in names:
            is_text = name == "loss"
            columns.append(Column(name, words=is_text))
        rows = [tuple(_table_row(trial, names)) for trial in trials]
        return Table(tuple(columns), tuple(rows))


def _table_row(trial: TriedConfiguration, names: Sequence[str]) -> list[Cell]:
    """Return the table cells of a trial: its number, its validation score, its number of trees, and
    the values of its hyperparameters.

    Each cell has the text that a person reads and the values that a CSV file gets.

    Args:
        trial: the trial.
        names: the names of the hyperparameters; a trial of another loss may lack some of them.
    """
    # A failed trial has no score.
    score_text = "failed" if trial.score is None else f"{trial.score:.4f}"
    if trial.state == PRUNED:
        score_text += " pruned"
    # A CSV file also gets the trees that were grown, the seconds and the error.
    costs = (trial.trees, trial.grown, trial.seconds, trial.error)
    row = [
        Cell(str(trial.number)),
        Cell(score_text, (trial.state, trial.score)),
        Cell(str(trial.trees), costs),
    ]
    for name in names:
        if name in trial.configuration:
            value = trial.configuration[name]
            cell = Cell(_format(value), (_format_exactly(value),))
        else:
            cell = Cell("", (None,))
        row.append(cell)
    return row


def _searched_names(trials: Sequence[TriedConfiguration]) -> list[str]:
    """Return the names of the hyperparameters that were searched, sorted: the loss if there were
    several, parameters of the ranker, then those of losses, which have a dot in their names.
    """
    names: set[str] = set()
    losses: set[str] = set()
    for trial in trials:
        names.update(trial.configuration)
        losses.add(trial.configuration["loss"])
    names.discard("loss")

    # False sorts before True: names without a dot come first, each group by the alphabet.
    ranker_first = sorted(names, key=lambda name: ("." in name, name))
    if len(losses) > 1:
        return ["loss", *ranker_first]
    return ranker_first


def _plain_parameter(value: Any) -> Any:
    """Return a parameter of `Ranker` as JSON can hold it."""
    return vars(value) if isinstance(value, Langevin) else str(value)


def _format_exactly(value: Any) -> str:
    """Return a value as `--param` reads it back: JSON, or the text itself."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _format(value: Any) -> str:
    """Return a hyperparameter value as a person reads it: numbers with four digits."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return _format_exactly(value)


# ---- The best trial in a terminal


def best_text(tuning: Tuning) -> str:
    """Return the best configuration in one line.

    Args:
        tuning: The search.
    """
    best = tuning.best.configuration
    names = ["loss", *_searched_names([tuning.best])]
    texts = [f"{name}={_format(best[name])}" for name in names]
    return " ".join(texts)


def train_command(tuning: Tuning, train: str, valid: str, model: str, **options: Any) -> str:
    """Return the `tautrank train` command that trains the best model, for a shell.

    Args:
        tuning: The search.
        train, valid: The files the search was given.
        model: The file to save the model in.
        **options: The options to read the files with, such as `zero_based`.
    """
    train_options: dict[str, Any] = {}
    assignments = []  # the values of --param, such as num_threads=2
    for name, value in tuning.best_params.items():
        # The fields of an object become options of their own, such as --langevin-temperature.
        if isinstance(value, Langevin):
            for field_name, number in vars(value).items():
                train_options[f"langevin_{field_name}"] = number
        elif name in _TRAIN_OPTIONS:
            option = _TRAIN_OPTIONS[name]
            train_options[option] = value
        # Parameters without an option of the command are given as --param NAME=VALUE.
        elif name not in _WITHOUT_OPTION:
            assignments.append(f"{name}={_format_exactly(value)}")
    train_options["param"] = assignments
    # The number of trees is the best one already: all of them are grown.
    train_options["early_stopping"] = 0
    train_options["model"] = model
    return command_line("tautrank", "train", train, valid=valid, **options, **train_options)
