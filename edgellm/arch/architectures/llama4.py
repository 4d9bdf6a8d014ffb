"""Llama 4, the text model: Scout and Maverick.

Three of four layers have RoPE and attend within chunks of 8192 tokens; the fourth has neither, and its queries are
scaled by position. In models that norm heads, q and k of layers with RoPE are normed behind it, without weights; no key
of a file says so, and only Maverick, with its 128 experts, does not. The weight of the one chosen expert, a sigmoid,
multiplies what the expert reads. A shared expert is added. In Maverick every second layer is dense.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings, Scoring
from edgellm.arch.positions import AttentionTemperature, RopeType
from edgellm.arch.refuse import refuse
from edgellm.arch.tensor_names import ATTENTION, ATTENTION_TENSORS, PRE_NORM_TENSORS, FusedTensor, TensorFacts

CHUNK = 8192
"""Tokens of a chunk, and of a step of the scale of queries: the same in all models, and no key of a file."""

EXPERTS_WITHOUT_HEAD_NORMS = 128
"""The experts of Maverick."""


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention: chunks and RoPE in three of four layers, scaled queries in the fourth."""
    if "attention.sliding_window" in hyper:
        key = hyper.key("attention.sliding_window")
        refuse(hyper.file, f"key {key} says that the model has no chunks of {CHUNK} tokens; that is not supported")
    settings = grouped_query_attention(hyper, layer)
    if _has_rope(layer):
        return replace(settings, window=CHUNK, chunked=True)
    return replace(settings, rope=None, temperature=AttentionTemperature(0.1, CHUNK, offset=1))


def _has_rope(layer: int) -> bool:
    return layer % 4 < 3


def norms_heads(hyper: HyperParameters, layer: int) -> bool:
    """Whether the heads of q and k are normed."""
    return _has_rope(layer) and hyper.experts != EXPERTS_WITHOUT_HEAD_NORMS


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """The router of the last of each `interleave_moe_layer_step` layers."""
    step, key = hyper.integer("interleave_moe_layer_step"), hyper.key("interleave_moe_layer_step")
    if not 0 < step <= hyper.layer_count or not hyper.experts:
        hyper.file.fail(f"key {key} is {step}, with {hyper.experts} experts; get another conversion of the model")
    if (layer + 1) % step:
        return None
    return RouterSettings(hyper.experts, hyper.used_experts, Scoring.SIGMOID, weighs_input=True)


_DEFAULTS: dict[str, object] = {
    "vocab_size": 202048,
    "max_position_embeddings": 131072,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1,
}

FACTS = ArchitectureFacts(
    name="llama4",
    rope_type=RopeType.NORM,
    block_tensors=(
        *ATTENTION_TENSORS,
        TensorFacts("ffn_gate", "feed_forward.gate_proj", None, ("ffn", "width")),
        TensorFacts("ffn_up", "feed_forward.up_proj", None, ("ffn", "width")),
        TensorFacts("ffn_down", "feed_forward.down_proj", None, ("width", "ffn")),
        *PRE_NORM_TENSORS,
        TensorFacts("ffn_gate_inp", "feed_forward.router", None, ("experts", "width")),
        TensorFacts("ffn_gate_exps", "feed_forward.experts.*.gate_proj", None, ("experts", "expert_ffn", "width")),
        TensorFacts("ffn_up_exps", "feed_forward.experts.*.up_proj", None, ("experts", "expert_ffn", "width")),
        TensorFacts("ffn_down_exps", "feed_forward.experts.*.down_proj", None, ("experts", "width", "expert_ffn")),
        TensorFacts("ffn_gate_shexp", "feed_forward.shared_expert.gate_proj", None, ("shared_ffn", "width")),
        TensorFacts("ffn_up_shexp", "feed_forward.shared_expert.up_proj", None, ("shared_ffn", "width")),
        TensorFacts("ffn_down_shexp", "feed_forward.shared_expert.down_proj", None, ("width", "shared_ffn")),
    ),
    fused_tensors=(
        FusedTensor("feed_forward.experts.gate_up_proj", ("ffn_gate_exps", "ffn_up_exps"), transposed=True),
        FusedTensor("feed_forward.experts.down_proj", ("ffn_down_exps",), transposed=True),
    ),
    optional_biases=ATTENTION,
    norm_after_rope=True,
    weightless_qk_norm=norms_heads,
    attention=attention,
    router=router,
    checkpoints=tuple(
        CheckpointClass(name=f"Llama4For{kind}", defaults=_DEFAULTS, bias_keys={"attention_bias": ATTENTION})
        for kind in ("ConditionalGeneration", "CausalLM")
    ),
    checkpoint_rope_type=RopeType.NORM,
    writes_vocab_size=True,
    optional_biases_in_llamacpp=False,
)
