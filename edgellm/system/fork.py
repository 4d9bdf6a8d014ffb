"""Detects that a process was forked. fork() copies the memory of a process, but not its threads and children."""

import os

from edgellm.errors import EdgeLLMError


class ForkGuard:
    """Remembers the process that made this object."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def in_owner_process(self) -> bool:
        """Whether this process made the object, and was not forked from that one."""
        return os.getpid() == self._pid

    def check(self, what: str) -> None:
        """Raise EdgeLLMError in a forked process; `what` names the object that cannot be used there."""
        if not self.in_owner_process():
            raise EdgeLLMError(
                f"{what} was opened before this process was forked, and its threads stayed in the other one: "
                'open it here, or start processes in another way (multiprocessing.set_start_method("spawn"))'
            )
