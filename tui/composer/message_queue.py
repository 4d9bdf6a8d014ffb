"""Messages sent during a reply, which wait for its end."""

from tui.composer.attachment import Attachment
from tui.composer.message_form import MessageForm
from tui.composer.message_sent import MessageSent
from tui.composer.queued_messages import QueuedMessages


class MessageQueue:
    """First in, first out; `rows` shows the queue above the box. Messages can go back into `form`."""

    def __init__(self, form: MessageForm) -> None:
        self.rows = QueuedMessages()
        self._form = form
        self._messages: list[MessageSent] = []

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def texts(self) -> list[str]:
        """The texts of the queued messages."""
        return [sent.text for sent in self._messages]

    @property
    def files(self) -> list[Attachment]:
        """The files of all queued messages."""
        return [file for sent in self._messages for file in sent.attachments]

    def push(self, sent: MessageSent) -> None:
        """Add a message at the end."""
        self._set([*self._messages, sent])

    def pop(self) -> MessageSent:
        """Remove and return the message that has waited longest."""
        first, *others = self._messages
        self._set(others)
        return first

    def clear(self) -> None:
        """Drop all messages."""
        self._set([])

    def take_back(self) -> None:
        """Move all messages back into the box, before what was typed since."""
        messages = self._messages
        self.clear()
        for sent in reversed(messages):
            self.give_back(sent)

    def give_back(self, sent: MessageSent) -> None:
        """Put a message that could not be sent back into the box; what was typed since follows it."""
        if sent.editing is None:
            self._form.put_first(sent.text, sent.attachments)
            return
        self._form.edit(sent.text, sent.editing, "message")
        for each in sent.attachments:
            self._form.attach(each.name, each.text)

    def _set(self, messages: list[MessageSent]) -> None:
        self._messages = messages
        self.rows.show([sent.text or ", ".join(each.name for each in sent.attachments) for sent in messages])
