"""Completions of the word at the cursor."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"""(?:\\[\s'"\\]|\S)*\Z""")


@dataclass(frozen=True, slots=True)
class CompletionItem:
    """`text` replaces the word before the cursor; `help` is one line about it; `shown` replaces the text in the list.

    A text that ends with a space or with "/" needs more input: Enter inserts it and waits. Any other one is complete:
    Enter on a command line inserts it and runs the line.
    """

    text: str
    help: str = ""
    shown: str = ""

    @property
    def complete(self) -> bool:
        """Whether no more input is needed."""
        return not self.text.endswith((" ", "/"))


def word_start(text: str, cursor: int) -> int:
    r"""The start of the word before the cursor. As in a shell, an escaped space is part of it: `My\ Notes`."""
    match = _WORD.search(text, text.rfind("\n", 0, cursor) + 1, cursor)
    return match.start() if match else cursor


def preselected(completions: Sequence[CompletionItem], text: str, word: str) -> int | None:
    """The index of the initially selected completion: on a command line the one that is typed, or else the first.

    None in a message, where Enter sends, and before a word is begun: Enter must not run what the user did not type.
    """
    if not completions or not text.startswith("/") or not word or word.endswith("/"):
        return None
    typed = (place for place, each in enumerate(completions) if each.text.rstrip() == word)
    return next(typed, 0)
