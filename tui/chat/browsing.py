"""The conversation, looked at from the keyboard: scrolled, marked, copied, and its versions walked through."""

from textual import events, on

from tui.chat.chats import ChatsScreen
from tui.chat.key_bar import key_of
from tui.composer import Composer
from tui.transcript import Transcript


class BrowsingScreen(ChatsScreen):
    """A screen with a conversation above an input box."""

    @property
    def browsing(self) -> bool:
        """Whether the person is in the conversation, and not in the input box."""
        transcript = self.query_one(Transcript)
        return transcript.has_focus or transcript.selected is not None

    def action_back(self) -> None:
        """Back to the input box; no message is marked."""
        self.query_one(Transcript).selected = None
        self.query_one(Composer).focus()

    def action_mark(self, which: str) -> None:
        """Mark the `previous` or the `next` message, wherever the cursor is; its keys are then below."""
        self.query_one(Transcript).focus(scroll_visible=False)
        self.action_look(f"select_{which}")

    def action_look(self, action: str) -> None:
        """Do something in the conversation, wherever the cursor is."""
        self.call_later(self.query_one(Transcript).run_action, action)

    def action_edit(self) -> None:
        """Edit the marked message, or the one that it replies to; the person's last one if none is marked."""
        messages = self.desk.chat.tree.messages
        marked = messages.get(self.query_one(Transcript).selected or 0)
        while marked and marked.role != "user":
            marked = messages.get(marked.parent or 0)
        if marked:
            self.edit(marked.id)
        else:
            self.command("/edit")

    def action_go_on(self) -> None:
        """Edit the marked reply, or the last one, for the model to go on from its end."""
        marked = self.query_one(Transcript).selected or None
        self.attempt(lambda: self.edit(self.desk.reply_to_edit(marked).id))

    def action_walk(self, step: int) -> None:
        """Show another version of the marked message, or of the last one that has several."""
        self.attempt(lambda: self.desk.walk(self.query_one(Transcript).selected or None, step))

    @on(Transcript.Walk)
    def _walk(self, message: Transcript.Walk) -> None:
        self.attempt(lambda: self.desk.walk(message.key, message.step))

    @on(Transcript.Selected)
    def _marked(self, message: Transcript.Selected) -> None:
        self.refresh_bindings()
        if message.key is None and self.query_one(Transcript).has_focus:
            self.query_one(Composer).focus()

    @on(Transcript.Following)
    def _following(self, message: Transcript.Following) -> None:
        """Where more is below than can be seen, say how to get there."""
        self.query_one(Composer).form.set_hint("" if message.following else f"↓ more: {key_of(self, 'chat.end')}")

    def on_key(self, event: events.Key) -> None:
        """What is typed over the conversation goes into the box."""
        if event.is_printable and self.query_one(Transcript).has_focus and event.key not in self.active_bindings:
            event.stop()
            self.action_back()
            self.query_one(Composer).form.editor.insert_text(event.character or "")

    def on_click(self, event: events.Click) -> None:
        """What is typed after a click on the conversation goes into the box, too."""
        if isinstance(event.widget, Transcript):
            self.action_back()
