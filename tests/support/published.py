"""What published tokenizers do with a text before their merges: `normalizer` and `pre_tokenizer` of a tokenizer.json.

The values are those of the files that the models' makers publish, their expressions to the letter; only the letters
of scripts are escaped. By the name that a GGUF file has for each.
"""

from typing import Any

SPELL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2_CUTS = SPELL | {"use_regex": True}  # ByteLevel's own expression is that of GPT-2's encoder.py
DIGITS = {"type": "Digits", "individual_digits": True}
NFC = {"type": "NFC"}

# Meta-Llama-3.1-8B, and with one digit in place of three Qwen2 and Qwen3.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
# Qwen3.5.
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
# `pattern` in Mistral's tekken.json.
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# gpt-oss-20b.
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Seed-Coder-8B and Seed-OSS-36B, K-EXAONE, Ling-lite, Jais-2-8B, MiniCPM5-1B (after runs of three digits).
SEED_CODER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
EXAONE_MOE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
LING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
JAIS2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)"
    r"|\s{1,2}(?!\S)|\s{1}"
)
MINICPM5 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")
# deepseek-coder-6.7b-base.
DEEPSEEK_CODER = ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+")
# DeepSeek-V3.
DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"""
    + "\r\n"
    + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["
    + "\r\n]*"
    + r"|\s*["
    + "\r\n]+"
    + r"|\s+(?!\S)|\s+",
)


def split(regex: str) -> dict[str, Any]:
    """The step that cuts out what `regex` matches."""
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def cuts(*expressions: str) -> dict[str, Any]:
    """The pre-tokenizer that cuts with each of these in turn, then spells bytes."""
    return sequence(*map(split, expressions), SPELL)


PUBLISHED: dict[str, dict[str, Any]] = {
    "gpt-2": {"pre_tokenizer": GPT2_CUTS},
    "olmo": {"pre_tokenizer": GPT2_CUTS, "normalizer": NFC},  # GPT-NeoX's
    "smollm": {"pre_tokenizer": sequence(DIGITS, GPT2_CUTS)},
    "command-r": {"pre_tokenizer": sequence(DIGITS, GPT2_CUTS), "normalizer": NFC},
    "llama-bpe": {"pre_tokenizer": cuts(LLAMA3), "ignore_merges": True},
    "smaug-bpe": {"pre_tokenizer": cuts(LLAMA3)},
    "qwen2": {"pre_tokenizer": cuts(QWEN2), "normalizer": NFC},
    "megrez": {"pre_tokenizer": cuts(QWEN2)},
    "qwen35": {"pre_tokenizer": cuts(QWEN35), "normalizer": NFC},
    "seed-coder": {"pre_tokenizer": cuts(SEED_CODER)},
    "exaone-moe": {"pre_tokenizer": cuts(EXAONE_MOE)},
    "bailingmoe": {"pre_tokenizer": cuts(LING)},
    "jais-2": {"pre_tokenizer": cuts(JAIS2)},
    "minicpm5": {"pre_tokenizer": cuts(r"\p{N}{1,3}", MINICPM5), "ignore_merges": True},
    "superbpe": {"pre_tokenizer": cuts(r"\p{N}+", r"(?=(\d{3})+(?!\d))")},
    "tiny_aya": {"pre_tokenizer": cuts(r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O)},
    "tekken": {"pre_tokenizer": cuts(TEKKEN), "ignore_merges": True},
    "gpt-4o": {"pre_tokenizer": cuts(GPT4O)},
    "falcon": {
        "pre_tokenizer": sequence(
            {"type": "Punctuation", "behavior": "Contiguous"},
            GPT2_CUTS,
            DIGITS | {"individual_digits": False},
            split("[0-9][0-9][0-9]"),
        )
    },
    "deepseek-coder": {
        "pre_tokenizer": sequence(*map(split, DEEPSEEK_CODER), DIGITS, SPELL),
        "normalizer": {"type": "Sequence", "normalizers": []},
    },
    "deepseek-v3": {"pre_tokenizer": cuts(*DEEPSEEK3), "normalizer": {"type": "Sequence", "normalizers": []}},
}
