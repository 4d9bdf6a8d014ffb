"""Limits of memory, checked before it is taken: Linux ends a process that takes too much, without an error."""

from typing import NamedTuple, NoReturn

from edgellm.errors import NoMemoryError
from edgellm.fmt import counted, size
from edgellm.system.machine import allocatable_memory, available_memory, unreserved_memory

_UNCHECKED = 16 << 20
"""Bytes that are taken without a check, which takes half a millisecond."""


_CACHED_SHARE = 4
"""The prefix cache takes at most 1 / _CACHED_SHARE of the memory that is free when a model is opened."""


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

    @property
    def cached_limit(self) -> int:
        """The most bytes of pages with which the prefix cache keeps any: without a limit a quarter of free memory."""
        return available_memory() // _CACHED_SHARE if self.limit is None else self.limit

    def refuse(self, nbytes: int, tokens: int) -> NoReturn:
        """Raise NoMemoryError: there are KV pages for `tokens` tokens, and no room for `nbytes` more bytes."""
        ways = "shorten the conversation, or choose a smaller --ctx or --kv-type q8_0"
        after = f"after {counted(tokens, 'token')}"
        if self.limit is None:
            self._refuse_without_limit(f"{size(nbytes)} of KV cache {after}", f", {ways}")
        what = f"the KV cache may not grow beyond {size(self.limit)} (--kv-memory), which are full {after}"
        raise NoMemoryError(f"{what}; allow more, {ways}")

    def refuse_state(self, state_bytes: int) -> NoReturn:
        """Raise NoMemoryError: there is no room for another state of recurrent layers, of `state_bytes` bytes."""
        state = f"{size(state_bytes)}, a state of recurrent layers"
        if self.limit is None:
            self._refuse_without_limit(state, "")
        what = f"the KV cache and recurrent states may not grow beyond {size(self.limit)} (--kv-memory)"
        raise NoMemoryError(f"{what}, which leave no room for another {state}; allow more")

    def _refuse_without_limit(self, what: str, ways: str) -> NoReturn:
        free = f"as {size(unreserved_memory())} are free"
        advice = f"close other programs, allow it all the same with --kv-memory{ways}"
        raise NoMemoryError(f"no memory for another {what}, {free}; {advice}")


NO_LIMIT = KVBudget()
"""No limit but free memory."""
