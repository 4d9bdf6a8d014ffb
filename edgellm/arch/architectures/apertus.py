"""Apertus (arXiv 2509.14233).

The feed-forward has no gate, and its function is xIELU (arXiv 2411.13010) with parameters of each layer.
"""

import math

from edgellm.arch.blocks import Activation
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import ATTENTION, ATTENTION_TENSORS, HEAD_NORMS, TensorFacts

_MOST = 1e15


def activation_parameters(hyper: HyperParameters, layer: int) -> tuple[float, ...]:
    """xIELU's α_p, α_n, β and eps: α_p is softplus(xielu.alpha_p), and α_n is β + softplus(xielu.alpha_n)."""
    keys = ("xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps")
    alpha_p, alpha_n, beta, eps = (_parameter(hyper, key, layer) for key in keys)
    return softplus(alpha_p), beta + softplus(alpha_n), beta, eps


def _parameter(hyper: HyperParameters, key: str, layer: int) -> float:
    value = hyper.file.get_numbers(key, hyper.layer_count)[layer]
    if abs(value) > _MOST:
        hyper.file.fail(f"key {key} has {value:g}, beyond {_MOST:g}; get another conversion of the model")
    return value


def softplus(x: float) -> float:
    """ln(1 + exp(x)), without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


FACTS = ArchitectureFacts(
    name="apertus",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        TensorFacts("ffn_up", "mlp.up_proj", None, ("ffn", "width")),
        TensorFacts("ffn_down", "mlp.down_proj", None, ("width", "ffn")),
        TensorFacts("attn_norm", "attention_layernorm", None, ("width",)),
        TensorFacts("ffn_norm", "feedforward_layernorm", None, ("width",)),
        *HEAD_NORMS,
    ),
    optional_biases=ATTENTION,
    activation=Activation.XIELU,
    activation_parameters=activation_parameters,
    checkpoints=(
        CheckpointClass(
            name="ApertusForCausalLM",
            defaults={
                "max_position_embeddings": 65536,
                "rms_norm_eps": 1e-5,
                "rope_theta": 12000000.0,
                "rope_parameters": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
            },
            bias_keys={"attention_bias": ATTENTION},
        ),
    ),
    writes_head_dim=False,
    writes_vocab_size=True,
)
