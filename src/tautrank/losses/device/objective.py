"""Losses bound to lists on a CUDA device: which kernels serve which loss."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from tautrank.errors import OptionError
from tautrank.losses.base import Loss
from tautrank.losses.device.lists import DeviceLists
from tautrank.losses.device.pairwise import DevicePairs
from tautrank.losses.device.softmax import DeviceSoftmax
from tautrank.losses.device.softrank import DeviceSoftRank
from tautrank.losses.device.stochastic import DeviceSmoothed
from tautrank.losses.pairwise import LambdaLoss
from tautrank.losses.pointwise import MSE
from tautrank.losses.softmax import SoftmaxLoss
from tautrank.losses.softrank import SoftRank
from tautrank.losses.stochastic import SmoothedLoss

GUMBEL_STREAM = 1  # as in kernels.randomness, which needs Numba


class DeviceObjective(Protocol):
    """What `tautrank.losses.base.Objective` is in memory; scores are checked and noisy already."""

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        """Return gradient and hessian, one per document; ``None`` for a hessian that only a booster would need."""

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the value of each list."""


def values_and_gradient(objective: DeviceObjective, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """Return the value of each list and the gradient, in one pass where the kernels can do it.

    Args:
        objective: a bound loss.
        scores: one per document.
        step: as in `tautrank.losses.base.Objective.gradients`.
    """
    if isinstance(objective, DevicePairs) and objective.loss.norm is None:
        return objective.values_and_gradient(scores, step)
    return objective.values(scores, step), objective.gradients(scores, step)[0]


class _SquaredError:
    def __init__(self, lists: DeviceLists) -> None:
        self._lists = lists
        self._weights = lists.weights[lists.query]

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        return self._weights * (scores - self._lists.labels), self._weights

    def values(self, scores: Tensor, step: int) -> Tensor:
        return self._lists.sums(0.5 * self._weights * (scores - self._lists.labels) ** 2)


class _Sampled(DeviceSmoothed):
    def values(self, scores: Tensor, step: int) -> Tensor:
        return self._scale + super().values(scores, step)


class _Noisy:
    def __init__(self, loss: Loss, lists: DeviceLists, seed: int, inner: DeviceObjective) -> None:
        self._loss, self._lists, self._seed, self._inner = loss, lists, seed, inner

    def _scores(self, scores: Tensor, step: int) -> Tensor:
        return self._lists.noisy(scores, self._loss.strength, self._seed, step, GUMBEL_STREAM, gumbel=True)

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        return self._inner.gradients(self._scores(scores, step), step)

    def values(self, scores: Tensor, step: int) -> Tensor:
        return self._inner.values(self._scores(scores, step), step)


def device_objective(loss: Loss, lists: DeviceLists, seed: int = 0) -> DeviceObjective:
    """Bind a loss to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of all random numbers.
    """
    inner: DeviceObjective
    if isinstance(loss, LambdaLoss) and loss.extend is None:
        inner = DevicePairs(loss, lists, seed)
    elif isinstance(loss, SoftmaxLoss):
        inner = DeviceSoftmax(loss, lists, seed)
    elif isinstance(loss, SmoothedLoss):
        inner = DeviceSmoothed(loss, lists, seed)
    elif isinstance(loss, SoftRank):
        inner = DeviceSoftRank(loss, lists, seed) if loss.estimator == "exact" else _Sampled(loss.sampled, lists, seed)
    elif isinstance(loss, MSE):
        inner = _SquaredError(lists)
    else:
        raise OptionError(f"loss: found {loss}, which has no kernels for CUDA; expected tensors on the CPU")
    return _Noisy(loss, lists, seed, inner) if loss.noise is not None and loss.strength else inner
