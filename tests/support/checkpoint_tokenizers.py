"""The tokenizers of the random checkpoints: tiny, but each cuts text as its family's published one does."""

import json
import struct
from pathlib import Path
from typing import Any

from support.make_vocab import MERGES, PIECES, byte_letters

# From the tokenizer.json of Llama 3 and of Qwen2.
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

_BPE = {
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
}
_SPECIAL = {
    "llama": ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"),
    "smollm2": ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    "qwen2": ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    "qwen3": ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    "mistral": ("<unk>", "<s>", "</s>"),
}
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tokenizer(folder: Path, family: str) -> None:
    """tokenizer.json and tokenizer_config.json; mistral gets a tokenizer.model, too. About 280 tokens."""
    tokens, scores = _spm_tokens()
    made = _spm_like(tokens) if family == "mistral" else _byte_level(family)
    if family == "mistral":
        (folder / "tokenizer.model").write_bytes(_sentencepiece(tokens, scores))
    bos, eos = special_ids(family)
    config = {
        "tokenizer_class": "LlamaTokenizer" if family == "mistral" else "PreTrainedTokenizerFast",
        "bos_token": _SPECIAL[family][bos],
        "eos_token": _SPECIAL[family][eos],
        "add_bos_token": family in ("llama", "mistral"),
        "add_eos_token": False,
        "chat_template": _TEMPLATE,
    }
    write_json(folder / "tokenizer.json", made)
    write_json(folder / "tokenizer_config.json", config)


def special_ids(family: str) -> tuple[int, int]:
    """The ids of the tokens that begin and end a text."""
    return (1, 2) if family == "mistral" else (0, 2)


def write_json(path: Path, value: Any) -> None:
    """`value` as people read it."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")


def _byte_level(family: str) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    if family == "smollm2":
        cut = [{"type": "Digits", "individual_digits": True}, byte_level | {"use_regex": True}]
    else:
        words = {"Regex": _LLAMA3 if family == "llama" else _QWEN2}
        cut = [{"type": "Split", "pattern": words, "behavior": "Isolated", "invert": False}, byte_level]
    tokens = [*_SPECIAL[family], *byte_letters(), *dict.fromkeys(merge.replace(" ", "") for merge in MERGES)]
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": MERGES}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(family),
        "normalizer": {"type": "NFC"} if family.startswith("qwen") else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cut},
        "post_processor": _begins_with(family) if family == "llama" else None,
        "decoder": byte_level,
        "model": _BPE | model | {"ignore_merges": family == "llama"},
    }


def _spm_like(tokens: list[str]) -> dict[str, Any]:
    """As transformers converts a SentencePiece model of BPE type."""
    merges = [f"{a} {b}" for token in tokens[259:] for a, b in _halves(token, set(tokens))]
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}
    prefix = {"type": "Prepend", "prepend": "▁"}
    fuse, strip = {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added("mistral"),
        "normalizer": {"type": "Sequence", "normalizers": [prefix, _replace(" ", "▁")]},
        "pre_tokenizer": None,
        "post_processor": _begins_with("mistral"),
        "decoder": {"type": "Sequence", "decoders": [_replace("▁", " "), {"type": "ByteFallback"}, fuse, strip]},
        "model": _BPE | model | {"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True},
    }


def _replace(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def _halves(token: str, tokens: set[str]) -> list[tuple[str, str]]:
    """Every way to put a token together from two others."""
    cuts = ((token[:i], token[i:]) for i in range(1, len(token)))
    return [(a, b) for a, b in cuts if a in tokens and b in tokens]


def _added(family: str) -> list[dict[str, Any]]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": i, "content": token} | plain for i, token in enumerate(_SPECIAL[family])]


def _begins_with(family: str) -> dict[str, Any]:
    """A post-processor that puts the family's first token before a text."""
    number = special_ids(family)[0]
    token = _SPECIAL[family][number]
    first = {"SpecialToken": {"id": token, "type_id": 0}}
    a, b = ({"Sequence": {"id": which, "type_id": i}} for i, which in enumerate("AB"))
    return {
        "type": "TemplateProcessing",
        "single": [first, a],
        "pair": [first, a, first, b],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


def _spm_tokens() -> tuple[list[str], list[float]]:
    letters = ["▁", *"etaoinshrdlcumwfgypbvkjxqz.,'"]
    words = [f"▁{piece}" for piece in ("t", "th", "the", "a", "an", "and", "i", "in")]
    made = list(dict.fromkeys([*words, *PIECES]))
    tokens = [*_SPECIAL["mistral"], *(f"<0x{byte:02X}>" for byte in range(256)), *made, *letters]
    return tokens, [0.0] * 259 + [-float(i) for i in range(len(tokens) - 259)]


def _sentencepiece(tokens: list[str], scores: list[float]) -> bytes:
    """A tokenizer.model: sentencepiece_model.proto's ModelProto with its pieces and the kind of model, BPE."""
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3} | {f"<0x{byte:02X}>": 6 for byte in range(256)}
    pieces = (_piece(token, score, kinds.get(token, 1)) for token, score in zip(tokens, scores, strict=True))
    # trainer_spec: model_type 2 (BPE), byte_fallback; normalizer_spec: the name, a space in front.
    trainer = _field(3, 2) + _field(35, 1)
    normalizer = _field(1, b"identity") + _field(3, 1) + _field(4, 0)
    return b"".join(_field(1, piece) for piece in pieces) + _field(2, trainer) + _field(3, normalizer)


def _piece(token: str, score: float, kind: int) -> bytes:
    return _field(1, token.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", score) + _field(3, kind)


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])
