"""The layouts of checkpoints: how one names its tensors, and in which order it keeps the rows of q and k.

A layout is taken as a whole or not at all. Names alone say nothing about rows: those of q and k have one order in
Hugging Face's layout and another in Meta's and Mistral's own, so a tensor from elsewhere would be turned wrongly.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_HUGGING_FACE = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "layers.*.input_layernorm": "attn_norm",
    "layers.*.self_attn.q_proj": "attn_q",
    "layers.*.self_attn.k_proj": "attn_k",
    "layers.*.self_attn.v_proj": "attn_v",
    "layers.*.self_attn.o_proj": "attn_output",
    "layers.*.self_attn.q_norm": "attn_q_norm",
    "layers.*.self_attn.k_norm": "attn_k_norm",
    "layers.*.post_attention_layernorm": "ffn_norm",
    "layers.*.mlp.gate_proj": "ffn_gate",
    "layers.*.mlp.up_proj": "ffn_up",
    "layers.*.mlp.down_proj": "ffn_down",
}
_NATIVE = {
    "tok_embeddings": "token_embd",
    "norm": "output_norm",
    "output": "output",
    "layers.*.attention_norm": "attn_norm",
    "layers.*.attention.wq": "attn_q",
    "layers.*.attention.wk": "attn_k",
    "layers.*.attention.wv": "attn_v",
    "layers.*.attention.wo": "attn_output",
    "layers.*.ffn_norm": "ffn_norm",
    "layers.*.feed_forward.w1": "ffn_gate",
    "layers.*.feed_forward.w2": "ffn_down",
    "layers.*.feed_forward.w3": "ffn_up",
}
_NUMBER = re.compile(r"\blayers\.(0|[1-9][0-9]{0,5})\.")


@dataclass(frozen=True)
class Layout:
    """The names of a layout, without their ".weight" or ".bias" and with * for a layer's number, as GGUF's.

    `halves`: a head's first half of rows in q and k is turned with its second; otherwise each row with its neighbour.
    """

    name: str
    names: Mapping[str, str] = field(repr=False)
    halves: bool

    def gguf_name(self, name: str) -> str | None:
        """GGUF's name of a tensor; None where the layout has no such tensor."""
        stem, _, kind = name.rpartition(".")
        number = _NUMBER.search(stem)
        found = self.names.get(_NUMBER.sub("layers.*.", stem, count=1))
        if found is None or kind not in ("weight", "bias"):
            return None
        return f"blk.{number[1]}.{found}.{kind}" if number else f"{found}.{kind}"


def _hugging_face(prefix: str) -> Layout:
    names = {prefix + name: gguf_name for name, gguf_name in _HUGGING_FACE.items()}
    return Layout("Hugging Face", names | {"lm_head": "output"}, halves=True)


LAYOUTS = (
    _hugging_face("model."),
    _hugging_face(""),  # of a model saved without its head, such as Qwen3-Embedding
    Layout("Meta and Mistral", _NATIVE, halves=False),
)


def layout_of(names: Iterable[str]) -> Layout | None:
    """The layout that the name of the embedding tells; None for one that is not known here."""
    given = set(names)
    return next((each for each in LAYOUTS if any(_is_embedding(each, name) for name in given)), None)


def _is_embedding(layout: Layout, name: str) -> bool:
    return layout.gguf_name(name) == "token_embd.weight"
