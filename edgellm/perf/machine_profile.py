"""The machine profile: the speeds that were measured last, kept in a file for other processes.

A speed is bytes per second of a number of threads together. Under MEMORY it is the sustained read bandwidth; under the
name of a format it is the bytes of its weights that are multiplied where they need not be read from memory, with the
kernels of the measurement. See `edgellm.perf.bandwidth`. If two processes save at once, one may lose its speeds; they
are measured again.
"""

import json
from collections.abc import Mapping
from contextlib import suppress

from edgellm.system.atomic_file import write_atomic
from edgellm.system.folders import machine_profile_file
from edgellm.system.machine import cpu_name

MEMORY = "memory"
"""The name of the memory's speed; no format has this name."""

_KERNELS = "kernels"
"""The key of the fingerprint of the kernels that were measured."""

_MIN_SPEED, _MAX_SPEED = 1e6, 1e15
"""Bytes per second between which a speed is plausible."""


def load_profile(threads: int) -> dict[str, float]:
    """The speeds that were saved for this CPU and number of threads, by name; those unknown are missing."""
    return _usable(_read_all().get(_key(threads), {}))


def _usable(entry: Mapping[str, float | str]) -> dict[str, float]:
    """The plausible speeds of an entry; those of formats only if they were measured with the current kernels."""
    if not entry:
        return {}
    current = entry.get(_KERNELS) == _kernels()
    speeds = (
        (name, speed) for name, speed in entry.items() if isinstance(speed, float) and _MIN_SPEED <= speed <= _MAX_SPEED
    )
    return {name: speed for name, speed in speeds if current or name == MEMORY}


def save_profile(threads: int, speeds: Mapping[str, float]) -> bool:
    """Save speeds, beside those already saved under other names; False if the file cannot be written."""
    path, entries, key = machine_profile_file(), _read_all(), _key(threads)
    entries[key] = {**_usable(entries.get(key, {})), **speeds, _KERNELS: _kernels()}
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, json.dumps(entries).encode())
        return True
    return False


def _kernels() -> str:
    from kquants import jit  # imports LLVM, which `info` does not need where nothing was saved

    return jit.fingerprint()


def _key(threads: int) -> str:
    return f"{cpu_name()} {threads}"


def _read_all() -> dict[str, dict[str, float | str]]:
    """The well-formed entries of the file; none if it is missing, damaged, or not a file."""
    path = machine_profile_file()
    try:
        found = json.loads(path.read_bytes(), parse_int=float) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    entries = found.items() if isinstance(found, dict) else ()
    return {key: _well_formed(entry) for key, entry in entries if isinstance(entry, dict)}


def _well_formed(entry: dict[str, object]) -> dict[str, float | str]:
    return {name: value for name, value in entry.items() if isinstance(value, float | str)}
