"""Memory of this process and of the machine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: `process` is what this process holds (resident), `free` what the machine could still give."""

    process: int
    free: int


def memory() -> Memory:
    """What is held and free now."""
    import psutil  # after the screen stands

    from edgellm.system.machine import available_memory

    return Memory(psutil.Process().memory_info().rss, available_memory())
