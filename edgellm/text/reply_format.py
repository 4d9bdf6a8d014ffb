"""How the replies of a model tell thinking from answers, by its chat template."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from edgellm.text import harmony, thought_channel


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
    from marks by their ids and the text of the reply so far.
    """

    marks: tuple[str, ...]
    thinking_field: str
    continuation: Callable[[str], list[tuple[str, bool]]]
    reader: Callable[[Mapping[int, str], str], ReplyReader]


HARMONY = ReplyFormat(harmony.MARKS, "thinking", harmony.continuation, harmony.HarmonyReader)
THOUGHT_CHANNEL = ReplyFormat(
    thought_channel.CHANNEL_MARKS,
    "reasoning_content",
    thought_channel.channel_continuation,
    thought_channel.ThoughtChannelReader,
)


def reply_format(source: str) -> ReplyFormat | None:
    """The format that a chat template writes; None for plain text, which may have <think> … </think> itself."""
    if harmony.is_harmony(source):
        return HARMONY
    return THOUGHT_CHANNEL if thought_channel.has_thought_channel(source) else None
