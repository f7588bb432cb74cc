"""What README and the documents tell a reader to type works: every `tautrank` command and every
Python block is run.

A page is run from top to bottom in a folder of its own that holds small stand-ins for the files the
pages name, as a reader would run it on real ones; only the budgets are cut.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import typer

import tautrank as tr
from tautrank.commands.main import app, main
from tautrank.papers.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
# What these pages say to type is run for every study, on real data and cut down, by
# tests/papers/test_catalogue.py.
STUDY_PAGES = sorted((ROOT / "docs" / "results" / "studies").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page not in STUDY_PAGES),
]

# Options by command: added to it, the last one counts.
CUTS = {
    "train": ["--trees", "2", "--jobs", "1"],
    "compare": ["--trees", "2", "--repeats", "2", "--workers", "1", "--jobs", "1"],
    "tune": ["--trials", "2", "--trees", "2", "--jobs", "1"],
    "study run": ["--repeats", "1", "--trees", "2", "--workers", "1"],
    "study resume": ["--workers", "1"],
    "theory check": ["--queries", "4"],
}
# The same, only where the page gives the option itself.
CUTS_OF_GIVEN = {"--tune": "2", "--configs": "2", "--timeout": "60", "--workers": "1"}

# Pages whose every snippet is run by a test that also looks at what it prints.
RUN_ELSEWHERE = {
    "docs/add-a-loss.md": "tests/losses/test_own_losses.py",
    "docs/serving.md": "tests/ranker/test_serving.py",
}

DATA_SETS = ("MSLR-WEB10K", "MSLR-WEB30K", "MQ2008")
# A word in capitals stands for something of the reader's, unless it names a data set.
PLACEHOLDER = re.compile(r"[A-Z]{2,}[A-Z-]*")
# Fenced blocks of these languages hold commands.
SHELLS = ("", "sh", "bash", "shell", "console")
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1 *$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """Something to type, the line of the page it starts on, and whether it stands in a sentence or
    a table.
    """

    line: int
    text: str
    inline: bool = False


def blocks(text: str, languages: tuple[str, ...]) -> list[Snippet]:
    fences = (fence for fence in FENCE.finditer(text) if fence[2].strip() in languages)
    return [Snippet(text[: fence.start(3)].count("\n") + 1, fence[3]) for fence in fences]


def commands(text: str) -> list[Snippet]:
    """Every `tautrank` command of a page, in its order."""
    found = []
    for block in blocks(text, SHELLS):
        joined = re.sub(r"\\\n\s*", lambda gap: " " * len(gap[0]), block.text)
        lines = re.finditer(r"^ *(?:\$ )?(tautrank .*)", joined, re.MULTILINE)
        found += [
            Snippet(block.line + block.text[: line.start()].count("\n"), line[1].strip())
            for line in lines
        ]
    prose = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    found += [
        Snippet(prose[: code.start()].count("\n") + 1, " ".join(code[1].split()), inline=True)
        for code in re.finditer(r"(?<!`)`(tautrank [^`]+)`", prose)
    ]
    return sorted(found, key=lambda snippet: snippet.line)


def programs(text: str) -> list[Snippet]:
    """Python blocks that are not doctests: pytest runs those."""
    return [block for block in blocks(text, ("python",)) if ">>>" not in block.text]


def command_of(words: list[str]) -> tuple[str, click.Command, list[str]]:
    """The name of a command, the command, and the words behind its name; an error where there is no
    such command.
    """
    command: click.Command = typer.main.get_command(app)
    name: list[str] = []
    while (
        hasattr(command, "commands") and words[len(name) :] and not words[len(name)].startswith("-")
    ):
        word = words[len(name)]
        assert word in command.commands, f"there is no command 'tautrank {' '.join([*name, word])}'"
        command = command.get_command(None, word)
        name.append(word)
    return " ".join(name), command, words[len(name) :]


def is_whole(snippet: Snippet) -> bool:
    """Whether it can be typed as it stands; a sentence may also speak of `tautrank train` or of
    `--tune`.

    What is spoken of must exist all the same.
    """
    words = shlex.split(snippet.text, comments=True)[1:]
    if not snippet.inline or words[0] == "--version":
        return True
    if words[0] == "COMMAND":
        return False
    name, command, rest = command_of(words)
    known = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    unknown = [word for word in rest if word.startswith("--") and word not in known | {"--help"}]
    assert not unknown, f"tautrank {name} has no {unknown[0]}"
    if any(PLACEHOLDER.fullmatch(word) for word in rest) or "..." in snippet.text:
        return False
    only_options = all(word.startswith("-") for word in rest)
    return not only_options or not any(parameter.required for parameter in command.params)


def cut(words: list[str]) -> list[str]:
    """The words of a command with a small budget."""
    name, _, _ = command_of(words)
    if name == "compare-runs":  # nothing is trained
        return words
    given = [
        item
        for option, value in CUTS_OF_GIVEN.items()
        if option in words
        for item in (option, value)
    ]
    return words + CUTS.get(name, []) + given


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files under the names the pages use."""
    folder = tmp_path_factory.mktemp("stand-ins")
    data = tr.simulate.simulate_web_search(40, n_features=16, mean_length=8, seed=1)
    parts = dict(zip(("train", "vali", "test"), data.split([0.5, 0.25, 0.25]), strict=True))
    for name, part in parts.items():
        tr.data.write_letor(part, folder / f"{name}.txt")
        frame = pd.DataFrame(part.X, columns=[f"feature{i}" for i in range(part.n_features)])
        frame = frame.assign(label=part.labels, query_id=np.repeat(part.qids, part.sizes))
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet")
    for data_set in DATA_SETS:
        for fold in (1, 2):
            (folder / data_set / f"Fold{fold}").mkdir(parents=True)
            for name in parts:
                shutil.copy(
                    folder / f"{name}.txt", folder / data_set / f"Fold{fold}" / f"{name}.txt"
                )
    ranker = tr.Ranker(n_estimators=2, n_jobs=1).fit(parts["train"])
    for name in ("model.taut", "old.taut"):
        ranker.save(folder / name)
    (folder / "lgb.txt").write_text(ranker.model_.to_text())
    for name in ("scores", "scores2"):
        (folder / f"{name}.txt").write_text(
            "".join(f"{score}\n" for score in ranker.predict(parts["test"]))
        )
    (folder / "qrels.txt").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 2\n")
    for name in ("run", "bm25", "dense", "run1", "run2", "run3", "run4"):
        (folder / f"{name}.trec").write_text(
            "q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1.5 tag\nq2 Q0 d1 1 0.5 tag\n"
        )
    own = next(
        block
        for block in blocks((ROOT / "docs" / "add-a-loss.md").read_text(), ("python",))
        if "@register" in block.text
    )
    (folder / "my_loss.py").write_text(own.text)
    typed = (
        (ROOT / "docs" / "metrics.md")
        .read_text()
        .partition("## A metric of your own")[2]
        .partition(">>> tm.")[0]
    )
    lines = [line[4:] for line in typed.splitlines() if line.startswith((">>>", "..."))]
    (folder / "my_metric.py").write_text("\n".join(lines))
    return folder


