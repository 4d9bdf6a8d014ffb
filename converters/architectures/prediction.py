"""Layers for multi-token prediction, which checkpoints number behind the others, or keep apart as `mtp`."""

import re
from typing import TYPE_CHECKING

from converters.architectures.config import Config
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.sizes import layer_count

if TYPE_CHECKING:
    from converters.architectures.model import TextModel
    from converters.checkpoint import Checkpoint

_COUNT = "num_nextn_predict_layers"
_OWN_COUNT = "mtp_num_hidden_layers"
_MOST = 64
_APART = re.compile(r"(model\.)?mtp\.(layers\.(?P<layer>[0-9]{1,3})\.)?(?P<name>.+)")
_OUTSIDE_LAYERS = {
    "fc": "eh_proj",
    "pre_fc_norm_embedding": "enorm",
    "pre_fc_norm_hidden": "hnorm",
    "norm": "shared_head.norm",
}
"""Tensors of the first such layer: by their stems in checkpoints that keep these layers apart, the usual stems."""


def is_apart(name: str) -> bool:
    """Whether a tensor belongs to layers that the checkpoint keeps apart."""
    return _APART.fullmatch(name) is not None


def numbered(name: str, first: int) -> str:
    """The name of a tensor with the number of its layer, for layers that the checkpoint keeps apart.

    They follow the others, from number `first` on: `mtp.layers.0.mlp.up_proj.weight` becomes
    `layers.4.mlp.up_proj.weight` for 4.
    """
    found = _APART.fullmatch(name)
    assert found, f"{name} is none of them"
    stem, _, kind = found["name"].rpartition(".")
    inner = found["name"] if found["layer"] else f"{_OUTSIDE_LAYERS.get(stem, stem)}.{kind}"
    return f"layers.{first + int(found['layer'] or 0)}.{inner}"


def separate_prediction_layers(checkpoint: "Checkpoint", config: Config) -> int:
    """How many a checkpoint has that keeps them apart. Raises ModelFileError if config.json gives another number."""
    found = [_APART.fullmatch(name) for name in checkpoint.tensors]
    count = max((int(each["layer"]) + 1 for each in found if each and each["layer"]), default=0)
    given = config.integer(_OWN_COUNT, count, least=0, most=_MOST)
    if count and given != count:
        config.fail(f"{_OWN_COUNT} is {given}, and the checkpoint has {count} such layers; get another copy of it")
    return count


def prediction_layers(checkpoint: "Checkpoint", config: Config) -> int:
    """How many there are: as config.json says, or none in a checkpoint that was saved without them."""
    count = config.integer(_COUNT, 0, least=0, most=_MOST)
    first = re.compile(rf"\blayers\.{layer_count(config)}\.")
    return count if any(first.search(name) for name in checkpoint.tensors) else 0


def write_prediction_layers(keys: ArchitectureKeys, model: "TextModel") -> None:
    """Add their number, where config.json has one."""
    if _COUNT in model.config:
        keys.integer("nextn_predict_layers", model.sizes.prediction_layers)
