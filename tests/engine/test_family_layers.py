"""What each family's tensors and metadata say of layers and scales, by hand-computed values."""

import math
from dataclasses import replace

import pytest

from edgellm import ModelFileError
from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.blocks import Activation, NormKind
from edgellm.arch.mixture import MixtureOfExperts, Scoring
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import TensorFacts
from edgellm.gguf import Tensor
from support.family_file import (
    EXPERTS,
    XIELU,
    DescribeFamily,
    attentions,
    feed_forward,
    routers,
    windows,
    with_rope,
    without_experts,
)


def first_value(tensor: Tensor | None) -> float:
    """The first weight of an F32 tensor; weights count up from 0 in each tensor of the file."""
    assert tensor
    return float(tensor.data.view("<f4").ravel()[0])


def test_phi3_has_fused_projections(described_family: DescribeFamily) -> None:
    model = described_family("phi3")
    attention, mlp = attentions(model)[0], feed_forward(model)
    assert attention.k and attention.v and mlp.gate
    assert [part.weight.shape for part in (attention.q, attention.k, attention.v)] == [(32, 32), (16, 32), (16, 32)]
    assert [first_value(part.weight) for part in (attention.q, attention.k, attention.v)] == [0, 32 * 32, 48 * 32]
    assert [part.weight.shape for part in (mlp.gate, mlp.up)] == [(48, 32), (48, 32)]
    assert [first_value(part.weight) for part in (mlp.gate, mlp.up)] == [0, 48 * 32]


def test_projections_of_any_family_may_be_fused(described_family: DescribeFamily) -> None:
    separate = {f"blk.{i}.attn_{x}.{kind}": None for i in range(4) for x in "qkv" for kind in ("weight", "bias")}
    fused = {f"blk.{i}.attn_qkv.weight": (64, 32) for i in range(4)}
    biases = {f"blk.{i}.attn_qkv.bias": (64,) for i in range(4)}
    attention = attentions(described_family("qwen2", {}, separate | fused | biases))[0]
    assert attention.k and attention.v
    assert [first_value(part.bias) for part in (attention.q, attention.k, attention.v)] == [0, 32, 48]


def test_granite_has_four_scales(described_family: DescribeFamily) -> None:
    keys = {"attention.scale": 0.125, "embedding_scale": 6.0, "residual_scale": 0.25, "logit_scale": 4.0}
    model = described_family("granite", keys)
    assert (model.embedding_scale, model.residual_scale, model.logit_scale) == (6.0, 0.25, 0.25)
    assert [attention.scale for attention in attentions(model)] == [0.125] * 4
    plain = described_family("granite", {"logit_scale": 1.0})
    assert (plain.embedding_scale, plain.residual_scale, plain.logit_scale) == (1.0, 1.0, 1.0)
    assert attentions(plain)[0].scale == 0.25


def test_olmo2_has_norms_behind_blocks_and_of_whole_projections(described_family: DescribeFamily) -> None:
    model = described_family("olmo2")
    attention, mlp = attentions(model)[0], feed_forward(model)
    assert attention.norm is None and mlp.norm is None and not model.layers[0].parallel
    assert attention.post_norm and mlp.post_norm
    assert attention.q_norm and attention.q_norm.weight and attention.q_norm.weight.shape == (32,)
    assert attention.k_norm and attention.k_norm.weight and attention.k_norm.weight.shape == (16,)
    assert windows(model) == [None] * 4


def test_cohere2_is_parallel_and_has_rope_in_windows(described_family: DescribeFamily) -> None:
    model = described_family("cohere2", {"attention.sliding_window": 8, "logit_scale": 0.0625})
    attention, mlp = attentions(model)[0], feed_forward(model)
    assert model.layers[0].parallel and mlp.norm is None
    assert attention.norm and attention.norm.kind is NormKind.LAYER and attention.norm.bias is None
    assert windows(model) == [8, 8, 8, None] and with_rope(model) == [True, True, True, False]
    assert model.logit_scale == 0.0625


def test_glm4_turns_half_of_each_head_and_norms_around_blocks(described_family: DescribeFamily) -> None:
    model = described_family("glm4", {"rope.dimension_count": 8})
    attention, mlp = attentions(model)[0], feed_forward(model)
    assert attention.rope and attention.rope.width == 8 and attention.rope.rope_type is RopeType.NORM
    assert attention.norm and attention.post_norm and mlp.norm and mlp.post_norm and mlp.gate
    assert attention.q.bias is None
    biases = {f"blk.{i}.attn_{x}.bias": (32 if x == "q" else 16,) for i in range(4) for x in "qkv"}
    assert attentions(described_family("glm4", {}, biases))[0].q.bias


def test_seed_oss_calls_the_norm_before_the_feed_forward_otherwise(described_family: DescribeFamily) -> None:
    model = described_family("seed_oss")
    norm = feed_forward(model).norm
    assert norm and norm.weight and norm.weight.name == "blk.0.post_attention_norm.weight"
    assert attentions(model)[0].post_norm is None and not model.layers[0].parallel


@pytest.mark.parametrize(("keys", "window"), [({}, 4096), ({"attention.sliding_window": 0}, None)])
def test_starcoder2_has_a_window_unless_the_file_says_otherwise(
    described_family: DescribeFamily, keys: dict[str, int], window: int | None
) -> None:
    model = described_family("starcoder2", {"context_length": 16384} | keys)
    assert windows(model) == [window] * 4
    mlp, attention = feed_forward(model), attentions(model)[0]
    assert mlp.gate is None and mlp.activation is Activation.GELU and mlp.up.bias and mlp.down.bias
    assert attention.norm and attention.norm.bias and attention.output.bias


