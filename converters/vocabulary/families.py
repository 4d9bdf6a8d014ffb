"""What a tokenizer's files do not say, but llama.cpp's converter knows by the model's family.

Families go by `model_type` in config.json. Sources: the classes of llama.cpp's conversion/*.py with a `set_vocab` of
their own, and for `pre` the checkpoints that its list of pre-tokenizers (convert_hf_to_gguf_update.py) names.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class TokenizerFamily(NamedTuple):
    """The special rules of one family.

    `pre`: names of pre-tokenizers to prefer over others with the same rules. `roles`: texts of the tokens that get a
    role, unless another token has it. `prefix_key`: `add_prefix_space` of tokenizer_config.json is written.
    `gemma4`: BPE over characters has the name "gemma4" as `tokenizer.ggml.model`, and the control tokens that
    structure a reply are user-defined, so that readers show them. `control`: texts of control tokens that
    tokenizer.json does not mark as special. `tiktoken`: the name of the pre-tokenizer of a tiktoken.model.
    """

    pre: tuple[str, ...] = ()
    roles: Mapping[str, str] = {}
    prefix_key: bool = False
    gemma4: bool = False
    control: tuple[str, ...] = ()
    tiktoken: str | None = None


_GLM_END = "<|endoftext|>"
_GLM4_MOE = TokenizerFamily(("glm4",), {"bos": "[gMASK]", "eot": "<|user|>", "unk": _GLM_END, "eom": "<|observation|>"})
_GEMMA4 = TokenizerFamily(gemma4=True)
_GRANITE = TokenizerFamily(("refact", "dbrx"), prefix_key=True)
_COHERE, _OLMO2, _PHI3 = TokenizerFamily(("command-r",)), TokenizerFamily(("dbrx",)), TokenizerFamily(("dbrx",))
_LFM2 = TokenizerFamily(("lfm2",))
_ERNIE = TokenizerFamily(prefix_key=True)
_KIMI = TokenizerFamily(tiktoken="kimi-k2")

_FAMILIES = {
    "bailing_moe": TokenizerFamily(("bailingmoe2",)),
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "cohere2_moe": TokenizerFamily(("cohere2moe",)),
    "deepseek_v2": TokenizerFamily(),
    "deepseek_v3": TokenizerFamily(),
    "dots1": TokenizerFamily(),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": _ERNIE,
    "exaone4": TokenizerFamily(("exaone4",)),
    "falcon_h1": TokenizerFamily(("falcon-h1",)),
    "falcon_mamba": TokenizerFamily(),
    "gemma": TokenizerFamily(roles={"eot": "<end_of_turn>"}),
    "gemma2": TokenizerFamily(),
    "gemma3": TokenizerFamily(),
    "gemma3n": TokenizerFamily(),
    "gemma4": _GEMMA4,
    "gemma4_unified": _GEMMA4,
    "glm4": TokenizerFamily(("glm4",), {"eos": _GLM_END, "eot": "<|user|>", "unk": _GLM_END, "bos": _GLM_END}),
    "glm4_moe": _GLM4_MOE,
    "glm4_moe_lite": _GLM4_MOE,
    "glm4v_moe": _GLM4_MOE,
    "gpt_oss": TokenizerFamily(),
    "granite": _GRANITE,
    "granitemoe": _GRANITE,
    "granitemoehybrid": TokenizerFamily(("refact", "dbrx")),
    "granitemoeshared": _GRANITE,
    "hunyuan_v1_dense": TokenizerFamily(("hunyuan-dense",)),
    "hunyuan_v1_moe": TokenizerFamily(("hunyuan",)),
    "kimi_k2": _KIMI,
    "kimi_linear": _KIMI,
    "laguna": TokenizerFamily(("laguna",), {"eot": "</assistant>"}, control=("</assistant>",)),
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2,
    "lfm2_vl": _LFM2,
    "llama4": TokenizerFamily(("llama4",), prefix_key=True),
    "mamba": TokenizerFamily(("olmo",)),
    "mamba2": TokenizerFamily(("olmo",)),
    "mellum": TokenizerFamily(("mellum2",)),
    "minimax_m2": TokenizerFamily(("minimax-m2",)),
    "muse_glimmer": TokenizerFamily(roles={"eot": "<|eot|>"}),
    "nemotron_h": TokenizerFamily(),
    "olmo": TokenizerFamily(("olmo",)),
    "olmoe": TokenizerFamily(("olmo",)),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "phi3": _PHI3,
    "phimoe": _PHI3,
    "seed_oss": TokenizerFamily(),
    "smollm3": TokenizerFamily(("smaug-bpe",), prefix_key=True),
    "stablelm": TokenizerFamily(("stablelm2",)),
    "starcoder2": TokenizerFamily(("starcoder",)),
}
_PLAIN, _OTHER = TokenizerFamily(), TokenizerFamily(prefix_key=True)


def tokenizer_family(config: Mapping[str, Any]) -> TokenizerFamily:
    """The family of a config.json. One that is not listed here, and no Qwen, has the rules of Llama."""
    kind = str(config.get("model_type")).removesuffix("_text")
    return _FAMILIES.get(kind, _PLAIN if kind.startswith("qwen") else _OTHER)
