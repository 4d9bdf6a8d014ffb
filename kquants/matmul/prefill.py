"""Many rows of x times a strip of tiles of W, which are unpacked for them eight blocks at a time.

Unpacked weights lie in scratch that stays in the first-level cache, or nearly (29 KB by Winograd's inner product, 27 to
37 KB without VNNI, 37 KB for AMX); all rows of x pass by. With split-K the sums of each part of a row are added to
those of the parts before it. Scratch holds

    sums       [tiles][rows of x][16]   float32
    earlier    [tiles][rows of x][16]   float32, the sums of earlier parts; room for STRIP tiles of both
    unpacked   [STRIP]                  weights and scales of GROUP blocks, in the strategy's layout
    dots                                those of AMX tiles, or x as int16 for 16 rows of it
"""

from typing import Any

from kquants.compiler.decorators import inline
from kquants.formats.unpacking import GROUP
from kquants.layout import FEW_ROWS, STRIP, TILE_ROWS
from kquants.matmul.amx import configure, release
from kquants.matmul.amx_super_blocks import multiply_squares
from kquants.matmul.int16_layouts import AmxInt16Layout
from kquants.matmul.prefill_rows import multiply_rows
from kquants.matmul.products import Product
from kquants.matmul.split_k import part_count
from kquants.matmul.strategy import Strategy
from kquants.matmul.sums import clear, sum_bytes
from kquants.matmul.unpack import store_tile
from kquants.simd import add_f32, load_f32x16, prefetch_lines, store_f32x16


@inline
def w_rows_to_prefetch(t: int, x_rows: int, rows: int, w_rows: int) -> tuple[int, int]:
    """The rows of W, first and end, of `w_rows` in all, that are prefetched beside `x_rows` rows of x from row t on."""
    return w_rows * t // rows, w_rows * (t + x_rows) // rows


@inline
def end_part(part: int, parts: int, sums: int, earlier: int) -> None:
    """Add the sums of a part, which go on to `earlier`, to those of the parts before it, which begin there."""
    for k in range(0, earlier - sums, 64):
        total = load_f32x16(sums + k)
        if part > 0:
            total = add_f32(load_f32x16(earlier + k), total)
        store_f32x16((sums if part == parts - 1 else earlier) + k, total)
    if part < parts - 1:
        clear(sums, earlier)


def _prefetch_of(strategy: Strategy) -> Any:
    """`prefetch(product, last, t, x_rows, tiles, w, y)`: beside rows t … of x, prefetch what comes next.

    That is a share of the weights at w, and of y if no blocks follow these. A few rows wait for the memory anyway:
    `kquants.matmul.unpack` prefetches enough for them. (Measured on Zen 4: prompts 2 % faster.)
    """
    w_lines = strategy.group.BLOCK_BYTES // 64 + 1  # of a row's group of columns, or one less: the CPU brings that

    @inline
    def prefetch(product: Product, last: int, t: int, x_rows: int, tiles: int, w: int, y: int) -> None:
        if product.rows > FEW_ROWS:
            first, stop = w_rows_to_prefetch(t, x_rows, product.rows, TILE_ROWS * tiles)
            for r in range(first, stop):
                prefetch_lines(w + r * product.row_bytes, w_lines, 64)
            if last == product.columns // 32:
                for k in range(tiles):
                    prefetch_lines(y + t * product.y_bytes + 64 * k, x_rows, product.y_bytes)

    return prefetch


def _unpack_of(strategy: Strategy) -> Any:
    """`unpack(w, row_bytes, ahead, tile, count)`: `count` blocks of a tile, GROUP or as many as the format has."""
    group, rest = (strategy.layout(fmt, strategy.tuning) for fmt in (strategy.group, strategy.fmt))
    store_group, store_rest = store_tile(group), store_tile(rest)
    has_rest, scales_at = strategy.has_rest, group.scales_at

    @inline
    def unpack(w: int, row_bytes: int, ahead: int, tile: int, count: int) -> None:
        if has_rest and count < GROUP:
            store_rest(w, row_bytes, ahead, tile, tile + scales_at)
        else:
            store_group(w, row_bytes, ahead, tile, tile + scales_at)

    return unpack


def prefill_of(strategy: Strategy) -> Any:
    """`prefill(product, w, tiles, y, sums)`: the sums of `tiles` tiles at w, at most STRIP, with rows of x.

    `y` is where the results of the first tile and row go.
    """
    blocks, super_bytes, amx = strategy.fmt.BLOCKS, strategy.fmt.BLOCK_BYTES, strategy.tuning.amx
    tuning, prefetch, unpack = strategy.tuning, _prefetch_of(strategy), _unpack_of(strategy)
    unpacked_bytes, by_int16 = strategy.layout(strategy.group, tuning).tile_bytes, strategy.layout is AmxInt16Layout
    parts_of = part_count(strategy.split_k, tuning.split_k_bytes)
    set_up = configure(columns=64 if by_int16 else 32 // strategy.fmt.SUB_BLOCKS)
    multiply = (multiply_squares if by_int16 else multiply_rows)(strategy, prefetch)

    @inline
    def prefill(product: Product, w: int, tiles: int, y: int, sums: int) -> None:
        rows, row_bytes = product.rows, product.row_bytes
        tile_bytes, unpacked = TILE_ROWS * row_bytes, sums + 2 * STRIP * sum_bytes(rows)
        if amx:
            set_up(unpacked)
        count, parts = product.columns // 32, parts_of(product.columns, row_bytes)
        b, part, earlier = 0, 0, sums + tiles * sum_bytes(rows)
        clear(sums, earlier)
        while b < count:
            last = b + (GROUP if b + GROUP <= count else blocks)
            done = b // blocks * super_bytes
            for k in range(tiles):
                at = w + k * tile_bytes
                ahead = at + tiles * tile_bytes + TILE_ROWS * done
                unpack(at + done, row_bytes, ahead, unpacked + k * unpacked_bytes, last - b)
            next_w = w + (last // blocks * super_bytes if last < count else tiles * tile_bytes)
            multiply(product, b, last, tiles, next_w, y, unpacked, sums)
            if parts > 1 and last == count // parts * (part + 1):
                end_part(part, parts, sums, earlier)
                part += 1
            b = last
        if amx:
            release()

    return prefill
