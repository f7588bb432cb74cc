"""Check losses on synthetic lists and on data, and report one outcome per check."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import choice, whole
from tautrank.checks.laws import synthetic_lists
from tautrank.checks.registry import CHECKS, DOES_NOT_APPLY, FAILS, HOLDS, Check, Outcome, only_queries
from tautrank.losses import REGISTRY, Loss
from tautrank.losses import loss as loss_named
from tautrank.losses.base import Lists
from tautrank.metrics.ordering import F64
from tautrank.theory.distributions import check_scored_lists

Progress = Callable[[int, int, str], None]
"""Called with the number of checks done, the number of all checks, and the name of the next one."""


@dataclass(frozen=True)
class LossReport:
    """The outcomes of the checks for one loss; it prints one line per check.

    Args:
        loss: the loss.
        outcomes: one per check; only that of ``runs`` if the loss does not run on ordinary lists.

    >>> report = check_loss("mse", [1, 0], [0, 2], names=["shift", "weights"])
    >>> report
    mse
      shift does not apply: it is meant to depend on the scores themselves
      weights holds
    >>> report.summary, report["weights"].status
    ('mse: 1 check holds, 0 fail, 1 does not apply', 'holds')
    """

    loss: Loss
    outcomes: tuple[Outcome, ...]

    def having(self, status: str) -> list[Outcome]:
        """Return the outcomes of one status: ``"holds"``, ``"fails"`` or ``"does not apply"``."""
        return [outcome for outcome in self.outcomes if outcome.status == status]

    def __getitem__(self, check: str) -> Outcome:
        return {outcome.check: outcome for outcome in self.outcomes}[check]

    @property
    def holds(self) -> bool:
        """Whether no check fails."""
        return not self.having(FAILS)

    @property
    def summary(self) -> str:
        """How many checks hold, fail and do not apply, in one line."""
        held, failed, silent = (len(self.having(status)) for status in (HOLDS, FAILS, DOES_NOT_APPLY))
        words = (
            f"{held} check holds" if held == 1 else f"{held} checks hold",
            f"{failed} fails" if failed == 1 else f"{failed} fail",
            f"{silent} does not apply" if silent == 1 else f"{silent} do not apply",
        )
        return f"{self.loss}: {', '.join(words)}"

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the outcomes as plain values by the name of the check; a margin that is not finite is None."""
        return {
            outcome.check: {
                "statement": CHECKS[outcome.check].statement,
                "paper": CHECKS[outcome.check].paper or None,
                "status": outcome.status,
                "margin": outcome.margin if math.isfinite(outcome.margin) else None,
                "queries": outcome.queries,
                "detail": outcome.detail,
                "known_flaw": CHECKS[outcome.check].flaw or None,
            }
            for outcome in self.outcomes
        }

    def __repr__(self) -> str:
        return "\n".join([str(self.loss), *(f"  {outcome}" for outcome in self.outcomes)])


def check_loss(
    loss: Loss | str, labels: ArrayLike | None = None, offsets: ArrayLike | None = None, **options: Any
) -> LossReport:
    """Check one loss.

    Args:
        loss: the loss, or its name.
        labels, offsets: the data, as in `check_losses`.
        options: ``scores``, ``names``, ``queries``, ``seed`` and ``progress``, as in `check_losses`.

    >>> check_loss("listnet", names=["derivative", "zero-sum", "order"]).holds
    True
    """
    return check_losses([loss], labels, offsets, **options)[0]


def check_losses(
    losses: Iterable[Loss | str] | None = None,
    labels: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
    *,
    scores: ArrayLike | None = None,
    names: Iterable[str] | None = None,
    queries: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[LossReport]:
    """Check losses, yours included: laws that every loss obeys, measurements, and the papers' theorems.

    Laws are checked on small synthetic lists with ties, empty queries and extreme scores; most other checks, and the
    laws that any lists can show to be broken, on the data. The outcome of a check is the worst one over several
    scorings of the data: the given scores (or a draw from N(0, 1)), equal scores, the labels upside down, the scores a
    hundred times as far apart and as near, the labels themselves, and another draw.

    A loss that raises an error fails the check. A check does not apply only where its own condition says so.

    Args:
        losses: losses, or their names; None for every registered one. A loss of your own need not be registered.
        labels: one finite number of at least 0 per document; None for synthetic web search.
        offsets: start of each query, and the number of documents at the end.
        scores: one finite number per document.
        names: names of checks; None for all.
        queries: largest number of queries to look at, taken at regular distances; None for all.
        seed: seed of the data and of the scores that are drawn.
        progress: called before each check and at the end.

    >>> for report in check_losses(["lambdarank", "xendcg"], [2, 0, 1, 0, 1], [0, 3, 5], names=["order", "xe-ndcg"]):
    ...     print(report.summary)
    lambdarank: 1 check holds, 0 fail, 1 does not apply
    xendcg: 2 checks hold, 0 fail, 0 do not apply
    """
    chosen = [loss_named(item) for item in (REGISTRY if losses is None else losses)]
    wanted = [CHECKS[choice("check", name, tuple(CHECKS))] for name in (CHECKS if names is None else names)]
    scorings, lists = _data(labels, offsets, scores, queries, seed)
    tell = progress or (lambda done, total, name: None)
    total = len(chosen) * len(wanted)
    reports: list[LossReport] = []
    for loss in chosen:
        runs = CHECKS["runs"].outcome(loss, *synthetic_lists())
        outcomes = [runs] if runs.status == FAILS else []
        for each in wanted if not outcomes else ():
            tell(len(reports) * len(wanted) + len(outcomes), total, f"{loss}: {each.name}")
            outcomes.append(_worst(each, loss, scorings, lists))
        reports.append(LossReport(loss, tuple(outcomes)))
    tell(total, total, "")
    return reports


def _data(
    labels: ArrayLike | None, offsets: ArrayLike | None, scores: ArrayLike | None, queries: int | None, seed: int
) -> tuple[list[F64], Lists]:
    """Return several scorings of the same lists."""
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    if labels is None or offsets is None:
        from tautrank.simulate import simulate_web_search

        data = simulate_web_search(200, n_features=16, mean_length=20, seed=seed)
        labels, offsets = data.labels, data.offsets
    lists = Lists.of(labels, offsets, None)
    first = rng.normal(size=lists.labels.size)
    if scores is not None:
        first, _ = check_scored_lists(scores, lists.labels, lists.offsets)
    if queries is not None and whole("queries", queries, 1) < lists.sizes.size:
        kept = np.zeros(lists.sizes.size, bool)
        kept[np.linspace(0, kept.size - 1, queries).astype(np.int64)] = True
        first, lists = only_queries(first, lists, kept)
    second = rng.normal(size=lists.labels.size)
    return [first, np.zeros_like(first), -lists.labels, 100.0 * first, 0.01 * first, lists.labels, second], lists


def _worst(check: Check, loss: Loss, scorings: list[F64], lists: Lists) -> Outcome:
    """Return the worst outcome over the lists that a check is for."""
    outcomes = []
    if check.on != "data":
        # Small lists make the better counterexample, so theirs comes first.
        outcomes.append(dataclasses.replace(check.outcome(loss, *synthetic_lists()), queries=0))
    if check.on != "synthetic":
        outcomes += [check.outcome(loss, scores, lists) for scores in scorings[: 1 if check.once else None]]
    order = (FAILS, HOLDS, DOES_NOT_APPLY)
    worst = min(outcomes, key=lambda o: (order.index(o.status), math.inf if math.isnan(o.margin) else o.margin))
    return dataclasses.replace(worst, queries=outcomes[-1].queries)
