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

# LightGBM takes values up to this size for 0, and leaves them out of its samples.
_LARGEST_ZERO = 1e-35


def limit_to_one_thread() -> None:
    """Hold LightGBM to one thread, also where it takes no ``num_threads``: in reading a model."""
    from lightgbm.basic import _LIB  # type: ignore[attr-defined, unused-ignore]

    _LIB.LGBM_SetMaxThreads(1)


def main_names() -> dict[str, str]:
    """Return LightGBM's main name for each of its names of parameters."""
    from lightgbm.basic import _ConfigAliases

    main_names = {}
    for main_name, names in _ConfigAliases._get_all_param_aliases().items():
        for name in names:
            main_names[name] = main_name
    return main_names


def current_scores(booster: Any, data_index: int) -> Array:
    """Return the scores that a booster keeps for its training data (0) or validation data (1)."""
    return np.asarray(booster._Booster__inner_predict(data_idx=data_index))


def sampled_rows(dataset: Any, total: int) -> I64:
    """Return the rows of ``total`` that LightGBM finds bins from with the data set's parameters."""
    return np.asarray(dataset._create_sample_indices(total_nrow=total), np.int64)


def make_room_as_in(dataset: Any, reference: Any, n_rows: int) -> None:
    """Give a new data set the bins of a constructed one, and room for rows that are still to be
    pushed.
    """
    dataset._init_from_ref_dataset(n_rows, reference._handle)


def push_rows(dataset: Any, rows: Array) -> None:
    """Add rows of features to a data set that has room for them, and bin them."""
    dataset._push_rows(np.ascontiguousarray(rows))


def mark_finished(dataset: Any) -> None:
    """Tell a data set that no more rows will be pushed."""
    from lightgbm.basic import _LIB, _safe_call  # type: ignore[attr-defined, unused-ignore]

    _safe_call(_LIB.LGBM_DatasetMarkFinished(dataset._handle))


def find_bins(
    dataset: Any, sample: F32, n_rows: int, total: int, parameters: Mapping[str, Any]
) -> None:
    """Let LightGBM find the bins of a new data set from a sample of rows, and make room for rows
    that are still to be pushed.

    LightGBM's C function takes the sample by column: the values other than 0, and their rows.

    Args:
        dataset: the data set, which is changed.
        sample: features, one row per sampled document.
        n_rows: number of rows to make room for.
        total: number of rows of all workers of the training.
        parameters: LightGBM's parameters.
    """
    from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call  # type: ignore[attr-defined, unused-ignore]

    rows = []
    values = []
    for column in sample.T:
        is_nonzero = (np.abs(column) > _LARGEST_ZERO) | np.isnan(column)
        rows.append(np.flatnonzero(is_nonzero).astype(np.int32))
        values.append(column[is_nonzero].astype(np.float64))

    # Pointers do not keep their arrays alive: `rows`, `values` and `counts` live until the call.
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
            ctypes.c_int32(n_rows),
            ctypes.c_int64(total),
            _c_str(_param_dict_to_str(dict(parameters))),
            ctypes.byref(dataset._handle),
        )
    )
