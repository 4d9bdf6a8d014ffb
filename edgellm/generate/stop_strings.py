"""Stop strings, found even where they span tokens, and where they name tokens that are not shown."""

from collections.abc import Mapping, Sequence

# Surrogates stand for hidden tokens: no decoded text has one.
_MARKS = range(0xD800, 0xE000)


class StopStrings:
    """Lets text through until one of the strings appears; holds back what may be the beginning of one.

    `hidden` has the ids, by text, of the tokens that are not shown. A string that names one is found where that token
    comes; hidden tokens that a string does not name may stand anywhere in it.
    """

    def __init__(self, strings: Sequence[str], hidden: Mapping[str, int] | None = None) -> None:
        named = [text for text in hidden or {} if text and any(text in string for string in strings)]
        named.sort(key=len, reverse=True)  # <|end|> is no <|end|>> that is cut short
        marks = {text: chr(mark) for text, mark in zip(named, _MARKS, strict=False)}
        # As they are, too: a model may spell the text of such a token with letters.
        self._strings = list(dict.fromkeys([*strings, *(_replaced(string, marks) for string in strings)]))
        self._marks = {hidden[text]: mark for text, mark in marks.items()} if hidden else {}
        self._all = "".join(self._marks.values())
        self._held = ""
        self.found = False

    def push(self, text: str, hidden: int | None = None) -> str:
        """The text that is now known to come before any stop string; sets `found` at the first of them.

        `hidden` is the id of a token that comes behind `text` and is not shown.
        """
        if not self._strings:
            return text
        self._held += text if hidden is None else text + self._marks.get(hidden, "")
        starts = [self._start(string) for string in self._strings]
        self.found = any(whole for _, whole in starts)
        end = min(at for at, whole in starts if whole or not self.found)
        passed, self._held = self._held[:end], "" if self.found else self._held[end:]
        return self._shown(passed)

    def flush(self) -> str:
        """What was held back: nothing more will come."""
        rest, self._held = self._held, ""
        return self._shown(rest)

    def _start(self, string: str) -> tuple[int, bool]:
        """Where a stop string begins in the held text, and whether all of it is there yet."""
        ignored = set(self._all).difference(string)
        places = [at for at, letter in enumerate(self._held) if letter not in ignored]
        seen = "".join(map(self._held.__getitem__, places))
        at = seen.find(string)
        if at >= 0:
            return places[at], True
        longest = min(len(string) - 1, len(seen))
        n = next((n for n in range(longest, 0, -1) if seen.endswith(string[:n])), 0)
        return places[len(seen) - n] if n else len(self._held), False

    def _shown(self, text: str) -> str:
        return "".join(letter for letter in text if letter not in self._all) if self._all else text


def _replaced(string: str, marks: Mapping[str, str]) -> str:
    for text, mark in marks.items():
        string = string.replace(text, mark)
    return string
