"""Losses that draw noise or rankings, on a CUDA device; `tautrank.losses.stochastic` and `sampled`
have the formulas.

Smoothed metrics lay documents out by their noisy positions. A row walks down the first documents of
the draw and adds up the jumps of sliding over them, with the product over the documents above that
a stopping reader needs, its own left out. Losses of sampled rankings have gradients, but no
hessians, which only a booster needs; all their sums are float64, as in memory.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from tautrank.errors import OptionError
from tautrank.kernels.streams import NEIGHBOUR_STREAM, POLICY_STREAM, SMOOTHING_STREAM
from tautrank.losses.device.lists import (
    BLOCK,
    ROWS,
    DeviceLists,
    DeviceObjective,
    largest_value,
    list_of_program,
    map_labels,
    tile_of_program,
)
from tautrank.losses.sampled import SampledLoss, YetiLoss
from tautrank.losses.stochastic import SmoothedLoss
from tautrank.metrics import MAP, NDCG
from tautrank.metrics.gains import discount_values
from tautrank.metrics.positional import DCGRR
from tautrank.metrics.ranked import ReaderMetric

_DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)
_FAR = {torch.float32: 1e18, torch.float64: 1e150}


@triton.jit
def _slide_kernel(
    offsets,
    tile_lists,
    tile_starts,
    t_ptr,
    u_ptr,
    place,
    x_ptr,
    drops,
    grad,
    mass,
    depth,
    STOPS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Add, for each document, how much a ranking metric jumps as the document slides over the first
    ``depth`` documents of a draw, weighed by the density of its noise there.

    Documents are laid out by their noisy positions ``t``; the mean position of a row is ``x``. At
    the document of rank ``p`` the row ``i`` adds ``w (u_i - u_p) exp(-(t_p - x_i)^2 / 2)`` to its
    gradient, and the absolute value to its mass. The weight ``w`` is what a rank's discount is
    above that of the next rank, for a metric that stops times the chance to reach it.

    Args:
        offsets, tile_lists, tile_starts: the documents of a program, as in `tile_of_program`.
        t_ptr, u_ptr, place: positions, gains and places in ``x``, ``grad``, ``mass``, by rank.
        x_ptr: mean positions.
        drops: by how much the weight of each rank is above that of the next one.
        grad, mass: both are added to.
        depth: documents of each list that are slid over.
        STOPS, ROWS: whether the reader stops at a document with the chance of its gain; rows.
    """
    _, start, n, _, i, is_row = tile_of_program(
        tl.program_id(0), offsets, tile_lists, tile_starts, ROWS
    )
    at = tl.load(place + start + i, is_row, 0)
    x = tl.load(x_ptr + at, is_row, 0.0)
    u = tl.load(u_ptr + start + i, is_row, 0.0)
    kind = u_ptr.dtype.element_ty
    g = tl.zeros([ROWS], kind)
    h = tl.zeros([ROWS], kind)

    # The chance to reach rank p when the row's own document is left out.
    reach = tl.full([ROWS], 1.0, kind)
    drop_before = tl.full([], 0.0, kind)
    for p in range(tl.minimum(depth, n)):
        gain_of_rank = tl.load(u_ptr + start + p)
        drop = tl.load(drops + p)
        distance = (tl.load(t_ptr + start + p) - x).to(kind)
        # Without the document that slides, a point below it has one rank less.
        weight = tl.where(i > p, drop, drop_before) * tl.exp(-0.5 * distance * distance)
        if STOPS:
            weight *= reach
            reach *= tl.where(i == p, 1.0, 1.0 - gain_of_rank)
        jump = u - gain_of_rank
        g += weight * jump
        h += weight * tl.abs(jump)
        drop_before = drop
    tl.store(grad + at, tl.load(grad + at, is_row, 0.0) + g, is_row)
    tl.store(mass + at, tl.load(mass + at, is_row, 0.0) + h, is_row)


