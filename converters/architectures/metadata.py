"""The metadata of a model without its vocabulary, in the order of llama.cpp's converter."""

from collections.abc import Mapping, Sequence
from typing import Any

from converters.architectures.card import write_general
from converters.architectures.experts import count_weights, write_experts
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.rope import write_rope, write_yarn_magnitude
from converters.tensors import Metadata, MetadataValue, Source
from edgellm.arch.blocks import NormKind

# enum llama_ftype of llama.h, by the type of the first matrix.
_FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32, "MXFP4": 38}
_KINDS = {"UINT32": "u32", "INT32": "i32", "FLOAT32": "f32", "BOOL": "bool", "STRING": "str"}
_EPS_KEYS = {
    NormKind.RMS: ("rms_norm_eps", "norm_eps", "layer_norm_epsilon"),
    NormKind.LAYER: ("layer_norm_eps", "norm_epsilon", "norm_eps", "rms_norm_eps"),
}
_EPS_NAMES = {NormKind.RMS: "attention.layer_norm_rms_epsilon", NormKind.LAYER: "attention.layer_norm_epsilon"}


def metadata_of(model: TextModel, family: Family, tensors: list[Source]) -> Metadata:
    """The keys `general.*` and those of the architecture."""
    import gguf

    writer = gguf.GGUFWriter(None, model.facts.name)
    write_general(writer, model.checkpoint, count_weights(tensors))
    keys = ArchitectureKeys(model.facts.name)
    _write_common(keys, model)
    own = ArchitectureKeys(model.facts.name)
    matrix = next(tensor for tensor in tensors if len(tensor.shape) > 1)
    own.plain("general.file_type", MetadataValue("u32", _FILE_TYPES[matrix.type]))
    if model.facts.writes_vocab_size:
        own.integer("vocab_size", model.sizes.vocab)
        own.integer("rope.dimension_count", model.sizes.head_dim[0])
    family.write(own, model)
    own.plain("general.quantization_version", MetadataValue("u32", gguf.GGML_QUANT_VERSION))
    general = {key: _value(value) for key, value in writer.kv_data[0].items()}
    return _ordered(general, keys.metadata | own.metadata, model, family)


def _write_common(keys: ArchitectureKeys, model: TextModel) -> None:
    sizes, config, facts = model.sizes, model.config, model.facts
    keys.integer("block_count", sizes.layer_count)
    keys.integer("context_length", sizes.context_length)
    keys.integer("embedding_length", sizes.width)
    _write_sizes(keys, "feed_forward_length", sizes.ffn)
    keys.integer("attention.head_count", sizes.heads)
    _write_sizes(keys, "attention.head_count_kv", sizes.kv_heads)
    write_rope(keys, model.rope, facts.yarn_truncate)
    key = next((key for key in _EPS_KEYS[facts.norm_kind] if key in config), _EPS_KEYS[facts.norm_kind][0])
    keys.number(_EPS_NAMES[facts.norm_kind], config.number(key, 1e-6))
    if sizes.experts:
        write_experts(keys, model)
    if config.given("head_dim") or facts.writes_head_dim:
        keys.integer("attention.key_length", sizes.head_dim[0])
        keys.integer("attention.value_length", sizes.head_dim[0])
    write_yarn_magnitude(keys, model.rope)


def _write_sizes(keys: ArchitectureKeys, name: str, sizes: Sequence[int]) -> None:
    """Add the sizes of all layers: an array where some are 0, as in hybrid models, else that of the first layer."""
    if 0 in sizes and any(sizes):
        keys.integers(name, sizes)
    else:
        keys.integer(name, sizes[0])


def _ordered(
    general: Mapping[str, MetadataValue], own: Mapping[str, MetadataValue], model: TextModel, family: Family
) -> Metadata:
    """All keys in the family's order, without those that it omits."""
    prefix, metadata = model.facts.name, {**general, **own}
    architecture, *others = general
    ordered = (name if name.startswith("general.") else f"{prefix}.{name}" for name in family.order)
    order = [architecture, *family.leading, *others, *ordered, *own]
    omitted = {f"{prefix}.{name}" for name in family.omitted(model)}
    return {key: metadata[key] for key in dict.fromkeys(order) if key in metadata and key not in omitted}


def _value(value: Any) -> MetadataValue:
    """A value of `gguf.GGUFWriter` as a MetadataValue; all arrays here are of strings."""
    return MetadataValue(_KINDS.get(value.type.name, "str"), value.value)
