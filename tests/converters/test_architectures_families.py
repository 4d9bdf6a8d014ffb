"""Checkpoints of the families: variants that are refused by name, defaults, and damaged configurations."""

import copy
import json
import random
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.tensors import Metadata, Source
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, ModelFileError, UnsupportedModelError
from support.checkpoint_numbers import fp8_values, scale_shapes, scale_to_fp8
from support.families import CASES
from support.families.checkpoint import write_family_checkpoint
from support.families.references import load_reference
from support.make_checkpoint import Stored, write_safetensors

Described = Callable[..., tuple[Metadata, list[Source]]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The checkpoint of a case, written once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            path = tmp_path_factory.mktemp(name) / "model"
            made[name] = write_family_checkpoint(path, CASES[name], load_reference(name).tensors)
        return made[name]

    return folder


@pytest.fixture
def described(folders: Callable[[str], Path]) -> Described:
    """What `describe` gives for a case whose text configuration is changed; a value of ... is taken out."""

    def of(name: str, **changes: Any) -> tuple[Metadata, list[Source]]:
        config = copy.deepcopy(CASES[name].config)
        text = config.get("text_config", config)
        text.update(changes)
        for key in [key for key, value in changes.items() if value is ...]:
            del text[key]
        return with_config(folders(name), config)

    return of


def with_config(folder: Path, config: dict[str, Any]) -> tuple[Metadata, list[Source]]:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)
        return describe(Checkpoint.open(folder))


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("gemma2", {"query_pre_attn_scalar": 64}, "query_pre_attn_scalar 64 is not supported: GGUF files imply 32"),
        ("gemma2", {"attn_logit_softcapping": None}, "without attn_logit_softcapping is not supported"),
        ("gemma3_1b", {"attn_logit_softcapping": 5.0}, "attn_logit_softcapping is not supported"),
        ("gemma3_1b", {"use_bidirectional_attention": True}, "tokens that see the ones after them"),
        ("gemma3n", {"altup_num_inputs": 2}, "stream 0 of 2 is active"),
        ("granite", {"num_local_experts": 8}, "experts (num_local_experts) are not supported for this architecture"),
        ("gemma4_31b", {"num_experts": 8}, None),
        ("granitemoe", {"num_local_experts": 0}, "without experts (num_local_experts 0)"),
        ("ernie4_5_21b", {"use_bias": True}, "biases of projections (use_bias) are not supported"),
        ("ernie4_5_21b", {"moe_layer_end_index": 2}, "dense layers behind those with experts (moe_layer_end_index 2)"),
        ("ernie4_5_21b", {"moe_layer_end_index": -1}, None),
        ("hunyuan_moe", {"use_cla": True}, "keys and values of others (use_cla) are not supported"),
        ("hunyuan_moe", {"moe_layer_num_skipped": 1}, "without experts among others (moe_layer_num_skipped)"),
        ("hunyuan_moe", {"use_mixed_mlp_moe": False}, "without a shared one (use_mixed_mlp_moe false)"),
        ("hunyuan_moe", {"moe_topk": [3, 3, 2]}, "moe_topk that differs from layer to layer is not supported"),
        ("hunyuan_moe", {"moe_topk": 3, "num_experts": [8] * 3, "moe_intermediate_size": ...}, None),
        ("phimoe", {"router_jitter_noise": 0.02}, "router_jitter_noise other than 0.01 is not supported"),
        ("phimoe", {"num_experts_per_tok": 1}, "num_experts_per_tok other than 2 is not supported"),
        (
            "phimoe",
            {"rope_scaling": CASES["phimoe"].config["rope_scaling"] | {"long_mscale": 1.5}},
            "short_mscale other than long_mscale is not supported",
        ),
        ("llama4_scout", {"attention_chunk_size": 4096}, "another attention_chunk_size than that of Llama 4"),
        ("llama4_scout", {"floor_scale": 4096}, "another floor_scale than that of Llama 4"),
        ("llama4_scout", {"attn_scale": 0.2}, "another attn_scale than that of Llama 4"),
        ("llama4_scout", {"use_qk_norm": False}, "another use_qk_norm than that of Llama 4"),
        ("llama4_maverick", {"use_qk_norm": True}, "another use_qk_norm than that of Llama 4"),
        ("llama4_scout", {"no_rope_layers": [1, 1, 1, 1]}, "another no_rope_layers than that of Llama 4"),
        ("llama4_scout", {"layer_types": ["full_attention"] * 4}, "another layer_types than that of Llama 4"),
        (
            "llama4_scout",
            {"attn_temperature_tuning": False, "max_position_embeddings": 1 << 20},
            "another attn_temperature_tuning than that of Llama 4",
        ),
        ("llama4_scout", {"attn_temperature_tuning": False}, None),
        ("llama4_scout", {"attn_temperature_tuning": 4}, None),
        ("llama4_scout", {"no_rope_layers": [1, 1, 1, 0], "moe_layers": [0, 1, 2, 3]}, None),
        ("llama4_maverick", {"moe_layers": [0, 2]}, "moe_layers other than interleave_moe_layer_step gives"),
        ("dots1", {"sliding_window": 64, "max_window_layers": 1}, "layers with a window (max_window_layers)"),
        ("dots1", {"sliding_window": 64, "max_window_layers": 3}, None),
        ("ling2", {"norm_head": True}, "norm_head is not supported for bailingmoe2"),
        ("ling2", {"use_qk_norm": False}, "models without use_qk_norm are not supported"),
        ("ling2", {"num_shared_experts": 2}, "other than one shared expert as wide as the others"),
        ("cohere2_moe", {"shared_expert_combination_strategy": "sum"}, "shared experts that are added"),
        ("cohere2_moe", {"prefix_dense_sliding_window_pattern": 4}, "dense layers with neither a window nor RoPE"),
        ("cohere2_moe", {"mlp_layer_types": ["sparse", "dense"] * 3}, "some dense layers, then sparse ones"),
        ("cohere2_moe", {"expert_selection_fn": "cosine"}, "expert_selection_fn cosine is not supported"),
        ("cohere2_moe", {"layer_types": ..., "mlp_layer_types": ...}, None),
        ("mellum", {"mlp_layer_types": ["dense"] + ["sparse"] * 3}, "layers without experts (mlp_layer_types)"),
        ("mellum", {"norm_topk_prob": False}, "weights of experts that do not add up to 1 (norm_topk_prob)"),
        ("laguna_xs", {"moe_router_logit_softcapping": 30.0}, "soft caps of routers (moe_router_logit_softcapping)"),
        ("laguna_xs", {"moe_apply_router_weight_on_input": True}, "moe_apply_router_weight_on_input is not supported"),
        ("laguna_xs", {"gating": False}, "gating per-head is not supported for laguna"),
        ("laguna_xs", {"gating": "per-layer"}, "gating per-layer is not supported for laguna"),
        (
            "laguna_xs",
            {"gating_types": ["per_head", "per_element"] * 2},
            "gating_types that differ from layer to layer",
        ),
        ("laguna_xs", {"gating_types": ["per_head"] * 4}, None),
        ("deepseek_v3", {"attention_bias": True}, "biases of attention (attention_bias) are not supported"),
        ("deepseek_v3", {"rope_interleave": False}, "pairs are halves of a head (rope_interleave false)"),
        ("deepseek_v3", {"moe_layer_freq": 2}, "layers without experts among others (moe_layer_freq)"),
        (
            "deepseek_v3",
            {"rope_scaling": CASES["deepseek_v3"].config["rope_scaling"] | {"mscale": 0.5}},
            "yarn whose mscale is not mscale_all_dim is not supported",
        ),
        ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method 'noaux_tc' is not supported"),
        ("deepseek_v2", {"norm_topk_prob": True}, "weights of experts that add up to 1 (norm_topk_prob)"),
        ("glm_4_7_flash", {"mlp_layer_types": ["dense", "sparse", "dense"]}, "dense layers behind sparse ones"),
        ("glm_4_7_flash", {"mlp_layer_types": ["dense", "sparse", "sparse"], "first_k_dense_replace": ...}, None),
        ("gpt_oss", {"swiglu_limit": 10.0}, "swiglu_limit 10 is not supported, only 7"),
        ("gpt_oss", {"swiglu_alpha": 1.0}, "swiglu_alpha 1 is not supported, only 1.702"),
        ("gpt_oss", {"hidden_act": "gelu"}, "hidden_act gelu is not supported for gpt-oss, only silu and swish"),
        ("gpt_oss", {"swiglu_limit": ..., "rope_theta": ...}, None),
        ("gemma4_31b", {"use_bidirectional_attention": "all"}, "tokens that see the ones after them"),
        ("smollm3", {"use_sliding_window": True}, "sliding windows (use_sliding_window) are not supported"),
        ("smollm3", {"no_rope_layers": [1, 0, 1, 0, 1, 0, 1, 0]}, "no_rope_layers other than every 4th"),
        ("ministral3", {"rope_parameters": ...}, None),
        ("cohere2", {"rotary_pct": 0.5}, "whole heads rotated (rotary_pct)"),
        ("muse_glimmer", {"post_norm_eps": 1e-6}, "post_norm_eps other than 1e-08"),
        (
            "starcoder2",
            {"hidden_act": "relu"},
            "hidden_act relu is not supported for starcoder2, only gelu_pytorch_tanh",
        ),
        ("starcoder2", {"use_bias": False}, "StarCoder2 without biases (use_bias) is not supported"),
        ("granite", {"hidden_act": "gelu"}, "hidden_act gelu is not supported for granite, only silu and swish"),
        ("granite", {"partial_rotary_factor": 0.5}, "heads that are rotated in part"),
        ("phi4", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope scaling yarn is not supported"),
        ("olmo2", {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "differ from layer to layer"),
        (
            "ministral3",
            {"rope_parameters": {"rope_type": "yarn", "factor": 8.0, "mscale": 0.7, "mscale_all_dim": 1.0}},
            "GGUF has mscale 1 only",
        ),
    ],
)
def test_what_gguf_or_edgellm_cannot_express_is_refused_by_name(
    described: Described, name: str, changes: dict[str, Any], expected: str | None
) -> None:
    if expected is None:
        described(name, **changes)
        return
    with pytest.raises(UnsupportedModelError) as error:
        described(name, **changes)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("gemma4_e2b", {"num_kv_shared_layers": 6}, "num_kv_shared_layers is 6, not a whole number from 0 to 5"),
        ("gemma3n", {"activation_sparsity_pattern": [0.95]}, "activation_sparsity_pattern must have 24 numbers"),
        ("gemma3n", {"activation_sparsity_pattern": [1.0] * 24}, "activation_sparsity_pattern must have 24 numbers"),
        ("gemma3n", {"intermediate_size": [64, 64]}, "intermediate_size is [64, 64], not a whole number"),
        ("olmo3", {"layer_types": ["full_attention"]}, "layer_types must have sliding_attention or full_attention"),
        ("phi3_5_long", {"max_position_embeddings": "x"}, "max_position_embeddings is 'x'"),
        ("glm4", {"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5"),
        ("gemma4_31b", {"enable_moe_block": True}, "has no num_experts"),
        ("gemma4_26b", {"top_k_experts": 9}, "top_k_experts is 9, and num_experts is 8"),
        ("gemma4_26b", {"enable_moe_block": False}, "has no place in this gemma4 model"),
        ("granitemoe", {"num_experts_per_tok": 9}, "9 experts compute each token, and num_local_experts is 8"),
        ("granitemoe", {"intermediate_size": 31}, "input_linear.weight has shape [8, 64, 64], not [8, 62, 64]"),
        ("granitemoe_shared", {"shared_intermediate_size": 47}, "has shape [96, 64], not [94, 64]"),
        ("granitemoe_shared", {"shared_intermediate_size": ...}, "has no place in this granitemoe model"),
        ("ernie4_5_21b", {"moe_layer_start_index": 5}, "moe_layer_start_index is 5, not a whole number from 0 to 4"),
        ("ernie4_5_21b", {"moe_layer_interval": 2}, "has no tensor for blk.2.ffn_gate.weight"),
        ("ernie4_5_21b", {"moe_num_shared_experts": 1}, "has shape [64, 64], not [64, 32]"),
        ("hunyuan_moe", {"moe_topk": 9}, "9 experts compute each token, and num_experts is 8"),
        ("hunyuan_moe", {"moe_intermediate_size": [16] * 3}, "has shape [64, 32], not [64, 16]"),
        ("hunyuan_moe", {"num_shared_expert": 2}, "has shape [64, 32], not [64, 64]"),
        ("gpt_oss", {"num_local_experts": 9}, "has shape [8, 96, 64], not [9, 96, 64]"),
        ("gpt_oss", {"layer_types": ["full_attention"]}, "layer_types must have sliding_attention or full_attention"),
        ("phimoe", {"lm_head_bias": False}, "tensor lm_head.bias has no place"),
        ("glm4_5", {"use_qk_norm": False}, "5 layers have a norm of q, and by use_qk_norm 0 should"),
        ("glm4_5_air", {"use_qk_norm": True}, "0 layers have a norm of q, and by use_qk_norm 4 should"),
        ("glm4_5_air", {"num_nextn_predict_layers": 0}, "model.layers.3.eh_proj.weight has no place in this glm4moe"),
        ("glm4_5_air", {"num_nextn_predict_layers": 2}, "no tensor for blk.4."),
        ("glm4_5_air", {"first_k_dense_replace": 0}, "has no tensor for blk.0.ffn_gate_inp.weight"),
        ("glm4_5_air", {"n_shared_experts": 2}, "has shape [64, 32], not [64, 64]"),
        ("glm4_5_air", {"num_experts_per_tok": 9}, "9 experts compute each token, and n_routed_experts is 8"),
        ("llama4_maverick", {"intermediate_size_mlp": 64}, "has shape [64, 96], not [64, 64]"),
        ("llama4_maverick", {"interleave_moe_layer_step": 1}, "has no tensor for blk.0.ffn_gate_inp.weight"),
        ("laguna_xs", {"gating": "per-element"}, "g_proj.weight has shape [4, 64], not [64, 64]"),
        ("laguna_xs", {"num_attention_heads_per_layer": [4] * 4}, "g_proj.weight has shape [6, 64], not [4, 64]"),
        ("laguna_xs", {"num_attention_heads_per_layer": [4, 5, 6, 6]}, "has heads that cannot share 2 key-value heads"),
        ("phimoe_long", {"lm_head_bias": True}, "has no tensor for output.bias"),
        ("deepseek_v3", {"v_head_dim": 16}, "self_attn.kv_b_proj.weight has shape [176, 64], not [160, 64]"),
        ("deepseek_v3", {"q_lora_rank": None}, "self_attn.q_a_layernorm.weight has no place"),
        ("deepseek_v2_lite", {"q_lora_rank": 40}, "has no tensor for blk.0.attn_q_a.weight"),
        ("deepseek_v2", {"first_k_dense_replace": 2}, "has no tensor for blk.1.ffn_gate.weight"),
    ],
)
def test_contradictions(described: Described, name: str, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ModelFileError) as error:
        described(name, **changes)
    assert expected in str(error.value)


