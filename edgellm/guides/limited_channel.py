"""A guide for replies of gpt-oss that ends their thinking."""

from collections import deque
from copy import copy

from edgellm.guides.guide import Guide, GuideFactory, Mask
from edgellm.text import harmony
from edgellm.text.tokenizer import Tokenizer

_ANALYSIS = b"analysis"


class LimitedChannel:
    """Follows `guide` while a reply thinks, for `limit` tokens at most, and then `rest`. See `Guide`.

    Both are guides of whole replies in the harmony format; `rest` makes one that allows no thoughts. As in
    `ThinkingGate` all thoughts share the limit, and the token that ends one counts.
    """

    def __init__(self, guide: Guide, rest: GuideFactory, limit: int, tokenizer: Tokenizer, thinks: bool) -> None:
        """`thinks`: the reply is inside of a thought already."""
        ids = tokenizer.control_texts
        self._guide, self._rest, self._limit, self._tokenizer = guide, rest, limit, tokenizer
        self._channel, self._message, self._end = (
            ids[mark] for mark in (harmony.CHANNEL, harmony.MESSAGE, harmony.END)
        )
        self._start = [ids[harmony.START], *tokenizer.encode_parts(["assistant"], first=False)]
        self._header: bytes | None = None  # the text behind <|channel|> as far as it came; None outside of a header
        self._thinks, self._thought = thinks, 0
        self._queue = deque[int]()  # tokens that come next, which `rest` does not cover
        if thinks:
            self._check_limit()
        self._note()

    def allowed(self) -> Mask | None:
        """The tokens that may come next."""
        return self._guide.allowed()

    def forced(self) -> list[int]:
        """The tokens that come next whatever the model computes."""
        return list(self._queue) or self._guide.forced()

    def fork(self) -> "LimitedChannel | None":
        """Another one, with a fork of its guide; None if that has none."""
        guide = self._guide.fork()
        if guide is None:
            return None
        child = copy(self)
        child._guide, child._queue = guide, self._queue.copy()
        return child

    def accept(self, token: int) -> None:
        """Append a token."""
        if self._queue:
            self._queue.popleft()
        elif self._thinks:
            self._think(token)
        else:
            self._guide.accept(token)
            self._read(token)
        self._note()

    def _read(self, token: int) -> None:
        """Read a token outside of thoughts."""
        if token == self._channel:
            self._header = b""
        elif token == self._message:
            self._thinks = (self._header or b"").strip() == _ANALYSIS
            self._header = None
        elif self._header is not None:
            self._header += self._tokenizer.token_bytes(token)

    def _think(self, token: int) -> None:
        self._thought += 1
        self._thinks = token != self._end
        self._guide.accept(token)
        self._check_limit()

    def _check_limit(self) -> None:
        """Where the reply has thought for long enough, go on with the guide that allows no thoughts."""
        if self._thought < self._limit:
            return
        self._queue.extend([self._end, *self._start] if self._thinks else self._start)
        self._guide, self._thinks = self._rest(), False

    def _note(self) -> None:
        self.begun = self._guide.begun
        self.complete = self._guide.complete and not self._queue
        self.ended = self._guide.ended and not self._queue
