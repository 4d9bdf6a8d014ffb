"""How the replies of a model tell thinking from answers, by its chat template."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from edgellm.text import harmony, thought_channel
from edgellm.text.thinking_tags import ThinkingTags, thinking_tags
from edgellm.text.thought import OPENING, marked_thought
from edgellm.text.thought_reader import TextMarkReader, ThoughtReader
from edgellm.text.tokenizer import Tokenizer


class ReplyReader(Protocol):
    """Turns a reply into text with <think> … </think>, as it comes."""

    @property
    def marks(self) -> Mapping[int, str]:
        """The tokens of the format, by their ids."""

    @property
    def ended(self) -> bool:
        """Whether the reply has its answer, and ends without a token for it."""

    def text(self, text: str) -> str:
        """Read text between marks. Returns what becomes certain of the reply."""

    def mark(self, mark: str) -> str:
        """Read a mark; see `text`."""

    def flush(self) -> str:
        """The rest of a reply that was cut off."""


@dataclass(frozen=True)
class ReplyFormat:
    """A format. `marks` are the texts of its control tokens.

    Templates of the format read the thinking of a message in its field `thinking_field`. `continuation` is what follows
    the prompt of a reply that begins with a text: texts, and whether each is of the format. `reader` makes a reader
    from marks by their ids and the text of the reply so far. With `may_be_text`, vocabularies may have no tokens for
    the marks, which are then text.
    """

    marks: tuple[str, ...]
    thinking_field: str
    continuation: Callable[[str], list[tuple[str, bool]]]
    reader: Callable[[Mapping[int, str], str], ThoughtReader | harmony.HarmonyReader]
    may_be_text: bool = False

    def reader_in(self, tokenizer: Tokenizer, begun: str) -> ReplyReader | None:
        """A reader of a reply that begins with `begun`; None for a vocabulary without tokens for the marks."""
        ids = tokenizer.special_ids(self.marks)
        if len(ids) == len(self.marks):
            return self.reader({token: text for text, token in ids.items()}, begun)
        plain = self.reader({}, begun) if self.may_be_text else None
        return TextMarkReader(plain, *self.marks) if isinstance(plain, ThoughtReader) else None


HARMONY = ReplyFormat(harmony.MARKS, "thinking", harmony.continuation, harmony.HarmonyReader)
THOUGHT_CHANNEL = ReplyFormat(
    thought_channel.CHANNEL_MARKS,
    "reasoning_content",
    thought_channel.channel_continuation,
    thought_channel.channel_reader,
)


def reply_format(source: str) -> ReplyFormat | None:
    """The format that a chat template writes; None for plain text, which may have <think> … </think> itself."""
    if harmony.is_harmony(source):
        return HARMONY
    if thought_channel.has_thought_channel(source):
        return THOUGHT_CHANNEL
    tags = thinking_tags(source)
    return _tagged(tags) if tags and tags.opening != OPENING.rstrip() else None


@cache
def _tagged(tags: ThinkingTags) -> ReplyFormat:
    """The format of models that think between tags other than <think> … </think>."""
    return ReplyFormat(
        (tags.opening, tags.closing),
        "reasoning_content",
        lambda begun: marked_thought(begun, tags.opening, tags.closing),
        lambda marks, begun: ThoughtReader(marks, begun, tags.opening, follow=tags.follow),
        may_be_text=True,
    )