def test_factors_of_longrope_are_as_many_as_rotated_pairs(described: Described) -> None:
    scaling = CASES["phi3_5_long"].config["rope_scaling"]
    short = scaling | {"long_factor": scaling["long_factor"][:-1]}
    with pytest.raises(ModelFileError, match=r"long_factor has \d+ factors for \d+ rotated pairs"):
        described("phi3_5_long", rope_scaling=short)


def test_windows_are_written_where_gguf_implies_others(described: Described) -> None:
    plain, _ = described("gemma3_1b")
    assert "gemma3.attention.sliding_window_pattern" not in plain
    every_second = ["sliding_attention", "full_attention"] * 4
    metadata, _ = described("gemma3_1b", layer_types=every_second)
    assert metadata["gemma3.attention.sliding_window_pattern"].value == [i % 2 == 0 for i in range(7)]
    without, _ = described("gemma3_1b", sliding_window_pattern=1)
    assert not any("sliding_window" in key for key in without)


def test_layers_for_multi_token_prediction_may_have_been_left_out(tmp_path: Path) -> None:
    """As transformers, and tools that quantize, save such a checkpoint: config.json still counts them."""
    folder = rewritten("glm4_5_air", tmp_path / "in", lambda name: None if ".layers.3." in name else name)
    metadata, sources = with_config(folder, CASES["glm4_5_air"].config)
    found = {key.removeprefix("glm4moe."): value.value for key, value in metadata.items()}
    assert (found["block_count"], found["nextn_predict_layers"], found["leading_dense_block_count"]) == (3, 0, 1)
    assert not any(source.name.startswith("blk.3.") for source in sources)


