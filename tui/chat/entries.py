"""What the transcript shows of the desk's messages."""

from collections.abc import Iterator

from tui.core.desk import Desk
from tui.core.tree import Message
from tui.instruments.figures import figures_line
from tui.transcript import Entry


def entries(desk: Desk) -> list[Entry]:
    """The path that is shown, the system prompt first."""
    return list(_entries(desk))


def _entries(desk: Desk) -> Iterator[Entry]:
    if desk.chat.system:
        yield Entry(0, "system", desk.chat.system)
    unseen, running = desk.unseen(), desk.running
    for message in desk.path:
        versions = desk.chat.tree.versions(message.id)
        yield Entry(
            key=message.id,
            role=message.role,
            text=message.text,
            figures=_figures(message),
            version=versions.index(message.id) + 1,
            versions=len(versions),
            unseen=message.id in unseen,
            running=message.id == running,
            title=message.model or "",
        )


def _figures(message: Message) -> str:
    if message.role == "user" or message.finish_reason is None:
        return ""
    return figures_line(message.stats or {}, message.finish_reason, message.dropped_tokens)
