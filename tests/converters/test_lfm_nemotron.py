"""Checkpoints of LFM2 and Nemotron-H: other spellings of their configurations, and variants that are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.tensors import Metadata, Source
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, ModelFileError, UnsupportedModelError
from support.checkpoint_tokenizers import write_json
from support.described_checkpoint import Described, with_config
from support.families import CASES
from support.families.references import load_reference
from support.make_checkpoint import Stored, write_safetensors


def values(described: Described, name: str, **changes: Any) -> dict[str, Any]:
    """The values of all keys, without the architecture's prefix."""
    return {key.split(".", 1)[1]: value.value for key, value in described(name, **changes)[0].items()}


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        ({}, 160),  # int(1.3 · int(2 · 160 / 3)) = 137, rounded up to a multiple of 32
        ({"block_ff_dim": ..., "intermediate_size": 160}, 160),
        ({"intermediate_size": 96}, 160),  # the older name counts
        ({"block_multiple_of": 160}, 160),
        ({"block_multiple_of": 1, "block_ffn_dim_multiplier": 1.51}, 160),
        ({"block_ff_dim": 240, "block_ffn_dim_multiplier": None}, 160),
        ({"block_ff_dim": 160, "block_auto_adjust_ff_dim": False}, 160),
    ],
)
def test_the_width_of_feed_forwards_of_lfm2(described: Described, changes: dict[str, Any], width: int) -> None:
    assert values(described, "lfm2", **changes)["feed_forward_length"] == width


def test_layers_of_lfm2_by_either_key(described: Described) -> None:
    kinds = ["conv", "full_attention", "conv", "conv", "full_attention"]
    by_kinds = described("lfm2", full_attn_idxs=..., layer_types=kinds)[0]
    assert by_kinds == described("lfm2")[0]
    assert by_kinds["lfm2.attention.head_count_kv"].value == [0, 2, 0, 0, 2]


def test_layers_of_nemotron_by_either_key(described: Described) -> None:
    new = ["linear_attention", "mlp", "full_attention", "mlp", "linear_attention", "linear_attention"]
    old = ["mamba", "mlp", "attention", "mlp", "mamba", "mamba"]
    for changes in ({"layers_block_type": new}, {"layers_block_type": old, "hybrid_override_pattern": ...}):
        assert described("nemotron_h", num_hidden_layers=..., **changes)[0] == described("nemotron_h")[0]


def test_a_dense_nemotron_may_name_sizes_of_experts(described: Described) -> None:
    """As transformers saves it, with all of its defaults."""
    assert described("nemotron_h", n_routed_experts=8, num_experts_per_tok=2)[0] == described("nemotron_h")[0]


def test_older_names_of_the_size_of_heads(described: Described) -> None:
    assert described("nemotron_h", head_dim=..., attention_head_dim=32)[0] == described("nemotron_h")[0]


def describe_checkpoint(folder: Path, config: dict[str, Any]) -> tuple[Metadata, list[Source]]:
    """What `describe` gives for a checkpoint with this config.json, with its warnings."""
    write_json(folder / "config.json", config)
    return describe(Checkpoint.open(folder))


def test_layers_for_multi_token_prediction_are_left_out(described: Described, tmp_path: Path) -> None:
    tensors = {key: (key, tensor) for key, tensor in load_reference("nemotron3_super").tensors.items()}
    attention = {key: value for key, value in tensors.items() if "layers.3." in key}
    added = {key.replace("backbone.layers.3", "mtp.layers.0"): value for key, value in attention.items()}
    stored = {
        new: Stored("BF16", tensor.shape, tensor.bfloat16(old)) for new, (old, tensor) in (tensors | added).items()
    }
    folder = tmp_path / "model"
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", stored)
    config = CASES["nemotron3_super"].config | {"num_nextn_predict_layers": 1}
    with pytest.warns(EdgeLLMWarning, match=r"5 tensors, such as mtp\.layers\.0\.mixer\.k_proj\.weight, left out"):
        metadata, sources = describe_checkpoint(folder, config)
    wanted = described("nemotron3_super")
    assert metadata == wanted[0]
    assert [source.name for source in sources] == [source.name for source in wanted[1]]


