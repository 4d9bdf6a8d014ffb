"""Models as checkpoints have them, and as GGUF does. A file says what one architecture has of its own."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from converters.architectures import llama, mistral, qwen2, qwen3
from converters.architectures.config import Config
from converters.architectures.metadata import metadata_of
from converters.architectures.rope import rope_config, rope_factors
from converters.architectures.tensors import read_tensors
from converters.architectures.variant import Variant, read_sizes
from converters.tensors import Metadata, Source
from edgellm.fmt import printable

if TYPE_CHECKING:
    from converters.checkpoint import Checkpoint

VARIANTS = {
    "LlamaForCausalLM": llama.VARIANT,
    "MistralForCausalLM": mistral.VARIANT,
    "Qwen2ForCausalLM": qwen2.VARIANT,
    "Qwen3ForCausalLM": qwen3.VARIANT,
}
"""The classes of Hugging Face transformers whose checkpoints can be converted."""


def describe(checkpoint: "Checkpoint") -> tuple[Metadata, list[Source]]:
    """The metadata of a model, all but its vocabulary, and its tensors, both in llama.cpp's order.

    No weight is read. `general.file_type` is that of the checkpoint itself: a recipe sets its own with
    `metadata | {"general.file_type": …}`, which keeps the place. Raises ModelFileError where the files contradict
    each other, and UnsupportedModelError by name.
    """
    config = Config(checkpoint.path / "config.json", checkpoint.config)
    variant = variant_of(config)
    sizes = read_sizes(config, variant)
    rope = rope_config(config, sizes)
    tensors = read_tensors(checkpoint, config, variant, sizes)
    factors = rope_factors(rope, sizes)
    if factors is not None:
        tensors.insert(0, _computed("rope_freqs.weight", factors))
    return metadata_of(checkpoint, config, rope, variant, sizes, tensors), tensors


def variant_of(config: Config) -> Variant:
    """What the model's architecture has of its own. Raises UnsupportedModelError for one that is not known here."""
    names = config.names("architectures")
    if not names or names[0] not in VARIANTS:
        what = printable(names[0]) if names else "an unnamed architecture"
        config.refuse(f"{what} cannot be converted; {', '.join(VARIANTS)} can")
    if config.word("hidden_act", "silu") not in ("silu", "swish") or not config.flag("is_causal", default=True):
        config.refuse("only causal models with silu (hidden_act, is_causal) can be converted; choose another model")
    return VARIANTS[names[0]]


def _computed(name: str, values: NDArray[np.float32]) -> Source:
    data = values.astype("<f4").view(np.uint8).reshape(1, -1)
    return Source(name, values.shape, "F32", lambda first, last: data[first:last])
