"""The slots of llama.cpp's KV cache, and the sequences whose state is in them.

llama.cpp has a fixed number of slots, which share one cache of a fixed size. A sequence has one while it is used;
if another needs the slot or the room, the sequence that was used longest ago loses its state. It keeps its tokens,
and they are computed again should it be continued.
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
    """A sequence whose state is in `slot`, if any: that of its first `held` tokens, and if `torn` some rest behind."""

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
        """How many of `tokens`, from the first on, this sequence has the state of."""
        return min(super().shared_prefix(tokens), self.held)

    def trim(self, n: int) -> int:
        """Forget all but the first `n` tokens, or more where less of the state is there; how many are left."""
        self._slots.cut(self, min(n, self.held))
        del self.tokens[self.held :]
        return self.held


class Slots:
    """`n` slots in a child process. Each method raises EdgeLLMError once that has ended."""

    def __init__(self, child: LlamaCppProcess, n: int) -> None:
        self._child = child
        # Who was given a slot last; it may have gone, or have lost the slot. None: the slot is empty.
        self._given: list[weakref.ref[SlotSequence] | None] = [None] * n
        self._clock = count(1)

    def place(self, sequence: SlotSequence, busy: Collection[SlotSequence]) -> int:
        """The slot of a sequence; if it has none an empty one, which is never taken from those that are `busy`."""
        sequence.used = next(self._clock)
        if sequence.slot is None:
            if None not in self._given and not self.make_room(busy):
                raise EdgeLLMError(f"llama.cpp computes at most {len(self._given)} sequences at once; use fewer")
            slot = self._given.index(None)
            self._given[slot] = weakref.ref(sequence)
            sequence.held, sequence.torn, sequence.slot = 0, False, slot
        return sequence.slot

    def make_room(self, busy: Collection[SlotSequence]) -> bool:
        """Empty the slot that is missed least: nobody's, or else the one used longest ago. False if all are busy."""
        holders = [(slot, self._holder(slot)) for slot, given in enumerate(self._given) if given]
        ages = [(0 if holder is None else holder.used, slot) for slot, holder in holders if holder not in busy]
        if not ages:
            return False
        slot = min(ages)[1]
        holder = self._holder(slot)
        if holder is not None:
            holder.slot, holder.held = None, 0
        self._ask(RequestCode.TRIM, slot, 0)
        self._given[slot] = None
        return True

    def cut(self, sequence: SlotSequence, n: int) -> None:
        """Let a sequence hold the state of its first `n` tokens alone, or of none where llama.cpp cannot go back."""
        n = min(n, len(sequence.tokens))
        if sequence.slot is not None and (sequence.torn or n < sequence.held):
            sequence.torn = True
            sequence.held = n
            sequence.held = NUMBER.unpack(self._ask(RequestCode.TRIM, sequence.slot, n))[0]
            sequence.torn = False

    def share(self, sequence: SlotSequence, child: SlotSequence) -> None:
        """Let a new sequence hold what another does."""
        self.cut(sequence, sequence.held)
        if sequence.slot is not None and sequence.held:
            slot = self.place(child, [sequence, child])
            child.torn = True
            self._ask(RequestCode.COPY, sequence.slot, slot)
            child.held, child.torn = sequence.held, False

    def _holder(self, slot: int) -> SlotSequence | None:
        given = self._given[slot]
        sequence = given() if given else None
        return sequence if sequence is not None and sequence.slot == slot else None

    def _ask(self, request: RequestCode, first: int, second: int) -> bytes:
        reply, payload = self._child.call(request, PAIR.pack(first, second))
        if reply != ReplyCode.OK:
            raise EdgeLLMError(f"{self._child.name}: llama.cpp {payload.decode(errors='replace')}; open it again")
        return payload
