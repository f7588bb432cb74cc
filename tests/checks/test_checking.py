"""`tautrank theory check`: every loss, a loss of one's own, real data, and the claims about smoothed metrics."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator

import numpy as np
import pytest
from rich.console import Console

import tautrank as tr
from tautrank.checks import CLAIMS, Outcome, check_claims, check_losses
from tautrank.checks.theorems import some_lists, some_short_lists
from tautrank.errors import OptionError
from tautrank.losses import REGISTRY, loss
from tautrank.losses.base import Lists
from tautrank.losses.own_losses import import_losses
from tautrank.report.theory import checks_to_dict, claims_table, print_checks, short_citation
from tests import command_line
from tests.theory_lists import make_lists

RIGHT = """
from dataclasses import dataclass
import numpy as np
from tautrank.losses.base import Loss, Objective, register
from tautrank.metrics.ordering import query_sums

@register("centred")
@dataclass(frozen=True, kw_only=True, repr=False)
class Centred(Loss):
    '''Half the squared distance of scores and labels, both centred in the query.'''

    slope: float = 1.0

    def _bind(self, lists, seed, threads):
        return CentredObjective(self, lists, seed, threads, lists.sizes.astype(float))

class CentredObjective(Objective):
    def _residuals(self, scores):
        lists = self.lists
        means = query_sums(scores - lists.labels, lists.offsets) / np.maximum(lists.sizes, 1)
        found = scores - lists.labels - np.repeat(means, lists.sizes)
        return np.where(np.repeat(lists.has_relevant, lists.sizes), found, 0.0)

    def _gradients(self, scores, step):
        return self.loss.slope * self._residuals(scores), np.ones_like(scores)

    def _values(self, scores, held, step):
        return 0.5 * query_sums(self._residuals(scores) ** 2, self.lists.offsets)
