"""What the slash commands ask of the screen."""

from collections.abc import Callable, Sequence

from textual.screen import Screen

from edgellm.errors import EdgeLLMError
from tui.chat.views import VIEWS, view
from tui.commands import COMMANDS, run_command
from tui.composer import Attachment, Composer
from tui.core.controller import ChatController
from tui.instruments import Panel
from tui.transcript import Transcript


class FrontScreen(Screen[None]):
    """A screen with an input box and a panel, as the commands' `Frontend`."""

    def __init__(self, desk: ChatController) -> None:
        super().__init__()
        self.desk = desk
        self._warned = False

    def command(self, line: str) -> bool:
        """Run a slash command. False if it could not be done."""
        return self.move(lambda: run_command(COMMANDS, self, line))

    def begin(self, line: str) -> None:
        """Put the beginning of a command into the input box, unless something is typed there."""
        composer = self.query_one(Composer)
        if composer.text:
            self.say("something is typed already: send it first, or empty the box", "warning")
        else:
            composer.text = line
        composer.focus()

    def attempt(self, act: Callable[[], None]) -> bool:
        """Do it. False for what cannot be done: that is told, and nothing is lost."""
        try:
            act()
        except EdgeLLMError as error:
            self.say(str(error), "error")
            return False
        return True

    def move(self, act: Callable[[], None]) -> bool:
        """Do what may lead to another chat: what is typed stays with the one that is left, and that one's comes.

        False if it could not be done.
        """
        left = self.desk.chat.id
        self.keep()
        done = self.attempt(act)
        if self.desk.chat.id != left:
            self.begin_draft()
        return done

    def say(self, text: str, severity: str = "information") -> None:
        """Show a notice."""
        self.notify(text, severity=severity)  # type: ignore[arg-type]

    def attach(self, name: str, text: str) -> None:
        """Put a file beside what is typed."""
        self.query_one(Composer).form.attach(name, text)

    def edit(self, message: int) -> None:
        """Let an earlier message be changed."""
        found = self.desk.chat.tree.messages[message]
        what = "message" if found.role == "user" else "reply, from whose end the model goes on"
        self.query_one(Composer).focus().edit(found.text, message, what)

    def point_at(self, message: int, words: str) -> None:
        """Mark a message and bring into view where it has one of the words."""
        self.show_path()
        self.query_one(Transcript).point_at(message, words)

    def show_path(self) -> None:
        """Show the conversation as it is now."""

    def show(self, name: str) -> None:
        """Open one of the views, each at most once."""
        if name == "stats":
            self.query_one(Panel).add_class("shown")
        elif name == "chats":
            self.show_sidebar()
        elif name in VIEWS and self.app.screen is self:
            self.app.push_screen(view(name, self.desk), self._chosen if name == "models" else None)

    def show_sidebar(self) -> None:
        """Open the list of chats."""

    def _chosen(self, model: str | None) -> None:
        if model:
            self.desk.open_model(model)

    def keep(self) -> bool:
        """Save what is typed, and the files that go with it. False if it could not be."""
        composer = self.query_one(Composer)
        return self.attempt(lambda: self.save_draft(composer.unsent, composer.unsent_files))

    def save_draft(self, text: str, files: Sequence[Attachment]) -> None:
        """Save a draft. Raises EdgeLLMError if it cannot be."""
        self.desk.save_draft(text, tuple((each.name, each.text) for each in files))

    def begin_draft(self) -> None:
        """Go on with what was typed in this chat, and the files that went with it."""
        draft = self.desk.draft()
        self.query_one(Composer).begin(draft.text, [Attachment(*file) for file in draft.files])

    def put_away(self) -> bool:
        """Take what is typed out of the box. False where there is nothing."""
        return self.query_one(Composer).form.put_away()

    def leave(self) -> None:
        """End the program; what is typed is there again the next time. Where it would not be, say so first."""
        if self.keep() or not self.query_one(Composer).unsent or self._warned:
            self.app.exit()
        else:
            self._warned = True
            self.say("what is typed would be lost: once more leaves all the same", "warning")
