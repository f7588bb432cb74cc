"""Losses as PyTorch modules: values and gradients of this library's kernels, on the CPU and on CUDA
devices.

On the CPU the kernels of the booster run; on a CUDA device those of `tautrank.losses.device`, which
need neither Numba nor a copy to memory. Lists come flat, as everywhere in this library, or padded
with a mask; padding never reaches a kernel, so it cannot change a value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

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

_TWICE = (
    "a loss of this library has no second derivative in PyTorch; expected one backward pass,"
    " without create_graph"
)


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
        # Counts the training steps, which key the random numbers.
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
        lists = _flat_lists(scores, labels, mask, lengths, offsets)
        if weights is not None:
            weights = _tensor("weights", weights, lists.scores).reshape(-1)
        if step is None:
            step = self.step
            self.step += int(self.training)

        compute = functools.partial(
            _compute_on_device if lists.scores.is_cuda else _compute_in_memory,
            loss=self.kind,
            lists=lists,
            weights=weights,
            seed=self.seed,
            step=whole("step", step, 0),
        )
        is_precise = lists.scores.dtype in (torch.float32, torch.float64)
        flat_scores = lists.scores if is_precise else lists.scores.to(torch.float32)
        values: Tensor = _Value.apply(flat_scores, lists.offsets, compute)
        if self.reduction == "none":
            return values
        if self.reduction == "sum":
            return values.sum()
        return values.sum() / max(values.numel(), 1)

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
    >>> # The last document is padding.
    >>> value = listwise(scores, labels, lengths=torch.tensor([3, 2]))
    >>> value.backward()
    >>> bool(scores.grad[0, 1] < 0), float(scores.grad[1, 2])
    (True, 0.0)
    """
    return TorchLoss(loss(name, **parameters), seed, reduction)


class _Lists(NamedTuple):
    """Flat lists without padding.

    scores: one per document.
    labels: one per document.
    offsets: start of each list, and the number of documents at the end.
    """

    scores: Tensor
    labels: Tensor
    offsets: Tensor


class _Value(Function):
    """The value of each list, with the gradient that the kernels compute."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, offsets: Tensor, compute: Callable[..., Any]) -> Tensor:
        # PyTorch says which of the inputs need a gradient; the scores are the first. ``compute``
        # returns the loss of each list and, if needed, its derivatives, kept for `backward`.
        needs_gradient = ctx.needs_input_grad[0]
        values, gradient = compute(scores.detach(), needs_gradient)
        ctx.save_for_backward(scores, gradient, offsets)
        return values

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        scores, gradient, offsets = ctx.saved_tensors
        # ``upstream``: the derivative of what is minimised by each list's value, repeated for each
        # document. `_Once` refuses a second derivative; offsets and compute have no gradient.
        upstream_of_documents = torch.repeat_interleave(
            upstream, offsets.diff(), output_size=gradient.numel()
        )
        return _Once.apply(scores, gradient * upstream_of_documents), None, None


class _Once(Function):
    """The gradient; its own derivative is refused."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, gradient: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        raise OptionError(_TWICE)


def _compute_in_memory(
    scores: Tensor,
    needs_gradient: bool,
    *,
    loss: Loss,
    lists: _Lists,
    weights: Tensor | None,
    seed: int,
    step: int,
) -> tuple[Tensor, Tensor]:
    """Return the loss of each list and its gradient by the scores, computed on the CPU;
    the scores themselves stand in for a gradient that is not needed.
    """
    if scores.device.type != "cpu":
        raise OptionError(
            f"scores: found a tensor on {scores.device}; expected one on the CPU or on a CUDA"
            " device"
        )
    objective = loss.bind(
        lists.labels.double().numpy(),
        lists.offsets.numpy(),
        weights=None if weights is None else weights.double().numpy(),
        seed=seed,
    )
    values = torch.from_numpy(objective.values(scores.numpy(), step)).to(scores.dtype)
    if not needs_gradient:
        return values, scores
    gradient, _ = objective.gradients(scores.numpy(), step)
    return values, torch.from_numpy(gradient)


def _compute_on_device(
    scores: Tensor,
    needs_gradient: bool,
    *,
    loss: Loss,
    lists: _Lists,
    weights: Tensor | None,
    seed: int,
    step: int,
) -> tuple[Tensor, Tensor]:
    """Return the loss of each list and its gradient by the scores, computed on a CUDA device; the
    scores themselves stand in for a gradient that is not needed.
    """
    from tautrank.losses.device.lists import DeviceLists
    from tautrank.losses.device.objective import device_objective

    labels = lists.labels.to(scores.dtype)
    n_lists = lists.offsets.numel() - 1
    if weights is None:
        _refuse_bad_numbers(labels=labels)
    else:
        _refuse_bad_numbers(labels=labels, weights=weights)
        if weights.numel() != n_lists:
            raise DataError(
                f"weights: found {weights.numel()} numbers; expected {n_lists}, one per list"
            )
    # The loss bound to the lists: what computes values and gradients.
    objective = device_objective(loss, DeviceLists(labels, lists.offsets, weights), seed)
    _refuse_bad_numbers(scores=scores)
    if not needs_gradient:
        return objective.values(scores, step), scores
    return objective.values_and_gradient(scores, step)


