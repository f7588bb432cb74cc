"""Ranking data that the workers of a Dask cluster read, each its own files; needs the `distributed`
extra.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tautrank
from tautrank.data.ranking_data import RankingData
from tautrank.data.streamed import files_of, joined, scan
from tautrank.errors import DataError, OptionError, require
from tautrank.files import PathLike

LOCAL = "local"
_TIMEOUT = "10s"  # of a scheduler that does not answer
_SAME_ON_ALL_WORKERS = ("tautrank", "lightgbm", "numpy")
_LOG_ONLY_CRITICAL = 50  # a level of `logging`


@dataclass(frozen=True, eq=False, repr=False)
class DistributedData(RankingData):
    """Labels and queries of the whole, and the cluster whose workers read the features: what
    `Ranker.fit` trains on.

    Args:
        client: the ``distributed.Client``.
    """

    client: Any = None


def read_distributed(
    paths: PathLike | Sequence[PathLike], *, client: Any, **options: Any
) -> DistributedData:
    """Read training data on the workers of a Dask cluster; `Ranker.fit` then trains there, with
    LightGBM or XGBoost.

    Workers take consecutive files of about the same number of documents, and must find them under
    the same paths. A query that goes on in the next file is read by one worker as a whole; queries
    whose documents are scattered in any other way are refused with their ids. Labels and queries
    come to the client, features stay with the workers, which hold them as bins, one byte per
    number.

    Args:
        paths: Parquet or Arrow IPC files, or LETOR text: a path, a pattern such as
            ``"part-*.parquet"``, or several.
        client: a ``distributed.Client``. Its workers need this version of tautrank.
        **options: as in `read_streamed`.

    >>> from distributed import Client, LocalCluster
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("2 qid:7 1:0.5\\n0 qid:7 1:0.25\\n")
    >>> _ = (folder / "b.txt").write_text("1 qid:7 1:0.5\\n0 qid:8 1:0.25\\n")
    >>> workers = {"n_workers": 1, "processes": False, "dashboard_address": None}
    >>> with LocalCluster(**workers) as cluster, Client(cluster) as client:
    ...     read_distributed(f"{folder}/*.txt", client=client)
    RankingData(2 queries, 4 documents, 1 features)
    """
    dask = require("distributed", "reading on a cluster needs Dask", "distributed")
    if not isinstance(client, dask.Client):
        raise OptionError(f"client: found {type(client).__name__}; expected a distributed.Client")
    files = files_of(paths)
    check_versions(client)
    with in_one_sentence(client):
        # `scan` reads labels and query ids. pure=False: a file read again may have changed.
        futures = [client.submit(scan, file, options, pure=False) for file in files]
        scans = client.gather(futures)
    data = joined(scans, files, options)
    return DistributedData(
        data.X, data.labels, data.offsets, data.qids, data.feature_names, client=client
    )


@contextmanager
def in_one_sentence(client: Any) -> Iterator[None]:
    """Context manager that turns errors of a Dask cluster (dead workers, a lost connection) into a
    `DataError` of one sentence; other errors pass unchanged.

    Args:
        client: the client of the cluster.
    """
    dask = require("distributed", "a cluster needs Dask", "distributed")
    cluster = getattr(client.scheduler, "address", "the cluster")
    try:
        yield
    except dask.KilledWorker as error:
        raise DataError(
            f"{cluster}: workers died while they read ({error.last_worker.address})"
        ) from None
    except (OSError, dask.CancelledError, dask.comm.CommClosedError) as error:
        gone = f"the Dask cluster is gone ({error or type(error).__name__})"
        raise DataError(f"{cluster}: {gone}; expected it to live as long as the run") from None


def versions(*names: str) -> dict[str, str]:
    """Return the versions of packages.

    Args:
        names: the packages; by default those that must be the same on all workers to read data.
    """
    version_by_name = {}
    for name in names or _SAME_ON_ALL_WORKERS:
        version_by_name[name] = str(importlib.import_module(name).__version__)
    return version_by_name


def check_versions(client: Any, *names: str) -> None:
    """Raise an error if a worker of a Dask cluster has another version of a package than this
    process.

    Args:
        client: the client of the cluster.
        names: the packages; by default those that must be the same on all workers to read data.
    """
    try:
        versions_by_worker = client.run(versions, *names)
    except Exception as error:
        needed = " and ".join(names) or f"tautrank {tautrank.__version__}"
        raise DataError(
            f"client: a worker cannot run tautrank ({type(error).__name__}: {error}); "
            f"expected workers with {needed}"
        ) from None
    if not versions_by_worker:
        raise DataError("client: found a cluster without workers; expected at least one")
    for name, our_version in versions(*names).items():
        for worker, version_by_name in versions_by_worker.items():
            version = version_by_name[name]
            if version != our_version:
                raise DataError(
                    f"{worker}: found {name} {version}; expected {our_version}, as here"
                )


def connect(address: str, n: int, stack: ExitStack, option: str) -> Any:
    """Connect to a Dask cluster, or start one on this machine, and return its client.

    Args:
        address: the address of a scheduler (``tcp://host:8786``), its scheduler file, or ``local``
            for a cluster of worker processes on this machine.
        n: the number of worker processes of a local cluster.
        stack: closes the client, and a local cluster, when it is closed itself.
        option: the option that asked for the cluster, for errors.
    """
    dask = require("distributed", "a cluster needs Dask", "distributed")
    if address == LOCAL:
        cluster = dask.LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            # Errors of workers are raised here too: their logs would repeat them, with a traceback.
            silence_logs=_LOG_ONLY_CRITICAL,
        )
        stack.enter_context(cluster)
        return stack.enter_context(dask.Client(cluster))

    is_file = "://" not in address and Path(address).is_file()
    argument_name = "scheduler_file" if is_file else "address"
    try:
        client = dask.Client(**{argument_name: address}, timeout=_TIMEOUT)
        return stack.enter_context(client)
    except (OSError, ValueError, TimeoutError) as error:
        raise OptionError(
            f"{option}: found no scheduler at '{address}' ({error}); "
            "expected an address such as tcp://host:8786, a scheduler file, or local"
        ) from None
