"""What keeps the text of messages from being read as control tokens."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from edgellm.text.tokenizer import without_surrogates

_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))


class Guard:
    """Marks text so that no control token can be read in it, nor in its ends and what comes next to them."""

    def __init__(self, mark: str, controls: Mapping[str, int]) -> None:
        self.mark = mark
        self._controls = controls
        self._heads = {text[:n] for text in controls for n in range(1, len(text))}
        self._tails = {text[n:] for text in controls for n in range(1, len(text))}
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
        reach = range(1, self._reach)
        before = self.mark if any(text[:n] in self._tails for n in reach) else ""
        after = self.mark if any(text[-n:] in self._heads for n in reach) else ""
        return before + text + after


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
