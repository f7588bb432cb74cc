"""LightGBM's binned data made chunk by chunk, from features that stay in files.

Bins are found from LightGBM's own sample of rows, and are those of the same data in memory. Where workers each hold
some of the documents, all of them get the sample of the whole, and so the same bins.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tautrank.arrays import F64, I64, Array
from tautrank.data import StreamedRows
from tautrank.engines.packages import package
from tautrank.errors import OptionError

# What a training needs besides bins: Python, Numba and LightGBM; and scores, gradients and lists of each document.
_ALWAYS = 450 * 2**20
_PER_DOCUMENT = 100
_SAMPLE = 200_000
# LightGBM takes what is nearer to 0 for 0, and leaves it out of the sample.
_ZERO = 1e-35


def sampled_rows(total: int, params: Mapping[str, Any]) -> I64:
    """Return the rows that LightGBM finds bins from, ascending.

    Args:
        total: number of documents of the whole training.
        params: parameters, among which may be those of LightGBM that decide it.
    """
    how = {name: params[name] for name in ("data_random_seed", "bin_construct_sample_cnt") if name in params}
    made = package("lightgbm").Dataset(None, params={**how, "verbosity": -1})
    rows: I64 = made._create_sample_indices(total_nrow=total)
    return rows.astype(np.int64)


def streamed_dataset(
    rows: StreamedRows,
    params: Mapping[str, Any],
    categorical: Sequence[int],
    reference: Any = None,
    sample: Array | None = None,
    total: int | None = None,
    init_score: F64 | None = None,
) -> Any:
    """Return a constructed LightGBM data set.

    Args:
        rows: the features.
        params: LightGBM's parameters.
        categorical: columns of category codes.
        reference: data set to take the bins of.
        sample: sampled rows of the whole training; by default those of ``rows``.
        total: number of documents of the whole training.
        init_score: scores to begin from.
    """
    lightgbm = package("lightgbm")
    given = {**params, **({"categorical_column": sorted(categorical)} if categorical else {})}
    made = lightgbm.Dataset(
        None, reference=reference, params=given, categorical_feature=list(categorical) or "auto", free_raw_data=True
    )
    n = rows.shape[0]
    if reference is not None:
        made._init_from_ref_dataset(n, reference.construct()._handle)
    else:
        sample = rows.take(sampled_rows(n, given), params["num_threads"]) if sample is None else sample
        _find_bins(made, sample, n, total or n, given)
        del sample
    for chunk in rows.chunks(params["num_threads"]):
        made._push_rows(np.ascontiguousarray(chunk))
    if init_score is not None:
        made.set_init_score(init_score)
    return made


def _find_bins(made: Any, sample: Array, local: int, total: int, params: Mapping[str, Any]) -> None:
    """Make room for ``local`` rows of ``total``, in bins found from the sample."""
    from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call  # type: ignore[attr-defined, unused-ignore]

    kept = [np.flatnonzero((np.abs(column) > _ZERO) | np.isnan(column)).astype(np.int32) for column in sample.T]
    values = [column[at].astype(np.float64) for column, at in zip(sample.T, kept, strict=True)]
    width = len(kept)
    doubles, whole = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)
    made._handle = ctypes.c_void_p()
    _safe_call(
        _LIB.LGBM_DatasetCreateFromSampledColumn(
            (doubles * width)(*(each.ctypes.data_as(doubles) for each in values)),
            (whole * width)(*(each.ctypes.data_as(whole) for each in kept)),
            ctypes.c_int32(width),
            np.array([each.size for each in kept], np.int32).ctypes.data_as(whole),
            ctypes.c_int32(len(sample)),
            ctypes.c_int32(local),
            ctypes.c_int64(total),
            _c_str(_param_dict_to_str(dict(params))),
            ctypes.byref(made._handle),
        )
    )


def check_memory(parts: Sequence[StreamedRows], max_bin: Any) -> None:
    """Refuse a limit of memory that the bins do not fit in.

    Args:
        parts: training and validation data.
        max_bin: LightGBM's parameter; above 255 a bin takes two bytes.
    """
    memory = parts[0].memory
    if memory is None:
        return
    documents = sum(rows.shape[0] for rows in parts)
    bins = documents * parts[0].width * (1 if int(max_bin) <= 255 else 2)
    # The sample is there as read and as doubles by column, before the bins are filled.
    sample = min(documents, _SAMPLE) * parts[0].width * 16
    needed = _ALWAYS + documents * _PER_DOCUMENT + bins + sample
    if needed > memory:
        raise OptionError(
            f"memory: found {memory / 2**30:.2f}G; expected at least {needed / 2**30:.2f}G, of which "
            f"{bins / 2**30:.2f}G are the bins of {documents} documents of {parts[0].width} features"
        )
