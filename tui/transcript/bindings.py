"""The keys of the transcript."""

from textual.binding import BindingType

from tui.binding import bind

BINDINGS: list[BindingType] = [
    bind("transcript.previous", "alt+up", "select_previous", "Mark above", "Mark the message above", show=False),
    bind("transcript.next", "alt+down", "select_next", "Mark below", "Mark the message below", show=False),
    bind(
        "transcript.copy_code",
        "c",
        "copy_code",
        "Copy code",
        "Copy the last code of the marked message, or of the conversation",
    ),
    bind("transcript.copy_message", "y", "copy_message", "Copy message", "Copy the marked message, or the last one"),
    bind(
        "transcript.fold",
        "t",
        "fold",
        "Unfold",
        "Open or close what the model thought, what a call gave, or the rest of a long message",
    ),
    *(
        bind(
            f"transcript.code_{number}",
            str(number),
            f"copy_code({number})",
            f"Copy code {number}",
            "Copy the code of this number",
            show=False,
        )
        for number in range(1, 10)
    ),
]
