"""`tautrank theory check`: every loss, a loss of one's own, real data, bad input."""

from __future__ import annotations

import json

import pytest

import tautrank as tr
from tautrank.losses import REGISTRY
from tests import command_line

OWN = """
from dataclasses import dataclass
import numpy as np
from tautrank.losses import ListLoss, register

@register("centred")
@dataclass(frozen=True)
class Centred(ListLoss):
    '''Half the squared distance of scores and labels, both centred in the query.'''

    slope: float = 1.0

    @staticmethod
    def one_list(scores, labels, grad, hess, slope):
        residuals = scores - labels
        residuals = residuals - residuals.mean()
        grad[:] = slope * residuals
        hess[:] = 1.0
        return 0.5 * (residuals**2).sum()
"""


pytestmark = pytest.mark.usefixtures("own_losses")


def run(capsys, *arguments) -> tuple[int, str, str]:
    return command_line.run(capsys, "theory", "check", *arguments)


@pytest.fixture
def letor(tmp_path):
    data = tr.simulate.simulate_web_search(25, n_features=16, mean_length=8, seed=2)
    tr.data.write_letor(data, tmp_path / "data.txt")
    return tmp_path / "data.txt"


def test_one_table_for_one_loss(capsys, letor) -> None:
    code, out, err = run(
        capsys,
        letor,
        "--loss",
        "lambdarank(k=none)",
        "-c",
        "ndcg-cost,directness,derivative,xe-ndcg",
    )
    assert (code, err) == (0, "")
    assert out.startswith(
        f"{letor}: 25 queries\n\nlambdarank(k=none): 1 law holds, 2 theorems hold, 1 check does not apply\n"
    )
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    for name in ("ndcg-cost", "directness", "derivative"):
        assert rows[name][1:3] == ["holds", "25"]
    assert "xe-ndcg" not in rows
    _, out, _ = run(capsys, letor, "--loss", "lambdarank", "-c", "xe-ndcg", "--reasons")
    assert "it is about xendcg without noise" in out


def test_every_loss_as_json_on_synthetic_lists(capsys) -> None:
    code, out, _ = run(capsys, "--json", "--queries", 20, "-c", "finite,zero-sum,directness")
    assert code == 0
    found = json.loads(out)
    assert list(found["losses"]) == list(REGISTRY)
    assert (found["data"], found["queries"], found["looked_at"]) == ("synthetic lists", 200, 20)
    for rows in found["losses"].values():
        assert list(rows) == ["finite", "zero-sum", "directness"]
        assert (rows["finite"]["status"], rows["finite"]["queries"]) == ("holds", 20)


def test_given_scores_and_a_folder(capsys, letor, tmp_path) -> None:
    data = tr.read_letor(letor)
    scores = tmp_path / "scores.txt"
    scores.write_text("".join(f"{0.1 * i}\n" for i in range(data.n_documents)))
    code, out, _ = run(
        capsys, letor, "--scores", scores, "-l", "softrank", "-c", "softrank-bound", "--json"
    )
    assert code == 0
    assert json.loads(out)["losses"]["softrank"]["softrank-bound"]["status"] == "holds"
    fold = tmp_path / "set" / "Fold1"
    fold.mkdir(parents=True)
    for name in ("train", "vali", "test"):
        (fold / f"{name}.txt").write_text(letor.read_text())
    code, out, _ = run(capsys, tmp_path / "set", "-l", "mse", "-c", "finite", "--json")
    assert json.loads(out)["queries"] == 75


def test_a_loss_of_ones_own(capsys, tmp_path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    code, out, _ = run(
        capsys, "--import", file, "-c", "derivative,shift,zero-sum,order,finite,lipschitz", "--json"
    )
    assert code == 0
    rows = json.loads(out)["losses"]["centred"]
    steepest = rows.pop("lipschitz")
    assert {row["status"] for row in rows.values()} == {"holds"}
    assert (steepest["status"], steepest["kind"]) == ("measured", "measurement")
    assert steepest["value"] > 1000  # its slope grows with the scores
    code, out, _ = run(
        capsys, "--import", file, "--loss", "centred(slope=1.1),mse", "-c", "derivative"
    )
    assert code == 0
    assert "\ncentred(slope=1.1): 1 law is broken\n" in out
    assert "\nmse: 1 law holds" in out


WRONG = """
from dataclasses import dataclass
from tautrank.losses import ListLoss, register

@register("wrong")
@dataclass(frozen=True)
class Wrong(ListLoss):
    '''Its gradient is twice its derivative.'''

    @staticmethod
    def one_list(scores, labels, grad, hess):
        grad[:] = 2.0 * (scores - labels)
        hess[:] = 1.0
        return 0.5 * ((scores - labels) ** 2).sum()
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--loss", "mse", "-c", "finite,above-log-mrr,lipschitz"], 0),  # numbers, whatever they are
        (["--loss", "softrank", "-c", "softrank-sigma-limit"], 0),  # a known error of a paper
        (["--loss", "listnet", "-c", "xe-lipschitz,generalisation"], 0),
        (["--loss", "wrong", "-c", "finite"], 0),
        (["--loss", "wrong", "-c", "finite,derivative"], 1),
        (["--loss", "wrong,mse", "-c", "derivative"], 1),
    ],
)  # fmt: skip
def test_strict_exits_with_1_only_if_a_law_or_a_theorem_is_broken(
    capsys, tmp_path, arguments: list[str], code: int
) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    assert run(capsys, "--import", file, *arguments, "--queries", 20)[0] == 0
    assert run(capsys, "--import", file, *arguments, "--queries", 20, "--strict")[0] == code


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "--import: found no loss registered by FILE; expected one with @register"),
        ("\n\nfoo\n", "import: FILE, line 3: NameError: name 'foo' is not defined; expected code that runs"),
        ("def f(:\n", "import: FILE, line 1: SyntaxError: invalid syntax; expected code that runs"),
        ("raise SystemExit(3)\n", "import: FILE, line 1: SystemExit: 3; expected code that runs"),
        (None, "import: found no file FILE; expected Python code that registers a loss"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_imported(capsys, tmp_path, text: str | None, message: str) -> None:
    file = tmp_path / "own.py"
    if text is not None:
        file.write_text(text)
    code, out, err = run(capsys, "--import", file)
    assert (code, out) == (2, "")
    assert err == f"error: {message.replace('FILE', str(file))}\n"


def test_real_data(capsys, shared_data) -> None:
    arguments = ["--queries", 60, "-l", "ndcg-loss2(k=none)", "-l", "xendcg", "--json"]
    arguments += ["-c", "lambdaloss,ndcg-cost,xe-ndcg,hessian,generalisation"]
    code, out, _ = run(capsys, shared_data / "mq2008", *arguments)
    assert code == 0
    found = json.loads(out)
    assert (found["queries"], found["looked_at"]) == (784, 60)
    for name, theorems in (
        ("ndcg-loss2(k=none)", ("lambdaloss", "ndcg-cost")),
        ("xendcg", ("xe-ndcg", "hessian")),
    ):
        assert {found["losses"][name][theorem]["status"] for theorem in theorems} == {"holds"}
