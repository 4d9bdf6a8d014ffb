"""A guide that follows a grammar of llguidance."""

from copy import copy

import numpy as np
from llguidance import LLMatcher

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.guides.guide import Mask
from edgellm.guides.utf8_filter import Utf8State


class GrammarGuide:
    """The state of one reply in a grammar. See `edgellm.guides.guide.Guide`.

    `matcher` is at the beginning of the reply, and the guide's own. `vocab` is the width of the masks; `ends` are the
    tokens that end a reply. `utf8` is given for a grammar that may allow bytes that are no characters.
    """

    def __init__(self, matcher: LLMatcher, vocab: int, ends: frozenset[int], utf8: Utf8State | None = None) -> None:
        self._matcher, self._vocab, self._utf8 = matcher, vocab, utf8
        self._ends = [i for i in ends if i < vocab]
        self.begun = False
        self._note()

    def allowed(self) -> Mask:
        """The tokens that may come next, without those that end a reply before it is complete."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        known = np.unpackbits(bits, count=min(self._vocab, 8 * len(bits)), bitorder="little")
        mask = np.zeros(self._vocab, np.bool_)
        mask[: len(known)] = known
        if self._utf8:
            mask[: len(known)] &= self._utf8.allowed()[: len(known)]
        mask[self._ends] |= self.complete
        if not mask.any():
            raise EdgeLLMError("no token may come next in the guided reply: the vocabulary cannot write what must come")
        return mask

    def accept(self, token: int) -> None:
        """Append a token."""
        self.begun = True
        if token in self._ends:
            self.ended = True
            return
        self._matcher.consume_token(token)
        self._check()
        if self._utf8:
            self._utf8.accept(token)
        self._note()

    def fork(self) -> "GrammarGuide":
        """Another guide, whose matcher and bytes of an incomplete character are its own."""
        child = copy(self)
        child._matcher, child._utf8 = self._matcher.deep_copy(), copy(self._utf8)
        return child

    def forced(self) -> list[int]:
        """The tokens that come next whatever the model computes."""
        return [] if self.ended else self._matcher.compute_ff_tokens()

    def _note(self) -> None:
        self.complete = self._matcher.is_accepting() and not (self._utf8 and self._utf8.pending)
        self.ended = self._matcher.is_stopped()

    def _check(self) -> None:
        """Raises EdgeLLMError where the grammar is too complex to go on."""
        if self._matcher.is_error():
            problem = printable(self._matcher.get_error().splitlines()[0], 200)
            raise EdgeLLMError(f"the guided reply cannot go on: {problem}; give a simpler schema or grammar")
