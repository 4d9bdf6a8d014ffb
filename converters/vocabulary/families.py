"""What a tokenizer's files do not say, but llama.cpp's converter knows by the model's family.

Families go by `model_type` in config.json. Sources: the classes of llama.cpp's conversion/*.py with a `set_vocab` of
their own, and for `pre` the checkpoints that its list of pre-tokenizers (convert_hf_to_gguf_update.py) names.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class VocabularyRules(NamedTuple):
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
_GEMMA4 = VocabularyRules(
    rendered=frozenset(
        ["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>']
    ),
    gemma4=True,
)
_GRANITE = VocabularyRules(("refact", "dbrx"), prefix_key=True)
_COHERE, _OLMO2 = VocabularyRules(("command-r",)), VocabularyRules(("dbrx",))

_FAMILIES = {
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "ernie4_5": VocabularyRules(prefix_key=True),
    "exaone4": VocabularyRules(("exaone4",)),
    "gemma": VocabularyRules(roles={"eot": "<end_of_turn>"}),
    "gemma2": VocabularyRules(),
    "gemma3": VocabularyRules(),
    "gemma3n": VocabularyRules(),
    "gemma4": _GEMMA4,
    "gemma4_unified": _GEMMA4,
    "glm4": VocabularyRules(("glm4",), {"eos": _GLM_END, "eot": "<|user|>", "unk": _GLM_END, "bos": _GLM_END}),
    "gpt_oss": VocabularyRules(),
    "granite": _GRANITE,
    "hunyuan_v1_dense": VocabularyRules(("hunyuan-dense",)),
    "llama4": VocabularyRules(("llama4",), prefix_key=True),
    "muse_glimmer": VocabularyRules(roles={"eot": "<|eot|>"}),
    "olmo": VocabularyRules(("olmo",)),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "phi3": VocabularyRules(("dbrx",)),
    "seed_oss": VocabularyRules(),
    "smollm3": VocabularyRules(("smaug-bpe",), prefix_key=True),
    "stablelm": VocabularyRules(("stablelm2",)),
    "starcoder2": VocabularyRules(("starcoder",)),
}
_PLAIN, _OTHER = VocabularyRules(), VocabularyRules(prefix_key=True)


def rules_of(config: Mapping[str, Any]) -> VocabularyRules:
    """The rules of a config.json's family. A family that is not listed here has those of Llama, unless it is a Qwen."""
    kind = str(config.get("model_type")).removesuffix("_text")
    return _FAMILIES.get(kind, _PLAIN if kind.startswith("qwen") else _OTHER)
