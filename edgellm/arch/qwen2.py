"""The Qwen2 architecture (arXiv 2407.10671): Qwen2, Qwen2.5, and what was distilled into them.

Rotary positions over the halves of a head, and biases on q, k and v.
"""

from edgellm.arch.description import Description
from edgellm.arch.transformer import Variant
from edgellm.arch.transformer import describe as describe_transformer
from edgellm.gguf import GGUFFile

_VARIANT = Variant(halves=True, biases=("attn_q", "attn_k", "attn_v"))


def describe(file: GGUFFile) -> Description:
    """The description of a `qwen2` file. Raises ModelFileError and UnsupportedModelError."""
    return describe_transformer(file, _VARIANT)