"""


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def run(capsys, *arguments) -> tuple[int, str, str]:
    return command_line.run(capsys, "theory", "check", *arguments)


@pytest.fixture
def letor(tmp_path):
    data = tr.simulate.simulate_web_search(25, n_features=16, mean_length=8, seed=2)
    tr.write_letor(data, tmp_path / "data.txt")
    return tmp_path / "data.txt"


# The claims


def outcomes(subject: str, names: list[str], labels: str = "graded", longest: int = 8) -> dict[str, Outcome]:
    data = make_lists(0, "normal", labels, queries=40, longest=longest)
    return {outcome.claim: outcome for outcome in check_claims(subject, *data, names)}


MINE = list(CLAIMS)[list(CLAIMS).index("directness") :]


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_which_claims_speak_of_which_loss(name: str) -> None:
    spoken = {key for key, outcome in outcomes(name, MINE).items() if outcome.status != "does not apply"}
    direct = set() if name in {"mse", "ranknet"} else {"directness", "directness-unseen"}
    smoothed = {"smoothing-worst", "smoothing-expected", "smoothing-bias"}
    softrank = {claim for claim in MINE if claim.startswith("softrank")}
    more = {"stochasticrank": smoothed, "reinforce": smoothed, "softrank": softrank}.get(name, set())
    assert spoken == direct | more


def test_what_comes_of_them() -> None:
    found = outcomes("softrank", MINE)
    for name in ("directness", "softrank-bound", "softrank-bound-as-stated", "softrank-contests"):
        assert found[name].status == "holds", found[name]
    assert found["softrank-sigma-limit"].status == "fails"
    assert "with 2 documents" in found["softrank-sigma-limit"].detail
    assert found["softrank-ties"].status == "fails"
    assert found["softrank-ties"].margin < -0.01
    # Lists of two: a tie of two is what it should be.
    pairs = check_claims("softrank", np.zeros(6), [1, 0, 0, 2, 1, 1], [0, 2, 4, 6], ["softrank-ties"])[0]
    assert pairs.status == "holds"
    for text in ("stochasticrank", "stochasticrank(metric=err)", "reinforce(metric=mrr)", "stochasticrank(mu=0)"):
        found = outcomes(text, MINE)
        assert found["smoothing-worst"].status == found["smoothing-expected"].status == "holds", found
        assert found["smoothing-bias"].status == "fails"
        assert found["smoothing-bias"].margin < -0.01
    assert outcomes("stochasticrank(mu=9)", ["smoothing-bias"])["smoothing-bias"].status == "holds"
    assert "94% of that without shift" in check_claims(
        "stochasticrank", [0.0, 0.0], [1, 0], [0, 2], ["smoothing-bias"]
    )[0].detail  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("mse", "directness", "its value does not have the scale of a metric"),
        ("lambdarank(norm=lightgbm)", "directness", "it speaks of the hard assignment without norm"),
        ("xendcg(noise=gumbel)", "directness", "it speaks of losses without noise"),
        ("softrank(k=3)", "softrank-bound", "it speaks of full lists and the logarithmic discount"),
        ("softrank(estimator=ccs)", "softrank-ties", "it speaks of softrank with its exact gradient and without noise"),
        ("stochasticrank(metric=dcg-rr)", "smoothing-worst", "it speaks of the metrics of a ranking"),
        (
            "stochasticrank(metric=ndcg(ties=expected))",
            "smoothing-worst",
            "it speaks of metrics with ties at their worst",
        ),
        ("listnet", "smoothing-bias", "it speaks of stochasticrank and reinforce without noise"),
    ],
)
def test_why_a_claim_does_not_apply(text: str, name: str, reason: str) -> None:
    assert outcomes(text, [name])[name].detail == reason


def test_claims_without_anything_to_look_at() -> None:
    for subject in ("softrank", "stochasticrank"):
        for outcome in check_claims(subject, [0.0, 1.0, 0.5], [0, 0, 0], [0, 2, 3], MINE):
            assert outcome.status == "does not apply", outcome
        for outcome in check_claims(subject, [], [], [0]):
            assert outcome.status in {"holds", "does not apply"}, outcome
    tied = check_claims("softrank", [1.0, 1.0], [1, 0], [0, 2], ["softrank-bound"])[0]
    assert tied.detail == "it speaks of lists without ties"


def test_a_wrong_softrank_is_found_out(monkeypatch) -> None:
    from tautrank.losses.softrank import _ExactObjective

    right = _ExactObjective._values
    monkeypatch.setattr(_ExactObjective, "_values", lambda self, *a: 0.9 * right(self, *a))
    found = outcomes("softrank", ["softrank-bound", "softrank-contests"])
    assert {outcome.status for outcome in found.values()} == {"fails"}


def test_long_claims_look_at_some_queries() -> None:
    lists = Lists.of(np.ones(9000), np.arange(0, 9001, 10), None)
    scores, some = some_lists(np.arange(9000.0), lists)
    assert some.sizes.size == 180
    assert scores[10] == 50.0  # the sixth query
    mixed = Lists.of(np.ones(400), [0, 300, 350, 400], None)
    assert some_short_lists(np.zeros(400), mixed)[1].sizes.tolist() == [50, 50]
    outcome = check_claims("mse", np.zeros(9000), np.ones(9000), lists.offsets, ["derivative"])[0]
    assert outcome.queries == 180
    assert check_claims("mse", [0.0], [1], [0, 1], ["zero-sum"])[0].queries == 0


# The runner


def test_the_worst_of_several_scorings() -> None:
    y, offsets = [0, 1, 0, 2, 0, 1], [0, 3, 6]
    given = check_losses(y, offsets, ["lambdarank"], scores=[0.0, 9.0, 1.0, 9.0, 0.0, 1.0], names=["above-log-mrr"])[0]
    alone = CLAIMS["above-log-mrr"].check("lambdarank", [0.0, 9.0, 1.0, 9.0, 0.0, 1.0], y, offsets)
    assert given.outcomes[0].margin < alone.margin
    # The labels' own order is tried as well: nothing else here finds a loss that is wrong there alone.
    tried = []
    subject = CLAIMS["finite"]
    probe = type(subject)(**{**subject.__dict__, "examine": lambda item, s, ls: (tried.append(s.copy()), (1.0, ""))[1]})
    CLAIMS["probe"] = probe
    try:
        check_losses(y, offsets, ["mse"], names=["probe"])
    finally:
        del CLAIMS["probe"]
    assert len(tried) == 7
    assert any(np.array_equal(s, y) for s in tried)
    assert any(np.array_equal(s, np.negative(y)) for s in tried)


def test_thinned_data_and_progress() -> None:
    told: list[tuple[int, int, str]] = []
    rng = np.random.default_rng(0)
    checks = check_losses(
        rng.integers(0, 3, 300),
        np.arange(0, 301, 3),
        ["mse", "ranknet"],
        names=["finite", "shift"],
        queries=10,
        progress=lambda *a: told.append(a),
    )
    assert [outcome.queries for outcome in checks[1].outcomes] == [10, 10]
    named = ["mse: finite", "mse: shift", "ranknet: finite", "ranknet: shift", ""]
    assert told == [(done, 4, what) for done, what in enumerate(named)]
    assert repr(checks[0]) == "mse: 1 claim holds, 0 fail, 1 does not apply"
    assert len(check_losses([1, 0], [0, 2], names=["finite"])) == len(REGISTRY)
    assert check_losses([1, 0], [0, 2], [], names=["finite"]) == []


def test_a_loss_that_stops_fails_and_one_that_refuses_does_not_apply() -> None:
    class Stops(REGISTRY["mse"]):
        def _bind(self, lists, seed, threads):
            return 1 / 0

    outcome = check_losses([1, 0], [0, 2], [Stops()], names=["finite"])[0].outcomes[0]
    assert (outcome.status, outcome.margin) == ("fails", -math.inf)
    assert outcome.detail == "stopped with ZeroDivisionError: division by zero"
    refused = check_losses([5, 0], [0, 2], [loss("lambdarank", gain=(0, 1))], names=["finite"])[0].outcomes[0]
    assert refused.status == "does not apply"
    assert refused.detail.startswith("labels: query 0, document 0: found label 5, but the gain table has 2 entries")


# The report


def test_the_report() -> None:
    check = check_losses([2, 0, 1, 0, 1], [0, 3, 5], ["softrank"], names=["finite", "softrank-sigma-limit", "xe-ndcg"])[
        0
    ]
    table = claims_table(check)
    assert table.row_count == 2
    assert claims_table(check, silent=True).row_count == 3
    printed = io.StringIO()
    print_checks(Console(file=printed, width=100), [check], reasons=True)
    *_, fails, silent = printed.getvalue().splitlines()
    assert fails.startswith("fails: softrank-sigma-limit (")
    assert fails.endswith(
        "[a known flaw of the paper, not of the loss: with two to five documents the bound asks for the root of a "
        "negative number before sigma reaches the limit]"
    )
    assert silent == "does not apply: xe-ndcg: it speaks of xendcg without noise"
    rows = checks_to_dict([check])["softrank"]
    assert [row["status"] for row in rows] == ["holds", "fails", "does not apply"]
    assert rows[2]["margin"] is None
    assert rows[1]["known_flaw"]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def test_citations_are_short() -> None:
    for each in CLAIMS.values():
        if each.paper:
            short = short_citation(each.paper)
            assert len(short) < len(each.paper)
            assert any(year in short for year in ("2008", "2018", "2019", "2020"))
    assert short_citation("somewhere") == "somewhere"


# The command


def test_a_table_for_one_loss(capsys, letor) -> None:
    code, out, err = run(capsys, letor, "--loss", "lambdarank(k=none)")
    assert (code, err) == (0, "")
    assert out.startswith(f"{letor}: 25 queries")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["ndcg-cost"][1] == "holds"
    assert rows["ndcg-cost"][3] == "25"
    assert rows["directness"][1] == "holds"
    assert "softrank-bound" not in rows
    assert "fails: above-log-mrr (measured: the loss is at least -log RR): below it in " in out
    _, out, _ = run(capsys, letor, "--loss", "lambdarank(k=none)", "--reasons")
    assert "does not apply: xe-ndcg: it speaks of xendcg without noise" in out


def test_every_loss_as_json_on_lists_made_up_here(capsys) -> None:
    code, out, _ = run(capsys, "--json", "--queries", 20, "-c", "finite,zero-sum,directness")
    assert code == 0
    found = json.loads(out)
    assert list(found["losses"]) == list(REGISTRY)
    assert (found["data"], found["queries"], found["looked_at"]) == ("synthetic lists", 200, 20)
    for rows in found["losses"].values():
        assert [row["claim"] for row in rows] == ["finite", "zero-sum", "directness"]
        assert rows[0]["status"] == "holds"
        assert rows[0]["queries"] == 20


def test_given_scores_and_a_folder(capsys, letor, tmp_path) -> None:
    data = tr.read_letor(letor)
    (tmp_path / "scores.txt").write_text("".join(f"{0.1 * i}\n" for i in range(data.n_documents)))
    code, out, _ = run(
        capsys, letor, "--scores", tmp_path / "scores.txt", "-l", "softrank", "-c", "softrank-bound", "--json"
    )
    assert code == 0
    assert json.loads(out)["losses"]["softrank"][0]["status"] == "holds"
    fold = tmp_path / "set" / "Fold1"
    fold.mkdir(parents=True)
    for name in ("train", "vali", "test"):
        (fold / f"{name}.txt").write_text(letor.read_text())
    code, out, _ = run(capsys, tmp_path / "set", "-l", "mse", "-c", "finite", "--json")
    assert json.loads(out)["queries"] == 75
    code, out, err = run(capsys, tmp_path / "set", "--scores", tmp_path / "scores.txt")
    assert (code, out) == (2, "")
    assert err == f"error: --scores: found with {tmp_path / 'set'}; expected the file of data they belong to\n"


def test_a_loss_of_ones_own(capsys, tmp_path, registry) -> None:
    file = tmp_path / "own.py"
    file.write_text(RIGHT)
    code, out, _ = run(capsys, "--import", file, "--json")
    assert code == 0
    rows = {row["claim"]: row for row in json.loads(out)["losses"]["centred"]}
    assert {rows[name]["status"] for name in ("derivative", "shift", "zero-sum", "order", "finite")} == {"holds"}
    assert rows["lipschitz"]["status"] == "fails"
    code, out, _ = run(capsys, "--import", file, "--loss", "centred(slope=1.1),mse", "-c", "derivative")
    assert code == 0
    assert "fails: derivative (the gradient is the derivative of the loss" in out
    assert "\nmse: 1 claim holds" in out


def test_a_module_of_ones_own(tmp_path, monkeypatch, registry) -> None:
    (tmp_path / "own_module_of_losses.py").write_text(RIGHT)
    monkeypatch.chdir(tmp_path)
    assert import_losses("own_module_of_losses") == ["centred"]
    assert str(loss("centred", slope=2)) == "centred(slope=2)"
    (tmp_path / "needs_another.py").write_text("import no_such_thing\n")
    with pytest.raises(
        OptionError, match=r"^import: needs_another: ModuleNotFoundError: No module named 'no_such_thing'"
    ):
        import_losses("needs_another")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "--import: found no loss registered by FILE; expected one with @register"),
        (
            "\n\nundefined\n",
            "import: FILE, line 3: NameError: name 'undefined' is not defined; expected code that runs",
        ),
        ("def f(:\n", "import: FILE, line 1: SyntaxError: invalid syntax; expected code that runs"),
        ("raise SystemExit(3)\n", "import: FILE, line 1: SystemExit: 3; expected code that runs"),
        (None, "import: found no file FILE; expected Python code that registers a loss"),
    ],
)
def test_code_that_cannot_be_imported(capsys, tmp_path, registry, text: str | None, message: str) -> None:
    file = tmp_path / "own.py"
    if text is not None:
        file.write_text(text)
    code, out, err = run(capsys, "--import", file)
    assert (code, out) == (2, "")
    assert err == f"error: {message.replace('FILE', str(file))}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loss", "lamdarank"], "error: unknown loss 'lamdarank'; did you mean 'lambdarank'?"),
        (["--claims", "xe-ndgc", "--loss", "mse"], "error: unknown claim 'xe-ndgc'; did you mean 'xe-ndcg'?"),
        (["--queries", "0", "--loss", "mse"], "error: queries: found 0; expected a whole number of at least 1"),
        (["no-such-file.txt"], "error: no-such-file.txt: "),
        (["--scores", "s.txt"], "error: --scores: found with no data; expected the file of data they belong to"),
        (["--import", "no_such_module"], "error: import: found 'no_such_module'; expected a file that ends in .py, or"),
        (["--loss", ","], "error: --loss: found no name; expected names such as 'lambdarank,xendcg'"),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments: list[str], message: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_real_data(capsys, shared_data) -> None:
    code, out, _ = run(
        capsys, shared_data / "mq2008", "--queries", 60, "-l", "ndcg-loss2(k=none)", "-l", "xendcg", "--json"
    )
    assert code == 0
    found = json.loads(out)
    assert (found["queries"], found["looked_at"]) == (784, 60)
    for name, theorems in (("ndcg-loss2(k=none)", ("lambdaloss", "ndcg-cost")), ("xendcg", ("xe-ndcg", "hessian"))):
        rows = {row["claim"]: row["status"] for row in found["losses"][name]}
        assert {rows[theorem] for theorem in theorems} == {"holds"}
