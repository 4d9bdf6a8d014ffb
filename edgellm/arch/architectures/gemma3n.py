"""Gemma 3n (E2B, E4B) as a text model.

Layers alternate between windows and the whole context as in Gemma 3, and share keys and values as in Gemma 4, with
embeddings for each layer. The hidden state has four streams (AltUp), each layer a learned augmented residual (LAuReL),
and the first feed-forwards use only their largest activations.
"""

from dataclasses import replace
from math import inf

from edgellm.arch.architectures.gemma4 import kv_layer, required_window, windowed_layers
from edgellm.arch.attention_settings import grouped_query_attention, rope_dims
from edgellm.arch.blocks import Activation, AttentionSettings
from edgellm.arch.description import ModelScales
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.per_layer_names import (
    ALTUP_TENSORS,
    LAUREL_TENSORS,
    PER_LAYER_INPUT_TENSORS,
    PER_LAYER_TENSORS,
    STREAM_PROJECTIONS,
    STREAM_UNEMBEDDINGS,
    STREAMS,
)
from edgellm.arch.positions import RopeType
from edgellm.arch.refuse import refuse
from edgellm.arch.tensor_names import ATTENTION_TENSORS, GATED_FEED_FORWARD_TENSORS, HEAD_NORMS, SANDWICH_NORMS


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Attention without a scale of its scores, with a window where the file says so."""
    settings = grouped_query_attention(hyper, layer)
    settings = replace(
        settings, scale=1.0, window=None, kv_layer=kv_layer(hyper, layer, hyper.integer("attention.shared_kv_layers"))
    )
    if not windowed_layers(hyper)[layer]:
        return settings
    base = hyper.number("rope.freq_base_swa", 10000.0)
    rope = hyper.rope(rope_dims(hyper, settings.key_dim), base=base, scaled=False)
    return replace(settings, rope=rope, window=required_window(hyper))


def sparsity(hyper: HyperParameters, layer: int) -> float | None:
    """Standard deviations above the mean that an activation must exceed; None where all count (-inf in the file)."""
    key = hyper.key("activation_sparsity_scale")
    scales = hyper.file.get_array(key, float)
    if len(scales) != hyper.layer_count or not ((abs(scales) < 100) | (scales == -inf)).all():
        wanted = f"{hyper.layer_count} numbers between -100 and 100, or -inf"
        hyper.file.fail(f"key {key} must be {wanted}; get another conversion of the model")
    scale = float(scales[layer])
    return None if scale == -inf else scale


def model_settings(hyper: HyperParameters) -> ModelScales:
    """The scale of the embedding, and the soft cap of the logits.

    Refuses files with another number of streams than four, or with another active one than the first.
    """
    active, streams = hyper.integer("altup.active_idx", 0), hyper.integer("altup.num_inputs", STREAMS)
    if (active, streams) != (0, STREAMS):
        refuse(hyper.file, f"stream {active} of {streams} is active; only the first of {STREAMS} is supported")
    if not hyper.per_layer_width:
        hyper.file.fail(f"has no key {hyper.key('embedding_length_per_layer_input')}; get another conversion")
    return ModelScales(embedding_scale=hyper.width**0.5, logit_soft_cap=hyper.number("final_logit_softcapping", 30.0))


_DEFAULTS: dict[str, object] = {
    "vocab_size": 262400,
    "vocab_size_per_layer_input": 262144,
    "hidden_size": 2048,
    "hidden_size_per_layer_input": 256,
    "intermediate_size": 16384,
    "num_hidden_layers": 35,
    "max_position_embeddings": 32768,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "num_kv_shared_layers": 15,
    "laurel_rank": 64,
    "sliding_window": 512,
    "final_logit_softcapping": 30.0,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "tie_word_embeddings": True,
}

FACTS = ArchitectureFacts(
    name="gemma3n",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *GATED_FEED_FORWARD_TENSORS,
        *SANDWICH_NORMS,
        *HEAD_NORMS,
        *PER_LAYER_INPUT_TENSORS,
        *LAUREL_TENSORS,
        *ALTUP_TENSORS,
    ),
    model_tensors=(*PER_LAYER_TENSORS, STREAM_PROJECTIONS, STREAM_UNEMBEDDINGS),
    activation=Activation.GELU,
    weightless_v_norm=True,
    attention=attention,
    settings=model_settings,
    sparsity=sparsity,
    checkpoints=(
        CheckpointClass(name="Gemma3nForCausalLM", defaults=_DEFAULTS, dual_rope=True),
        CheckpointClass(name="Gemma3nForConditionalGeneration", defaults=_DEFAULTS, dual_rope=True),
    ),
)