def test_the_first_layers_of_cohere_have_a_pattern_of_their_own(described: Described) -> None:
    """The pattern of the others begins behind them."""
    metadata, _ = described("cohere2_moe", layer_types=..., mlp_layer_types=...)
    windowed = metadata["cohere2moe.attention.sliding_window_pattern"].value
    assert windowed == [False, True, True, True, False]


def test_zeros_of_devstral_2_are_the_usual_yarn_without_temperature(described: Described) -> None:
    rope = CASES["ministral3"].config["text_config"]["rope_parameters"] | {
        "mscale_all_dim": 0.0,
        "llama_4_scaling_beta": 0.0,
    }
    metadata, _ = described("ministral3", rope_parameters=rope)
    found = {key.removeprefix("mistral3."): value.value for key, value in metadata.items()}
    assert found["rope.scaling.yarn_log_multiplier"] == found["attention.temperature_scale"] == 0
    assert "rope.scaling.attn_factor" not in found


def test_stablelm_before_transformers_had_it(folders: Callable[[str], Path], described: Described) -> None:
    wanted, _ = described("stablelm_1_6b")
    config = dict(CASES["stablelm_1_6b"].config)
    old = {"norm_eps": config.pop("layer_norm_eps"), "rope_pct": config.pop("partial_rotary_factor")}
    found, _ = with_config(folders("stablelm_1_6b"), config | old | {"architectures": ["StableLMEpochForCausalLM"]})
    assert found == wanted