@pytest.fixture
def folder(
    stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_demo, own_losses
) -> Path:
    """A copy of the stand-ins to work in."""
    shutil.copytree(stand_ins, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # tests run side by side
    return tmp_path


def snippets(text: str) -> list[Snippet]:
    """All there is to run on a page, from top to bottom."""
    whole = [snippet for snippet in commands(text) if is_whole(snippet)]
    return sorted([*whole, *programs(text)], key=lambda snippet: snippet.line)


PAGES_TO_RUN = [
    name
    for name in map(str, (page.relative_to(ROOT) for page in PAGES))
    if name not in RUN_ELSEWHERE
]


@pytest.mark.parametrize(
    "page", [name for name in PAGES_TO_RUN if snippets((ROOT / name).read_text())]
)
def test_everything_a_page_says_to_type_works(page, folder, capfd):
    names: dict[str, object] = {}
    failures = []
    for snippet in snippets((ROOT / page).read_text()):
        if not snippet.text.startswith("tautrank "):
            exec(compile("\n" * (snippet.line - 1) + snippet.text, page, "exec"), names)
            continue
        try:
            main(cut(shlex.split(snippet.text, comments=True)[1:]))
            code = 0
        except SystemExit as stopped:
            code = stopped.code or 0
        said = capfd.readouterr().err
        if code:
            failures.append(
                f"{page}:{snippet.line}: {snippet.text}: exit code {code}, {said.splitlines()[-1:]}"
            )
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("page", RUN_ELSEWHERE)
def test_a_page_with_a_test_of_its_own_has_one(page):
    for snippet in commands((ROOT / page).read_text()):
        is_whole(snippet)  # what it speaks of exists
    assert Path(page).name in (ROOT / RUN_ELSEWHERE[page]).read_text()


def test_doctests_stand_where_pytest_looks_for_them():
    outside = [
        page
        for page in PAGES
        if "docs" not in page.parts and re.search("^>>>", page.read_text(), re.MULTILINE)
    ]
    assert not outside, f"{outside}: its examples are not run; docs/ is where they are"


def test_commands_are_found_in_blocks_tables_and_sentences():
    text = (
        "`tautrank study list`, `tautrank train` and ``tautrank no``\n| `tautrank data info\na.txt` |\n\n"
        "```\nmake demo\ntautrank rank \\\n  x.txt   # why\n```\n```python\ntautrank = 1\n```\n"
    )
    found = commands(text)
    assert [(s.line, " ".join(s.text.split())) for s in found] == [
        (1, "tautrank study list"),
        (1, "tautrank train"),
        (2, "tautrank data info a.txt"),
        (7, "tautrank rank x.txt # why"),
    ]
    assert [is_whole(s) for s in found] == [True, False, True, True]
    for wrong in ("tautrank trane", "tautrank train --tree", "tautrank study ran STORE"):
        with pytest.raises(AssertionError):
            is_whole(Snippet(1, wrong, inline=True))


def test_the_page_of_a_study_names_a_command_there_is():
    assert len(STUDY_PAGES) > len(CATALOGUE)
    for page in STUDY_PAGES:
        (snippet,) = commands(page.read_text())
        words = shlex.split(snippet.text)[1:]
        _, command, rest = command_of(words)
        assert rest[0] in CATALOGUE
        command.make_context(
            "run", rest
        )  # an error for an option that does not exist, or a value it does not take
