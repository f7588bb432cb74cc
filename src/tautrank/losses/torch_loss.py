"""Losses as PyTorch modules: values and gradients of this library's kernels, on the CPU and on CUDA
devices.

On the CPU the kernels of the booster run; on a CUDA device those of `tautrank.losses.device`, which
need neither Numba nor a copy to memory. Lists come flat, as everywhere in this library, or padded
with a mask; padding never reaches a kernel, so it cannot change a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tautrank.arguments import choice, whole
from tautrank.errors import DataError, MissingDependencyError, OptionError
from tautrank.losses.base import Loss, loss

try:
    import torch
    from torch import Tensor, nn
    from torch.autograd import Function
except ImportError as problem:
    raise MissingDependencyError(
        "torch_loss needs PyTorch: pip install 'tautrank[torch]'"
    ) from problem

_TWICE = "a loss of this library has no second derivative in PyTorch; expected one backward pass, without create_graph"


class TorchLoss(nn.Module):
    """A loss of this library as a PyTorch module; made by `torch_loss`.

    Args:
        kind: the loss.
        seed: seed of all random numbers; give each process of a distributed training another one.
        reduction: ``"mean"`` over the lists, ``"sum"``, or ``"none"`` for one value per list.

    Random numbers are keyed by (seed, step, list). The step counts the calls in training mode, and
    is part of the module's state, so that a training that is saved and loaded goes on with the
    numbers it would have drawn.
    """

    def __init__(self, kind: Loss, seed: int = 0, reduction: str = "mean") -> None:
        super().__init__()
        self.kind = kind
        self.seed = whole("seed", seed, 0, 2**63 - 1)
        self.reduction = choice("reduction", reduction, ("mean", "sum", "none"))
        self.step = 0

    def forward(
        self,
        scores: Tensor,
        labels: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
        weights: Tensor | None = None,
        step: int | None = None,
    ) -> Tensor:
        """Return the loss, differentiable by the scores.

        Args:
            scores: flat, one per document, with ``offsets`` or ``lengths``, or one list; or padded,
                ``[lists, documents]``, with ``mask`` or ``lengths``. Half precision is computed in
                float32.
            labels: relevance in the shape of the scores, finite numbers of at least 0; the padding
                may hold anything.
            mask: true where there is a document.
            lengths: documents of each list.
            offsets: start of each list, and the number of documents at the end.
            weights: one per list.
            step: number that keys the random numbers together with the seed; the number of calls by
                default.
        """
        flat, relevance, ends = _flat(scores, labels, mask, lengths, offsets)
        if step is None:
            step = self.step
            self.step += int(self.training)
        kind = flat.dtype if flat.dtype in (torch.float32, torch.float64) else torch.float32
        weights = None if weights is None else _tensor("weights", weights, flat).reshape(-1)
        compute = _on_device if flat.is_cuda else _in_memory
        lists = (relevance, ends, weights)
        values: Tensor = _Value.apply(
            flat.to(kind), ends, compute, self.kind, lists, self.seed, whole("step", step, 0)
        )
        if self.reduction == "none":
            return values
        return values.sum() if self.reduction == "sum" else values.sum() / max(values.numel(), 1)

    def extra_repr(self) -> str:
        """What stands in the parentheses of the module's text."""
        return f"{self.kind}, seed={self.seed}, reduction={self.reduction!r}"

    def get_extra_state(self) -> dict[str, int]:
        """Return the number of calls, for ``state_dict``."""
        return {"step": self.step}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Take the number of calls from a ``state_dict``.

        Args:
            state: what `get_extra_state` returned.
        """
        self.step = int(state["step"])


def torch_loss(
    name: str | Loss, *, seed: int = 0, reduction: str = "mean", **parameters: Any
) -> TorchLoss:
    """Return a loss of this library as a PyTorch module, for networks on the CPU or on a CUDA
    device.

    Value and gradient are those of the loss bound to labels (`Loss.bind`), divided by the number of
    lists. The default gradient of ``xendcg`` is the numerator of a Newton step, made for boosters;
    networks usually want ``hessian="diagonal"``, the plain derivative.

    Args:
        name: as in `tautrank.loss`.
        seed: seed of all random numbers; give each process of a distributed training another one.
        reduction: ``"mean"`` over the lists, ``"sum"``, or ``"none"`` for one value per list.
        **parameters: parameters of the loss.

    >>> import torch
    >>> listwise = torch_loss("ndcg-loss2++", k=10)
    >>> scores = torch.zeros(2, 3, requires_grad=True)
    >>> labels = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.0]])
    >>> value = listwise(scores, labels, lengths=torch.tensor([3, 2]))  # the last document is padding
    >>> value.backward()
    >>> bool(scores.grad[0, 1] < 0), float(scores.grad[1, 2])
    (True, 0.0)
    """
    return TorchLoss(loss(name, **parameters), seed, reduction)


class _Value(Function):
    """The value of each list, with the gradient that the kernels compute."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, offsets: Tensor, compute: Callable[..., Any], *given: Any
    ) -> Tensor:
        values, gradient = compute(scores.detach(), ctx.needs_input_grad[0], *given)
        ctx.save_for_backward(scores, gradient, offsets)
        return values

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        scores, gradient, offsets = ctx.saved_tensors
        per_document = torch.repeat_interleave(
            upstream, offsets.diff(), output_size=gradient.numel()
        )
        return _Once.apply(scores, gradient * per_document), *[None] * 6


