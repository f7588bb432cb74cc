"""Losses bound to lists on a CUDA device: which kernels serve which loss."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tautrank.errors import OptionError
from tautrank.kernels.streams import GUMBEL_STREAM
from tautrank.losses.base import Loss
from tautrank.losses.device.lists import DeviceLists, DeviceObjective
from tautrank.losses.device.pairwise import DevicePairs
from tautrank.losses.device.sampled import DeviceSampled
from tautrank.losses.device.smooth_ndcg import DeviceSmoothNDCG
from tautrank.losses.device.softmax import DeviceSoftmax
from tautrank.losses.device.softrank import DeviceSoftRank
from tautrank.losses.device.stochastic import DeviceSmoothed
from tautrank.losses.pairwise import LambdaLoss
from tautrank.losses.pointwise import MSE
from tautrank.losses.sampled import SampledLoss
from tautrank.losses.smooth_ndcg import SmoothNDCG
from tautrank.losses.softmax import SoftmaxLoss
from tautrank.losses.softrank import SoftRank
from tautrank.losses.stochastic import SmoothedLoss


class _SquaredError(DeviceObjective):
    def __init__(self, loss: MSE, lists: DeviceLists, seed: int) -> None:
        self._lists = lists
        self._weights = lists.weights[lists.query]

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        return self._weights * (scores - self._lists.labels), self._weights

    def values(self, scores: Tensor, step: int) -> Tensor:
        return self._lists.sums(0.5 * self._weights * (scores - self._lists.labels) ** 2)


class _Sampled(DeviceSmoothed):
    def values(self, scores: Tensor, step: int) -> Tensor:
        return self._scale + super().values(scores, step)


def _softrank(loss: SoftRank, lists: DeviceLists, seed: int) -> DeviceObjective:
    return DeviceSoftRank(loss, lists, seed) if loss.estimator == "exact" else _Sampled(loss.sampled, lists, seed)


_KERNELS: dict[type, Any] = {
    LambdaLoss: DevicePairs,
    SoftmaxLoss: DeviceSoftmax,
    SmoothedLoss: DeviceSmoothed,
    SoftRank: _softrank,
    SampledLoss: DeviceSampled,
    SmoothNDCG: DeviceSmoothNDCG,
    MSE: _SquaredError,
}


class _Noisy(DeviceObjective):
    def __init__(self, loss: Loss, lists: DeviceLists, seed: int, inner: DeviceObjective) -> None:
        self._loss, self._lists, self._seed, self._inner = loss, lists, seed, inner

    def _scores(self, scores: Tensor, step: int) -> Tensor:
        noise = self._lists.noise("four gumbel", self._seed, step, GUMBEL_STREAM)
        return (scores.double() + self._loss.strength * noise).to(scores.dtype)

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        return self._inner.gradients(self._scores(scores, step), step)

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        return self._inner.values_and_gradient(self._scores(scores, step), step)


def device_objective(loss: Loss, lists: DeviceLists, seed: int = 0) -> DeviceObjective:
    """Bind a loss to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of all random numbers.
    """
    bound = next((bound for kind, bound in _KERNELS.items() if isinstance(loss, kind)), None)
    if bound is None:
        raise OptionError(f"loss: found {loss}, which has no kernels for CUDA; expected tensors on the CPU")
    inner: DeviceObjective = bound(loss, lists, seed)
    return _Noisy(loss, lists, seed, inner) if loss.noise is not None and loss.strength else inner
