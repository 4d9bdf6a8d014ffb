"""What a tokenizer's files do not say, but llama.cpp's converter knows by the model's family.

Families go by `model_type` in config.json. Sources: the classes of llama.cpp's conversion/*.py with a `set_vocab` of
their own, and for `pre` the checkpoints that its list of pre-tokenizers (convert_hf_to_gguf_update.py) names.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Family(NamedTuple):
    """The special rules of one family.

    `pre`: names of pre-tokenizers to prefer over others with the same rules. `roles`: texts of the tokens that get a
    role, unless another token has it. `prefix_key`: `add_prefix_space` of tokenizer_config.json is written.
    `rendered`: special tokens that readers are to show, so that programs can read the structure of a reply.
    `gemma4`: BPE over characters has the name "gemma4" as `tokenizer.ggml.model`.
    """

    pre: tuple[str, ...] = ()
    roles: Mapping[str, str] = {}
    prefix_key: bool = False
    rendered: frozenset[str] = frozenset()
    gemma4: bool = False


_GLM_END = "<|endoftext|>"
_GEMMA4 = Family(
    rendered=frozenset(
        ["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>']
    ),
    gemma4=True,
)
_GRANITE = Family(("refact", "dbrx"), prefix_key=True)
_COHERE, _OLMO2 = Family(("command-r",)), Family(("dbrx",))

_FAMILIES = {
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "ernie4_5": Family(prefix_key=True),
    "exaone4": Family(("exaone4",)),
    "gemma": Family(roles={"eot": "<end_of_turn>"}),
    "gemma2": Family(),
    "gemma3": Family(),
    "gemma3n": Family(),
    "gemma4": _GEMMA4,
    "gemma4_unified": _GEMMA4,
    "glm4": Family(("glm4",), {"eos": _GLM_END, "eot": "<|user|>", "unk": _GLM_END, "bos": _GLM_END}),
    "gpt_oss": Family(),
    "granite": _GRANITE,
    "hunyuan_v1_dense": Family(("hunyuan-dense",)),
    "llama4": Family(("llama4",), prefix_key=True),
    "muse_glimmer": Family(roles={"eot": "<|eot|>"}),
    "olmo": Family(("olmo",)),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "phi3": Family(("dbrx",)),
    "seed_oss": Family(),
    "smollm3": Family(("smaug-bpe",), prefix_key=True),
    "stablelm": Family(("stablelm2",)),
    "starcoder2": Family(("starcoder",)),
}
_PLAIN, _OTHER = Family(), Family(prefix_key=True)


def family(config: Mapping[str, Any]) -> Family:
    """The family of a config.json. One that is not listed here, and no Qwen, has the rules of Llama."""
    kind = str(config.get("model_type")).removesuffix("_text")
    return _FAMILIES.get(kind, _PLAIN if kind.startswith("qwen") else _OTHER)
