"""What several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE_THE_PROJECT = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; not part of the repository."""
    folder = Path(os.environ.get("TAUTRANK_DATA", _BESIDE_THE_PROJECT))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set TAUTRANK_DATA to a folder with mq2008/, clueweb09/, ...")
    return folder
