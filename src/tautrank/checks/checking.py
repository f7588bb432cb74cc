"""Check several losses against every claim, on given lists and on scores made up for the purpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import whole
from tautrank.checks.laws import stopped
from tautrank.checks.theorems import DOES_NOT_APPLY, FAILS, HOLDS, Outcome, check_claims, only_queries, wanted_claims
from tautrank.errors import TautrankError
from tautrank.losses import REGISTRY, Loss
from tautrank.losses import loss as loss_named
from tautrank.losses.base import Lists
from tautrank.metrics.ordering import F64
from tautrank.theory.distributions import check_scored_lists

Progress = Callable[[int, int, str], None]
"""Called with how many checks are done, how many there are, and what comes next."""


@dataclass(frozen=True)
class LossCheck:
    """What came of every claim for one loss.

    Args:
        loss: the loss.
        outcomes: one a claim.

    >>> check_losses([1, 0], [0, 2], ["mse"], names=["shift", "finite"])
    [mse: 1 claim holds, 0 fail, 1 does not apply]
    """

    loss: Loss
    outcomes: tuple[Outcome, ...]

    def having(self, status: str) -> list[Outcome]:
        """The outcomes of one status.

        Args:
            status: ``"holds"``, ``"fails"`` or ``"does not apply"``.
        """
        return [outcome for outcome in self.outcomes if outcome.status == status]

    def __repr__(self) -> str:
        held, failed, silent = (len(self.having(status)) for status in (HOLDS, FAILS, DOES_NOT_APPLY))
        words = (
            f"{held} claim holds" if held == 1 else f"{held} claims hold",
            f"{failed} fails" if failed == 1 else f"{failed} fail",
            f"{silent} does not apply" if silent == 1 else f"{silent} do not apply",
        )
        return f"{self.loss}: {', '.join(words)}"


def check_losses(
    labels: ArrayLike,
    offsets: ArrayLike,
    losses: Iterable[Loss | str] | None = None,
    *,
    scores: ArrayLike | None = None,
    names: Iterable[str] | None = None,
    queries: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[LossCheck]:
    """Check losses by every claim, each one at the worst of several scorings.

    The scorings are the given one, or one drawn from N(0, 1), with the harder ones that `check_claims` makes of it; the
    labels' own order, ties included; and another draw. A claim that a loss of your own stops with an error fails, and
    says with which; one that it refuses, in a sentence of this library, does not apply.

    Args:
        labels: one finite number of at least 0 a document.
        offsets: where each query starts, and the number of documents at the end.
        losses: losses, or their names; None for every registered one.
        scores: one finite number a document.
        names: of the claims; None for all.
        queries: look at no more than so many, at regular distances; None for all.
        seed: of the scores that are drawn.
        progress: is told how far it is.

    >>> names = ["derivative", "xe-ndcg"]
    >>> for check in check_losses([2, 0, 1, 0, 1], [0, 3, 5], ["lambdarank", "xendcg"], names=names):
    ...     print(check)
    lambdarank: 1 claim holds, 0 fail, 1 does not apply
    xendcg: 1 claim holds, 0 fail, 1 does not apply
    """
    lists = Lists.of(labels, offsets, None)
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    first = rng.normal(size=lists.labels.size)
    if scores is not None:
        first, _ = check_scored_lists(scores, lists.labels, lists.offsets)
    if queries is not None and whole("queries", queries, 1) < lists.sizes.size:
        kept = np.zeros(lists.sizes.size, bool)
        kept[np.linspace(0, kept.size - 1, queries).astype(np.int64)] = True
        first, lists = only_queries(first, lists, kept)
    more = [lists.labels, rng.normal(size=lists.labels.size)]
    given = REGISTRY if losses is None else losses
    chosen = [loss_named(item) for item in given]
    wanted = wanted_claims(names)
    checks: list[LossCheck] = []
    total = len(chosen) * len(wanted)
    for item in chosen:
        outcomes: list[Outcome] = []
        for name in wanted:
            if progress is not None:
                progress(len(checks) * len(wanted) + len(outcomes), total, f"{item}: {name}")
            outcomes.append(_checked(item, name, first, more, lists))
        checks.append(LossCheck(item, tuple(outcomes)))
    if progress is not None:
        progress(total, total, "")
    return checks


def _checked(loss: Loss, name: str, scores: F64, more: Sequence[F64], lists: Lists) -> Outcome:
    try:
        return check_claims(loss, scores, lists.labels, lists.offsets, [name], more)[0]
    except TautrankError as error:
        return Outcome(name, DOES_NOT_APPLY, math.nan, str(error))
    except Exception as error:
        # The loss may be anybody's code, and what is wrong with it is what was asked for.
        return Outcome(name, FAILS, -math.inf, stopped(error))
