"""SmolLM3: every fourth layer has no positions, which no key of a file says."""

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.sizes import layer_count

_EVERY = 4


def _check(config: Config) -> None:
    if config.flag("use_sliding_window"):
        config.refuse("sliding windows (use_sliding_window) are not supported for smollm3")
    layers = layer_count(config)
    wanted = [int((i + 1) % _EVERY != 0) for i in range(layers)]
    given = config.integers("no_rope_layers", layers, least=0, most=1) if "no_rope_layers" in config else wanted
    if given != wanted or config.integer("no_rope_layer_interval", _EVERY) != _EVERY:
        config.refuse(f"no_rope_layers other than every {_EVERY}th are not supported: GGUF files imply these")


FAMILY = Family(check=_check)
