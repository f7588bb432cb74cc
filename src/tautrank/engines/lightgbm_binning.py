"""LightGBM's binned data of one training, of features in memory or chunk by chunk of features that
stay in files.

Of files, bins are found from LightGBM's own sample of rows, and are those of the same data in
memory. Where workers each hold some of the documents, all of them get the sample of the whole, and
so the same bins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tautrank.arrays import F64, I64
from tautrank.data import RankingData, StreamedRows
from tautrank.engines import lightgbm_private
from tautrank.engines.binned import content_key
from tautrank.engines.packages import package
from tautrank.engines.task import Task
from tautrank.errors import OptionError
from tautrank.losses import Loss

# Binning fewer values than this takes less time than reading a file.
_FEWEST_VALUES_FOR_FILES = 2_000_000
# What a training needs besides bins: Python, Numba and LightGBM; and scores, gradients and lists of
# each document.
_FIXED_BYTES = 450 * 2**20
_BYTES_PER_DOCUMENT = 100
# Documents that LightGBM finds bins from.
_SAMPLE_SIZE = 200_000


def sampled_rows(total: int, params: Mapping[str, Any]) -> I64:
    """Return the rows that LightGBM finds bins from, ascending.

    Args:
        total: number of documents of the whole training.
        params: parameters, among which may be those of LightGBM that decide it.
    """
    deciding = {"verbosity": -1}
    for name in ("data_random_seed", "bin_construct_sample_cnt"):
        if name in params:
            deciding[name] = params[name]
    dataset = package("lightgbm").Dataset(None, params=deciding)
    return lightgbm_private.sampled_rows(dataset, total)


def is_set(params: Mapping[str, Any], name: str) -> bool:
    """Whether one of LightGBM's switches is on.

    Args:
        params: parameters by their main names.
        name: the name of the switch.
    """
    return str(params.get(name, False)).lower() in ("true", "1", "+")


def is_quantised(params: Mapping[str, Any]) -> bool:
    """Whether splits are found from gradients of a few bits.

    Args:
        params: LightGBM's parameters by their main names.
    """
    return is_set(params, "use_quantized_grad")


def is_joined(task: Task, params: Mapping[str, Any]) -> bool:
    """Whether a model to start from is joined to the trees at the end, which begin from its scores.

    LightGBM predicts no data in chunks, and its own way of continuing needs all data when the
    booster is made.

    Args:
        task: the training.
        params: LightGBM's parameters by their main names.
    """
    if isinstance(task.train.X, StreamedRows):
        return True
    return is_quantised(params) and isinstance(task.loss, Loss)


class BinnedParts(NamedTuple):
    """LightGBM's data sets of the training data and of the validation data, if there is any."""

    train: Any
    valid: Any


