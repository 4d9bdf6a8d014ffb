"""The row of attachments above the text area."""

from collections.abc import Sequence
from dataclasses import replace

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui.chat.key_bar import key_of
from tui.composer.attachment import Attachment


class AttachmentBar(Static):
    """Attachments, one chip each; hidden while there are none."""

    class AttachmentsChanged(Message):
        """An attachment was added or removed."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.attachments: tuple[Attachment, ...] = ()
        self.display = False

    @property
    def files(self) -> tuple[Attachment, ...]:
        """The attachments that are files."""
        return tuple(each for each in self.attachments if each.name)

    @property
    def pasted(self) -> tuple[Attachment, ...]:
        """The attachments that are pasted texts."""
        return tuple(each for each in self.attachments if not each.name)

    def show(self, attachments: Sequence[Attachment]) -> None:
        """Replace the attachments."""
        self.attachments = tuple(attachments)
        self.display = bool(attachments)
        self._draw()
        self.refresh_bindings()
        self.post_message(self.AttachmentsChanged())

    def add(self, added: Attachment) -> None:
        """Add an attachment; a file replaces one of the same name."""
        self.show([*(each for each in self.attachments if not each.name or each.name != added.name), added])

    def drop(self, removed: Attachment) -> None:
        """Remove an attachment."""
        self.show([each for each in self.attachments if each is not removed])

    def drop_text(self, text: str) -> None:
        """Remove the attachment with this text, if it is still there."""
        for each in self.attachments:
            if each.text is text:
                self.drop(each)

    def set_tokens(self, text: str, tokens: int) -> None:
        """Show the token count of the attachment with this text. A text that is no longer there is no error."""
        self.attachments = tuple(
            replace(each, tokens=tokens) if each.text is text else each for each in self.attachments
        )
        self._draw()

    def warn(self, too_long: bool) -> None:
        """Show whether the attachments are too long to be sent."""
        self.set_class(too_long, "wrong")

    def _draw(self) -> None:
        chips = [Content.styled(f" {each.label} ", "on $panel") for each in self.attachments]
        key = key_of(self.screen, "composer.detach").replace("⌫", "") if self.is_attached else ""
        hint = Content.styled(
            f"{key or 'backspace'} removes {'it' if len(chips) == 1 else 'the last'}", "$foreground-disabled"
        )
        self.update(Content("  ").join([*chips, hint]))
