"""LightGBM's binned data of one training, of features in memory or chunk by chunk of features that
stay in files.

Of files, bins are found from LightGBM's own sample of rows, and are those of the same data in
memory. Where workers each hold some of the documents, all of them get the sample of the whole, and
so the same bins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import (
    Any,
)

from tautrank.arrays import F64, I64
from tautrank.data import RankingData, StreamedRows
from tautrank.engines import lightgbm_private
from tautrank.engines.binned import content_key
from tautrank.engines.packages import package
from tautrank.engines.task import Task
from tautrank.errors import (
    OptionError,
)
from tautrank.losses import Loss

# Binning fewer values than this takes less time than reading a file.
_FILES_FROM = 2_000_000


# What a training needs besides bins: Python, Numba and LightGBM; and scores, gradients and lists of
# each document.
_ALWAYS = 450 * 2**20


_PER_DOCUMENT = 100


_SAMPLE = 200_000


def sampled_rows(total: int, params: Mapping[str, Any]) -> I64:
    """Return the rows that LightGBM finds bins from, ascending.

    Args:
        total: number of documents of the whole training.
        params: parameters, among which may be those of LightGBM that decide it.
    """
    how = {
        name: params[name]
        for name in ("data_random_seed", "bin_construct_sample_cnt")
        if name in params
    }
    made = package("lightgbm").Dataset(None, params={**how, "verbosity": -1})
    return lightgbm_private.sampled_rows(made, total)


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
    return isinstance(task.train.X, StreamedRows) or (
        is_quantised(params) and isinstance(task.loss, Loss)
    )


class LightGBMBinning:
    """LightGBM's data sets of one training: training and validation data, the latter None if there
    is none.

    Args:
        task: the training.
        params: LightGBM's parameters.
    """

    def __init__(self, task: Task, params: dict[str, Any]) -> None:
        self._task, self._params = task, params

    def shared(self) -> tuple[Any, Any]:
        """Return the data in bins that other trainings may have made."""
        task, params = self._task, self._params
        # LightGBM adds the scores that a training starts from to its data.
        if task.bins is None or task.start is not None or isinstance(task.train.X, StreamedRows):
            return self.make()
        seen = self._dataset(None).get_params()  # those that decide the bins
        if params.get("feature_pre_filter") is not False:
            seen["min_data_in_leaf"] = params.get("min_data_in_leaf")
        key = content_key(
            (task.train, task.valid), sorted(seen.items()), task.categorical, task.document_weights
        )
        large = task.train.n_documents * task.train.n_features >= _FILES_FROM
        found: tuple[Any, Any] = task.bins.get(key, self.make, self if large else None)
        return found

    def make(self) -> tuple[Any, Any]:
        """Bin the data."""
        train = self._binned(self._task.train, weight=self._task.document_weights)
        return train, None if self._task.valid is None else self._binned(
            self._task.valid, reference=train
        )

    def write(self, binned: tuple[Any, Any], path: Path) -> None:
        """Write binned data to two files."""
        for part, made in zip(("train", "valid"), binned, strict=True):
            if made is not None:
                made.save_binary(f"{path}.{part}")

    def read(self, path: Path) -> tuple[Any, Any]:
        """Read them."""
        train = self._dataset(f"{path}.train").construct()
        has_valid = self._task.valid is not None
        return train, self._dataset(
            f"{path}.valid", reference=train
        ).construct() if has_valid else None

    def _dataset(self, data: Any, **given: Any) -> Any:
        codes = list(self._task.categorical) or "auto"
        return package("lightgbm").Dataset(
            data, params=self._params, categorical_feature=codes, **given
        )

    def _binned(self, data: RankingData, **given: Any) -> Any:
        task, scores = self._task, None
        if task.start is not None and is_joined(task, self._params):
            scores = task.start.unscaled_scores(data.X, self._params["num_threads"])
        if isinstance(data.X, StreamedRows):
            return self._streamed(data.X, given.get("reference"), scores)
        made = self._dataset(
            data.X, label=data.labels, group=data.sizes, init_score=scores, **given
        )
        return made if task.bins is None or task.start is not None else made.construct()

    def _streamed(self, rows: StreamedRows, reference: Any, scores: F64 | None) -> Any:
        """Return a constructed data set of features in files."""
        task, n, threads = self._task, rows.shape[0], self._params["num_threads"]
        made = self._dataset(None, reference=reference)
        if reference is not None:
            lightgbm_private.make_room_as_in(made, reference.construct(), n)
        else:
            given = {
                **self._params,
                **({"categorical_column": sorted(task.categorical)} if task.categorical else {}),
            }
            sample = (
                rows.take(sampled_rows(n, given), threads) if task.sample is None else task.sample
            )
            lightgbm_private.find_bins(made, sample, n, (task.whole or (n,))[0], given)
            del sample
        for chunk in rows.chunks(threads):
            lightgbm_private.push_rows(made, chunk)
        if scores is not None:
            made.set_init_score(scores)
        return made


def check_memory(parts: Sequence[StreamedRows], max_bin: Any) -> None:
    """Refuse a limit of memory that the bins do not fit in.

    Args:
        parts: training and validation data.
        max_bin: LightGBM's parameter; above 255 a bin takes two bytes.
    """
    memory = parts[0].memory if parts else None
    if memory is None:
        return
    documents = sum(rows.shape[0] for rows in parts)
    bins = documents * parts[0].width * (1 if int(max_bin) <= 255 else 2)
    # The sample is there as read and as doubles by column, before the bins are filled.
    sample = min(documents, _SAMPLE) * parts[0].width * 16
    needed = _ALWAYS + documents * _PER_DOCUMENT + bins + sample
    if needed > memory:
        found, expected, part = (f"{size / 2**30:.2f}G" for size in (memory, needed, bins))
        of_bins = f"{part} are the bins of {documents} documents of {parts[0].width} features"
        raise OptionError(
            f"memory: found {found}; expected at least {expected}, of which {of_bins}"
        )
