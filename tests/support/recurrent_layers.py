"""Gated DeltaNet layers of small qwen35 files: random weights whose state decays over some ten tokens."""

from collections.abc import Callable

import gguf
import numpy as np

INTERVAL = 2
"""The last of each group of this many layers has attention."""

TAPS, KEY_HEADS, HEADS, KEY_DIM, VALUE_DIM = 4, 1, 2, 16, 16


def add_keys(writer: gguf.GGUFWriter) -> None:
    """Add the sizes of the layers."""
    writer.add_uint32("qwen35.full_attention_interval", INTERVAL)
    writer.add_array("qwen35.rope.dimension_sections", [2, 1, 1, 0])
    writer.add_uint32("qwen35.ssm.conv_kernel", TAPS)
    writer.add_uint32("qwen35.ssm.state_size", KEY_DIM)
    writer.add_uint32("qwen35.ssm.group_count", KEY_HEADS)
    writer.add_uint32("qwen35.ssm.time_step_rank", HEADS)
    writer.add_uint32("qwen35.ssm.inner_size", HEADS * VALUE_DIM)


def add_tensors(
    writer: gguf.GGUFWriter, rng: np.random.Generator, layer: str, width: int, matrix: Callable[..., None]
) -> None:
    """Add the tensors of one layer; `matrix(name, rows, columns)` adds a matrix."""
    qkv, inner = (2 * KEY_HEADS * KEY_DIM + HEADS * VALUE_DIM), HEADS * VALUE_DIM
    matrix(layer + "attn_qkv", qkv, width, 1.5)
    matrix(layer + "attn_gate", inner, width)
    matrix(layer + "ssm_alpha", HEADS, width)
    matrix(layer + "ssm_beta", HEADS, width)
    matrix(layer + "ssm_out", width, inner, 1.5)
    vectors = {
        "ssm_a": -rng.uniform(0.05, 0.5, HEADS),
        "ssm_dt.bias": rng.uniform(-2, 0, HEADS),
        "ssm_conv1d.weight": rng.standard_normal((qkv, TAPS)) / 2,
        "ssm_norm.weight": 1 + rng.standard_normal(VALUE_DIM) / 5,
    }
    for name, values in vectors.items():
        writer.add_tensor(layer + name, values.astype(np.float32))
