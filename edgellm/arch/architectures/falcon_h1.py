"""Falcon-H1 (arXiv 2507.22448): each layer has attention and Mamba-2 side by side, which read the same norm."""

from dataclasses import replace

from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.recurrent import MambaSettings
from edgellm.arch.recurrent_names import MAMBA_TENSORS
from edgellm.arch.recurrent_settings import mamba_settings
from edgellm.arch.tensor_names import ATTENTION_TENSORS, ATTN_NORM, FFN_NORM, GATED_FEED_FORWARD_TENSORS


def recurrent(hyper: HyperParameters, layer: int) -> MambaSettings | None:
    """Mamba-2 in each layer."""
    return mamba_settings(hyper)


MAMBA_DEFAULTS: dict[str, object] = {
    "mamba_n_heads": 128,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_conv_bias": True,
    "mamba_expand": 2,
}
"""Defaults of transformers for all classes whose keys of Mamba-2 begin with `mamba_`."""

_DEFAULTS: dict[str, object] = {
    "vocab_size": 128000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "mamba_d_ssm": 1024,
    **MAMBA_DEFAULTS,
    "attention_in_multiplier": 1.0,
    "attention_out_multiplier": 1.0,
    "embedding_multiplier": 1.0,
    "key_multiplier": 1.0,
    "lm_head_multiplier": 1.0,
    "ssm_in_multiplier": 1.0,
    "ssm_out_multiplier": 1.0,
}

FACTS = ArchitectureFacts(
    name="falcon-h1",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *(replace(each, optional=each.optional or each.gguf == "ssm_norm") for each in MAMBA_TENSORS),
        ATTN_NORM,
        replace(FFN_NORM, hugging_face="pre_ff_layernorm", meta=None, is_bare=True),
        *(
            replace(each, hugging_face=f"{each.hugging_face}".replace("mlp.", "feed_forward."))
            for each in GATED_FEED_FORWARD_TENSORS
        ),
    ),
    output_norm_name="final_layernorm",
    recurrent=recurrent,
    checkpoints=(CheckpointClass(name="FalconH1ForCausalLM", defaults=_DEFAULTS),),
)
