"""What is known of a checkpoint's text model before its tensors are read."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from converters.architectures.config import Config
from converters.architectures.rope import RopeParameters
from converters.architectures.sizes import CheckpointSizes
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass

if TYPE_CHECKING:
    from converters.checkpoint import Checkpoint


@dataclass(frozen=True)
class TextModel:
    """A checkpoint's text model. `config` is its configuration, without that of a larger model around it."""

    checkpoint: "Checkpoint"
    config: Config
    facts: ArchitectureFacts
    checkpoint_class: CheckpointClass
    sizes: CheckpointSizes
    rope: RopeParameters
