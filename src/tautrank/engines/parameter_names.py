"""The parameters that have one name here for all engines, and what tools call them."""

from __future__ import annotations

OTHER_NAMES = {
    "n_estimators": ("num_iterations", "num_boost_round", "num_trees", "iterations"),
    "learning_rate": ("learning_rate", "eta"),
    "num_leaves": ("num_leaves", "max_leaves"),
    "n_jobs": ("num_threads", "nthread", "thread_count"),
    "random_state": ("seed", "random_seed"),
    "loss": ("objective", "loss_function"),
    "metric": ("metric", "eval_metric"),
    "metric (as ndcg@5)": ("eval_at",),
    "early_stopping_rounds": ("early_stopping_round", "od_wait", "od_type"),
    "categorical_feature": ("categorical_feature", "cat_features"),
    "init_model": ("input_model",),
    "langevin": ("diffusion_temperature",),
}
"""The parameters that have one name here for all engines, and what tools call them."""


def our_name(name: str, main: str | None = None) -> list[str]:
    """Say what a parameter is called here, if a tool's name for it was given.

    Args:
        name: the name as the user gave it.
        main: the tool's main name for it, if ``name`` is an alias.

    >>> our_name("eta"), our_name("max_depth")
    (['eta: is called learning_rate here; expected that name'], [])
    """
    return [
        f"{name}: is called {our_name} here; expected that name"
        for our_name, tool_names in OTHER_NAMES.items()
        if (main or name) in tool_names
    ]