class _Once(Function):
    """The gradient; its own derivative is refused."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, gradient: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        raise OptionError(_TWICE)


def _in_memory(
    scores: Tensor, wanted: bool, loss: Loss, lists: Any, seed: int, step: int
) -> tuple[Tensor, Tensor]:
    """Values and, if wanted, the gradient of a loss of lists (labels, offsets, weights) in
    memory.
    """
    labels, offsets, weights = lists
    if labels.device.type != "cpu":
        raise OptionError(
            f"scores: found a tensor on {labels.device}; expected one on the CPU or on a CUDA device"
        )
    given = None if weights is None else weights.double().numpy()
    objective = loss.bind(labels.double().numpy(), offsets.numpy(), weights=given, seed=seed)
    values = torch.from_numpy(objective.values(scores.numpy(), step)).to(scores.dtype)
    return values, torch.from_numpy(
        objective.gradients(scores.numpy(), step)[0]
    ) if wanted else scores


def _on_device(
    scores: Tensor, wanted: bool, loss: Loss, lists: Any, seed: int, step: int
) -> tuple[Tensor, Tensor]:
    """The same on a CUDA device."""
    from tautrank.losses.device.lists import DeviceLists
    from tautrank.losses.device.objective import device_objective

    labels, offsets, weights = lists
    labels = labels.to(scores.dtype)
    _check_all(labels=labels, **({} if weights is None else {"weights": weights}))
    if weights is not None and weights.numel() != offsets.numel() - 1:
        raise DataError(
            f"weights: found {weights.numel()} numbers; expected {offsets.numel() - 1}, one per list"
        )
    objective = device_objective(loss, DeviceLists(labels, offsets, weights), seed)
    _check_all(scores=scores)
    return (
        objective.values_and_gradient(scores, step)
        if wanted
        else (objective.values(scores, step), scores)
    )


def _check_all(**given: Tensor) -> None:
    """Refuse numbers on a device that are not finite or, but for scores, below 0."""
    fine = [
        (torch.isfinite(each) & ((each >= 0) | (name == "scores"))).all()
        for name, each in given.items()
    ]
    for name, good in zip(given, torch.stack(fine).tolist(), strict=True):
        if not good:
            expected = "finite numbers" if name == "scores" else "finite numbers of at least 0"
            raise DataError(f"{name}: found others, such as NaN; expected {expected}")


def _flat(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    offsets: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return flat scores, flat labels and offsets; whatever is padding is left out."""
    if not isinstance(scores, Tensor) or not isinstance(labels, Tensor):
        raise OptionError(
            f"scores, labels: found {type(scores).__name__}, {type(labels).__name__}; expected tensors"
        )
    if labels.shape != scores.shape:
        found, expected = tuple(labels.shape), tuple(scores.shape)
        raise DataError(f"labels: found the shape {found}; expected that of the scores, {expected}")
    if sum(given is not None for given in (mask, lengths, offsets)) > 1:
        raise OptionError(
            "mask, lengths, offsets: found more than one of them; expected at most one"
        )
    if scores.dim() not in (1, 2):
        raise DataError(
            f"scores: found {scores.dim()} dimensions; expected 1 (flat) or 2 (lists, documents)"
        )
    labels = labels.detach().to(scores.device)
    if scores.dim() == 1:
        if mask is not None:
            raise OptionError(
                "mask: found flat scores; expected a mask of padded scores, [lists, documents]"
            )
        return scores, labels, _offsets(scores, lengths, offsets)
    if offsets is not None:
        raise OptionError(
            "offsets: found padded scores, [lists, documents]; expected mask or lengths"
        )
    rows, width = scores.shape
    if lengths is not None:
        lengths = _tensor("lengths", lengths, scores, whole_numbers=True).reshape(-1)
        if lengths.numel() != rows:
            raise DataError(
                f"lengths: found {lengths.numel()} numbers; expected {rows}, one per list"
            )
        if bool(((lengths < 0) | (lengths > width)).any()):
            raise DataError(
                f"lengths: found one below 0 or above {width}; expected at most the documents of a row"
            )
        mask = torch.arange(width, device=scores.device) < lengths[:, None]
    mask = (
        torch.ones_like(scores, dtype=torch.bool) if mask is None else _tensor("mask", mask, scores)
    )
    if mask.shape != scores.shape or mask.dtype != torch.bool:
        raise DataError(
            f"mask: found {mask.dtype} {tuple(mask.shape)}; expected booleans in the shape of the scores"
        )
    sizes = mask.sum(1)
    empty = torch.nonzero(sizes == 0).reshape(-1)
    if empty.numel():
        given = "mask" if lengths is None else "lengths"
        raise DataError(f"{given}: list {int(empty[0])} has no document; expected at least one")
    return scores[mask], labels[mask], torch.nn.functional.pad(sizes.cumsum(0), (1, 0))