@triton.jit
def _reach_kernel(offsets, u_ptr, reach, depth):
    """Write the chance that a reader from the top down comes as far as each of the first ``depth``
    documents: the product of ``1 - u`` over the documents above. One program takes one list.

    Args:
        offsets: where each list's documents begin, and the number of all.
        u_ptr: chance to stop at each document, by rank.
        reach: receives the chances.
        depth: documents of each list that count.
    """
    _, start, n = list_of_program(offsets)
    # The reader surely comes as far as the first document.
    chance = tl.full([], 1.0, u_ptr.dtype.element_ty)
    for p in range(tl.minimum(depth, n)):
        tl.store(reach + start + p, chance)
        chance *= 1.0 - tl.load(u_ptr + start + p)


def chance_to_reach(lists: DeviceLists, gains: Tensor, depth: int) -> Tensor:
    """Return the chance that a reader, who stops at each document with the probability of its gain,
    comes as far as each document; 0 beyond rank ``depth``.

    Args:
        lists: the lists.
        gains: probabilities to stop, by rank.
        depth: ranks that count.
    """
    reach = torch.zeros_like(gains)
    lists.run_per_list(_reach_kernel, gains, reach, depth)
    return reach


def gains_and_rank_weights(metric: ReaderMetric, lists: DeviceLists) -> tuple[Tensor, np.ndarray]:
    """Return the gain of each document in a metric, in the order of the arrangement (from the
    lowest label up), and the weight of each rank, its discount.

    The gains of NDCG are divided by the ideal DCG of their list.
    """
    # `_document_values` is the metric's NumPy function from labels to gains.
    gains = map_labels(lists.arranged_labels, metric._document_values)
    rank_weights = discount_values(max(lists.longest_length, 1), metric.discount, metric.k)
    if isinstance(metric, NDCG):
        gains = lists.normalise_gains(gains, lists.to_device(rank_weights))
    return gains, rank_weights


@triton.jit
def _selection_kernel(offsets, t_ptr, u_ptr, jumps, values, k):
    """Write the DCG-RR of each list, and by how much showing each document changes it.

    Shown are the documents whose position is above 0, in the order of the list; the metric is the
    sum of ``gain / rank`` over the first ``k`` shown. One program takes one list: a walk forward
    adds up the metric, a walk backward what a document moves the ones after it by.

    Args:
        offsets: where each list's documents begin, and the number of all.
        t_ptr, u_ptr: position and gain of each document.
        jumps, values: receive the change per document, and the metric per list.
        k: ranks that count.
    """
    query, start, n = list_of_program(offsets)
    kind = u_ptr.dtype.element_ty
    n_shown = tl.full([], 0, tl.int32)
    metric = tl.full([], 0.0, kind)
    for p in range(n):
        if tl.load(t_ptr + start + p) > 0.0:
            n_shown += 1
            if n_shown <= k:
                metric += tl.load(u_ptr + start + p) / n_shown.to(kind)
    tl.store(values + query, metric)

    # What the shown documents after p earn: at their ranks, and one rank further down or up.
    as_ranked = tl.full([], 0.0, kind)
    one_down = tl.full([], 0.0, kind)
    one_up = tl.full([], 0.0, kind)
    for back in range(n):
        p = n - 1 - back
        u = tl.load(u_ptr + start + p)
        is_shown = tl.load(t_ptr + start + p) > 0.0
        rank = tl.where(is_shown, n_shown, n_shown + 1).to(kind)
        share = tl.where(rank <= k, u / rank, 0.0)
        # Shown against hidden: the documents after it are one rank further down.
        change_after = tl.where(is_shown, as_ranked - one_up, one_down - as_ranked)
        tl.store(jumps + start + p, share + change_after)
        if is_shown:
            as_ranked += share
            one_down += tl.where(rank + 1.0 <= k, u / (rank + 1.0), 0.0)
            one_up += tl.where(
                (rank >= 2.0) & (rank - 1.0 <= k), u / tl.maximum(rank - 1.0, 1.0), 0.0
            )
            n_shown -= 1


