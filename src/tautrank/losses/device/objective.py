"""Losses bound to lists on a CUDA device: which kernels serve which loss."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tautrank.errors import OptionError
from tautrank.kernels.streams import GUMBEL_STREAM
from tautrank.losses import (
    MSE,
    LambdaLoss,
    Loss,
    SampledLoss,
    SmoothedLoss,
    SmoothNDCG,
    SoftmaxLoss,
    SoftRank,
)
from tautrank.losses.device.lists import DeviceLists, DeviceObjective
from tautrank.losses.device.pairwise import DevicePairs
from tautrank.losses.device.sampled import DeviceSampled, DeviceSmoothed
from tautrank.losses.device.smooth_ndcg import DeviceSmoothNDCG, DeviceSoftRank
from tautrank.losses.device.softmax import DeviceSoftmax


class _SquaredError(DeviceObjective):
    """The squared error on a device."""

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        weights = self.lists.weights[self.lists.query]
        return weights * (scores - self.lists.labels), weights

    def values(self, scores: Tensor, step: int) -> Tensor:
        weights = self.lists.weights[self.lists.query]
        squares = (scores - self.lists.labels) ** 2
        # Halved, so that the derivative of a document is its error, without a factor of 2.
        return self.lists.sums(0.5 * weights * squares)


class _Sampled(DeviceSmoothed):
    """SoftRank by coordinate conditional sampling: one minus the metric, instead of minus it."""

    def values(self, scores: Tensor, step: int) -> Tensor:
        return self._scale + super().values(scores, step)


def _softrank(loss: SoftRank, lists: DeviceLists, seed: int) -> DeviceObjective:
    """Return the objective of SoftRank for its estimator."""
    if loss.estimator == "exact":
        return DeviceSoftRank(loss, lists, seed)
    return _Sampled(loss.sampled, lists, seed)


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
    """An objective whose loss adds Gumbel noise to the scores."""

    def __init__(self, inner: DeviceObjective) -> None:
        super().__init__(inner.loss, inner.lists, inner.seed)
        self._inner = inner

    def _scores(self, scores: Tensor, step: int) -> Tensor:
        """Return the scores with the noise of a step."""
        noise = self.lists.noise("four gumbel", self.seed, step, GUMBEL_STREAM)
        return (scores.double() + self.loss.strength * noise).to(scores.dtype)

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        return self._inner.gradients(self._scores(scores, step), step)

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        return self._inner.values_and_gradient(self._scores(scores, step), step)


def device_objective(loss: Loss, lists: DeviceLists, seed: int = 0) -> DeviceObjective:
    """Return a loss bound to lists on a CUDA device: an object that computes values and gradients
    there. A loss without kernels for the device is an error.

    Args:
        loss: the loss.
        lists: the labelled lists on the device.
        seed: seed of all random numbers.
    """
    # `_KERNELS` has the class that computes each kind of loss on a device.
    for kind, bind in _KERNELS.items():
        if isinstance(loss, kind):
            objective: DeviceObjective = bind(loss, lists, seed)
            # `_Noisy` adds the loss's noise to the scores before each call.
            has_noise = loss.noise is not None and loss.strength
            return _Noisy(objective) if has_noise else objective
    raise OptionError(
        f"loss: found {loss}, which has no kernels for CUDA; expected tensors on the CPU"
    )
