"""Limits of memory, checked before it is taken: Linux ends a process that takes too much, without an error."""

from typing import NamedTuple, NoReturn

from edgellm.errors import NoMemoryError
from edgellm.fmt import counted, size
from edgellm.system.machine import allocatable_memory, unreserved_memory

_UNCHECKED = 16 << 20
"""Bytes that are taken without a check, which takes half a millisecond."""


def check_memory(nbytes: int, what: str, advice: str) -> None:
    """Raise NoMemoryError if `nbytes` bytes are not free; the message says what for, and what to do."""
    if nbytes > _UNCHECKED and nbytes > (free := allocatable_memory()):
        raise NoMemoryError(f"no memory for {size(nbytes)} of {what}, as {size(free)} are free; {advice}")


class KVBudget(NamedTuple):
    """The memory for the KV pages of one model: at most `limit` bytes, or if it is None those that are free."""

    limit: int | None = None

    @classmethod
    def of(cls, kv_memory: float | None) -> "KVBudget":
        """The budget of an option in GB."""
        return cls(None if kv_memory is None else int(kv_memory * 1e9))

    def room(self, held: int) -> int:
        """Bytes that may be taken, with `held` bytes of pages already there."""
        return unreserved_memory() if self.limit is None else max(0, self.limit - held)

    def refuse(self, nbytes: int, tokens: int) -> NoReturn:
        """Raise NoMemoryError: there are pages for `tokens` tokens, and no room for `nbytes` more bytes."""
        ways = "shorten the conversation, or choose a smaller --ctx or --kv-type q8_0"
        after = f"after {counted(tokens, 'token')}"
        if self.limit is None:
            spare = f"{size(unreserved_memory())} are free"
            what = f"no memory for another {size(nbytes)} of KV cache {after}, as {spare}"
            raise NoMemoryError(f"{what}; close other programs, allow it all the same with --kv-memory, {ways}")
        what = f"the KV cache may not grow beyond {size(self.limit)} (--kv-memory), which are full {after}"
        raise NoMemoryError(f"{what}; allow more, {ways}")

    def refuse_states(self, nbytes: int) -> NoReturn:
        """Raise NoMemoryError: there is no room for `nbytes` more bytes of the states of recurrent layers."""
        what = f"another {size(nbytes)} of recurrent states"
        if self.limit is None:
            spare = f"{size(unreserved_memory())} are free"
            advice = "close other programs, or allow it all the same with --kv-memory"
            raise NoMemoryError(f"no memory for {what}, as {spare}; {advice}")
        raise NoMemoryError(f"no room for {what} within {size(self.limit)} (--kv-memory); allow more")


NO_LIMIT = KVBudget()
"""No limit but free memory."""
