"""Sliding windows, from config.json: how many tokens a windowed layer sees, and which layers are windowed."""

from typing import TYPE_CHECKING

from converters.architectures.keys import ArchitectureKeys
from converters.architectures.sizes import layer_count

if TYPE_CHECKING:
    from converters.architectures.config import Config
    from converters.architectures.model import TextModel

_WINDOW = 4096
"""The default of transformers where config.json has a sliding window without its length."""
_WINDOWED = "sliding_attention"


def write_window(keys: ArchitectureKeys, model: "TextModel") -> None:
    """Add the window of models whose architecture in GGUF has no pattern of windows.

    Mistral's config.json has the length of the window alone: all layers have it. Qwen's has a flag beside it, false by
    default, and says which layers are windowed, which the file then says, too. A length of null is no window; an absent
    one is the default.
    """
    config, kind = model.config, model.checkpoint_class.sliding_window
    windowed = _windowed_by_flag(config) if kind == "by_flag" and config.flag("use_sliding_window") else []
    if (kind == "always" or any(windowed)) and "sliding_window" not in config.nulls:
        window = config.integer("sliding_window", _WINDOW)
        if window < model.sizes.context_length:
            keys.integer("attention.sliding_window", window)
            if windowed:
                keys.flags("attention.sliding_window_pattern", windowed)


def _windowed_by_flag(config: "Config") -> list[bool]:
    """Whether each layer is windowed: those from `max_window_layers` on, unless `layer_types` has a type for each."""
    layers = layer_count(config)
    if layer_types := config.names("layer_types"):
        return [each == _WINDOWED for each in layer_types[:layers]]
    first = config.integer("max_window_layers", 28, least=0)  # the default of transformers
    return [layer >= first for layer in range(layers)]


def windowed_layers(config: "Config", every: int) -> list[bool]:
    """Whether each layer is windowed: by `layer_types`, else by a pattern; the last of each `every` layers is not.

    `sliding_window_pattern` in config.json replaces `every`: a number, or a text with L for each windowed layer of a
    group. Raises ModelFileError.
    """
    layers, layer_types = layer_count(config), config.names("layer_types")
    if layer_types:
        if len(layer_types) < layers or not {*layer_types} <= {_WINDOWED, "full_attention"}:
            config.fail(f"layer_types must have {_WINDOWED} or full_attention for each of {layers} layers; correct it")
        return [each == _WINDOWED for each in layer_types[:layers]]
    key = next((k for k in ("sliding_window_pattern", "_sliding_window_pattern") if k in config), None)
    if key and config.is_text(key):
        letters = config.word(key, "") or "G"
        return [letters[i % len(letters)] == "L" for i in range(layers)]
    period = config.integer(key, least=1) if key else every
    return [i % period < period - 1 for i in range(layers)]


def write_window_pattern(keys: ArchitectureKeys, model: "TextModel", every: int) -> None:
    """Add the pattern where it is not the one that readers assume for the architecture: every n-th layer is full."""
    windowed = windowed_layers(model.config, every)
    if windowed != [i % every < every - 1 for i in range(len(windowed))]:
        keys.flags("attention.sliding_window_pattern", windowed)
