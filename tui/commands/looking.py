"""Commands that show something, and the way out."""

from tui.commands.command import Command

COMMANDS = (
    Command("inspect", "", "what the model really gets: text and tokens", lambda f, _: f.show("inspector")),
    Command("tokens", "[TEXT]", "count the tokens of this chat, or of a text", lambda f, text: f.desk.count(text)),
    Command("stats", "", "the figures of the last reply and the machine", lambda f, _: f.show("stats")),
    Command("log", "", "what libraries printed, and errors in full", lambda f, _: f.show("log")),
    Command("help", "", "keys and commands", lambda f, _: f.show("help")),
    Command("quit", "", "leave; everything is saved", lambda f, _: f.leave()),
)
