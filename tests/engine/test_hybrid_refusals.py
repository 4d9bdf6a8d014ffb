"""Files of models with recurrent layers whose keys or tensors contradict each other: one line says what is wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.gguf import GGUFFile
from support.changed_keys import refusal, with_key
from support.gguf_parts import GGUFParts
from support.model_file import FamilyFile

KEYS: list[tuple[str, str, Any, str]] = [
    ("qwen3_5", "ssm.inner_size", 0, "key qwen35.ssm.inner_size is 0, outside 1 … 1048576"),
    (
        "qwen3_5",
        "ssm.inner_size",
        96,
        "tensor blk.0.attn_qkv.weight has shape [256, 64], but the metadata asks for [160",
    ),
    ("qwen3_5", "ssm.inner_size", 200, "key qwen35.ssm.inner_size is 200, not 6 heads of a multiple of 16 values"),
    ("qwen3_5", "ssm.inner_size", 1 << 31, "key qwen35.ssm.inner_size is 2147483648, outside"),
    ("qwen3_5", "ssm.inner_size", None, "has no key qwen35.ssm.inner_size"),
    ("qwen3_5", "ssm.group_count", 0, "key qwen35.ssm.group_count is 0, outside 1 … 4096"),
    ("qwen3_5", "ssm.group_count", 4, "6 heads of values cannot share 4 heads of keys"),
    (
        "qwen3_5",
        "ssm.group_count",
        3,
        "tensor blk.0.attn_qkv.weight has shape [256, 64], but the metadata asks for [288",
    ),
    ("qwen3_5", "ssm.time_step_rank", 0, "key qwen35.ssm.time_step_rank is 0, outside 1 … 4096"),
    ("qwen3_5", "ssm.time_step_rank", 12, "tensor blk.0.ssm_alpha.weight has shape [6, 64]"),
    ("qwen3_5", "ssm.state_size", 0, "key qwen35.ssm.state_size is 0, outside 1 … 1024"),
    ("qwen3_5", "ssm.state_size", 2048, "key qwen35.ssm.state_size is 2048, outside 1 … 1024"),
    ("qwen3_5", "ssm.conv_kernel", 0, "key qwen35.ssm.conv_kernel is 0, outside 2 … 4"),
    ("qwen3_5", "ssm.conv_kernel", 1, "key qwen35.ssm.conv_kernel is 1, outside 2 … 4"),
    ("qwen3_5", "ssm.conv_kernel", 5, "key qwen35.ssm.conv_kernel is 5, outside 2 … 4"),
    ("qwen3_5", "ssm.conv_kernel", 17, "key qwen35.ssm.conv_kernel is 17, outside 2 … 4"),
    (
        "qwen3_5",
        "ssm.conv_kernel",
        3,
        "tensor blk.0.ssm_conv1d.weight has shape [256, 4], but the metadata asks for [256, 3]",
    ),
    ("qwen3_5", "attention.recurrent_layers", [True, False], "recurrent_layers must be"),
    ("qwen3_5", "attention.recurrent_layers", [True] * 6, "has no tensor blk.1.attn_qkv.weight"),
    ("qwen3_5", "attention.recurrent_layers", [False] * 6, "has no tensor blk.0.attn_output.weight"),
    ("qwen3_5", "attention.recurrent_layers", None, "has no tensor blk.1.attn_qkv.weight"),
    ("qwen3_5", "attention.head_count_kv", 0, "layer 1 has 4 heads of attention and 0 KV heads"),
    ("qwen3_5", "attention.head_count", 0, "layer 1 has 0 heads of attention and 2 KV heads"),
    (
        "qwen3_5",
        "feed_forward_length",
        None,
        "key qwen35.feed_forward_length gives layer 0 no feed-forward",
    ),
    ("qwen3_5", "nextn_predict_layers", 0, "tensors blk.5.nextn.eh_proj.weight and 3 more have no place"),
    ("qwen3_5", "nextn_predict_layers", 2, "nextn_predict_layers is 2, but layer 4 has no nextn.eh_proj"),
    ("qwen3_5_moe", "full_attention_interval", 0, None),
    ("mamba1", "ssm.inner_size", 0, "key mamba.ssm.inner_size is 0, outside 1 … 1048576"),
    ("mamba1", "ssm.inner_size", 72, "key mamba.ssm.inner_size is 72, not a multiple of 16"),
    ("mamba1", "ssm.inner_size", 160, "tensor blk.0.ssm_in.weight has shape [288, 72], but the metadata asks for [320"),
    ("mamba1", "ssm.state_size", 24, "key mamba.ssm.state_size is 24, not a multiple of 16"),
    ("mamba1", "ssm.state_size", 32, "tensor blk.0.ssm_x.weight has shape [37, 144], but the metadata asks for [69"),
    ("mamba1", "ssm.time_step_rank", 0, "key mamba.ssm.time_step_rank is 0, outside 1 … 4096"),
    ("mamba1", "ssm.time_step_rank", 6, "tensor blk.0.ssm_x.weight has shape [37, 144], but the metadata asks for [38"),
    ("mamba1", "ssm.conv_kernel", 5, "key mamba.ssm.conv_kernel is 5, outside 2 … 4"),
    ("mamba1", "ssm.dt_b_c_rms", 1, "key mamba.ssm.dt_b_c_rms"),
    ("falcon_mamba", "ssm.dt_b_c_rms_epsilon", 1, "key mamba.ssm.dt_b_c_rms_epsilon is 1, outside 0 … 0.99"),
    ("mamba2", "ssm.inner_size", 0, "key mamba2.ssm.inner_size is 0, outside 1 … 1048576"),
    ("mamba2", "ssm.inner_size", 64, "key mamba2.ssm.inner_size is 64, not 8 heads of a multiple of 16 values"),
    ("mamba2", "ssm.inner_size", 256, "tensor blk.0.ssm_in.weight has shape [328, 64], but the metadata asks for [584"),
    (
        "mamba2",
        "ssm.time_step_rank",
        4,
        "tensor blk.0.ssm_in.weight has shape [328, 64], but the metadata asks for [324",
    ),
    ("mamba2", "ssm.group_count", 0, "key mamba2.ssm.group_count is 0, outside 1 … 4096"),
    ("mamba2", "ssm.group_count", 3, "8 heads cannot share 3 groups of B and C"),
    ("mamba2", "ssm.group_count", 2, "tensor blk.0.ssm_in.weight has shape [328, 64], but the metadata asks for [392"),
    ("mamba2", "ssm.state_size", 16, "tensor blk.0.ssm_in.weight has shape [328, 64], but the metadata asks for [296"),
    ("mamba2", "ssm.conv_kernel", 3, "tensor blk.0.ssm_conv1d.weight has shape [192, 4], but the metadata asks for"),
    ("mamba2", "attention.head_count", 4, None),
    ("mamba2", "feed_forward_length", 96, None),
    ("granite4_h_tiny", "attention.head_count_kv", 2, "has no tensor blk.0.attn_q.weight"),
    ("granite4_h_tiny", "attention.head_count_kv", 0, "has no tensor blk.2.ssm_in.weight"),
    ("granite4_h_tiny", "attention.head_count", 0, "has no tensor blk.2.ssm_in.weight"),
    ("granite4_h_tiny", "expert_used_count", 0, "key granitehybrid.expert_used_count is 0 of 8 experts"),
    ("granite4_h_tiny", "expert_count", 0, "has no tensor blk.0.ffn_gate.weight"),
    ("granite4_h_micro", "feed_forward_length", 96, "tensor blk.0.ffn_gate.weight has shape [80, 64], but"),
    ("granite4_h_micro", "feed_forward_length", 0, "feed_forward_length gives layer 0 no feed-forward"),
    ("falcon_h1", "attention.head_count", 0, "layer 0 has 0 heads of attention and 2 KV heads"),
    ("falcon_h1", "attention.head_count_kv", 0, "layer 0 has 4 heads of attention and 0 KV heads"),
    ("falcon_h1", "ssm.inner_size", 128, "key falcon-h1.ssm.inner_size is 128, not 6 heads of a multiple of 16"),
    ("falcon_h1", "feed_forward_length", 0, "feed_forward_length gives layer 0 no feed-forward"),
    ("kimi_linear", "kda.head_dim", 0, "key kimi-linear.kda.head_dim is 0, outside 1 … 1024"),
    ("kimi_linear", "kda.head_dim", 40, "key kimi-linear.kda.head_dim is 40, not a multiple of 16"),
    (
        "kimi_linear",
        "kda.head_dim",
        64,
        "tensor blk.0.ssm_conv1d_q.weight has shape [1, 128, 1, 4], but the metadata",
    ),
    ("kimi_linear", "kda.head_dim", None, "has no key kimi-linear.kda.head_dim"),
    ("kimi_linear", "ssm.conv_kernel", 5, "key kimi-linear.ssm.conv_kernel is 5, outside 2 … 4"),
    ("kimi_linear", "ssm.conv_kernel", 3, "tensor blk.0.ssm_conv1d_q.weight has shape [1, 128, 1, 4]"),
    ("kimi_linear", "attention.head_count", 0, "key kimi-linear.attention.head_count is 0 in layer 0"),
    ("kimi_linear", "attention.head_count", 2, "tensor blk.0.ssm_conv1d_q.weight has shape [1, 128, 1, 4]"),
    ("kimi_linear", "attention.head_count_kv", 1, "has no tensor blk.0.attn_kv_a_mqa.weight"),
    ("kimi_linear", "attention.head_count_kv", 0, "has no tensor blk.3.ssm_conv1d_q.weight"),
    ("kimi_linear", "attention.head_count_kv", 4, "attention.head_count_kv is 4, not 1 as latent attention has"),
    ("kimi_linear", "rope.dimension_count", 32, "RoPE rotates 32 of the 32 values of a head"),
    ("kimi_linear", "attention.value_length", 7, None),
    ("qwen3_next", "ssm.group_count", 4, "tensor blk.0.attn_qkv.weight has shape [128, 64]"),
]
"""A case, one of its keys, another value of it, and what the message says; None: the file opens."""


@pytest.mark.parametrize(("name", "key", "value", "expected"), KEYS, ids=[f"{c[0]}-{c[1]}-{c[2]}" for c in KEYS])
def test_keys_that_contradict(
    family_file: FamilyFile, tmp_path: Path, name: str, key: str, value: Any, expected: str | None
) -> None:
    source = family_file(name)
    with GGUFFile.open(source) as file:
        architecture = file.architecture
    path = with_key(source, tmp_path / "m.gguf", f"{architecture}.{key}", value)
    if expected is None:
        with GGUFFile.open(path) as file:
            assert describe(file).is_recurrent
    else:
        assert expected in refusal(path)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        *(("qwen3_5", stem) for stem in ("attn_qkv.weight", "attn_gate.weight", "ssm_conv1d.weight", "ssm_out.weight")),
        *(("qwen3_5", stem) for stem in ("ssm_alpha.weight", "ssm_beta.weight", "ssm_a", "ssm_dt.bias")),
        *(("qwen3_5", stem) for stem in ("ssm_norm.weight", "post_attention_norm.weight")),
        ("qwen3_next", "ssm_ba.weight"),
        *(("mamba1", f"ssm_{stem}.weight") for stem in ("in", "x", "dt", "out")),
        *(("mamba1", f"ssm_{stem}") for stem in ("a", "d", "dt.bias")),
        *(("mamba2", f"ssm_{stem}") for stem in ("in.weight", "a", "d", "dt.bias", "out.weight")),
        ("mamba2", "ssm_conv1d.weight"),
        ("falcon_h1", "ffn_norm"),
        *(("kimi_linear", f"attn_{each}.weight") for each in ("q", "k", "v", "output")),
        *(("kimi_linear", f"ssm_{each}.weight") for each in ("f_a", "f_b", "g_a", "g_b", "beta", "conv1d_k", "norm")),
        *(("kimi_linear", each) for each in ("ssm_a", "ssm_dt.bias")),
    ],
)
def test_tensors_of_recurrent_layers_have_their_shape_and_type(
    family_file: FamilyFile, tmp_path: Path, name: str, tensor: str
) -> None:
    parts, path, full = GGUFParts.read(family_file(name)), tmp_path / "m.gguf", f"blk.0.{tensor}"
    own = parts.tensors[full]
    longest = max(own.dims)
    half = replace(
        own, dims=tuple(n // 2 if n == longest else n for n in own.dims), data=own.data[: len(own.data) // 2]
    )
    for other, expected in ((None, f"has no tensor {full}"), (half, f"tensor {full} has shape")):
        others = {key: value for key, value in parts.tensors.items() if key != full} | ({full: other} if other else {})
        path.write_bytes(replace(parts, tensors=others).build())
        assert expected in refusal(path)
    if len(own.dims) == 1 or tensor == "ssm_conv1d.weight":
        doubles = replace(own, kind=28, data=np.full(len(own.data) // 4, 1.1).tobytes())
        path.write_bytes(replace(parts, tensors=parts.tensors | {full: doubles}).build())
        assert f"tensor {full} has F64 values that float32 does not hold" in refusal(path)


@pytest.mark.parametrize("name", ["mamba2", "granite4_h_tiny"])
def test_only_falcon_h1_may_lack_the_norm_of_mamba(family_file: FamilyFile, tmp_path: Path, name: str) -> None:
    parts, path = GGUFParts.read(family_file(name)), tmp_path / "m.gguf"
    others = {key: value for key, value in parts.tensors.items() if not key.endswith("ssm_norm.weight")}
    path.write_bytes(replace(parts, tensors=others).build())
    assert "has no tensor blk.0.ssm_norm.weight" in refusal(path)


def test_attention_in_a_recurrent_layer_has_no_place(family_file: FamilyFile, tmp_path: Path) -> None:
    parts, path = GGUFParts.read(family_file("qwen3_5")), tmp_path / "m.gguf"
    added = replace(parts.tensors["blk.1.attn_q.weight"], name="blk.0.attn_q.weight")
    path.write_bytes(replace(parts, tensors=parts.tensors | {"blk.0.attn_q.weight": added}).build())
    assert "tensor blk.0.attn_q.weight has no place in architecture qwen35" in refusal(path)