def _refuse_bad_numbers(**tensors: Tensor) -> None:
    """Raise an error if tensors on a device hold numbers that are not finite or below 0; only the
    tensor named ``scores`` may hold negative ones.
    """
    all_good = []
    for name, numbers in tensors.items():
        is_good = torch.isfinite(numbers)
        if name != "scores":
            is_good &= numbers >= 0
        all_good.append(is_good.all())
    # Stacked, so that a single copy from the device, which waits for it, serves all tensors.
    for name, is_good in zip(tensors, torch.stack(all_good).tolist(), strict=True):
        if not is_good:
            expected = "finite numbers" if name == "scores" else "finite numbers of at least 0"
            raise DataError(f"{name}: found others, such as NaN; expected {expected}")


def _flat_lists(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    offsets: Tensor | None,
) -> _Lists:
    """Return flat lists; whatever is padding is left out."""
    if not isinstance(scores, Tensor) or not isinstance(labels, Tensor):
        raise OptionError(
            f"scores, labels: found {type(scores).__name__}, {type(labels).__name__};"
            " expected tensors"
        )
    if labels.shape != scores.shape:
        raise DataError(
            f"labels: found the shape {tuple(labels.shape)};"
            f" expected that of the scores, {tuple(scores.shape)}"
        )
    n_divisions = sum(argument is not None for argument in (mask, lengths, offsets))
    if n_divisions > 1:
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
        return _Lists(scores, labels, _offsets(scores, lengths, offsets))
    if offsets is not None:
        raise OptionError(
            "offsets: found padded scores, [lists, documents]; expected mask or lengths"
        )
    if lengths is not None:
        mask = _mask_of_lengths(lengths, scores)
    return _without_padding(scores, labels, mask, "mask" if lengths is None else "lengths")


def _mask_of_lengths(lengths: Any, scores: Tensor) -> Tensor:
    """Return which entries of padded scores, [lists, documents], are documents: the first ones of
    each row, as many as ``lengths`` says.
    """
    n_lists, width = scores.shape
    lengths = _tensor("lengths", lengths, scores, whole_numbers=True).reshape(-1)
    if lengths.numel() != n_lists:
        raise DataError(
            f"lengths: found {lengths.numel()} numbers; expected {n_lists}, one per list"
        )
    is_outside = (lengths < 0) | (lengths > width)
    if bool(is_outside.any()):
        raise DataError(
            f"lengths: found one below 0 or above {width}; expected at most the documents of a row"
        )
    columns = torch.arange(width, device=scores.device)
    # Each column's number against each list's length, [lists, documents].
    return columns < lengths[:, None]


def _without_padding(scores: Tensor, labels: Tensor, mask: Any, name: str) -> _Lists:
    """Return the documents of padded lists one after another: flat scores and labels, and offsets.

    Args:
        scores: padded scores, [lists, documents].
        labels: labels in the same shape.
        mask: where there is a document; None for everywhere.
        name: the argument that the mask was made from, for errors.
    """
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    mask = _tensor("mask", mask, scores)
    if mask.shape != scores.shape or mask.dtype != torch.bool:
        raise DataError(
            f"mask: found {mask.dtype} {tuple(mask.shape)};"
            " expected booleans in the shape of the scores"
        )
    # Documents per list; picking by a mask flattens list after list.
    sizes = mask.sum(1)
    empty = torch.nonzero(sizes == 0).reshape(-1)
    if empty.numel():
        raise DataError(f"{name}: list {int(empty[0])} has no document; expected at least one")
    return _Lists(scores[mask], labels[mask], _offsets_of_sizes(sizes))


def _tensor(name: str, argument: Any, scores: Tensor, *, whole_numbers: bool = False) -> Tensor:
    """Return an argument, a tensor or anything that becomes one, on the device of the scores and
    without its gradient; as int64 after a check if it must be ``whole_numbers``.
    """
    expected = "whole numbers" if whole_numbers else "a tensor"
    try:
        tensor = torch.as_tensor(argument, device=scores.device).detach()
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{name}: found {type(argument).__name__}; expected {expected}") from None
    if not whole_numbers:
        return tensor
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    if not is_integer or tensor.dtype == torch.bool:
        raise DataError(f"{name}: found values of type {tensor.dtype}; expected {expected}")
    return tensor.long()


def _offsets(scores: Tensor, lengths: Tensor | None, offsets: Tensor | None) -> Tensor:
    """Return the offsets of flat scores, where each list's documents begin and the number of all,
    checked; given as such, or as the lengths of the lists, or neither for a single list.
    """
    if offsets is None:
        sizes = [scores.numel()] if lengths is None else lengths
        sizes = _tensor("lengths", sizes, scores, whole_numbers=True)
        offsets = _offsets_of_sizes(sizes.reshape(-1))
    offsets = _tensor("offsets", offsets, scores, whole_numbers=True).reshape(-1)
    # The last offset is the number of documents that the division covers.
    n_divided = int(offsets[-1]) if offsets.numel() else 0
    takes_all = n_divided == scores.numel() and int(offsets[0]) == 0
    never_falls = bool((offsets.diff() >= 0).all())
    if not takes_all or not never_falls:
        name = "offsets" if lengths is None else "lengths"
        raise DataError(
            f"{name}: found a division of {n_divided} documents; expected one of"
            f" {scores.numel()}, starting at 0 and never falling"
        )
    return offsets


def _offsets_of_sizes(sizes: Tensor) -> Tensor:
    """Return the running sum of the sizes, from 0."""
    return torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
