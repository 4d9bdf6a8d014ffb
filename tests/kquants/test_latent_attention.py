"""Attention over pages that hold keys alone: bit for bit that over pages with the same values beside them."""

import numpy as np
import pytest

from kquants.kv_layout import (
    ATTENTION_UNITS,
    ATTENTION_UNITS_PER_ROW,
    MERGE_UNITS,
    PAGE,
    PAGE_SIZES,
    max_partials,
    padded_head_dim,
    partial_bytes,
)
from kquants.records import AttentionOp
from support.attention import AttentionOptions, AttentionRun, some_cells
from support.kernels import Array, fenced, guarded, op_record, run_op, same_bits
from support.kv_pages import F32, KINDS, Pages, Rows, Shape

TABLE, OTHER = [4, 2, 0, 6, 5, 7], [1, 3]
SIZES = [(1, 20, 16), (3, 40, 32), (16, 72, 64), (20, 576, 512)]
RUNS = {
    "decode": ([TABLE], [330]),
    "a long decode": ([TABLE, OTHER], [384, 7]),
    "a prompt": ([TABLE] * 40 + [OTHER] * 9, [*range(290, 330), *range(60, 69)]),
}


def with_keys_alone(pages: Pages) -> Pages:
    """Pages whose layers hold NaN in place of values."""
    shape = pages.shape
    own = Pages(shape, len(pages.memory))
    key_bytes = shape.kv_heads * PAGE_SIZES[shape.kv].key_bytes(shape.key_dim)
    layer = slice(shape.layer_bytes, shape.layer_bytes + key_bytes)
    own.memory[:, layer] = pages.memory[:, layer]
    return own


def latent_attention(
    shape: Shape,
    rows: Rows,
    q: Array,
    options: AttentionOptions,
    outputs: int | None = None,
    threads: int = 2,
    q_outputs: bool = False,
) -> Array:
    """The result [row, head, value_dim] for queries [row, head, key_dim], both of which go by slot."""
    n, heads = len(q) if outputs is None else outputs, shape.heads
    queries = fenced(np.ascontiguousarray(q.transpose(1, 0, 2)))
    out = guarded((heads * n, shape.value_dim), F32)
    room = max_partials(0)
    parts = fenced(guarded((room, heads, partial_bytes(padded_head_dim(shape.value_dim))), np.uint8))
    given = AttentionOp(
        q=queries,
        q_bytes=4 * shape.key_dim,
        out=out,
        out_bytes=4 * shape.value_dim,
        heads=heads,
        kv_heads=1,
        key_dim=shape.key_dim,
        value_dim=shape.value_dim,
        kv_group=1,
        page_offset=shape.layer_bytes,
        window=0,
        chunked=0,
        scale=options.scale,
        soft_cap=options.soft_cap,
        sinks=0,
        partials=parts,
        max_partials=room,
        q_outputs=int(q_outputs),
        has_slots=1,
    )
    wanted, units = outputs is not None, ATTENTION_UNITS + ATTENTION_UNITS_PER_ROW * n
    attention = op_record(f"attention_latent_{shape.kv}", given, ATTENTION_UNITS, ATTENTION_UNITS_PER_ROW, wanted)
    run_op(attention, rows.record, units, shape.scratch, 1, threads)
    merge = op_record("attention_merge", given, MERGE_UNITS, outputs=wanted)
    run_op(merge, rows.record, MERGE_UNITS, shape.scratch, 1, threads)
    return out.reshape(heads, n, shape.value_dim).transpose(1, 0, 2).copy()


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kv", KINDS)
@pytest.mark.parametrize(("heads", "key_dim", "value_dim"), SIZES)
def test_it_is_attention_whose_values_are_the_first_of_the_keys(
    heads: int, key_dim: int, value_dim: int, kv: str, run: str
) -> None:
    shape, rng = Shape(heads, 1, key_dim, kv, value_dim), np.random.default_rng(heads)
    pages, (tables, visible) = Pages(shape, 8), RUNS[run]
    for table in (TABLE, OTHER):
        keys, _ = some_cells(rng, shape, PAGE * len(table))
        pages.put(table, keys, keys[..., :value_dim])
    q = rng.standard_normal((len(visible), heads, key_dim)).astype(F32)
    options = AttentionOptions(scale=0.11)
    expected = AttentionRun(shape, Rows(pages, tables, visible), q, options).run()
    keys_alone = with_keys_alone(pages)
    for threads in (1, 2, 3, 16):
        result = latent_attention(shape, Rows(keys_alone, tables, visible), q, options, None, threads)
        assert same_bits(result, expected), f"{threads} threads"
    wanted = sorted({0, len(visible) - 1, len(visible) // 2})
    rows = Rows(keys_alone, tables, visible, outputs=wanted)
    assert same_bits(latent_attention(shape, rows, q, options, len(wanted)), expected[wanted])
    found = latent_attention(shape, rows, q[wanted], options, len(wanted), q_outputs=True)
    assert same_bits(found, expected[wanted]), "queries of the wanted rows alone"


def test_this_check_finds_values_that_are_not_those_of_the_keys() -> None:
    shape, rng = Shape(16, 1, 72, "f16", 64), np.random.default_rng(1)
    pages, q = Pages(shape, 8), rng.standard_normal((1, 16, 72)).astype(F32)
    keys, values = some_cells(rng, shape, PAGE)
    pages.put([3], keys, values)
    rows, options = Rows(pages, [[3]], [PAGE]), AttentionOptions()
    expected = AttentionRun(shape, rows, q, options).run()
    assert not same_bits(latent_attention(shape, rows, q, options), expected)
