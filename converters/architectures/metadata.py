"""The metadata of a model without its vocabulary, in the order of llama.cpp's converter."""

from typing import TYPE_CHECKING, Any

from converters.architectures.card import write_general
from converters.architectures.config import Config
from converters.architectures.rope import write_rope
from converters.architectures.sizes import sliding_window
from converters.tensors import Metadata, MetadataValue, Source
from edgellm.arch.description import ModelSizes
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass

if TYPE_CHECKING:
    import gguf

    from converters.checkpoint import Checkpoint

# enum llama_ftype of llama.h, by the type of the first matrix.
_FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32}
_KINDS = {"UINT32": "u32", "INT32": "i32", "FLOAT32": "f32", "BOOL": "bool", "STRING": "str"}


def metadata_of(
    checkpoint: "Checkpoint",
    config: Config,
    rope: Config,
    facts: ArchitectureFacts,
    checkpoint_class: CheckpointClass,
    sizes: ModelSizes,
    tensors: list[Source],
) -> Metadata:
    """The keys `general.*` and those of the architecture, as `gguf.GGUFWriter` names them."""
    import gguf

    writer = gguf.GGUFWriter(None, facts.name)
    write_general(writer, checkpoint, sum(tensor.row_count * tensor.columns for tensor in tensors))
    _write_sizes(writer, sizes)
    write_rope(writer, rope)
    writer.add_layer_norm_rms_eps(sizes.eps)
    if "head_dim" in config or facts.writes_head_dim:
        writer.add_key_length(sizes.head_dim)
        writer.add_value_length(sizes.head_dim)
    window = sliding_window(config, checkpoint_class)
    if window is not None and window < sizes.context_length:
        writer.add_sliding_window(window)
    matrix = next(tensor for tensor in tensors if len(tensor.shape) > 1)
    writer.add_file_type(_FILE_TYPES[matrix.type])
    if facts.writes_vocab_size:
        writer.add_vocab_size(sizes.vocab)
        writer.add_rope_dimension_count(sizes.head_dim)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    return {key: _value(value) for key, value in writer.kv_data[0].items()}


def _write_sizes(writer: "gguf.GGUFWriter", sizes: ModelSizes) -> None:
    writer.add_block_count(sizes.layer_count)
    writer.add_context_length(sizes.context_length)
    writer.add_embedding_length(sizes.width)
    writer.add_feed_forward_length(sizes.ffn)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.kv_heads)


def _value(value: Any) -> MetadataValue:
    """A value of `gguf.GGUFWriter` as a MetadataValue; all arrays here are of strings."""
    return MetadataValue(_KINDS.get(value.type.name, "str"), value.value)
