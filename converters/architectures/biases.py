"""Biases of projections that an architecture does not have."""

from collections.abc import Iterable

from converters.architectures.config import Config


def check_no_biases(config: Config, keys: Iterable[str] = ("attention_bias",)) -> None:
    """Refuse projections with biases, by the flags `keys` of config.json. Raises UnsupportedModelError."""
    for key in keys:
        if config.flag(key):
            config.refuse(f"biases of projections ({key}) are not supported for this architecture")
