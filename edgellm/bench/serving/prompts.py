"""Prompts of random tokens: replies of any length can be asked of any model, and no prompt was computed before."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgellm.errors import EdgeLLMError
from edgellm.text.tokenizer import Tokenizer

BLOCK_TOKENS = 512
"""Tokens of a block with a hash id in a trace of Mooncake (https://arxiv.org/abs/2407.00079, section 4)."""

_PREFIX, _PROMPTS, _BLOCKS = range(3)


class PromptMaker:
    """Makes prompts. Tokens without a text of their own, such as control tokens, are left out.

    All begin with the same `shared_prefix` tokens. The same seed gives the same prompts in the same order.
    """

    def __init__(self, tokenizer: Tokenizer, seed: int, shared_prefix: int = 0) -> None:
        self._ids, self._seed = _text_ids(tokenizer), seed
        self._random = np.random.default_rng([seed, _PROMPTS])
        self._prefix = self._draw(np.random.default_rng([seed, _PREFIX]), shared_prefix)

    def prompt(self, n: int, blocks: Sequence[int] = ()) -> list[int]:
        """The next prompt, of `n` tokens.

        It begins with the tokens of `blocks`, ids of BLOCK_TOKENS tokens each: the same id is the same tokens.
        """
        begun = [token for block in blocks for token in self._block(block)] if blocks else self._prefix
        return begun[:n] + self._draw(self._random, max(0, n - len(begun)))

    def _block(self, block: int) -> list[int]:
        return self._draw(np.random.default_rng([self._seed, _BLOCKS, block]), BLOCK_TOKENS)

    def _draw(self, random: np.random.Generator, n: int) -> list[int]:
        drawn: list[int] = random.choice(self._ids, n).tolist()
        return drawn


def _text_ids(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """The tokens that have a text and do not end one. Raises EdgeLLMError if there are none."""
    ids = [i for i in range(tokenizer.n_vocab) if i not in tokenizer.eog_ids and tokenizer.token_bytes(i)]
    if not ids:
        raise EdgeLLMError("the vocabulary of the model has no token with a text: prompts cannot be made")
    return np.array(ids)
