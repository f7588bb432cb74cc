"""The commands that compare: losses by training them, and runs that exist already."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import tautrank as tr
from tautrank.commands import options
from tautrank.commands.options import argument, flag, option, several
from tautrank.commands.output import print_json, say, show, show_trainings
from tautrank.commands.training import LEARNING_RATE, LEAVES, Training
from tautrank.errors import OptionError
from tautrank.files import require_writable
from tautrank.metrics import TOOLS
from tautrank.names import split_at_commas

if TYPE_CHECKING:
    from tautrank.experiments.result import Comparison

_METRICS = several("Metrics; default ndcg@5,ndcg@10,map. The first decides.", "--metrics", "-m")
_LIKE = option(f"Tool whose rules the metrics follow: {', '.join(TOOLS)}.")


@dataclasses.dataclass(frozen=True)
class Tests:
    """The options of tests."""

    alpha: float = option("Significance level.", 0.05)
    baseline: str = option("System that the others are compared with; default the first one.", "")
    all_pairs: bool = flag(
        "Compare every two systems, not only each with the baseline.", "--all-pairs"
    )

    @property
    def pairs(self) -> str:
        """Which pairs of systems are tested, as `tautrank.compare` takes it."""
        return "all" if self.all_pairs else "baseline"


@dataclasses.dataclass(frozen=True)
class Forms:
    """The options of what a comparison is shown as."""

    latex: bool = flag("Print a LaTeX table.", "--latex")
    as_csv: bool = flag("Print CSV with all digits.", "--csv")
    html: Path | None = option("Also write the table as an HTML page without scripts.")
    report: Path | None = option(
        "Also write an HTML page with figures; needs pip install 'tautrank[report]'."
    )
    as_json: bool = options.AS_JSON

    def check(self) -> None:
        """Raise an error, before any training, if a page could not be written: its folder does not
        allow it, or the figures of a report need Plotly.
        """
        if self.report is not None:
            from tautrank.report.plotly_script import require_plotly

            require_plotly()
        for file in (self.html, self.report):
            if file is not None:
                require_writable(file)

    def write(self, result: Comparison, context: typer.Context, closing: str = "") -> None:
        """Write the pages of a comparison and print it.

        Args:
            result: the comparison.
            context: Typer's context, for the command line that the pages show.
            closing: a line to print below tables.
        """
        # What to paste into a shell to get the same; nothing if `main` did not start the command.
        command = shlex.join(["tautrank", *context.obj]) if context.obj else None
        if self.html is not None:
            result.to_html(self.html, command=command)
        if self.report is not None:
            result.to_html(self.report, figures=True, command=command)

        if self.as_json:
            print_json(result.to_dict())
        elif self.latex:
            sys.stdout.write(result.to_latex())
        elif self.as_csv:
            sys.stdout.write(result.to_csv())
        else:
            show(result, result.note())
            if closing:
                say(closing)
            if self.report is not None:
                say(f"Report: {self.report}")


def compare(
    *,
    context: typer.Context,
    data: Path = argument("Training data, or a data set's folder."),
    like: str | None = _LIKE,
    test: Path | None = option("Test data; a folder has its own."),
    valid: Path | None = option("Validation data; default a fifth of the training queries."),
    fold: str = option("Folds to use from a folder: 1, or 1,2,3, or all.", "1"),
    losses: list[str] | None = several(
        "Losses; default LightGBM's LambdaRank and seven of ours.", "--losses", "-l"
    ),
    metrics: list[str] | None = _METRICS,
    repeats: int = option("Number of trainings per loss.", 5),
    vary: str = option("What differs between repeats: splits or seeds.", "splits"),
    tune: int = option(
        "Number of random configurations to choose from on validation data; 0 for no tuning.", 0
    ),
    tests: Tests,
    store: Path = option(
        "File of finished trainings; the same command continues it.", Path("tautrank-results.db")
    ),
    training: Training,
    learning_rate: float = LEARNING_RATE,
    leaves: int = LEAVES,
    workers: int | None = option(
        "Number of trainings to run in parallel; default by the size of the data."
    ),
    reader: options.ReaderOptions,
    forms: Forms,
) -> None:
    """Compare losses and test the differences. Every loss is trained several times.

    Example: tautrank compare train.txt --test test.txt --losses
    lightgbm:lambdarank,ndcg-loss2++,xendcg
    """
    from tautrank.experiments.compare import (
        DEFAULT_LOSSES,
        DEFAULT_METRICS,
        compare_splits,
        comparison,
    )

    names = options.names_of(losses, "--losses") or list(DEFAULT_LOSSES)
    parameters = training.parameters(names, learning_rate=learning_rate, num_leaves=leaves)
    declared = comparison(
        names,
        options.metrics_of(metrics, DEFAULT_METRICS, like=like),
        repeats=repeats,
        vary=vary,
        tune=tune,
        baseline=tests.baseline,
        parameters=parameters,
    )
    forms.check()
    splits = _read_splits(data, valid, test, fold, reader)

    hint = f" in {store}; the same command continues from there"
    with show_trainings(hint=hint) as progress:
        result = compare_splits(
            declared,
            splits,
            seed=training.seed,
            alpha=tests.alpha,
            pairs=tests.pairs,
            store=store,
            n_jobs=training.jobs,
            workers=workers,
            progress=progress,
        )
    forms.write(result, context, f"All trainings: {store}")


def compare_runs(
    *,
    context: typer.Context,
    runs: list[str] = argument(
        "Runs: FILE or NAME=FILE. The same name again is another run of the same system.",
        shown="RUN",
    ),
    qrels: Path = option(
        "Judgments: TREC qrels, or labelled data for files of scores.", ..., "--qrels"
    ),
    metrics: list[str] | None = _METRICS,
    like: str | None = _LIKE,
    tests: Tests,
    reader: options.ReaderOptions,
    forms: Forms,
) -> None:
    """Compare TREC runs, or files of one score per line, and test the differences.

    Example: tautrank compare-runs bm25.trec dense.trec --qrels qrels.txt

    Example: tautrank compare-runs before=scores.txt after=scores2.txt --qrels test.txt
    """
    from tautrank.experiments.compare import DEFAULT_METRICS

    judges: list[Any] = options.metrics_of(metrics, DEFAULT_METRICS, like=like)
    forms.check()
    result = tr.compare_runs(
        _files_by_system(runs),
        qrels,
        judges,
        like=like,  # one tool also has an order of its own for tied documents
        alpha=tests.alpha,
        baseline=tests.baseline,
        pairs=tests.pairs,
        **reader.keywords(),
    )
    forms.write(result, context)


def _files_by_system(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the run files of each system by its name, from arguments ``NAME=FILE`` or ``FILE``.

    A file without a name is called by its stem (``bm25`` for ``old/bm25.trec``), or by its path if
    two arguments would have the same name.
    """
    # The name is empty where only a file was typed.
    typed = [_split_name_and_file(text) for text in texts]
    names_or_stems = [name or _stem_of(file) for name, file in typed]
    files_by_system: dict[str, list[str]] = {}
    for (name, file), name_or_stem in zip(typed, names_or_stems, strict=True):
        is_stem_ambiguous = not name and names_or_stems.count(name_or_stem) > 1
        # The same name typed twice means two runs of one system; the same stem does not.
        system = file if is_stem_ambiguous else name_or_stem
        files_by_system.setdefault(system, []).append(file)
    return files_by_system


