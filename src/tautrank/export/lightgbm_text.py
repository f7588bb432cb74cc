"""LightGBM's own model text, with the names of the features in it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from tautrank.errors import OptionError
from tautrank.ranker.estimator import Ranker

# LightGBM separates names by spaces, and writes them into JSON unescaped.
_FORBIDDEN = ' ",:[]{}='


def lightgbm_text(ranker: Ranker, names: Sequence[str] | None) -> str:
    """What ``lightgbm.Booster(model_file=...)`` reads; its ``predict(X, raw_score=True)`` gives the ranker's scores.

    Args:
        ranker: fitted by LightGBM.
        names: of the features; None leaves LightGBM's ``Column_0, Column_1, ...``.
    """
    if ranker.model_.tool != "lightgbm":
        raise OptionError(
            f"format: found lightgbm for a model trained by {ranker.model_.tool}; expected one trained by lightgbm"
        )
    text = ranker.model_.to_bytes().decode()
    if names is None:
        return text
    for name, character in itertools.product(names, _FORBIDDEN):
        if character in name:
            raise OptionError(f"features: LightGBM cannot read the name '{name}'; expected names without '{character}'")
    header = re.search(r"^feature_names=(.*)$", text, re.MULTILINE)
    assert header is not None, "LightGBM writes the names of features"
    new = dict(zip(header[1].split(" "), names, strict=True))
    text = text[: header.start(1)] + " ".join(names) + text[header.end(1) :]
    before, title, behind = text.partition("\nfeature_importances:\n")
    importances, end, rest = behind.partition("\n\n")
    renamed = re.sub(r"^(\w+)(?==)", lambda line: new[line[1]], importances, flags=re.MULTILINE)
    return before + title + renamed + end + rest
