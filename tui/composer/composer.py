"""The input box: its keys, and what it tells the chat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import OptionList, TextArea

from tui.composer import bindings
from tui.composer.attachment import Attachment
from tui.composer.attachment_bar import AttachmentBar
from tui.composer.completion import CompletionItem
from tui.composer.message_form import MessageForm
from tui.composer.message_queue import MessageQueue
from tui.composer.message_sent import MessageSent
from tui.composer.paste import EDITABLE
from tui.composer.popup import Popup
from tui.composer.slash import command_of, typed_with

_SAVE_AFTER_S = 0.5


class Composer(Widget):
    """Sends messages and commands, recalls sent ones, completes the word at the cursor, and queues messages.

    `form` is what is in the box, `queue` holds the messages that wait for the end of a reply.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")
    BINDINGS = bindings.BINDINGS

    @dataclass
    class CommandSent(Message):
        """Enter on one line that begins with a slash."""

        line: str

    @dataclass
    class DraftChanged(Message):
        """The text changed within the last half second: `text` and `files` are a draft to save.

        Code that replaces the text, or ends the app, saves `unsent` and `unsent_files` itself before.
        """

        text: str
        files: tuple[Attachment, ...]

    class Attached(Message):
        """`form.attachments` changed."""

    def __init__(self, placeholder: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.form = MessageForm()
        self.form.set_placeholder(placeholder)
        self.queue = MessageQueue(self.form)
        self._editor = self.form.editor
        self._popup = Popup(self._editor)
        self._editor.before_binding = self._popup.look_up  # the message of the last change may not have come yet
        self._editor.after_set_text = self._popup.rest
        self._saving: Timer | None = None

    def compose(self) -> ComposeResult:
        """The list of completions, which lies over what is above, the queue, then the form."""
        yield from (self._popup, self.queue.rows)
        yield from (self.form.heading, self.form.attachment_bar, self._editor)

    def focus(self, scroll_visible: bool = True) -> Self:
        """Put the cursor into the box, at once: the next key is already meant for it."""
        self.screen.set_focus(self._editor, scroll_visible)
        return self

    def set_completer(self, complete: Callable[[str, int], Sequence[CompletionItem]]) -> None:
        """`complete` gets the text and the cursor (characters before it), and returns the completions of the word."""
        self._popup.completer = complete

    @property
    def text(self) -> str:
        """What is in the box, pasted texts included. Setting it replaces both."""
        return self.form.text

    @text.setter
    def text(self, text: str) -> None:
        self.form.text = text

    @property
    def unsent(self) -> str:
        """All text that is typed here: the queue, what is in the box, and the draft that an edit keeps."""
        return typed_with(self.form.unsent, *self.queue.texts)

    @property
    def unsent_files(self) -> tuple[Attachment, ...]:
        """The files that belong to `unsent`."""
        return (*self.queue.files, *self.form.unsent_files)

    def begin(self, draft: str, files: Sequence[Attachment] = ()) -> None:
        """Drop the queue and end an edit, and go on with a draft and its files."""
        self.queue.clear()
        self.form.begin(draft, files)

    def edit(self, text: str, key: int, what: str = "message") -> None:
        """Edit a message; the draft in the box returns afterwards. The heading says "editing WHAT"."""
        self.form.edit(text, key, what)

    def put_selected(self, line: str) -> None:
        """Show a command that could not be run, selected: the next key replaces it, and an arrow key keeps it."""
        self.text = line
        self._editor.select_all()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave a key to others where it would do nothing here."""
        match action:
            case "complete":
                return self._popup.display
            case "cancel":
                return self._popup.display or self.form.editing is not None
            case "detach":
                return bool(self.form.attachments) and not self._editor.text
            case "expand":
                return bool(self.form.attachment_bar.pasted)
        return True

    def action_send(self) -> None:
        """Insert the selected completion, and send unless more has to be typed.

        A whole command that lacks its argument is run all the same: it says what it wants.
        """
        taken = self._popup.selected
        if taken and taken.text == f"{self._editor.text} ":
            taken = None
        if taken:
            self._popup.take(taken)
        if command := command_of(self._editor.text):
            if taken is None or taken.complete:
                self._editor.set_text("")
                self.form.remember(command)
                self.post_message(self.CommandSent(command))
        elif taken is None and self._editor.text != "/":
            self._send()

    def _send(self) -> None:
        sent = MessageSent(self.form.message, self.form.editing, self.form.files)
        if sent.text or self.form.attachments:
            self.form.remember(self._editor.text.rstrip())
            self.post_message(sent)
            self.form.clear()

    def action_newline(self) -> None:
        """Begin a new line."""
        self._editor.insert_text("\n")

    def action_complete(self) -> None:
        """Insert the selected completion, or the first one."""
        taken = self._popup.selected or self._popup.completions[0]
        self._popup.take(taken, after=" " if taken.complete else "")

    def action_walk(self, step: int) -> None:
        """Move in the list of completions, or recall the message sent before or after."""
        if self._popup.display:
            self._popup.move(step)
        elif step < 0 and self.queue and self.form.editing is None:
            self.queue.take_back()
        elif (text := self.form.recall(step)) is not None:
            self._editor.set_text(text, at_end=step > 0)
            self._popup.close()

    def action_cancel(self) -> None:
        """Close the list, or else end the edit."""
        if self._popup.display:
            self._popup.close()
        else:
            self.form.clear()

    def action_detach(self) -> None:
        """Remove the last attachment."""
        self.form.attachment_bar.drop(self.form.attachments[-1])

    def action_expand(self) -> None:
        """Move the last pasted text into the box, to be edited."""
        if not self.form.expand_pasted():
            self.notify(f"Texts over {EDITABLE:,} characters are too long to edit here; it is sent as it is.")

    @on(OptionList.OptionSelected)
    def _take_clicked(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        self._popup.take(self._popup.completions[message.option_index])

    @on(TextArea.SelectionChanged)
    def _follow_cursor(self, message: TextArea.SelectionChanged) -> None:
        message.stop()
        self._popup.look_up()

    @on(AttachmentBar.AttachmentsChanged)
    def _attached(self) -> None:
        self.post_message(self.Attached())

    @on(TextArea.Changed)
    @on(AttachmentBar.AttachmentsChanged)
    def _save_soon(self, message: Message) -> None:
        message.stop()
        self._popup.look_up()
        if self._saving is None:
            self._saving = self.set_timer(_SAVE_AFTER_S, self._save)

    def _save(self) -> None:
        self._saving = None
        if not self.form.recalled:
            self.post_message(self.DraftChanged(self.unsent, self.unsent_files))
