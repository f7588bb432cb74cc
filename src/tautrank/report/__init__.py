"""Results as people read them: tables, figures, pages."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def writer_of(result: Any) -> ModuleType:
    """Return the module that writes this kind of result: ``tables``, ``reading``, ``to_text`` and so on.

    Args:
        result: a `tautrank.Result`.
    """
    from tautrank.experiments.search import Tuning
    from tautrank.report import tables, tuning

    return tuning if isinstance(result, Tuning) else tables
