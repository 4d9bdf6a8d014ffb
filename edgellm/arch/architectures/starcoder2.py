"""StarCoder2 (arXiv 2402.19173): LayerNorm, GELU without a gate, biases everywhere, and a window of 4096 tokens."""

from dataclasses import replace

from edgellm.arch.attention_settings import grouped_query_attention, window
from edgellm.arch.blocks import Activation, AttentionSettings, NormKind
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, ATTENTION_TENSORS, PRE_NORM_TENSORS, TensorFacts


def attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention. llama.cpp's converter writes no window; all published models have one of 4096 tokens."""
    return replace(grouped_query_attention(hyper, layer), window=window(hyper, default=4096))


FACTS = ArchitectureFacts(
    name="starcoder2",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        TensorFacts("ffn_up", "mlp.c_fc", None, ("ffn", "width")),
        TensorFacts("ffn_down", "mlp.c_proj", None, ("width", "ffn")),
        *PRE_NORM_TENSORS,
    ),
    biases=(*ATTENTION, "ffn_up", "ffn_down", "attn_norm", "ffn_norm"),
    norm_kind=NormKind.LAYER,
    activation=Activation.GELU,
    attention=attention,
    checkpoints=(
        CheckpointClass(
            name="Starcoder2ForCausalLM",
            defaults={
                "max_position_embeddings": 4096,
                "num_key_value_heads": 2,
                "norm_epsilon": 1e-5,
                "sliding_window": None,
                "tie_word_embeddings": True,
            },
            sliding_window="always",
        ),
    ),
    writes_head_dim=False,
)