def test_the_last_layer_of_gemma_4_sees_all_tokens(described: Described) -> None:
    kinds = ["sliding_attention", "sliding_attention", "full_attention"] * 2
    wanted = described("gemma4_31b", layer_types=kinds)[0]["gemma4.attention.sliding_window_pattern"].value
    last_too = described("gemma4_31b", layer_types=[*kinds[:-1], "sliding_attention"])[0]
    assert last_too["gemma4.attention.sliding_window_pattern"].value == wanted == [True, True, False] * 2


def test_a_text_model_needs_no_more_than_what_differs_from_the_defaults(described: Described) -> None:
    """As Gemma 3 4B is published: transformers knows the rest."""
    with pytest.raises(ModelFileError, match=r"embed_tokens.weight has shape \[271, 64\], not \[262208, 64\]"):
        described("gemma3_4b", vocab_size=...)
    with pytest.raises(ModelFileError, match=r"k_norm.weight has shape \[32\], not \[256\] as config.json asks"):
        described("gemma3_4b", head_dim=..., query_pre_attn_scalar=...)


def rewritten(name: str, folder: Path, rename: Callable[[str], str | None]) -> Path:
    """The checkpoint of a case with other names of tensors, without those that have none."""
    folder.mkdir()
    tensors = {rename(key): (key, tensor) for key, tensor in load_reference(name).tensors.items()}
    stored = {
        new: Stored("BF16", tensor.shape, tensor.bfloat16(old))
        for new, (old, tensor) in tensors.items()
        if new is not None
    }
    assert stored.keys() != load_reference(name).tensors.keys()
    write_safetensors(folder / "model.safetensors", stored)
    return folder


