"""The speeds of this machine that were measured last, kept for other processes: those of its memory and arithmetic.

All are bytes a second that a number of threads reach together: under MEMORY what they read for long, under the name of
a format what they multiply of its weights where these need not be waited for, with the kernels that were measured. See
`edgellm.perf.bandwidth`. Of two processes that keep speeds at once, one may lose what it has kept: it is measured again.
"""

import json
from collections.abc import Mapping
from contextlib import suppress

from edgellm.system.atomic_file import write_atomic
from edgellm.system.folders import machine_profile_file
from edgellm.system.machine import cpu_name

MEMORY = "memory"
"""What the speed of the memory is called; no format is called so."""

_KERNELS = "kernels"
"""What the fingerprint of the kernels is called that multiplied."""

_LEAST, _MOST = 1e6, 1e15
"""Bytes a second between which speeds are believed."""


def kept(threads: int) -> dict[str, float]:
    """The speeds to expect of this CPU with so many threads, those that were measured and kept."""
    return _believed(_all().get(_key(threads), {}))


def _believed(entry: Mapping[str, float | str]) -> dict[str, float]:
    """Those speeds of an entry that are possible, and still those of our kernels."""
    if not entry:
        return {}
    same = entry.get(_KERNELS) == _kernels()
    speeds = ((name, speed) for name, speed in entry.items() if isinstance(speed, float) and _LEAST <= speed <= _MOST)
    return {name: speed for name, speed in speeds if same or name == MEMORY}


def keep(threads: int, speeds: Mapping[str, float]) -> bool:
    """Keep measured speeds for `kept`, beside others of other names; False where nothing can be written."""
    path, entries, key = machine_profile_file(), _all(), _key(threads)
    entries[key] = {**_believed(entries.get(key, {})), **speeds, _KERNELS: _kernels()}
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, json.dumps(entries).encode())
        return True
    return False


def _kernels() -> str:
    from kquants import jit  # brings LLVM, which `info` does without where nothing was kept

    return jit.fingerprint()


def _key(threads: int) -> str:
    return f"{cpu_name()} {threads}"


def _all() -> dict[str, dict[str, float | str]]:
    """All that was kept, and is of its kind; nothing if the file is missing or damaged, or no file."""
    path = machine_profile_file()
    try:
        found = json.loads(path.read_bytes(), parse_int=float) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    entries = found.items() if isinstance(found, dict) else ()
    return {key: _sound(entry) for key, entry in entries if isinstance(entry, dict)}


def _sound(entry: dict[str, object]) -> dict[str, float | str]:
    return {name: value for name, value in entry.items() if isinstance(value, float | str)}
