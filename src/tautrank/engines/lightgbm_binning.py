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
# Documents that LightGBM finds bins from. Before the bins are filled, the sample is there as read
# and as doubles by column.
_SAMPLE_SIZE = 200_000
_BYTES_PER_SAMPLED_VALUE = 16


def sampled_rows(total: int, params: Mapping[str, Any]) -> I64:
    """Return the numbers of the rows that LightGBM draws to find bins from, ascending.

    Args:
        total: number of documents of the whole training.
        params: parameters, perhaps with LightGBM's seed and size of the sample.
    """
    sampling_params = {"verbosity": -1}
    for name in ("data_random_seed", "bin_construct_sample_cnt"):
        if name in params:
            sampling_params[name] = params[name]
    # LightGBM itself draws them, for a data set without data that has the same parameters.
    dataset = package("lightgbm").Dataset(None, params=sampling_params)
    return lightgbm_private.sampled_rows(dataset, total)


def is_set(params: Mapping[str, Any], name: str) -> bool:
    """Return whether one of LightGBM's switches is on, in any of the spellings that it reads.

    Args:
        params: parameters by their main names.
        name: the name of the switch.
    """
    value = params.get(name, False)
    return str(value).lower() in ("true", "1", "+")


def is_quantised(params: Mapping[str, Any]) -> bool:
    """Whether splits are found from gradients of a few bits.

    Args:
        params: LightGBM's parameters by their main names.
    """
    return is_set(params, "use_quantized_grad")


