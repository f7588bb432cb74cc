"""LightGBM's own model text, with the names of the features in it."""

from __future__ import annotations

import itertools
import re

from tautrank.engines.lightgbm import LightGBMModel
from tautrank.engines.packages import package
from tautrank.errors import OptionError
from tautrank.export.base import Export

# LightGBM separates names by spaces, and writes them into JSON unescaped.
_FORBIDDEN = ' ",:[]{}='


def lightgbm_text(export: Export) -> str:
    """Return what ``lightgbm.Booster(model_file=...)`` reads; its ``predict(X, raw_score=True)`` gives the scores.

    Args:
        export: the model to write; where no names are known, LightGBM's ``Column_0, Column_1, ...`` stay.
    """
    model, names = export.model, export.names
    if not isinstance(model, LightGBMModel):
        raise OptionError(
            f"format: found lightgbm for a model trained by {model.tool}; expected one trained by lightgbm"
        )
    text = model.to_text()
    if not export.named:
        return text
    for name, character in itertools.product(names, _FORBIDDEN):
        if character in name:
            raise OptionError(f"features: LightGBM cannot read the name '{name}'; expected names without '{character}'")
    text = re.sub(
        r"^feature_names=.*$", lambda _: "feature_names=" + " ".join(names), text, count=1, flags=re.MULTILINE
    )
    # LightGBM writes the names once more, with what they have gained.
    return str(package("lightgbm").Booster(model_str=text).model_to_string(num_iteration=-1))
