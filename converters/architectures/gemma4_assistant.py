"""Assistants of Gemma 4, from their checkpoints; the file is that of llama.cpp (`edgellm.arch.gemma4_assistant`).

The layers have the names of Gemma 4, and `text_config` their sizes. Beside them are `pre_projection` and
`post_projection`, between the width of the layers and that of the target (`backbone_hidden_size`). All layers count as
layers that share the keys and values of others.
"""

from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.families import gemma4
from converters.architectures.families.family import accept
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.metadata import metadata_of
from converters.architectures.model import TextModel
from converters.architectures.rope import read_rope
from converters.architectures.sizes import layer_count
from converters.architectures.tensors import read_tensors
from converters.architectures.variants import check_variant
from converters.checkpoint import Checkpoint
from converters.tensors import Metadata, Source
from edgellm.arch.description import Description
from edgellm.arch.gemma4_assistant import FACTS
from edgellm.arch.tensor_names import TensorFacts

_CLASSES = {each.name: each for each in FACTS.checkpoints}
_TARGET_WIDTH = "backbone_hidden_size"


def is_assistant(config: Config) -> bool:
    """Whether a checkpoint is one, by its class."""
    names = config.names("architectures")
    return bool(names) and names[0] in _CLASSES


def check_kind(given: Config) -> None:
    """Refuse assistants that edgellm does not compute, by config.json.

    Raises UnsupportedModelError, and ModelFileError for values that are missing or of a wrong type.
    """
    config = _text_model(given)
    config.integer(_TARGET_WIDTH)
    if config.flag("enable_moe_block") or config.integer("hidden_size_per_layer_input", 0, least=0):
        config.refuse("assistants of Gemma 4 with experts or per-layer embeddings are not supported")
    layers = layer_count(config)
    shared = config.integer("num_kv_shared_layers", 0, least=0, most=layers)
    if shared < layers:
        own = f"{layers - shared} of {layers} layers have keys and values of their own (num_kv_shared_layers)"
        config.refuse(f"{own}, which is not supported for assistants of Gemma 4")
    check_variant(config, FACTS, _FAMILY)


def describe_assistant(checkpoint: Checkpoint, target: Description) -> tuple[Metadata, list[Source]]:
    """The metadata of an assistant without its vocabulary, and its tensors; see `HeadKind`."""
    given = Config(checkpoint.path / "config.json", checkpoint.config)
    check_kind(given)
    config, checkpoint_class = _text_model(given), _CLASSES[given.names("architectures")[0]]
    sizes, width = _FAMILY.sizes(config), config.integer(_TARGET_WIDTH)
    for own, of_target, what in ((sizes.vocab, target.vocab, "tokens"), (width, target.width, "values a token")):
        if own != of_target:
            config.fail(f"the assistant is for a model of {own:,} {what}, and the target has {of_target:,}")
    facts = replace(FACTS, model_tensors=_projections(sizes.width, width))
    rope = read_rope(config, checkpoint_class, _FAMILY.rope_kinds)
    model = TextModel(checkpoint, config, facts, checkpoint_class, sizes, rope)
    tensors = _FAMILY.sources(model, read_tensors(model, _FAMILY))
    return metadata_of(model, _FAMILY, tensors), tensors


def _text_model(given: Config) -> Config:
    return given.text_model(_CLASSES[given.names("architectures")[0]].defaults)


def _projections(width: int, target_width: int) -> tuple[TensorFacts, ...]:
    shapes = {"pre_projection": (width, 2 * target_width), "post_projection": (target_width, width)}
    return tuple(
        TensorFacts(f"nextn.{name}.weight", name, None, shape, is_outside=True) for name, shape in shapes.items()
    )


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    gemma4.FAMILY.write(keys, model)
    keys.integer("embedding_length_out", model.config.integer(_TARGET_WIDTH))
    keys.integer("nextn_predict_layers", model.sizes.layer_count)


_FAMILY = replace(gemma4.FAMILY, check=accept, write=_write, drops_tied_output=True)
