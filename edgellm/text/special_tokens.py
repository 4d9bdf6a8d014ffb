"""Special tokens in a text: control tokens, found only on request, and user-defined tokens, always found."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from edgellm.text.vocabulary import CONTROL, RENDERED_TEXTS, UNKNOWN, USER_DEFINED, Vocabulary

_WHITE_SPACE = " \t\n\v\f\r"


class Span(NamedTuple):
    """The part of a text from `start` to before `end`: a special token, or text if `token` is None."""

    start: int
    end: int
    token: int | None


class SpecialTokens:
    """The special tokens of a vocabulary. `strips_space`: they include the white space after them, as Phi-3's do."""

    def __init__(self, vocabulary: Vocabulary, strips_space: bool) -> None:
        self._vocabulary = vocabulary
        self.ids = frozenset(vocabulary.of_type(CONTROL, UNKNOWN, USER_DEFINED))
        keepers = (b"<unk>", b"<s>", b"<|endoftext|>")
        strippers = (i for i in self.ids if vocabulary.texts[i] not in keepers)
        self._strips_space = frozenset(strippers) if strips_space else frozenset[int]()

    @cached_property
    def control_texts(self) -> dict[str, int]:
        """Ids of control tokens by text: found in text only on request."""
        rendered = {
            text: i
            for text, i in self._by_text(USER_DEFINED).items()
            if text.encode(errors="surrogateescape") in RENDERED_TEXTS
        }
        return self._by_text(CONTROL, UNKNOWN) | rendered

    @cached_property
    def _user_texts(self) -> dict[str, int]:
        return {text: i for text, i in self._by_text(USER_DEFINED).items() if text not in self.control_texts}

    def id_of(self, text: str) -> int | None:
        """The id of the special token with that text; None if there is none."""
        return self.control_texts.get(text, self._user_texts.get(text))

    def spans(self, text: str, controls: Mapping[str, int], masked: str | None = None) -> list[Span]:
        """`text`, which has no surrogates, cut at the control tokens `controls` and the user-defined tokens.

        Longer tokens are cut first. If `masked` is given, control tokens are searched in it: `text` with some
        characters replaced, so that none is found there.
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
