"""A message leaves the input box."""

from dataclasses import dataclass

from textual.message import Message

from tui.composer.attachment import Attachment


@dataclass
class MessageSent(Message):
    """Enter. `editing` is the key of the message that was edited, None for a new one; `attachments` are files."""

    text: str
    editing: int | None
    attachments: tuple[Attachment, ...]
