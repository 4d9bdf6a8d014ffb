"""The conversation by keyboard: messages are marked, edited and continued, and their versions shown."""

from textual import events

from tui.chat.frontend import ScreenFrontend
from tui.chat.key_bar import key_of
from tui.chat.notifier import Notifier
from tui.composer import Composer
from tui.core.controller import ChatController
from tui.transcript import Transcript


class MessageBrowser:
    """Acts on the marked message, or on the last one if none is marked."""

    def __init__(
        self,
        controller: ChatController,
        transcript: Transcript,
        composer: Composer,
        frontend: ScreenFrontend,
        notifier: Notifier,
    ) -> None:
        self._controller = controller
        self._transcript, self._composer = transcript, composer
        self._frontend, self._notifier = frontend, notifier

    @property
    def is_active(self) -> bool:
        """Whether the transcript has the focus or a message is marked."""
        return self._transcript.has_focus or self._transcript.selected is not None

    @property
    def _marked(self) -> int | None:
        return self._transcript.selected or None

    def back(self) -> None:
        """Mark no message, and put the cursor into the input box."""
        self._transcript.selected = None
        self._composer.focus()

    def mark(self, which: str) -> None:
        """Mark the `previous` or the `next` message, and give the transcript the focus."""
        self._transcript.focus(scroll_visible=False)
        self.run(f"select_{which}")

    def run(self, action: str) -> None:
        """Run an action of the transcript."""
        self._transcript.screen.call_later(self._transcript.run_action, action)

    def edit(self) -> None:
        """Edit the marked message of the user, or the one before a marked reply; without a mark the last one."""
        messages = self._controller.conversation.chat.tree.messages
        marked = messages.get(self._marked or 0)
        while marked and marked.role != "user":
            marked = messages.get(marked.parent or 0)
        if marked:
            self._frontend.edit(marked.id)
        else:
            self._frontend.run("/edit")

    def continue_reply(self) -> None:
        """Edit the marked reply, or the last one; the model continues from its end."""
        marked = self._marked
        self._notifier.attempt(lambda: self._frontend.edit(self._controller.sender.continuable(marked).id))

    def walk(self, step: int, message: int | None = None) -> None:
        """Show another version of a message, of the marked one, or of the last one that has several."""
        shown = message or self._marked
        self._notifier.attempt(lambda: self._controller.navigation.walk(shown, step))

    def on_marked(self, message: int | None) -> None:
        """Leave the transcript when its mark is removed."""
        self._transcript.screen.refresh_bindings()
        if message is None and self._transcript.has_focus:
            self._composer.focus()

    def on_following(self, following: bool) -> None:
        """Show the key that leads to the end while the end is out of sight."""
        self._composer.form.set_hint("" if following else f"↓ more: {key_of(self._transcript.screen, 'chat.end')}")

    def type_into_box(self, event: events.Key) -> None:
        """Insert a key that was typed over the transcript, and that has no binding, into the input box."""
        bound = event.key in self._transcript.screen.active_bindings
        if event.is_printable and self._transcript.has_focus and not bound:
            event.stop()
            self.back()
            self._composer.form.editor.insert_text(event.character or "")
