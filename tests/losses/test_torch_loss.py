"""Losses as PyTorch modules: the numbers of the objectives, in every shape a batch comes in."""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import DataError, OptionError, TautrankError
from tautrank.losses.base import REGISTRY

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install 'tautrank[torch]'"
)

NAMES = sorted(name for name, kind in REGISTRY.items() if kind.__module__.startswith("tautrank."))
ON_DEVICE = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=ON_DEVICE)]
# What the kernels for CUDA do in another way than by default.
VARIATIONS = [
    "lambdarank(k=3,norm=lightgbm)", "lambdarank(k=3,extend=all)", "lambdarank(k=2,extend=random,norm=xgboost)",
    "ndcg-loss2++(k=2,extend=static,assignment=soft)", "lambdarank(noise=gumbel)", "xendcg(gamma=tight)",
    "softrank(k=3)", "softrank(estimator=ccs)", "stochasticrank(metric=err)", "stochasticrank(metric=dcg-rr)",
    "yetiloss(metric=err@3)", "yetiloss(metric=map,distribution=normal)", "yetiloss(distribution=gumbel,decay=0.9)",
    "plrank(metric=dcg)", "plrank(metric=ndcg@2,samples=3)", "approxndcg(temperature=0.3)", "neuralndcg(k=none)",
]  # fmt: skip
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def _lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and offsets: ties, a list of one document, one without a relevant document, a
    long one.
    """
    rng = np.random.default_rng(seed)
    sizes = np.array([4, 1, 7, 3, 65, 12])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = rng.integers(0, 4, offsets[-1]).astype(np.float64)
    labels[offsets[3] : offsets[4]] = 0
    scores = rng.normal(size=offsets[-1])
    scores[offsets[2] : offsets[2] + 3] = 0.5
    return scores, labels, offsets


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", [*NAMES, *VARIATIONS])
def test_value_and_gradient_are_those_of_the_objective(
    name: str, kind: torch.dtype, device: str
) -> None:
    s, y, offsets = _lists()
    scores = torch.tensor(s, dtype=kind, device=device, requires_grad=True)
    weights = np.linspace(0.5, 2.0, offsets.size - 1)
    objective = tr.loss(name).bind(y, offsets, weights=weights, seed=5)
    module = tr.torch_loss(name, seed=5, reduction="none")
    arguments = {
        "offsets": torch.tensor(offsets, device=device),
        "weights": torch.tensor(weights),
        "step": 3,
    }
    values = module(scores, torch.tensor(y, device=device), **arguments)
    values.sum().backward()
    scores_in_memory = scores.detach().cpu().numpy()
    tolerance = TOLERANCE[kind]
    np.testing.assert_allclose(
        values.detach().cpu(), objective.values(scores_in_memory, 3), rtol=tolerance, atol=tolerance
    )
    expected = objective.gradients(scores_in_memory, 3)[0]
    np.testing.assert_allclose(
        scores.grad.cpu(), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["lambdarank", "xendcg", "softrank", "stochasticrank"])
def test_padding_changes_nothing(name: str, device: str) -> None:
    s, y, offsets = _lists()
    sizes = np.diff(offsets)
    module = tr.torch_loss(name)
    flat = torch.tensor(s, device=device, requires_grad=True)
    value = module(flat, torch.tensor(y, device=device), offsets=torch.tensor(offsets), step=1)
    value.backward()
    for fill in (0.0, 1e9, np.nan):
        wide = np.full((sizes.size, sizes.max() + 3), fill)
        labels = np.full_like(wide, fill)
        mask = np.arange(wide.shape[1]) < sizes[:, None]
        wide[mask], labels[mask] = s, y
        for division in ({"mask": torch.tensor(mask)}, {"lengths": torch.tensor(sizes)}):
            padded = torch.tensor(wide, device=device, requires_grad=True)
            padded_value = module(padded, torch.tensor(labels, device=device), step=1, **division)
            padded_value.backward()
            assert float(padded_value.detach()) == float(value.detach())
            assert torch.equal(padded.grad.cpu()[torch.tensor(mask)], flat.grad.cpu())
            assert not padded.grad.cpu()[~torch.tensor(mask)].any()


def test_holes_in_a_mask_are_no_documents() -> None:
    mask = torch.tensor([[True, False, True]])
    scores = torch.tensor([[1.0, 7.0, 2.0]], requires_grad=True)
    value = tr.torch_loss("ranknet")(scores, torch.tensor([[1.0, 3.0, 0.0]]), mask=mask)
    assert float(value) == pytest.approx(np.log2(1 + np.e), rel=1e-6)


def test_the_mean_is_over_lists() -> None:
    s, y, offsets = (torch.tensor(values) for values in _lists())
    values = tr.torch_loss("listnet", reduction="none")(s, y, offsets=offsets)
    assert float(tr.torch_loss("listnet")(s, y, offsets=offsets)) == pytest.approx(
        float(values.mean())
    )
    assert float(tr.torch_loss("listnet", reduction="sum")(s, y, offsets=offsets)) == pytest.approx(
        float(values.sum())
    )
    sizes = offsets.diff()
    assert torch.equal(tr.torch_loss("listnet", reduction="none")(s, y, lengths=sizes), values)


def test_one_list_needs_no_division() -> None:
    scores, labels = torch.tensor([0.0, 3.0, 1.0, 2.0]), torch.tensor([0.0, 0.0, 1.0, 2.0])
    assert float(tr.torch_loss("lambdarank", k=None)(scores, labels)) == pytest.approx(1.0718194)


def test_gradients_flow_into_a_network_and_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 10, 5)
    y = (x[..., 0] > 0.5).float() + (x[..., 1] > 1).float()
    network = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    module = tr.torch_loss("ndcg-loss2++")
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    course = []
    for _ in range(60):
        optimiser.zero_grad()
        value = module(network(x).squeeze(-1), y)
        value.backward()
        optimiser.step()
        course.append(float(value))
    assert course[-1] < 0.5 * course[0]


def test_random_losses_draw_anew_in_training_only_and_resume() -> None:
    s, y, offsets = (torch.tensor(array) for array in _lists())
    module = tr.torch_loss("stochasticrank", seed=3)
    course = [float(module(s, y, offsets=offsets)) for _ in range(3)]
    assert len(set(course)) == 3
    again = tr.torch_loss("stochasticrank", seed=3)
    again.load_state_dict(module.state_dict())
    assert float(again(s, y, offsets=offsets)) == float(module(s, y, offsets=offsets))
    module.eval()
    assert float(module(s, y, offsets=offsets)) == float(module(s, y, offsets=offsets))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(kind: torch.dtype) -> None:
    s, y, offsets = _lists()
    half = torch.tensor(s, dtype=kind, requires_grad=True)
    value = tr.torch_loss("lambdarank")(half, torch.tensor(y), offsets=torch.tensor(offsets))
    value.backward()
    single = half.detach().float().requires_grad_()
    exact = tr.torch_loss("lambdarank")(single, torch.tensor(y), offsets=torch.tensor(offsets))
    exact.backward()
    assert value.dtype == torch.float32
    assert float(value) == float(exact)
    assert torch.equal(half.grad, single.grad.to(kind))


def test_a_network_under_autocast_gets_gradients() -> None:
    """Scores of half precision go in, gradients of float32 weights come out, close to those without
    autocast.
    """
    torch.manual_seed(0)
    network, x, y = torch.nn.Linear(5, 1), torch.randn(4, 9, 5), torch.randint(0, 3, (4, 9))
    gradients = []
    for enabled in (True, False):
        network.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            value = tr.torch_loss("lambdarank")(network(x).squeeze(-1), y)
        value.backward()
        assert value.dtype == network.weight.grad.dtype == torch.float32
        gradients.append(network.weight.grad.clone())
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0.1, atol=0.01)


def test_autocast_changes_nothing() -> None:
    s, y, offsets = (torch.tensor(array) for array in _lists())
    module = tr.torch_loss("lambdarank")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = module(s, y, offsets=offsets)
    assert float(inside) == float(module(s, y, offsets=offsets))


def test_a_second_derivative_is_refused_in_one_sentence() -> None:
    scores = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    value = tr.torch_loss("listnet")(scores, torch.tensor([1.0, 0.0, 0.0]))
    (slope,) = torch.autograd.grad(value, scores, create_graph=True)
    with pytest.raises(OptionError, match="no second derivative"):
        slope.sum().backward()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"scores": torch.tensor([0.0, float("nan")])}, r"scores\[1\].*found nan"),
        ({"labels": torch.tensor([0.0, -1.0])}, "found -1"),
        ({"labels": torch.tensor([0.0])}, r"labels: found the shape \(1,\)"),
        ({"offsets": torch.tensor([0, 3])}, "division of 3 documents; expected one of 2"),
        ({"lengths": torch.tensor([1, 2])}, "lengths: found a division of 3 documents"),
        ({"mask": torch.tensor([True, True])}, "mask: found flat scores"),
        ({"lengths": torch.tensor([2]), "offsets": torch.tensor([0, 2])}, "more than one of them"),
        ({"scores": torch.zeros(2, 1), "labels": torch.zeros(2, 1), "mask": torch.tensor([[True], [False]])},
         "mask: list 1 has no document"),
        ({"scores": torch.zeros(2, 2), "labels": torch.zeros(2, 2), "lengths": torch.tensor([2, 0])},
         "lengths: list 1 has no document"),
        ({"scores": torch.zeros(2, 2), "labels": torch.zeros(2, 2), "lengths": torch.tensor([2, 3])}, "above 2"),
        ({"lengths": "two"}, "lengths: found str; expected whole numbers"),
        ({"lengths": torch.tensor([1.0, 1.0])}, "lengths: found values of type torch.float32; expected whole numbers"),
        ({"offsets": torch.tensor([0.0, 0.5, 2.0])}, "offsets: found values of type torch.float32"),
        ({"weights": "heavy"}, "weights: found str; expected a tensor"),
        ({"scores": torch.zeros(1, 2, 2), "labels": torch.zeros(1, 2, 2)}, "3 dimensions"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(given: dict[str, torch.Tensor], sentence: str) -> None:
    batch = {"scores": torch.tensor([0.0, 1.0]), "labels": torch.tensor([0.0, 1.0])} | given
    with pytest.raises(TautrankError, match=sentence):
        tr.torch_loss("lambdarank")(**batch)


def test_lists_and_arrays_divide_as_tensors_do() -> None:
    scores, labels = (
        torch.tensor([[0.0, 2.0, 1.0], [1.0, 3.0, 0.0]]),
        torch.tensor([[0, 1, 2], [1, 0, 0]]),
    )
    module, mask = tr.torch_loss("lambdarank"), [[True, True, True], [True, True, False]]
    expected = module(scores, labels, mask=torch.tensor(mask), weights=torch.tensor([1.0, 2.0]))
    for division in ({"mask": mask}, {"lengths": [3, 2]}, {"lengths": np.array([3, 2])}):
        assert float(module(scores, labels, **division, weights=[1.0, 2.0])) == float(expected)
    flat = scores[torch.tensor(mask)], labels[torch.tensor(mask)]
    assert float(module(*flat, offsets=[0, 3, 5], weights=[1.0, 2.0])) == pytest.approx(
        float(expected)
    )


def test_bad_options_are_one_sentence() -> None:
    with pytest.raises(OptionError, match="reduction"):
        tr.torch_loss("lambdarank", reduction="average")
    with pytest.raises(OptionError, match="unknown loss 'lamdarank'"):
        tr.torch_loss("lamdarank")
    assert "lambdarank(k=5), seed=0" in repr(tr.torch_loss("lambdarank", k=5))


@ON_DEVICE
@pytest.mark.parametrize("which", ["scores", "labels"])
def test_numbers_that_are_not_are_one_sentence_on_a_device(which: str) -> None:
    batch = {"scores": torch.zeros(2, device="cuda"), "labels": torch.ones(2, device="cuda")}
    batch[which][1] = float("nan")
    with pytest.raises(DataError, match=f"{which}: found others"):
        tr.torch_loss("lambdarank")(**batch)


def _train_in_a_process(
    rank: int, address: str, given: dict[str, np.ndarray], answers: object
) -> None:
    """One of two processes: its own lists, the gradients averaged by DDP."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{address}", rank=rank, world_size=2
    )
    network = torch.nn.parallel.DistributedDataParallel(_linear())
    tensors = {name: torch.tensor(values[rank]) for name, values in given.items()}
    value = tr.torch_loss("lambdarank", seed=rank)(network(tensors["x"]).squeeze(-1), tensors["y"])
    value.backward()
    answers.put((rank, network.module.weight.grad.numpy().copy()))  # type: ignore[attr-defined]
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def _linear() -> torch.nn.Linear:
    network = torch.nn.Linear(3, 1)
    torch.nn.init.constant_(network.weight, 0.1)
    torch.nn.init.zeros_(network.bias)
    return network


def test_two_processes_average_their_gradients(tmp_path) -> None:
    """DDP over gloo: the gradient is the mean of the gradients of the halves of a batch."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.normal(size=(2, 4, 6, 3)).astype(np.float32),
        "y": rng.integers(0, 3, (2, 4, 6)),
    }
    context = torch.multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [
        context.Process(
            target=_train_in_a_process,
            args=(rank, str(tmp_path / "meet"), arrays, answers),
            daemon=True,
        )
        for rank in range(2)
    ]
    for worker in workers:
        worker.start()
    gradients = dict(answers.get(timeout=300) for _ in workers)
    for worker in workers:
        worker.join(60)
    network = _linear()
    x, y = (torch.tensor(arrays[name]).flatten(0, 1) for name in ("x", "y"))
    tr.torch_loss("lambdarank")(network(x).squeeze(-1), y).backward()
    for rank in range(2):
        np.testing.assert_allclose(
            gradients[rank], network.weight.grad.numpy(), rtol=1e-5, atol=1e-7
        )
