"""Every property that a loss must have: laws and theorems."""

from __future__ import annotations

from tautrank.checks import smoothing_theorems as smoothing_theorems  # enters its claims
from tautrank.checks.checking import LossCheck, check_losses
from tautrank.checks.laws import check_laws
from tautrank.checks.theorems import CLAIMS, Claim, Outcome, check_claims, claim

__all__ = ["CLAIMS", "Claim", "LossCheck", "Outcome", "check_claims", "check_laws", "check_losses", "claim"]
