"""Pre-tokenizers by name: how text is split into words before BPE merges inside of them.

The names are values of `tokenizer.ggml.pre`. A new name is one entry in the table below, and a new expression one in
`word_patterns`. Opening and converting models share the table; a converted file gets the first name of its kind,
unless another name of that kind belongs to its architecture.
"""

from typing import NamedTuple

from edgellm.errors import OptionError, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.text.word_patterns import (
    BLOOM,
    DEEPSEEK3,
    DEEPSEEK_CODER,
    DEEPSEEK_LLM,
    DEFAULT,
    DIGIT,
    EXAONE_MOE,
    FALCON,
    GPT2,
    GPT4O,
    JAIS2,
    KIMI_K2,
    LINES,
    LING,
    LLAMA3,
    MINICPM5,
    NO_CONTRACTIONS,
    QWEN2,
    QWEN35,
    SEED_CODER,
    SPARK,
    SUPERBPE,
    TEKKEN,
    THREE_DIGITS,
    TINY_AYA,
    YOUTU,
)


class PreTokenizer(NamedTuple):
    """The patterns of a pre-tokenizer, each applied in turn to split off its matches, and related settings.

    `ignore_merges`: a word that is a token becomes that token, whatever the merges say.
    `add_bos`: the default for files without `tokenizer.ggml.add_bos_token`.
    `nfc`: text is normalized to Unicode NFC before it is split.
    `byte_level`: bytes are merged. Otherwise characters are, with spaces written as U+2581, as SentencePiece does.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    nfc: bool = False
    byte_level: bool = True


_KINDS: tuple[tuple[str, PreTokenizer], ...] = (
    ("default", PreTokenizer(DEFAULT)),
    (
        "gpt-2 jais phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum exaone4 trillion "
        "granite-docling",
        PreTokenizer((GPT2,)),
    ),
    ("olmo mpt modern-bert", PreTokenizer((GPT2,), nfc=True)),
    ("smollm starcoder refact codeshell exaone minerva-7b mellum2", PreTokenizer((DIGIT, GPT2))),
    ("command-r", PreTokenizer((DIGIT, GPT2), nfc=True)),
    ("falcon", PreTokenizer(FALCON)),
    (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        PreTokenizer((LLAMA3,), ignore_merges=True, add_bos=True),
    ),
    ("glm4 glm5", PreTokenizer((LLAMA3,), ignore_merges=True)),
    ("smaug-bpe dbrx chatglm-bpe", PreTokenizer((LLAMA3,))),
    ("minicpm5", PreTokenizer((THREE_DIGITS, MINICPM5), ignore_merges=True)),
    ("qwen2 deepseek-r1-qwen f2llmv2", PreTokenizer((QWEN2,), nfc=True)),
    ("megrez stablelm2 hunyuan kormo grok-2 solar-open", PreTokenizer((QWEN2,))),
    ("laguna", PreTokenizer((LINES, QWEN2))),
    ("ufakzeka", PreTokenizer((NO_CONTRACTIONS,))),
    ("qwen35", PreTokenizer((QWEN35,), nfc=True)),
    ("seed-coder", PreTokenizer((SEED_CODER,))),
    ("exaone-moe", PreTokenizer((EXAONE_MOE,))),
    ("bailingmoe bailingmoe2 llada-moe", PreTokenizer((LING,))),
    ("jais-2", PreTokenizer((JAIS2,))),
    ("tekken", PreTokenizer((TEKKEN,), ignore_merges=True, add_bos=True)),
    ("gpt-4o llama4 kanana2 minimax-m2 talkie", PreTokenizer((GPT4O,))),
    ("tiny_aya cohere2moe", PreTokenizer(TINY_AYA)),
    ("kimi-k2", PreTokenizer((KIMI_K2,))),
    ("superbpe", PreTokenizer(SUPERBPE)),
    ("deepseek-llm", PreTokenizer(DEEPSEEK_LLM)),
    ("deepseek-coder", PreTokenizer(DEEPSEEK_CODER)),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", PreTokenizer(DEEPSEEK3)),
    ("spark2_5", PreTokenizer(SPARK)),
    ("youtu", PreTokenizer(YOUTU, ignore_merges=True)),
    ("bloom poro-chat gpt3-finnish", PreTokenizer((BLOOM,))),
    ("viking", PreTokenizer((BLOOM, DIGIT))),
    ("gemma4", PreTokenizer((), add_bos=True, byte_level=False)),
    ("sarvam-moe", PreTokenizer((), byte_level=False)),
)

PRE_TOKENIZERS = {name: rules for names, rules in _KINDS for name in names.split()}


def select_pre_tokenizer(path: str, named: str, pre: str | None) -> PreTokenizer:
    """The pre-tokenizer `pre` if it is given, or else `named`, which the file names.

    Raises OptionError for a bad `pre`, UnsupportedModelError for a bad name in the file at `path`.
    """
    name = named if pre is None else pre
    if name in PRE_TOKENIZERS:
        return PRE_TOKENIZERS[name]
    choices = ", ".join(names.split()[0] for names, _ in _KINDS)
    if pre is not None:
        raise OptionError(f'--tokenizer-pre: there is no "{printable(pre)}"; choose one of: {choices}')
    problem = f'the pre-tokenizer "{printable(name)}" is not known here' if name else "it names no pre-tokenizer"
    raise UnsupportedModelError(f"{path}: {problem}; choose one with --tokenizer-pre: {choices}")
