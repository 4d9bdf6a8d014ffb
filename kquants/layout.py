"""Sizes that kernels and whoever calls them agree on. Imports nothing, so callers need no compiler."""

TILE_ROWS = 16
"""Rows of W in one unit of a matrix product."""

SCRATCH_WEIGHT_BYTES = 4
"""Scratch that a product needs for each weight of a tile: float weights are unpacked to float32."""

DECODE_ROWS = 3
"""Up to this many rows of x, unpacking a tile costs more than it saves."""

MOST_TOKENS = 8
"""Products take rows of x in groups of up to so many, and read the last group whole: buffers have room for it."""

QUANTIZED_BLOCK_BYTES = 20
"""What a quantized row of activations has for every 32 int8: see `kquants.activations`."""

PIECE = 256
"""Columns of one unit of the ops that split rows: enough work to be worth taking, and eight blocks of 32."""

PAGE = 64
"""Tokens of a KV page."""

OP_WORDS = 16
"""int64 words of an op record."""

PEAK_PRODUCTS = 12
"""Products of 64 int8 in one round of the kernel that measures the peak."""

FIRST_ARGUMENT = 5
"""Word of an op record where its arguments begin."""

ARRIVALS, GENERATION, STOP, STOPPED, WAITERS, COUNTERS = range(0, 6 * 64, 64)
"""Byte offsets in the control block; each word has a cache line of its own, the op counters follow."""


def quantized_bytes(n: int) -> int:
    """Bytes of a row of n quantized activations."""
    return n + n // 32 * QUANTIZED_BLOCK_BYTES


def padded(head_dim: int) -> int:
    """Values that a head takes in V: head_dim up to a multiple of 16."""
    return (head_dim + 15) & ~15


def layer_page_bytes(kv_heads: int, head_dim: int, element: int) -> int:
    """Bytes of one layer's part of a page, with `element` bytes for each value."""
    return kv_heads * PAGE * (head_dim + padded(head_dim)) * element


def attention_scratch(head_dim: int) -> int:
    """Bytes of scratch that attention needs; what for is in `kquants.attention`."""
    return MOST_TOKENS * (4 * (head_dim + PAGE + padded(head_dim)) + 64 + 16)
