"""Files of models that are not what they should be."""

from __future__ import annotations


class DamagedModelError(ValueError):
    """Part of a model contradicts another part; whoever reads the file tells the user."""


DAMAGE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""What is raised on the way where a file is not what it should be."""
