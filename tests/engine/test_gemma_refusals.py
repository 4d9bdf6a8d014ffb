"""Gemma files that contradict themselves, or hold what edgellm does not compute."""

import pytest

from edgellm import EdgeLLMError, ModelFileError, UnsupportedModelError
from support.gemma_families import (
    FAMILIES,
    Described,
    Keys,
    gemma4_keys,
    gemma4_shapes,
)
from support.gemma_files import Shapes

# The architecture, keys to change, and words of the error.
WRONG_KEYS: list[tuple[str, Keys, str]] = [
    ("gemma2", {"attn_logit_softcapping": -1.0}, "gemma2.attn_logit_softcapping is -1.0"),
    (
        "gemma3",
        {"attention.sliding_window_pattern": [True]},
        "gemma3.attention.sliding_window_pattern must be an array of 2",
    ),
    ("gemma3", {"attention.sliding_window_pattern": -2}, "gemma3.attention.sliding_window_pattern is -2, below 0"),
    ("gemma3", {"rope.freq_base_swa": 0.0}, "gemma3.rope.freq_base_swa is 0.0"),
    ("gemma4", {"attention.sliding_window_pattern": [True] * 4}, "must be an array of 5 integers"),
    ("gemma4", {"attention.sliding_window_pattern": 6}, "has no array gemma4.attention.sliding_window_pattern"),
    ("gemma4", {"attention.sliding_window": 0}, "no gemma4.attention.sliding_window above 0"),
    ("gemma4", {"attention.head_count_kv": [2, 1, 2, 2]}, "gemma4.attention.head_count_kv must be an array of 5"),
    ("gemma4", {"attention.head_count_kv": [2, 1, 2, 1, 1]}, "has layer 3 read the keys and values of layer 2, whose"),
    ("gemma4", {"attention.shared_kv_layers": 4}, "no layer has keys and values for layer 1"),
    ("gemma4", {"attention.shared_kv_layers": 5}, "gemma4.attention.shared_kv_layers is 5 of 5 layers"),
    ("gemma4", {"attention.value_length": 4}, "no tensor blk.1.attn_v.weight"),
    ("gemma4", {"rope.dimension_count_swa": 6}, "gemma4.rope.dimension_count_swa is 6, not an even number from 2 to 4"),
    ("gemma4", {"feed_forward_length": [24] * 4}, "gemma4.feed_forward_length must be an array of 5"),
    ("gemma4", {"embedding_length_per_layer_input": 1 << 17}, "embedding_length_per_layer_input is 131072"),
    ("gemma4", {"embedding_length_per_layer_input": 8}, "blk.0.inp_gate.weight has shape [4, 16]"),
    (
        "gemma3n",
        {"activation_sparsity_scale": [1.5] * 4},
        "activation_sparsity_scale must be 5 numbers between -100 and 100",
    ),
    ("gemma3n", {"activation_sparsity_scale": [-1e30] * 5}, "must be 5 numbers between -100 and 100"),
    ("gemma3n", {"activation_sparsity_scale": [float("nan")] * 5}, "must be 5 numbers between -100 and 100"),
    ("gemma3n", {"embedding_length_per_layer_input": 0}, "gemma3n.embedding_length_per_layer_input"),
]


def refused(described: Described, arch: str, keys: Keys, shapes: Shapes, kind: type[EdgeLLMError], words: str) -> None:
    """Reading says `words` in one line."""
    first, more = FAMILIES[arch]
    values = {"rope_freqs.weight": 1.0}
    kept = {name: shape for name, shape in (more | shapes).items() if shape}
    with pytest.raises(kind) as error:
        described(arch, first | keys, kept, values)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arch", "keys", "words"), WRONG_KEYS, ids=[f"{arch} {words}" for arch, _, words in WRONG_KEYS]
)
def test_metadata_that_cannot_be(described: Described, arch: str, keys: Keys, words: str) -> None:
    refused(described, arch, keys, {}, ModelFileError, words)


