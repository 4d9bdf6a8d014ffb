"""Conversations that are longer than the context: which messages are left out of the prompt.

`edgellm.options.ChatOptions` describes the policies. The choice depends on the messages alone, not on earlier choices:
a conversation that is continued, regenerated or opened again gets the same prompt.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgellm.engine.protocol import common_prefix
from edgellm.generate.request import TokensPrompt
from edgellm.generate.session import Session
from edgellm.generate.stats import Truncation
from edgellm.text.conversation import Message

_PINNED_ROLES = ("system", "developer")
_ADVICE = "shorten it, take a larger context ({ctx}) if the model allows one, or have older turns left out ({overflow})"
_ADVICE_FOR_ONE_TURN = "no older turns are left to leave out; shorten the last message or the system prompt"


def pinned(messages: Sequence[Message]) -> int:
    """The number of messages at the beginning that are the system prompt, which is never left out."""
    return next((i for i, message in enumerate(messages) if message["role"] not in _PINNED_ROLES), len(messages))


class PromptFitter:
    """Makes the prompt of one reply fit in the context.

    `tokenize` gives the token ids of messages in the chat template; `max_tokens` limits the reply, None for no limit.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        tokenize: Callable[[list[Message]], list[int]],
        session: Session,
        max_tokens: int | None,
    ) -> None:
        self._messages, self._tokenize, self._session = list(messages), tokenize, session
        self._max_tokens = max_tokens
        self._ctx = session.engine.ctx
        self._pinned = pinned(messages)
        # A turn begins with a user message; a reply, and perhaps tool calls and their results, follow.
        from_user = [i for i, message in enumerate(messages) if message["role"] == "user" and i > self._pinned]
        self._turns = [self._pinned, *from_user]
        self._all_ids = tokenize(self._messages)
        self._quarter = max(1, self._ctx // 4)

    def prompt(self, policy: str) -> TokensPrompt:
        """The prompt under an overflow policy. Raises ContextOverflowError if it does not fit."""
        if policy == "stop":
            self._session.check_fits(self._all_ids, _ADVICE)
            return TokensPrompt(self._all_ids)
        prompt = self._fit([])
        self._session.check_fits(prompt.ids, _ADVICE_FOR_ONE_TURN)
        # The system prompt may take half of the context and the rest of the reply a quarter: a quarter then shifts.
        can_shift = policy == "window" and 2 * len(self._fixed_prefix()) <= self._ctx
        return replace(prompt, context_shift=self._shift) if can_shift else prompt

    def _fit(self, generated: list[int]) -> TokensPrompt:
        """The prompt without the oldest turns, so that it, the tokens `generated` so far and their rest fit."""
        excess = len(self._all_ids) + len(generated) + self._reserved(generated) - self._ctx
        if excess <= 0:
            return TokensPrompt(self._all_ids + generated)
        # Whole quarters of the context are left out, so that the next turns need not leave out more.
        limit = len(self._all_ids) - -(-excess // self._quarter) * self._quarter
        fits = bisect_left(self._turns, True, key=lambda turn: len(self._ids_from(turn)) <= limit)
        turn = self._turns[min(fits, len(self._turns) - 1)]
        ids = self._ids_from(turn)
        return TokensPrompt(ids + generated, Truncation(len(self._all_ids) - len(ids), turn - self._pinned))

    def _shift(self, generated: list[int]) -> TokensPrompt:
        """As `_fit`, for a reply that has filled the context; if need be only the end of the last turn is left."""
        prompt, limit = self._fit(generated), self._ctx - self._reserved(generated)
        if len(prompt.ids) <= limit:
            return prompt
        prefix = self._fixed_prefix()
        ids = prefix + prompt.ids[len(prefix) + len(prompt.ids) - limit :]
        left_out = len(self._all_ids) + len(generated) - len(ids)
        return TokensPrompt(ids, Truncation(left_out, prompt.truncation.messages))

    def _reserved(self, generated: list[int]) -> int:
        """Tokens of the context that are kept free for the rest of the reply."""
        return self._quarter if self._max_tokens is None else min(self._quarter, self._max_tokens - len(generated))

    def _ids_from(self, turn: int) -> list[int]:
        return self._tokenize([*self._messages[: self._pinned], *self._messages[turn:]])

    def _fixed_prefix(self) -> list[int]:
        """The ids that every prompt begins with: the system prompt, and the template's text before a user message."""
        system = self._messages[: self._pinned]
        one, other = (self._tokenize([*system, {"role": "user", "content": text}]) for text in "ab")
        return one[: common_prefix(one, other)]
