"""The layouts of checkpoints: the names of tensors, and the order of the rows of q and k.

All tensors of a checkpoint must have the names of one layout. A layout's names tell the order of rows: Hugging Face's
has the rows of q and k in the order of RoPE type NEOX, Meta's and Mistral's own in that of NORM.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from edgellm.arch.description import RopeType
from edgellm.arch.facts import ArchitectureFacts

_NUMBER = re.compile(r"\blayers\.(0|[1-9][0-9]{0,5})\.")


@dataclass(frozen=True)
class CheckpointLayout:
    """A layout: `names` maps its names to GGUF's, without ".weight" or ".bias" and with * for a layer's number.

    `rope_type` is the RoPE type for which the rows of q and k are ordered.
    """

    name: str
    names: Mapping[str, str] = field(repr=False)
    rope_type: RopeType

    def gguf_name(self, name: str) -> str | None:
        """The GGUF name of a tensor; None where the layout has no tensor of this name."""
        stem, _, kind = name.rpartition(".")
        number = _NUMBER.search(stem)
        found = self.names.get(_NUMBER.sub("layers.*.", stem, count=1))
        if found is None or kind not in ("weight", "bias"):
            return None
        return f"blk.{number[1]}.{found}.{kind}" if number else f"{found}.{kind}"


def layouts_of(facts: ArchitectureFacts) -> tuple[CheckpointLayout, ...]:
    """The layouts that checkpoints of an architecture may have."""
    block = {f"layers.*.{tensor.hugging_face}": tensor.gguf for tensor in facts.block_tensors}
    names = {"embed_tokens": "token_embd", "norm": "output_norm", **block}
    meta_block = {f"layers.*.{tensor.meta}": tensor.gguf for tensor in facts.block_tensors if tensor.meta}
    meta = {"tok_embeddings": "token_embd", "norm": "output_norm", "output": "output", **meta_block}
    return (
        _hugging_face("model.", names),
        _hugging_face("", names),  # of a model saved without its head, such as Qwen3-Embedding
        CheckpointLayout("Meta and Mistral", meta, RopeType.NORM),
    )


def _hugging_face(prefix: str, names: Mapping[str, str]) -> CheckpointLayout:
    prefixed = {prefix + name: gguf_name for name, gguf_name in names.items()}
    return CheckpointLayout("Hugging Face", prefixed | {"lm_head": "output"}, RopeType.NEOX)


def find_layout(layouts: Iterable[CheckpointLayout], names: Iterable[str]) -> CheckpointLayout | None:
    """The layout in which one of `names` is the embedding; None if there is none."""
    given = set(names)
    return next((each for each in layouts if any(_is_embedding(each, name) for name in given)), None)


def _is_embedding(layout: CheckpointLayout, name: str) -> bool:
    return layout.gguf_name(name) == "token_embd.weight"
