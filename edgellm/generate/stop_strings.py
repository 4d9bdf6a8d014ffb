"""Stop strings, also those that span several tokens or contain the text of a hidden token."""

from collections.abc import Mapping, Sequence

# A hidden token is a surrogate in the searched text: decoded text contains none.
_MARKS = range(0xD800, 0xE000)


class StopStrings:
    """Passes text on until a stop string appears; holds back text that may be the beginning of one.

    `hidden` maps the texts of hidden tokens (such as `<|im_end|>`) to their ids. A stop string that contains such a
    text is found where that token comes; other hidden tokens may stand anywhere inside a stop string. `held_back` is
    the text that is held back, with a character for each such token.
    """

    def __init__(self, strings: Sequence[str], hidden: Mapping[str, int] | None = None) -> None:
        named = [text for text in hidden or {} if text and any(text in string for string in strings)]
        named.sort(key=len, reverse=True)  # longest first: <|end|> must not match inside of <|end|>>
        marks = {text: chr(mark) for text, mark in zip(named, _MARKS, strict=False)}
        # The strings without marks, too: a model may spell the text of a hidden token with ordinary tokens.
        self._strings = list(dict.fromkeys([*strings, *(_marked(string, marks) for string in strings)]))
        self._mark_of = {hidden[text]: mark for text, mark in marks.items()} if hidden else {}
        self._marks = "".join(self._mark_of.values())
        self.held_back = ""
        self.found = False

    def push(self, text: str, hidden: int | None = None) -> str:
        """Returns the text that certainly precedes any stop string; sets `found` at the first stop string.

        `hidden` is the id of a hidden token that follows `text`.
        """
        if not self._strings:
            return text
        self.held_back += text if hidden is None else text + self._mark_of.get(hidden, "")
        matches = [self._match(string) for string in self._strings]
        self.found = any(complete for _, complete in matches)
        end = min(start for start, complete in matches if complete or not self.found)
        passed, self.held_back = self.held_back[:end], "" if self.found else self.held_back[end:]
        return self._without_marks(passed)

    def flush(self) -> str:
        """Returns the text that was held back, as no more text comes."""
        rest, self.held_back = self.held_back, ""
        return self._without_marks(rest)

    def _match(self, string: str) -> tuple[int, bool]:
        """Where a stop string begins in the text that is held back, and whether it is complete."""
        ignored = set(self._marks).difference(string)
        places = [at for at, letter in enumerate(self.held_back) if letter not in ignored]
        seen = "".join(map(self.held_back.__getitem__, places))
        at = seen.find(string)
        if at >= 0:
            return places[at], True
        longest = min(len(string) - 1, len(seen))
        n = next((n for n in range(longest, 0, -1) if seen.endswith(string[:n])), 0)
        return places[len(seen) - n] if n else len(self.held_back), False

    def _without_marks(self, text: str) -> str:
        return "".join(letter for letter in text if letter not in self._marks) if self._marks else text


def _marked(string: str, marks: Mapping[str, str]) -> str:
    for text, mark in marks.items():
        string = string.replace(text, mark)
    return string
