"""Losses of one's own: `ListLoss`, the page that shows how to write one, and losses in other
processes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
import pytest

import tautrank as tr
from tautrank.checks import CHECKS, check_loss
from tautrank.checks.samples import synthetic_lists
from tautrank.errors import DataError, OptionError
from tautrank.losses import REGISTRY, ListLoss, Loss, loss, register
from tautrank.losses.own_losses import OwnLoss, import_losses, import_own, own_losses, sendable
from tests.command_line import run
from tests.study_examples import content

PAGE = Path(__file__).resolve().parents[2] / "docs" / "add-a-loss.md"


def page_blocks(language: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [text for name, text in blocks if name == language]


CODE = page_blocks("python")[0]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's loss; one file for all tests, so that it is compiled once."""
    path = tmp_path_factory.mktemp("own") / "approx_ndcg.py"
    path.write_text(CODE)
    return path


QUICK = """
from dataclasses import dataclass
from tautrank.losses import ListLoss, register

@register("quick")
@dataclass(frozen=True)
class Quick(ListLoss):
    slope: float = 1.0

    @staticmethod
    def one_list(scores, labels, grad, hess, slope):
        value = 0.0
        for i in range(scores.size):
            grad[i] = slope * (scores[i] - labels[i])
            hess[i] = slope
            value += 0.5 * slope * (scores[i] - labels[i]) ** 2
        return value
"""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A loss that compiles quickly, for every process that has to."""
    path = tmp_path_factory.mktemp("quick") / "quick_loss.py"
    path.write_text(QUICK)
    return path


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


@pytest.fixture
def known(quick: Path) -> None:
    assert import_losses(str(quick)) == ["quick"]


@pytest.fixture
def approx_ndcg(file: Path) -> Loss:
    assert import_losses(str(file)) == ["approx-ndcg"]
    return loss("approx-ndcg")


@pytest.fixture(scope="module")
def letor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    data = tr.simulate.simulate_web_search(40, n_features=16, mean_length=8, seed=1)
    for name, part in zip(("train", "vali", "test"), data.split([0.5, 0.25, 0.25]), strict=True):
        tr.data.write_letor(part, folder / f"{name}.txt")
    return folder


# The page


def slow_approx_ndcg(scores: np.ndarray, labels: np.ndarray, alpha: float) -> float:
    """Qin, Liu and Li 2010, eq. 12 and 13, as they stand there."""
    above = 1 / (1 + np.exp(alpha * (scores[:, None] - scores)))
    np.fill_diagonal(above, 0.0)
    position = 1 + above.sum(axis=1)
    ideal = sum((2**y - 1) / np.log2(1 + r) for r, y in enumerate(sorted(labels, reverse=True), 1))
    return float(1 - sum((2**labels - 1) / np.log2(1 + position)) / ideal)


def test_it_is_short_and_the_formula_and_nears_1_minus_ndcg_as_alpha_grows(
    approx_ndcg: Loss,
) -> None:
    assert len([line for line in CODE.splitlines() if line.strip()]) <= 25
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=12), rng.integers(0, 5, 12).astype(float)
    for alpha in (0.5, 1.0, 10.0):
        values = (
            dataclasses.replace(approx_ndcg, alpha=alpha).bind(labels, [0, 7, 12]).values(scores)
        )
        for query, rows in enumerate((slice(0, 7), slice(7, 12))):
            assert values[query] == pytest.approx(
                slow_approx_ndcg(scores[rows], labels[rows], alpha), rel=1e-12
            )
    scores, labels = rng.permutation(20) / 2.0, rng.integers(0, 4, 20)
    sharp = dataclasses.replace(approx_ndcg, alpha=100.0).bind(labels, [0, 20]).values(scores)[0]
    assert sharp == pytest.approx(1 - tr.metric("ndcg").mean(scores, labels, [0, 20]), abs=1e-12)


@pytest.mark.parametrize(
    "text", ["approx-ndcg", "approx-ndcg(alpha=10)", "approx-ndcg(noise=gumbel)"]
)
def test_it_obeys_all_laws(approx_ndcg: Loss, text: str) -> None:
    laws = [name for name, check in CHECKS.items() if check.kind == "law"]
    report = check_loss(text, names=laws)
    assert [outcome.status for outcome in report.outcomes] == ["holds"] * len(laws), report


def table_of(text: str) -> dict[str, str]:
    """Name and outcome of every check in what a terminal shows."""
    return dict(
        re.findall(
            r"^ ([a-z][a-z0-9-]+) +(holds|broken|-?[0-9.]+|does not apply)  ", text, re.MULTILINE
        )
    )


def words_of(text: str) -> list[str]:
    """All words, however the table was folded."""
    return sorted(re.sub(r"[─\s]+", " ", text).split())


def test_the_check_gives_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    block_of_page = next(block for block in page_blocks("") if "laws hold" in block)
    monkeypatch.chdir(file.parent)
    code, out, _ = run(capsys, "theory", "check", "--import", "approx_ndcg.py")
    assert code == 0
    assert table_of(out) == table_of(block_of_page)
    assert block_of_page.splitlines()[:3] == out.splitlines()[:3]
    assert words_of(block_of_page) == words_of(out)


def test_the_mistake_of_the_page_is_found(tmp_path: Path) -> None:
    lines = re.search(r"( +)grad\[j\] \+= pull\n +grad\[i\] -= pull\n", CODE)
    wrong = re.search(r"`(grad\[j\], grad\[i\] = [^`]*)`", PAGE.read_text())
    sentence_of_page = re.search(r"^> zero-sum broken: (.*)$", PAGE.read_text(), re.MULTILINE)
    assert None not in (lines, wrong, sentence_of_page)
    (tmp_path / "wrong.py").write_text(CODE.replace(lines[0], f"{lines[1]}{wrong[1]}\n"))
    import_losses(str(tmp_path / "wrong.py"))
    laws = [name for name, check in CHECKS.items() if check.kind == "law"]
    broken_laws = {
        outcome.check: outcome.detail
        for outcome in check_loss("approx-ndcg", names=laws).having("broken")
    }
    assert set(broken_laws) == {"derivative", "zero-sum"}
    assert broken_laws["zero-sum"] == sentence_of_page[1]


def test_the_programs_of_the_page_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "approx_ndcg.py").write_text(CODE)
    names: dict[str, object] = {}
    for block in page_blocks("python"):
        exec(
            compile(block.replace("6000", "60").replace("6001", "61"), "add-a-loss.md", "exec"),
            names,
        )
    assert (
        next(block for block in page_blocks("") if block.endswith("extremes holds\n"))
        in capsys.readouterr().out
    )
    assert {"train.txt", "vali.txt", "test.txt", "approx.db"} <= {
        path.name for path in tmp_path.iterdir()
    }
    (command,) = re.findall(r"`tautrank (study report [^`]*)`", PAGE.read_text())
    assert run(capsys, *command.split())[0] == 0
    assert "approx-ndcg" in (tmp_path / "report.html").read_text()


def test_every_other_command_of_the_page_succeeds(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
    letor: Path,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    for source in (file, *letor.iterdir()):
        shutil.copy(source, tmp_path)
    few = {
        "theory": None,  # has a test of its own
        "compare": ["--trees", "3", "--repeats", "2", "--workers", "2", "--jobs", "2"],
        "train": ["--trees", "3", "--jobs", "1"],
        "rank": [],
        "tune": ["--trials", "2", "--trees", "3", "--jobs", "1"],
    }
    commands = [
        shlex.split(line)
        for block in page_blocks("")
        for line in block.splitlines()
        if line.startswith("taut")
    ]
    assert {command[1] for command in commands} == set(few)
    block_of_page = next(block for block in page_blocks("") if "±" in block)
    for command in commands:
        cut = few[command[1]]
        if cut is None:
            continue
        code, out, err = run(capsys, *command[1:], *cut)
        assert code == 0, (command, err)
        for name in ("lambdarank", "approx-ndcg") if command[1] == "compare" else ():
            assert re.search(rf"^ {name} +0\.\d+ ±", block_of_page, re.MULTILINE)
            assert re.search(rf"^ {name} +0\.\d+ ±", out, re.MULTILINE)


# What `ListLoss` provides


@dataclass(frozen=True)
class Held(ListLoss):
    """Pairs of unlike labels, weighted by how far apart their ranks are: weights that are not
    differentiated.
    """

    sigma: float = 1.0
    table: tuple[float, ...] = (1.0, 0.5)
    k: int | None = None

    @staticmethod
    def one_list(scores, labels, grad, hess, held, sigma, table, k):
        value = 0.0
        ranks = np.argsort(np.argsort(-held))
        for i in range(scores.size):
            for j in range(scores.size):
                if labels[i] > labels[j] and (k is None or ranks[i] < k):
                    w = table[0] + table[1] * abs(ranks[i] - ranks[j])
                    p = 1 / (1 + np.exp(sigma * (scores[i] - scores[j])))
                    value -= w * np.log(1 - p)
                    grad[i] -= w * sigma * p
                    grad[j] += w * sigma * p
                    hess[i] += w * sigma**2 * p * (1 - p)
                    hess[j] += w * sigma**2 * p * (1 - p)
        return value


def test_weights_that_are_held_are_not_differentiated() -> None:
    subject = Held()
    for law in ("derivative", "zero-sum", "shift", "frozen"):
        assert CHECKS[law].outcome(subject, *synthetic_lists()).status == "holds"
    objective = subject.bind([1, 0, 0], [0, 3])
    scores = np.array([0.0, 1.0, 2.0])
    moved = objective.frozen(np.array([2.0, 1.0, 0.0])).values(scores)[0]
    assert moved == pytest.approx(sum((1 + 0.5 * d) * np.log1p(np.exp(d)) for d in (1, 2)))
    assert (
        Held(k=1).bind([1, 0, 0], [0, 3]).values(scores)[0] == 0.0
    )  # None and a number are both parameters


def test_a_loss_prints_as_it_is_typed_and_takes_a_whole_number_for_a_float(
    approx_ndcg: Loss,
) -> None:
    assert loss("approx-ndcg", alpha=5) == loss("approx-ndcg(alpha=5.0)")
    assert str(loss("approx-ndcg", alpha=5)) == "approx-ndcg(alpha=5)"
    assert isinstance(loss("approx-ndcg(alpha=5)").alpha, float)
    with pytest.raises(OptionError, match=r"^alpha: found 'x'; expected a number"):
        loss("approx-ndcg", alpha="x")

    @register("loud")
    @dataclass(frozen=True, repr=True)
    class Loud(Held):
        pass

    assert repr(loss("loud(sigma=2)")) == "loud(sigma=2)"


def make(function: Callable[..., float] | None, wrap: Callable = staticmethod) -> type[ListLoss]:
    body = {} if function is None else {"one_list": wrap(function)}
    return dataclass(frozen=True)(type("Mine", (ListLoss,), {**body, "__annotations__": {}}))


def writes_scores(scores, labels, grad, hess):
    scores[0] = 1.0
    return 0.0


def calls_python(scores, labels, grad, hess):
    return no_such_function(scores)  # noqa: F821


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (
            lambda: make(None)(),
            "one_list: Mine has none; expected one_list(scores, labels, grad, hess, ...)",
        ),
        (
            lambda: make(lambda labels, scores, grad, hess: 0.0)(),
            "one_list: found Mine.one_list(labels, scores, grad, hess); expected one_list(scores, labels, grad, hess",
        ),
        (
            lambda: make(lambda scores, labels, grad, hess, beta: 0.0)(),
            "one_list: found the argument 'beta' of Mine.one_list; expected parameters of its "
            "dataclass (noise, strength)",
        ),
        (
            lambda: make(lambda scores, labels, grad, hess: 0.0, wrap=lambda f: f)(),
            "one_list: Mine.one_list is not a static method; expected @staticmethod above it",
        ),
        (lambda: make(writes_scores)().bind([1], [0, 1]).values([0.0]), "one_list: writes_scores"),
        (lambda: make(calls_python)().bind([1], [0, 1]).values([0.0]), "one_list: calls_python"),
    ],
    ids=["none", "order", "unknown", "method", "writes", "undefined"],
)
def test_what_is_wrong_with_a_function_is_one_sentence(
    make_it: Callable[[], object], message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        make_it()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value)


def test_two_files_with_the_same_names_are_two_losses(tmp_path: Path) -> None:
    # Both from Numba's cache, in a process that compiles neither: the second time is the one that
    # counts.
    for folder, factor in (("a", "1.0"), ("b", "2.0")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(
            QUICK.replace("value = 0.0", f"return {factor} * scores[0]")
        )
    code = (
        "from tautrank.losses import loss\nfrom tautrank.losses.own_losses import import_losses\n"
        "for name in ('a', 'b', 'a'):\n"
        "    import_losses(name + '/same.py')\n"
        "    print(loss('quick').bind([1], [0, 1]).values([3.0])[0])\n"
        "import sys; sys.path.insert(0, 'b'); import same\n"  # the same file under another name
        "print(loss('quick').bind([1], [0, 1]).values([3.0])[0])\n"
    )
    for _ in range(2):
        out = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert out.stdout.split() == ["3.0", "6.0", "3.0", "6.0"]


def too_far(scores, labels, grad, hess):
    grad[scores.size] -= 1
    return 0.0


def too_far_back(scores, labels, grad, hess):
    return scores[-scores.size - 1]


@numba.njit
def write(array, at):
    array[at] = 1.0


def calls_too_far(scores, labels, grad, hess):
    buffer = np.empty(6)
    write(buffer, scores.size - 1)
    return buffer[0]


@pytest.mark.parametrize(
    ("function", "line", "found"),
    [
        (too_far, "grad[scores.size] -= 1", "index 7 is out of bounds for axis 0 with size 7"),
        (too_far_back, "return scores[-scores.size - 1]", "index -8 is out of bounds for axis 0 with size 7"),
        (calls_too_far, "array[at] = 1.0", "index 6 is out of bounds for axis 0 with size 6 (a list of 7 documents)"),
    ],
)  # fmt: skip
def test_an_index_out_of_range_is_one_sentence_with_its_line(
    function: Callable[..., float], line: str, found: str
) -> None:
    kind = make(function)
    number = next(
        i
        for i, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if text.strip() == line
    )
    # The list without a relevant document is never seen; the longest one is.
    objective = kind().bind([0] * 9 + [1, 0] * 3 + [1], [0, 9, 16])
    for scores in (np.zeros(16), np.zeros(16, np.float32)):
        with pytest.raises(
            OptionError, match=re.escape(f"one_list: {__file__}, line {number}: {found}")
        ) as caught:
            objective.gradients(scores)
        assert str(caught.value).endswith("; expected indices within the array")
    report = check_loss(kind(), names=["shift"])
    assert [(outcome.check, outcome.status) for outcome in report.outcomes] == [("runs", "broken")]
    assert f"line {number}" in report["runs"].detail


def has_room_for_300(scores, labels, grad, hess):
    buffer = np.zeros(300)
    write(buffer, scores.size - 1)
    return buffer[0]


def has_three_gains(scores, labels, grad, hess):
    gains = np.array([0.0, 1.0, 3.0])
    return gains[int(labels[-1])]


def test_functions_are_tried_again_on_longer_lists_and_higher_labels() -> None:
    kind = make(has_room_for_300)
    assert kind().bind([1] * 300, [0, 300]).values(np.zeros(300))[0] == 0.0
    lines = Path(__file__).read_text().splitlines()
    number = next(i for i, text in enumerate(lines, 1) if text.strip() == "array[at] = 1.0")
    for documents, tried in ((301, 301), (1000, 400)):
        with pytest.raises(OptionError) as caught:
            kind().bind([1] * documents, [0, documents]).gradients(np.zeros(documents))
        sentence = f"index {tried - 1} is out of bounds for axis 0 with size 300 (a list of {tried} documents)"
        assert (
            str(caught.value)
            == f"one_list: {__file__}, line {number}: {sentence}; expected indices within the array"
        )
    with_gains = make(has_three_gains)
    assert with_gains().bind([1, 2], [0, 1, 2]).values([0.0, 0.0]).tolist() == [1.0, 3.0]
    with pytest.raises(OptionError, match="index 3 is out of bounds for axis 0 with size 3"):
        with_gains().bind([1, 1, 3, 1], [0, 1, 2, 3, 4]).gradients(np.zeros(4))


def test_a_failure_on_a_very_long_list_is_told_without_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tautrank.losses._list_kernel._LONGEST_WITH_LINE", 300)
    with pytest.raises(
        OptionError,
        match=r"^one_list: .*has_room_for_300: index is out of bounds \(a list of 400 doc",
    ):
        make(has_room_for_300)().bind([1] * 500, [0, 500]).gradients(np.zeros(500))


def test_an_index_far_out_of_range_does_not_kill_the_process(tmp_path: Path) -> None:
    file = tmp_path / "far.py"
    file.write_text(QUICK.replace("value = 0.0", "value = grad[10**9]"))
    command = [
        sys.executable,
        "-m",
        "tautrank",
        "theory",
        "check",
        "--import",
        str(file),
        "-c",
        "finite",
    ]
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "1000"}
    )
    assert "quick: 1 law is broken" in out.stdout
    assert f"one_list: {file}, line 12: index 1000000000 is out of bounds for axis 0" in out.stdout


def divides(scores, labels, grad, hess):
    return 1 / int(scores[0])


def test_what_only_python_refuses_runs_and_what_does_not_compile_fails_its_check() -> None:
    assert make(divides)().bind([1], [0, 1]).values([0.0])[0] == np.inf
    report = check_loss(make(calls_python)(), names=["shift"])
    assert [(outcome.check, outcome.status) for outcome in report.outcomes] == [("runs", "broken")]
    assert "Numba says" in report["runs"].detail


# In other processes and other commands


def test_train_evaluate_and_rank(
    capsys: pytest.CaptureFixture[str], quick: Path, letor: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.taut"
    arguments = ["--loss", "quick(slope=2)", "--trees", 3, "--jobs", 1, "--model", model]
    code, _, err = run(capsys, "train", letor / "train.txt", *arguments)
    assert code == 2
    assert err.startswith("error: unknown loss 'quick'")
    assert run(capsys, "train", letor / "train.txt", *arguments, "--import", quick)[0] == 0
    expected = tr.Ranker.load(model).predict(tr.read_letor(letor / "test.txt"))
    del REGISTRY["quick"]
    # A model is trees: what they were trained by is only a name in it.
    loaded = tr.Ranker.load(model)
    assert loaded.loss == "quick(slope=2)"
    np.testing.assert_array_equal(loaded.predict(tr.read_letor(letor / "test.txt")), expected)
    assert run(capsys, "evaluate", "--model", model, letor / "test.txt")[0] == 0
    assert (
        run(capsys, "rank", "--model", model, letor / "test.txt", "-o", tmp_path / "scores.txt")[0]
        == 0
    )


def test_compare_in_worker_processes_knows_the_loss_and_notices_when_it_changes(
    capsys: pytest.CaptureFixture[str], quick: Path, letor: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "quick_loss.py"
    shutil.copy(quick, mine)
    arguments = [
        "compare",
        letor / "train.txt",
        "--test",
        letor / "test.txt",
        "--losses",
        "mse,quick",
    ]
    arguments += [
        "--trees",
        3,
        "--repeats",
        2,
        "--jobs",
        2,
        "--store",
        tmp_path / "results",
        "--json",
    ]
    code, out, err = run(capsys, *arguments, "--workers", 2, "--import", mine)
    assert code == 0, err
    first_result = json.loads(out)
    code, out, _ = run(capsys, *arguments, "--workers", 1, "--import", mine)
    assert json.loads(out)["cells"] == first_result["cells"]
    assert len(content(tmp_path / "results")) == 4
    # Other code under the same name is another loss: its trainings are not those of before.
    mine.write_text(mine.read_text().replace("0.5", "0.6"))
    run(capsys, *arguments, "--workers", 1, "--import", mine)
    assert len(content(tmp_path / "results")) == 6


def test_tune_in_worker_processes(
    capsys: pytest.CaptureFixture[str], quick: Path, letor: Path, tmp_path: Path
) -> None:
    space = tmp_path / "space.json"
    space.write_text('{"loss.slope": ["float", 0.5, 20, "log"], "num_leaves": ["int", 2, 7]}')
    code, out, err = run(
        capsys, "tune", letor / "train.txt", "--valid", letor / "vali.txt", "--loss", "quick", "--space", space,
        "--trials", 3, "--trees", 3, "--workers", 2, "--jobs", 2, "--import", quick,
    )  # fmt: skip
    assert code == 0, err
    assert "failed" not in out
    assert f"--import {quick}" in " ".join(out.split())


def test_in_python_from_a_module_a_script_and_a_session(
    quick: Path, letor: Path, tmp_path: Path
) -> None:
    shutil.copy(quick, tmp_path / "quick_loss.py")
    use = f"""
