"""The limits that a Linux cgroup sets this process: containers, systemd units, job schedulers.

All is read from files under a root, which tests replace by a tree of their own. Sources: cgroups(7), and
cgroup-v2.rst, sched-bwc.rst and cgroup-v1/memory.rst of the kernel's documentation.
"""

from collections.abc import Iterator
from pathlib import Path


def read(path: Path) -> str:
    """The text of a small kernel file, stripped; empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def cpu_quotas(root: Path) -> Iterator[float]:
    """The CPU quota, in CPUs, of each level that has one."""
    for level in _levels(root, "cpu"):
        version_1 = [read(level / "cpu.cfs_quota_us"), read(level / "cpu.cfs_period_us")]
        quota, period = read(level / "cpu.max").split() or version_1
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)


def memory_limits(root: Path) -> Iterator[int]:
    """The limit in bytes of each level that has one."""
    for level in _levels(root, "memory"):
        limit = read(level / "memory.max") or read(level / "memory.limit_in_bytes")
        if limit.isdigit():
            yield int(limit)


def free_memory(root: Path) -> Iterator[int]:
    """Bytes left at each level that has a limit; file pages count as left, as the kernel can drop them."""
    for level in _levels(root, "memory"):
        if (level / "memory.max").exists():
            limit, used, prefix = read(level / "memory.max"), read(level / "memory.current"), ""
        else:
            limit, used = read(level / "memory.limit_in_bytes"), read(level / "memory.usage_in_bytes")
            prefix = "total_"
        if limit.isdigit() and used.isdigit():
            yield max(0, int(limit) - int(used) + _file_pages(level, prefix))


def _file_pages(level: Path, prefix: str) -> int:
    """Bytes of cached file pages, those of the level's children included."""
    stat = dict(line.split() for line in read(level / "memory.stat").splitlines())
    return sum(int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))


def _levels(root: Path, controller: str) -> Iterator[Path]:
    """The folders that limit this process, innermost first: the controller's of version 1, then version 2's.

    In a container the path may be the host's and lead nowhere: then the mount point, given last, is its own.
    """
    mounts = _mounts(root)
    for line in read(root / "proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        key = controller if controller in names.split(",") else names
        if key in (controller, "") and key in mounts:
            steps = [step for step in path.split("/") if step not in ("", "..")]
            for depth in range(len(steps), -1, -1):
                yield mounts[key].joinpath(*steps[:depth])


def _mounts(root: Path) -> dict[str, Path]:
    """Where each controller of version 1 is mounted, and, under the empty name, version 2."""
    mounts: dict[str, Path] = {}
    for line in read(root / "proc/self/mountinfo").splitlines():
        place, _, kind = line.partition(" - ")
        if kind.startswith("cgroup"):
            folder, (version, *_, options) = root / place.split()[4].lstrip("/"), kind.split()
            mounts |= dict.fromkeys([""] if version == "cgroup2" else options.split(","), folder)
    return mounts
