"""What the shaders lack to compute a block; known without a GPU.

A field of a description that no shader knows is an obstacle unless it has its default value or none: what is new in a
description stays on the CPU until there is a shader for it.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from edgellm.arch.blocks import Activation, Attention, FeedForward, Layer, Linear, Norm, NormKind, StackedLinear
from edgellm.arch.description import Description
from edgellm.arch.latent_attention import LatentAttention
from edgellm.arch.mixture import MixtureOfExperts, Router, Scoring
from edgellm.arch.positions import AttentionTemperature, Rope, RopeType
from edgellm.engine.offload import block_tensors
from edgellm.engine.placement import head
from edgellm.engine.webgpu.shaders import ACTIVATIONS, FORMATS, KV_TYPES
from edgellm.gguf import Tensor

_MAX_HEAD_DIM = 512
"""Attention has a lane for every four values of a head, and up to 128 lanes."""

_MAX_EXPERTS = 1024
"""The scores of a row's experts, and what they are chosen by, are in the memory of a workgroup."""

_PLAIN_NORMS = ("q_norm", "k_norm", "v_norm", "post_norm")
"""Norms that only RMSNorm without a bias has shaders for."""

_EMBEDDING = {"embedding", "embedding_norm", "embedding_scale", "per_layer_embeddings"}
"""Fields that only the CPU reads, which looks up embeddings."""

KNOWN_FIELDS: dict[type, set[str]] = {
    Description: {"width", "vocab", "context_length", "layers", "output_norm", "output", *_EMBEDDING}
    | {"residual_scale", "logit_scale", "logit_soft_cap"},
    Layer: {"attention", "feed_forward", "output_scale", "recurrent"},
    Attention: {"heads", "kv_heads", "key_dim", "value_dim", "rope", "scale", "window", "soft_cap", "temperature"}
    | {"norm", "q", "k", "v", "output", "q_norm", "k_norm", "v_norm", "norm_after_rope", "sinks", "gate", "gate_in_q"}
    | {"post_norm"},
    FeedForward: {"norm", "gate", "up", "down", "activation", "parameters", "post_norm"},
    MixtureOfExperts: {"norm", "router", "gate", "up", "down", "activation", "parameters"}
    | {"shared", "shared_gate", "shared_scale"},
    Router: {"experts", "used", "scoring", "normalized", "scale", "logit_scale", "groups", "used_groups"}
    | {"group_scores", "logits", "selection_bias", "expert_scales"},
    StackedLinear: {"weight", "rows", "first", "bias"},
    Norm: {"weight", "bias", "eps", "kind"},
    Linear: {"weight", "bias"},
    AttentionTemperature: {"scale", "original_context", "offset"},
    Rope: {"frequencies", "magnitude", "rope_type", "long", "original_context"},
}
"""The fields that the lowering reads, by class. `_of_attention` and others say which of their values have no shader."""

_WORDS = {
    (Layer, "parallel"): "parallel blocks",
    (Layer, "per_layer_input"): "per-layer embeddings",
    (Attention, "kv_layer"): "attention over the keys and values of another layer",
    (Attention, "chunked"): "attention in chunks",
    (Attention, "gate_function"): "gates of attention by softplus",
    (Attention, "gate_per_head"): "gates of whole heads",
    (FeedForward, "sparsity"): "sparse activations",
    (MixtureOfExperts, "latent_down"): "experts that read a latent",
    (MixtureOfExperts, "sum_norm"): "a norm of the sum of experts",
    (MixtureOfExperts, "post_norm"): "a norm behind experts",
    (Router, "norm"): "routers with a norm of their own",
    (Router, "weighs_input"): "routers that weigh what experts read",
    (Layer, "laurel"): "LAuReL",
    (Layer, "altup"): "AltUp",
    (Description, "streams"): "AltUp",
    (Linear, "factor"): "factors of matrices",
    (StackedLinear, "factors"): "factors of matrices",
}

_BLOCKS: dict[type, str] = {LatentAttention: "latent attention"}
"""Blocks without shaders whose class says less."""


def obstacle(model: Description, block: int, kv_type: str) -> str | None:
    """What there is no shader for in a block, in words that follow "no shader for"; None if a GPU can compute it."""
    return next(_obstacles(model, block, kv_type), None)


