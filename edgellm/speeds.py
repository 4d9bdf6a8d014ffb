"""The speeds of this machine that were measured last, kept for other processes: those of its memory and arithmetic.

All are bytes a second that a number of threads reach together: under MEMORY what they read for long, under the name of
a format what they multiply of its weights where these need not be waited for. See `edgellm.measuring`.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path

from edgellm.home import speeds_file
from edgellm.machine import cpu_name

MEMORY = "memory"
"""What the speed of the memory is called; no format is called so."""


def kept(threads: int) -> dict[str, float]:
    """The speeds to expect of this CPU with so many threads, those that were measured and kept."""
    found = _all().get(_key(threads))
    speeds = found.items() if isinstance(found, dict) else ()
    return {name: speed for name, speed in speeds if isinstance(speed, float) and isfinite(speed) and speed > 0}


def keep(threads: int, speeds: Mapping[str, float]) -> bool:
    """Keep measured speeds for `kept`, beside others of other names; False where nothing can be written."""
    path, all_speeds = speeds_file(), _all() | {_key(threads): {**kept(threads), **speeds}}
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(all_speeds, file)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        return True
    return False


def _key(threads: int) -> str:
    return f"{cpu_name()} {threads}"


def _all() -> dict[str, object]:
    """All that was kept; nothing if the file is missing or damaged."""
    try:
        found = json.loads(speeds_file().read_bytes(), parse_int=float)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
