"""Special tokens in a text: control tokens, found only on request, and user-defined tokens, always found."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from edgellm.text.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, Vocabulary

_WHITE_SPACE = " \t\n\v\f\r"


class Span(NamedTuple):
    """The part of a text from `start` to before `end`: a special token, or text if `token` is None."""

    start: int
    end: int
    token: int | None


class SpecialTokens:
    """The special tokens of a vocabulary. `model` is the model's name (`general.name`), "" if unknown."""

    def __init__(self, vocabulary: Vocabulary, model: str) -> None:
        self._vocabulary = vocabulary
        self.ids = frozenset(vocabulary.of_type(CONTROL, UNKNOWN, USER_DEFINED))
        self._strips_space = self._space_strippers(model)

    @cached_property
    def control_texts(self) -> dict[str, int]:
        """Ids of control tokens by text: found in text only on request."""
        return self._by_text(CONTROL, UNKNOWN)

    @cached_property
    def _user_texts(self) -> dict[str, int]:
        return self._by_text(USER_DEFINED)

    def spans(self, text: str, controls: Mapping[str, int], masked: str | None = None) -> list[Span]:
        """`text`, which has no surrogates, cut at the control tokens `controls` and the user-defined tokens.

        Longer tokens are cut first. In Phi-3 models a special token includes the white space after it.
        If `masked` is given, control tokens are searched in it: `text` with some characters replaced, so that none is
        found there.
        """
        special = {**self._user_texts, **controls}
        spans = [Span(0, len(text), None)] if text else []
        for found in sorted((s for s in special if s in text), key=lambda s: len(s.encode()), reverse=True):
            token, searched = special[found], text if masked is None or found not in controls else masked
            strips = token in self._strips_space
            spans = [part for span in spans for part in _cut(text, searched, span, found, token, strips)]
        return spans

    def _by_text(self, *types: int) -> dict[str, int]:
        texts = ((self._vocabulary.texts[i], i) for i in self._vocabulary.of_type(*types))
        return {text.decode(errors="surrogateescape"): i for text, i in texts if text}

    def _space_strippers(self, model: str) -> frozenset[int]:
        """The special tokens that include the white space after them. The file does not say; llama.cpp, too, recognises
        Phi-3 by its name."""
        if not re.search("phi-?3", model.lower()):
            return frozenset()
        keepers = (b"<unk>", b"<s>", b"<|endoftext|>")
        return frozenset(i for i in self.ids if self._vocabulary.texts[i] not in keepers)


def _cut(text: str, searched: str, span: Span, found: str, token: int, strips_space: bool) -> Iterator[Span]:
    """`span` cut at each occurrence of `found` in `searched`; empty texts are left out."""
    start, end, already = span
    if already is not None:
        yield span
        return
    while (at := searched.find(found, start, end)) >= 0:
        if at > start:
            yield Span(start, at, None)
        start = at + len(found)
        yield Span(at, start, token)
        while strips_space and start < end and text[start] in _WHITE_SPACE:
            start += 1
    if start < end:
        yield Span(start, end, None)
