"""What training leaves of a ranker."""

from __future__ import annotations

from typing import NamedTuple

from tautrank.data.frames import Levels
from tautrank.data.ranking_data import Names
from tautrank.engines import FittedModel, Record
from tautrank.ranker.list_features import ListFeatures


class Fitted(NamedTuple):
    """What a ranker has after training.

    Args:
        model: the trees or the network.
        record: the history of the training.
        feature_names: names of the features; None if the data had none.
        list_features: the list features, with columns by number; None if there are none.
        categories: levels of the columns that held categories, by name.
    """

    model: FittedModel
    record: Record
    feature_names: Names
    list_features: ListFeatures | None
    categories: Levels

    @property
    def n_features(self) -> int:
        """Number of features of the data, list features not counted."""
        added = 0 if self.list_features is None else self.list_features.width
        return self.model.n_features - added
