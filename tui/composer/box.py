"""What is in the input box."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.binding import bind
from tui.composer.attachment import Attachment, join, paragraphs
from tui.composer.attachment_bar import AttachmentBar
from tui.composer.editor import Editor
from tui.composer.paste import EDITABLE, harmless
from tui.composer.slash import typed_for, typed_with


@dataclass(frozen=True, slots=True)
class _Edited:
    """The message that is edited, and what was in the box before."""

    key: int
    typed: str
    attachments: Sequence[Attachment]


class Box(Widget):
    """A text area that grows, over it chips for what is attached, and above both what is being edited."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "composer.detach",
            "backspace",
            "detach",
            "Remove",
            "Remove the last attachment, when nothing is typed",
            show=False,
        ),
        bind(
            "composer.expand",
            "ctrl+o",
            "expand",
            "Edit the paste",
            "Put the text that was pasted last into the box, to be edited",
        ),
    ]

    def __init__(self, placeholder: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heading, self._attachment_bar = Static(classes="heading", markup=False), AttachmentBar()
        self._editor = Editor(self._add_pasted)
        self._heading.display = False
        self._edited: _Edited | None = None
        self.placeholder = placeholder

    def compose(self) -> ComposeResult:
        """The rows of the box."""
        yield from (self._heading, self._attachment_bar, self._editor)

    @property
    def placeholder(self) -> str:
        """What an empty box says."""
        return str(self._editor.placeholder)

    @placeholder.setter
    def placeholder(self, placeholder: str) -> None:
        self._editor.placeholder = placeholder

    @property
    def hint(self) -> str:
        """A few words on the edge of the box."""
        return self._editor.border_title or ""

    @hint.setter
    def hint(self, hint: str) -> None:
        self._editor.border_title = Content(hint)

    @property
    def text(self) -> str:
        """What is in the box: what is typed, then the long texts that were pasted. Setting it replaces both."""
        return join(self._editor.text, self._attachment_bar.pasted)

    @text.setter
    def text(self, text: str) -> None:
        self._put(text, self._attachment_bar.files)

    def begin(self, draft: str, files: Sequence[Attachment] = ()) -> None:
        """Leave what is edited, and go on with a draft and its files."""
        self._leave_edit()
        self._put(draft, files)

    @property
    def typed(self) -> str:
        """What the text area holds of the person's."""
        return self._editor.text

    @property
    def unsent(self) -> str:
        """All that is typed here: what is in the box, and what was in it before a message was edited."""
        before = join(self._edited.typed, self._edited.attachments) if self._edited else ""
        return paragraphs(join(self.typed, self._attachment_bar.pasted), before)

    @property
    def unsent_files(self) -> tuple[Attachment, ...]:
        """The files that go with what is typed here."""
        before = self._edited.attachments if self._edited else ()
        return (*self._attachment_bar.files, *(each for each in before if each.name))

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The files that go with the message."""
        return self._attachment_bar.files

    @property
    def all_attachments(self) -> Sequence[Attachment]:
        """All that is attached, the long texts that were pasted, too; `tokens` None until `set_tokens` tells it."""
        return self._attachment_bar.attachments

    def set_tokens(self, text: str, tokens: int) -> None:
        """Say how many tokens an attached text has."""
        self._attachment_bar.set_tokens(text, tokens)

    def detach(self, text: str) -> None:
        """Take an attached text away, if it is still there."""
        for each in self._attachment_bar.attachments:
            if each.text is text:
                self._attachment_bar.drop(each)

    def warn(self, too_long: bool) -> None:
        """Show whether what is attached is too much to be sent."""
        self._attachment_bar.set_class(too_long, "wrong")

    @property
    def editing(self) -> int | None:
        """The key of the message that is edited."""
        return self._edited.key if self._edited else None

    def insert(self, text: str) -> None:
        """Type a text, where the cursor is."""
        self._editor.put_here(text)

    def attach(self, name: str, text: str) -> None:
        """Add a file; it replaces one of the same name."""
        self._attachment_bar.add(Attachment(name, text))

    def put_first(self, text: str, files: Sequence[Attachment]) -> None:
        """Put a message before what is typed, with its files; if one is edited, for after that."""
        if edited := self._edited:
            self._edited = _Edited(edited.key, typed_with(edited.typed, text), (*files, *edited.attachments))
        else:
            self._put(typed_with(self.text, text), (*files, *self._attachment_bar.files))

    def edit(self, text: str, key: int, what: str = "message") -> None:
        """Begin to edit a message. What was in the box comes back afterwards. `what` is told above: "editing WHAT"."""
        before = self._edited or _Edited(key, self.typed, self._attachment_bar.attachments)
        self._edited = _Edited(key, before.typed, before.attachments)
        self._heading.update(f"editing {what} · Esc cancels")
        self._heading.display = True
        self._put(typed_for(text), ())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave a key to others where it would do nothing here."""
        match action:
            case "detach":
                return bool(self._attachment_bar.attachments) and not self._editor.text
            case "expand":
                return bool(self._attachment_bar.pasted)
        return True

    def action_detach(self) -> None:
        """Remove what was attached last."""
        self._attachment_bar.drop(self._attachment_bar.attachments[-1])

    def action_expand(self) -> None:
        """Put the text that was pasted last into the box, to be edited."""
        pasted = self._attachment_bar.pasted[-1]
        if len(pasted.text) > EDITABLE:
            self.notify(f"Texts over {EDITABLE:,} characters are too long to edit here; it is sent as it is.")
        else:
            self._attachment_bar.drop(pasted)
            self._editor.put_here(pasted.text)

    def _add_pasted(self, text: str) -> None:
        self._attachment_bar.add(Attachment("", text))

    def _clear(self) -> None:
        """Empty the box, or give back what was in it before a message was edited."""
        before = self._leave_edit()
        self._put(before.typed if before else "", before.attachments if before else ())

    def _leave_edit(self) -> _Edited | None:
        left, self._edited = self._edited, None
        self._heading.display = False
        return left

    def _put(self, text: str, attachments: Sequence[Attachment]) -> None:
        """Replace what is in the box; a text that is too long to be edited becomes a chip."""
        text = harmless(text)
        long = len(text) > EDITABLE
        self._attachment_bar.show([*attachments, Attachment("", text)] if long else attachments)
        self._editor.put("" if long else text)
