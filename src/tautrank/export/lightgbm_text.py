"""LightGBM's own model text, with the names of the features in it."""

from __future__ import annotations

import itertools
import re

from tautrank.engines.lightgbm import LightGBMModel
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
    header = re.search(r"^feature_names=(.*)$", text, re.MULTILINE)
    assert header is not None, "LightGBM writes the names of features"
    new = dict(zip(header[1].split(" "), names, strict=True))
    text = text[: header.start(1)] + " ".join(names) + text[header.end(1) :]
    before, title, after = text.partition("\nfeature_importances:\n")
    importances, end, rest = after.partition("\n\n")
    renamed = re.sub(r"^(\w+)(?==)", lambda line: new[line[1]], importances, flags=re.MULTILINE)
    return before + title + renamed + end + rest
