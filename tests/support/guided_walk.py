"""Guides without a model: a small vocabulary, replies drawn from what a guide allows, and texts that are tried."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgellm import Tokenizer
from edgellm.guides.compile import GuideCompiler
from edgellm.guides.guide import Guide
from edgellm.guides.spec import GuideSpec
from support.tiny_vocab import write_bpe

CONTROL, USER_DEFINED = 3, 4
MERGES = ('Ġ "', '" :', '": Ġ', "t r", "tr u", "tru e", "n a", "m e", "na me", "1 2", "Ã ©", ", Ġ")


def small_tokenizer(folder: Path) -> Tokenizer:
    """All bytes, some words of JSON, a letter with an accent, marks of thinking, and two tokens that end a reply."""
    special = {"<|end|>": CONTROL, "<|im_end|>": CONTROL, "<|mark|>": CONTROL, "<think>": USER_DEFINED}
    special["</think>"] = USER_DEFINED
    return Tokenizer.open(write_bpe(folder / "small.gguf", MERGES, special, eos_token_id=256 + len(MERGES)))


def write_json(value: object) -> str:
    """A value as guided replies write it."""
    return json.dumps(value, ensure_ascii=False)


class Guides:
    """Guides for the small vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._compiler = GuideCompiler(tokenizer, tokenizer.n_vocab)

    def new(self, kind: str, source: str) -> Guide:
        """A guide for a new reply. Raises GuideError."""
        return self._compiler.compile(GuideSpec(kind, source))()  # type: ignore[arg-type]

    def accepts(self, guide: Guide, text: str) -> bool:
        """Whether a reply may be `text`."""
        for token in self.tokenizer.encode(text):
            mask = guide.allowed()
            if guide.ended or mask is None or not mask[token]:
                return False
            guide.accept(token)
        return guide.complete

    def walk(self, guide: Guide, rng: random.Random, most: int = 400) -> str:
        """A reply of random tokens, as far as `most` tokens go. Those that end something are likelier than others."""
        return b"".join(map(self.tokenizer.token_bytes, self._ids(guide, rng, most))).decode()

    def _ids(self, guide: Guide, rng: random.Random, most: int) -> Iterator[int]:
        for _ in range(most):
            if guide.ended or (guide.complete and rng.random() < 0.5):
                return
            forced = guide.forced()
            token = forced[0] if forced else self._draw(guide, rng)
            if token in self.tokenizer.eog_ids:
                return
            guide.accept(token)
            yield token

    def _draw(self, guide: Guide, rng: random.Random) -> int:
        mask = guide.allowed()
        assert mask is not None
        allowed = np.flatnonzero(mask).tolist()
        weights = [30 if self.tokenizer.token_bytes(i)[:1] in (b'"', b"]", b"}", b",") else 1 for i in allowed]
        return rng.choices(allowed, weights)[0]
