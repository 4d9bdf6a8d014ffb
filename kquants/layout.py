"""Sizes that kernels share with their callers. Imports nothing, so callers need no compiler."""

TILE_ROWS = 16
"""Rows of W in one unit of a matrix product."""

STRIP = 4
"""Tiles of W that prefill works on together."""

SLICE_ROWS = 256
"""The most rows of x that a matmul takes together, and for which scratch has room: enough to read each weight once for
many tokens, few enough to stay in the second-level cache (512 rows: a tenth slower). More rows are multiplied slice by
slice. Batches of models without experts have no more rows."""

MAX_EXPERT_BATCH_ROWS = 1024
"""The most rows of a batch of a model with experts, and so of any batch. An expert computes the rows that chose it: on
average 64 of 1024, if each row uses 8 of 128 experts."""

FEW_ROWS = 16
"""Rows of a batch beyond which the tiles of a strip, and so those of a chunk of work, share each visit of the rows."""

SPLIT_K_ROWS = 8
"""Rows of x, at most, whose parts decode interleaves for split-K (`kquants.matmul.decode`)."""

PADDING_ROWS = 16
"""Rows that buffers have behind those of the batch: matmuls take rows of x in groups of up to 16, and read the last
group whole."""

UNPACKED_BYTES = 8 * 8 * 64 + 9 * (2 + 8 + 2) * 64
"""The most scratch for an unpacked tile: eight blocks of bytes, and nine units with what Winograd's inner product needs
(`kquants.matmul.winograd_layout`). Blocks of int16 come with fewer bytes for units."""

DOTS_BYTES = 8 * 16 * 64
"""Scratch for dot products of AMX tiles on their way, see `kquants.matmul.amx_blocks`, or for 256 values of 16
rows of x as int16."""

FLOAT_ROWS = 66
"""Rows of x that are multiplied by tiles of float weights together: whole register tiles of 3 and of 6.

Their sums (270 KB) and the columns of x for one packed part of W (68 KB, or 135 beside float16; with AVX-512 twice
that) stay in a second-level cache of 512 KB, with AVX-512 in one of 1 MB. (Measured on Zen 4: with AVX2 alone up to 2 %
faster than 48, as fast as 96; with AVX-512 BF16 2 % faster than 36, 1 % slower than 132.)
"""

MAX_PACKED_BYTES = 2048
"""Room for `kquants.tuning.Tuning.float_packed_bytes`."""

FLOAT_BYTES = FLOAT_ROWS * STRIP * TILE_ROWS * 64 + TILE_ROWS * MAX_PACKED_BYTES + 64
"""Scratch for matmuls of float weights with many rows of x, see `kquants.matmul.floats`; the last 64 bytes are for
zeros behind the last row of W."""

STATE_COLUMNS = 32
"""Columns of a recurrent layer's state that a unit of its scan works on. Their values in a row lie side by side.

(Measured on Zen 4: 32 heads of 128 · 128 take 38 µs a row with AVX-512, 42 with AVX2 alone, where
multiplications are the limit. The values k and q are loaded once for two vectors of columns, and sums of two vectors
hide each other's latency.)
"""

MAX_TAPS = 4
"""The most taps of a convolution over time; the least are two."""

X_GROUP = 256
"""Activations that are quantized together; those of a group of all rows of a batch lie side by side."""

X_BLOCK_BYTES = 16
"""Bytes of the scale and the sums of every 32 quantized activations: see `kquants.activations.quantized`."""

BLOCK_GROUP_BYTES, SUPER_GROUP_BYTES = 384, 448
"""Bytes of a group of a row, for formats without and with super-blocks: whole cache lines."""

INT16_GROUP_BYTES = 2 * X_GROUP
"""Bytes of a group of super-blocks as int16, for AMX: see `kquants.activations.super_quantized`."""

LARGEST_SUM = 1023
"""The largest sum of the magnitudes of 16 int8 of activations for super-blocks: 32 times that is an int16."""

PIECE = 256
"""Columns of one unit of the ops that split rows: enough work to be worth taking, and eight blocks of 32."""

PEAK_PRODUCTS = 48
"""Products of 64 int8 in one round of the kernel that measures the peak."""

SHARE_END, THREAD, THREADS, PREPARED, SHARE_BYTES = range(0, 5 * 8, 8)
"""Byte offsets in a thread's scratch of int64 that a kernel finds there, and their size: see
`kquants.threadpool.interpreter`."""


def quantized_bytes(n: int) -> int:
    """Bytes of a row of n activations, quantized for formats without super-blocks."""
    return -(-n // X_GROUP) * BLOCK_GROUP_BYTES


def super_quantized_bytes(n: int) -> int:
    """Bytes of a row of n activations, quantized for formats with super-blocks."""
    return -(-n // X_GROUP) * SUPER_GROUP_BYTES


def int16_bytes(n: int) -> int:
    """Bytes that the same row takes besides as int16, for AMX."""
    return -(-n // X_GROUP) * INT16_GROUP_BYTES


def in_odd_lines(nbytes: int) -> int:
    """Bytes from one row of `nbytes` bytes to the next.

    An odd number of cache lines: rows a power of two apart would all lie in the same few sets of the cache.
    """
    return 64 * ((nbytes + 63) // 64 | 1)


def matmul_scratch(columns: int, name: str) -> int:
    """Bytes of scratch that a matmul with weights of a format needs: `kquants.matmul.quantized` or `floats`.

    With quantized weights, the last rows of W need 17 bytes a column, and interleaved rows of x the bytes of quantized
    x. BF16 needs x as bfloat16, of which the last register tile of rows is read whole; it is counted on any CPU.
    """
    sums = 2 * 64 * SLICE_ROWS
    few = 17 * columns + SPLIT_K_ROWS * super_quantized_bytes(columns) + 2 * 64
    quantized = STRIP * (sums + UNPACKED_BYTES) + DOTS_BYTES + few
    x = (SLICE_ROWS + PADDING_ROWS) * in_odd_lines(2 * columns) if name == "BF16" else 0
    return SHARE_BYTES + 64 + max(quantized, FLOAT_BYTES + x)


def route_scratch(experts: int) -> int:
    """Bytes of scratch that `route` and `plan` need: five times float32 or int32 of all experts, in whole vectors."""
    return 5 * 64 * -(-experts // 16)
