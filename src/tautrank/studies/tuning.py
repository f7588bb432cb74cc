"""Random search under one budget: the same configurations for every system."""

from __future__ import annotations

from typing import Any

import numpy as np

# scikit-learn-style names; `in_words_of` says them as each tool does.
TREE_CHOICES: dict[str, tuple[Any, ...]] = {
    "learning_rate": (0.02, 0.03, 0.05, 0.08, 0.12, 0.2),
    "num_leaves": (4, 7, 15, 31, 63),
    "min_child_samples": (5, 10, 20, 50, 100),
    "colsample_bytree": (0.4, 0.6, 0.8, 1.0),
    "subsample": (0.5, 0.7, 0.85, 1.0),
    "reg_lambda": (0.0, 0.1, 1.0, 10.0),
}
"""The tree parameters that matter most, and what they are drawn from."""


def random_configurations(n: int, seed: tuple[int, ...]) -> list[dict[str, Any]]:
    """Draw `n` distinct configurations of the tree parameters that matter most; the same seed draws the same.

    >>> len(random_configurations(12, (0, 1)))
    12
    >>> random_configurations(3, (0,)) == random_configurations(3, (0,))
    True
    """
    rng = np.random.default_rng(seed)
    drawn: list[dict[str, Any]] = []
    while len(drawn) < n:
        configuration = {name: values[int(rng.integers(len(values)))] for name, values in TREE_CHOICES.items()}
        if configuration not in drawn:
            drawn.append(configuration)
    return drawn


def in_words_of(loss: str, configuration: dict[str, Any]) -> dict[str, Any]:
    """Say a configuration in the words of the tool that trains a loss.

    What a tool does not have is left out: XGBoost has no minimum of documents a leaf, nor has CatBoost for its default
    trees.

    Args:
        loss: what `Ranker` takes.
        configuration: as `random_configurations` draws them.

    >>> in_words_of("catboost:YetiRank", {"learning_rate": 0.1, "colsample_bytree": 0.5, "min_child_samples": 5})
    {'learning_rate': 0.1, 'rsm': 0.5}
    """
    tool = loss.partition(":")[0] if ":" in loss.partition("(")[0] else "lightgbm"
    said = dict(configuration)
    if tool == "lightgbm":
        if "subsample" in said:
            said["subsample_freq"] = 1  # LightGBM samples rows only when it is told how often
        return said
    said.pop("min_child_samples", None)
    if tool == "catboost":
        renamed = {"colsample_bytree": "rsm", "reg_lambda": "l2_leaf_reg"}
        said = {renamed.get(name, name): value for name, value in said.items()}
        if "subsample" in said:
            said["bootstrap_type"] = "Bernoulli"  # the others do not take a share of rows
    return said
