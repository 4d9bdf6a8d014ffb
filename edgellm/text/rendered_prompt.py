"""A rendered prompt: its text, and where each character comes from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from edgellm.text.rendering.tracked_text import MESSAGE, SHARED_WORD, TEMPLATE, UNKNOWN
from edgellm.text.utf8 import replace_surrogates

TEMPLATE_ROLE = "template"
"""The role of text that the template itself contains."""

_MASK = "\ud800"
"""A character that no token contains. (Surrogates in token texts encode a byte, and are others.)"""


@dataclass(frozen=True)
class RenderedPrompt:
    """The text, and the origins of its characters (`edgellm.text.rendering.tracked_text`).

    `runs` are pairs of an origin and the number of characters in a row that have it.
    """

    text: str
    runs: Sequence[tuple[int, int]]

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> Self:
        """From the JSON of the rendering process. Raises KeyError, TypeError or ValueError if it is malformed."""
        text, runs = reply["text"], [(int(origin), int(length)) for origin, length in reply["origins"]]
        text.encode()  # raises if the text has surrogates
        if sum(length for _, length in runs) != len(text) or any(min(run) < 0 for run in runs):
            raise ValueError
        return cls(text, runs)

    def followed_by(self, text: str, from_template: bool = False) -> Self:
        """This prompt with a text after it, which is not the template's unless `from_template`."""
        text, origin = replace_surrogates(text), ord(TEMPLATE if from_template else UNKNOWN)
        return replace(self, text=self.text + text, runs=[*self.runs, (origin, len(text))]) if text else self

    def replaced(self, word: str, parts: Sequence[tuple[str, bool]]) -> Self:
        """This prompt with texts in place of the first occurrence of `word`; each is a text, and whether the template's
        or that of the message that has the word. Raises ValueError if there is none."""
        start = self.text.index(word)
        pieces, at = list[tuple[int, str]](), 0
        for origin, part in self._parts():
            end = at + len(part)
            pieces.append((origin, part[: max(0, start - at)]))
            if at <= start < end:
                pieces += [(ord(TEMPLATE) if own else origin, replace_surrogates(text)) for text, own in parts]
            pieces.append((origin, part[max(0, start + len(word) - at) :] if end > start else ""))
            at = end
        kept = [(origin, part) for origin, part in pieces if part]
        return replace(self, text="".join(part for _, part in kept), runs=[(each, len(part)) for each, part in kept])

    def masked(self, controls: Mapping[str, int]) -> str:
        """The text with each character replaced that is not the template's, so that no control token is found there.

        A word that template and program share, such as a role, may be a part of a control token, but not a whole one.
        """
        shared = {part for origin, part in self._parts() if origin == ord(SHARED_WORD)}
        harmless = {part for part in shared if not any(control in part for control in controls)}
        return "".join(
            part if origin == ord(TEMPLATE) or (origin == ord(SHARED_WORD) and part in harmless) else _MASK * len(part)
            for origin, part in self._parts()
        )

    def roles(self, messages: Sequence[Mapping[str, Any]]) -> list[str] | None:
        """The role of the message that each character comes from; None if a character's origin is unknown."""
        known = range(MESSAGE + len(messages))
        if any(origin == ord(UNKNOWN) or origin not in known for origin, _ in self.runs):
            return None
        found = list[str]()
        for origin, length in self.runs:
            role = TEMPLATE_ROLE if origin < MESSAGE else messages[origin - MESSAGE]["role"]
            found += [role] * length
        return found

    def _parts(self) -> Iterator[tuple[int, str]]:
        at = 0
        for origin, length in self.runs:
            yield origin, self.text[at : at + length]
            at += length
