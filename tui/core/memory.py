"""Memory of this process and of the machine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes: `process` is the resident memory of this process, `free` what the machine has available."""

    process: int
    free: int


def memory() -> Memory:
    """Measure both now."""
    import psutil  # here, so that the screen appears earlier

    from edgellm.system.machine import available_memory

    return Memory(psutil.Process().memory_info().rss, available_memory())
