"""The private names of Dask that this library uses are there, and do what it expects."""

from __future__ import annotations

import pytest

from tautrank.engines.dask_private import address_of

distributed = pytest.importorskip("distributed")

FIRST_TESTED_VERSION = (2024, 5)


class Part:
    """What lives on a worker."""


def test_the_installed_version_is_in_the_range_that_is_tested():
    year, month = distributed.__version__.split(".")[:2]
    assert (int(year), int(month)) >= FIRST_TESTED_VERSION


def test_an_actor_says_which_worker_it_lives_on():
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        future = client.submit(Part, actor=True)
        with client.as_current():
            actor = future.result()
        assert address_of(actor) in client.nthreads()
