"""The texts that are copied from an entry, as they were written."""

from edgellm.terminal.sanitize import sanitize
from tui.transcript.entry import TranscriptEntry
from tui.transcript.parser import parse_blocks
from tui.transcript.thinking import split


def message_text(entry: TranscriptEntry) -> str:
    """The text of a message; of a reply what there is of its answer, its thinking and its calls, in this order."""
    if entry.role != "assistant":
        return entry.text
    reply = split(entry.text, running=False)
    written = reply.answer.strip() or (reply.thought or "").strip()
    return written or "\n".join(details for _, details in entry.calls)


def answer_code(entry: TranscriptEntry) -> list[str]:
    """The code blocks of a reply, without those in its thinking."""
    return code_blocks(split(entry.text, running=False).answer) if entry.role == "assistant" else []


def thinking_code(entry: TranscriptEntry) -> list[str]:
    """The code blocks in the thinking of a reply."""
    return code_blocks(split(entry.text, running=False).thought or "")


def code_blocks(text: str) -> list[str]:
    """The code blocks in Markdown, in the order of their numbers on the screen."""
    tokens, _ = parse_blocks(sanitize(text))
    return [token.content.removesuffix("\n") for token in tokens if token.type in ("fence", "code_block")]
