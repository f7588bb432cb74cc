"""Numbers as papers print them, in percent, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tautrank.studies.claims import PLAIN
from tautrank.studies.study import Printed

Number: TypeAlias = float | tuple[float, float] | None
"""A value in percent, a value with what stands behind ±, or None where the paper has a dash."""


def in_percent(
    rows: Mapping[str, Sequence[Number]],
    metrics: Sequence[str] = (),
    parts: Sequence[str] = (),
    condition: str = PLAIN,
) -> tuple[Printed, ...]:
    """The rows of a table; columns are metrics, or parts of the data, or for each metric all parts.

    Args:
        rows: by the name of the system, a number a column.
        metrics: of the columns.
        parts: of the columns; ``"test"`` alone where it is empty.
        condition: under which the numbers stand.

    >>> in_percent({"xendcg": (48.23, 50.27)}, ("ndcg@5", "ndcg@10"))[1]
    Printed(system='xendcg', metric='ndcg@10', value=0.5027, condition='plain', part='test', spread=None)
    """
    columns = [(name, part) for name in metrics for part in parts or ("test",)]
    return tuple(
        Printed(system, name, _share(number), condition, part, _spread(number))
        for system, numbers in rows.items()
        for (name, part), number in zip(columns, numbers, strict=True)
        if number is not None
    )


def _share(number: float | tuple[float, float]) -> float:
    # Rounded, since 48.23 / 100 is not the float that 0.4823 is.
    return round((number[0] if isinstance(number, tuple) else number) / 100, 6)


def _spread(number: float | tuple[float, float]) -> float | None:
    return round(number[1] / 100, 6) if isinstance(number, tuple) else None
