"""The sizes of a model, and its sliding window, from config.json."""

from converters.architectures.config import Config
from edgellm.arch.description import ModelSizes
from edgellm.arch.facts import CheckpointClass

_MAX_LAYERS = 1024

_WINDOW = 4096
"""The default of transformers where config.json has a sliding window without its length."""


def read_sizes(config: Config, checkpoint_class: CheckpointClass) -> ModelSizes:
    """The sizes that config.json gives, checked against each other. Raises ModelFileError."""
    width = config.integer("hidden_size", most=1 << 20)
    heads = config.integer("num_attention_heads", most=1 << 12)
    is_null = "num_key_value_heads" in config.nulls  # transformers then takes as many as there are heads
    kv_default = heads if is_null else checkpoint_class.kv_heads or heads
    kv_heads = config.integer("num_key_value_heads", kv_default, most=1 << 12)
    head_dim = config.integer("head_dim", checkpoint_class.head_dim or width // heads, most=1024)
    if heads % kv_heads:
        config.fail(f"{heads} attention heads cannot share {kv_heads} key-value heads; correct it")
    if head_dim % 2 or ("head_dim" not in config and checkpoint_class.head_dim is None and width % heads):
        config.fail(f"heads of {head_dim} dimensions in a model of width {width} are impossible; correct it")
    return ModelSizes(
        layer_count=config.integer("num_hidden_layers", most=_MAX_LAYERS),
        width=width,
        ffn=config.integer("intermediate_size", most=1 << 22),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=config.integer("vocab_size", most=1 << 24),
        context_length=config.integer("max_position_embeddings", checkpoint_class.context_length),
        eps=config.number("rms_norm_eps", 1e-6),
    )


def sliding_window(config: Config, checkpoint_class: CheckpointClass) -> int | None:
    """The tokens that the windowed layers see; None where all layers see all tokens.

    Mistral's config.json has the length of the window alone. Qwen's has a flag beside it, false by default, and says
    which layers are windowed: those from `max_window_layers` on, unless `layer_types` has a type for each. A length of
    null is no window; an absent one is the default.
    """
    by_flag = checkpoint_class.sliding_window == "by_layer" and config.flag("use_sliding_window")
    is_windowed = checkpoint_class.sliding_window == "always" or (by_flag and _some_layer_is_windowed(config))
    if not is_windowed or "sliding_window" in config.nulls:
        return None
    return config.integer("sliding_window", _WINDOW)


def _some_layer_is_windowed(config: Config) -> bool:
    layers = config.integer("num_hidden_layers", most=_MAX_LAYERS)
    layer_types = config.names("layer_types")
    first = config.integer("max_window_layers", 28, least=0)  # the default of transformers
    return "sliding_attention" in layer_types[:layers] if layer_types else first < layers
