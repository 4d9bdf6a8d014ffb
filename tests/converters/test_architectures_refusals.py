"""Checkpoints of the families: variants that are refused by name, and configurations that contradict the tensors."""

from typing import Any

import pytest

from edgellm.errors import ModelFileError, UnsupportedModelError
from support.described_checkpoint import Described
from support.families import CASES


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
        ("cohere2_moe", {"mlp_layer_types": ["dense"] * 2 + ["linear"] * 4}, "some dense layers, then sparse ones"),
        ("cohere2_moe", {"expert_selection_fn": "cosine"}, "expert_selection_fn cosine is not supported"),
        ("cohere2_moe", {"layer_types": ..., "mlp_layer_types": ...}, None),
        ("mellum", {"mlp_layer_types": ["dense"] + ["sparse"] * 3}, "layers without experts (mlp_layer_types)"),
        ("mellum", {"norm_topk_prob": False}, "weights of experts that do not add up to 1 (norm_topk_prob)"),
        ("laguna_xs", {"moe_router_logit_softcapping": 30.0}, "soft caps of routers (moe_router_logit_softcapping)"),
        ("laguna_xs", {"moe_apply_router_weight_on_input": True}, "moe_apply_router_weight_on_input is not supported"),
        ("laguna_xs", {"gating": False}, "attention without a gate (gating false)"),
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
        ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method noaux_tc is not supported"),
        ("deepseek_v2", {"norm_topk_prob": True}, "weights of experts that add up to 1 (norm_topk_prob)"),
        ("glm_4_7_flash", {"mlp_layer_types": ["dense", "sparse", "dense"]}, "some dense layers, then sparse ones"),
        ("glm_4_7_flash", {"mlp_layer_types": ["dense", "sparse", "sparse"], "first_k_dense_replace": ...}, None),
        ("gpt_oss", {"swiglu_limit": 10.0}, "swiglu_limit 10 is not supported, only 7"),
        ("gpt_oss", {"swiglu_alpha": 1.0}, "swiglu_alpha 1 is not supported, only 1.702"),
        ("gpt_oss", {"hidden_act": "gelu"}, "hidden_act gelu is not supported for gpt-oss, only silu and swish"),
        ("gpt_oss", {"swiglu_limit": ..., "rope_theta": ...}, None),
        ("gemma4_31b", {"use_bidirectional_attention": "all"}, "tokens that see the ones after them"),
        ("qwen3_5", {"attention_bias": True}, "biases of attention (attention_bias) are not supported"),
        ("qwen3_5", {"attn_output_gate": False}, "attention without a gate (attn_output_gate false)"),
        ("qwen3_5", {"num_experts": 8}, "experts (num_experts) are not supported for this architecture"),
        ("qwen3_5_moe", {"hidden_act": "gelu"}, "hidden_act gelu is not supported for qwen35moe"),
        ("qwen3_next", {"mlp_only_layers": [1]}, "layers without experts among others (decoder_sparse_step"),
        ("qwen3_next", {"norm_topk_prob": False}, "weights of experts that do not add up to 1 (norm_topk_prob)"),
        ("qwen3_next", {"norm_topk_prob": ..., "linear_num_value_heads": 4, "linear_conv_kernel_dim": ...}, None),
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
            "mamba2",
            {"use_bias": True},
            "biases of projections (use_bias) are not supported for this architecture",
        ),
        ("mamba2", {"hidden_act": "gelu"}, "hidden_act gelu is not supported for mamba2"),
        ("mamba2", {"time_step_limit": [0.001, 0.1]}, "limits of the time step (time_step_limit)"),
        ("mamba2", {"time_step_limit": [0.0, {"__float__": "Infinity"}]}, None),
        ("mamba2", {"time_step_limit": [0, float("inf")]}, None),
        ("granite4_h_tiny", {"mamba_proj_bias": True}, "biases of projections (mamba_proj_bias)"),
        ("granite4_h_tiny", {"time_step_limit": [0.0, 1.0]}, "limits of the time step (time_step_limit)"),
        ("falcon_h1", {"mamba_norm_before_gate": True}, "norm of Mamba-2 before its gate (mamba_norm_before_gate)"),
        ("falcon_h1", {"mamba_norm_before_gate": ...}, "norm of Mamba-2 before its gate (mamba_norm_before_gate)"),
        ("falcon_h1", {"projectors_bias": True}, "biases of projections (projectors_bias)"),
        ("falcon_h1", {"attention_bias": True}, "biases of projections (attention_bias)"),
        ("falcon_h1", {"mlp_bias": True}, "biases of projections (mlp_bias)"),
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
        ("mamba2", {"num_heads": 6}, "Mamba-2 layers of 128 values cannot have 6 heads of 16"),
        ("mamba2", {"n_groups": 3}, "8 heads of Mamba-2 cannot share 3 groups of B and C"),
        ("mamba2", {"n_groups": ...}, "conv1d.bias has shape [192], not [640]"),
        ("mamba2", {"conv_kernel": 3}, "conv1d.weight has shape [192, 1, 4], not [192, 1, 3]"),
        ("mamba2", {"conv_kernel": 5}, "conv_kernel is 5, not a whole number from 2 to 4"),
        ("granite4_h_tiny", {"layer_types": ["mamba"] * 3}, "layer_types must have mamba or attention for each of 4"),
        ("granite4_h_tiny", {"layer_types": ["attention"] * 4}, "mamba.A_log has no place in this granitehybrid model"),
        ("granite4_h_tiny", {"layer_types": ...}, "self_attn.k_proj.weight has no place"),
        ("granite4_h_tiny", {"mamba_expand": 3}, "Mamba-2 layers of 192 values cannot have 8 heads of 16"),
        ("granite4_h_micro", {"attention_bias": False}, "self_attn.k_proj.bias has no place"),
        ("granite4_h_micro", {"num_local_experts": ...}, "num_experts_per_tok is 0, not a whole number from 1"),
        ("falcon_h1", {"mamba_d_ssm": None}, "Mamba-2 layers of 128 values cannot have 6 heads of 16"),
        ("falcon_h1", {"mlp_multipliers": [1.0]}, "mlp_multipliers has 1 multipliers, not 2"),
        ("falcon_h1", {"ssm_multipliers": [1.0] * 6}, "ssm_multipliers has 6 multipliers, not 5"),
        ("falcon_h1", {"key_multiplier": -1.0}, "key_multiplier is -1.0, not a number from 0"),
        ("falcon_h1", {"mamba_rms_norm": False}, "3 layers have a norm of Mamba-2, and by mamba_rms_norm 0 should"),
        ("gemma4_e2b", {"num_kv_shared_layers": 6}, "num_kv_shared_layers is 6, not a whole number from 0 to 5"),
        ("gemma3n", {"activation_sparsity_pattern": [0.95]}, "activation_sparsity_pattern must have 24 numbers"),
        ("gemma3n", {"activation_sparsity_pattern": [1.0] * 24}, "activation_sparsity_pattern must have 24 numbers"),
        ("gemma3n", {"intermediate_size": [64, 64]}, "intermediate_size is [64, 64], not a whole number"),
        (
            "qwen3_5",
            {"layer_types": ["linear_attention"] * 4},
            "layer_types must have linear_attention or full_attention",
        ),
        ("qwen3_5", {"layer_types": ["sliding_attention"] * 5}, "layer_types must have linear_attention or full_atte"),
        ("qwen3_5", {"layer_types": ["full_attention"] * 5}, "has no place in this qwen35 model"),
        ("qwen3_5", {"layer_types": ["linear_attention"] * 5}, "has no place in this qwen35 model"),
        ("qwen3_5", {"linear_num_value_heads": 5}, "5 heads of values cannot share 2 heads of keys"),
        ("qwen3_5", {"linear_num_value_heads": 4}, "A_log has shape [6], not [4]"),
        ("qwen3_5", {"linear_num_key_heads": 0}, "linear_num_key_heads is 0, not a whole number from 1"),
        ("qwen3_5", {"linear_conv_kernel_dim": 17}, "linear_conv_kernel_dim is 17, not a whole number from 1 to 16"),
        ("qwen3_5", {"linear_conv_kernel_dim": 3}, "conv1d.weight has shape [256, 1, 4], not [256, 1, 3]"),
        ("qwen3_5", {"linear_value_head_dim": "wide"}, "linear_value_head_dim is 'wide'"),
        ("qwen3_5", {"mtp_num_hidden_layers": 2}, "mtp_num_hidden_layers is 2, and the checkpoint has 1 such layers"),
        ("qwen3_5", {"intermediate_size": ...}, "has no intermediate_size"),
        ("qwen3_5_moe", {"full_attention_interval": 0}, "full_attention_interval is 0, not a whole number from 1"),
        ("qwen3_next", {"linear_value_head_dim": 32}, "has shape [128, 1, 4], not [192, 1, 4]"),
        ("olmo3", {"layer_types": ["full_attention"]}, "layer_types must have sliding_attention or full_attention"),
        ("phi3_5_long", {"max_position_embeddings": "x"}, "max_position_embeddings is 'x'"),
        ("glm4", {"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5"),
        ("gemma4_31b", {"enable_moe_block": True}, "has no num_experts"),
        ("gemma4_26b", {"top_k_experts": 9}, "9 experts compute each token, and num_experts is 8"),
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
