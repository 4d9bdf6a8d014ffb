"""The process that something belongs to. fork() copies its memory to another, but neither threads nor children."""

import os

from edgellm.errors import EdgeLLMError


class ForkGuard:
    """The process that made this object."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def in_owner_process(self) -> bool:
        """Whether this is that process, and not one that was forked from it."""
        return os.getpid() == self._pid

    def check(self, what: str) -> None:
        """Raises EdgeLLMError in another process than that; `what` cannot be used there."""
        if not self.in_owner_process():
            raise EdgeLLMError(
                f"{what} was opened before this process was forked, and its threads stayed in the other one: "
                'open it here, or start processes in another way (multiprocessing.set_start_method("spawn"))'
            )
