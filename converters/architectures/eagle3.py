"""EAGLE-3 heads, from their published checkpoints; the file is that of llama.cpp (`edgellm.arch.eagle3`).

There are two layouts, with the same tensors. SafeAILab, SpecForge and NVIDIA have the sizes in config.json itself, and
call the layer `midlayer`. The speculators library has the sizes in `transformer_layer_config`, and calls it `layers.0`.
Beside the layer are `fc`, `norm`, `lm_head`, and perhaps `embed_tokens` and `input_norm`. `d2t` holds for each logit
the target's id minus the number of the logit; the file has the ids themselves. `t2d` says the same otherwise.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from converters.architectures.config import Config
from converters.architectures.families.family import Family, llama3_rope
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.metadata import metadata_of
from converters.architectures.model import TextModel
from converters.architectures.rope import read_rope
from converters.architectures.sizes import MAX_VOCABULARY, read_sizes
from converters.architectures.tensors import row_order
from converters.architectures.variants import check_variant
from converters.checkpoint import Checkpoint
from converters.checkpoint.files import fail
from converters.checkpoint.shard import StoredTensor
from converters.file_bytes import read_bytes
from converters.tensors import Metadata, Source
from edgellm.arch.description import Description
from edgellm.arch.eagle3 import ARCHITECTURE, FACTS, NORMS, TAPS
from edgellm.arch.facts import CheckpointClass
from edgellm.fmt import printable

CLASSES = ("LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3Speculator", "Eagle3DraftModel")
"""The entries of `architectures` in config.json that are heads of one layer of Llama."""

_LAYERS = ("midlayer.", "layers.0.")
_OTHERS = ("d2t", "t2d", "verifier_")
"""Tensors that are not copied: see `_token_ids`, and parts of the target."""
_FAMILY = Family()
_LAYER_CONFIG, _TAP_IDS = "transformer_layer_config", "eagle_aux_hidden_state_layer_ids"


def is_eagle3(config: Config) -> bool:
    """Whether a checkpoint is a head; the first ones have the class of a whole Llama, and a `draft_vocab_size`."""
    names = config.names("architectures")
    return (bool(names) and (names[0] in CLASSES or "Eagle3" in names[0])) or config.given("draft_vocab_size")


def describe_eagle3(checkpoint: Checkpoint, target: Description) -> tuple[Metadata, list[Source]]:
    """The metadata of a head without its vocabulary, and its tensors; see `HeadKind`."""
    given = Config(checkpoint.path / "config.json", checkpoint.config)
    config = given.merged(_LAYER_CONFIG)
    check_kind(given)
    sizes, checkpoint_class = read_sizes(config), CheckpointClass(CLASSES[0])
    if sizes.vocab != target.vocab:
        config.fail(f"the head is for a model of {sizes.vocab} tokens, and the target has {target.vocab}")
    rope = read_rope(config, checkpoint_class, _FAMILY.rope_kinds)
    if rope.rotary_fraction != 1.0:
        config.refuse("EAGLE-3 heads that are rotated in part (partial_rotary_factor) are not supported")
    model = TextModel(checkpoint, config, FACTS, checkpoint_class, sizes, rope)
    tensors = llama3_rope(model, [*_sources(model, target.width), *_token_ids(checkpoint, config, sizes.vocab)])
    keys = _keys(given, target)
    family = replace(_FAMILY, leading=tuple(keys.metadata), write=lambda own, _: own.metadata.update(keys.metadata))
    return metadata_of(model, family, tensors), tensors


def check_kind(given: Config) -> None:
    """Refuse heads that edgellm does not compute, by config.json. Raises UnsupportedModelError."""
    config, names = given.merged(_LAYER_CONFIG), given.names("architectures")
    if names and names[0] not in (*CLASSES, "LlamaForCausalLM"):
        config.refuse(f"draft heads of the class {printable(names[0])} are not supported, only {', '.join(CLASSES)}")
    if config.integer("num_hidden_layers", 1) != 1:
        config.refuse("EAGLE-3 heads of several layers are not supported")
    if given.flag("fc_norm"):
        config.refuse("EAGLE-3 heads with a norm of each hidden state of the target (fc_norm) are not supported")
    check_variant(config, FACTS, _FAMILY)


def _keys(config: Config, target: Description) -> ArchitectureKeys:
    """The keys of a head. Raises ModelFileError."""
    keys = ArchitectureKeys(ARCHITECTURE)
    keys.integers("target_layers", _tap_ids(config, len(target.layers)))
    width = config.integer("target_hidden_size", target.width)
    if width != target.width:
        config.fail(f"target_hidden_size is {width}, and the target has {target.width}: give the head its own target")
    keys.integer("target_hidden_size", width)
    for name in ("norm_before_residual", "norm_before_fc"):
        keys.flag(name, config.flag(name))
    if config.flag("norm_output"):
        keys.flag("norm_output", True)
    return keys


def _tap_ids(config: Config, layers: int) -> list[int]:
    """The numbers of the target's layers whose input the head reads; where config.json has none, those of training."""
    nested = Config(config.path, config.section("eagle_config"))
    where = next((each for each in (config, nested) if each.given(_TAP_IDS)), None)
    numbers = where.numbers(_TAP_IDS) if where else [2, layers // 2, layers - 3]
    found = [int(each) if each == int(each) else each for each in numbers]
    if len(found) != TAPS or not 1 <= found[0] < found[1] < found[2] <= layers or numbers != [*map(int, numbers)]:
        what = f"the layers of the target that the head reads ({_TAP_IDS}) are {found}"
        config.fail(f"{what}, not {TAPS} numbers from 1 to {layers} in order")
    return [int(each) for each in found]


def _wanted(model: TextModel, target_width: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """By the checkpoint's names, those of both layouts: the GGUF name of each tensor, and its shape."""
    sizes, layer, features = model.sizes, model.sizes.layer(0), TAPS * target_width
    rows = model.config.integer("draft_vocab_size", sizes.vocab, most=MAX_VOCABULARY)
    wanted = {
        "fc.weight": ("fc.weight", (sizes.width, features)),
        "norm.weight": ("output_norm.weight", (sizes.width,)),
        "lm_head.weight": ("output.weight", (rows, sizes.width)),
        "embed_tokens.weight": ("token_embd.weight", (sizes.vocab, sizes.width)),
    }
    if model.config.flag("norm_before_fc"):
        wanted["input_norm.weight"] = ("enc.output_norm.weight", (features,))
    for each in (*FACTS.block_tensors, *NORMS):
        for prefix in _LAYERS:
            wanted[f"{prefix}{each.hugging_face}.weight"] = (f"blk.0.{each.name}", layer.shape(each.shape))
    return wanted


def _sources(model: TextModel, target_width: int) -> Iterator[Source]:
    """The tensors but d2t. Raises ModelFileError for one that is missing, unknown, or of another shape."""
    checkpoint, wanted = model.checkpoint, _wanted(model, target_width)
    left = {gguf for gguf, _ in wanted.values()}
    in_order = sorted(checkpoint.tensors, key=lambda name: (checkpoint.tensors[name].file.name, name))
    for name in (name for name in in_order if not name.startswith(_OTHERS)):
        gguf, shape = wanted.get(name, ("", ()))
        if gguf not in left:
            model.config.fail(f"tensor {printable(name)} has no place in this EAGLE-3 head; choose another checkpoint")
        if checkpoint.tensors[name].shape != shape:
            shapes = f"{list(checkpoint.tensors[name].shape)}, not {list(shape)} as config.json and the target ask"
            model.config.fail(f"tensor {printable(name)} has shape {shapes}; get another copy of the head")
        left.remove(gguf)
        yield checkpoint.source(name, gguf, row_order(gguf, model.sizes))
    if lacking := sorted(left - {"token_embd.weight", "output.weight"}):
        model.config.fail(f"the checkpoint has no tensor for {lacking[0]} of GGUF; get another copy of it")


def _token_ids(checkpoint: Checkpoint, config: Config, vocab: int) -> Iterator[Source]:
    """The tensor d2t with the target's ids, where the checkpoint has it. Raises ModelFileError."""
    stored = checkpoint.tensors.get("d2t")
    rows = config.integer("draft_vocab_size", vocab, most=MAX_VOCABULARY)
    if stored is None:
        if rows != vocab:
            config.fail(f"draft_vocab_size is {rows} of {vocab} tokens, and no tensor d2t says which; get another copy")
        return
    if not isinstance(stored, StoredTensor) or stored.dtype != "I64" or prod(stored.shape) != rows:
        fail(checkpoint.path, f"tensor d2t is not {rows} numbers of I64; get another copy of the head")
    ids = read_bytes(stored.file, stored.offset, stored.nbytes).view("<i8") + np.arange(rows)
    if ids.min() < 0 or ids.max() >= vocab or len(np.unique(ids)) != rows:
        fail(checkpoint.path, f"tensor d2t does not give different ids of {vocab} tokens; get another copy of the head")
    yield _vector_of_ids("d2t", ids)


def _vector_of_ids(name: str, values: NDArray[np.int64]) -> Source:
    """A tensor of token ids: a vector of I64."""
    data = values.astype("<i8").reshape(1, -1).view(np.uint8)
    return Source(name, values.shape, "I64", lambda first, last: data[first:last])
