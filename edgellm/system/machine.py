"""What this machine has for us: cores to compute on, and free memory.

On Linux the cores are read from files under a root, which tests replace by a tree of their own:

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
"""Bytes of a model that one thread is done with before a second is awake: measured on 2 cores, a model of 1 MB gave
3,000 tokens/s with one thread and 1,600 with two."""

_KEPT_FREE = 256 << 20


def default_threads(model_bytes: int = SMALL_MODEL_BYTES) -> int:
    """How many threads compute a model best: one per physical performance core this process may use, at least 1."""
    if model_bytes < SMALL_MODEL_BYTES:
        return 1
    if sys.platform == "linux":
        return linux_threads(Path("/"), os.sched_getaffinity(0))
    fast = _apple_performance_cores() if sys.platform == "darwin" else 0
    return fast or psutil.cpu_count(logical=False) or 1


def usable_cpus() -> float:
    """How many CPUs (hardware threads) this process may use at once, within the CPU quota."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    return min([len(os.sched_getaffinity(0)), *cgroup.cpu_quotas(Path("/"))])


def cpu_name() -> str:
    """What the CPU calls itself, as far as the system tells."""
    if sys.platform == "linux":
        name = linux_cpu_name(Path("/"))
    else:
        name = _sysctl("machdep.cpu.brand_string") if sys.platform == "darwin" else platform.processor()
    return name or platform.machine()


def available_memory() -> int:
    """Bytes of memory that can still be taken without swapping, within the limits of the cgroup."""
    return min([psutil.virtual_memory().available, *cgroup.free_memory(Path("/"))])


def obtainable_memory() -> int:
    """Bytes that may be taken before Linux swaps, or ends a process for want of memory.

    Other systems say when there is none.
    """
    return available_memory() if sys.platform == "linux" else sys.maxsize


def spare_memory() -> int:
    """Bytes of that for what grows step by step.

    A sixteenth of all memory, or 256 MiB, stays free: others take some meanwhile, and what is free is estimated.
    """
    if sys.platform != "linux":
        return sys.maxsize
    total = min([psutil.virtual_memory().total, *cgroup.memory_limits(Path("/"))])
    return max(0, available_memory() - min(total // 16, _KEPT_FREE))


def linux_threads(root: Path, allowed: set[int]) -> int:
    """Distinct cores among the fast ones of the `allowed` CPUs, within the CPU quota.

    A quota of 2.5 CPUs makes 2 threads: a third would be stopped for a part of the time, and all others wait
    for it at the next barrier.
    """
    cores = {_core(root, cpu) for cpu in fast_cpus(root, allowed)}
    return max(1, int(min([len(cores), *cgroup.cpu_quotas(root)])))


def linux_cpu_name(root: Path) -> str:
    """The name of the first CPU; empty where there is none, as on Arm."""
    with suppress(OSError), (root / "proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        for line in file:  # not all at once: where there are many CPUs, the kernel takes its time for each
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


def _core(root: Path, cpu: int) -> int:
    """The first of the CPUs that share a core with this one."""
    path = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return min(parse_cpus(cgroup.read(path)), default=cpu)


def fast_cpus(root: Path, allowed: set[int]) -> set[int]:
    """Those of the `allowed` CPUs that are performance cores; all of them where no core is better.

    On Arm, little cores have a quarter to a third of the best one's capacity, middle and big ones over half.
    """
    hybrid = parse_cpus(cgroup.read(root / "sys/devices/cpu_core/cpus")) & allowed
    if hybrid:
        return hybrid
    folder = root / "sys/devices/system/cpu"
    capacity = {cpu: int(cgroup.read(folder / f"cpu{cpu}/cpu_capacity") or 0) for cpu in allowed}
    return {cpu for cpu in allowed if 2 * capacity[cpu] >= max(capacity.values())}


def parse_cpus(text: str) -> set[int]:
    """The numbers in a list as the kernel writes it, such as `0-3,8`."""
    spans = (part.partition("-") for part in text.split(",") if part)
    return {cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)}


def _apple_performance_cores() -> int:
    """Physical cores of the fastest kind; 0 where the system does not tell (Intel, or before macOS 12)."""
    return int(_sysctl("hw.perflevel0.physicalcpu") or 0)


def _sysctl(name: str) -> str:
    """A value of the system; empty where it has no such name."""
    command = ["/usr/sbin/sysctl", "-n", name]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""
