"""From a checkpoint's config.json and tensors to GGUF metadata and tensors; the facts are in `edgellm.arch`.

config       typed access to config.json
sizes, windows, rope, rope_factors   what is read of it
layouts      the names of tensors in checkpoints
wanted       the tensors that the facts ask for
prediction   layers for multi-token prediction
tensors      matches those of a checkpoint with them
sources      tensors made of others
biases       those that an architecture does not have
recurrent, mamba, mamba_ssm   keys, sizes and variants of recurrent layers
keys, metadata, card   the keys of the file
eagle3, gemma4_assistant   draft heads; `draft_heads` says of which kind a checkpoint is
families     what the facts do not say, one file for each architecture that needs more
"""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from converters.architectures.config import Config
from converters.architectures.families import family_of
from converters.architectures.mamba_ssm import in_names_of_transformers
from converters.architectures.metadata import metadata_of
from converters.architectures.model import TextModel
from converters.architectures.prediction import prediction_layers, separate_prediction_layers
from converters.architectures.rope import read_rope
from converters.architectures.tensors import read_tensors
from converters.architectures.variants import check_variant
from converters.tensors import Metadata, Source
from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.fmt import printable

if TYPE_CHECKING:
    from converters.checkpoint import Checkpoint

_CLASSES: dict[str, tuple[ArchitectureFacts, CheckpointClass]] = {
    each.name: (facts, each) for facts in ARCHITECTURES.values() for each in facts.checkpoints
}

_CLASS_ENDING = re.compile(r"_?For(CausalLM|ConditionalGeneration)$")

_PUZZLE = "block_configs"
"""The key of layers that differ, in checkpoints of Nemotron 3 Puzzle and Llama-Nemotron Super and Ultra."""


def describe(checkpoint: "Checkpoint") -> tuple[Metadata, list[Source]]:
    """The metadata of a model without its vocabulary, and its tensors, both in the order of llama.cpp's converter.

    No weight is read. `general.file_type` is that of the checkpoint; a quantization mix replaces it by
    `metadata | {"general.file_type": …}`, which keeps its position. Raises ModelFileError where the files contradict
    each other, and UnsupportedModelError for a model that cannot be converted.
    """
    config, facts, checkpoint_class = text_model(Config(checkpoint.path / "config.json", checkpoint.config))
    family = family_of(facts.name)
    sizes = family.sizes(config)
    if facts.prediction_tensors:
        count = separate_prediction_layers if family.separate_prediction else prediction_layers
        sizes = sizes.with_prediction_layers(count(checkpoint, config))
    rope = read_rope(config, checkpoint_class, family.rope_kinds)
    if rope.rotary_fraction != 1.0 and not family.partial_rotary:
        config.refuse("heads that are rotated in part (partial_rotary_factor) are not supported for this architecture")
    model = TextModel(checkpoint, config, facts, checkpoint_class, sizes, rope)
    tensors = family.sources(model, read_tensors(model, family))
    written = replace(model, facts=ARCHITECTURES[family.file_architecture(model)])
    return metadata_of(written, family, tensors), tensors


def text_model(config: Config) -> tuple[Config, ArchitectureFacts, CheckpointClass]:
    """The configuration of the text model in config.json, the facts of its architecture, and those of its class.

    Raises UnsupportedModelError for an unknown class, and for a variant that edgellm does not compute.
    """
    config = in_names_of_transformers(config)
    if config.given(_PUZZLE):
        what = f"layers with feed-forwards or experts of different sizes ({_PUZZLE}, as NVIDIA's Puzzle makes them)"
        config.refuse(f"{what} are not supported; convert the model that this one was made of")
    names = config.names("architectures")
    if not names or names[0] not in _CLASSES:
        what = printable(names[0]) if names else "an unnamed architecture"
        config.refuse(f"{what} cannot be converted; choose a model of {', '.join(_class_stems())}")
    facts, checkpoint_class = _CLASSES[names[0]]
    text = config.text_model(checkpoint_class.defaults)
    if choose := family_of(facts.name).read_architecture:
        facts = ARCHITECTURES[choose(text)]
    check_variant(text, facts, family_of(facts.name))
    return text, facts, checkpoint_class


def _class_stems() -> list[str]:
    """The classes that can be converted, by what distinguishes their names: "Qwen3" for Qwen3ForCausalLM."""
    stems = {stem.casefold(): stem for stem in (_CLASS_ENDING.sub("", name) for name in _CLASSES)}
    return [stems[key] for key in sorted(stems)]
