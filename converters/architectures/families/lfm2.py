"""LFM2: layers of short convolutions among those of attention; feed-forwards narrower than config.json says."""

from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.recurrent import listed_layers
from converters.architectures.sizes import MAX_FFN, CheckpointSizes, layer_count, read_sizes
from edgellm.arch.recurrent import ShortConvSettings
from kquants.layout import MAX_TAPS


def check(config: Config) -> None:
    """Refuse convolutions with biases, which GGUF files of the architecture do not have."""
    if config.flag("conv_bias"):
        config.refuse("biases of short convolutions (conv_bias) are not supported for this architecture")


def convolutional_layers(config: Config) -> list[bool]:
    """Whether each layer is a convolution: by `layer_types`, else all but `full_attn_idxs`. Raises ModelFileError.

    Without either key no layer is, as in transformers.
    """
    if listed := listed_layers(config, ("conv",), ("full_attention",)):
        return listed
    key, layers = "full_attn_idxs", range(layer_count(config))
    with_attention = config.numbers(key) if key in config else layers
    if unknown := [each for each in with_attention if each not in layers]:
        config.fail(f"{key} names layer {unknown[0]:g}, and there are layers 0 to {layers[-1]}; correct it")
    return [i not in with_attention for i in layers]


def with_convolutions(config: Config, sizes: CheckpointSizes) -> CheckpointSizes:
    """The sizes with those of convolutions, in layers that have no attention. Raises ModelFileError."""
    settings = ShortConvSettings(sizes.width, config.integer("conv_L_cache", least=2, most=MAX_TAPS))
    return sizes.with_recurrent_layers(settings, convolutional_layers(config))


def feed_forward_width(config: Config) -> int:
    """The width of feed-forwards: two thirds of that in config.json, rounded up to a multiple of `block_multiple_of`.

    `block_ff_dim` is the older name of `intermediate_size`, and counts if a file has both (`Lfm2MLP` of transformers).
    """
    key = "block_ff_dim" if "block_ff_dim" in config else "intermediate_size"
    width = config.integer(key, most=MAX_FFN)
    if not config.flag("block_auto_adjust_ff_dim"):
        return width
    width = int(2 * width / 3)
    if "block_ffn_dim_multiplier" in config:
        width = int(min(config.number("block_ffn_dim_multiplier") * width, MAX_FFN))
    multiple = config.integer("block_multiple_of", most=MAX_FFN)
    if width < 1:
        config.fail(f"{key} and block_ffn_dim_multiplier give feed-forwards of width {width}; correct them")
    return multiple * -(-width // multiple)


def _sizes(config: Config) -> CheckpointSizes:
    sizes = with_convolutions(config, read_sizes(config))
    return replace(sizes, ffn=(feed_forward_width(config),) * sizes.layer_count)


def write(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the keys of the vocabulary and of convolutions."""
    keys.integer("vocab_size", model.sizes.vocab)
    keys.integer("shortconv.l_cache", model.config.integer("conv_L_cache"))


FAMILY = Family(check=check, sizes=_sizes, write=write)
