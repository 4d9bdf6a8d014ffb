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
    """A sequence whose first `held` tokens have their state in `slot`; `dirty`: the slot may hold more tokens."""

    def __init__(self, slots: "Slots") -> None:
        super().__init__()
        self._slots = slots
        self.slot: int | None = None
        self.held, self.dirty, self.used = 0, False, 0

    def fork(self) -> "SlotSequence":
        """Another sequence with the same tokens, sharing their state."""
        child = SlotSequence(self._slots)
        child.tokens = list(self.tokens)
        self._slots.share(self, child)
        return child

    def shared_prefix(self, tokens: Ids[int]) -> int:
        """The length of the longest prefix of `tokens` whose state this sequence holds."""
        return min(super().shared_prefix(tokens), self.held)

    def reach(self, n: int) -> int:
        """How many tokens `trim(n)` would leave: with recurrent layers all that have their state, or none."""
        n = min(n, self.held)
        return n if self._slots.goes_back or (n == self.held and not self.dirty) else 0

    def trim(self, n: int) -> int:
        """Keep the first `n` tokens, or as many of them as have their state; return how many are left."""
        self._slots.trim(self, min(n, self.held))
        del self.tokens[self.held :]
        return self.held


class Slots:
    """`n` slots in a child process. All methods raise EdgeLLMError once it has ended.

    `goes_back` tells whether a slot can drop its last tokens and keep the others.
    """

    def __init__(self, child: LlamaCppProcess, n: int, goes_back: bool) -> None:
        self._child, self.goes_back = child, goes_back
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
            sequence.held, sequence.dirty, sequence.slot = 0, False, slot
        return sequence.slot

    def make_room(self, busy: Collection[SlotSequence]) -> bool:
        """Empty a slot without an owner, or else the least recently used one; return False if all are busy."""
        owners = [(slot, self._owner(slot)) for slot, last in enumerate(self._owners) if last]
        ages = [(0 if owner is None else owner.used, slot) for slot, owner in owners if owner not in busy]
        if not ages:
            return False
        slot = min(ages)[1]
        if (owner := self._owner(slot)) is not None:
            owner.slot, owner.held = None, 0
        self._ask(RequestCode.TRIM, slot, 0)
        self._owners[slot] = None
        return True

    def trim(self, sequence: SlotSequence, n: int) -> None:
        """Keep the state of the first `n` tokens of a sequence, or of none if llama.cpp cannot go back."""
        n = min(n, len(sequence.tokens))
        if sequence.slot is not None and (sequence.dirty or n < sequence.held):
            sequence.dirty = True
            sequence.held = n
            sequence.held = NUMBER.unpack(self._ask(RequestCode.TRIM, sequence.slot, n))[0]
            sequence.dirty = False

    def share(self, sequence: SlotSequence, child: SlotSequence) -> None:
        """Let a new sequence share the state of another."""
        self.trim(sequence, sequence.held)
        if sequence.slot is not None and sequence.held:
            slot = self.place(child, [sequence, child])
            child.dirty = True
            self._ask(RequestCode.COPY, sequence.slot, slot)
            child.held, child.dirty = sequence.held, False

    def _owner(self, slot: int) -> SlotSequence | None:
        last = self._owners[slot]
        sequence = last() if last else None
        return sequence if sequence is not None and sequence.slot == slot else None

    def _ask(self, request: RequestCode, first: int, second: int) -> bytes:
        reply, payload = self._child.call(request, PAIR.pack(first, second))
        if reply != ReplyCode.OK:
            raise EdgeLLMError(f"{self._child.name}: llama.cpp {payload.decode(errors='replace')}; open it again")
        return payload
