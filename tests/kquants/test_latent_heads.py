"""Heads by slot, and the key of latent attention: what the kernels around grouped matmuls and pages write."""

import numpy as np
import pytest

from kquants.kv_layout import PAGE_SIZES
from kquants.layout import PIECE
from kquants.records import ROPE_NEOX, ROPE_NORM, HeadGroupsOp, JoinHeadsOp, RopeStoreOp, SplitHeadsOp, group_list_bytes
from support.kernels import Array, batch_record, fenced, guarded, op_record, run_op, same_bits
from support.kv_pages import F32, KINDS, Pages, Rows, Shape
from support.quantized_targets import Targets

ROWS, ROPE = 5, 8
POSITIONS = [3, 0, 7, 7, 9]
ANGLES = np.random.default_rng(1).uniform(-3, 3, (10, ROPE // 2))
TABLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=-1).astype(F32)


def rotated(x: Array, position: int, rope_type: int) -> Array:
    """The values of RoPE of a head, rotated in float64."""
    cosine, sine = TABLE[position].astype(np.float64).T
    order = np.arange(ROPE).reshape(-1, 2) if rope_type == ROPE_NORM else np.arange(ROPE).reshape(2, -1).T
    a, b = x[order[:, 0]].astype(np.float64), x[order[:, 1]].astype(np.float64)
    result = np.empty(ROPE)
    result[order[:, 0]], result[order[:, 1]] = a * cosine - b * sine, a * sine + b * cosine
    return result


def rows_of(shape: Shape, outputs: list[int] | None = None) -> tuple[Pages, Rows]:
    pages = Pages(shape, 1)
    cells = [2, 5, 11, 0, 63]
    tables = [[0]] * ROWS
    return pages, Rows(pages, tables, [64] * ROWS, None, cells, POSITIONS, [TABLE], outputs)


@pytest.mark.parametrize("outputs", [None, [1, 4]])
@pytest.mark.parametrize("rope_type", [ROPE_NORM, ROPE_NEOX, None])
@pytest.mark.parametrize(("heads", "plain"), [(1, 8), (3, 24), (4, 128), (2, 192), (2, 256)])
def test_heads_are_split_to_slots(heads: int, plain: int, rope_type: int | None, outputs: list[int] | None) -> None:
    """The plain values as float32 and quantized, and those of RoPE, if any, at the end of the queries' slots."""
    n, before = ROWS if outputs is None else len(outputs), 16
    q = np.random.default_rng(plain).standard_normal((n, heads, plain + ROPE)).astype(F32)
    given, to = fenced(q), Targets(heads * n, plain)
    room = -(-plain // 16) * 16
    floats, queries = guarded((heads * n, room), F32), guarded((heads * n, before + ROPE), F32)
    arguments = SplitHeadsOp(
        q=given,
        q_bytes=q[0].nbytes,
        heads=heads,
        plain_dim=plain,
        shared_dim=ROPE,
        rope_dim=0 if rope_type is None else ROPE,
        rope_type=rope_type or 0,
        rope_table=1,
        plain=floats,
        plain_bytes=4 * room,
        q8=to.q8,
        super_q8=to.super_q8,
        queries=queries,
        queries_bytes=4 * (before + ROPE),
        rope_first=before,
    )
    _, rows = rows_of(Shape(1, 1, 16, "f32"), outputs)
    op = op_record("split_heads", arguments, per_row=1, outputs=outputs is not None, slots=heads)
    run_op(op, rows.record, heads * n, chunk=2)
    slots = q.transpose(1, 0, 2).reshape(heads * n, -1)
    assert same_bits(floats[:, :plain].copy(), slots[:, :plain].copy()), "plain values"
    assert not floats[:, plain:].any(), "padding must be zero"
    to.check(slots[:, :plain].copy())
    assert same_bits(queries[:, :before].copy(), guarded((heads * n, before), F32)), "the room of latents"
    for slot in range(heads * n):
        row = slot % n if outputs is None else outputs[slot % n]
        shared = slots[slot, plain:]
        exact = shared if rope_type is None else rotated(shared, POSITIONS[row], rope_type)
        assert np.abs(queries[slot, before:] - exact).max() < 1e-6


@pytest.mark.parametrize("outputs", [0, 2])
def test_each_head_has_a_group_of_all_rows(outputs: int) -> None:
    heads, n = 3, outputs or ROWS
    groups = guarded((group_list_bytes(heads) // 8 + 1,), np.int64)
    op = op_record("head_groups", HeadGroupsOp(groups, heads), units=1, outputs=outputs > 0)
    run_op(op, batch_record(ROWS, outputs), 1)
    assert groups[0] == heads
    assert groups[1:-3].reshape(-1, 2).tolist() == [[h, h * n] for h in range(heads)]
    assert groups[-2] == heads * n, "the end of the rows"
    assert groups[-1] == guarded((1,), np.int64)[0], "wrote past the list"


@pytest.mark.parametrize("as_floats", [True, False])
@pytest.mark.parametrize(("heads", "head_dim"), [(2, 8), (3, 128), (5, 40), (8, 64), (4, 256)])
def test_slots_are_joined_to_rows(heads: int, head_dim: int, as_floats: bool) -> None:
    n = heads * head_dim
    x = np.random.default_rng(n).standard_normal((heads, ROWS, head_dim)).astype(F32)
    given, to, h = fenced(x), Targets(ROWS, n), guarded((ROWS, n + 8), F32)
    arguments = JoinHeadsOp(
        x=given,
        x_bytes=4 * head_dim,
        heads=heads,
        head_dim=head_dim,
        h=h if as_floats else 0,
        h_bytes=4 * (n + 8),
        q8=to.q8,
        super_q8=to.super_q8,
    )
    run_op(op_record("join_heads", arguments), batch_record(ROWS), ROWS * -(-n // PIECE), 4 * PIECE)
    rows = x.transpose(1, 0, 2).reshape(ROWS, n).copy()
    if as_floats:
        assert same_bits(h[:, :n].copy(), rows)
        assert same_bits(h[:, n:].copy(), guarded((ROWS, 8), F32)), "wrote past the row"
    to.check(rows)


@pytest.mark.parametrize("kv", KINDS)
def test_a_key_is_stored_alone_with_its_last_values_rotated(kv: str) -> None:
    """As a key without RoPE that has these values; nothing else of the page is written."""
    latent = 32
    shape = Shape(1, 1, latent + ROPE, kv)
    k = np.random.default_rng(3).standard_normal((ROWS, latent + ROPE)).astype(F32)
    stored = []
    for rope_dim in (ROPE, 0):
        key, (pages, rows) = k.copy(), rows_of(shape)
        if not rope_dim:
            key = stored[0][1].copy()
        arguments = RopeStoreOp(
            q=0,
            q_bytes=0,
            k=key,
            k_bytes=key[0].nbytes,
            v=0,
            v_bytes=0,
            heads=0,
            kv_heads=1,
            key_dim=latent + ROPE,
            value_dim=0,
            rope_dim=rope_dim,
            rope_type=ROPE_NORM,
            rope_table=1,
            q_factor_table=-1,
            kv_group=1,
            page_offset=shape.layer_bytes,
            rope_first=latent,
        )
        run_op(op_record(f"rope_store_{kv}", arguments, per_row=1), rows.record, ROWS, shape.scratch)
        stored.append((pages.memory.copy(), key))
    assert np.array_equal(stored[0][0], stored[1][0])
    for row, key in enumerate(stored[0][1]):
        assert same_bits(key[:latent], k[row, :latent])
        assert np.abs(key[latent:] - rotated(k[row, latent:], POSITIONS[row], ROPE_NORM)).max() < 1e-6
    written = stored[0][0] != 0xFF
    first, keys = shape.layer_bytes, PAGE_SIZES[kv].key_bytes(shape.key_dim)
    assert written[:, first : first + keys].any()
    assert not written[:, :first].any()
    assert not written[:, first + keys :].any(), "values are part of the keys"
