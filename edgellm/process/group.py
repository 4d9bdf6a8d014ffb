"""Process groups: a program of others and what it starts, apart from our terminal and our Ctrl-C, ended together."""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

NEW_GROUP: Mapping[str, Any] = (
    {"start_new_session": True}
    if os.name == "posix"
    else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
)
"""Arguments of Popen for a process in a group of its own; its id is the id of the group."""

TERM = signal.SIGTERM
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""On Windows both end a process at once."""


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a group that this user may signal; on Windows to its first process."""
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
