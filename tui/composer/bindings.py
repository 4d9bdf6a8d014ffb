"""The keys of the input box."""

from textual.binding import BindingType

from tui.binding import bind

BINDINGS: list[BindingType] = [
    bind("composer.send", "enter", "send", "Send", "Send the message, or run the command", show=False),
    bind("composer.newline", "ctrl+j,alt+enter,shift+enter", "newline", "New line", "Begin a new line", show=False),
    bind(
        "composer.complete",
        "tab",
        "complete",
        "Complete",
        "Insert the highlighted completion, or the first one",
        show=False,
    ),
    bind(
        "composer.previous",
        "up",
        "walk(-1)",
        "Previous message",
        "In the first line: take queued messages back, or recall the message sent before",
        show=False,
    ),
    bind(
        "composer.next",
        "down",
        "walk(1)",
        "Next message",
        "In the last line: recall the message sent after it",
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
        "Move the last pasted text from its attachment into the box, to edit it",
    ),
]
