"""gpt-oss (arXiv 2508.10925): 20b, 120b, and safeguard models of these sizes.

Each layer has a mixture of experts, sinks, and biases in all projections. Every second layer, from the first on, has a
window. The norm before the experts is called `post_attention_norm`.

YaRN as its makers publish it has `truncate: false`: the limits of its ramp are fractions of pairs. llama.cpp's
converter writes no key for that, and llama.cpp rounds the limits. So a file without `rope.scaling.yarn_truncate` is
computed as published; edgellm's converter writes true for the checkpoints that do round.
"""

from edgellm.arch.attention_settings import interleaved_windows
from edgellm.arch.blocks import Activation, AttentionSettings
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.mixture import RouterSettings
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import (
    ATTENTION,
    ATTENTION_TENSORS,
    ATTN_NORM,
    EXPERT_TENSORS,
    POST_ATTENTION_NORM,
    FusedTensor,
    TensorFacts,
)

LIMIT, ALPHA = 7.0, 1.702
"""`swiglu_limit` and `swiglu_alpha` of config.json, for which GGUF has no keys."""

WINDOW_PATTERN = 2

_GATE_UP = ("ffn_gate_exps", "ffn_up_exps")


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Windows in layers 0, 2, 4, …."""
    return interleaved_windows(hyper, layer, WINDOW_PATTERN)


def router(hyper: HyperParameters, layer: int) -> RouterSettings:
    """Softmax over the logits of the chosen alone."""
    return RouterSettings(experts=hyper.experts, used=hyper.used_experts, normalized=True)


def activation_parameters(hyper: HyperParameters, layer: int) -> tuple[float, ...]:
    """The limit and α of the clamped SwiGLU."""
    return LIMIT, ALPHA


FACTS = ArchitectureFacts(
    name="gpt-oss",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        ATTN_NORM,
        POST_ATTENTION_NORM,
        TensorFacts("attn_sinks", "self_attn.sinks", None, ("heads",)),
        TensorFacts("ffn_gate_inp", "mlp.router", None, ("experts", "width")),
        *EXPERT_TENSORS,
    ),
    fused_tensors=(
        FusedTensor("mlp.experts.gate_up_proj", _GATE_UP, transposed=True, interleaved=True),
        FusedTensor("mlp.experts.gate_up_proj_blocks", _GATE_UP, interleaved=True),
        FusedTensor("mlp.experts.gate_up_proj_bias", ("ffn_gate_exps.bias", "ffn_up_exps.bias"), interleaved=True),
        FusedTensor("mlp.experts.down_proj", ("ffn_down_exps",), transposed=True),
        FusedTensor("mlp.experts.down_proj_blocks", ("ffn_down_exps",)),
        FusedTensor("mlp.experts.down_proj_bias", ("ffn_down_exps.bias",)),
    ),
    biases=(*ATTENTION, "ffn_gate_inp", *_GATE_UP, "ffn_down_exps"),
    activation=Activation.CLAMPED_SWIGLU,
    activation_parameters=activation_parameters,
    ffn_norm_stem="post_attention_norm",
    yarn_truncate=False,
    attention=attention,
    router=router,
    checkpoints=(
        CheckpointClass(
            name="GptOssForCausalLM",
            defaults={
                "num_hidden_layers": 36,
                "num_local_experts": 128,
                "num_experts_per_tok": 4,
                "hidden_size": 2880,
                "intermediate_size": 2880,
                "head_dim": 64,
                "num_attention_heads": 64,
                "num_key_value_heads": 8,
                "sliding_window": 128,
                "max_position_embeddings": 131072,
                "vocab_size": 201088,
                "rms_norm_eps": 1e-5,
                "rope_theta": 150000.0,
            },
        ),
    ),
)
