"""Vocabulary-only GGUF files of a few tokens, written with the gguf package."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf

from support.make_vocab import byte_letters

SPM_TYPES = {"<unk>": 2, "<s>": 3, "</s>": 3}


def write(path: Path, model: str, tokens: Sequence[str | bytes], **keys: Any) -> Path:
    """A file with these tokens; `keys` are tokenizer.ggml.* by name, but for `name`, `architecture` and
    `chat_template` of the model; the latter may be a list of named ones."""
    architecture = keys.pop("architecture", "llama")
    writer = gguf.GGUFWriter(path, architecture)
    for name in ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"):
        writer.add_uint32(f"{architecture}.{name}", 8)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_name(keys.pop("name", "made for a test"))
    if templates := keys.pop("chat_template", None):
        writer.add_chat_template(templates)
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    for name, value in keys.items():
        add(writer, f"tokenizer.ggml.{name}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    kinds = {bool: "add_bool", int: "add_uint32", str: "add_string", list: "add_array", tuple: "add_array"}
    getattr(writer, kinds[type(value)])(key, value)


def write_spm(path: Path, words: Mapping[str, float], special: Mapping[str, int], **keys: Any) -> Path:
    """<unk> <s> </s>, 256 bytes, then the scored `words`, then `special` texts with their types."""
    tokens = [*SPM_TYPES, *(f"<0x{byte:02X}>" for byte in range(256)), *words, *special]
    types = [*SPM_TYPES.values()] + [6] * 256 + [1] * len(words) + list(special.values())
    scores = [0.0] * 259 + list(words.values()) + [0.0] * len(special)
    return write(path, "llama", tokens, **({"token_type": types, "scores": scores} | keys))


def write_bpe(path: Path, merges: Sequence[str], special: Mapping[str, int], **keys: Any) -> Path:
    """256 bytes, then what the merges make, then `special` texts with their types."""
    made = dict.fromkeys(merge.replace(" ", "") for merge in merges)
    tokens = [*byte_letters(), *made, *special]
    types = [1] * (256 + len(made)) + list(special.values())
    standard = {"token_type": types, "merges": list(merges), "pre": "gpt-2"}
    return write(path, "gpt2", tokens, **(standard | keys))
