"""Parameters of a ranker under the names that they have in model files and stores of version 0.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STORED_NAMES = {"cross_validate_trees": "refit"}
_PRESENT_NAMES = {stored: present for present, stored in _STORED_NAMES.items()}


def with_stored_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters under the names that finished trainings are found by in a store.

    >>> with_stored_names({"cross_validate_trees": True, "num_leaves": 7})
    {'refit': True, 'num_leaves': 7}
    """
    return {_STORED_NAMES.get(name, name): value for name, value in parameters.items()}


def with_present_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters under the names that `Ranker` takes.

    >>> with_present_names({"refit": True, "num_leaves": 7})
    {'cross_validate_trees': True, 'num_leaves': 7}
    """
    return {_PRESENT_NAMES.get(name, name): value for name, value in parameters.items()}
