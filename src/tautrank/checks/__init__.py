"""What can be said of a loss: laws that it must obey, theorems that may be about it, and
measurements, in one registry.
"""

from tautrank.checks import laws as laws  # these modules enter their checks, in this order
from tautrank.checks import measurements as measurements

from tautrank.checks import theorems as theorems  # isort: skip
from tautrank.checks.checking import (
    CHECKS,
    Check,
    Law,
    Measurement,
    Outcome,
    Theorem,
    law,
    measurement,
    theorem,
)
from tautrank.checks.reports import LossReport, check_loss, check_losses

__all__ = [
    "CHECKS",
    "Check",
    "Law",
    "LossReport",
    "Measurement",
    "Outcome",
    "Theorem",
    "check_loss",
    "check_losses",
    "law",
    "measurement",
    "theorem",
]
