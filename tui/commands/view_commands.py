"""Commands that show something, and the command that leaves."""

from collections.abc import Callable

from tui.commands.command import Frontend, SlashCommand


def _show(view: str) -> Callable[[Frontend, str], None]:
    return lambda frontend, _: frontend.show(view)


def _tokens(frontend: Frontend, text: str) -> None:
    frontend.controller.tokens.report(text)


def _quit(frontend: Frontend, _: str) -> None:
    frontend.leave()


COMMANDS = (
    SlashCommand("inspect", "", "the prompt as the model gets it: text and tokens", _show("inspector")),
    SlashCommand("tokens", "[TEXT]", "count the tokens of this chat, or of a text", _tokens),
    SlashCommand("stats", "", "the figures of the last reply and the machine", _show("stats")),
    SlashCommand("log", "", "output of libraries, and errors in full", _show("log")),
    SlashCommand("help", "", "keys and commands", _show("help")),
    SlashCommand("quit", "", "leave; everything is saved", _quit),
)
