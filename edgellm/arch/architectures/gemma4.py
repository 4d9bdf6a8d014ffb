"""Gemma 4 as a text model: E2B, E4B, 12B, 31B, and 26B-A4B with experts.

The file says which layers see a window; these have sizes of heads and a RoPE of their own. The scores have no scale,
and v has a norm without weight. E2B and E4B have per-layer embeddings, and their last layers read the keys and values
of the last layer of their kind that has its own. In 12B and 31B the values of layers without a window are their keys
as projected. In 26B-A4B experts stand beside the feed-forward of each layer, and the router norms what it reads.
"""

from dataclasses import replace

from edgellm.arch.attention_settings import has_window, rope_dims, window
from edgellm.arch.blocks import Activation, AttentionSettings
from edgellm.arch.description import ModelScales
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.per_layer_names import PER_LAYER_INPUT_TENSORS, PER_LAYER_TENSORS
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import normalized_softmax
from edgellm.arch.tensor_names import (
    ATTENTION_TENSORS,
    EXPERT_TENSORS,
    GATED_FEED_FORWARD_TENSORS,
    HEAD_NORMS,
    ROUTER,
    SANDWICH_NORMS,
    TensorFacts,
)


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Attention with the sizes of its kind, windowed or not."""
    shared = hyper.integer("attention.shared_kv_layers", 0)
    return replace(attention_of_kind(hyper, layer), kv_layer=kv_layer(hyper, layer, shared))


def attention_of_kind(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Attention with the sizes of its kind, as if the layer had keys and values of its own."""
    windowed = windowed_layers(hyper)[layer]
    suffix = "_swa" if windowed else ""
    key_dim = hyper.head_dim(f"attention.key_length{suffix}", hyper.width // hyper.heads[layer])
    value_dim = hyper.head_dim(f"attention.value_length{suffix}", key_dim)
    hyper.check_heads(layer, key_dim, value_dim)
    dims = rope_dims(hyper, key_dim, f"rope.dimension_count{suffix}")
    local_base = hyper.number("rope.freq_base_swa", 10000.0) if windowed else None
    return AttentionSettings(
        heads=hyper.heads[layer],
        kv_heads=hyper.kv_heads[layer],
        key_dim=key_dim,
        value_dim=value_dim,
        rope=hyper.rope(dims, base=local_base, scaled=not windowed),
        scale=1.0,
        window=required_window(hyper) if windowed else None,
    )


def windowed_layers(hyper: HyperParameters) -> tuple[bool, ...]:
    """For each layer whether it sees a window."""
    name = "attention.sliding_window_pattern"
    if not hyper.file.is_array(hyper.key(name)):
        hyper.file.fail(f"has no array {hyper.key(name)}; get another conversion of the model")
    return tuple(map(bool, hyper.per_layer(name)))


def required_window(hyper: HyperParameters) -> int | None:
    """The window of the file, which must have one."""
    if not has_window(hyper):
        hyper.file.fail(f"has no {hyper.key('attention.sliding_window')} above 0; get another conversion of the model")
    return window(hyper)


def kv_layer(hyper: HyperParameters, layer: int, shared: int) -> int | None:
    """The layer whose keys and values a layer reads, if it is one of the last `shared`: the last one of its kind."""
    own, windowed = hyper.layer_count - shared, windowed_layers(hyper)
    key = hyper.key("attention.shared_kv_layers")
    if not 0 <= shared < hyper.layer_count:
        hyper.file.fail(f"key {key} is {shared} of {hyper.layer_count} layers; get another conversion of the model")
    if layer < own:
        return None
    of_its_kind = [i for i in range(own) if windowed[i] == windowed[layer]]
    if not of_its_kind:
        hyper.file.fail(f"key {key} is {shared}, but no layer has keys and values for layer {layer}; get another file")
    return of_its_kind[-1]


def router(hyper: HyperParameters, layer: int) -> RouterSettings | None:
    """The router, whose logits are scaled; None in models without experts."""
    if not hyper.experts:
        return None
    return replace(normalized_softmax(hyper, layer), logit_scale=hyper.width**-0.5)


def model_settings(hyper: HyperParameters) -> ModelScales:
    """The scale of the embedding, and the soft cap of the logits."""
    soft_cap = hyper.number("final_logit_softcapping", 0.0) or None
    return ModelScales(embedding_scale=hyper.width**0.5, logit_soft_cap=soft_cap)


_Q, _K, _V, _OUTPUT = ATTENTION_TENSORS
_GATE_EXPERTS, _UP_EXPERTS, _DOWN_EXPERTS = EXPERT_TENSORS

EXPERTS = (
    TensorFacts("pre_ffw_norm_2", "pre_feedforward_layernorm_2", None, ("width",)),
    TensorFacts("post_ffw_norm_1", "post_feedforward_layernorm_1", None, ("width",)),
    TensorFacts("post_ffw_norm_2", "post_feedforward_layernorm_2", None, ("width",)),
    replace(ROUTER, hugging_face="router.proj"),
    TensorFacts("ffn_gate_inp.scale", "router.scale", None, ("width",)),
    TensorFacts("ffn_gate_up_exps", "experts.gate_up_proj", None, ("experts", "expert_gate_up", "width")),
    replace(_GATE_EXPERTS, hugging_face=None),
    replace(_UP_EXPERTS, hugging_face=None),
    replace(_DOWN_EXPERTS, hugging_face="experts.down_proj"),
    TensorFacts("ffn_down_exps.scale", "router.per_expert_scale", None, ("experts",)),
)
"""Tensors of each layer in models with experts."""

_DEFAULTS: dict[str, object] = {
    "vocab_size": 262144,
    "max_position_embeddings": 131072,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_size_per_layer_input": 256,
    "global_head_dim": 512,
    "sliding_window": 512,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
    },
    "tie_word_embeddings": True,
}
_UNIFIED = {key: value for key, value in _DEFAULTS.items() if key != "hidden_size_per_layer_input"} | {
    "max_position_embeddings": 262144,
    "sliding_window": 1024,
}

CAUSAL = CheckpointClass(name="Gemma4ForCausalLM", defaults=_DEFAULTS, dual_rope=True)
UNIFIED = CheckpointClass(name="Gemma4UnifiedForConditionalGeneration", defaults=_UNIFIED, dual_rope=True)

FACTS = ArchitectureFacts(
    name="gemma4",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *(_Q, _K, replace(_V, optional=True), _OUTPUT),
        *GATED_FEED_FORWARD_TENSORS,
        *SANDWICH_NORMS,
        *HEAD_NORMS,
        *(replace(each, optional=True) for each in PER_LAYER_INPUT_TENSORS),
        *EXPERTS,
        TensorFacts("layer_output_scale", "layer_scalar", None, (1,), optional=True),
    ),
    model_tensors=tuple(replace(each, optional=True) for each in PER_LAYER_TENSORS),
    activation=Activation.GELU,
    weightless_v_norm=True,
    attention=attention,
    router=router,
    settings=model_settings,
    checkpoints=(
        CAUSAL,
        replace(CAUSAL, name="Gemma4ForConditionalGeneration"),
        UNIFIED,
    ),
)
