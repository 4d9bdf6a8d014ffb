"""What keeps the text of messages from being read as control tokens."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from edgellm.text.tokenizer import without_surrogates

_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))


class Guard:
    """Marks text so that no control token can be read in it, nor in its ends and what comes next to them.

    The texts of `controls` have two characters at least.
    """

    def __init__(self, mark: str, controls: Mapping[str, int]) -> None:
        self.mark = mark
        self._controls = controls
        self._forward, self._backward = sorted(controls), sorted(text[::-1] for text in controls)
        self._firsts, self._lasts = {text[0] for text in controls}, {text[-1] for text in controls}
        self._reach = max(map(len, controls), default=0)

    def applied(self, value: Any) -> Any:
        """A copy of `value` with all text in it marked, keys too."""
        if isinstance(value, str):
            return self._text(without_surrogates(value))
        if isinstance(value, Mapping):
            return {self.applied(key): self.applied(item) for key, item in value.items()}
        return [self.applied(item) for item in value] if isinstance(value, list | tuple) else value

    def _text(self, text: str) -> str:
        if text.isalnum():
            return text  # roles, keys and types, which templates compare
        for control in self._controls:
            while control in text:
                text = text.replace(control, control[0] + self.mark + control[1:])
        ends = range(1, min(self._reach, len(text) + 1))
        before = any(text[n - 1] in self._lasts and _begins(self._backward, text[:n][::-1]) for n in ends)
        after = any(text[-n] in self._firsts and _begins(self._forward, text[-n:]) for n in ends)
        return f"{self.mark if before else ''}{text}{self.mark if after else ''}"


def _begins(ordered: Sequence[str], text: str) -> bool:
    """Whether one of these begins with a text, and goes on."""
    place = bisect_left(ordered, text)
    return any(other != text and other.startswith(text) for other in ordered[place : place + 2])


def unused_characters(*values: object) -> Iterator[str]:
    """The private characters that occur nowhere in these values."""
    used = set(chain.from_iterable(_texts(values)))
    return (chr(i) for i in chain(*_PRIVATE) if chr(i) not in used)


def _texts(value: object) -> Iterator[str]:
    """Every text in `value`, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
