"""The tensors that a GGUF file of a model must have, by the facts of its architecture."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from converters.architectures.families.family import Family
from converters.architectures.model import TextModel
from edgellm.arch.blocks import NormKind
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT
from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import shown_path


class WantedTensor(NamedTuple):
    """A tensor of the GGUF file: its shape in numpy order, and whether the checkpoint may lack it.

    `checkpoint_shape` is its shape in the checkpoint, None where it is the same. With `in_all_layers` the checkpoint
    may lack it only if no other layer that wants such a tensor has it.
    """

    shape: tuple[int, ...]
    optional: bool
    checkpoint_shape: tuple[int, ...] | None = None
    in_all_layers: bool = False


Wanted = Mapping[str, WantedTensor]


def wanted_tensors(model: TextModel, family: Family) -> Iterator[tuple[str, WantedTensor]]:
    """GGUF names, shapes in numpy order, and whether a checkpoint may lack them, of all tensors of the model."""
    facts, sizes = model.facts, model.sizes
    first = sizes.layer(0)
    tied = model.config.flag("tie_word_embeddings")
    for each in (EMBEDDING, facts.output_norm, OUTPUT, *facts.model_tensors):
        optional = tied if each is OUTPUT else each.optional
        yield each.name, WantedTensor(first.shape(each.shape), optional)
    if facts.norm_kind is NormKind.LAYER:
        yield f"{facts.output_norm.gguf}.bias", WantedTensor((sizes.width,), not facts.biases)
    if model.config.flag("lm_head_bias"):
        yield f"{OUTPUT.gguf}.bias", WantedTensor((sizes.vocab,), False)
    required = [*facts.biases, *_biases_of_flags(model)]
    by_flag = {stem for stems in model.checkpoint_class.bias_keys.values() for stem in stems}
    possible = [stem for stem in facts.optional_biases if stem not in by_flag]
    for i in range(sizes.layer_count):
        lacks = family.lacks(model, i)
        for name, tensor in _wanted_in_layer(model, i, required, possible):
            may_lack = name.split(".")[2] in lacks
            everywhere = tensor.optional and not may_lack
            yield name, tensor._replace(optional=tensor.optional or may_lack, in_all_layers=everywhere)


def _wanted_in_layer(
    model: TextModel, index: int, biases: Iterable[str], possible_biases: Iterable[str]
) -> Iterator[tuple[str, WantedTensor]]:
    sizes, tensors = model.sizes.layer(index), model.facts.tensors
    fused = {gguf for each in model.facts.fused_tensors for gguf in each.gguf}
    predicts = index >= model.sizes.layer_count - model.sizes.prediction_layers
    for each in (*tensors.values(), *(model.facts.prediction_tensors if predicts else ())):
        shape = sizes.shape(each.shape)
        if (each.hugging_face is not None or each.gguf in fused) and 0 not in shape:
            stored = sizes.shape(each.checkpoint_shape) if each.checkpoint_shape else None
            yield f"blk.{index}.{each.name}", WantedTensor(shape, each.optional, stored)
    for stems, optional in ((biases, False), (possible_biases, True)):
        for stem in stems:
            if 0 in (shape := sizes.shape(tensors[stem].shape)):
                continue  # a layer without attention
            yield f"blk.{index}.{stem}.bias", WantedTensor(shape[:-1] or shape, optional or tensors[stem].optional)


def _biases_of_flags(model: TextModel) -> list[str]:
    """The stems of projections that have biases by the flags of config.json."""
    config, facts = model.config, model.facts
    flags = {key: stems for key, stems in model.checkpoint_class.bias_keys.items() if config.flag(key)}
    if flags and not facts.optional_biases_in_llamacpp:
        where = shown_path(config.path)
        text = f"{where}: {next(iter(flags))} is true, which llama.cpp does not know of {facts.name}"
        warnings.warn(f"{text}; edgellm reads the new file, llama.cpp does not", EdgeLLMWarning, stacklevel=2)
    return [stem for stems in flags.values() for stem in stems]