def test_the_names_of_newer_transformers_are_the_same_model(described: Described, tmp_path: Path) -> None:
    """Before 4.52 the text model of a larger one was language_model.model, as Gemma 3 is published."""
    wanted = {source.name: source for source in described("gemma3_4b")[1]}
    new = rewritten(
        "gemma3_4b",
        tmp_path / "new",
        lambda name: name.replace("language_model.model.", "model.language_model.").replace("vision_", "model.vision_"),
    )
    found = {source.name: source for source in with_config(new, CASES["gemma3_4b"].config)[1]}
    assert found.keys() == wanted.keys()
    for name, source in wanted.items():
        assert np.array_equal(found[name].rows(0, source.row_count), source.rows(0, source.row_count)), name


def test_the_vision_tower_is_left_out_in_one_line(folders: Callable[[str], Path]) -> None:
    (folders("gemma3_4b") / "config.json").write_text(json.dumps(CASES["gemma3_4b"].config), encoding="utf-8")
    with pytest.warns(EdgeLLMWarning, match="left out: images and sound, not needed to write text") as seen:
        describe(Checkpoint.open(folders("gemma3_4b")))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("name", "lost", "expected"),
    [
        ("gemma4_e2b", "layers.0.self_attn.v_proj", "no tensor for blk.0.attn_v.weight"),
        ("gemma3n", "altup_projections.1", "has 2 of 3 parts of altup_proj.weight"),
        ("stablelm_12b", "layers.0.self_attn.q_layernorm.norms.1.", "parts of blk.0.attn_q_norm.weight"),
        ("gemma3n", "altup_unembed_projections.[12]", "has 1 of 3 parts of altup_unembd_proj.weight"),
        ("gpt_oss", "layers.1.mlp.experts.gate_up_proj_bias", "no tensor for blk.1.ffn_gate_exps.bias"),
        ("gpt_oss", "layers.2.self_attn.sinks", "no tensor for blk.2.attn_sinks.weight"),
        ("apertus", "layers.1.mlp.act_fn.beta", "has no mlp.act_fn.beta in layer 1"),
        ("muse_glimmer", "layers.0.self_attn.gate_proj", "no tensor for blk.0.attn_gate.weight"),
    ],
)
def test_a_lost_tensor_is_named(tmp_path: Path, name: str, lost: str, expected: str) -> None:
    folder = rewritten(name, tmp_path / "in", lambda key: None if re.search(lost, key) else key)
    with pytest.raises(ModelFileError, match=expected):
        with_config(folder, CASES[name].config)


