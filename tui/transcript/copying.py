"""What is copied from a message, as it was written."""

from edgellm.terminal.sanitize import clean
from tui.transcript.parser import parse_blocks
from tui.transcript.thinking import Thinking


def code_blocks(text: str) -> list[str]:
    """The blocks of code in some Markdown, in the order in which they are numbered on the screen."""
    tokens, _ = parse_blocks(clean(text))
    return [token.content.removesuffix("\n") for token in tokens if token.type in ("fence", "code_block")]


def without_thinking(reply: Thinking) -> str:
    """A reply without what the model thought before it."""
    return reply.answer.strip() or (reply.thought or "").strip()
