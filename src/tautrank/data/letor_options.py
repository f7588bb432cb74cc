"""The options of the reader of LETOR text."""

from __future__ import annotations

from dataclasses import dataclass, field

from tautrank.arguments import check_fields, checked_by, whole
from tautrank.data.feature_store import Sparse
from tautrank.errors import OptionError

DEFAULT_MAX_FEATURES = 1_000_000
_LARGEST_COLUMN = 2**31 - 2  # columns of sparse matrices are int32


@dataclass(frozen=True)
class LetorOptions:
    """The options that decide how a LETOR file is read; part of the key of the cache."""

    zero_based: bool = False
    n_features: int | None = field(default=None, metadata=checked_by(whole, least=1))
    max_features: int = field(default=DEFAULT_MAX_FEATURES, metadata=checked_by(whole, least=1))
    allow_nan: bool = False
    sparse: Sparse = "auto"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.sparse not in (True, False, "auto"):
            raise OptionError(f"sparse: found {self.sparse!r}; expected True, False or 'auto'")

    @property
    def first_index(self) -> int:
        """The smallest feature index that a file may use."""
        return 0 if self.zero_based else 1

    @property
    def last_index(self) -> int:
        """The largest feature index that a file may use."""
        n_columns = min(self.n_features or self.max_features, _LARGEST_COLUMN)
        return self.first_index + n_columns - 1
