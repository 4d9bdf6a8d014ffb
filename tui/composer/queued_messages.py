"""The rows of queued messages above the text area."""

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from edgellm.fmt import counted
from edgellm.terminal.sanitize import sanitize

_ROWS = 3


class QueuedMessages(Static):
    """One row for each of the first queued messages; hidden while there are none."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.show(())

    def show(self, messages: Sequence[str]) -> None:
        """Show these messages, the next one to be sent at the top."""
        self.display = bool(messages)
        first, more = messages[:_ROWS], len(messages) - _ROWS
        rows = [Content(f"after this reply; Up takes {'it' if len(messages) == 1 else 'them'} back")]
        rows += [Content.styled(f" {sanitize(' '.join(message.split()))} ", "on $panel") for message in first]
        rows += [Content(f"and {counted(more, 'message')} more")] if more > 0 else []
        self.update(Content("\n").join(rows))
