"""What this library needs of LightGBM that LightGBM does not promise to keep: every private name of
it is used here.

The functions import LightGBM themselves, which is loaded by then (see `packages.package`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from tautrank.arrays import F32, I64, Array

# LightGBM takes what is nearer to 0 for 0, and leaves it out of the sample.
_ZERO = 1e-35


def limit_to_one_thread() -> None:
    """Hold LightGBM to one thread, also where it takes no ``num_threads``: in reading a model."""
    from lightgbm.basic import _LIB  # type: ignore[attr-defined, unused-ignore]

    _LIB.LGBM_SetMaxThreads(1)


def main_names() -> dict[str, str]:
    """Return LightGBM's main name for each of its names of parameters."""
    from lightgbm.basic import _ConfigAliases

    return {
        alias: main
        for main, aliases in _ConfigAliases._get_all_param_aliases().items()
        for alias in aliases
    }


def current_scores(booster: Any, data_index: int) -> Array:
    """Return the scores that a booster keeps for its training data (0) or validation data (1)."""
    return np.asarray(booster._Booster__inner_predict(data_idx=data_index))


def sampled_rows(dataset: Any, total: int) -> I64:
    """Return the rows of ``total`` that LightGBM finds bins from with the data set's parameters."""
    return np.asarray(dataset._create_sample_indices(total_nrow=total), np.int64)


def make_room_as_in(dataset: Any, reference: Any, n: int) -> None:
    """Make room for ``n`` rows in the bins of a constructed data set."""
    dataset._init_from_ref_dataset(n, reference._handle)


def push_rows(dataset: Any, rows: Array) -> None:
    """Put the next rows into bins."""
    dataset._push_rows(np.ascontiguousarray(rows))


def mark_finished(dataset: Any) -> None:
    """Say that no more rows will come."""
    from lightgbm.basic import _LIB, _safe_call  # type: ignore[attr-defined, unused-ignore]

    _safe_call(_LIB.LGBM_DatasetMarkFinished(dataset._handle))


def find_bins(dataset: Any, sample: F32, n: int, total: int, parameters: Mapping[str, Any]) -> None:
    """Make room for ``n`` rows of ``total``, in bins found from the sample."""
    from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call  # type: ignore[attr-defined, unused-ignore]

    rows = []
    values = []
    for column in sample.T:
        is_kept = (np.abs(column) > _ZERO) | np.isnan(column)
        rows.append(np.flatnonzero(is_kept).astype(np.int32))
        values.append(column[is_kept].astype(np.float64))

    n_columns = len(values)
    double_pointer = ctypes.POINTER(ctypes.c_double)
    int_pointer = ctypes.POINTER(ctypes.c_int32)
    value_pointers = [column.ctypes.data_as(double_pointer) for column in values]
    row_pointers = [column.ctypes.data_as(int_pointer) for column in rows]
    counts = np.array([column.size for column in rows], np.int32)
    dataset._handle = ctypes.c_void_p()
    _safe_call(
        _LIB.LGBM_DatasetCreateFromSampledColumn(
            (double_pointer * n_columns)(*value_pointers),
            (int_pointer * n_columns)(*row_pointers),
            ctypes.c_int32(n_columns),
            counts.ctypes.data_as(int_pointer),
            ctypes.c_int32(len(sample)),
            ctypes.c_int32(n),
            ctypes.c_int64(total),
            _c_str(_param_dict_to_str(dict(parameters))),
            ctypes.byref(dataset._handle),
        )
    )