def _obstacles(model: Description, block: int, kv_type: str) -> Iterator[str]:
    missing = {t.type.name for t in block_tensors(model, block) if len(t.shape) > 1} - set(FORMATS)
    if missing:
        yield f"weights of type {', '.join(sorted(missing))}"
    yield from _unknown_fields(model)
    if block == head(len(model.layers)):
        yield from _unknown([model.output_norm, model.output])
        return
    layer = model.layers[block // 2]
    yield from _unknown_fields(layer)
    if layer.recurrent and not block % 2:
        yield f"recurrent mixers of type {layer.recurrent.kind}"
    part = layer.feed_forward if block % 2 else layer.attention
    if any((norm := getattr(part, name, None)) and not _is_plain(norm) for name in _PLAIN_NORMS):
        yield "LayerNorm of heads or behind a block"
    yield from _unknown(part)
    if isinstance(part, FeedForward) and part.activation not in ACTIVATIONS:
        yield f"the activation {part.activation.value}"
    if isinstance(part, MixtureOfExperts):
        yield from _of_experts(part)
    if isinstance(part, Attention):
        yield from _of_attention(part, kv_type)
        if any(
            isinstance(each.attention, Attention) and each.attention.kv_layer == block // 2 for each in model.layers
        ):
            yield "keys and values that other layers read"


def _is_plain(norm: Norm) -> bool:
    """Whether a norm is RMSNorm without a bias."""
    return norm.kind is NormKind.RMS and norm.bias is None


def _of_experts(mixture: MixtureOfExperts) -> Iterator[str]:
    router, shared = mixture.router, mixture.shared
    if mixture.norm is None:
        yield "experts without a norm before them"
    if router.experts > _MAX_EXPERTS:
        yield f"{router.experts} experts in a layer"
    if router.scoring not in (Scoring.SOFTMAX, Scoring.SIGMOID):
        yield f"routers of kind {router.scoring.value.replace('_', ' ')}"
    activations = {mixture.activation} - ({Activation.CLAMPED_SWIGLU} if mixture.gate else set())
    for activation in activations | ({shared.activation} if shared else set()):
        if activation not in ACTIVATIONS:
            yield f"the activation {activation.value}"
    if shared and (shared.norm or shared.post_norm):
        yield "shared experts with norms of their own"
    if shared and mixture.shared_gate and (shared.down.bias or mixture.shared_gate.bias):
        yield "gates of shared experts with biases"


def _of_attention(attention: Attention, kv_type: str) -> Iterator[str]:
    head_dim = attention.key_dim
    if kv_type not in KV_TYPES:
        yield f"KV pages of type {kv_type}"
    if head_dim % 4 or head_dim > _MAX_HEAD_DIM:
        yield f"attention with {head_dim} values a head"
    if attention.rope and attention.rope.rope_type not in (RopeType.NORM, RopeType.NEOX):
        yield f"RoPE of type {attention.rope.rope_type.value}"
    if attention.value_dim != head_dim:
        yield "keys and values of different sizes"
    norms = [norm for norm in (attention.q_norm, attention.k_norm) if norm]
    if len(norms) == 1:
        yield "a norm of q or k alone"
    whole = [(attention.q_width,), (attention.k_width,)]
    shapes = [norm.weight.shape if norm.weight else (head_dim,) for norm in norms]
    if shapes and shapes != [(head_dim,)] * 2 and (shapes != whole or attention.norm_after_rope):
        yield "norms of q and k of this shape"
    v_norm = attention.v_norm
    if v_norm and (whole == shapes != [(head_dim,)] * 2 or (v_norm.weight and v_norm.weight.shape != (head_dim,))):
        yield "norms of values of this shape"


def _unknown(part: Any) -> Iterator[str]:
    """What no shader knows in a part of a description and in all that it consists of."""
    if isinstance(part, list | tuple):
        for each in part:
            yield from _unknown(each)
    elif type(part) in KNOWN_FIELDS:
        yield from _unknown_fields(part)
        yield from _unknown([getattr(part, name) for name in sorted(KNOWN_FIELDS[type(part)])])
    elif is_dataclass(part) and not isinstance(part, Tensor):
        yield _BLOCKS.get(type(part), f"{type(part).__name__} blocks")


def _unknown_fields(part: Any) -> Iterator[str]:
    """The fields of a part that no shader knows and that have a value: not their default, and not None."""
    kind = type(part)
    for field in fields(part):
        value = getattr(part, field.name)
        default = None if field.default is MISSING else field.default
        if field.name not in KNOWN_FIELDS[kind] and value is not None and value != default:
            yield _WORDS.get((kind, field.name), f"{kind.__name__} with {field.name.replace('_', ' ')}")