JUNK: list[Any] = ["x", -1, 0, [], {}, None, True, 1e300, 10**12, [1], {"a": 1}, [{}], 3, float("nan"), {"0": {"a": 3}}]


def keys_of(config: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in config.items():
        yield (*above, key)
        if isinstance(value, dict) and key != "vision_config":
            yield from keys_of(value, (*above, key))


@pytest.mark.parametrize("name", CASES)
def test_damaged_configurations_are_one_line(folders: Callable[[str], Path], name: str) -> None:
    drawn = random.Random(name)
    paths = [*keys_of(CASES[name].config), ("per_layer_config",), ("layer_types",), ("num_experts",)]
    for path in drawn.choices(paths, k=6):
        config = copy.deepcopy(CASES[name].config)
        place = config
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = drawn.choice(JUNK)
        try:
            with_config(folders(name), config)
        except EdgeLLMError as error:
            assert "\n" not in str(error)


def test_greedy_routers_have_no_groups_whatever_config_says(described: Described) -> None:
    for name, groups in (("deepseek_v2", (8, 3)), ("deepseek_v2_lite", (1, 1))):
        metadata, _ = described(name)
        found = (metadata[f"deepseek2.expert_{key}"].value for key in ("group_count", "group_used_count"))
        assert tuple(found) == groups
    metadata, _ = described("deepseek_v2_lite", n_group=4, topk_group=2)
    assert metadata["deepseek2.expert_group_count"].value == metadata["deepseek2.expert_group_used_count"].value == 1


def test_keys_and_values_of_latents_are_split_from_scaled_fp8(tmp_path: Path) -> None:
    """The published V3 has matrices of FP8 with a scale for each block."""
    name, heads, plain, value = "model.layers.0.self_attn.kv_b_proj.weight", 4, 24, 20
    drawn = load_reference("deepseek_v3").tensors
    matrix = np.random.default_rng(1).standard_normal(drawn[name].shape).astype(np.float32)
    data, scales = scale_to_fp8(matrix, "F8_E4M3", "block")
    stored = {key: Stored("BF16", each.shape, each.bfloat16(key)) for key, each in drawn.items() if key != name}
    stored |= {name: Stored("F8_E4M3", matrix.shape, data)}
    stored |= {f"{name}_scale_inv": Stored("F32", scale_shapes(matrix.shape)["block"], scales)}
    write_safetensors(tmp_path / "model.safetensors", stored)
    _, sources = with_config(tmp_path, CASES["deepseek_v3"].config)
    k, v = (next(each for each in sources if each.name == f"blk.0.attn_{kind}_b.weight") for kind in "kv")
    blocks = scales.view(np.float32).reshape(scale_shapes(matrix.shape)["block"])
    exact = fp8_values("F8_E4M3")[data].reshape(matrix.shape) * blocks.repeat(128, 0)[: len(matrix)]
    by_head = exact.reshape(heads, plain + value, -1)
    for made, wanted in ((k, by_head[:, :plain].transpose(0, 2, 1)), (v, by_head[:, plain:])):
        assert made.shape == wanted.shape and made.type == "F32"
        rows = np.concatenate([made.rows(i, min(i + 7, made.row_count)) for i in range(0, made.row_count, 7)])
        assert np.array_equal(rows.view(np.float32).reshape(wanted.shape), wanted)
