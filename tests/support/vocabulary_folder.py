"""Folders with the tokenizer of a checkpoint alone, and GGUF files with what is made of it."""

import json
from pathlib import Path
from typing import Any

import gguf

from converters.checkpoint import files
from converters.tensors import Metadata
from converters.vocabulary import vocabulary
from support.make_vocab import byte_letters

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


class Folder:
    """A checkpoint without weights: `files` by name, JSON from what is no text and no bytes."""

    def __init__(self, path: Path, config: dict[str, Any] | None = None, **entries: Any) -> None:
        self.path, self.config = path, config or {}
        path.mkdir(exist_ok=True)
        for name, value in entries.items():
            self.write(name.replace("__", "."), value)

    def write(self, name: str, value: Any) -> None:
        data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
        (self.path / name).write_bytes(data)

    def json(self, name: str) -> Any | None:
        return files.read_json(self.path, name)

    def text(self, name: str) -> str | None:
        return files.read_text(self.path, name)

    def bytes(self, name: str) -> bytes | None:
        return files.read(self.path, name)

    def values(self, size: int | None = None) -> dict[str, Any]:
        """What becomes of it, by keys without `tokenizer.ggml.`."""
        made = vocabulary(self, size)
        return {key.removeprefix("tokenizer.ggml."): value.value for key, value in made.items()}

    def gguf(self, size: int | None = None) -> Path:
        """A vocabulary-only GGUF file of it."""
        return write_gguf(self.path / "vocabulary.gguf", vocabulary(self, size))


def write_gguf(path: Path, metadata: Metadata) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    for name in ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"):
        writer.add_uint32(f"llama.{name}", 8)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    kinds = {"str": writer.add_string, "bool": writer.add_bool, "u32": writer.add_uint32}
    for key, value in metadata.items():
        add: Any = writer.add_array if isinstance(value.value, list) else kinds[value.kind]
        add(key, value.value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def added(i: int, text: str, **options: bool) -> dict[str, Any]:
    """An entry of `added_tokens`, special if nothing else is said."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": i, "content": text} | plain | options


def bpe(merges: list[Any], special: list[dict[str, Any]] | None = None, **parts: Any) -> dict[str, Any]:
    """A tokenizer.json: 256 bytes, then what the merges make, then the `special` tokens (see `added`).

    `parts` are parts of it (pre_tokenizer, …); what is no part is an option of the model.
    """
    made = ["".join(merge.split(" ") if isinstance(merge, str) else merge) for merge in merges]
    tokens = {text: i for i, text in enumerate(dict.fromkeys([*byte_letters(), *made]))}
    whole = {
        "version": "1.0",
        "added_tokens": special or [],
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "post_processor": None,
        "decoder": BYTE_LEVEL,
    }
    model = {"type": "BPE", "byte_fallback": False, "ignore_merges": False, "vocab": tokens, "merges": merges}
    options = {key: parts.pop(key) for key in list(parts) if key not in whole}
    return whole | parts | {"model": model | options}


def template(*single: str, pair: list[str] | None = None) -> dict[str, Any]:
    """A post-processor; A and B are the texts, all else special tokens."""

    def item(text: str) -> dict[str, Any]:
        kind = "Sequence" if text in ("A", "B") else "SpecialToken"
        return {kind: {"id": text, "type_id": 0}}

    names = {text for text in [*single, *(pair or [])] if text not in ("A", "B")}
    special = {text: {"id": text, "ids": [0], "tokens": [text]} for text in names}
    lists = {"single": [item(text) for text in single], "pair": [item(text) for text in pair or ["A", "B"]]}
    return {"type": "TemplateProcessing", **lists, "special_tokens": special}
