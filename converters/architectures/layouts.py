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
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT, FusedTensor, TensorFacts

LAYER = re.compile(r"\blayers\.(0|[1-9][0-9]{0,5})\.")
"""The number of a layer in the name of a tensor."""
_PART = re.compile(r"\.(0|[1-9][0-9]{0,3})(?=\.|$)")

_PREFIXES = (
    "model.",
    "",
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "model.text_model.",
    "backbone.",
    "model.backbone.",
)
"""What stands before the names of a text model: none in one saved without its head, such as Qwen3-Embedding; others in
a model that also takes images or sound, and in Mamba."""
_OTHER_EMBEDDINGS = ("word_embeddings", "embeddings", "embedding")
"""Other names of the embedding, in Ling and in Mamba."""
_OUTPUTS = (f"{OUTPUT.hugging_face}", f"language_model.{OUTPUT.hugging_face}", f"model.{OUTPUT.hugging_face}")


class TensorPlace(NamedTuple):
    """What a checkpoint's tensor becomes: the GGUF tensor `name`, or its part `part`, such as the matrix of an expert.

    Where the tensor is `fused`, it becomes the tensors of the layer whose name is `name`, such as `blk.0`.
    """

    name: str
    part: int | None
    fused: FusedTensor | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the GGUF tensors, one but where it is fused."""
        return tuple(f"{self.name}.{each}" for each in self.fused.names) if self.fused else (self.name,)


@dataclass(frozen=True)
class CheckpointLayout:
    """A layout: `names` maps its names, without ".weight" or ".bias", to what the facts say of the tensor.

    A layer has * in place of its number. Another * is that of the parts of a tensor. `fused` has the names of tensors
    that hold several. `rope_type` is the RoPE type for which the rows of q and k are ordered. `prefix` stands before
    the names of layers.
    """

    name: str
    names: Mapping[str, TensorFacts] = field(repr=False)
    rope_type: RopeType
    fused: Mapping[str, FusedTensor] = field(default_factory=dict, repr=False)
    prefix: str = ""

    def place(self, name: str) -> TensorPlace | None:
        """What a tensor becomes; None where the layout has no tensor of this name."""
        layer = LAYER.search(name)
        prefix = f"blk.{layer[1]}" if layer else ""
        generic = LAYER.sub("layers.*.", name, count=1)
        stem, _, kind = generic.rpartition(".")
        if fused := self.fused.get(stem if kind == "weight" else generic):
            return TensorPlace(prefix, None, fused)
        part = _PART.search(stem)
        found, number = self.names.get(stem), None
        if found is None and part:
            found, number = self.names.get(f"{stem[: part.start()]}.*{stem[part.end() :]}"), int(part[1])
        if found is None or kind not in ("weight", "bias"):
            found, number, kind = self.names.get(generic), None, "weight"  # such as `A_log`
        if found is None:
            return None
        whole = found.name if kind == "weight" or "." in found.gguf else f"{found.gguf}.{kind}"
        return TensorPlace(f"{prefix}.{whole}" if prefix else whole, number)


def layouts_of(facts: ArchitectureFacts) -> tuple[CheckpointLayout, ...]:
    """The layouts that checkpoints of an architecture may have."""
    return (*(_hugging_face(facts, prefix) for prefix in _PREFIXES), _meta(facts))


def _hugging_face(facts: ArchitectureFacts, prefix: str) -> CheckpointLayout:
    names = _stems("", (each for each in facts.model_tensors if each.is_outside))
    within = (each for each in facts.model_tensors if not each.is_outside)
    names |= _stems(prefix, (EMBEDDING, facts.output_norm, *within))
    names |= {f"{prefix}{name}": EMBEDDING for name in _OTHER_EMBEDDINGS}
    in_layers = (*facts.block_tensors, *facts.prediction_tensors)
    names |= _stems(f"{prefix}layers.*.", in_layers) | dict.fromkeys(_OUTPUTS, OUTPUT)
    fused = {f"{prefix}layers.*.{each.hugging_face}": each for each in facts.fused_tensors}
    return CheckpointLayout("Hugging Face", names, facts.checkpoint_rope_type, fused, prefix)


def _stems(prefix: str, tensors: Iterable[TensorFacts]) -> dict[str, TensorFacts]:
    return {f"{prefix}{each.hugging_face}": each for each in tensors if each.hugging_face is not None}


def _meta(facts: ArchitectureFacts) -> CheckpointLayout:
    names = {f"{each.meta}": each for each in (EMBEDDING, facts.output_norm, OUTPUT) if each.meta}
    names |= {f"layers.*.{each.meta}": each for each in facts.block_tensors if each.meta}
    return CheckpointLayout("Meta and Mistral", names, RopeType.NORM)


def find_layout(layouts: Iterable[CheckpointLayout], names: Iterable[str]) -> CheckpointLayout | None:
    """The layout in which one of `names` is the embedding; None if there is none."""
    given = set(names)
    return next((each for each in layouts if any(_is_embedding(each, name) for name in given)), None)


def _is_embedding(layout: CheckpointLayout, name: str) -> bool:
    place = layout.place(name)
    return place is not None and place.name == f"{EMBEDDING.gguf}.weight"
