"""Losses checked on lists and on data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import choice, whole
from tautrank.arrays import F64
from tautrank.checks.checking import (
    BROKEN,
    CHECKS,
    DOES_NOT_APPLY,
    HOLDS,
    MEASURED,
    REFUTED,
    Check,
    Outcome,
    Theorem,
)
from tautrank.checks.samples import only_queries, synthetic_lists
from tautrank.data import Lists
from tautrank.errors import counted
from tautrank.losses import REGISTRY, Loss
from tautrank.progress import Progress, Silent
from tautrank.theory.theorem import Labelled, check_lists, check_scored_lists, float_labels


@dataclass(frozen=True)
class LossReport:
    """The outcomes of the checks for one loss; it prints one line per check.

    Args:
        loss: the loss.
        outcomes: one per check; only that of ``runs`` if the loss does not run on ordinary lists.

    >>> report = check_loss("mse", [1, 0], names=["shift", "weights"])
    >>> report
    mse
      shift does not apply: it is meant to depend on the scores themselves
      weights holds
    >>> report.summary, report["weights"].status
    ('mse: 1 law holds, 1 check does not apply', 'holds')
    """

    loss: Loss
    outcomes: tuple[Outcome, ...]

    def having(self, status: str) -> list[Outcome]:
        """Return the outcomes of one status: ``"holds"``, ``"broken"``, ``"refuted"``,
        ``"measured"`` or ``"does not apply"``.
        """
        return [outcome for outcome in self.outcomes if outcome.status == status]

    def __getitem__(self, check: str) -> Outcome:
        return {outcome.check: outcome for outcome in self.outcomes}[check]

    @property
    def holds(self) -> bool:
        """Whether no law and no theorem is broken."""
        return not self.having(BROKEN)

    @property
    def summary(self) -> str:
        """How many laws and theorems hold, how many are broken, and how many checks do not apply,
        in one line.
        """
        parts = []
        for status, verbs in (
            (BROKEN, ("is broken", "are broken")),
            (HOLDS, ("holds", "hold")),
            (REFUTED, ("is refuted", "are refuted")),
        ):
            for kind in ("law", "theorem", "measurement"):
                parts.append(_counted(self._count(status, kind), kind, verbs))
        parts.append(_counted(len(self.having(MEASURED)), "measurement"))
        parts.append(
            _counted(len(self.having(DOES_NOT_APPLY)), "check", ("does not apply", "do not apply"))
        )
        sentence = ", ".join(part for part in parts if part)
        return f"{self.loss}: {sentence}"

    def _count(self, status: str, kind: str) -> int:
        """Return the number of checks of a kind that have a status."""
        kinds = [CHECKS[outcome.check].kind for outcome in self.having(status)]
        return kinds.count(kind)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the outcomes as plain values by the name of the check; a number that is not finite
        is None.
        """
        return {outcome.check: _plain_outcome(outcome) for outcome in self.outcomes}

    def __repr__(self) -> str:
        return "\n".join([str(self.loss), *(f"  {outcome}" for outcome in self.outcomes)])


def _counted(n: int, noun: str, verbs: tuple[str, str] = ("", "")) -> str:
    """Take a number, a noun and a verb, and return them in words (with the first verb for one, the
    second for several); an empty text for the number 0.

    >>> _counted(2, "law", ("holds", "hold")), _counted(0, "law")
    ('2 laws hold', '')
    """
    if n == 0:
        return ""
    singular, plural = verbs
    verb = singular if n == 1 else plural
    return f"{counted(n, noun)} {verb}".rstrip()


