"""Pre-tokenizers by name: how text is split into words before byte-level BPE merges inside of them.

The names are values of `tokenizer.ggml.pre`. A new name is one entry in the table below. Opening and converting models
share the table; a converted file gets the first name of its kind.

The regular expressions are those of the tokenizer.json that each model was published with, for the library that reads
tokenizer.json. llama.cpp, which introduced the names, approximates some of them: in its `tekken` and `gpt-4o` a
combining mark ends a word, so it splits Indic scripts differently from the training data.

Falcon's splits are each written as one expression, though its tokenizer.json names classes of characters: punctuation
that Unicode has added since version 8 may be split differently.
"""

from typing import NamedTuple

from edgellm.errors import OptionError, UnsupportedModelError
from edgellm.fmt import printable


class PreTokenizer(NamedTuple):
    """The patterns of a pre-tokenizer, each applied in turn to split off its matches, and related settings.

    `ignore_merges`: a word that is a token becomes that token, whatever the merges say.
    `add_bos`: the default for files without `tokenizer.ggml.add_bos_token`.
    `nfc`: text is normalized to Unicode NFC before it is split.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    nfc: bool = False


_REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

# From OpenAI's GPT-2 encoder.py.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# From the tokenizer.json of Llama 3, Qwen2 and Qwen3.5.
_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}"
_QWEN2 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_REST}"
)

# From Mistral's tekken.json and the tokenizer.json of gpt-oss.
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_TEKKEN = rf"{_LEAD}{_UPPER}*{_LOWER}+|{_LEAD}{_UPPER}+{_LOWER}*|\p{{N}}|{_MARKS}|{_REST}"
_GPT4O = (
    rf"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTION}?|{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTION}?"
    rf"|\p{{N}}{{1,3}}|{_MARKS}|{_REST}"
)

# From the tokenizer.json of DeepSeek LLM, Coder and V3. Escaped, since editors replace some of these letters with
# look-alikes.
_CASED = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{_CASED}]+",
    r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    _EAST_ASIAN,
    r"\p{N}",
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}")
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_REST}",
)

# From the tokenizer.json of Falcon; llama.cpp uses the default, a variant of it, for unknown models.
_FALCON = (r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]")
_DEFAULT = (r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")

_KINDS: tuple[tuple[str, PreTokenizer], ...] = (
    ("default", PreTokenizer(_DEFAULT)),
    (
        "gpt-2 jais phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum exaone4 trillion "
        "granite-docling",
        PreTokenizer((GPT2,)),
    ),
    ("olmo mpt modern-bert", PreTokenizer((GPT2,), nfc=True)),
    ("smollm starcoder refact codeshell exaone minerva-7b", PreTokenizer((r"\p{N}", GPT2))),
    ("command-r", PreTokenizer((r"\p{N}", GPT2), nfc=True)),
    ("falcon", PreTokenizer(_FALCON)),
    (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True),
    ),
    ("smaug-bpe dbrx glm4 chatglm-bpe", PreTokenizer((_LLAMA3,))),
    ("qwen2 deepseek-r1-qwen", PreTokenizer((_QWEN2,), nfc=True)),
    ("megrez stablelm2 hunyuan kormo grok-2 solar-open", PreTokenizer((_QWEN2,))),
    ("qwen35", PreTokenizer((_QWEN35,), nfc=True)),
    ("tekken", PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True)),
    ("gpt-4o llama4 kanana2 minimax-m2", PreTokenizer((_GPT4O,))),
    ("deepseek-llm", PreTokenizer(_DEEPSEEK_LLM)),
    ("deepseek-coder", PreTokenizer(_DEEPSEEK_CODER)),
    ("deepseek-v3 hunyuan-dense joyai-llm", PreTokenizer(_DEEPSEEK3)),
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
