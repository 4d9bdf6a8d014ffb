"""The settings of attention layers, from the metadata. Some architectures have functions of their own for this."""

from dataclasses import replace

from edgellm.arch.description import AttentionSettings
from edgellm.arch.hyperparameters import HyperParameters


def grouped_query_attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention with RoPE over the first `rope.dimension_count` values of a head, by default all.

    All layers have the window `attention.sliding_window`, where the file has one.
    """
    heads, kv_heads = hyper.heads[layer], hyper.kv_heads[layer]
    key_dim = hyper.head_dim("attention.key_length", hyper.width // heads)
    value_dim = hyper.head_dim("attention.value_length", key_dim)
    hyper.check_heads(layer, key_dim, value_dim)
    return AttentionSettings(
        heads=heads,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        rope=hyper.rope(rope_dims(hyper, key_dim)),
        scale=key_dim**-0.5,
        window=window(hyper),
    )


def without_window(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention of models whose files do not say which layers have the window.

    Up to its length every token sees all tokens before it, so the context ends there: see
    `edgellm.arch.hyperparameters.HyperParameters.end_context`.
    """
    settings = grouped_query_attention(hyper, layer)
    if settings.window:
        hyper.end_context(settings.window)
    return replace(settings, window=None)


def rope_dims(hyper: HyperParameters, key_dim: int, name: str = "rope.dimension_count") -> int:
    """The values of a head that RoPE rotates: all, unless the file says how many."""
    dims = hyper.integer(name, key_dim)
    if not 0 < dims <= key_dim or dims % 2:
        hyper.file.fail(f"key {hyper.key(name)} is {dims}, but a head has {key_dim} dimensions; get another conversion")
    return dims


def window(hyper: HyperParameters) -> int | None:
    """The tokens that a windowed layer sees; None where the file has no window."""
    n = hyper.integer("attention.sliding_window", 0)
    if not 0 <= n < 1 << 31:
        hyper.file.fail(f"key {hyper.key('attention.sliding_window')} is {n}, below 0; get another conversion")
    return n or None


def is_windowed(hyper: HyperParameters, layer: int, every: int) -> bool:
    """Whether a layer has the file's window. The last of each `every` layers has none, unless the file says which.

    A file says so by `attention.sliding_window_pattern`: a number in place of `every`, or true for each windowed layer.
    """
    name = "attention.sliding_window_pattern"
    if hyper.file.is_array(hyper.key(name)):
        return bool(hyper.per_layer(name)[layer])
    pattern = hyper.integer(name, every)
    return pattern != 1 and (pattern == 0 or layer % pattern < pattern - 1)
