"""The slots of llama.cpp's KV cache, and the sequences whose state is in them.

llama.cpp has a fixed number of slots, which share one cache of a fixed size. A sequence that is used gets a slot. If
there is no free slot, or no room, the least recently used sequence loses its state. It keeps its tokens, which are
computed again when it is continued.
"""

import weakref
from collections.abc import Collection
from collections.abc import Sequence as Ids
from itertools import count

from edgellm.engine import protocol
from edgellm.errors import EdgeLLMError
from edgellm.llamacpp.process import LlamaCppProcess
from edgellm.llamacpp.wire import NUMBER, PAIR, ReplyCode, RequestCode


class SlotSequence(protocol.Sequence):
    """A sequence whose first `held` tokens have their state in `slot`; `torn`: the slot may hold more tokens."""

    def __init__(self, slots: "Slots") -> None:
        super().__init__()
        self._slots = slots
        self.slot: int | None = None
        self.held, self.torn, self.used = 0, False, 0

    def fork(self) -> "SlotSequence":
        """Another sequence with the same tokens, sharing their state."""
        child = SlotSequence(self._slots)
        child.tokens = list(self.tokens)
        self._slots.share(self, child)
        return child

    def shared_prefix(self, tokens: Ids[int]) -> int:
        """The length of the longest prefix of `tokens` whose state this sequence holds."""
        return min(super().shared_prefix(tokens), self.held)

    def trim(self, n: int) -> int:
        """Keep the first `n` tokens, or as many of them as have their state; return how many are left."""
        self._slots.cut(self, min(n, self.held))
        del self.tokens[self.held :]
        return self.held


class Slots:
    """`n` slots in a child process. All methods raise EdgeLLMError once it has ended."""

    def __init__(self, child: LlamaCppProcess, n: int) -> None:
        self._child = child
        # The last owner of each slot, which may be gone, or have lost the slot. None: the slot is empty.
        self._owners: list[weakref.ref[SlotSequence] | None] = [None] * n
        self._clock = count(1)

    def place(self, sequence: SlotSequence, busy: Collection[SlotSequence]) -> int:
        """The slot of a sequence, which gets one if it has none, but never that of a `busy` sequence."""
        sequence.used = next(self._clock)
        if sequence.slot is None:
            if None not in self._owners and not self.make_room(busy):
                raise EdgeLLMError(f"llama.cpp computes at most {len(self._owners)} sequences at once; use fewer")
            slot = self._owners.index(None)
            self._owners[slot] = weakref.ref(sequence)
            sequence.held, sequence.torn, sequence.slot = 0, False, slot
        return sequence.slot

    def make_room(self, busy: Collection[SlotSequence]) -> bool:
        """Empty a slot without an owner, or else the least recently used one; return False if all are busy."""
        holders = [(slot, self._holder(slot)) for slot, owner in enumerate(self._owners) if owner]
        ages = [(0 if holder is None else holder.used, slot) for slot, holder in holders if holder not in busy]
        if not ages:
            return False
        slot = min(ages)[1]
        holder = self._holder(slot)
        if holder is not None:
            holder.slot, holder.held = None, 0
        self._ask(RequestCode.TRIM, slot, 0)
        self._owners[slot] = None
        return True

    def cut(self, sequence: SlotSequence, n: int) -> None:
        """Keep the state of the first `n` tokens of a sequence, or of none if llama.cpp cannot go back."""
        n = min(n, len(sequence.tokens))
        if sequence.slot is not None and (sequence.torn or n < sequence.held):
            sequence.torn = True
            sequence.held = n
            sequence.held = NUMBER.unpack(self._ask(RequestCode.TRIM, sequence.slot, n))[0]
            sequence.torn = False

    def share(self, sequence: SlotSequence, child: SlotSequence) -> None:
        """Let a new sequence share the state of another."""
        self.cut(sequence, sequence.held)
        if sequence.slot is not None and sequence.held:
            slot = self.place(child, [sequence, child])
            child.torn = True
            self._ask(RequestCode.COPY, sequence.slot, slot)
            child.held, child.torn = sequence.held, False

    def _holder(self, slot: int) -> SlotSequence | None:
        owner = self._owners[slot]
        sequence = owner() if owner else None
        return sequence if sequence is not None and sequence.slot == slot else None

    def _ask(self, request: RequestCode, first: int, second: int) -> bytes:
        reply, payload = self._child.call(request, PAIR.pack(first, second))
        if reply != ReplyCode.OK:
            raise EdgeLLMError(f"{self._child.name}: llama.cpp {payload.decode(errors='replace')}; open it again")
        return payload
