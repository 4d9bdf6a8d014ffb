"""The layouts of checkpoints: the names of tensors, and the order of the rows of q and k.

All tensors of a checkpoint must have the names of one layout. A layout's names tell the order of rows: Hugging Face's
has the rows of q and k in the order that the facts of the architecture give, most often that of RoPE type NEOX, Meta's
and Mistral's own in that of NORM.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT, OUTPUT_NORM, TensorFacts

_LAYER = re.compile(r"\blayers\.(0|[1-9][0-9]{0,5})\.")
_PART = re.compile(r"\.(0|[1-9][0-9]{0,3})$")

_PREFIXES = ("model.", "", "model.language_model.", "language_model.model.", "language_model.", "model.text_model.")
"""What stands before the names of a text model: none in one saved without its head, such as Qwen3-Embedding; others in
a model that also takes images or sound."""
_OUTPUTS = (f"{OUTPUT.hugging_face}", f"language_model.{OUTPUT.hugging_face}", f"model.{OUTPUT.hugging_face}")


class TensorPlace(NamedTuple):
    """The GGUF tensor that a checkpoint's tensor becomes, and the number of the part where it becomes a part of it."""

    name: str
    part: int | None


@dataclass(frozen=True)
class CheckpointLayout:
    """A layout: `names` maps its names to GGUF's, without ".weight" or ".bias" and with * for a layer's number.

    A name that ends with * is that of the parts of a tensor. `rope_type` is the RoPE type for which the rows of q and k
    are ordered.
    """

    name: str
    names: Mapping[str, str] = field(repr=False)
    rope_type: RopeType

    def place(self, name: str) -> TensorPlace | None:
        """What a tensor becomes; None where the layout has no tensor of this name."""
        layer = _LAYER.search(name)
        generic = _LAYER.sub("layers.*.", name, count=1)
        stem, _, kind = generic.rpartition(".")
        part = _PART.search(stem)
        found, number = self.names.get(stem), None
        if found is None and part:
            found, number = self.names.get(f"{stem[: part.start()]}.*"), int(part[1])
        if found is None or kind not in ("weight", "bias"):
            found, number, kind = self.names.get(generic), None, "weight"  # such as `layer_scalar`
        if found is None:
            return None
        return TensorPlace(f"blk.{layer[1]}.{found}.{kind}" if layer else f"{found}.{kind}", number)


def layouts_of(facts: ArchitectureFacts) -> tuple[CheckpointLayout, ...]:
    """The layouts that checkpoints of an architecture may have."""
    return (*(_hugging_face(facts, prefix) for prefix in _PREFIXES), _meta(facts))


def _hugging_face(facts: ArchitectureFacts, prefix: str) -> CheckpointLayout:
    names = _stems(prefix, (EMBEDDING, OUTPUT_NORM, *facts.model_tensors))
    names |= _stems(f"{prefix}layers.*.", facts.block_tensors)
    return CheckpointLayout("Hugging Face", names | dict.fromkeys(_OUTPUTS, OUTPUT.gguf), facts.checkpoint_rope_type)


def _stems(prefix: str, tensors: Iterable[TensorFacts]) -> dict[str, str]:
    return {f"{prefix}{each.hugging_face}": each.gguf for each in tensors if each.hugging_face is not None}


def _meta(facts: ArchitectureFacts) -> CheckpointLayout:
    names = {f"{each.meta}": each.gguf for each in (EMBEDDING, OUTPUT_NORM, OUTPUT)}
    names |= {f"layers.*.{each.meta}": each.gguf for each in facts.block_tensors if each.meta}
    return CheckpointLayout("Meta and Mistral", names, RopeType.NORM)


def find_layout(layouts: Iterable[CheckpointLayout], names: Iterable[str]) -> CheckpointLayout | None:
    """The layout in which one of `names` is the embedding; None if there is none."""
    given = set(names)
    return next((each for each in layouts if any(_is_embedding(each, name) for name in given)), None)


def _is_embedding(layout: CheckpointLayout, name: str) -> bool:
    place = layout.place(name)
    return place is not None and place.name == f"{EMBEDDING.gguf}.weight"
