"""How many threads a process may use: by affinity and by the quotas of control groups."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from tautrank import arguments
from tautrank.arguments import job_count, processor_quota


def _root(folder: Path, groups: str, files: dict[str, str]) -> str:
    for name, text in {
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{n}": t for n, t in files.items()},
    }.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return str(folder)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/", {"cpu.max": "max 100000"}, math.inf),
        ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0),
        ("0::/a/b", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "50000 100000"}, 0.5),
        ("0::/not/seen", {"cpu.max": "300000 100000"}, 3.0),
        (
            "4:memory:/m\n3:cpu,cpuacct:/docker/1\n0::/",
            {"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            4.0,
        ),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
        ("1:name=systemd:/\n", {}, math.inf),
        ("0::/", {"cpu.max": "nonsense"}, math.inf),
    ],
)
def test_the_quota_of_both_versions_of_control_groups(
    groups: str, files: dict[str, str], expected: float, tmp_path: Path
) -> None:
    assert processor_quota(_root(tmp_path, groups, files)) == expected


def test_all_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for quota, expected in ((math.inf, 8), (2.5, 3), (0.3, 1), (12.0, 8)):
        monkeypatch.setattr(arguments, "processor_quota", lambda q=quota: q)
        assert job_count(None) == job_count(-1) == expected
        assert job_count(5) == 5
