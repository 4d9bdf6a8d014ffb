"""A guide that follows a grammar of llguidance."""

import numpy as np
from llguidance import LLMatcher

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.guides.guide import Mask


class GrammarGuide:
    """The state of one reply in a grammar. See `edgellm.guides.guide.Guide`.

    `matcher` is at the beginning of the reply, and the guide's own. `vocab` is the width of the masks; `ends` are the
    tokens that end a reply.
    """

    def __init__(self, matcher: LLMatcher, vocab: int, ends: frozenset[int]) -> None:
        self._matcher, self._vocab = matcher, vocab
        self._ends = [i for i in ends if i < vocab]
        self._mask_size = -(-vocab // 8)
        self.begun = False
        self.complete, self.ended = matcher.is_accepting(), matcher.is_stopped()

    def allowed(self) -> Mask:
        """The tokens that may come next, without those that end a reply before it is complete."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        known = np.unpackbits(bits, count=min(self._vocab, 8 * len(bits)), bitorder="little")
        mask = np.zeros(self._vocab, np.bool_)
        mask[: len(known)] = known
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
        self.complete, self.ended = self._matcher.is_accepting(), self._matcher.is_stopped()

    def forced(self) -> list[int]:
        """The tokens that come next whatever the model computes."""
        return [] if self.ended else self._matcher.compute_ff_tokens()

    def _check(self) -> None:
        """Raises EdgeLLMError where the grammar is too complex to go on."""
        if self._matcher.is_error():
            problem = printable(self._matcher.get_error().splitlines()[0], 200)
            raise EdgeLLMError(f"the guided reply cannot go on: {problem}; give a simpler schema or grammar")