def _tensor(name: str, given: Any, scores: Tensor, *, whole_numbers: bool = False) -> Tensor:
    """Return an argument, a tensor or anything that becomes one, on the device of the scores."""
    expected = "whole numbers" if whole_numbers else "a tensor"
    try:
        found = torch.as_tensor(given, device=scores.device).detach()
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{name}: found {type(given).__name__}; expected {expected}") from None
    if whole_numbers and (
        found.is_floating_point() or found.is_complex() or found.dtype == torch.bool
    ):
        raise DataError(f"{name}: found values of type {found.dtype}; expected {expected}")
    return found.long() if whole_numbers else found


def _offsets(scores: Tensor, lengths: Tensor | None, offsets: Tensor | None) -> Tensor:
    """Offsets of flat scores; one list where nothing is given."""
    if offsets is None:
        sizes = _tensor(
            "lengths", [scores.numel()] if lengths is None else lengths, scores, whole_numbers=True
        )
        offsets = torch.nn.functional.pad(sizes.reshape(-1).cumsum(0), (1, 0))
    ends = _tensor("offsets", offsets, scores, whole_numbers=True).reshape(-1)
    divided = int(ends[-1]) if ends.numel() else 0
    if divided != scores.numel() or int(ends[0]) != 0 or bool((ends.diff() < 0).any()):
        given, expected = "offsets" if lengths is None else "lengths", f"one of {scores.numel()}"
        found = f"a division of {divided} documents"
        raise DataError(
            f"{given}: found {found}; expected {expected}, starting at 0 and never falling"
        )
    return ends
