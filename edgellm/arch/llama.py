"""The Llama architecture (arXiv 2302.13971, 2307.09288): Llama 1-3, Mistral, SmolLM2, TinyLlama, …

Rotary positions over neighbouring pairs: the conversion to GGUF permutes the rows of q and k so. Llama itself has
no biases, but Hugging Face's `attention_bias` and `mlp_bias` give its relatives some.
"""

from edgellm.arch.description import Description
from edgellm.arch.transformer import Variant
from edgellm.arch.transformer import describe as describe_transformer
from edgellm.gguf import GGUFFile

_VARIANT = Variant(
    halves=False,
    optional_biases=("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"),
)


def describe(file: GGUFFile) -> Description:
    """The description of a `llama` file. Raises ModelFileError and UnsupportedModelError."""
    return describe_transformer(file, _VARIANT)
