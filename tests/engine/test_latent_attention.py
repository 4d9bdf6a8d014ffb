"""Latent attention: what files say of it, by hand-computed values, and bits that no batch changes."""

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import ModelFileError, UnsupportedModelError
from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.arch.latent_attention import LatentAttention
from edgellm.arch.mixture import Scoring
from edgellm.engine import placement
from edgellm.engine.build_program import build_program
from edgellm.engine.webgpu.obstacles import obstacle
from edgellm.gguf import GGUFFile
from edgellm.info import describe as info
from edgellm.perf.roofline import Roofline
from kquants.kv_layout import PAGE
from support.engine_bits import extend, forked, fresh, neighbours, opened, trimmed
from support.families.files import convert_case
from support.families.references import IDS
from support.family_file import EXPERTS, SIZES, DescribeFamily, routers, without_experts
from support.model_file import FamilyFile

LATENT, ROPE, PLAIN, VALUE = 16, 4, SIZES["plain_dim"], SIZES["head_value_dim"]
LATENT_KEYS = EXPERTS | {
    "attention.kv_lora_rank": LATENT,
    "attention.key_length": LATENT + ROPE,
    "attention.value_length": LATENT,
    "attention.key_length_mla": PLAIN + ROPE,
    "attention.value_length_mla": VALUE,
    "rope.dimension_count": ROPE,
    "leading_dense_block_count": 1,
    "expert_shared_count": 1,
}
LOW_RANK = ("attn_q_a", "attn_q_a_norm", "attn_q_b")
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 40.0, "rope.scaling.original_context_length": 64}
V3 = {"expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 2.5}


def tensors(q_rank: int = 0) -> dict[str, Any]:
    """The tensors of four layers, with q of this rank, or without a low rank."""
    lacking = ("attn_kv_b", "attn_q") if q_rank else ("attn_kv_b", *LOW_RANK)
    found: dict[str, Any] = {f"blk.{i}.{stem}.weight": None for i in range(4) for stem in lacking}
    found |= {f"blk.{i}.attn_kv_a_mqa.weight": (LATENT + ROPE, SIZES["width"]) for i in range(4)}
    return found | without_experts(0)


def latent_attentions(model: Description) -> list[LatentAttention]:
    found = [layer.attention for layer in model.layers]
    assert all(isinstance(each, LatentAttention) for each in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("q_rank", [0, SIZES["q_rank"]])
def test_sizes_of_latent_attention(described_family: DescribeFamily, q_rank: int) -> None:
    keys = LATENT_KEYS | ({"attention.q_lora_rank": q_rank} if q_rank else {})
    for attention in latent_attentions(described_family("deepseek2", keys, tensors(q_rank))):
        assert (attention.heads, attention.kv_heads, attention.key_dim, attention.value_dim) == (2, 1, 20, 16)
        assert (attention.plain_dim, attention.shared_dim, attention.head_value_dim, attention.q_rank) == (
            12,
            4,
            16,
            q_rank,
        )
        assert attention.q.weight.shape == (32, q_rank or 32) and attention.kv.weight.shape == (20, 32)
        assert attention.k_absorbed.weight.shape == (2, 16, 12) and attention.v.weight.shape == (2, 16, 16)
        assert bool(attention.q_a) == bool(attention.q_norm) == bool(q_rank)
        assert attention.kv_norm.eps == 1e-6 and attention.norm.eps == pytest.approx(1e-5)
        assert (
            attention.scale == 16**-0.5
            and attention.rope
            and attention.rope.width == ROPE
            and attention.rope.magnitude == 1
        )


@pytest.mark.parametrize("mscale", [0.707, 1.0])
def test_yarn_scales_scores_in_place_of_cosine_and_sine(described_family: DescribeFamily, mscale: float) -> None:
    keys = LATENT_KEYS | YARN | {"rope.scaling.yarn_log_multiplier": 0.1 * mscale}
    (attention, *_) = latent_attentions(described_family("deepseek2", keys, tensors()))
    assert attention.scale == pytest.approx((1 + 0.1 * mscale * log(40)) ** 2 / 4, rel=1e-6)
    assert attention.rope and attention.rope.magnitude == 1
    (plain, *_) = latent_attentions(described_family("deepseek2", LATENT_KEYS | YARN, tensors()))
    assert plain.scale == 0.25
    assert plain.rope and plain.rope.magnitude == pytest.approx(1 + 0.1 * log(40))


def test_softmax_routers_take_the_best_of_a_group_and_sigmoids_its_two_best(described_family: DescribeFamily) -> None:
    groups = {"expert_group_count": 2, "expert_group_used_count": 1}
    v2 = routers(described_family("deepseek2", LATENT_KEYS | groups, tensors()))
    v3 = routers(described_family("deepseek2", LATENT_KEYS | groups | V3, tensors()))
    assert v2[0] is None and v2[1] and v3[1]
    assert (v2[1].scoring, v2[1].group_scores, v2[1].normalized, v2[1].scale) == (Scoring.SOFTMAX, 1, False, 1.0)
    assert (v3[1].scoring, v3[1].group_scores, v3[1].normalized, v3[1].scale) == (Scoring.SIGMOID, 2, True, 2.5)
    assert (v2[1].groups, v2[1].used_groups) == (v3[1].groups, v3[1].used_groups) == (2, 1)


REFUSED = [
    ({"attention.key_length_mla": None}, "conversions before 2025"),
    ({"attention.temperature_scale": 0.1}, "queries that grow with the position"),
    ({"attention.head_count_kv": 2}, "head_count_kv is 2, not 1"),
    ({"attention.kv_lora_rank": 24}, "kv_lora_rank is 24, not a multiple of 16"),
    ({"attention.kv_lora_rank": 0}, "kv_lora_rank is 0, outside"),
    ({"attention.key_length": 24}, "key_length is 24, not 20"),
    ({"attention.value_length": 8}, "value_length is 8, not 16"),
    ({"rope.dimension_count": 16}, "RoPE rotates 16 of the 16 values of a head"),
    ({"attention.q_lora_rank": 0}, "q_lora_rank is 0, outside"),
    ({"expert_gating_func": 3}, "expert_gating_func is 3"),
]


@pytest.mark.parametrize(("keys", "problem"), REFUSED, ids=str)
def test_other_keys_are_refused(described_family: DescribeFamily, keys: dict[str, Any], problem: str) -> None:
    with pytest.raises((ModelFileError, UnsupportedModelError), match=problem) as error:
        described_family("deepseek2", LATENT_KEYS | keys, tensors())
    assert "\n" not in str(error.value)


def test_files_with_keys_and_values_of_heads_in_one_matrix_are_refused(described_family: DescribeFamily) -> None:
    with pytest.raises(UnsupportedModelError, match="attn_kv_b of older conversions"):
        described_family("deepseek2", LATENT_KEYS, tensors() | {"blk.2.attn_kv_b.weight": (SIZES["kv_b_width"], 16)})


def test_the_cache_holds_latents_and_the_keys_of_rope_alone(family_file: FamilyFile) -> None:
    """deepseek_v3: three layers, 64 latents and 8 values of RoPE."""
    with GGUFFile.open(family_file("deepseek_v3")) as file:
        model = describe(file)
        assert build_program(model, "f16").page_bytes == [3 * PAGE * 72 * 2]
        assert Roofline.of(model, "f16").kv_bytes_per_token == 3 * 72 * 2
        # As bytes, with a scale for every 32 of them.
        assert Roofline.of(model, "q8_0").kv_bytes_per_token == 3 * (80 + 2 * 3)
        assert info(file).kv_bytes_per_token == 3 * 72 * 2
        del model


def test_gpus_leave_latent_attention_to_the_cpu(family_file: FamilyFile) -> None:
    with GGUFFile.open(family_file("deepseek_v3")) as file:
        model = describe(file)
        assert [obstacle(model, placement.mixer(layer), "f16") for layer in range(3)] == ["latent attention"] * 3
        assert obstacle(model, placement.feed_forward(0), "f16") is None
        del model


@pytest.mark.slow
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize("mix", ["Q8_0", "Q4_K_M"])
def test_quantized_weights_change_no_bit_in_any_batch(tmp_path: Path, mix: str, kv_type: str) -> None:
    path, ids, others = convert_case(tmp_path, "wide_deepseek_v3", mix), IDS[:200], IDS[:399:-1]
    with opened(path, kv_type=kv_type) as engine:
        whole = fresh(engine, ids)
        assert np.array_equal(neighbours(engine, ids, others), whole), "neighbours"
        assert np.array_equal(forked(engine, ids, others, 70), whole[70:]), "forked"
        reached, rest = trimmed(engine, ids, 100, 130)
        assert reached == 130 and np.array_equal(rest, whole[130:]), "trimmed"
    for threads, chunk in ((1, 1), (1, 64), (3, 7)):
        with opened(path, threads, kv_type) as engine:
            got = extend(engine, engine.new_sequence(), ids, chunk)
        assert np.array_equal(got, whole), f"{threads} threads, chunks of {chunk}"
