"""The tokens of a draft model as those of its target: the same ids, other ids with the same texts, or refused.

Whatever is drafted, the text is that of the target, or by the rule of rejection has its distribution. So a map need not
be complete: a token that only one of the models has is not drafted, or is read by the draft model as another one.
"""

import math
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.protocol import Logits
from edgellm.errors import UnsupportedModelError
from edgellm.fmt import printable
from edgellm.text.tokenizer import Tokenizer
from edgellm.text.vocabulary import BYTE, NORMAL, UNUSED

MIN_SHARE = 0.99
"""The least share of the plain tokens of the larger vocabulary that the other one has, too."""

_NONE = -1
"""The id of a token that the other vocabulary lacks."""


@dataclass(frozen=True)
class TokenMap:
    """Which token of the target each token of a draft model is, and the reverse.

    `kind` is "same" if equal ids mean equal tokens. `to_target` has the target's id of each id of the draft model, -1
    for a token that the target lacks; `to_draft` has the draft model's id of each id of the target. A token that the
    draft model lacks is `substitute` there. `rows` are those of the target's output, perhaps more than its tokens.
    """

    kind: Literal["same", "mapped"]
    to_target: NDArray[np.int32]
    to_draft: Ids[int]
    substitute: int
    rows: int

    def draft_ids(self, ids: Ids[int]) -> list[int]:
        """Tokens of the target as the draft model reads them, one for one. All ids exist in the draft model."""
        known = len(self.to_draft)
        return [self.to_draft[i] if i < known else self.substitute for i in ids]

    def target_logits(self, logits: Logits) -> Logits:
        """The logits [rows] of the target's tokens, of those that a draft model computed for its own.

        They are -inf for what the draft model lacks. Without a difference the array itself is returned.
        """
        if self.kind == "same" and len(logits) == self.rows and not self._missing.size:
            return logits
        found = np.full(self.rows, -np.inf, np.float32)
        if self.kind == "same":
            count = min(len(logits), len(self.to_target), self.rows)
            found[:count] = logits[:count]
            found[self._missing[self._missing < count]] = -np.inf
        else:
            found[self.to_target[self._known]] = logits[self._known]
        return found

    @cached_property
    def _known(self) -> NDArray[np.intp]:
        """The draft model's ids of tokens that the target has."""
        return np.flatnonzero(self.to_target != _NONE)

    @cached_property
    def _missing(self) -> NDArray[np.intp]:
        """The draft model's ids of tokens that the target lacks."""
        return np.flatnonzero(self.to_target == _NONE)


@dataclass(frozen=True)
class VocabularyPair:
    """The tokenizers of a target and of its draft model, and the `rows` of their outputs, to which ids are limited."""

    target: Tokenizer
    draft: Tokenizer
    rows: tuple[int, int]

    def map(self, names: tuple[str, str]) -> TokenMap:
        """The map between the vocabularies; the `names` of target and draft model are those of messages.

        Where plain tokens are the same, and text is split into words by the same rules, it is taken that words become
        the same tokens. Raises UnsupportedModelError if too few tokens are alike, or if text is split otherwise.
        """
        by_id = self._by_id()
        if by_id is not None and self._share(by_id) >= MIN_SHARE:
            return self._finished("same", by_id)
        by_text = self._by_text()
        share = self._share(by_text)
        if share >= MIN_SHARE and self.target.splits_as(self.draft):
            self._match_ends(by_text)
            return self._finished("mapped", by_text)
        raise UnsupportedModelError(self._refusal(names, share))

    def _by_id(self) -> NDArray[np.int32] | None:
        """The target's id of each id of the draft model, if no id means another token; an unused one may."""
        own, other = self.target.vocabulary, self.draft.vocabulary
        found = np.full(len(other), _NONE, np.int32)
        both = min(len(own), len(other))
        found[:both] = range(both)
        for i, (text, drafted) in enumerate(zip(own.texts, other.texts, strict=False)):
            if text != drafted:
                if UNUSED not in (own.types[i], other.types[i]):
                    return None
                found[i] = _NONE
        return found

    def _by_text(self) -> NDArray[np.int32]:
        """The target's id of the token with the same text and of the same kind, for each id of the draft model."""
        own, other = self.target.vocabulary, self.draft.vocabulary
        ids = {(text, _is_plain(kind)): i for i, (text, kind) in enumerate(zip(own.texts, own.types, strict=True))}
        keys = ((text, _is_plain(kind)) for text, kind in zip(other.texts, other.types, strict=True))
        return np.array([ids.get(key, _NONE) for key in keys], np.int32)

    def _share(self, to_target: NDArray[np.int32]) -> float:
        """The share of the plain tokens that both vocabularies have in those of the larger one."""
        plain = [sum(map(_is_plain, each.vocabulary.types)) for each in (self.target, self.draft)]
        types = self.draft.vocabulary.types
        alike = sum(_is_plain(kind) and at >= 0 for kind, at in zip(types, to_target.tolist(), strict=True))
        return float(alike / max(1, *plain))

    def _match_ends(self, to_target: NDArray[np.int32]) -> None:
        """Match the tokens that end a text, if their texts differ and no other token is matched with that one."""
        own, other = self.target.eos_id, self.draft.eos_id
        if own is not None and other is not None and to_target[other] == _NONE and own not in to_target:
            to_target[other] = own

    def _finished(self, kind: Literal["same", "mapped"], to_target: NDArray[np.int32]) -> TokenMap:
        """The map. What begins or ends a text is read by the draft model as its own token for that, if it lacks it."""
        target, draft = self.target, self.draft
        to_target[self.rows[1] :] = _NONE
        to_target[to_target >= self.rows[0]] = _NONE
        roles = (draft.unk_id, draft.bos_id, draft.eos_id)
        unknown, bos, eos = (i if i is not None and i < self.rows[1] else None for i in roles)
        substitute = next((i for i in (unknown, bos, eos) if i is not None), 0)
        to_draft = np.full(target.n_vocab, substitute, np.int32)
        if eos is not None:
            to_draft[list(target.eog_ids)] = eos
        if target.bos_id is not None and bos is not None:
            to_draft[target.bos_id] = bos
        known = np.flatnonzero(to_target != _NONE)
        to_draft[to_target[known]] = known
        return TokenMap(kind, to_target, to_draft.tolist(), substitute, self.rows[0])

    def _refusal(self, names: tuple[str, str], share: float) -> str:
        """Why a draft model is refused, and what to do."""
        own, other = (printable(each.pre or each.kind) for each in (self.target, self.draft))
        splits = "" if self.target.splits_as(self.draft) else f"tokenizer {other} against {own}, "
        problem = f"{names[1]} writes text with other tokens than {names[0]}"
        advice = "choose a draft model of the same family, or --draft auto"
        return f"{problem} ({splits}{math.floor(100 * share)} % of tokens alike): {advice}"


def _is_plain(kind: int) -> bool:
    """Whether text without special tokens may become a token of this type."""
    return kind in (NORMAL, BYTE)
