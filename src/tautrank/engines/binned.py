"""Binned data for several trainings on the same data: kept in memory, and in files for other
processes.

LightGBM's is made of features in memory, or chunk by chunk of features that stay in files. There,
bins are found from LightGBM's own sample of rows, and are those of the same data in memory. Where
workers each hold some of the documents, all of them get the sample of the whole, and so the same
bins.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.arrays import F64, I64, Array
from tautrank.data import RankingData, StreamedRows
from tautrank.engines.registry import package
from tautrank.errors import OptionError
from tautrank.losses.base import Loss

if TYPE_CHECKING:
    from tautrank.engines.base import Task

# Binning fewer values than this takes less time than reading a file.
_FILES_FROM = 2_000_000
_MOST_IN_MEMORY = 2
_MOST_FILES = 8
# What a training needs besides bins: Python, Numba and LightGBM; and scores, gradients and lists of
# each document.
_ALWAYS = 450 * 2**20
_PER_DOCUMENT = 100
_SAMPLE = 200_000
# LightGBM takes what is nearer to 0 for 0, and leaves it out of the sample.
_ZERO = 1e-35


class Bins:
    """The binned data of the last trainings, for the next ones on the same data.

    Args:
        folder: where binned data is kept for other processes; None for nowhere.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._kept: dict[str, Any] = {}  # the last one used at the end
        # Trainings run side by side: the first one bins the data, the others wait for it.
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Any], files: Any = None) -> Any:
        """Return binned data, from memory, from a file, or made now.

        Args:
            key: what decides the bins; see `content_key`.
            make: bins the data.
            files: ``write(binned, path)`` and ``read(path)``, whose file names begin with the path;
                None for no files.
        """
        with self._lock:
            if key not in self._kept:
                while len(self._kept) >= _MOST_IN_MEMORY:
                    del self._kept[next(iter(self._kept))]
                folder = None if files is None else self._folder
                self._kept[key] = make() if folder is None else _in_file(folder, key, make, files)
            self._kept[key] = self._kept.pop(key)
            return self._kept[key]


def _in_file(folder: Path, key: str, make: Callable[[], Any], files: Any) -> Any:
    """Return binned data from a file, or made now and written to one."""
    path, done = folder / key, folder / f"{key}.done"
    with _alone(folder / f"{key}.lock"):
        if done.exists():
            with contextlib.suppress(
                Exception
            ):  # another process may just have removed it, as too old
                return files.read(path)
        made = make()
        with contextlib.suppress(Exception):  # a full disk: each process then bins its own
            files.write(made, path)
            done.touch()
            oldest = sorted(folder.glob("*.done"), key=lambda file: file.stat().st_mtime)[
                :-_MOST_FILES
            ]
            for file in (part for old in oldest for part in folder.glob(f"{old.stem}*")):
                file.unlink(missing_ok=True)
        return made


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process is in a block with the same path."""
    with open(path, "w") as file:
        with contextlib.suppress(ImportError):  # on Windows several processes may bin the same data
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def content_key(parts: Iterable[RankingData | None], *more: Any) -> str:
    """Return a hash of everything in some data, and of what else decides its bins, 32 hexadecimal
    digits.

    Args:
        parts: the data.
        more: arrays, and values that print as what they are.
    """
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
            continue
        X: Any = part.X
        features = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
        for array in (part.labels, part.offsets, *features):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    for each in more:
        digest.update(each.tobytes() if isinstance(each, np.ndarray) else repr(each).encode())
    return digest.hexdigest()[:32]


_bins: ContextVar[Bins | None] = ContextVar("bins", default=None)
_of_folders: dict[str, Bins] = {}


@contextlib.contextmanager
def sharing_bins(folder: str = "") -> Iterator[None]:
    """Within the block, trainings on the same data share its bins, until `forget_bins`.

    Args:
        folder: where processes share them too; empty for this process alone.
    """
    token = _bins.set(_of_folders.setdefault(folder, Bins(Path(folder) if folder else None)))
    try:
        yield
    finally:
        _bins.reset(token)


def shared_bins() -> Bins | None:
    """Return the bins that trainings share here; None where each has its own."""
    return _bins.get()


def forget_bins() -> None:
    """Free the memory of all bins that trainings shared."""
    _of_folders.clear()


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
    return np.asarray(made._create_sample_indices(total_nrow=total), np.int64)


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
            made._init_from_ref_dataset(n, reference.construct()._handle)
        else:
            given = {
                **self._params,
                **({"categorical_column": sorted(task.categorical)} if task.categorical else {}),
            }
            sample = (
                rows.take(sampled_rows(n, given), threads) if task.sample is None else task.sample
            )
            _find_bins(made, sample, n, (task.whole or (n,))[0], given)
            del sample
        for chunk in rows.chunks(threads):
            made._push_rows(np.ascontiguousarray(chunk))
        if scores is not None:
            made.set_init_score(scores)
        return made


def _find_bins(made: Any, sample: Array, local: int, total: int, params: Mapping[str, Any]) -> None:
    """Make room for ``local`` rows of ``total``, in bins found from the sample."""
    from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call  # type: ignore[attr-defined, unused-ignore]

    kept = [
        np.flatnonzero((np.abs(column) > _ZERO) | np.isnan(column)).astype(np.int32)
        for column in sample.T
    ]
    values = [column[at].astype(np.float64) for column, at in zip(sample.T, kept, strict=True)]
    width = len(kept)
    doubles, whole = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)
    made._handle = ctypes.c_void_p()
    columns = (doubles * width)(*(each.ctypes.data_as(doubles) for each in values))
    rows = (whole * width)(*(each.ctypes.data_as(whole) for each in kept))
    counts = np.array([each.size for each in kept], np.int32).ctypes.data_as(whole)
    sizes = ctypes.c_int32(len(sample)), ctypes.c_int32(local), ctypes.c_int64(total)
    given = _c_str(_param_dict_to_str(dict(params)))
    create = _LIB.LGBM_DatasetCreateFromSampledColumn
    _safe_call(
        create(
            columns, rows, ctypes.c_int32(width), counts, *sizes, given, ctypes.byref(made._handle)
        )
    )


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
