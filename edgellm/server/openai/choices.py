"""Answers with several replies, the entries of `choices`: of /v1/chat/completions and /v1/completions."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from edgellm.server.asked import Asked, Stamp
from edgellm.server.events import Event, ReplyEnd
from edgellm.server.fields import Fields
from edgellm.server.openai.replies import usage
from edgellm.server.work import Work

MAX_REPLIES = 128
"""The most replies to one prompt."""

_DONE = b"data: [DONE]\n\n"


class ReplyChoice(Protocol):
    """One reply so far; `end` is None before its end."""

    end: ReplyEnd | None

    def add(self, event: Event) -> dict[str, Any] | None:
        """Add what comes; returns the entry of a chunk, None if it adds nothing."""

    def whole(self) -> dict[str, Any]:
        """The entry of a whole answer."""


class ChoicesMaker:
    """Makes one answer. `make` begins a reply, by its index; there are `n` to each prompt.

    `kinds` are the values of `object`, of a whole answer and of a chunk. `with_usage`: a stream ends with the usage.
    """

    def __init__(
        self,
        model: str,
        stamp: Stamp,
        prefix: str,
        kinds: tuple[str, str],
        make: Callable[[int], ReplyChoice],
        n: int,
        with_usage: bool,
    ) -> None:
        head = {"id": stamp.new_id(prefix), "created": int(stamp.created), "model": model}
        self._whole, self._chunk = ({"object": kind, **head} for kind in kinds)
        self._make, self._n, self._with_usage = make, n, with_usage
        self._choices: dict[int, ReplyChoice] = {}

    @property
    def ends(self) -> list[ReplyEnd]:
        """The ends of the replies so far."""
        return [choice.end for choice in self._choices.values() if choice.end]

    def parts(self, event: Event) -> Iterator[dict[str, Any]]:
        """Add what comes; yields a chunk, unless it adds nothing."""
        if event.choice not in self._choices:
            self._choices[event.choice] = self._make(event.choice)
        if (added := self._choices[event.choice].add(event)) is not None:
            yield self._chunk | {"choices": [added]} | ({"usage": None} if self._with_usage else {})

    def last_parts(self) -> Iterator[dict[str, Any]]:
        """The chunk with the usage."""
        if self._with_usage:
            yield self._chunk | {"choices": [], "usage": usage(self.ends, self._n)}

    def whole(self) -> dict[str, Any]:
        """The whole answer."""
        choices = [choice.whole() for _, choice in sorted(self._choices.items())]
        return self._whole | {"choices": choices, "usage": usage(self.ends, self._n)}


def asked_choices(
    body: Fields,
    read: Callable[[Fields], Work],
    prefix: str,
    kinds: tuple[str, str],
    make: Callable[[int], ReplyChoice],
) -> Asked:
    """What a body of `read` asks for, whose answer has `choices`; the last three are those of ChoicesMaker."""
    streams, with_usage = body.flag("stream"), _stream_usage(body)
    work = read(body)

    def maker(model: str, stamp: Stamp) -> ChoicesMaker:
        return ChoicesMaker(model, stamp, prefix, kinds, make, work.n, with_usage)

    return Asked(work, maker, streams, last=_DONE)


def _stream_usage(body: Fields) -> bool:
    """Whether a stream ends with the usage."""
    if (options := body.inner("stream_options")) is None:
        return False
    asked = options.flag("include_usage")
    options.ignore("include_obfuscation")
    options.finish()
    return asked
