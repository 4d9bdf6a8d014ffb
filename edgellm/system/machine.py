"""The cores and the free memory of this machine.

On Linux the cores are read from files below a root folder, which tests replace:

    sys/devices/system/cpu/cpu*/topology/thread_siblings_list    CPUs that share a core
    sys/devices/cpu_core/cpus                                    CPUs of the performance cores (hybrid Intel)
    sys/devices/system/cpu/cpu*/cpu_capacity                     speed relative to the fastest, 1024 (Arm)
    proc/cpuinfo                                                 the name of each CPU (x86)

Sources: cputopology.rst, sched-capacity.rst and perf-intel-hybrid.txt of the kernel's documentation.
"""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from edgellm.system import cgroup

SMALL_MODEL_BYTES = 8 << 20
"""Models below this size in bytes run on one thread, which finishes before a second one wakes up.

Measured on 2 cores with a model of 1 MB: 3,000 tokens/s with one thread, 1,600 with two.
"""

_RESERVE_BYTES = 256 << 20


def default_threads(model_bytes: int = SMALL_MODEL_BYTES) -> int:
    """The default number of threads: one per physical performance core that this process may use, at least 1."""
    if model_bytes < SMALL_MODEL_BYTES:
        return 1
    if sys.platform == "linux":
        return linux_threads(Path("/"), os.sched_getaffinity(0))
    fast = _apple_performance_cores() if sys.platform == "darwin" else 0
    return fast or psutil.cpu_count(logical=False) or 1


def usable_cpus() -> float:
    """The number of CPUs (hardware threads) that this process may use at once, within the CPU quota."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    return min([len(os.sched_getaffinity(0)), *cgroup.cpu_quotas(Path("/"))])


def cpu_name() -> str:
    """The name of the CPU, or of its architecture if the system does not tell the name."""
    if sys.platform == "linux":
        name = linux_cpu_name(Path("/"))
    else:
        name = _sysctl("machdep.cpu.brand_string") if sys.platform == "darwin" else platform.processor()
    return name or platform.machine()


def available_memory() -> int:
    """Bytes of memory that can be allocated without swapping, within the limits of the cgroup."""
    return min([psutil.virtual_memory().available, *cgroup.free_memory(Path("/"))])


def allocatable_memory() -> int:
    """Bytes that can be allocated before Linux swaps, or kills a process.

    Other systems fail the allocation instead; for them there is no limit here.
    """
    return available_memory() if sys.platform == "linux" else sys.maxsize


def unreserved_memory() -> int:
    """Bytes of `allocatable_memory` for allocations that grow step by step.

    A sixteenth of all memory, at most 256 MiB, is left free: other programs allocate meanwhile, and the free memory is
    an estimate.
    """
    if sys.platform != "linux":
        return sys.maxsize
    total = min([psutil.virtual_memory().total, *cgroup.memory_limits(Path("/"))])
    return max(0, available_memory() - min(total // 16, _RESERVE_BYTES))


def linux_threads(root: Path, allowed: set[int]) -> int:
    """The number of distinct performance cores among the `allowed` CPUs, within the CPU quota.

    A quota of 2.5 CPUs gives 2 threads: a third one would be suspended for a part of the time, and all others would
    wait for it at the next barrier.
    """
    cores = {_core(root, cpu) for cpu in fast_cpus(root, allowed)}
    return max(1, int(min([len(cores), *cgroup.cpu_quotas(root)])))


def linux_cpu_name(root: Path) -> str:
    """The name of the first CPU; empty if the system tells none, as on Arm."""
    with suppress(OSError), (root / "proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        for line in file:  # line by line: the kernel takes a while to write the text of many CPUs
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


def _core(root: Path, cpu: int) -> int:
    """The number of the first CPU that shares a core with `cpu`."""
    path = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return min(parse_cpus(cgroup.read(path)), default=cpu)


def fast_cpus(root: Path, allowed: set[int]) -> set[int]:
    """The `allowed` CPUs that are performance cores; all of them if all cores are alike.

    On Arm, little cores have a quarter to a third of the highest capacity, middle and big ones over half.
    """
    hybrid = parse_cpus(cgroup.read(root / "sys/devices/cpu_core/cpus")) & allowed
    if hybrid:
        return hybrid
    folder = root / "sys/devices/system/cpu"
    capacity = {cpu: int(cgroup.read(folder / f"cpu{cpu}/cpu_capacity") or 0) for cpu in allowed}
    return {cpu for cpu in allowed if 2 * capacity[cpu] >= max(capacity.values())}


def parse_cpus(text: str) -> set[int]:
    """The numbers in a list of CPUs in the kernel's format, such as `0-3,8`."""
    spans = (part.partition("-") for part in text.split(",") if part)
    return {cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)}


def _apple_performance_cores() -> int:
    """The number of physical performance cores; 0 if the system does not tell (Intel, or before macOS 12)."""
    return int(_sysctl("hw.perflevel0.physicalcpu") or 0)


def _sysctl(name: str) -> str:
    """A value of sysctl; empty if it has no such name."""
    command = ["/usr/sbin/sysctl", "-n", name]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""
