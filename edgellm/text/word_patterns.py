"""The regular expressions by which published tokenizers split text into words.

Each is that of the tokenizer.json that the model named beside it was published with, for the library that reads
tokenizer.json. llama.cpp, which introduced the names of pre-tokenizers, approximates some of them: in its `tekken` and
`gpt-4o` a combining mark ends a word, so it splits Indic scripts differently from the training data.

Falcon's splits are each written as one expression, though its tokenizer.json names classes of characters: punctuation
that Unicode has added since version 8 may be split differently.
"""

_SPACES = r"\s+(?!\S)|\s+"
_REST = rf"\s*[\r\n]+|{_SPACES}"
_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
DIGIT = r"\p{N}"
THREE_DIGITS = r"\p{N}{1,3}"

# From OpenAI's GPT-2 encoder.py.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# Llama 3, Qwen2, Qwen3.5, Seed-Coder, K-EXAONE, Ling, Jais 2, MiniCPM 5, and Qwen2's without contractions.
LLAMA3 = rf"{_CONTRACTION}|{_WORD}|{THREE_DIGITS}|{_PUNCTUATION}|{_REST}"
QWEN2 = rf"{_CONTRACTION}|{_WORD}|{DIGIT}|{_PUNCTUATION}|{_REST}"
QWEN35 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_REST}"
SEED_CODER = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_REST}"
EXAONE_MOE = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|{_SPACES}"
)
LING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    rf"|{_SPACES}"
)
_LONG_SPACES = "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))
JAIS2 = rf"{_CONTRACTION}|{_WORD}|{THREE_DIGITS}|{_PUNCTUATION}|\s*[\r\n]+{_LONG_SPACES}|\s{{1,2}}(?!\S)|\s{{1}}"
MINICPM5 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_PUNCTUATION}|{_REST}"
NO_CONTRACTIONS = rf"{_WORD}|{DIGIT}|{_PUNCTUATION}|{_REST}"

# Mistral's tekken.json, gpt-oss, and Kimi K2's tokenization_kimi.py.
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_CASED_WORD = (
    rf"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTION}?|{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTION}?"  # with its contraction
)
TEKKEN = rf"{_LEAD}{_UPPER}*{_LOWER}+|{_LEAD}{_UPPER}+{_LOWER}*|\p{{N}}|{_MARKS}|{_REST}"
GPT4O = rf"{_CASED_WORD}|{THREE_DIGITS}|{_MARKS}|{_REST}"
YOUTU_WORDS = rf"{_CASED_WORD}|{DIGIT}|{_MARKS}|{_REST}"
_NOT_HAN = r"&&[^\p{Han}]]"
_KIMI_UPPER, _KIMI_LOWER = _UPPER[:-1] + _NOT_HAN, _LOWER[:-1] + _NOT_HAN
KIMI_K2 = (
    rf"[\p{{Han}}]+|{_LEAD}{_KIMI_UPPER}*{_KIMI_LOWER}+{_CONTRACTION}?|{_LEAD}{_KIMI_UPPER}+{_KIMI_LOWER}*{_CONTRACTION}?"
    rf"|{THREE_DIGITS}|{_PUNCTUATION}|{_REST}"
)

# DeepSeek LLM, Coder and V3. Escaped, since editors replace some of these letters with look-alikes.
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
DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{_CASED}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    _EAST_ASIAN,
    DIGIT,
)
DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, DIGIT)
_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_ASCII_WORD = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
_SYMBOLS = rf"{_ASCII_WORD}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
DEEPSEEK3 = (THREE_DIGITS, _CJK, rf"{_SYMBOLS}[\r\n]*|{_REST}")

# Spark 2.5, after DeepSeek V3; Youtu-LLM, whose first expression has the East Asian scripts.
SPARK = (THREE_DIGITS, _CJK, rf"{_SYMBOLS}|[\r\n]|{_SPACES}", DIGIT)
YOUTU = (
    "[\uac00-\ud7a3\u3131-\u318e]+"
    "|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
    f"|[\u3105-\u312f]+|{_CJK}",
    YOUTU_WORDS,
)

# Falcon; llama.cpp uses the default, a variant of it, for unknown models.
FALCON = (r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]")
DEFAULT = (r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")

# OLMo 2 SuperBPE: runs of digits, cut in threes from their end; all else stays whole.
SUPERBPE = (r"\p{N}+", r"(?=(\d{3})+(?!\d))")
# Tiny Aya: digits in threes from the end of a number.
TINY_AYA = (r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O)
# Bloom.
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
LINES = r"[^\n]+|[\n]+"
