"""LightGBM's own text."""

from __future__ import annotations

import re

from tautrank.engines.lightgbm import LightGBMModel
from tautrank.engines.packages import package
from tautrank.errors import OptionError
from tautrank.export.formats import Export

# LightGBM separates names by spaces, and writes them into JSON unescaped.
_FORBIDDEN = ' ",:[]{}='


def lightgbm_text(export: Export) -> str:
    """Return a model that LightGBM trained as LightGBM's own text, with the names of the features.

    ``lightgbm.Booster(model_file=...)`` reads it, and its ``predict(X, raw_score=True)`` gives the
    ranker's scores.

    Args:
        export: the model to write; where no names are known, LightGBM's ``Column_0, Column_1, ...``
            stay.
    """
    if not isinstance(export.model, LightGBMModel):
        raise OptionError(
            f"format: found lightgbm for a model trained by {export.model.tool}; "
            "expected one trained by lightgbm"
        )
    text = export.model.to_text()
    if not export.has_known_names:
        return text

    for name in export.names:
        _check_name(name)
    line_of_names = f"feature_names={' '.join(export.names)}"
    # A function, since a text would lose the backslashes of names.
    text = re.sub(r"^feature_names=.*$", lambda _match: line_of_names, text, count=1, flags=re.M)
    # The importances at the end of the text have names too: LightGBM itself writes it anew.
    booster = package("lightgbm").Booster(model_str=text)
    # -1: all trees, not only those up to the best iteration.
    return str(booster.model_to_string(num_iteration=-1))


def _check_name(name: str) -> None:
    """Refuse a name of a feature that LightGBM cannot read."""
    for character in _FORBIDDEN:
        if character in name:
            raise OptionError(
                f"features: LightGBM cannot read the name '{name}'; "
                f"expected names without '{character}'"
            )
