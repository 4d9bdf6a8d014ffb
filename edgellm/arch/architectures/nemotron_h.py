"""Nemotron-H and Nemotron 2 Nano (arXiv 2504.03624, 2508.14444): each layer is one block of Mamba-2, attention or FFN.

A layer is recurrent where it has neither KV heads nor a feed-forward. Attention has no RoPE, feed-forwards no gate.
Files have the rows of q and k in the order of RoPE type NORM all the same, as llama.cpp's converter writes them. Time
steps have no lower limit, as in llama.cpp; transformers raises those of a prompt to `time_step_min`, but not those of
tokens that it generates.
"""

from collections.abc import Iterable
from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention
from edgellm.arch.blocks import Activation, AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import MambaSettings
from edgellm.arch.recurrent_names import MAMBA_TENSORS
from edgellm.arch.recurrent_settings import mamba_settings
from edgellm.arch.tensor_names import ATTENTION, ATTENTION_TENSORS, ATTN_NORM, GATED_FEED_FORWARD_TENSORS, TensorFacts


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings | None:
    """Attention without RoPE, in layers with KV heads. Raises ModelFileError for a feed-forward beside it."""
    if not hyper.has_heads(layer):
        return None
    if hyper.ffn[layer]:
        what = f"has layer {layer} with both attention and a feed-forward"
        hyper.file.fail(f"{what}, and a layer of {hyper.file.architecture} is one of them; get another conversion")
    return replace(grouped_query_attention(hyper, layer), rope=None)


def recurrent(hyper: HyperParameters, layer: int) -> MambaSettings | None:
    """Mamba-2, in layers without KV heads and feed-forward."""
    return None if hyper.has_heads(layer) or hyper.ffn[layer] else mamba_settings(hyper)


def in_mixers(tensors: Iterable[TensorFacts]) -> tuple[TensorFacts, ...]:
    """The tensors by their names in checkpoints, where the block of a layer is its `mixer`, whatever its kind."""
    return tuple(replace(each, hugging_face=f"mixer.{f'{each.hugging_face}'.split('.', 1)[1]}") for each in tensors)


NEMOTRON_TENSORS = (
    *in_mixers((*ATTENTION_TENSORS, *MAMBA_TENSORS)),
    replace(ATTN_NORM, hugging_face="norm"),
)
"""Tensors of each layer, without those of feed-forwards."""

_DEFAULTS = {
    "max_position_embeddings": 4096,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 21504,
    "layer_norm_epsilon": 1e-5,
    "ssm_state_size": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 7688,
    "moe_shared_expert_intermediate_size": 7688,
    "routed_scaling_factor": 1.0,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
}

FACTS = ArchitectureFacts(
    name="nemotron_h",
    rope_type=RopeType.NORM,
    block_tensors=(*NEMOTRON_TENSORS, *in_mixers(GATED_FEED_FORWARD_TENSORS[1:])),
    optional_biases=(*ATTENTION, "ffn_up", "ffn_down"),
    activation=Activation.RELU2,
    ffn_norm_stem="attn_norm",
    output_norm_name="norm_f",
    attention=attention,
    recurrent=recurrent,
    checkpoints=(CheckpointClass(name="NemotronHForCausalLM", defaults=_DEFAULTS),),
    writes_vocab_size=True,
)
