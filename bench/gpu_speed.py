"""Gradients on a CUDA device: the size of MSLR-WEB30K's training part, beside a padded version in
plain PyTorch.

Runs where Numba and LightGBM are not installed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np

from bench.side_by_side import Claims

LISTS, LONGEST = 18_919, 1_000
ASKED = {
    "lambdarank(k=none)": 0.8,
    "ndcg-loss2++(k=none)": 0.8,
    "lambdarank": None,
    "xendcg": 0.15,
    "listnet": 0.15,
    "softrank(k=10)": None,
    "softrank": None,
    "stochasticrank": None,
    "stochasticrank(metric=mrr)": None,
    "lambdarank(extend=all)": None,
    "yetiloss": None,
    "plrank": None,
    "approxndcg": None,
    "neuralndcg": None,
}
"""Losses, and the milliseconds that a gradient may take; None is only reported."""


def where() -> str:
    """The device and the versions, in words."""
    import torch
    import triton

    name = torch.cuda.get_device_name()
    return (
        f"One run on one {name} with PyTorch {torch.__version__} and Triton {triton.__version__}."
    )


def claims() -> Claims:
    import torch

    import tautrank as tr
    from tautrank.losses.device.lists import DeviceLists
    from tautrank.losses.device.objective import device_objective

    rng = np.random.default_rng(0)
    sizes = np.clip(np.exp(rng.normal(math.log(120) - 0.18, 0.6, LISTS)), 1, LONGEST).astype(
        np.int64
    )
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    n = int(offsets[-1])
    labels = torch.tensor(
        rng.choice(5, n, p=[0.52, 0.32, 0.13, 0.02, 0.01]), dtype=torch.float32, device="cuda"
    )
    scores = torch.tensor(2.0 * rng.normal(size=n), dtype=torch.float32, device="cuda")
    ends = torch.tensor(offsets, device="cuda")
    pairs = int((sizes * (sizes - 1) // 2).sum())
    yield f"{LISTS:,} lists, {n / 1e6:.2f} M documents, {pairs / 1e6:.0f} M pairs", "", "", True
    for name, asked in ASKED.items():
        objective = device_objective(tr.loss(name), DeviceLists(labels, ends))
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        milliseconds = _median(lambda bound=objective: bound.gradients(scores, 3))  # type: ignore[misc]
        peak = (torch.cuda.max_memory_allocated() - before) / 2**20
        parts = "gradient" if objective.gradients(scores, 3)[1] is None else "gradient and hessian"
        what = f"{name}: ranks, {parts}; {peak:.0f} MiB at most"
        holds = asked is None or milliseconds <= asked
        yield (
            what,
            f"{milliseconds:.3f} ms",
            "reported" if asked is None else f"at most {asked:g} ms",
            holds,
        )
    module = tr.torch_loss("lambdarank", k=None)
    watched = scores.clone().requires_grad_()

    def whole_step() -> None:
        watched.grad = None
        module(watched, labels, offsets=ends).backward()

    yield (
        "torch_loss('lambdarank', k=None): new labels, checks, value and backward",
        f"{_median(whole_step):.3f} ms",
        "reported",
        True,
    )
    batches = _padded(scores, labels, sizes)
    milliseconds = _median(lambda: [_padded_lambdarank(s, y, m) for s, y, m in batches], rounds=3)
    yield (
        f"lambdarank of padded batches of {BATCH} lists in plain PyTorch",
        f"{milliseconds:.1f} ms",
        "reported",
        True,
    )


def _median(run: Callable[[], object], rounds: int = 30) -> float:
    import torch

    for _ in range(3):
        run()
    taken = []
    for _ in range(rounds):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(stop))
    return statistics.median(taken)


BATCH = 256


def _padded(scores, labels, sizes):  # type: ignore[no-untyped-def]
    """Batches of lists of similar length, padded to the longest of each."""
    import torch

    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    batches = []
    order = np.argsort(sizes, kind="stable")
    for at in range(0, order.size, BATCH):
        chosen = order[at : at + BATCH]
        place = np.arange(sizes[chosen].max())
        mask = torch.tensor(place < sizes[chosen, None], device="cuda")
        index = torch.tensor(
            np.minimum(starts[chosen, None] + place, scores.numel() - 1), device="cuda"
        )
        batches.append((scores[index], labels[index], mask))
    return batches


def _padded_lambdarank(scores, labels, mask):  # type: ignore[no-untyped-def]
    """LambdaRank with a matrix per list, as it is usually written."""
    import torch

    s = scores.masked_fill(~mask, float("-inf")).detach().requires_grad_()
    gains = torch.where(mask, torch.exp2(labels) - 1, 0.0)
    ranks = s.argsort(1, descending=True).argsort(1)
    discount = 1 / torch.log2(2.0 + torch.arange(s.shape[1], device=s.device))
    best = (gains.sort(1, descending=True)[0] * discount).sum(1, keepdim=True).clamp(min=1e-9)
    g, d = gains / best, discount[ranks]
    weights = (g[:, :, None] - g[:, None, :]).abs() * (d[:, :, None] - d[:, None, :]).abs()
    counts = (labels[:, :, None] > labels[:, None, :]) & mask[:, :, None] & mask[:, None, :]
    differences = (s[:, :, None] - s[:, None, :]).masked_fill(~counts, 0.0)
    value = (weights * torch.nn.functional.softplus(-differences))[counts].sum() / math.log(2.0)
    return torch.autograd.grad(value, s)[0]
