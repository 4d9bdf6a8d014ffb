"""What files of GLM-4, dots.llm1, Ling and Llama 4 with experts say of layers and routers, by hand-computed values."""

from typing import Any

import numpy as np
import pytest

from edgellm import EdgeLLMError, ModelFileError, UnsupportedModelError
from edgellm.arch.blocks import FeedForward
from edgellm.arch.mixture import MixtureOfExperts, RouterSettings, Scoring
from edgellm.arch.positions import RopeType
from support.family_file import EXPERTS, SIZES, DescribeFamily, attentions, routers, windows, with_rope, without_experts

KEYED = EXPERTS | {
    "leading_dense_block_count": 1,
    "expert_gating_func": 2,
    "expert_weights_norm": True,
    "expert_weights_scale": 2.5,
}
KEYED_FAMILIES = ("glm4moe", "dots1", "bailingmoe2")
LLAMA4 = EXPERTS | {"expert_used_count": 1, "interleave_moe_layer_step": 2, "context_length": 1 << 20}


def settings_of(router: RouterSettings | None) -> dict[str, Any]:
    """The settings of a router that are not those of a plain one."""
    assert router
    plain = vars(RouterSettings(router.experts, router.used))
    return {name: vars(router)[name] for name in plain if vars(router)[name] != plain[name]}


@pytest.mark.parametrize("architecture", KEYED_FAMILIES)
def test_the_first_layers_are_dense_and_the_others_route_by_the_keys(
    described_family: DescribeFamily, architecture: str
) -> None:
    model = described_family(architecture, KEYED, without_experts(0))
    dense, *others = [layer.feed_forward for layer in model.layers]
    assert isinstance(dense, FeedForward) and dense.up.weight.shape == (SIZES["ffn"], SIZES["width"])
    assert routers(model)[0] is None
    for part, router in zip(others, routers(model)[1:], strict=True):
        assert isinstance(part, MixtureOfExperts) and part.gate and part.shared and part.shared.norm is None
        assert part.gate.weight.shape == (4, 24, 32) and part.down.weight.shape == (4, 32, 24)
        assert part.shared_gate is None and part.norm and router
        assert router.selection_bias and router.selection_bias.shape == (4,)
        assert (router.experts, router.used) == (4, 2)
        assert settings_of(router) == {"scoring": Scoring.SIGMOID, "normalized": True, "scale": 2.5}


@pytest.mark.parametrize("architecture", KEYED_FAMILIES)
def test_files_without_keys_of_the_router_have_plain_sigmoids(
    described_family: DescribeFamily, architecture: str
) -> None:
    model = described_family(architecture, EXPERTS, without_experts())
    assert [settings_of(router) for router in routers(model)] == [{"scoring": Scoring.SIGMOID}] * 4
    softmax = described_family(architecture, EXPERTS | {"expert_gating_func": 1}, without_experts())
    assert settings_of(routers(softmax)[0]) == {}


def test_groups_of_experts(described_family: DescribeFamily) -> None:
    groups = {"expert_group_count": 2, "expert_group_used_count": 1}
    router = routers(described_family("bailingmoe2", KEYED | groups, without_experts(0)))[1]
    assert router and (router.groups, router.used_groups, router.group_scores) == (2, 1, 2)
    one = {"expert_group_count": 1, "expert_group_used_count": 1}
    router = routers(described_family("bailingmoe2", KEYED | one, without_experts(0)))[1]
    assert router and (router.groups, router.used_groups) == (1, 1)


def test_experts_that_all_tokens_share_are_one_feed_forward(described_family: DescribeFamily) -> None:
    wide = {f"blk.{i}.ffn_{x}_shexp.weight": (48, 32) for i in range(1, 4) for x in ("gate", "up")}
    wide |= {f"blk.{i}.ffn_down_shexp.weight": (32, 48) for i in range(1, 4)}
    model = described_family("dots1", KEYED | {"expert_shared_count": 2}, without_experts(0) | wide)
    part = model.layers[1].feed_forward
    assert isinstance(part, MixtureOfExperts) and part.shared and part.shared.down.weight.shape == (32, 48)


def test_glm_norms_heads_and_has_biases_where_the_file_has_them(described_family: DescribeFamily) -> None:
    model = described_family("glm4moe", KEYED | {"rope.dimension_count": 8}, without_experts(0))
    attention, dense = attentions(model)[0], model.layers[0].feed_forward
    assert attention.q_norm and attention.k_norm and attention.q.bias is None and attention.post_norm is None
    assert attention.rope and attention.rope.width == 8 and attention.rope.rope_type is RopeType.NEOX
    assert dense and dense.norm and dense.norm.weight
    assert dense.norm.weight.name == "blk.0.post_attention_norm.weight"
    lacking: dict[str, Any] = {f"blk.{i}.attn_{x}_norm.weight": None for i in range(4) for x in "qk"}
    biases = {f"blk.{i}.attn_{x}.bias": (32 if x == "q" else 16,) for i in range(4) for x in "qkv"}
    attention = attentions(described_family("glm4moe", KEYED, without_experts(0) | lacking | biases))[0]
    assert attention.q_norm is None and attention.q.bias and attention.v and attention.v.bias


@pytest.mark.parametrize("architecture", ["glm4moe", "bailingmoe2"])
def test_layers_for_multi_token_prediction_are_left_out(described_family: DescribeFamily, architecture: str) -> None:
    keys = KEYED | {"nextn_predict_layers": 2, "feed_forward_length": [48, 48, 7, 7]}
    more: dict[str, Any] = {"blk.3.nextn.eh_proj.weight": (32, 64), "blk.2.nextn.eh_proj.weight": (32, 64)}
    more |= {"blk.2.attn_output.weight": (5,), "blk.3.ffn_up.weight": (3, 4)}
    model = described_family(architecture, keys, without_experts(0) | more)
    assert [router is not None for router in routers(model)] == [False, True]
    with pytest.raises(UnsupportedModelError, match=r"blk\.1\.nextn\.enorm\.weight has no place"):
        described_family(architecture, KEYED, without_experts(0) | {"blk.1.nextn.enorm.weight": (32,)})


