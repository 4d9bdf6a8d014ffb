"""The limits of the Linux cgroup of this process: of containers, systemd units, job schedulers.

All files are below a root folder, which tests replace. Sources: cgroups(7), and cgroup-v2.rst, sched-bwc.rst and
cgroup-v1/memory.rst of the kernel's documentation.
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
    """The CPU quota, in CPUs, of each cgroup level that has one."""
    for level in _levels(root, "cpu"):
        version_1 = [read(level / "cpu.cfs_quota_us"), read(level / "cpu.cfs_period_us")]
        quota, period = read(level / "cpu.max").split() or version_1
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)


def memory_limits(root: Path) -> Iterator[int]:
    """The memory limit, in bytes, of each cgroup level that has one."""
    for level in _levels(root, "memory"):
        limit = read(level / "memory.max") or read(level / "memory.limit_in_bytes")
        if limit.isdigit():
            yield int(limit)


def free_memory(root: Path) -> Iterator[int]:
    """The free bytes of each cgroup level that has a limit. File pages count as free, as the kernel can drop them."""
    for level in _levels(root, "memory"):
        if (level / "memory.max").exists():
            limit, used, prefix = read(level / "memory.max"), read(level / "memory.current"), ""
        else:
            limit, used = read(level / "memory.limit_in_bytes"), read(level / "memory.usage_in_bytes")
            prefix = "total_"
        if limit.isdigit() and used.isdigit():
            yield max(0, int(limit) - int(used) + _file_pages(level, prefix))


def _file_pages(level: Path, prefix: str) -> int:
    """Bytes of cached file pages of a level and its children."""
    stat = dict(line.split() for line in read(level / "memory.stat").splitlines())
    return sum(int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))


def _levels(root: Path, controller: str) -> Iterator[Path]:
    """The folders of the cgroups of this process, innermost first: those of version 1, then those of version 2.

    In a container, the path may be that of the host and not exist; then the mount point, which comes last, is right.
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
    """The mount point of each controller of version 1, and that of version 2 under the empty name."""
    mounts: dict[str, Path] = {}
    for line in read(root / "proc/self/mountinfo").splitlines():
        place, _, kind = line.partition(" - ")
        if kind.startswith("cgroup"):
            folder, (version, *_, options) = root / place.split()[4].lstrip("/"), kind.split()
            mounts |= dict.fromkeys([""] if version == "cgroup2" else options.split(","), folder)
    return mounts
