"""What this library needs of XGBoost that XGBoost does not promise to keep: every private name of
it is used here.

The function imports XGBoost itself, which is loaded by then (see `packages.package`).
"""

from __future__ import annotations

import ctypes

# The callback must live as long as XGBoost may call it.
_IGNORE = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(lambda _: None)


def silence_log() -> None:
    """Let XGBoost print nothing: its collective tells every rank, whatever the verbosity."""
    from xgboost.core import _LIB

    _LIB.XGBRegisterLogCallback(_IGNORE)
