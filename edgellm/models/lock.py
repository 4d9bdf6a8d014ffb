"""A lock between processes: one pull at a time into a folder."""

from contextlib import AbstractContextManager
from pathlib import Path

from edgellm.fmt import printable
from edgellm.system.file_lock import file_lock


def pull_lock(folder: Path, what: str) -> AbstractContextManager[None]:
    """Hold the lock of a staging folder: the file KEY.lock beside it. `what` is the name of what is pulled.

    The lock ends with the process. Raises EdgeLLMError if another process has it.
    """
    problem = f"{printable(what)} is being pulled by another edgellm; wait for it, or stop it"
    return file_lock(folder.with_suffix(".lock"), problem)
