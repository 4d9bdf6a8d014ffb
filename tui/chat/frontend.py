"""The screen as the slash commands see it."""

from tui.chat.conversation_view import ConversationView
from tui.chat.draft_keeper import DraftKeeper
from tui.chat.notifier import Notifier
from tui.chat.sidebar_actions import SidebarActions
from tui.chat.views import VIEWS, view
from tui.commands import COMMANDS, run_command
from tui.composer import Composer
from tui.core.controller import ChatController
from tui.instruments import Panel


class ScreenFrontend:
    """The `tui.commands.Frontend` of the screen."""

    def __init__(
        self,
        controller: ChatController,
        composer: Composer,
        panel: Panel,
        view: ConversationView,
        sidebar: SidebarActions,
        drafts: DraftKeeper,
        notifier: Notifier,
    ) -> None:
        self.controller = controller
        self._composer, self._panel = composer, panel
        self._view, self._sidebar, self._drafts, self._notifier = view, sidebar, drafts, notifier

    def run(self, line: str) -> bool:
        """Run a slash command. Returns False, after a notice, if it fails."""
        done = self._drafts.switch(lambda: run_command(COMMANDS, self, line))
        self._view.refresh()  # no event tells of a schema that is set
        return done

    def start_command(self, line: str) -> None:
        """Put the beginning of a command into the input box, if the box is empty."""
        if self._composer.text:
            self.say("the input box is not empty: send or clear its text first", "warning")
        else:
            self._composer.text = line
        self._composer.focus()

    def say(self, text: str, severity: str = "information") -> None:
        """Show a notice."""
        self._notifier.say(text, severity)

    def attach(self, name: str, text: str) -> None:
        """Attach a file to the message in the input box."""
        self._composer.form.attach(name, text)

    def edit(self, message: int) -> None:
        """Put an earlier message into the input box, to be edited."""
        found = self.controller.conversation.chat.tree.messages[message]
        what = "message" if found.role == "user" else "reply, from whose end the model goes on"
        self._composer.focus().edit(found.text, message, what)

    def point_at(self, message: int, words: str) -> None:
        """Mark a message, and scroll to the first of the words in it."""
        self._view.point_at(message, words)

    def show(self, name: str) -> None:
        """Open a view, if it is not open."""
        screen = self._composer.screen
        if name == "stats":
            self._panel.add_class("shown")
        elif name == "chats":
            self._sidebar.show()
        elif name in VIEWS and screen.app.screen is screen:
            screen.app.push_screen(view(name, self.controller), self._open_model if name == "models" else None)

    def _open_model(self, model: str | None) -> None:
        if model:
            self.controller.model.open(model)

    def leave(self) -> None:
        """End the program. The draft is stored; if the store fails, the first call only warns."""
        if self._drafts.may_leave():
            self._composer.app.exit()