class DeviceSmoothed(DeviceObjective):
    """A smoothed metric bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the noise.
    """

    def __init__(self, loss: SmoothedLoss, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        metric, labels = loss.metric, lists.labels
        self._selects = isinstance(metric, DCGRR)
        self._stops = bool(getattr(metric, "stops", False))
        # `_order`: the flat indices of the documents in the order in which they are laid out.
        if isinstance(metric, DCGRR):
            self._order = lists.flat_indices
            gains = map_labels(labels, metric.document_values)
            self._k = lists.longest_length if metric.k is None else metric.k
        elif isinstance(metric, ReaderMetric):
            self._order = lists.arrangement
            gains, rank_weights = gains_and_rank_weights(metric, lists)
            drops = -np.diff(rank_weights, append=0.0)
            self._weights = lists.to_device(rank_weights)
            self._drops = lists.to_device(drops)
            self._k = max(int(np.count_nonzero(rank_weights)), 1)
        else:
            raise OptionError(
                f"metric: found {metric}, which is Python code and cannot run on a CUDA device; "
                "expected dcg, ndcg, err, mrr or dcg-rr, or tensors on the CPU"
            )
        self._gains = gains
        self._scale = lists.weights_where_any(gains)
        self._shift = loss._shift_by_label * labels.double()[self._order]

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return estimates of the first and the second derivatives of the loss by the scores, one
        per document: the mean over the noise draws of a step.
        """
        # Positions: scores in units of sigma, the standard deviation of the noise. Mass: the sum of
        # the absolute terms of a gradient, which serves as a hessian.
        mean_positions = self._mean_positions(scores)
        if self.loss._by_log_derivative:
            arranged_scores = scores.double()[self._order]
            grad, mass = self._log_derivative_sums(scores, mean_positions, arranged_scores, step)
        elif self._selects:
            grad, mass = self._selection_sums(scores, mean_positions, step)
        else:
            grad, mass = self._sliding_sums(scores, mean_positions, step)

        # Until here they are in the order of `_order`, flat indices of the documents: back to that
        # of the input.
        flat_grad = torch.empty_like(grad).index_put_((self._order,), grad)
        flat_mass = torch.empty_like(mass).index_put_((self._order,), mass)
        return self._finish(scores, flat_grad, flat_mass)

    def _log_derivative_sums(
        self, scores: Tensor, mean_positions: Tensor, arranged_scores: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of minus the metric and their masses (sums of absolute values),
        estimated by the log-derivative of the noise's density (REINFORCE): how much worse than
        without noise, times the noise.

        With a document's position ``x = score / sigma`` and standard normal noise ``Z``, the
        derivative of ``E[M(x + Z)]`` by ``x`` is ``E[M(x + Z) Z]``; by the score it is that over
        sigma, once. A baseline that does not depend on ``Z`` changes nothing but the variance.

        Args:
            scores: one per document; only their type and size matter here.
            mean_positions: positions without noise, with a shift by label, in arranged order.
            arranged_scores: the scores in the same order, without sigma and shift: the metric
                depends on nothing but the ranking, or on which scores are above 0.
            step: keys the noise.
        """
        grad, mass = torch.zeros_like(scores), torch.zeros_like(scores)
        baseline = self._metric(arranged_scores)
        for sample in range(self.loss.samples):
            noise = self._noise(step, sample)
            shortfall = baseline - self._metric(mean_positions + noise)
            factor = shortfall / (self.loss.sigma * self.loss.samples)
            # Minus the metric is what falls: a shortfall where the noise is positive adds.
            terms = factor[self.lists.query] * noise
            grad += terms.to(scores.dtype)
            mass += terms.abs().to(scores.dtype)
        return grad, mass

    def _selection_sums(
        self, scores: Tensor, mean_positions: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients and their masses (sums of absolute values) for DCG-RR, a metric
        of the documents with scores above 0: the jump of the metric where a document passes 0,
        times the density of its noise there.

        The density of a standard normal number at ``-x`` is ``_DENSITY_AT_0 exp(-x^2/2)``, where
        ``x`` is the document's position without noise, its score in units of sigma.
        """
        grad, mass = torch.zeros_like(scores), torch.zeros_like(scores)
        share = _DENSITY_AT_0 / (self.loss.sigma * self.loss.samples)
        for sample in range(self.loss.samples):
            _, jumps = self._selection(mean_positions + self._noise(step, sample))
            terms = share * torch.exp(-0.5 * mean_positions * mean_positions) * jumps
            # Minus: the loss is minus the metric.
            grad -= terms.to(scores.dtype)
            mass += terms.abs().to(scores.dtype)
        return grad, mass

    def _sliding_sums(
        self, scores: Tensor, mean_positions: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients and their masses (sums of absolute values) for a ranking metric, by
        sliding each document over the others of its list (coordinate conditional sampling).

        With the noisy positions of the others fixed, the metric is a step function of the
        document's own position; each step counts by the noise's density at it. Positions are scores
        in units of sigma.
        """
        lists = self.lists
        grad, mass = torch.zeros_like(scores), torch.zeros_like(scores)
        for sample in range(self.loss.samples):
            positions = mean_positions + self._noise(step, sample)
            by_rank, gains, place = lists.sort_descending(
                positions, self._gains, lists.flat_indices
            )
            # The kernel adds to ``grad`` and ``mass``. It slides over one rank beyond the cutoff:
            # that document moves up where another one leaves the first k. `_stops`: whether the
            # metric's reader stops at a document with the chance of its gain.
            lists.run_per_tile(
                _slide_kernel,
                by_rank,
                gains,
                place,
                mean_positions,
                self._drops,
                grad,
                mass,
                self._k + 1,
                self._stops,
                ROWS,
            )
        share = _DENSITY_AT_0 / (self.loss.sigma * self.loss.samples)
        # The loss is minus the metric.
        return -share * grad, share * mass

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the loss of each list: minus its weight times the mean of the metric over the
        noise draws of a step.
        """
        n_samples = self.loss.samples
        mean_positions = self._mean_positions(scores)
        total = torch.zeros(self.lists.count, dtype=torch.float64, device=scores.device)
        for sample in range(n_samples):
            noisy_positions = mean_positions + self._noise(step, sample)
            total += self._metric(noisy_positions)
        # `_scale`: the weight of each list, 0 where no document has a gain.
        mean_metric = (total / n_samples).to(scores.dtype)
        return -self._scale * mean_metric

    def _mean_positions(self, scores: Tensor) -> Tensor:
        """Return the mean of each document's noisy score in units of sigma, the noise's standard
        deviation, lowered by a shift for its label; in the order of `_order`, kept finite.
        """
        limit = _FAR[scores.dtype]
        positions = scores.double()[self._order] / self.loss.sigma - self._shift
        return positions.clamp(-limit, limit)

    def _noise(self, step: int, sample: int) -> Tensor:
        """Return standard normal noise, one number per document in the order of `_order`, for one
        sample of a training step.
        """
        stream = SMOOTHING_STREAM + 256 * sample
        noise = self.lists.noise("normal", self.seed, step, stream)
        return noise[self._order]

    def _selection(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the DCG-RR of each list when the documents at positions above 0 are shown, and by
        how much it changes for each document between hidden and shown.
        """
        gains = self._gains.double()
        # The kernel fills both; `_k` is the cutoff.
        jumps = torch.empty_like(gains)
        values = torch.empty(self.lists.count, dtype=gains.dtype, device=positions.device)
        self.lists.run_per_list(_selection_kernel, positions, gains, jumps, values, self._k)
        return values, jumps

    def _metric(self, positions: Tensor) -> Tensor:
        """Return the metric of each list, float64, with its documents ranked (or, for DCG-RR,
        shown) by their positions.
        """
        lists = self.lists
        # DCG-RR selects documents, those at positions above 0, instead of ranking all.
        if self._selects:
            values, _ = self._selection(positions)
            return values
        _, gains, _ = lists.sort_descending(positions, self._gains.double(), lists.arrangement)
        # Metrics like ERR: a gain is the chance that the reader stops at the document.
        if self._stops:
            gains = gains * chance_to_reach(lists, gains, self._k)
        rank_weights = self._weights.double()[lists.place_in_list]
        return lists.sums(gains * rank_weights)

    def _finish(self, scores: Tensor, grad: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients and hessians of the loss from raw estimates: without the part along
        the scores, and times the weights of the lists. `finish_queries` does it in memory.

        A loss that accelerates takes off each gradient the part along the scores: only the order
        of the scores matters, not their length.

        Args:
            scores: one per document.
            grad: estimated gradients of the metric.
            mass: sums of the absolute values of what was added up to the gradients.
        """
        loss, lists = self.loss, self.lists
        part_along_scores = torch.zeros_like(grad)
        if loss.accelerates:
            part_along_scores = self._part_along_scores(scores, grad)
        scale = self._scale[lists.query]
        # Without curvature the hessian of a document is the weight of its list.
        curvature = torch.ones_like(mass)
        if loss.follows_curvature:
            curvature = (mass + part_along_scores.abs()) / loss.sigma
        return scale * (grad - part_along_scores), scale * curvature

    def _part_along_scores(self, scores: Tensor, grad: Tensor) -> Tensor:
        """Return the projection of the gradient of each list on its scores ``z``:
        ``z (grad . z) / (|z| + nu)^2``, where ``nu`` keeps scores near 0 from dividing by 0.
        """
        loss, lists = self.loss, self.lists
        z = scores.double()
        # Scores beyond 1e150 have squares beyond float64: those lists are counted in another unit,
        # a power of two, which rounds nothing; nu is brought to the same unit.
        is_far = lists.maxima(z.abs()) > 1e140
        unit = torch.ones_like(is_far, dtype=z.dtype).masked_fill(is_far, 2.0**-600)
        z = z * unit[lists.query]
        # Where only the ranking counts, adding a constant to all scores changes nothing.
        if loss.ignores_shifts:
            means = lists.sums(z) / lists.sizes.clamp(min=1)
            z = z - means[lists.query]
        length = lists.sums(z * z).sqrt() + unit * loss.nu
        # Divided twice, since the square of the length may overflow.
        factor = lists.sums(grad.double() * z) / length / length
        return (factor[lists.query] * z).to(grad.dtype)


@triton.jit
def _policy_kernel(
    offsets, f_ptr, u_ptr, weights, logs, rewards, grad, values, k, BLOCK: tl.constexpr
):
    """Write the reward of one sampled ranking of each list and its policy gradient by the scores
    (PL-Rank-3), as `policy_gradients` in memory. One program takes one list.

    The policy is Plackett-Luce: the document of each rank is drawn with ``q = exp(f)`` over the sum
    of ``exp(f)`` of those not drawn yet. The reward is the sum of ``weight u`` over the first ``k``
    ranks. A walk up adds the logarithms of those sums and the rewards after each rank; a walk down
    adds what earlier draws make of each document's gradient.

    Args:
        offsets: where each list's documents begin, and the number of all.
        f_ptr, u_ptr: scores and gains, by rank.
        weights: one per rank.
        logs, rewards: space: the logarithm of the sum from a rank on, and the rewards after it.
        grad, values: receive one number per document, by rank, and one per list.
        k, BLOCK: ranks that count, and documents that are served together.
    """
    query, start, n = list_of_program(offsets)
    depth = tl.minimum(k, n)

    # The logarithm of the sum over the documents beyond the cutoff.
    top = largest_value(f_ptr, start + depth, n - depth, -1, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    for p0 in range(depth, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(f_ptr + start + p, p < n, float("-inf")) - top)
    # Of documents that are not drawn there may be none: a logarithm that adds nothing.
    log = tl.where(depth < n, top + tl.log(tl.sum(total, 0)), -1e308)

    # Up from the cutoff: log(exp(f) + exp(log)), and the rewards of the ranks below each one.
    reward = tl.full([], 0.0, tl.float64)
    for back in range(depth):
        at = start + depth - 1 - back
        f_of_rank = tl.load(f_ptr + at)
        log = tl.maximum(f_of_rank, log) + tl.log(1.0 + tl.exp(-tl.abs(f_of_rank - log)))
        tl.store(rewards + at, reward)
        reward += tl.load(weights + depth - 1 - back) * tl.load(u_ptr + at)
        tl.store(logs + at, log)
    tl.store(values + query, reward)
    tl.debug_barrier()  # what one thread has stored, all may read

    # Down from the top: sums over the draws so far, in units of the sum at the current rank.
    by_weight = tl.full([], 0.0, tl.float64)
    by_reward = tl.full([], 0.0, tl.float64)
    for rank in range(depth):
        gain = tl.load(u_ptr + start + rank)
        reward_after = tl.load(rewards + start + rank)
        next_log = tl.load(logs + start + rank)
        fall = tl.exp(next_log - log)
        log = next_log
        weight = tl.load(weights + rank)
        by_weight = weight + fall * by_weight
        by_reward = reward_after + weight * gain + fall * by_reward
        q = tl.exp(tl.load(f_ptr + start + rank) - log)
        tl.store(grad + start + rank, reward_after + q * (gain * by_weight - by_reward))

    # Documents that are not drawn may have been at every rank.
    for p0 in range(depth, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        q = tl.exp(tl.load(f_ptr + start + p, p < n, 0.0) - log)
        gain_of_undrawn = tl.load(u_ptr + start + p, p < n, 0.0)
        tl.store(grad + start + p, q * (gain_of_undrawn * by_weight - by_reward), p < n)


class DeviceSampled(DeviceObjective):
    """A loss of sampled rankings bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the rankings.
    """

    def __init__(self, loss: SampledLoss, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        metric = loss.metric
        if isinstance(metric, MAP):
            gains = self._map_gains(metric)
            weights = discount_values(max(lists.longest_length, 1), "reciprocal", metric.k)
        else:
            gains, weights = gains_and_rank_weights(metric, lists)  # type: ignore[arg-type]

        # From the metric's weights of ranks to the loss's, which may end at a cutoff, the depth.
        rank_weights = loss._rank_weights(weights)
        self._depth = rank_weights.size
        # One weight per rank of the longest list and one more: 0 beyond the cutoff.
        n_zeros = max(lists.longest_length + 1 - rank_weights.size, 1)
        self._weights = lists.to_device(np.pad(rank_weights, (0, n_zeros))).double()
        self._gains = gains.double()
        self._scale = lists.weights_where_any(gains)

    def _map_gains(self, metric: MAP) -> Tensor:
        """Return the gain of each document in average precision: 1 divided by the number of
        relevant documents of its list (or of those that the cutoff leaves room for), or 0.
        """
        lists = self.lists
        relevant = map_labels(lists.arranged_labels, metric._document_values)
        # With "reachable" no more relevant documents count than the cutoff has ranks.
        limit = metric.k if metric.k is not None and metric.divide_by == "reachable" else None
        divisors = lists.sums(relevant).clamp(min=1.0, max=limit)
        return relevant / divisors[lists.query]

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return the loss of each list, and its derivative by each score, as means over the same
        random rankings: those of the scores with noise added.
        """
        loss, lists = self.loss, self.lists
        exact_scores = scores.double()
        gradient = torch.zeros_like(exact_scores)
        values = torch.zeros_like(self._scale, dtype=torch.float64)
        if isinstance(loss, YetiLoss):
            stream, kind, spread = NEIGHBOUR_STREAM, loss.distribution, loss.spread
            of_ranking = self._neighbour_terms
        else:
            stream, kind, spread = POLICY_STREAM, "gumbel", 1.0
            of_ranking = self._policy_terms

        for sample in range(loss.samples):
            noise = lists.noise(kind, self.seed, step, stream + 256 * sample)
            noisy_scores = exact_scores + spread * noise
            _, gains, order = lists.rank(noisy_scores, self._gains)
            values_of_ranking, gradient_by_rank = of_ranking(exact_scores[order], gains)
            values += values_of_ranking
            gradient[order] += gradient_by_rank

        factor = self._scale.double() / loss.samples
        gradient = factor[lists.query] * gradient
        return (factor * values).to(scores.dtype), gradient.to(scores.dtype)

    def _neighbour_terms(self, scores: Tensor, gains: Tensor) -> tuple[Tensor, Tensor]:
        """Return YetiLoss of one random ranking of each list, and its derivative by each score.

        Each document meets the next one of the ranking. Their weight is how much the metric loses
        if they are swapped; their loss is ``weight log(1 + exp(-lead))``, where the lead is by how
        much the better one's score is above the other's.

        Args:
            scores: without noise, in the order of the ranking.
            gains: in the order of the ranking.
        """
        lists, metric = self.lists, self.loss.metric
        has_next = lists.place_in_list + 1 < lists.sizes[lists.query]
        gain_lead = torch.where(has_next, gains - gains.roll(-1), 0.0)
        rank_weights = torch.where(has_next, self._weights[lists.place_in_list], 0.0)
        weights = rank_weights * gain_lead.abs()
        if isinstance(metric, MAP):
            weights = weights * (1.0 + self._relevant_above(gains))
        elif getattr(metric, "stops", False):
            weights = weights * chance_to_reach(lists, gains, self._depth)

        better_is_first = gain_lead.sign()  # 1, -1, or 0 for equal gains
        lead = (scores - scores.roll(-1)) * better_is_first
        exponential = torch.exp(-lead.abs())
        push = (
            weights
            * better_is_first
            * torch.where(lead > 0, exponential, 1.0)
            / (1.0 + exponential)
        )
        # log(1 + exp(-lead)), which overflows for no lead.
        losses = torch.log1p(exponential) + (-lead).clamp(min=0.0)
        return lists.sums(weights * losses), push.roll(1) - push

    def _relevant_above(self, gains: Tensor) -> Tensor:
        """Return how many relevant documents are above each document of its list; a document is
        relevant if its gain is above 0.
        """
        lists = self.lists
        # Counted over all lists at once, then less the count where the document's list begins.
        relevant = (gains > 0).double()
        above_in_all = relevant.cumsum(0) - relevant  # also those of the lists before
        # An empty list at the end begins beyond the last document.
        starts = lists.offsets[:-1].clamp(max=max(above_in_all.numel() - 1, 0))
        above_at_start = above_in_all[starts]
        return above_in_all - above_at_start[lists.query]

    def _policy_terms(self, scores: Tensor, gains: Tensor) -> tuple[Tensor, Tensor]:
        """Return PL-Rank's loss of one random ranking of each list (minus its metric), and the
        derivative by each score; scores and gains are in the order of the ranking.
        """
        # The kernel fills all four: the derivative of the metric, two arrays that it works in, and
        # the metric of each list.
        rewards_gradient = torch.empty_like(scores)
        logs = torch.empty_like(scores)
        rewards = torch.empty_like(scores)
        values = torch.empty(self.lists.count, dtype=scores.dtype, device=scores.device)
        self.lists.run_per_list(
            _policy_kernel,
            scores,
            gains,
            self._weights,
            logs,
            rewards,
            rewards_gradient,
            values,
            self._depth,
            BLOCK,
        )
        # What is minimised is minus the metric.
        return -values, -rewards_gradient