def _plain_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a check as a dictionary of plain values, together with what the check
    states; a number that is not finite is None.
    """
    # Only theorems come from a paper and may have a known flaw.
    check = CHECKS[outcome.check]
    paper = check.paper if isinstance(check, Theorem) else ""
    flaw = check.flaw if isinstance(check, Theorem) else ""
    return {
        "kind": check.kind,
        "statement": check.statement,
        "paper": paper or None,
        "status": outcome.status,
        "margin": outcome.margin if math.isfinite(outcome.margin) else None,
        "value": outcome.value if math.isfinite(outcome.value) else None,
        "queries": outcome.queries,
        "detail": outcome.detail,
        "known_flaw": flaw or None,
    }


def check_loss(loss: Loss | str, lists: Labelled | None = None, **options: Any) -> LossReport:
    """Check one loss.

    Args:
        loss: the loss, or its name.
        lists: the data, as in `check_losses`.
        options: ``scores``, ``names``, ``queries``, ``seed`` and ``progress``, as in
            `check_losses`.

    >>> check_loss("listnet", names=["derivative", "zero-sum", "order"]).holds
    True
    """
    return check_losses([loss], lists, **options)[0]


def check_losses(
    losses: Iterable[Loss | str] | None = None,
    lists: Labelled | None = None,
    *,
    scores: ArrayLike | None = None,
    names: Iterable[str] | None = None,
    queries: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[LossReport]:
    """Check losses, also your own: laws that every loss must obey, measurements, and the papers'
    theorems.

    A law holds or is broken; a theorem applies to a loss or does not, and holds where it applies; a
    measurement is a number. A few statements are known to be wrong as their papers print them:
    these are refuted where they do not hold, which says nothing against the loss.

    Laws are checked on small synthetic lists with ties, empty queries and extreme scores. Most
    other checks, and the laws that any lists can break, are checked on the data. The outcome of a
    check is the worst one over several scorings of the data: the given scores (or a draw from N(0,
    1)), equal scores, the labels upside down, the scores a hundred times as far apart and as near,
    the labels themselves, and another draw.

    A loss that raises an error breaks the check. A check does not apply only where its own
    condition says so.

    Args:
        losses: losses, or their names; None for every registered one. A loss of your own need not
            be registered.
        lists: the labelled lists, see `tautrank.theory`; None for synthetic web search.
        scores: one finite number per document.
        names: names of checks; None for all.
        queries: largest number of queries to look at, taken at regular distances; None for all.
        seed: seed of the data and of the scores that are drawn.
        progress: what is told before each check and at the end how many checks are done, and the
            name of the next one.

    >>> some = ["order", "xe-ndcg"]
    >>> for report in check_losses(["lambdarank", "xendcg"], [2, 0, 1], names=some):
    ...     print(report.summary)
    lambdarank: 1 law holds, 1 check does not apply
    xendcg: 1 law holds, 1 theorem holds
    """
    if losses is None:
        losses = REGISTRY
    subjects = [REGISTRY.make(loss) for loss in losses]
    checks = []
    for name in CHECKS if names is None else names:
        checks.append(CHECKS[choice("check", name, tuple(CHECKS))])
    data = _scored_data(lists, scores, queries, seed)

    progress = progress or Silent()
    n_checks = len(subjects) * len(checks)
    reports: list[LossReport] = []
    for loss in subjects:
        runs = CHECKS["runs"].outcome(loss, *synthetic_lists())
        if runs.status == BROKEN:
            reports.append(LossReport(loss, (runs,)))
            continue
        outcomes: list[Outcome] = []
        for check in checks:
            n_done = len(reports) * len(checks) + len(outcomes)
            progress.update(n_done, n_checks, f"{loss}: {check.name}")
            outcomes.append(_worst_outcome(check, loss, data))
        reports.append(LossReport(loss, tuple(outcomes)))
    progress.update(n_checks, n_checks, "")
    return reports


class _ScoredData(NamedTuple):
    """Lists, and several scores for each of their documents.

    Attributes:
        lists: the lists.
        scorings: arrays of scores; the first is the user's, or drawn.
    """

    lists: Lists
    scorings: list[F64]


def _scored_data(
    lists: Labelled | None, scores: ArrayLike | None, n_queries: int | None, seed: int
) -> _ScoredData:
    """Return several scorings of the same lists, or of some of their queries."""
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    if lists is None:
        from tautrank.simulate import simulate_web_search

        lists = simulate_web_search(200, n_features=16, mean_length=20, seed=seed)
    lists = check_lists(lists)
    first = rng.normal(size=lists.n_documents)
    if scores is not None:
        first, _ = check_scored_lists(scores, lists)
    if n_queries is not None and whole("queries", n_queries, 1) < lists.n_queries:
        is_kept = np.zeros(lists.n_queries, bool)
        at_distances = np.linspace(0, lists.n_queries - 1, n_queries)
        is_kept[at_distances.astype(np.int64)] = True
        first, lists = only_queries(first, lists, is_kept)
    second = rng.normal(size=lists.n_documents)

    equal = np.zeros_like(first)
    labels = float_labels(lists)
    scorings = [first, equal, -labels, 100.0 * first, 0.01 * first, labels, second]
    return _ScoredData(lists, scorings)


def _worst_outcome(check: Check, loss: Loss, data: _ScoredData) -> Outcome:
    """Run a check of a loss on all lists that it is for, and return the worst of the outcomes.

    ``check.on`` is "data", "synthetic" or "both"; a check with ``once`` needs only the first of the
    scorings. ``check.rank`` sorts the worst outcome first; of equals the first one counts.
    """
    outcomes = []
    if check.on != "data":
        # Small lists make the better counterexample, so theirs comes first.
        # Outcomes count the queries of the data: of synthetic lists none.
        on_synthetic = check.outcome(loss, *synthetic_lists())
        outcomes.append(on_synthetic._replace(queries=0))
    if check.on != "synthetic":
        for scores in data.scorings[:1] if check.once else data.scorings:
            outcomes.append(check.outcome(loss, scores, data.lists))
    worst = min(outcomes, key=check.rank)
    return worst._replace(queries=outcomes[-1].queries)
