"""Rankers under the names that other tools' users know: LightGBM's `LGBMRanker`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tautrank.compat.lightgbm import LGBMRanker


def __getattr__(name: str) -> Any:
    if name == "LGBMRanker":  # needs scikit-learn, which takes a second to import
        from tautrank.compat.lightgbm import LGBMRanker

        return LGBMRanker
    raise AttributeError(f"module 'tautrank.compat' has no attribute '{name}'")


__all__ = ["LGBMRanker"]
