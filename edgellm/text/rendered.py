"""What a template made of a conversation, and where each character of it comes from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from edgellm.text.rendering.origins import MESSAGE, NAMED, TEMPLATE, UNKNOWN
from edgellm.text.surrogates import without_surrogates

TEMPLATE_ROLE = "template"
"""The role of what the template writes itself."""

_FOREIGN = "\ud800"
"""A character in no token: what texts of tokens have of surrogates stands for a byte, and is another."""


@dataclass(frozen=True)
class Rendered:
    """The text, and the origins of its characters (`edgellm.text.rendering.origins`) as runs with a length each."""

    text: str
    runs: Sequence[tuple[int, int]]

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> Self:
        """From the JSON of the process that renders. Raises KeyError, TypeError or ValueError if that has no sense."""
        text, runs = reply["text"], [(int(origin), int(length)) for origin, length in reply["origins"]]
        text.encode()  # as UTF-8, which has no surrogates
        if sum(length for _, length in runs) != len(text) or any(min(run) < 0 for run in runs):
            raise ValueError
        return cls(text, runs)

    def followed_by(self, text: str) -> Self:
        """The same with a text behind it that is not the template's."""
        text = without_surrogates(text)
        return replace(self, text=self.text + text, runs=[*self.runs, (ord(UNKNOWN), len(text))]) if text else self

    def own(self, controls: Mapping[str, int]) -> str:
        """The text with each character replaced that is not the template's: no control token can be found in those.

        A word of the template's from the program, such as a role, is a part of control tokens, but none itself.
        """
        named = {piece for origin, piece in self._pieces() if origin == ord(NAMED)}
        parts = {piece for piece in named if not any(control in piece for control in controls)}
        return "".join(
            piece if origin == ord(TEMPLATE) or (origin == ord(NAMED) and piece in parts) else _FOREIGN * len(piece)
            for origin, piece in self._pieces()
        )

    def roles(self, messages: Sequence[Mapping[str, Any]]) -> list[str] | None:
        """The role of the message that each character comes from; None where that cannot be told."""
        known = range(MESSAGE + len(messages))
        if any(origin == ord(UNKNOWN) or origin not in known for origin, _ in self.runs):
            return None
        found = list[str]()
        for origin, length in self.runs:
            role = TEMPLATE_ROLE if origin < MESSAGE else messages[origin - MESSAGE]["role"]
            found += [role] * length
        return found

    def _pieces(self) -> Iterator[tuple[int, str]]:
        at = 0
        for origin, length in self.runs:
            yield origin, self.text[at : at + length]
            at += length
