"""A tiny model for the real engine that writes random words, each after a space, without end."""

import re
from pathlib import Path
from typing import Any

import gguf

from support.make_gguf import write_model

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
_SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "vocab": 1024}


def write_chat_model(path: Path, context_length: int = 8192, seed: int = 0) -> Path:
    """Write the file. A reply ends by `max_tokens`, by the context, or when it is stopped.

    Only tokens of the form " w123" can be drawn: the output has a row of zeros for every other one.
    """
    write_model(
        path, types="F32", tied=False, chat_template=TEMPLATE, context_length=context_length, seed=seed, **_SIZES
    )
    reader = gguf.GGUFReader(path, "r+")
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    output = next(tensor for tensor in reader.tensors if tensor.name == "output.weight")
    output.data[[re.fullmatch(r"▁w\d+", token) is None for token in tokens]] = 0
    return path
