"""The scikit-learn estimator, what it answers, and its model file."""

from typing import TYPE_CHECKING, Any

from tautrank.ranker.list_features import ListFeatures
from tautrank.ranker.ranking import Ranking

if TYPE_CHECKING:
    from tautrank.ranker.estimator import Ranker


def __getattr__(name: str) -> Any:
    if name == "Ranker":  # needs scikit-learn, which takes a second to import
        from tautrank.ranker.estimator import Ranker

        return Ranker
    raise AttributeError(f"module 'tautrank.ranker' has no attribute '{name}'")


__all__ = ["ListFeatures", "Ranker", "Ranking"]
