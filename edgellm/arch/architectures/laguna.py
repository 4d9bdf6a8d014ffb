"""Laguna (poolside): XS, S and M. Each head of q and k is normed; layers may differ in their number of heads.

The result of attention is multiplied by the softplus of a gate, which has a value for each head, or for each value of a
head. XS and S have a window in three of four layers, whose RoPE has a base and a width of its own and no scaling. The
first layers are dense; the others have a shared expert beside those that the router chooses by biased sigmoids.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import PATTERN, grouped_query_attention, has_window, is_windowed, rope_dims
from edgellm.arch.blocks import AttentionSettings, GateFunction
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import keyed_router
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    EXPERT_TENSORS,
    FUSED_EXPERTS,
    GATED_FEED_FORWARD_TENSORS,
    HEAD_NORMS,
    PRE_NORM_TENSORS,
    ROUTER,
    SELECTION_BIAS,
    SHARED_EXPERT_TENSORS,
    TensorFacts,
)


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention with a gate, and with a RoPE of their own in windowed layers."""
    settings = grouped_query_attention(hyper, layer)
    gate = hyper.file.tensors.get(f"blk.{layer}.attn_gate.weight")
    per_head = gate is not None and gate.shape[0] == settings.heads
    settings = replace(settings, gate_function=GateFunction.SOFTPLUS, gate_per_head=per_head)
    if not _is_windowed(hyper, layer):
        return replace(settings, window=None)
    base = hyper.number("rope.freq_base_swa", hyper.number("rope.freq_base", 10000.0))
    dims = rope_dims(hyper, settings.key_dim, "rope.dimension_count_swa")
    return replace(settings, rope=hyper.rope(dims, base=base, scaled=False))


def _is_windowed(hyper: HyperParameters, layer: int) -> bool:
    """Whether a layer has the file's window: all but the first of each four, unless the file names the layers."""
    if hyper.file.is_array(hyper.key(PATTERN)) or not has_window(hyper):
        return has_window(hyper) and is_windowed(hyper, layer, every=0)
    return layer % 4 > 0


FACTS = ArchitectureFacts(
    name="laguna",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *HEAD_NORMS,
        TensorFacts("attn_gate", "self_attn.g_proj", None, ("gate_width", "width")),
        *GATED_FEED_FORWARD_TENSORS,
        *PRE_NORM_TENSORS,
        ROUTER,
        replace(SELECTION_BIAS, hugging_face="mlp.experts.e_score_correction_bias"),
        *EXPERT_TENSORS,
        *SHARED_EXPERT_TENSORS,
    ),
    fused_tensors=FUSED_EXPERTS,
    router=keyed_router,
    attention=attention,
    checkpoints=(
        CheckpointClass(
            name="LagunaForCausalLM",
            defaults={
                "max_position_embeddings": 131072,
                "num_attention_heads": 48,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "rope_theta": 500000.0,
                "num_experts": 256,
                "num_experts_per_tok": 8,
                "moe_intermediate_size": 512,
                "shared_expert_intermediate_size": 512,
            },
            sliding_window="always",
            dual_rope=True,
        ),
    ),
)
