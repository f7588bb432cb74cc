"""The papers' tables and figures, declared as studies; how to declare one:
`tautrank.papers.study`.
"""

from tautrank.experiments.plan import Budget, Condition
from tautrank.experiments.protocols import FixedParts, OnItself, OwnFolds, Resampling
from tautrank.papers.catalogue import CATALOGUE, find_study
from tautrank.papers.claims import Better, BetterUnder, Converges, GapGrows, LeadsEarly, Reaches
from tautrank.papers.results import StudyResult, read_results
from tautrank.papers.run import run_study
from tautrank.papers.study import OTHER_DATA, PaperTest, Printed, Recipe, Study

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
