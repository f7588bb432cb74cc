"""The papers' tables and figures, declared as studies; how to declare one: `tautrank.papers.study`."""

from tautrank.experiments.divide import FixedParts as FixedParts
from tautrank.experiments.divide import OnItself as OnItself
from tautrank.experiments.divide import OwnFolds as OwnFolds
from tautrank.experiments.divide import Resampling as Resampling
from tautrank.experiments.plan import Budget as Budget
from tautrank.experiments.plan import Condition as Condition
from tautrank.papers.catalogue import CATALOGUE as CATALOGUE
from tautrank.papers.catalogue import find_study as find_study
from tautrank.papers.claims import Better as Better
from tautrank.papers.claims import BetterUnder as BetterUnder
from tautrank.papers.claims import Converges as Converges
from tautrank.papers.claims import GapGrows as GapGrows
from tautrank.papers.claims import LeadsEarly as LeadsEarly
from tautrank.papers.claims import Reaches as Reaches
from tautrank.papers.results import StudyResult as StudyResult
from tautrank.papers.results import read_results as read_results
from tautrank.papers.run import run_study as run_study
from tautrank.papers.study import OTHER_DATA as OTHER_DATA
from tautrank.papers.study import PaperTest as PaperTest
from tautrank.papers.study import Printed as Printed
from tautrank.papers.study import Recipe as Recipe
from tautrank.papers.study import Study as Study
