"""From a checkpoint's config.json and tensors to GGUF metadata and tensors; the facts are in `edgellm.arch`."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from converters.architectures.config import Config
from converters.architectures.metadata import metadata_of
from converters.architectures.rope import rope_config, rope_factors
from converters.architectures.sizes import read_sizes
from converters.architectures.tensors import read_tensors
from converters.tensors import Metadata, Source
from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.fmt import printable

if TYPE_CHECKING:
    from converters.checkpoint import Checkpoint

_CLASSES: dict[str, tuple[ArchitectureFacts, CheckpointClass]] = {
    each.name: (facts, each) for facts in ARCHITECTURES.values() for each in facts.checkpoints
}


def describe(checkpoint: "Checkpoint") -> tuple[Metadata, list[Source]]:
    """The metadata of a model without its vocabulary, and its tensors, both in the order of llama.cpp's converter.

    No weight is read. `general.file_type` is that of the checkpoint; a quantization mix replaces it by
    `metadata | {"general.file_type": …}`, which keeps its position. Raises ModelFileError where the files contradict
    each other, and UnsupportedModelError for a model that cannot be converted.
    """
    config = Config(checkpoint.path / "config.json", checkpoint.config)
    facts, checkpoint_class = facts_of(config)
    sizes = read_sizes(config, checkpoint_class)
    rope = rope_config(config, sizes)
    tensors = read_tensors(checkpoint, config, facts, checkpoint_class, sizes)
    factors = rope_factors(rope, sizes)
    if factors is not None:
        tensors.insert(0, _computed("rope_freqs.weight", factors))
    metadata = metadata_of(checkpoint, config, rope, facts, checkpoint_class, sizes, tensors)
    return metadata, tensors


def facts_of(config: Config) -> tuple[ArchitectureFacts, CheckpointClass]:
    """The facts of the model's architecture and of its class. Raises UnsupportedModelError for an unknown class."""
    names = config.names("architectures")
    if not names or names[0] not in _CLASSES:
        what = printable(names[0]) if names else "an unnamed architecture"
        config.refuse(f"{what} cannot be converted; {', '.join(_CLASSES)} can")
    if config.word("hidden_act", "silu") not in ("silu", "swish") or not config.flag("is_causal", default=True):
        config.refuse("only causal models with silu (hidden_act, is_causal) can be converted; choose another model")
    return _CLASSES[names[0]]


def _computed(name: str, values: NDArray[np.float32]) -> Source:
    data = values.astype("<f4").view(np.uint8).reshape(1, -1)
    return Source(name, values.shape, "F32", lambda first, last: data[first:last])
