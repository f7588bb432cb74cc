"""Two tests of the same advantage: the paper's own, and one that counts what the trials have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.divide import FixedParts, Protocol
from tautrank.papers.study import PaperTest, Study
from tautrank.significance.paired import corrected_resampled_t_test, holm, paired_t_test, t_tail
from tautrank.significance.repeated import repeated_runs_test

AGREES, DOES_NOT, UNDECIDED = "agrees", "does not agree", "not decidable"


@dataclass(frozen=True, eq=False)
class Advantage:
    """What should be positive, in every trial.

    Args:
        trials: one number per trial.
        queries: for each trial one number per query, NaN if it is skipped; None if a trial's number is not a mean over
            its queries.
        sides: the values of two systems, one per trial, if the advantage is their difference.
    """

    trials: F64
    queries: Sequence[F64] | None = None
    sides: tuple[F64, F64] | None = None

    @property
    def mean(self) -> float:
        """The mean over the trials; NaN without any."""
        return float(self.trials.mean()) if self.trials.size else math.nan


@dataclass(frozen=True)
class Judgement:
    """The outcome of a test.

    Args:
        test: its name.
        p_value: NaN if there is too little to test.
        verdict: ``agrees``, ``does not agree`` or ``not decidable``.
    """

    test: str
    p_value: float
    verdict: str


def own_test(advantage: Advantage, test: PaperTest) -> Judgement:
    """Judge as the paper did.

    Two intervals at level a, each the mean ± t(a) standard errors, touch where the difference of the means is no more
    than t(a) times the sum of the standard errors; the p-value is the level at which they just touch.

    Args:
        advantage: the advantage of the system that should win.
        test: the paper's test.

    >>> advantage = Advantage(np.array([0.25, 0.25, 0.5]))
    >>> round(own_test(advantage, PaperTest(level=0.1)).p_value, 4), own_test(advantage, PaperTest(level=0.1)).verdict
    (0.0572, 'agrees')
    """
    alternative = "greater" if test.one_sided else "two-sided"
    d = advantage.trials
    name = "paired t-test over trials"
    if test.over == "queries" and advantage.queries is not None:
        name = "paired t-test over the queries of the first trial"
        d = advantage.queries[0] if len(advantage.queries) else np.zeros(0)
        d = d[~np.isnan(d)]
    if d.size < 2:
        return Judgement(name, math.nan, UNDECIDED)
    if test.kind == "intervals" and advantage.sides is not None and test.over == "trials":
        name = "intervals over trials"
        errors = sum(float(np.std(side, ddof=1)) / math.sqrt(side.size) for side in advantage.sides)
        mean = advantage.mean
        t = mean / errors if errors else math.copysign(math.inf, mean) if mean else 0.0
        p = t_tail(t, d.size - 1, "two-sided")
    else:
        p = paired_t_test(d, np.zeros_like(d), alternative).p_value  # type: ignore[arg-type]
    return Judgement(name, p, _verdict(p, float(d.mean()), test.level, test.one_sided))


def corrected_test(advantage: Advantage, protocol: Protocol, level: float, overlap: float) -> Judgement:
    """Judge by a test that counts what the trials share.

    Trials that draw their queries again share most of their training data: Nadeau and Bengio's corrected resampled
    t-test. Trials on the same test queries share those: the repeated-runs test, over queries and trials. Trials on all
    queries there are, or without any data, leave only the trials to chance: the t-test.

    Args:
        advantage: the advantage of the system that should win.
        protocol: the protocol of the study.
        level: the significance level.
        overlap: held out over trained on, if trials draw their training data again.

    >>> from tautrank.experiments.divide import Resampling
    >>> advantage = Advantage(np.array([1.0, 2.0, 3.0]))
    >>> corrected_test(advantage, Resampling(), 0.05, 1 / 3)
    Judgement(test='corrected resampled t-test', p_value=0.1339..., verdict='not decidable')
    """
    d, p = advantage.trials, math.nan
    if isinstance(protocol, FixedParts) and advantage.queries is not None:
        name, both = "repeated-runs test", np.array(advantage.queries)
        if d.size and np.count_nonzero(~np.isnan(both).any(axis=0)) > 1:
            p = repeated_runs_test(both, np.where(np.isnan(both), np.nan, 0.0), overlap=overlap).p_value
    elif overlap:
        name = "corrected resampled t-test"
        if d.size > 1:
            p = corrected_resampled_t_test(d, n_train=1.0, n_test=overlap).p_value
    else:
        name = "t-test over trials"
        if d.size > 1:
            p = paired_t_test(d, np.zeros_like(d)).p_value
    return Judgement(name, p, _verdict(p, advantage.mean, level))


def judge(advantages: Sequence[Advantage], study: Study, overlap: float) -> list[tuple[Judgement, Judgement]]:
    """Judge each by both tests; the corrected one counts all of the comparisons, by Holm's method.

    Args:
        advantages: one per comparison.
        study: the study, with the paper's test and the protocol.
        overlap: held out over trained on, if trials draw their training data again.
    """
    if not advantages:
        return []
    corrected = [corrected_test(advantage, study.protocol, study.test.level, overlap) for advantage in advantages]
    adjusted = holm([judgement.p_value for judgement in corrected]).tolist()
    return [
        (own_test(advantage, study.test), Judgement(of.test, p, _verdict(p, advantage.mean, study.test.level)))
        for advantage, of, p in zip(advantages, corrected, adjusted, strict=True)
    ]


def _verdict(p: float, mean: float, level: float, one_sided: bool = False) -> str:
    if math.isnan(p):
        return UNDECIDED
    if one_sided:
        return AGREES if p <= level else DOES_NOT if 1 - p <= level else UNDECIDED
    if p > level or mean == 0:
        return UNDECIDED
    return AGREES if mean > 0 else DOES_NOT
