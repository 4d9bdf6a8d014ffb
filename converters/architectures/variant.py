"""What one architecture has that its relatives do not, and the sizes of one model."""

from dataclasses import dataclass

from converters.architectures.config import Config

_MOST_LAYERS = 1024
_WINDOW = 4096  # of transformers, where config.json has a window and no number


@dataclass(frozen=True)
class Variant:
    """A relative of Llama, as its GGUF file and its config.json in Hugging Face transformers have it.

    `architecture` is GGUF's name. Then the values of keys that config.json may leave out: `kv_heads` None means all
    heads, `head_dim` None the width of the model divided among the heads.

    `neighbours`: GGUF turns dimensions 2i and 2i + 1 of a head together, so the rows of q and k move.
    `biases` are the products that have one, `optional_biases` those that have one if a key of config.json says so.
    `biases_here_alone`: llama.cpp does not open a file of the architecture that has the optional ones.
    `head_norms`: each head of q and k is normed. `window`: a sliding window needs no switch in config.json;
    `window_switch`: it has one, and perhaps layers that see all.
    `head_size`: transformers knows this size of the architecture, so llama.cpp's converter always writes it.
    """

    architecture: str
    context_length: int
    kv_heads: int | None
    head_dim: int | None = None
    neighbours: bool = False
    biases: tuple[str, ...] = ()
    optional_biases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    biases_here_alone: bool = False
    head_norms: bool = False
    window: bool = False
    window_switch: bool = False
    head_size: bool = True


@dataclass(frozen=True)
class CheckpointSizes:
    """The sizes of a model, in weights, heads and tokens, and the epsilon of its norms."""

    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context_length: int
    eps: float


def read_sizes(config: Config, variant: Variant) -> CheckpointSizes:
    """The sizes that config.json gives, checked against each other. Raises ModelFileError."""
    width = config.integer("hidden_size", most=1 << 20)
    heads = config.integer("num_attention_heads", most=1 << 12)
    given_none = "num_key_value_heads" in config.nulls  # transformers then takes as many as there are heads
    kv_default = heads if given_none else variant.kv_heads or heads
    kv_heads = config.integer("num_key_value_heads", kv_default, most=1 << 12)
    head_dim = config.integer("head_dim", variant.head_dim or width // heads, most=1024)
    if heads % kv_heads:
        config.fail(f"{heads} attention heads cannot share {kv_heads} key-value heads; correct it")
    if head_dim % 2 or ("head_dim" not in config and variant.head_dim is None and width % heads):
        config.fail(f"heads of {head_dim} dimensions in a model of width {width} are impossible; correct it")
    return CheckpointSizes(
        layers=config.integer("num_hidden_layers", most=_MOST_LAYERS),
        width=width,
        ffn=config.integer("intermediate_size", most=1 << 22),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=config.integer("vocab_size", most=1 << 24),
        context_length=config.integer("max_position_embeddings", variant.context_length),
        eps=config.number("rms_norm_eps", 1e-6),
    )


def sliding_window(config: Config, variant: Variant) -> int | None:
    """How many tokens the layers that see fewest of them see, or None where all see all.

    Mistral's configuration gives the number alone. Qwen's has a switch beside it, off by default, and says which
    layers: those from `max_window_layers` on, unless `layer_types` names the kind of each. A number of null is no
    window, in contrast to one that is absent.
    """
    switched_on = variant.window_switch and config.flag("use_sliding_window")
    slides = variant.window or (switched_on and _some_layer_slides(config))
    if not slides or "sliding_window" in config.nulls:
        return None
    return config.integer("sliding_window", _WINDOW)


def _some_layer_slides(config: Config) -> bool:
    layers = config.integer("num_hidden_layers", most=_MOST_LAYERS)
    kinds = config.names("layer_types")
    first = config.integer("max_window_layers", 28, least=0)  # transformers' own default
    return "sliding_attention" in kinds[:layers] if kinds else first < layers