def test_stablelm_is_parallel_where_it_lacks_a_norm(described_family: DescribeFamily) -> None:
    both_norms = described_family("stablelm", {"use_parallel_residual": True, "rope.dimension_count": 4})
    assert not any(layer.parallel for layer in both_norms.layers)
    rope = attentions(both_norms)[0].rope
    assert rope and rope.width == 4
    lacking = {f"blk.{i}.ffn_norm.{kind}": None for i in range(4) for kind in ("weight", "bias")}
    parallel = described_family("stablelm", {}, lacking)
    assert all(layer.parallel for layer in parallel.layers) and feed_forward(parallel).norm is None


def test_stablelm_may_norm_heads_with_weights_of_their_own(described_family: DescribeFamily) -> None:
    q_norm, k_norm = (
        attentions(described_family("stablelm"))[0].q_norm,
        attentions(described_family("stablelm"))[0].k_norm,
    )
    assert q_norm and q_norm.weight and q_norm.weight.shape == (2, 16) and q_norm.kind is NormKind.LAYER
    assert k_norm and k_norm.weight and k_norm.weight.shape == (1, 16)
    lacking = {f"blk.{i}.attn_{x}_norm.weight": None for i in range(4) for x in "qk"}
    assert attentions(described_family("stablelm", {}, lacking))[0].q_norm is None


def test_apertus_has_parameters_of_each_layer(described_family: DescribeFamily) -> None:
    model = described_family("apertus", XIELU)
    layers = [layer.feed_forward for layer in model.layers]
    assert all(each and each.activation is Activation.XIELU and each.gate is None for each in layers)
    first = [math.log(1 + math.exp(0.5)), 0.5 + math.log(1 + math.exp(0.25)), 0.5, -1e-6]
    assert layers[0] and layers[0].parameters == pytest.approx(first, rel=1e-6)
    assert layers[1] and layers[1].parameters[0] == 100.0
    one_for_all = described_family("apertus", XIELU | {"/xielu.beta": 0.5})
    assert feed_forward(one_for_all).parameters == layers[0].parameters


def test_muse_glimmer_has_norms_gates_and_a_cap(described_family: DescribeFamily) -> None:
    keys = {"attention.sliding_window": 8, "logit_scale": 0.5, "final_logit_softcapping": 4.0}
    model = described_family("muse-glimmer", keys)
    attention, mlp = attentions(model)[0], feed_forward(model)
    assert (model.logit_scale, model.logit_soft_cap) == (0.5, 4.0)
    assert model.embedding_norm and model.embedding_norm.weight is None
    assert attention.gate and attention.gate.weight.shape == (32, 32)
    norms = [attention.norm, attention.post_norm, mlp.norm, mlp.post_norm]
    assert [norm and norm.eps for norm in norms] == pytest.approx([1e-5, 1e-8, 1e-5, 1e-8])


def test_sinks(described_family: DescribeFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    """No architecture here has any yet: one more score for each head."""
    facts = ARCHITECTURES["llama"]
    sinks = TensorFacts("attn_sinks", "self_attn.sinks", None, ("heads",))
    monkeypatch.setitem(ARCHITECTURES, "llama", replace(facts, block_tensors=(*facts.block_tensors, sinks)))
    found = [attention.sinks for attention in attentions(described_family("llama"))]
    assert [each and each.shape for each in found] == [(2,)] * 4
    with pytest.raises(ModelFileError, match=r"blk\.0\.attn_sinks\.weight has shape \[3\]"):
        described_family("llama", {}, {"blk.0.attn_sinks.weight": (3,)})


@pytest.mark.parametrize(
    ("architecture", "scoring", "normalized"),
    [
        ("qwen3moe", Scoring.SOFTMAX, True),
        ("qwen2moe", Scoring.SOFTMAX, False),
        ("olmoe", Scoring.SOFTMAX, False),
        ("llama", Scoring.SOFTMAX, True),
        ("minimax-m2", Scoring.SIGMOID, True),
    ],
)
def test_routers_of_families_with_experts_in_all_layers(
    described_family: DescribeFamily, architecture: str, scoring: Scoring, normalized: bool
) -> None:
    model = described_family(architecture, EXPERTS, without_experts() if architecture == "llama" else {})
    assert len(routers(model)) == 4
    for router in routers(model):
        assert router and (router.experts, router.used, router.scoring) == (4, 2, scoring)
        assert router.normalized == normalized
        assert (router.selection_bias is not None) == (architecture == "minimax-m2")


def test_a_llama_without_experts_has_feed_forwards(described_family: DescribeFamily) -> None:
    assert routers(described_family("llama")) == [None] * 4


@pytest.mark.parametrize("shape", [(1, 32), (32,)])
def test_the_gate_of_a_shared_expert_is_a_row_or_a_vector(
    described_family: DescribeFamily, shape: tuple[int, ...]
) -> None:
    gates = {f"blk.{i}.ffn_gate_inp_shexp.weight": shape for i in range(4)}
    for layer in described_family("qwen2moe", EXPERTS, gates).layers:
        part = layer.feed_forward
        assert isinstance(part, MixtureOfExperts) and part.shared and part.shared_gate
        assert part.shared_gate.weight.shape == (1, 32)
