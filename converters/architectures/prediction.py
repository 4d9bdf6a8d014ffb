"""Layers for multi-token prediction, which checkpoints number behind the others."""

import re
from typing import TYPE_CHECKING

from converters.architectures.config import Config
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.sizes import layer_count

if TYPE_CHECKING:
    from converters.architectures.model import TextModel
    from converters.checkpoint import Checkpoint

_COUNT = "num_nextn_predict_layers"
_MOST = 64


def prediction_layers(checkpoint: "Checkpoint", config: Config) -> int:
    """How many there are: as config.json says, or none in a checkpoint that was saved without them."""
    count = config.integer(_COUNT, 0, least=0, most=_MOST)
    first = re.compile(rf"\blayers\.{layer_count(config)}\.")
    return count if any(first.search(name) for name in checkpoint.tensors) else 0


def write_prediction_layers(keys: ArchitectureKeys, model: "TextModel") -> None:
    """Add their number, where config.json has one."""
    if _COUNT in model.config:
        keys.integer("nextn_predict_layers", model.sizes.prediction_layers)
