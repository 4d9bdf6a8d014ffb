"""What the word at the cursor can become."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"""(?:\\[\s'"\\]|\S)*\Z""")


@dataclass(frozen=True, slots=True)
class CompletionItem:
    """`text` takes the place of the word before the cursor; `help` is one line about it.

    A text that ends with a space or with "/" asks for more: Enter takes it and waits. Any other one is complete, and
    Enter on a command line takes it and runs the line. `shown` is what the list shows where it is not the text itself.
    """

    text: str
    help: str = ""
    shown: str = ""

    @property
    def complete(self) -> bool:
        """Whether nothing has to follow."""
        return not self.text.endswith((" ", "/"))


def word_start(text: str, cursor: int) -> int:
    r"""Where the word before the cursor begins. As in a shell, a backslash makes a space part of it: `My\ Notes`."""
    match = _WORD.search(text, text.rfind("\n", 0, cursor) + 1, cursor)
    return match.start() if match else cursor


def preselected(completions: Sequence[CompletionItem], text: str, word: str) -> int | None:
    """Which one is selected before anyone chose: on a command line the one that is typed, or else the first.

    None in a message, where Enter sends, and where nothing of the word is typed yet: Enter would do what nobody said.
    """
    if not completions or not text.startswith("/") or not word or word.endswith("/"):
        return None
    typed = (place for place, each in enumerate(completions) if each.text.rstrip() == word)
    return next(typed, 0)
