"""Names, parameters, printing, parsing, bad input, threads and processes."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tautrank import losses
from tautrank.arguments import job_count
from tautrank.errors import DataError, OptionError
from tautrank.kernels import threads
from tautrank.kernels.threads import balanced_ranges, run
from tautrank.losses import REGISTRY, LambdaLoss, LambdaRank, NDCGLoss2PP, loss

CLASSES = {
    "mse": "MSE",
    "ranknet": "RankNet",
    "lambdarank": "LambdaRank",
    "arp-loss1": "ARPLoss1",
    "arp-loss2": "ARPLoss2",
    "ndcg-loss1": "NDCGLoss1",
    "ndcg-loss2": "NDCGLoss2",
    "ndcg-loss2++": "NDCGLoss2PP",
    "listnet": "ListNet",
    "xendcg": "XENDCG",
    "softrank": "SoftRank",
    "stochasticrank": "StochasticRank",
    "reinforce": "Reinforce",
    "yetiloss": "YetiLoss",
    "plrank": "PLRank",
    "approxndcg": "ApproxNDCG",
    "neuralndcg": "NeuralNDCG",
}


@pytest.mark.parametrize(("name", "cls"), CLASSES.items())
def test_every_name_is_a_class(name: str, cls: str) -> None:
    assert REGISTRY[name] is getattr(losses, cls)
    assert loss(name) == getattr(losses, cls)()
    assert loss(name).name == name


@pytest.mark.parametrize(
    "text",
    [
        *CLASSES,
        "ndcg-loss2++(k=5,mu=10)",
        "lambdarank(k=none,sigma=0.5)",
        "lambdarank(assignment=soft,samples=20,spread=0.25,norm=lightgbm)",
        "lambdarank(gain=0/1/3.5,discount=1/0.5,noise=gumbel,strength=0.1)",
        "lambdarank(discount=1/)",
        "stochasticrank(metric=dcg(gain=0/1/3)@5)",
        "xendcg(hessian=exact,gamma=0.5)",
        "xendcg(gamma=tight)",
        "listnet(target=softmax)",
        "softrank(k=5,sigma=0.5,estimator=ccs,scale=plain)",
        "stochasticrank(metric=err(max_label=2)@10,mu=0,sfa=true)",
        "stochasticrank(metric=ndcg(ties=expected,gain=0/1/3,discount=1/0.5)@4,sigma=0.5,samples=4)",
        "stochasticrank(metric=mrr(relevant=2),mu=0,nu=0.5,sfa=false,scale=plain)",
        "stochasticrank(metric=dcg-rr,noise=gumbel,strength=0.1)",
        "reinforce(metric=dcg@3,mu=0.1,sfa=true)",
        "lambdarank(k=5,extend=all)",
        "yetiloss(metric=map(divide_by=reachable)@5,samples=3,distribution=gumbel,spread=0.5)",
        "plrank(metric=dcg(gain=linear)@3,samples=4,noise=gumbel)",
        "neuralndcg(k=none,temperature=0.5,gain=linear,scale=plain)",
    ],
)
def test_what_is_printed_parses_back(text: str) -> None:
    subject = loss(text)
    assert str(subject) == text
    assert repr(subject) == text
    assert loss(str(subject)) == subject
    assert hash(loss(str(subject))) == hash(subject)
    assert pickle.loads(pickle.dumps(subject)) == subject


def test_equal_parameters_are_equal_losses() -> None:
    assert loss("ndcg-loss2++", k=np.int64(5), mu=10) == NDCGLoss2PP(k=5, mu=10.0)
    assert loss("lambdarank", gain=[0, 1]) == LambdaRank(gain=(0.0, 1.0))
    assert (
        loss("lambdarank(gain=[0,1])")
        == loss("lambdarank(gain=0/1)")
        == LambdaRank(gain=(0.0, 1.0))
    )
    assert loss(" LambdaRank ( k = 5 ) ") == LambdaRank(k=5)
    assert len({loss("lambdarank"), loss("lambdarank", k=30), loss("lambdarank", k=None)}) == 2


def test_losses_without_gains_take_the_full_list() -> None:
    full = {"ranknet", "arp-loss1", "arp-loss2"}
    family = [member for member in map(loss, REGISTRY) if isinstance(member, LambdaLoss)]
    assert [member.k for member in family] == [
        None if member.name in full else 30 for member in family
    ]
    labels = np.arange(60) % 3
    pairs = (
        loss("ranknet").bind(labels, [0, 60]).values(np.zeros(60))
    )  # log2(1 + e^0) for each pair
    assert pairs[0] == pytest.approx(20 * 20 * 3)


def test_losses_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        loss("mse").noise = "gumbel"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: loss("lamdarank"), "unknown loss 'lamdarank'; did you mean 'lambdarank'?"),
        (lambda: loss("ndcg-loss3"), "unknown loss 'ndcg-loss3'; did you mean 'ndcg-loss"),
        (
            lambda: loss(""),
            "loss: found ''; expected a name such as 'lambdarank' or 'lambdarank(k=5)'",
        ),
        (
            lambda: loss("lambdarank(k=5"),
            "loss: found 'lambdarank(k=5'; expected a name such as 'lambdarank'",
        ),
        (lambda: loss(3), "loss: found 3; expected a name such as 'lambdarank'"),
        (
            lambda: loss("lambdarank", sgima=1),
            "unknown parameter of the loss lambdarank: 'sgima'; did you mean 'sigma'?",
        ),
        (lambda: loss("lambdarank", nu=1), "unknown parameter of the loss lambdarank: 'nu'"),
        (
            lambda: loss("lambdarank(k)"),
            "loss 'lambdarank(k)': found the option 'k'; expected name=value",
        ),
        (
            lambda: loss("lambdarank(k=)"),
            "loss 'lambdarank(k=)': found the option 'k='; expected name=value",
        ),
        (lambda: loss("lambdarank(k=5,k=6)"), "k: given twice, as 5 and 6; expected one value"),
        (lambda: loss("lambdarank(k=5)", k=6), "k: given twice, as 5 and 6; expected one value"),
        (lambda: loss("lambdarank", k=0), "k: found 0; expected a whole number of at least 1"),
        (lambda: loss("lambdarank", k=-3), "k: found -3; expected a whole number of at least 1"),
        (lambda: loss("lambdarank", k=2.5), "k: found 2.5; expected a whole number of at least 1"),
        (
            lambda: loss("lambdarank", k=True),
            "k: found True; expected a whole number of at least 1",
        ),
        (
            lambda: loss("lambdarank", k="five"),
            "k: found 'five'; expected a whole number of at least 1",
        ),
        (lambda: loss("lambdarank", sigma=0), "sigma: found 0; expected a number above 0"),
        (lambda: loss("lambdarank", sigma=-1.5), "sigma: found -1.5; expected a number above 0"),
        (
            lambda: loss("lambdarank", sigma=float("nan")),
            "sigma: found nan; expected a number above 0",
        ),
        (lambda: loss("lambdarank", sigma="1"), "sigma: found '1'; expected a number above 0"),
        (lambda: loss("ndcg-loss2++", mu=-1), "mu: found -1; expected a number of at least 0"),
        (
            lambda: loss("lambdarank", samples=0),
            "samples: found 0; expected a whole number of at least 1",
        ),
        (
            lambda: loss("lambdarank", samples=10**6),
            "samples: found 1000000; expected a whole number of at least 1 and",
        ),
        (
            lambda: loss("lambdarank", spread=-1),
            "spread: found -1; expected a number of at least 0",
        ),
        (
            lambda: loss("lambdarank", assignment="sotf"),
            "unknown assignment 'sotf'; did you mean 'soft'?",
        ),
        (
            lambda: loss("lambdarank", norm="lightgmb"),
            "unknown norm 'lightgmb'; did you mean 'lightgbm'?",
        ),
        (lambda: loss("lambdarank", gain="exp"), "unknown gain 'exp'; did you mean 'exp2'?"),
        (
            lambda: loss("lambdarank", discount=[0.5, 1.0]),
            "discount: entry 1 of the table is 1, above entry 0",
        ),
        (lambda: loss("mse", noise="gumble"), "unknown noise 'gumble'; did you mean 'gumbel'?"),
        (lambda: loss("mse", strength=-1), "strength: found -1; expected a number of at least 0"),
        (
            lambda: loss("xendcg", gamma=1.5),
            "gamma: found 1.5; expected a number of at least 0 and at most 1",
        ),
        (
            lambda: loss("xendcg", gamma=-0.5),
            "gamma: found -0.5; expected a number of at least 0 and at most 1",
        ),
        (
            lambda: loss("xendcg", gamma=None),
            "gamma: found None; expected a number of at least 0 and at most 1",
        ),
        (lambda: loss("xendcg", gamma="tigth"), "unknown gamma 'tigth'; did you mean 'tight'?"),
        (
            lambda: loss("xendcg", hessian="neuman"),
            "unknown hessian 'neuman'; did you mean 'neumann'?",
        ),
        (lambda: loss("listnet", target="liner"), "unknown target 'liner'; did you mean 'linear'?"),
        (
            lambda: loss("mse").bind([0, 1], [0, 2], seed=-1),
            "seed: found -1; expected a whole number of at least 0",
        ),
        (
            lambda: loss("mse").bind([0, 1], [0, 2], n_jobs=0),
            "n_jobs: found 0; expected a whole number of at least 1",
        ),
        (
            lambda: loss("mse").bind([0, 1], [0, 2]).gradients([0, 1], step=-1),
            "step: found -1; expected a whole number",
        ),
        (
            lambda: loss("mse").bind([0, 1], [0, 2]).gradients([0, 1], step=2**32),
            "step: found 4294967296; expected",
        ),
    ],
)
def test_bad_options_say_what_to_change(call, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError) as caught:
        call()
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: loss("lambdarank").bind([0, 1, 2, -1], [0, 2, 4]),
            "labels[3] (query 1, document 1): found -1; expected a finite number of at least 0",
        ),
        (
            lambda: loss("mse").bind([0, np.nan], [0, 1, 2]),
            "labels[1] (query 1, document 0): found nan; expected",
        ),
        (
            lambda: loss("mse").bind([np.inf, 0], [0, 1, 2]),
            "labels[0] (query 0, document 0): found inf; expected",
        ),
        (
            lambda: loss("mse").bind(["a", "b"], [0, 2]),
            "labels: found values of type <U1; expected numbers, one per document",
        ),
        (
            lambda: loss("mse").bind([[0, 1]], [0, 2]),
            "labels: found an array of shape (1, 2); expected one number",
        ),
        (
            lambda: loss("lambdarank").bind([0, 1, 1001, 2], [0, 2, 4]),
            "labels[2] (query 1, document 0): found 1001; expected at most 1000 for the gain 2^y - 1",
        ),
        (
            lambda: loss("ndcg-loss1", gain=[0, 1]).bind([0, 1, 0, 2], [0, 2, 4]),
            "labels[3] (query 1, document 1): found 2; expected an integer from 0 to 1, since the gain table has 2",
        ),
        (
            lambda: loss("mse").bind([0, 1], [0, 3]),
            "offsets: found 3 last; expected 2, the number of documents",
        ),
        (lambda: loss("mse").bind([0, 1], [1, 2]), "offsets: found 1 first; expected 0"),
        (
            lambda: loss("mse").bind([0, 1], [0, 2, 1, 2]),
            "offsets[2]: found 1 after 2; expected values that never",
        ),
        (
            lambda: loss("mse").bind([0, 1], [0.0, 2.0]),
            "offsets: found values of type float64; expected integers",
        ),
        (
            lambda: loss("mse").bind([0, 1], []),
            "offsets: found no value; expected 0, then the end of every list",
        ),
        (
            lambda: loss("mse").bind([0, 1], [0, 2], [1, 2]),
            "weights: found length 2; expected 1, one per query",
        ),
        (
            lambda: loss("mse").bind([0, 1], [0, 1, 2], [1, -2]),
            "weights[1]: found -2; expected a finite number",
        ),
        (
            lambda: loss("mse").bind([0, 1], [0, 2]).gradients([0.0]),
            "scores: found length 1; expected 2, one per document",
        ),
        (
            lambda: loss("lambdarank").bind([0, 1, 1], [0, 1, 3]).gradients([0.0, 1.0, np.nan]),
            "scores[2] (query 1, document 1): found nan; expected a finite number",
        ),
        (
            lambda: (
                loss("lambdarank")
                .bind([0, 1], [0, 2])
                .values(np.array([0.0, -np.inf], dtype=np.float32))
            ),
            "scores[1] (query 0, document 1): found -inf; expected a finite number",
        ),
    ],
)
def test_bad_data_is_named(call, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError) as caught:
        call()
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_any_array_of_numbers_will_do() -> None:
    labels, offsets, scores = [0, 2, 1], [0, 3], [1, 3, 2]
    expected = (
        loss("lambdarank").bind(labels, offsets).gradients(np.array(scores, dtype=np.float64))
    )
    strided = np.array([[1.0, 9.0], [3.0, 9.0], [2.0, 9.0]])[:, 0]
    for spelling in (scores, np.array(scores), np.array(scores, dtype=np.float16), strided):
        for a, b in zip(
            loss("lambdarank").bind(labels, offsets).gradients(spelling), expected, strict=True
        ):
            np.testing.assert_array_equal(a, b)
    short = loss("lambdarank").bind(
        np.array(labels, dtype=np.int8), np.array(offsets, dtype=np.int32)
    )
    np.testing.assert_array_equal(short.gradients(scores)[0], expected[0])


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_no_queries_and_no_documents_give_empty_results(name: str) -> None:
    for labels, offsets in (([], [0]), ([], [0, 0, 0])):
        objective = loss(name).bind(labels, offsets)
        grad, hess = objective.gradients([])
        assert grad.size == hess.size == 0
        assert (objective.values([]) == np.zeros(len(offsets) - 1)).all()


def test_importing_the_losses_does_not_import_numba() -> None:
    code = "import sys, tautrank.losses; tautrank.losses.loss('xendcg'); sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_loss_is_its_own_name() -> None:
    lambdarank = loss("lambdarank", k=5)
    assert loss(lambdarank) is lambdarank
    assert loss(lambdarank, sigma=2) == loss("lambdarank(k=5,sigma=2)")
    with pytest.raises(OptionError, match="unknown parameter of the loss lambdarank: 'nu'"):
        loss(lambdarank, nu=1)


def test_thread_counts() -> None:
    assert job_count(3) == 3
    assert job_count(None) == job_count(-1) >= 1
    for bad in (0, -2, 1.5, True, "two"):
        with pytest.raises(OptionError, match="n_jobs: found"):
            job_count(bad)  # type: ignore[arg-type]


def test_ranges_cover_every_query_once_and_are_balanced() -> None:
    rng = np.random.default_rng(0)
    for queries in (1, 2, 7, 1000):
        costs = rng.integers(1, 50, queries) * 1e6
        ranges = balanced_ranges(costs, 4)
        assert [query for first, last in ranges for query in range(first, last)] == list(
            range(queries)
        )
        assert len(ranges) <= 16
        assert max(costs[a:b].sum() for a, b in ranges) <= costs.sum() / 16 + 2 * costs.max()
    assert balanced_ranges(np.zeros(0), 2) == [(0, 0)]


def test_an_error_in_any_thread_reaches_the_caller() -> None:
    def task(first: int, last: int) -> None:
        if first == 7:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(task, [(i, i + 1) for i in range(20)], threads=3)


def big_objective() -> tuple[losses.Objective, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 40_000)
    objective = loss("lambdarank", k=None).bind(labels, np.arange(401) * 100, n_jobs=2)
    assert len(objective._ranges) > 1
    return objective, rng.normal(size=40_000).astype(np.float32)


def test_several_threads_may_call_at_once() -> None:
    objective, scores = big_objective()
    expected = objective.gradients(scores)[0]
    with ThreadPoolExecutor(8) as pool:
        for grad, _ in pool.map(lambda _: objective.gradients(scores), range(16)):
            np.testing.assert_array_equal(grad, expected)


def _child(connection) -> None:  # type: ignore[no-untyped-def]
    objective, scores = big_objective()
    connection.send(float(np.abs(objective.gradients(scores)[0]).sum()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_after_use_works() -> None:
    objective, scores = big_objective()
    expected = float(np.abs(objective.gradients(scores)[0]).sum())
    assert (
        threads._shared_pool.cache_info().currsize == 1
    )  # threads are running when the process forks
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    child = context.Process(target=_child, args=(theirs,))
    child.start()
    assert mine.poll(60)
    assert mine.recv() == expected
    child.join(10)
    assert child.exitcode == 0
