"""What the converter makes of a checkpoint whose config.json is replaced."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.tensors import Metadata, Source
from edgellm.errors import EdgeLLMWarning

Described = Callable[..., tuple[Metadata, list[Source]]]
"""`described("gemma2", sliding_window=8)`: a case of `support.families` with changes of its text configuration."""


def with_config(folder: Path, config: dict[str, Any]) -> tuple[Metadata, list[Source]]:
    """What `describe` gives for a checkpoint with this config.json."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)
        return describe(Checkpoint.open(folder))
