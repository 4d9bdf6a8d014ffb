"""The settings of attention layers, from the metadata. Some architectures have functions of their own for this."""

from dataclasses import replace

from edgellm.arch.blocks import AttentionSettings
from edgellm.arch.hyperparameters import HyperParameters

PATTERN = "attention.sliding_window_pattern"
"""The key that says which layers have the file's window."""


def grouped_query_attention(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention with RoPE over the first `rope.dimension_count` values of a head, by default all.

    Where the file has a window `attention.sliding_window`, all layers have it, unless the file says which. Raises
    ModelFileError for a layer without heads.
    """
    heads, kv_heads = hyper.heads[layer], hyper.kv_heads[layer]
    if not hyper.has_heads(layer):
        hyper.file.fail(f"layer {layer} has {heads} heads of attention and {kv_heads} KV heads; get another conversion")
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
        window=window(hyper) if is_windowed(hyper, layer, every=0) else None,
    )


def interleaved_windows(hyper: HyperParameters, layer: int, every: int) -> AttentionSettings:
    """Grouped-query attention with a window, but for the last of each `every` layers; see `is_windowed`."""
    settings = grouped_query_attention(hyper, layer)
    return replace(settings, window=window(hyper) if is_windowed(hyper, layer, every) else None)


def rope_in_windows(hyper: HyperParameters, layer: int, every: int = 4) -> AttentionSettings:
    """Interleaved windows, with RoPE on windowed layers alone; see `interleaved_windows`. The file has a window."""
    if not has_window(hyper):
        hyper.file.fail(f"has no window at key {hyper.key('attention.sliding_window')}; get another conversion")
    settings = interleaved_windows(hyper, layer, every)
    return settings if settings.window else replace(settings, rope=None)


def window_of_some_layers(hyper: HyperParameters, layer: int) -> AttentionSettings:
    """Grouped-query attention of models with a window in some layers; many files do not say in which.

    The context of such a file ends with the window's length, up to which the window hides nothing: see
    `edgellm.arch.hyperparameters.HyperParameters.end_context`.
    """
    settings = grouped_query_attention(hyper, layer)
    if settings.window is None or PATTERN in hyper:
        return settings
    hyper.end_context(settings.window)
    return replace(settings, window=None)


def rope_dims(hyper: HyperParameters, key_dim: int, name: str = "rope.dimension_count") -> int:
    """The values of a head that RoPE rotates: all, unless the file says how many."""
    dims = hyper.integer(name, key_dim)
    if not 0 < dims <= key_dim or dims % 2:
        what = f"key {hyper.key(name)} is {dims}" if name in hyper else f"heads have {dims} values"
        hyper.file.fail(f"{what}, not an even number from 2 to {key_dim}, which RoPE rotates; get another conversion")
    return dims


def window(hyper: HyperParameters, default: int = 0) -> int | None:
    """The tokens that a windowed layer sees; None where the file has no window."""
    n = hyper.integer("attention.sliding_window", default)
    if n < 0:
        hyper.file.fail(f"key {hyper.key('attention.sliding_window')} is {n}, below 0; get another conversion")
    return n or None


def has_window(hyper: HyperParameters) -> bool:
    """Whether the file has a window, of any length."""
    return hyper.integer("attention.sliding_window", 0) > 0


def is_windowed(hyper: HyperParameters, layer: int, every: int) -> bool:
    """Whether a layer has the file's window. The last of each `every` layers has none, unless the file says which.

    With 0 all layers have it. A file says which by PATTERN: a number in place of `every`, or true for each windowed
    layer.
    """
    if hyper.file.is_array(hyper.key(PATTERN)):
        return bool(hyper.per_layer(PATTERN)[layer])
    pattern = hyper.integer(PATTERN, every)
    if pattern < 0:
        hyper.file.fail(f"key {hyper.key(PATTERN)} is {pattern}, below 0; get another conversion of the model")
    return pattern != 1 and (pattern == 0 or layer % pattern < pattern - 1)