@pytest.mark.parametrize(
    ("arch", "name", "shape", "words"),
    [
        ("gemma4", "blk.2.layer_output_scale.weight", (2,), "blk.2.layer_output_scale.weight has shape [2]"),
        ("gemma4", "per_layer_token_embd.weight", (8, 16), "per_layer_token_embd.weight has shape [8, 16]"),
        ("gemma4", "per_layer_proj_norm.weight", (), "no tensor per_layer_proj_norm.weight"),
        ("gemma4", "blk.3.post_norm.weight", (), "no tensor blk.3.post_norm.weight"),
        ("gemma3n", "blk.1.laurel_l.weight", (32, 16), "blk.1.laurel_l.weight has shape [32, 16]"),
        ("gemma3n", "altup_proj.weight", (2, 16, 16), "altup_proj.weight has shape [2, 16, 16]"),
        ("gemma3n", "blk.0.altup_predict_coef.weight", (4, 4), "altup_predict_coef.weight has shape [4, 4]"),
        ("gemma3", "blk.1.post_ffw_norm.weight", (), "no tensor blk.1.post_ffw_norm.weight"),
    ],
)
def test_tensors_that_cannot_be(described: Described, arch: str, name: str, shape: tuple[int, ...], words: str) -> None:
    refused(described, arch, {}, {name: shape}, ModelFileError, words)


@pytest.mark.parametrize(
    ("arch", "keys", "words"),
    [
        ("gemma3", {"expert_count": 8}, "gemma3 with a mixture of experts"),
        ("gemma3", {"attention.causal": 0}, "attention.causal"),
        ("gemma3n", {"altup.num_inputs": 2}, "stream 0 of 2 is active; only the first of 4"),
        ("gemma3n", {"altup.active_idx": 1}, "stream 1 of 4 is active; only the first of 4"),
    ],
)
def test_variants_are_refused_by_name(described: Described, arch: str, keys: Keys, words: str) -> None:
    kind = ModelFileError if "causal" in words else UnsupportedModelError
    refused(described, arch, keys, {}, kind, words)


def test_a_scale_that_is_no_number(described: Described) -> None:
    values = {"rope_freqs.weight": 1.0, "blk.0.layer_output_scale.weight": float("nan")}
    with pytest.raises(ModelFileError, match=r"blk\.0\.layer_output_scale\.weight is nan"):
        described("gemma4", gemma4_keys(), gemma4_shapes(), values)


def test_layers_that_share_keys_have_heads_of_one_size(described: Described) -> None:
    """Without lengths of heads in the file they follow from the number of heads, which each layer has for itself."""
    keys = {name: value for name, value in gemma4_keys().items() if not name.endswith("_swa") or "base" in name}
    keys["attention.head_count"] = [4, 2, 4, 2, 2]
    shapes = gemma4_shapes()
    for i in (0, 2, 3):
        shapes |= {f"blk.{i}.attn_q.weight": (16, 16), f"blk.{i}.attn_output.weight": (16, 16)}
    shapes["blk.3.attn_q_norm.weight"] = (8,)
    with pytest.raises(ModelFileError, match="layer 3 read the keys and values of layer 2, whose heads are others"):
        described("gemma4", keys, shapes, {"rope_freqs.weight": 1.0})


def test_a_layer_that_reads_the_keys_of_another_has_none_of_its_own(described: Described) -> None:
    """Rows of k and v in one matrix with those of q would be stored where that other layer has its own."""
    shapes = gemma4_shapes() | {"blk.3.attn_qkv.weight": (24, 16)}
    del shapes["blk.3.attn_q.weight"]
    with pytest.raises(ModelFileError, match=r"has no tensor blk\.3\.attn_q\.weight"):
        described("gemma4", gemma4_keys(), shapes, {"rope_freqs.weight": 1.0})
