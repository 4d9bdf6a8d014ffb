"""The Qwen3 architecture (arXiv 2505.09388), without experts: Qwen3 0.6B to 32B.

Rotary positions over the halves of a head; each head of q and k is normed before. Heads have a size of their own,
so that all together are often wider than the model. Hugging Face's `attention_bias` gives some a bias.
"""

from edgellm.arch.description import Description
from edgellm.arch.transformer import Variant
from edgellm.arch.transformer import describe as describe_transformer
from edgellm.gguf import GGUFFile

_VARIANT = Variant(
    halves=True,
    head_norms=True,
    optional_biases=("attn_q", "attn_k", "attn_v", "attn_output"),
)


def describe(file: GGUFFile) -> Description:
    """The description of a `qwen3` file. Raises ModelFileError and UnsupportedModelError."""
    return describe_transformer(file, _VARIANT)
