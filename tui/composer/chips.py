"""The row of what goes with a message."""

from collections.abc import Sequence
from dataclasses import replace

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui.chat.key_bar import key_of
from tui.composer.attachment import Attachment


class Chips(Static):
    """Attachments, each as a chip above the box; nothing is there while there are none."""

    class Changed(Message):
        """Something was added or removed."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.attachments: tuple[Attachment, ...] = ()
        self.display = False

    @property
    def files(self) -> tuple[Attachment, ...]:
        """Those that are files."""
        return tuple(each for each in self.attachments if each.name)

    @property
    def pasted(self) -> tuple[Attachment, ...]:
        """Those that are long texts that were pasted."""
        return tuple(each for each in self.attachments if not each.name)

    def show(self, attachments: Sequence[Attachment]) -> None:
        """Replace the attachments."""
        self.attachments = tuple(attachments)
        self.display = bool(attachments)
        self._draw()
        self.refresh_bindings()
        self.post_message(self.Changed())

    def weigh(self, text: str, tokens: int) -> None:
        """Say how many tokens an attachment has. One that is no longer there is no error."""
        self.attachments = tuple(
            replace(each, tokens=tokens) if each.text is text else each for each in self.attachments
        )
        self._draw()

    def _draw(self) -> None:
        chips = [Content.styled(f" {each.label} ", "on $panel") for each in self.attachments]
        key = key_of(self.screen, "composer.detach").replace("⌫", "") if self.is_attached else ""
        hint = Content.styled(
            f"{key or 'backspace'} removes {'it' if len(chips) == 1 else 'the last'}", "$foreground-disabled"
        )
        self.update(Content("  ").join([*chips, hint]))

    def add(self, added: Attachment) -> None:
        """Add one; a file replaces one of the same name."""
        self.show([*(each for each in self.attachments if not each.name or each.name != added.name), added])

    def drop(self, removed: Attachment) -> None:
        """Remove one."""
        self.show([each for each in self.attachments if each is not removed])
