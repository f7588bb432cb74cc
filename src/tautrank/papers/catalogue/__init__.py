"""The papers' tables and figures, one module per paper."""

from __future__ import annotations

from tautrank.experiments.plan import by_name
from tautrank.papers.catalogue import (
    directness,
    lambdaloss,
    softmax_binary,
    stochasticrank,
    xe_ndcg,
)
from tautrank.papers.study import Study

_PAPERS = (xe_ndcg, softmax_binary, lambdaloss, stochasticrank, directness)

_DECLARED = (value for paper in _PAPERS for value in vars(paper).values())
CATALOGUE: dict[str, Study] = {study.name: study for study in _DECLARED if isinstance(study, Study)}
"""Every study by name: all that the modules of the papers declare, in their order."""


def find_study(name: str) -> Study:
    """Return a study by its name.

    Args:
        name: the name, as in `tautrank study list`.

    >>> find_study("xe-table1").repeats
    100
    >>> find_study("xe-tabel1")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown study 'xe-tabel1'; did you mean 'xe-table1'? (known: ...)
    """
    return by_name("study", name, CATALOGUE)