def test_ling_has_q_k_and_v_in_one_matrix(described_family: DescribeFamily) -> None:
    attention = attentions(described_family("bailingmoe2", KEYED, without_experts(0)))[0]
    assert attention.k and attention.v and attention.q_norm and attention.q_norm.weight
    assert [part.weight.shape for part in (attention.q, attention.k, attention.v)] == [(32, 32), (16, 32), (16, 32)]
    assert attention.q_norm.weight.shape == (16,)


def test_llama4_has_chunks_and_rope_in_three_of_four_layers(described_family: DescribeFamily) -> None:
    model = described_family("llama4", LLAMA4, without_experts(0, 2))
    assert windows(model) == [8192] * 3 + [None] and with_rope(model) == [True] * 3 + [False]
    assert [attention.chunked for attention in attentions(model)] == [True] * 3 + [False]
    assert [attention.q_norm is not None for attention in attentions(model)] == [True] * 3 + [False]
    norm = attentions(model)[0].k_norm
    assert norm and norm.weight is None and norm.eps == pytest.approx(1e-5) and attentions(model)[0].norm_after_rope
    assert [router and settings_of(router) for router in routers(model)] == [
        None,
        {"scoring": Scoring.SIGMOID, "weighs_input": True},
    ] * 2
    short = described_family("llama4", LLAMA4 | {"context_length": 8192}, without_experts(0, 2))
    assert windows(short) == [None] * 4 and not any(attention.chunked for attention in attentions(short))


def test_llama4_scales_queries_without_rope_by_position(described_family: DescribeFamily) -> None:
    temperatures = [
        attention.temperature for attention in attentions(described_family("llama4", LLAMA4, without_experts(0, 2)))
    ]
    assert temperatures[:3] == [None] * 3 and temperatures[3]
    factors = temperatures[3].values(np.array([0, 8190, 8191, 16382, 16383, 81919]))
    assert factors.dtype == np.float32
    # 1 + 0.1 ln(1 + floor((position + 1) / 8192))
    assert factors[:, 0] == pytest.approx([1, 1, 1.0693147, 1.0693147, 1.1098612, 1.2397895], rel=1e-6)


def test_llama4_with_128_experts_norms_no_heads(described_family: DescribeFamily) -> None:
    experts: dict[str, Any] = {f"blk.{i}.ffn_gate_inp.weight": (128, 32) for i in (1, 3)}
    experts |= {f"blk.{i}.ffn_{x}_exps.weight": (128, 24, 32) for i in (1, 3) for x in ("gate", "up")}
    experts |= {f"blk.{i}.ffn_down_exps.weight": (128, 32, 24) for i in (1, 3)}
    model = described_family("llama4", LLAMA4 | {"expert_count": 128}, without_experts(0, 2) | experts)
    assert [attention.q_norm for attention in attentions(model)] == [None] * 4


REFUSED: list[tuple[str, dict[str, object], type[EdgeLLMError], str]] = [
    ("glm4moe", {"leading_dense_block_count": 5}, ModelFileError, "leading_dense_block_count is 5 of 4 layers"),
    ("glm4moe", {"expert_count": 0}, ModelFileError, "has no experts at key glm4moe.expert_count"),
    ("glm4moe", {"expert_used_count": 5}, ModelFileError, "expert_used_count is 5 of 4 experts"),
    ("glm4moe", {"expert_gating_func": 3}, UnsupportedModelError, "glm4moe.expert_gating_func is 3; routers with"),
    ("glm4moe", {"expert_weights_scale": -1.0}, ModelFileError, "expert_weights_scale is -1.0, outside"),
    ("bailingmoe2", {"expert_group_count": 3}, ModelFileError, "expert_group_count is 3, for 4 experts"),
    ("bailingmoe2", {"expert_group_count": 4}, ModelFileError, "expert_group_count is 4, for 4 experts"),
    (
        "bailingmoe2",
        {"expert_group_count": 2, "expert_group_used_count": 3},
        ModelFileError,
        "expert_group_used_count is 3 of 2 groups",
    ),
    (
        "bailingmoe2",
        {"expert_group_count": 2, "expert_group_used_count": 1, "expert_used_count": 3},
        ModelFileError,
        "is 1 of 2 groups, for 3 experts of each token",
    ),
    ("llama4", {"interleave_moe_layer_step": 0}, ModelFileError, "interleave_moe_layer_step is 0, with 4 experts"),
    ("llama4", {"expert_count": 0}, ModelFileError, "interleave_moe_layer_step is 2, with 0 experts"),
    ("llama4", {"attention.sliding_window": 0}, UnsupportedModelError, "the model has no chunks of 8192 tokens"),
]


@pytest.mark.parametrize(("architecture", "keys", "kind", "words"), REFUSED, ids=[case[-1] for case in REFUSED])
def test_files_that_cannot_be_are_refused(
    described_family: DescribeFamily, architecture: str, keys: dict[str, object], kind: type[EdgeLLMError], words: str
) -> None:
    usual, dense = (LLAMA4, (0, 2)) if architecture == "llama4" else (KEYED, (0,))
    with pytest.raises(kind) as error:
        described_family(architecture, usual | keys, without_experts(*dense))
    assert words in str(error.value) and "\n" not in str(error.value)