def _split_name_and_file(text: str) -> tuple[str, str]:
    """Split ``NAME=FILE``; the name is empty if the text is a file alone."""
    if Path(text).exists():
        return "", text
    name, _equals, file = text.rpartition("=")
    return name, file


def _stem_of(file: str) -> str:
    """Return the name of a file without its endings, such as ``bm25`` for ``old/bm25.trec.gz``."""
    file_name = Path(file).name
    stem = file_name.split(".", maxsplit=1)[0]
    return stem or file


def _read_splits(
    data: Path, valid: Path | None, test: Path | None, fold: str, reader: options.ReaderOptions
) -> list[tr.data.Splits]:
    """Read the splits (training, validation and test data) to compare losses on: one split from
    files, or one for each chosen fold of a data set's folder.

    Args:
        data: training data, or the folder.
        valid: validation data; None for a part of the training data.
        test: test data; None with a folder, which has its own.
        fold: numbers of folds separated by commas, or ``all``.
        reader: how files are read.
    """
    if not data.is_dir():
        if test is None:
            raise OptionError(
                "--test: found none; expected test data (only a folder brings its own)"
            )
        parts, _columns_aside = reader.files(data, valid, test)
        valid_part = parts[1] if valid else None
        return [tr.data.Splits(train=parts[0], valid=valid_part, test=parts[-1])]
    if test is not None or valid is not None:
        raise OptionError(
            f"--test, --valid: found with the folder {data}; expected a folder's own parts"
        )
    if fold == "all":
        fold_numbers = tr.data.list_folds(data) or [1]
        numbers = [str(number) for number in fold_numbers]
    else:
        numbers = split_at_commas(fold)
    are_numbers = all(number.isdecimal() for number in numbers)
    if not numbers or not are_numbers:
        raise OptionError(f"--fold: found '{fold}'; expected numbers such as 1 or 1,2, or all")
    return [reader.folder(data, int(number)) for number in numbers]
