"""Files of LFM2 and Nemotron-H that contradict themselves: one line says so, and no layer lacks its block."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgellm.arch import describe
from edgellm.arch.mixture import MixtureOfExperts, Scoring
from edgellm.gguf import GGUFFile
from support.changed_keys import Value, refusal, with_key
from support.families import CASES
from support.gguf_parts import GGUFParts
from support.model_file import FamilyFile

_BOTH = "with both attention and a feed-forward, and a layer of nemotron_h is one of them"
KEYS: list[tuple[str, str, Value, tuple[str, ...], str]] = [
    ("lfm2", "shortconv.l_cache", 0, (), "key lfm2.shortconv.l_cache is 0, outside"),
    ("lfm2", "shortconv.l_cache", 1, (), "key lfm2.shortconv.l_cache is 1, outside 2"),
    ("lfm2", "shortconv.l_cache", 17, (), "key lfm2.shortconv.l_cache is 17, outside"),
    ("lfm2", "shortconv.l_cache", None, (), "has no key lfm2.shortconv.l_cache"),
    ("lfm2", "shortconv.l_cache", 3, (), "shortconv.conv.weight has shape [64, 4], but the metadata asks for [64, 3]"),
    ("lfm2", "attention.head_count_kv", [0, 2, 0, 0], (), "head_count_kv must be an array of 5 integers"),
    ("lfm2", "attention.head_count_kv", [0, 0, 0, 0, 2], (), "has no tensor blk.1.shortconv.in_proj.weight"),
    ("lfm2", "attention.head_count_kv", [0, 3, 0, 0, 2], (), "4 attention heads cannot share 3 KV heads"),
    ("lfm2", "attention.head_count_kv", [0, -1, 0, 0, 2], (), "head_count_kv is -1, outside 0"),
    ("lfm2", "attention.head_count_kv", 2, (), "has no tensor blk.0.attn_q.weight"),
    ("lfm2", "feed_forward_length", 0, ("ffn_",), "key lfm2.feed_forward_length gives layer 0 no feed-forward"),
    ("lfm2_moe", "leading_dense_block_count", 1, (), "has no tensor blk.1.ffn_gate_exps.weight"),
    ("lfm2_moe", "expert_count", 0, (), "has no experts at key lfm2moe.expert_count"),
    ("lfm2_moe", "expert_used_count", 9, (), "expert_used_count is 9 of 8 experts"),
    ("nemotron_h", "feed_forward_length", [0, 96, 0], (), "feed_forward_length must be an array of 6 integers"),
    ("nemotron_h", "feed_forward_length", [0, 0, 0, 96, 0, 0], (), "has no tensor blk.1.ssm_in.weight"),
    ("nemotron_h", "feed_forward_length", [0, 96, 96, 96, 0, 0], (), f"has layer 2 {_BOTH}"),
    ("nemotron_h", "attention.head_count_kv", [0, 2, 2, 0, 0, 0], (), f"has layer 1 {_BOTH}"),
    ("nemotron_h", "attention.head_count_kv", 0, (), "has no tensor blk.2.ssm_in.weight"),
    ("nemotron_h", "ssm.inner_size", 32, (), "ssm.inner_size is 32, not 12 heads of a multiple of 16 values"),
    ("nemotron_h", "ssm.group_count", 5, (), "12 heads cannot share 5 groups of B and C"),
    ("nemotron_h", "ssm.state_size", 32, (), "ssm_in.weight has shape [540, 64], but the metadata asks for [588"),
    ("nemotron_h", "expert_count", 8, (), "nemotron_h with a mixture of experts is not supported"),
    ("nemotron3_super", "moe_latent_size", None, (), "ffn_up_exps.weight has shape [8, 32, 32], but the metadata asks"),
    ("nemotron3_super", "moe_latent_size", 1 << 31, (), "moe_latent_size is 2147483648, outside"),
    ("nemotron3_super", "leading_dense_block_count", 2, ("blk.1.",), "has nothing in layer 1, neither a mixer nor"),
    ("nemotron3_super", "expert_used_count", [0, 3, 0, 0, 3], (), "that use different numbers of experts, as those of"),
]
"""A case, one of its keys, another value of it, texts in the names of tensors that are left out, the message."""


@pytest.mark.parametrize(
    ("name", "key", "value", "without", "expected"), KEYS, ids=[f"{c[0]}-{c[1]}-{c[2]}" for c in KEYS]
)
def test_keys_that_contradict(
    family_file: FamilyFile, tmp_path: Path, name: str, key: str, value: Value, without: tuple[str, ...], expected: str
) -> None:
    key = f"{CASES[name].architecture}.{key}"
    assert expected in refusal(with_key(family_file(name), tmp_path / "m.gguf", key, value, without))


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        *(("lfm2", f"blk.0.shortconv.{stem}.weight") for stem in ("in_proj", "conv", "out_proj")),
        *(("nemotron_h", f"blk.0.{stem}") for stem in ("ssm_in.weight", "ssm_conv1d.weight", "ssm_a", "ssm_d")),
        *(("nemotron_h", f"blk.0.{stem}") for stem in ("ssm_dt.bias", "ssm_norm.weight", "ssm_out.weight")),
        *(("nemotron_h", name) for name in ("blk.1.ffn_up.weight", "blk.1.attn_norm.weight", "blk.2.attn_v.weight")),
        *(("nemotron3_super", f"blk.1.ffn_{stem}.weight") for stem in ("latent_down", "latent_up", "down_exps")),
    ],
)
def test_tensors_are_there_and_have_their_shapes(
    family_file: FamilyFile, tmp_path: Path, name: str, tensor: str
) -> None:
    parts, path = GGUFParts.read(family_file(name)), tmp_path / "m.gguf"
    own = parts.tensors.pop(tensor)
    path.write_bytes(parts.build())
    assert f"has no tensor {tensor}" in refusal(path)
    half = replace(own, dims=(*own.dims[:-1], own.dims[-1] // 2), data=own.data[: len(own.data) // 2])
    path.write_bytes(replace(parts, tensors=parts.tensors | {tensor: half}).build())
    assert f"tensor {tensor} has shape" in refusal(path)


def test_a_block_that_predicts_further_tokens_is_not_computed(family_file: FamilyFile, tmp_path: Path) -> None:
    """llama.cpp's converter writes one behind the others, which has attention and experts; arrays count it, too."""
    parts, path = GGUFParts.read(family_file("nemotron3_super")), tmp_path / "m.gguf"
    names = {f"blk.5.{stem}.weight": f"blk.3.{stem}.weight" for stem in ("attn_norm", "attn_q", "attn_k", "attn_v")}
    names["blk.5.nextn.eh_proj.weight"] = "blk.3.attn_q.weight"
    added = {new: replace(parts.tensors[old], name=new) for new, old in names.items()}
    path.write_bytes(replace(parts, tensors=parts.tensors | added).build())
    changes: dict[str, Value] = {
        "block_count": 6,
        "nextn_predict_layers": 1,
        "feed_forward_length": [0, 32, 0, 0, 32, 32],
        "attention.head_count_kv": [0, 0, 0, 2, 0, 2],
    }
    for key, value in changes.items():
        with_key(path, path, f"nemotron_h_moe.{key}", value)
    with GGUFFile.open(path) as file:
        assert len(describe(file).layers) == 5


def test_each_layer_of_nemotron_is_one_block(family_file: FamilyFile) -> None:
    with GGUFFile.open(family_file("nemotron3_super")) as file:
        layers = describe(file).layers
    kinds = "".join("M" if each.recurrent else "*" if each.attention else "E" for each in layers)
    assert kinds == "MEM*E"
    assert [each.feed_forward is not None for each in layers] == [kind == "E" for kind in kinds]
    experts = layers[1].feed_forward
    assert isinstance(experts, MixtureOfExperts)
    assert experts.latent_down and experts.latent_down.weight.shape == (32, 64)
    assert experts.latent_up and experts.latent_up.weight.shape == (64, 32)
    assert experts.up.weight.shape == experts.down.weight.shape == (8, 32, 32)
    assert experts.router.logits.weight.shape == (8, 64) and experts.router.scoring is Scoring.SIGMOID
    assert experts.gate is None and experts.shared and experts.shared.gate is None
