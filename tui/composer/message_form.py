"""The contents of the input box: text, attachments, and the message that is being edited."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widgets import Static

from tui.composer.attachment import Attachment, join, paragraphs
from tui.composer.attachment_bar import AttachmentBar
from tui.composer.editor import Editor
from tui.composer.history import History
from tui.composer.paste import EDITABLE, harmless
from tui.composer.slash import message_of, typed_for, typed_with


@dataclass(frozen=True, slots=True)
class _Edit:
    """The key of the edited message, and the draft that returns when the edit ends."""

    key: int
    typed: str
    attachments: Sequence[Attachment]


class MessageForm:
    """Three widgets, one below the other: what is being edited, the attachments, the text area.

    The text area may show a recalled message; `typed` is always the user's own text.
    """

    def __init__(self) -> None:
        self.heading = Static(classes="heading", markup=False)
        self.attachment_bar = AttachmentBar()
        self.editor = Editor(self._attach_pasted)
        self.heading.display = False
        self._edit: _Edit | None = None
        self._history = History()

    def set_placeholder(self, placeholder: str) -> None:
        """Set the text that an empty box shows."""
        self.editor.placeholder = placeholder

    def set_hint(self, hint: str) -> None:
        """Show a few words on the edge of the box."""
        self.editor.border_title = Content(hint)

    # What is in the box

    @property
    def text(self) -> str:
        """What the text area shows, then the pasted texts that are attached. Setting it replaces both."""
        return join(self.editor.text, self.attachment_bar.pasted)

    @text.setter
    def text(self, text: str) -> None:
        self.put(text, self.files)

    @property
    def typed(self) -> str:
        """The user's own text, also while a recalled message is shown over it."""
        return self._history.typed(self.editor.text)

    @property
    def message(self) -> str:
        """The message as it would be sent."""
        return join(message_of(self.editor.text), self.attachment_bar.pasted)

    @property
    def files(self) -> tuple[Attachment, ...]:
        """The attached files."""
        return self.attachment_bar.files

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Attached files and pasted texts; `tokens` is None until `set_tokens` tells it."""
        return self.attachment_bar.attachments

    @property
    def unsent(self) -> str:
        """All text that is typed here: what is in the box, then the draft that an edit keeps."""
        draft = join(self._edit.typed, self._edit.attachments) if self._edit else ""
        return paragraphs(join(self.typed, self.attachment_bar.pasted), draft)

    @property
    def unsent_files(self) -> tuple[Attachment, ...]:
        """The files that belong to `unsent`."""
        draft = self._edit.attachments if self._edit else ()
        return (*self.files, *(each for each in draft if each.name))

    @property
    def editing(self) -> int | None:
        """The key of the message that is edited."""
        return self._edit.key if self._edit else None

    def put(self, text: str, attachments: Sequence[Attachment]) -> None:
        """Replace what is in the box; a text too long to be edited becomes an attachment."""
        text = harmless(text)
        long = len(text) > EDITABLE
        self.attachment_bar.show([*attachments, Attachment("", text)] if long else attachments)
        self.editor.set_text("" if long else text)

    def put_first(self, text: str, files: Sequence[Attachment]) -> None:
        """Put a message and its files before what is typed; during an edit, before the draft that returns."""
        if edit := self._edit:
            self._edit = _Edit(edit.key, typed_with(edit.typed, text), (*files, *edit.attachments))
            return
        self.editor.set_text(self.typed)
        self._history.restart()
        self.put(typed_with(self.text, text), (*files, *self.files))

    def attach(self, name: str, text: str) -> None:
        """Attach a file; it replaces one of the same name."""
        self.attachment_bar.add(Attachment(name, text))

    def _attach_pasted(self, text: str) -> None:
        self.attachment_bar.add(Attachment("", text))

    def expand_pasted(self) -> bool:
        """Move the last pasted text into the text area. Returns False if it is too long to be edited."""
        pasted = self.attachment_bar.pasted[-1]
        if len(pasted.text) > EDITABLE:
            return False
        self.attachment_bar.drop(pasted)
        self.editor.insert_text(pasted.text)
        return True

    # Drafts and edits

    def begin(self, draft: str, files: Sequence[Attachment]) -> None:
        """End an edit, and replace what is in the box by a draft and its files."""
        self._end_edit()
        self.put(draft, files)
        self._history.restart()

    def edit(self, text: str, key: int, what: str) -> None:
        """Edit a message; the draft in the box returns afterwards. The heading says "editing WHAT"."""
        draft = self._edit or _Edit(key, self.typed, self.attachments)
        self._edit = _Edit(key, draft.typed, draft.attachments)
        self.heading.update(f"editing {what} · Esc cancels")
        self.heading.display = True
        self.put(typed_for(text), ())
        self._history.restart()

    def clear(self) -> None:
        """Empty the box, or end the edit: the draft from before it returns."""
        draft = self._end_edit()
        self.put(draft.typed if draft else "", draft.attachments if draft else ())

    def _end_edit(self) -> _Edit | None:
        ended, self._edit = self._edit, None
        self.heading.display = False
        return ended

    # Recalling sent messages

    def set_history(self, sent: Iterable[str]) -> None:
        """Set the sent messages, the oldest first. Messages too long to be edited are left out."""
        self._history = History(harmless(line) for line in sent if len(line) <= EDITABLE)

    def remember(self, text: str) -> None:
        """Add a text to those that can be recalled."""
        if text:
            self._history.add(text)

    def recall(self, step: int) -> str | None:
        """The text `step` further in the history; None at its ends."""
        return self._history.walk(step, self.editor.text)

    @property
    def recalled(self) -> bool:
        """Whether the text area shows a recalled message, unchanged."""
        return self._history.recalls(self.editor.text)

    def put_away(self) -> bool:
        """Move the shown text into the history, and show the typed text if that differs. Returns False if empty."""
        text, typed = self.editor.text, self.typed
        if not text:
            return False
        if typed == text:
            self._history.add(text)
            typed = ""
        self._history.restart()
        if self.editing is None:
            self.editor.set_text(typed)
        else:
            self.clear()
        return True
