"""Versions of tautrank that give the same results, so that one finds the finished trials of another."""

from __future__ import annotations

SAME_RESULTS = ("0.2.0", "0.3.0")
"""The versions whose trials give the same numbers as those of this one, the oldest first."""


def results_version(version: str) -> str:
    """Return the version that a trial's specification names: the first one with the same results.

    >>> results_version("0.3.0"), results_version("0.1.0")
    ('0.2.0', '0.1.0')
    """
    return SAME_RESULTS[0] if version in SAME_RESULTS else version
