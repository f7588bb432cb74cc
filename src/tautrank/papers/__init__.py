"""The papers' tables and figures, declared as studies; how to declare one: `tautrank.papers.study`.

The names below are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tautrank.experiments.divide import FixedParts, OnItself, OwnFolds, Resampling
    from tautrank.experiments.plan import Budget, Condition
    from tautrank.papers.catalogue import CATALOGUE, find_study
    from tautrank.papers.claims import Better, BetterUnder, Converges, GapGrows, LeadsEarly, Reaches
    from tautrank.papers.results import StudyResult, read_results
    from tautrank.papers.run import run_study
    from tautrank.papers.study import OTHER_DATA, PaperTest, Printed, Recipe, Study

_MODULES = {
    "experiments.divide": ("FixedParts", "OnItself", "OwnFolds", "Resampling"),
    "experiments.plan": ("Budget", "Condition"),
    "papers.catalogue": ("CATALOGUE", "find_study"),
    "papers.claims": ("Better", "BetterUnder", "Converges", "GapGrows", "LeadsEarly", "Reaches"),
    "papers.results": ("StudyResult", "read_results"),
    "papers.run": ("run_study",),
    "papers.study": ("OTHER_DATA", "PaperTest", "Printed", "Recipe", "Study"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"tautrank.{module}"), name)
    raise AttributeError(f"module 'tautrank.papers' has no attribute '{name}'")


__all__ = [
    "CATALOGUE",
    "OTHER_DATA",
    "Better",
    "BetterUnder",
    "Budget",
    "Condition",
    "Converges",
    "FixedParts",
    "GapGrows",
    "LeadsEarly",
    "OnItself",
    "OwnFolds",
    "PaperTest",
    "Printed",
    "Reaches",
    "Recipe",
    "Resampling",
    "Study",
    "StudyResult",
    "find_study",
    "read_results",
    "run_study",
]
