"""Conversations that outgrow the context: what is left out of the prompt, and how much that is.

See `edgellm.options.ChatOptions` for the policies. What to leave out depends on the messages alone, not on what was
left out before: so a conversation that is continued, regenerated or opened again gets the same prompt.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgellm.engine.protocol import common_prefix
from edgellm.generate.decoding import Prompt
from edgellm.generate.session import Session
from edgellm.generate.timing import Dropped
from edgellm.text.template import Message

_PINNED = ("system", "developer")
_ADVICE = "shorten it, take a larger context ({ctx}) if the model allows one, or have older turns left out ({overflow})"
_ADVICE_FOR_ONE_TURN = "no older turns are left to leave out; shorten the last message or the system prompt"


def pinned(messages: Sequence[Message]) -> int:
    """How many messages, the first ones, are the system prompt, which is never left out."""
    return next((i for i, message in enumerate(messages) if message["role"] not in _PINNED), len(messages))


class Overflow:
    """Makes the prompts of one reply; `tokens` are the ids of messages, `most` of the reply's tokens (None: no end)."""

    def __init__(
        self,
        messages: Sequence[Message],
        tokens: Callable[[list[Message]], list[int]],
        session: Session,
        most: int | None,
    ) -> None:
        self._messages, self._tokens, self._session, self._most = list(messages), tokens, session, most
        self._ctx = session.engine.ctx
        self._pinned = pinned(messages)
        # A turn begins with what the user says: behind it are a reply, and perhaps tools and what they said.
        asked = [i for i, message in enumerate(messages) if message["role"] == "user" and i > self._pinned]
        self._turns = [self._pinned, *asked]
        self._whole = tokens(self._messages)
        self._quarter = max(1, self._ctx // 4)

    def prompt(self, policy: str) -> Prompt:
        """What a reply begins with under this policy. Raises ContextOverflowError if that is too long."""
        if policy == "stop":
            self._session.check_fits(self._whole, _ADVICE)
            return Prompt(self._whole)
        prompt = self._fitted([])
        self._session.check_fits(prompt.ids, _ADVICE_FOR_ONE_TURN)
        # With half of the context for the system prompt and a quarter for what is to come, a quarter slides.
        slides = policy == "window" and 2 * len(self._opening()) <= self._ctx
        return replace(prompt, slide=self._slid) if slides else prompt

    def _fitted(self, written: list[int]) -> Prompt:
        """The prompt with the first turns left out, as far as needed for it and the reply, `written` so far, to fit."""
        over = len(self._whole) + len(written) + self._room(written) - self._ctx
        if over <= 0:
            return Prompt(self._whole + written)
        # In whole quarters, so that the turns after this one need not leave out more.
        limit = len(self._whole) - -(-over // self._quarter) * self._quarter
        fits = bisect_left(self._turns, True, key=lambda turn: len(self._from(turn)) <= limit)
        turn = self._turns[min(fits, len(self._turns) - 1)]
        ids = self._from(turn)
        return Prompt(ids + written, Dropped(len(self._whole) - len(ids), turn - self._pinned))

    def _slid(self, written: list[int]) -> Prompt:
        """The same for a reply that has filled the context; if need be with the last part of the last turn alone."""
        prompt, most = self._fitted(written), self._ctx - self._room(written)
        if len(prompt.ids) <= most:
            return prompt
        opening = self._opening()
        ids = opening + prompt.ids[len(opening) + len(prompt.ids) - most :]
        return Prompt(ids, Dropped(len(self._whole) + len(written) - len(ids), prompt.dropped.messages))

    def _room(self, written: list[int]) -> int:
        """Tokens that are to be free for the rest of the reply."""
        return self._quarter if self._most is None else min(self._quarter, self._most - len(written))

    def _from(self, turn: int) -> list[int]:
        return self._tokens([*self._messages[: self._pinned], *self._messages[turn:]])

    def _opening(self) -> list[int]:
        """What every prompt begins with: the system prompt, and what the template writes before a user's words."""
        pinned = self._messages[: self._pinned]
        one, other = (self._tokens([*pinned, {"role": "user", "content": text}]) for text in "ab")
        return one[: common_prefix(one, other)]
