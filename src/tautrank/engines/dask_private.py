"""What this library needs of Dask that Dask does not promise to keep: every private name of it is
used here.
"""

from __future__ import annotations

from typing import Any


def address_of(actor: Any) -> str:
    """Return the address of the worker that an actor lives on."""
    return str(actor._address)