class LightGBMBinning:
    """LightGBM's data sets of one training.

    Args:
        task: the training.
        params: LightGBM's parameters.
    """

    def __init__(self, task: Task, params: dict[str, Any]) -> None:
        self._task = task
        self._params = params

    def shared(self) -> BinnedParts:
        """Return the data in bins that other trainings may have made."""
        task = self._task
        # LightGBM adds the scores that a training starts from to its data.
        if task.bins is None or task.start is not None or isinstance(task.train.X, StreamedRows):
            return self.make()
        deciding_parameters = self._dataset(None).get_params()
        if self._params.get("feature_pre_filter") is not False:
            deciding_parameters["min_data_in_leaf"] = self._params.get("min_data_in_leaf")
        key = content_key(
            (task.train, task.valid),
            sorted(deciding_parameters.items()),
            task.categorical,
            task.document_weights,
        )
        n_values = task.train.n_documents * task.train.n_features
        files = self if n_values >= _FEWEST_VALUES_FOR_FILES else None
        parts: BinnedParts = task.bins.get(key, self.make, files)
        return parts

    def make(self) -> BinnedParts:
        """Bin the data."""
        train = self._binned(self._task.train, weight=self._task.document_weights)
        if self._task.valid is None:
            return BinnedParts(train, None)
        return BinnedParts(train, self._binned(self._task.valid, reference=train))

    def write(self, binned: BinnedParts, path: Path) -> None:
        """Write binned data to two files."""
        binned.train.save_binary(f"{path}.train")
        if binned.valid is not None:
            binned.valid.save_binary(f"{path}.valid")

    def read(self, path: Path) -> BinnedParts:
        """Read them."""
        train = self._dataset(f"{path}.train").construct()
        if self._task.valid is None:
            return BinnedParts(train, None)
        return BinnedParts(train, self._dataset(f"{path}.valid", reference=train).construct())

    def _dataset(self, data: Any, **options: Any) -> Any:
        """Return a data set that has not been constructed."""
        codes = list(self._task.categorical) or "auto"
        return package("lightgbm").Dataset(
            data, params=self._params, categorical_feature=codes, **options
        )

    def _binned(self, data: RankingData, weight: F64 | None = None, reference: Any = None) -> Any:
        """Return the data set of one part; in the bins of a reference, if there is one."""
        task = self._task
        start_scores = None
        if task.start is not None and is_joined(task, self._params):
            start_scores = task.start.unscaled_scores(data.X, self._params["num_threads"])
        if isinstance(data.X, StreamedRows):
            return self._streamed(data.X, reference, start_scores)
        dataset = self._dataset(
            data.X,
            label=data.labels,
            group=data.sizes,
            init_score=start_scores,
            weight=weight,
            reference=reference,
        )
        is_shared = task.bins is not None and task.start is None
        return dataset.construct() if is_shared else dataset

    def _streamed(self, rows: StreamedRows, reference: Any, start_scores: F64 | None) -> Any:
        """Return a constructed data set of features in files."""
        threads = self._params["num_threads"]
        dataset = self._dataset(None, reference=reference)
        if reference is None:
            self._find_bins(dataset, rows)
        else:
            lightgbm_private.make_room_as_in(dataset, reference.construct(), rows.shape[0])
        for chunk in rows.chunks(threads):
            lightgbm_private.push_rows(dataset, chunk)
        if start_scores is not None:
            dataset.set_init_score(start_scores)
        return dataset

    def _find_bins(self, dataset: Any, rows: StreamedRows) -> None:
        """Make room for the rows in bins found from LightGBM's sample of them, or from the sample
        of the whole training.
        """
        task = self._task
        n_rows = rows.shape[0]
        params = self._params
        if task.categorical:
            params = {**params, "categorical_column": sorted(task.categorical)}
        sample = task.sample
        if sample is None:
            sample = rows.take(sampled_rows(n_rows, params), params["num_threads"])
        total = n_rows if task.whole is None else task.whole[0]
        lightgbm_private.find_bins(dataset, sample, n_rows, total, params)


def check_memory(parts: Sequence[StreamedRows], max_bin: Any) -> None:
    """Refuse a limit of memory that the bins do not fit in.

    Args:
        parts: training and validation data.
        max_bin: LightGBM's parameter; above 255 a bin takes two bytes.
    """
    memory = parts[0].memory if parts else None
    if memory is None:
        return
    n_documents = sum(rows.shape[0] for rows in parts)
    n_features = parts[0].width
    bytes_per_bin = 1 if int(max_bin) <= 255 else 2
    bytes_of_bins = n_documents * n_features * bytes_per_bin
    # The sample is there as read and as doubles by column, before the bins are filled.
    bytes_of_sample = min(n_documents, _SAMPLE_SIZE) * n_features * 16
    bytes_of_documents = n_documents * _BYTES_PER_DOCUMENT
    needed = _FIXED_BYTES + bytes_of_documents + bytes_of_bins + bytes_of_sample
    if needed > memory:
        raise OptionError(
            f"memory: found {_gigabytes(memory)}; expected at least {_gigabytes(needed)}, of which "
            f"{_gigabytes(bytes_of_bins)} are the bins of {n_documents} documents of {n_features} "
            "features"
        )


def _gigabytes(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.2f}G"
