"""The architectures whose conversion takes more than their facts: one file each, named like that of the facts."""

from converters.architectures.families import (
    apertus,
    cohere2,
    deepseek2,
    ernie4_5_moe,
    exaone4,
    gemma,
    gemma2,
    gemma3,
    gemma3n,
    gemma4,
    glm4,
    gpt_oss,
    granite,
    granitemoe,
    hunyuan_dense,
    hunyuan_moe,
    llama,
    minimax_m2,
    mistral3,
    muse_glimmer,
    olmo2,
    olmoe,
    phi3,
    phimoe,
    qwen2moe,
    qwen3moe,
    qwen3vl,
    smollm3,
    stablelm,
    starcoder2,
)
from converters.architectures.families.family import Family

FAMILIES: dict[str, Family] = {
    "apertus": apertus.FAMILY,
    "cohere2": cohere2.FAMILY,
    "deepseek2": deepseek2.FAMILY,
    "ernie4_5-moe": ernie4_5_moe.FAMILY,
    "exaone4": exaone4.FAMILY,
    "gemma": gemma.FAMILY,
    "gemma2": gemma2.FAMILY,
    "gemma3": gemma3.FAMILY,
    "gemma3n": gemma3n.FAMILY,
    "gemma4": gemma4.FAMILY,
    "glm4": glm4.FAMILY,
    "gpt-oss": gpt_oss.FAMILY,
    "granite": granite.FAMILY,
    "granitemoe": granitemoe.FAMILY,
    "hunyuan-dense": hunyuan_dense.FAMILY,
    "hunyuan-moe": hunyuan_moe.FAMILY,
    "llama": llama.FAMILY,
    "minimax-m2": minimax_m2.FAMILY,
    "mistral3": mistral3.FAMILY,
    "muse-glimmer": muse_glimmer.FAMILY,
    "olmo2": olmo2.FAMILY,
    "olmoe": olmoe.FAMILY,
    "phi3": phi3.FAMILY,
    "phimoe": phimoe.FAMILY,
    "qwen2moe": qwen2moe.FAMILY,
    "qwen3moe": qwen3moe.FAMILY,
    "qwen3vl": qwen3vl.FAMILY,
    "smollm3": smollm3.FAMILY,
    "stablelm": stablelm.FAMILY,
    "starcoder2": starcoder2.FAMILY,
}
"""What is particular, by GGUF name; the others are plain."""

_PLAIN = Family()


def family_of(architecture: str) -> Family:
    """What is particular to an architecture."""
    return FAMILIES.get(architecture, _PLAIN)
