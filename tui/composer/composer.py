"""The input box: what its keys do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets import OptionList, TextArea

from tui.binding import bind
from tui.composer.attachment import Attachment, join
from tui.composer.attachment_bar import AttachmentBar
from tui.composer.box import Box
from tui.composer.completion import CompletionItem
from tui.composer.history import History
from tui.composer.paste import EDITABLE, harmless
from tui.composer.popup import Popup
from tui.composer.queued_messages import QueuedMessages
from tui.composer.slash import command_of, message_of, typed_with

_SAVE_AFTER_S = 0.5


class Composer(Box):
    """The input box. It sends, recalls what was sent, and completes the word at the cursor."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("composer.send", "enter", "send", "Send", "Send the message, or run the command", show=False),
        bind("composer.newline", "ctrl+j,alt+enter,shift+enter", "newline", "New line", "Begin a new line", show=False),
        bind(
            "composer.complete",
            "tab",
            "complete",
            "Complete",
            "Take the completion that is marked, or the first one",
            show=False,
        ),
        bind(
            "composer.previous",
            "up",
            "walk(-1)",
            "Previous message",
            "What waits for the end of a reply, or was sent before, when the cursor is in the first line",
            show=False,
        ),
        bind(
            "composer.next",
            "down",
            "walk(1)",
            "Next message",
            "What was sent after it, when it is in the last line",
            show=False,
        ),
        bind(
            "composer.cancel",
            "escape",
            "cancel",
            "Cancel",
            "Close the completions, or stop editing a message",
            show=False,
        ),
    ]

    @dataclass
    class Sent(Message):
        """Enter. `editing` is the key of the message that was edited, None for a new one; `attachments` are files."""

        text: str
        editing: int | None
        attachments: tuple[Attachment, ...]

    @dataclass
    class CommandSent(Message):
        """Enter on one line that begins with a slash."""

        line: str

    @dataclass
    class DraftChanged(Message):
        """The text changed within the last half second: `text` and `files` are a draft to save.

        Whoever puts in another text, or ends the app, saves what `unsent` and `unsent_files` are then.
        """

        text: str
        files: tuple[Attachment, ...]

    class Attached(Message):
        """What is attached is another: `all_attachments` has them."""

    def __init__(self, placeholder: str = "", *, id: str | None = None) -> None:
        super().__init__(placeholder, id=id)
        self._popup = Popup(self._editor)
        self._editor.before_binding = self._popup.look_up  # the message of the last change may not have come yet
        self._editor.after_put = self._popup.rest
        self._history = History()
        self._saving: Timer | None = None
        self._waiting: list[Composer.Sent] = []
        self._rows = QueuedMessages()

    def compose(self) -> ComposeResult:
        """The list of completions, which lies over what is above, what waits, then the rows of the box."""
        yield from (self._popup, self._rows)
        yield from super().compose()

    def focus(self, scroll_visible: bool = True) -> Self:
        """Put the cursor into the box, at once: the next key is already meant for it."""
        self.screen.set_focus(self._editor, scroll_visible)
        return self

    def set_history(self, lines: Sequence[str]) -> None:
        """What was sent, the oldest first. Texts that are too long to be edited are left out."""
        self._history = History(harmless(line) for line in lines if len(line) <= EDITABLE)

    def set_completer(self, complete: Callable[[str, int], Sequence[CompletionItem]]) -> None:
        """`complete` gets the text and the cursor (characters before it), and says what the word there can become."""
        self._popup.completer = complete

    @property
    def waiting(self) -> bool:
        """Whether messages wait for `next_one`."""
        return bool(self._waiting)

    @property
    def typed(self) -> str:
        """What is being typed, which messages that are recalled only cover."""
        return self._history.typed(self._editor.text)

    @property
    def unsent(self) -> str:
        """All that is typed here: what waits, what is in the box, and what was in it before a message was edited."""
        return typed_with(super().unsent, *(sent.text for sent in self._waiting))

    @property
    def unsent_files(self) -> tuple[Attachment, ...]:
        """The files that go with what is typed here, and with what waits."""
        return (*(file for sent in self._waiting for file in sent.attachments), *super().unsent_files)

    def begin(self, draft: str, files: Sequence[Attachment] = ()) -> None:
        """Leave what is edited and what waits, and go on with a draft and its files."""
        self._wait_for([])
        super().begin(draft, files)
        self._history.restart()

    def edit(self, text: str, key: int, what: str = "message") -> None:
        """Begin to edit a message. What was typed comes back afterwards."""
        super().edit(text, key, what)
        self._history.restart()

    def put_first(self, text: str, files: Sequence[Attachment]) -> None:
        """Put a message before what is typed, instead of one that is recalled."""
        if self.editing is None:
            self._editor.put(self.typed)
            self._history.restart()
        super().put_first(text, files)

    def wait(self, sent: Sent) -> None:
        """Let a message wait until `next_one`; it is shown above the box until then."""
        self._wait_for([*self._waiting, sent])

    def next_one(self) -> Sent:
        """The message that has waited longest, which waits no longer."""
        first, *others = self._waiting
        self._wait_for(others)
        return first

    def take_back(self) -> None:
        """Put all messages that wait back into the box, before what was typed since."""
        messages = self._waiting
        self._wait_for([])
        for sent in reversed(messages):
            self.give_back(sent)

    def give_back(self, sent: Sent) -> None:
        """Put back what could not be sent; what was typed since stays behind it, or for after the edit."""
        if sent.editing is None:
            self.put_first(sent.text, sent.attachments)
        else:
            self.edit(sent.text, sent.editing)
            for each in sent.attachments:
                self.attach(each.name, each.text)

    def put_selected(self, line: str) -> None:
        """Put a line into the box that could not be run: what is typed next replaces it, and arrows lead into it."""
        self.text = line
        self._editor.select_all()

    def put_away(self) -> bool:
        """Take what is typed, or recalled, out of the box; Up brings it back. False where there is nothing."""
        text, typed = self._editor.text, self.typed
        if not text:
            return False
        if typed == text:
            self._history.add(text)
            typed = ""
        self._history.restart()
        if self.editing is None:
            self._editor.put(typed)
        else:
            self._clear()
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave a key to others where it would do nothing here."""
        match action:
            case "complete":
                return self._popup.display
            case "cancel":
                return self._popup.display or self.editing is not None
        return super().check_action(action, parameters)

    def action_send(self) -> None:
        """Take the completion that is selected, and send what needs no more to be typed.

        A whole command that lacks its argument is run all the same: it says what it wants.
        """
        taken = self._popup.selected
        if taken and taken.text == f"{self._editor.text} ":
            taken = None
        if taken:
            self._popup.take(taken)
        if command := command_of(self._editor.text):
            if taken is None or taken.complete:
                self._editor.put("")
                self._history.add(command)
                self.post_message(self.CommandSent(command))
        elif taken is None and self._editor.text != "/":
            self._send()

    def action_newline(self) -> None:
        """Begin a new line."""
        self._editor.put_here("\n")

    def action_complete(self) -> None:
        """Take the completion that is selected, or the first one."""
        taken = self._popup.selected or self._popup.completions[0]
        self._popup.take(taken, after=" " if taken.complete else "")

    def action_walk(self, step: int) -> None:
        """Move in the list of completions, or to what was sent before or after."""
        if self._popup.display:
            self._popup.move(step)
        elif step < 0 and self._waiting and self.editing is None:
            self.take_back()
        elif (text := self._history.walk(step, self._editor.text)) is not None:
            self._editor.put(text, at_end=step > 0)
            self._popup.close()

    def action_cancel(self) -> None:
        """Close the list, or else stop editing."""
        if self._popup.display:
            self._popup.close()
        else:
            self._clear()

    def _wait_for(self, messages: list[Sent]) -> None:
        self._waiting = messages
        self._rows.show([sent.text or ", ".join(each.name for each in sent.attachments) for sent in messages])

    def _send(self) -> None:
        message = message_of(self._editor.text)
        if message:
            self._history.add(self._editor.text.rstrip())
        if message or self._attachment_bar.attachments:
            self.post_message(self.Sent(join(message, self._attachment_bar.pasted), self.editing, self.attachments))
            self._clear()

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
        if not self._history.recalls(self._editor.text):
            self.post_message(self.DraftChanged(self.unsent, self.unsent_files))
