"""The layouts of checkpoints: the names of tensors, and the order of the rows of q and k.

All tensors of a checkpoint must have the names of one layout. A layout's names tell the order of rows: Hugging Face's
has the rows of q and k in the order of RoPE type NEOX, Meta's and Mistral's own in that of NORM.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from edgellm.arch.description import RopeType
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT, OUTPUT_NORM

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
    return (
        _hugging_face(facts, "model."),
        _hugging_face(facts, ""),  # of a model saved without its head, such as Qwen3-Embedding
        _meta(facts),
    )


def _hugging_face(facts: ArchitectureFacts, prefix: str) -> CheckpointLayout:
    names = {f"{prefix}{each.hugging_face}": each.gguf for each in (EMBEDDING, OUTPUT_NORM)}
    names |= {f"{prefix}layers.*.{each.hugging_face}": each.gguf for each in facts.block_tensors}
    return CheckpointLayout("Hugging Face", names | {OUTPUT.hugging_face: OUTPUT.gguf}, RopeType.NEOX)


def _meta(facts: ArchitectureFacts) -> CheckpointLayout:
    names = {each.meta: each.gguf for each in (EMBEDDING, OUTPUT_NORM, OUTPUT) if each.meta}
    names |= {f"layers.*.{each.meta}": each.gguf for each in facts.block_tensors if each.meta}
    return CheckpointLayout("Meta and Mistral", names, RopeType.NORM)


def find_layout(layouts: Iterable[CheckpointLayout], names: Iterable[str]) -> CheckpointLayout | None:
    """The layout in which one of `names` is the embedding; None if there is none."""
    given = set(names)
    return next((each for each in layouts if any(_is_embedding(each, name) for name in given)), None)


def _is_embedding(layout: CheckpointLayout, name: str) -> bool:
    return layout.gguf_name(name) == f"{EMBEDDING.gguf}.weight"
