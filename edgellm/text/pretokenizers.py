"""How each named pre-tokenizer cuts text into words before byte-level BPE merges inside them.

The names are values of `tokenizer.ggml.pre`. A new one is one entry here; reading and writing models share
the table.
"""

from typing import NamedTuple


class PreTokenizer(NamedTuple):
    """Patterns that each cut out their matches in turn, and what else comes with the name.

    `ignore_merges`: a word that is a token is taken whole, whatever the merges say.
    `add_bos`: what holds when the file has no `tokenizer.ggml.add_bos_token`.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False


# From OpenAI's GPT-2 encoder.py.
_GPT2 = PreTokenizer((r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",))

# From the tokenizer.json of Llama 3.
_LLAMA3 = PreTokenizer(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    ignore_merges=True,
    add_bos=True,
)

PRE_TOKENIZERS = {"gpt-2": _GPT2, "llama-bpe": _LLAMA3}