import tautrank as tr

if __name__ == "__main__":
    train, test = (tr.read_letor({str(letor)!r} + "/" + name) for name in ("train.txt", "test.txt"))
    try:
        found = tr.compare(
            train, None, test, losses=["quick", "mse"], metrics=["ndcg@5"], repeats=2, workers=2, n_estimators=2
        )
        print([system.name for system in found.systems])
    except tr.OptionError as error:
        print(error)
"""
    (tmp_path / "module.py").write_text("import quick_loss\n" + use)
    (tmp_path / "script.py").write_text(QUICK + use)
    for arguments in (["module.py"], ["script.py"]):
        out = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert out.stdout == "['quick', 'mse']\n"
    out = subprocess.run(
        [sys.executable, "-"],
        cwd=tmp_path,
        input=QUICK + use,
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout == (
        "workers: found the loss 'quick', which was typed into this session, where other processes cannot find "
        "it; expected its class in a file that is imported here, or workers=1\n"
    )


def test_a_study_of_ones_own_loss(
    capsys: pytest.CaptureFixture[str], quick: Path, tmp_path: Path, known: None
) -> None:
    from tautrank.experiments.plan import System
    from tautrank.experiments.protocols import Resampling
    from tautrank.papers.run import run_study
    from tautrank.papers.study import Study

    study = Study(
        name="mine",
        title="Mine against theirs",
        paper="ours",
        claim="ours is better",
        systems=(System("lambdarank"), System("quick")),
        metrics=("ndcg@5",),
        protocol=Resampling(0.6, 0.2, 0.2),
        repeats=2,
        trees=2,
    )
    data, store = "simulated:simple:20,n_features=16,mean_length=8", tmp_path / "mine.db"
    here = run_study(study, data, store=store)
    for there in (run_study(study, data, workers=2), run_study(study, data, dask="local")):
        for system in ("lambdarank", "quick"):
            np.testing.assert_array_equal(
                here.cell("plain", system, "ndcg@5").means,
                there.cell("plain", system, "ndcg@5").means,
            )
    del REGISTRY["quick"]
    code, _, err = run(capsys, "study", "report", store)
    assert code == 2
    assert "unknown loss 'quick'" in err
    assert "(it has losses of its own, quick: --import the file that registers them)" in err
    assert run(capsys, "study", "report", store, "--import", quick)[0] == 0
    assert run(capsys, "study", "resume", store, "--workers", 1, "--import", quick)[0] == 0
    changed = tmp_path / "quick_loss.py"
    changed.write_text(QUICK.replace("0.5", "0.6"))
    code, _, err = run(capsys, "study", "resume", store, "--workers", 1, "--import", changed)
    assert code == 2
    assert "was begun with other code of the loss 'quick'" in err
    with pytest.raises(DataError, match="holds trials of a loss whose code has changed since"):
        run_study(study, data, store=store)


def test_a_module_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_module_of_losses.py").write_text(QUICK)
    monkeypatch.chdir(tmp_path)
    assert import_losses("own_module_of_losses") == ["quick"]
    (tmp_path / "needs_another.py").write_text("import no_such_thing\n")
    with pytest.raises(
        OptionError,
        match=r"^import: needs_another: ModuleNotFoundError: No module named 'no_such_thi",
    ):
        import_losses("needs_another")


def test_what_another_process_is_told(known: None, quick: Path, tmp_path: Path) -> None:
    (told,) = own_losses([loss("quick"), "quick(slope=3)", "lambdarank", "xgboost:rank:ndcg"])
    assert (told.name, told.source) == ("quick", str(quick))
    before = REGISTRY["quick"]
    import_own([told])
    assert REGISTRY["quick"] is before  # it was known, and is not run again
    del REGISTRY["quick"]
    import_own([told])
    assert REGISTRY["quick"] is not before
    changed_loss = OwnLoss("quick", str(quick), "0" * 32)
    with pytest.raises(OptionError, match=r"^import: found other code of the loss 'quick' in "):
        import_own([changed_loss])
    (tmp_path / "nothing.py").write_text("")
    with pytest.raises(OptionError, match=r"^import: found no loss 'nowhere' registered by "):
        import_own([OwnLoss("nowhere", str(tmp_path / "nothing.py"), "")])
    assert sendable(["mse"]) == ()


MISTAKES = {
    "raises": (
        "value = 0.0",
        "value = 0.0\n        if scores.size > 2:\n            raise ValueError('oops')",
        "one_list: Quick.one_list stopped with ValueError: oops; expected code that runs for every list",
    ),
    "imports": (
        "value = 0.0",
        "import json\n        value = 0.0",
        "one_list: Quick.one_list: Numba says 'Use of unsupported opcode (IMPORT_NAME) found'; expected code that",
    ),
    "taken": (
        '"quick"',
        '"lambdarank"',
        "import: {file}, line 5: register: found 'lambdarank', a loss of the library; expected a name that is",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_in_a_loss_are_one_sentence_on_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, letor: Path, case: str
) -> None:
    right, wrong, sentence = MISTAKES[case]
    file = tmp_path / "mistaken.py"
    file.write_text(QUICK.replace(right, wrong))
    name = "lambdarank" if case == "taken" else "quick"
    options = ["--import", file, "--loss", name, "--trees", 2, "--model", tmp_path / "m"]
    code, out, err = run(capsys, "train", letor / "train.txt", *options)
    assert (code, out) == (2, "")
    assert err.startswith("error: " + sentence.format(file=file))
    assert err.count("\n") == 1
    assert not (tmp_path / "m").exists()
