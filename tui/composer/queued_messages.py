"""What was sent while a reply is being written, and waits for its end."""

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from edgellm.fmt import counted
from edgellm.terminal.sanitize import sanitize

_ROWS = 3


class QueuedMessages(Static):
    """A row for each message that waits, the first ones at least; nothing is there while there are none."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.show(())

    def show(self, messages: Sequence[str]) -> None:
        """Show these, the one that is sent first above the others."""
        self.display = bool(messages)
        first, more = messages[:_ROWS], len(messages) - _ROWS
        rows = [Content(f"after this reply; Up takes {'it' if len(messages) == 1 else 'them'} back")]
        rows += [Content.styled(f" {sanitize(' '.join(message.split()))} ", "on $panel") for message in first]
        rows += [Content(f"and {counted(more, 'message')} more")] if more > 0 else []
        self.update(Content("\n").join(rows))
