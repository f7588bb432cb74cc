"""Every property that a loss must have, laws and the papers' theorems, in one registry."""

from tautrank.checks import laws as laws  # these modules enter their checks
from tautrank.checks import theorems as theorems
from tautrank.checks.checking import (
    CHECKS,
    Check,
    LossReport,
    Outcome,
    check,
    check_loss,
    check_losses,
)

__all__ = ["CHECKS", "Check", "LossReport", "Outcome", "check", "check_loss", "check_losses"]
