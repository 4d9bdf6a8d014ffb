import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from edgellm.system import cgroup, machine
from support import ROOT

CPUS = "sys/devices/system/cpu"


def lay(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root


def cores(*siblings: str) -> dict[str, object]:
    """The topology files of cores, each given by its list of CPUs."""
    lists = ((cpu, core) for core in siblings for cpu in machine.parse_cpus(core))
    return {f"{CPUS}/cpu{cpu}/topology/thread_siblings_list": core for cpu, core in lists}


def capacities(*values: int) -> dict[str, object]:
    return {f"{CPUS}/cpu{cpu}/cpu_capacity": value for cpu, value in enumerate(values)}


VERSION_2 = {
    "proc/self/cgroup": "0::/user.slice/app.scope",
    "proc/self/mountinfo": "22 1 0:21 / /proc rw - proc proc rw\n"
    "28 1 0:25 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate",
}
VERSION_1 = {
    "proc/self/cgroup": "5:memory:/docker/ab\n2:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab",
    "proc/self/mountinfo": "30 1 0:26 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup x rw,cpu,cpuacct\n"
    "31 1 0:27 /docker/ab /sys/fs/cgroup/memory ro master:3 - cgroup cgroup rw,memory",
}
APP = "sys/fs/cgroup/user.slice/app.scope"


@pytest.mark.parametrize(
    ("text", "numbers"), [("", set()), ("3", {3}), ("0-2,7", {0, 1, 2, 7}), ("4-5,10-11", {4, 5, 10, 11})]
)
def test_cpu_lists(text: str, numbers: set[int]) -> None:
    assert machine.parse_cpus(text) == numbers


def test_threads_of_one_core_count_once(tmp_path: Path) -> None:
    lay(tmp_path, cores("0,4", "1,5", "2,6", "3,7"))
    assert machine.linux_threads(tmp_path, set(range(8))) == 4
    assert machine.linux_threads(tmp_path, {0, 4, 5}) == 2  # one whole core and half of another
    assert machine.linux_threads(tmp_path, {7}) == 1


def test_hybrid_intel_uses_its_performance_cores(tmp_path: Path) -> None:
    lay(tmp_path, cores("0-1", "2-3", "4", "5", "6", "7") | {"sys/devices/cpu_core/cpus": "0-3"})
    assert machine.linux_threads(tmp_path, set(range(8))) == 2
    assert machine.linux_threads(tmp_path, {2, 3, 4, 5}) == 1
    assert machine.linux_threads(tmp_path, {4, 5, 6}) == 3  # all that is left is efficiency cores


def test_big_little_arm_leaves_out_the_little_cores(tmp_path: Path) -> None:
    lay(tmp_path, cores(*"01234567") | capacities(250, 250, 250, 250, 880, 880, 880, 1024))
    assert machine.fast_cpus(tmp_path, set(range(8))) == {4, 5, 6, 7}
    assert machine.linux_threads(tmp_path, set(range(4))) == 4  # kept to the little ones, they are the best


def test_a_machine_that_tells_nothing_has_a_core_per_cpu(tmp_path: Path) -> None:
    assert machine.linux_threads(tmp_path, {0, 1, 2}) == 3


@pytest.mark.parametrize(
    ("quota", "threads"),
    [("max 100000", 4), ("150000 100000", 1), ("300000 100000", 3), ("5000 100000", 1), ("900000 90000", 4)],
)
def test_a_cpu_quota_is_rounded_down_to_at_least_one(tmp_path: Path, quota: str, threads: int) -> None:
    lay(tmp_path, cores(*"0123") | VERSION_2 | {f"{APP}/cpu.max": quota})
    assert machine.linux_threads(tmp_path, {0, 1, 2, 3}) == threads


def test_the_tightest_quota_on_the_way_up_holds(tmp_path: Path) -> None:
    limits = {f"{APP}/cpu.max": "300000 100000", "sys/fs/cgroup/user.slice/cpu.max": "100000 50000"}
    lay(tmp_path, cores(*"0123") | VERSION_2 | limits)
    assert sorted(cgroup.cpu_quotas(tmp_path)) == [2.0, 3.0]
    assert machine.linux_threads(tmp_path, {0, 1, 2, 3}) == 2


@pytest.mark.parametrize(("quota", "found"), [(250000, [2.5]), (-1, [])])
def test_a_quota_of_version_1_seen_inside_a_container(tmp_path: Path, quota: int, found: list[float]) -> None:
    folder = "sys/fs/cgroup/cpu,cpuacct"
    lay(tmp_path, VERSION_1 | {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": 100000})
    assert list(cgroup.cpu_quotas(tmp_path)) == found


def test_a_memory_limit_of_version_2_counts_file_pages_as_free(tmp_path: Path) -> None:
    stat = "anon 600\nfile 250\ninactive_file 150\nactive_file 50\nshmem 50"
    limits = {f"{APP}/memory.max": 1000, f"{APP}/memory.current": 900, f"{APP}/memory.stat": stat}
    above = {"sys/fs/cgroup/user.slice/memory.max": "max", "sys/fs/cgroup/user.slice/memory.current": 10**6}
    assert list(cgroup.free_memory(lay(tmp_path, VERSION_2 | limits | above))) == [300]
    assert list(cgroup.memory_limits(tmp_path)) == [1000]


def test_a_memory_limit_of_version_1_counts_those_of_all_children(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/memory"
    stat = "inactive_file 1\nactive_file 1\ntotal_inactive_file 20\ntotal_active_file 5"
    limits = {"limit_in_bytes": 500, "usage_in_bytes": 510, "stat": stat}
    lay(tmp_path, VERSION_1 | {f"{folder}/memory.{name}": value for name, value in limits.items()})
    assert list(cgroup.free_memory(tmp_path)) == [15]
    assert list(cgroup.memory_limits(tmp_path)) == [500]


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    lay(tmp_path, VERSION_2 | {f"{APP}/memory.max": 100, f"{APP}/memory.current": 120})
    assert list(cgroup.free_memory(tmp_path)) == [0]


def test_no_cgroups_no_limits(tmp_path: Path) -> None:
    assert list(cgroup.cpu_quotas(tmp_path)) == list(cgroup.free_memory(tmp_path)) == []


def test_the_answers_for_this_machine_are_possible() -> None:
    assert 1 <= machine.default_threads() <= (os.cpu_count() or 1)
    assert machine.default_threads(machine.SMALL_MODEL_BYTES - 1) == 1
    assert 0 <= machine.available_memory() <= psutil.virtual_memory().total


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is set through Linux's own call")
def test_a_process_kept_to_one_cpu_computes_with_one_thread() -> None:
    code = "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])\n"
    code += "from edgellm.system.machine import default_threads, usable_cpus; print(default_threads(), usable_cpus())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT).split() == ["1", "1"]


@pytest.mark.parametrize(("told", "threads"), [("6", 6), (None, 9)])
def test_apple_tells_its_fast_cores(monkeypatch: pytest.MonkeyPatch, told: str | None, threads: int) -> None:
    answer = subprocess.CompletedProcess([], 0 if told else 1, stdout=f"{told}\n")
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: None if logical else 9)
    assert machine.default_threads() == threads


def test_the_name_of_the_first_cpu(tmp_path: Path) -> None:
    lines = "processor\t: 0\nmodel name\t: A CPU @ 3.00GHz: fast\nflags\t\t: fpu\n\nmodel name\t: Another\n"
    assert machine.linux_cpu_name(lay(tmp_path / "x86", {"proc/cpuinfo": lines})) == "A CPU @ 3.00GHz: fast"
    assert machine.linux_cpu_name(lay(tmp_path / "arm", {"proc/cpuinfo": "processor\t: 0\n"})) == ""
    assert machine.linux_cpu_name(tmp_path / "none") == ""


@pytest.mark.parametrize(("told", "name"), [("Apple M4", "Apple M4"), (None, platform.machine())])
def test_apple_tells_the_name_of_its_cpu(monkeypatch: pytest.MonkeyPatch, told: str | None, name: str) -> None:
    answer = subprocess.CompletedProcess([], 0 if told else 1, stdout=f"{told}\n")
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    assert machine.cpu_name() == name
