"""The architectures that edgellm runs: one file each, with its facts, named like its GGUF `general.architecture`."""

from edgellm.arch.architectures import (
    apertus,
    cohere2,
    ernie4_5,
    exaone4,
    glm4,
    granite,
    hunyuan_dense,
    llama,
    mistral3,
    muse_glimmer,
    olmo2,
    phi3,
    qwen2,
    qwen2vl,
    qwen3,
    qwen3vl,
    seed_oss,
    smollm3,
    stablelm,
    starcoder2,
)
from edgellm.arch.facts import ArchitectureFacts

_MODULES = (
    apertus,
    cohere2,
    ernie4_5,
    exaone4,
    glm4,
    granite,
    hunyuan_dense,
    llama,
    mistral3,
    muse_glimmer,
    olmo2,
    phi3,
    qwen2,
    qwen2vl,
    qwen3,
    qwen3vl,
    seed_oss,
    smollm3,
    stablelm,
    starcoder2,
)

ARCHITECTURES: dict[str, ArchitectureFacts] = {each.FACTS.name: each.FACTS for each in _MODULES}
"""Facts by GGUF name."""
