"""Commands that show something, and the way out."""

from tui.commands.command import SlashCommand

COMMANDS = (
    SlashCommand("inspect", "", "what the model really gets: text and tokens", lambda f, _: f.show("inspector")),
    SlashCommand("tokens", "[TEXT]", "count the tokens of this chat, or of a text", lambda f, text: f.desk.count(text)),
    SlashCommand("stats", "", "the figures of the last reply and the machine", lambda f, _: f.show("stats")),
    SlashCommand("log", "", "what libraries printed, and errors in full", lambda f, _: f.show("log")),
    SlashCommand("help", "", "keys and commands", lambda f, _: f.show("help")),
    SlashCommand("quit", "", "leave; everything is saved", lambda f, _: f.leave()),
)
