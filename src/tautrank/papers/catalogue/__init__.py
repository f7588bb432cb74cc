"""The papers' tables and figures, one module per paper; each lists its studies in ``STUDIES``."""

from __future__ import annotations

from tautrank.experiments.plan import by_name
from tautrank.papers.catalogue import directness, lambdaloss, softmax_binary, stochasticrank, xe_ndcg
from tautrank.papers.study import Study

_PAPERS = (xe_ndcg, softmax_binary, lambdaloss, stochasticrank, directness)

CATALOGUE: dict[str, Study] = {study.name: study for paper in _PAPERS for study in paper.STUDIES}
"""Every study by name."""


def find_study(name: str) -> Study:
    """Return a study by its name.

    Args:
        name: the name, as in `tautrank study list`.

    >>> find_study("xe-table1").trials
    100
    >>> find_study("xe-tabel1")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown study 'xe-tabel1'; did you mean 'xe-table1'? (known: ...)
    """
    return by_name("study", name, CATALOGUE)