def is_joined(task: Task, params: Mapping[str, Any]) -> bool:
    """Return whether this library continues a model itself: new trees are grown from the scores of
    the model, and put behind its trees at the end.

    Elsewhere LightGBM continues the model. It cannot where features are read in chunks, since it
    needs all data when the booster is made, and is not let to with quantised gradients of a loss of
    this library.

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
        """Return the binned data of this training, which trainings on the same data share.

        It is made at the first call with the same data and the same parameters of binning.
        """
        task = self._task
        # Not shared are data that LightGBM has added the scores to start from to, and data in files.
        if task.bins is None or task.start is not None or isinstance(task.train.X, StreamedRows):
            return self.make()
        binning_params = self._dataset(None).get_params()
        # Unset means True. Only a written False keeps all features.
        if self._params.get("feature_pre_filter") is not False:
            # Features that no leaf of this size allows to split are then left out.
            binning_params["min_data_in_leaf"] = self._params.get("min_data_in_leaf")
        # All that the bins depend on.
        key = content_key(
            (task.train, task.valid),
            sorted(binning_params.items()),
            task.categorical,
            task.document_weights,
        )
        n_values = task.train.n_documents * task.train.n_features
        # Small data is binned faster than read; `self` has the `write` and `read` of the files.
        files = self if n_values >= _FEWEST_VALUES_FOR_FILES else None
        parts: BinnedParts = task.bins.get(key, self.make, files)
        return parts

    def make(self) -> BinnedParts:
        """Return the training data in new bins, and the validation data (None if there is none) in
        the same bins.

        A bin is a range of values of a feature, by whose number LightGBM stores the values.
        """
        train = self._binned(self._task.train, weight=self._task.document_weights)
        if self._task.valid is None:
            return BinnedParts(train, None)
        valid = self._binned(self._task.valid, reference=train)
        return BinnedParts(train, valid)

    def write(self, binned: BinnedParts, path: Path) -> None:
        """Write binned data to two files, of the training and of the validation data.

        Args:
            binned: what `make` returned.
            path: how the names of both files begin.
        """
        binned.train.save_binary(f"{path}.train")
        if binned.valid is not None:
            binned.valid.save_binary(f"{path}.valid")

    def read(self, path: Path) -> BinnedParts:
        """Return the binned data that `write` has written.

        Args:
            path: how the names of both files begin.
        """
        # `construct` reads the file now; LightGBM would do so at the first use.
        train = self._dataset(f"{path}.train").construct()
        if self._task.valid is None:
            return BinnedParts(train, None)
        valid = self._dataset(f"{path}.valid", reference=train).construct()
        return BinnedParts(train, valid)

    def _dataset(self, data: Any, **options: Any) -> Any:
        """Return a LightGBM data set of features, or of a file; it is binned when LightGBM
        constructs it.
        """
        categorical: Any = "auto"
        if self._task.categorical:
            categorical = list(self._task.categorical)
        return package("lightgbm").Dataset(
            data, params=self._params, categorical_feature=categorical, **options
        )

    def _binned(self, data: RankingData, weight: F64 | None = None, reference: Any = None) -> Any:
        """Return the LightGBM data set of the training data or the validation data.

        Args:
            data: the documents.
            weight: weight of each document; None for equal weights.
            reference: a data set whose bins are used; None to find new ones.
        """
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
        # Data that is shared or written to files must be in bins now, not at its first use.
        is_shared = task.bins is not None and task.start is None
        return dataset.construct() if is_shared else dataset

    def _streamed(self, rows: StreamedRows, reference: Any, start_scores: F64 | None) -> Any:
        """Return a constructed LightGBM data set of features that stay in files: they are read and
        binned chunk by chunk.

        Args:
            rows: the features.
            reference: a data set whose bins are used; None to find new ones.
            start_scores: scores that training starts from, if it continues a model.
        """
        threads = self._params["num_threads"]
        dataset = self._dataset(None, reference=reference)
        if reference is None:
            self._find_bins(dataset, rows)
        else:
            # Validation data takes the bins of the training data.
            lightgbm_private.make_room_as_in(dataset, reference.construct(), rows.shape[0])
        for chunk in rows.chunks(threads):
            lightgbm_private.push_rows(dataset, chunk)
        if start_scores is not None:
            dataset.set_init_score(start_scores)
        return dataset

    def _find_bins(self, dataset: Any, rows: StreamedRows) -> None:
        """Find the bins of a data set, and make room in it for rows that are then pushed chunk by
        chunk.

        On a cluster, bins are found from the sample of all workers' documents; otherwise from the
        rows that LightGBM itself would draw.
        """
        task = self._task
        n_rows = rows.shape[0]
        params = self._params
        if task.categorical:
            params = {**params, "categorical_column": sorted(task.categorical)}
        sample = task.sample
        if sample is None:
            sample = rows.take(sampled_rows(n_rows, params), params["num_threads"])
        # `whole` holds the numbers of documents and queries of all workers of a cluster.
        total = n_rows if task.whole is None else task.whole[0]
        lightgbm_private.find_bins(dataset, sample, n_rows, total, params)


def check_memory(parts: Sequence[StreamedRows], max_bin: Any) -> None:
    """Raise an error if the memory that the user allows is less than a training needs: a fixed
    amount, some bytes per document, the bins of all feature values, and the sample that bins are
    found from.

    Args:
        parts: features of the training and validation data that are read in chunks, with the limit
            of memory; empty if none are.
        max_bin: LightGBM's parameter; above 255 a bin takes two bytes.
    """
    memory = parts[0].memory if parts else None
    if memory is None:
        return
    n_documents = sum(rows.shape[0] for rows in parts)
    n_features = parts[0].width
    bytes_per_bin = 1 if int(max_bin) <= 255 else 2
    bytes_of_bins = n_documents * n_features * bytes_per_bin
    sample_size = min(n_documents, _SAMPLE_SIZE)
    bytes_of_sample = sample_size * n_features * _BYTES_PER_SAMPLED_VALUE
    bytes_of_documents = n_documents * _BYTES_PER_DOCUMENT
    needed = _FIXED_BYTES + bytes_of_documents + bytes_of_bins + bytes_of_sample
    if needed > memory:
        raise OptionError(
            f"memory: found {_gigabytes(memory)}; expected at least {_gigabytes(needed)}, of which "
            f"{_gigabytes(bytes_of_bins)} are the bins of {n_documents} documents of {n_features} "
            "features"
        )


def _gigabytes(n_bytes: float) -> str:
    """Return a size as text in the unit of the option, 2**30 bytes."""
    return f"{n_bytes / 2**30:.2f}G"