REFUSED: list[tuple[str, dict[str, Any], type[EdgeLLMError], str]] = [
    ("lfm2", {"conv_bias": True}, UnsupportedModelError, "biases of short convolutions (conv_bias)"),
    ("lfm2", {"num_experts": 8}, UnsupportedModelError, "experts (num_experts) are not supported"),
    ("lfm2", {"conv_L_cache": 1}, ModelFileError, "conv_L_cache is 1, not a whole number from 2"),
    ("lfm2", {"conv_L_cache": 3}, ModelFileError, "conv.conv.weight has shape [64, 1, 4], not [64, 1, 3]"),
    ("lfm2", {"full_attn_idxs": [1]}, ModelFileError, "self_attn.k_layernorm.weight has no place in this lfm2 model"),
    ("lfm2", {"full_attn_idxs": [1, 5]}, ModelFileError, "full_attn_idxs names layer 5, and there are layers 0 to 4"),
    ("lfm2", {"full_attn_idxs": [1.5]}, ModelFileError, "full_attn_idxs names layer 1.5, and there are layers 0 to 4"),
    ("lfm2", {"full_attn_idxs": ...}, ModelFileError, "conv.conv.weight has no place in this lfm2 model"),
    ("lfm2", {"layer_types": ["conv"] * 4}, ModelFileError, "layer_types must have conv or full_attention for each"),
    ("lfm2", {"layer_types": ["mamba"] * 5}, ModelFileError, "layer_types must have conv or full_attention for each"),
    ("lfm2", {"block_ff_dim": 1}, ModelFileError, "give feed-forwards of width 0"),
    ("lfm2", {"block_ffn_dim_multiplier": 1e15}, ModelFileError, "has shape [160, 64], not [4194304, 64]"),
    ("lfm2_moe", {"norm_topk_prob": False}, UnsupportedModelError, "that do not add up to 1 (norm_topk_prob)"),
    ("lfm2_moe", {"routed_scaling_factor": 2.0}, UnsupportedModelError, "a scale of experts (routed_scaling_factor)"),
    ("lfm2_moe", {"use_expert_bias": True}, ModelFileError, "0 layers have exp_probs_b.bias of GGUF, and by use_"),
    ("lfm2_moe", {"num_dense_layers": 1}, ModelFileError, "has no tensor for blk.1."),
    ("lfm2_moe", {"num_dense_layers": 6}, ModelFileError, "num_dense_layers is 6, not a whole number from 0 to 5"),
    ("nemotron_h", {"use_bias": True}, UnsupportedModelError, "biases of projections (use_bias)"),
    ("nemotron_h", {"mlp_bias": True}, UnsupportedModelError, "biases of projections (mlp_bias)"),
    ("nemotron_h", {"use_conv_bias": True}, ModelFileError, "0 layers have ssm_conv1d.bias of GGUF, and by use_conv"),
    ("nemotron_h", {"conv_kernel": 1}, ModelFileError, "conv_kernel is 1, not a whole number from 2 to 4"),
    ("nemotron_h", {"mamba_hidden_act": "relu"}, UnsupportedModelError, "mamba_hidden_act relu is not supported"),
    ("nemotron_h", {"mlp_hidden_act": "silu"}, UnsupportedModelError, "mlp_hidden_act silu is not supported"),
    ("nemotron_h", {"sliding_window": 64}, UnsupportedModelError, "attention with a window (sliding_window)"),
    ("nemotron_h", {"time_step_limit": [0.0, 0.1]}, UnsupportedModelError, "limits of the time step"),
    ("nemotron_h", {"hybrid_override_pattern": "M-*EMM"}, UnsupportedModelError, "GGUF has either"),
    ("nemotron_h", {"hybrid_override_pattern": "M-*-MX"}, ModelFileError, "has other letters than M * - E"),
    ("nemotron_h", {"hybrid_override_pattern": ""}, ModelFileError, "have 0 layers, not 1 to 1024"),
    ("nemotron_h", {"hybrid_override_pattern": "M" * 1025}, ModelFileError, "have 1025 layers, not 1 to 1024"),
    ("nemotron_h", {"hybrid_override_pattern": "M-*-M"}, ModelFileError, "backbone.layers.5.mixer.A_log has no place"),
    ("nemotron_h", {"layers_block_type": ["mamba"] * 6}, ModelFileError, "layers_block_type and hybrid_override_pat"),
    ("nemotron_h", {"layers_block_type": ["rwkv"] * 6}, ModelFileError, "layers_block_type has rwkv, not one of"),
    ("nemotron_h", {"n_groups": 5}, ModelFileError, "12 heads of Mamba-2 cannot share 5 groups"),
    ("nemotron_h", {"num_key_value_heads": 3}, ModelFileError, "4 attention heads cannot share 3 key-value heads"),
    ("nemotron_h", {"ssm_state_size": 16}, ModelFileError, "has shape [336, 1, 3], not [288, 1, 3]"),
    (
        "nemotron3_super",
        {"architectures": ["NemotronHPuzzleForCausalLM"], "block_configs": [{"block_type": "mamba"}] * 5},
        UnsupportedModelError,
        "different sizes (block_configs, as NVIDIA's Puzzle makes them) are not supported; convert the model that this",
    ),
    ("nemotron3_super", {"moe_latent_size": None}, ModelFileError, "has shape [32, 32], not [64, 32]"),
    ("nemotron3_super", {"moe_latent_size": 16}, ModelFileError, "has shape [32, 32], not [16, 32]"),
    ("nemotron3_nano", {"moe_latent_size": 32}, ModelFileError, "has shape [64, 32], not [32, 32]"),
    ("nemotron3_nano", {"num_experts_per_tok": 9}, ModelFileError, "9 experts compute each token, and n_routed_exp"),
    ("nemotron3_nano", {"hybrid_override_pattern": "M-M*-"}, ModelFileError, "has no place in this nemotron_h model"),
]


@pytest.mark.parametrize(
    ("name", "changes", "kind", "expected"), REFUSED, ids=[f"{name}-{changes}" for name, changes, _, _ in REFUSED]
)
def test_refusals(
    described: Described, name: str, changes: dict[str, Any], kind: type[EdgeLLMError], expected: str
) -> None:
    with pytest.raises(kind) as error:
        described(name, **changes)
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_tensors_as_transformers_holds_them_are_the_same_model(
    folders: Callable[[str], Path], described: Described
) -> None:
    """Transformers calls the text model `model`, where published checkpoints have `backbone`."""
    wanted = described("nemotron3_nano")
    tensors = load_reference("nemotron3_nano").tensors
    stored = {
        name.replace("backbone.", "model."): Stored("BF16", tensor.shape, tensor.bfloat16(name))
        for name, tensor in tensors.items()
    }
    folder = folders("nemotron3_nano").parent / "as-model"
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", stored)
    found = with_config(folder, CASES["nemotron3_nano"].config)
    assert found[0].keys() == wanted[0].keys()
    assert {source.name: source.shape for source in found[1]} == {source.name: source.shape for source in wanted[1]}
