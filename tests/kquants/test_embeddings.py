"""Rows that tokens start from: those of an embedding table, scaled, or the batch's own."""

from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from kquants import FORMATS
from kquants.records import EmbedOp
from support.activation_rows import ActivationRows, in_any_chunks
from support.kernels import KINDS, batch_record, guarded, op_record, random_blocks, run_op, same_bits

F32 = np.float32
Array = NDArray[Any]
TOKENS = np.array([8, 0, 3, 3], np.int32)


def random_table(name: str, columns: int) -> tuple[Array, Array]:
    """A table of nine rows: its bytes, and the float32 that the gguf package reads."""
    kind = KINDS[name]
    blocks = random_blocks(np.random.default_rng(columns), kind, 9 * columns // kind.block)
    with np.errstate(all="ignore"):
        weights = gguf.quants.dequantize(blocks.reshape(-1), Type[name])
    return blocks.reshape(9, kind.row_bytes(columns)), weights.reshape(9, columns)


@pytest.mark.parametrize(
    ("name", "columns"),
    [(name, n) for name in FORMATS for n in (1, 17, 172, 256, 512) if n % KINDS[name].block == 0],
)
def test_embedding_rows(name: str, columns: int) -> None:
    (table, weights), stride = random_table(name, columns), columns + 24
    x = guarded((4, stride), F32)
    given = EmbedOp(table=table, row_bytes=table[0].nbytes, columns=columns, x=x, x_bytes=4 * stride, scale=1.0)
    op = op_record(f"embed_{name.lower()}", given, per_row=1)
    run_op(op, batch_record(4, tokens=TOKENS), units=4)
    assert same_bits(x[:, :columns].copy(), weights[TOKENS])
    assert same_bits(x[:, columns:].copy(), guarded((4, 24), F32))


def embed(table: Array, columns: int, scale: float, chunk: int, own: bool = True, **parts: Array) -> ActivationRows:
    x = ActivationRows(np.zeros((4, columns), F32))
    given = EmbedOp(table, table[0].nbytes, columns, x.array, x.nbytes, scale, int(own))
    run_op(op_record("embed_f16", given, per_row=1), batch_record(4, tokens=TOKENS, **parts), units=4, chunk=chunk)
    return x


@pytest.mark.parametrize("columns", [1, 172, 512])
def test_embeddings_are_scaled(columns: int) -> None:
    table = np.random.default_rng(columns).standard_normal((9, columns)).astype(np.float16)
    (x,) = in_any_chunks(lambda chunk: [embed(table, columns, 12.7, chunk)], 4)
    assert same_bits(x, F32(12.7) * table[TOKENS].astype(F32))


def test_rows_start_from_embeddings_of_the_batch_where_it_has_some() -> None:
    rng = np.random.default_rng(1)
    table, own = rng.standard_normal((9, 40)).astype(np.float16), rng.standard_normal((2, 40)).astype(F32)
    parts = {"embeddings": np.array([0, own[0].ctypes.data, 0, own[1].ctypes.data], np.int64)}
    (x,) = in_any_chunks(lambda chunk: [embed(table, 40, 2.0, chunk, **parts)], 4)
    of_table = F32(2) * table[TOKENS].astype(F32)
    assert same_bits(x, np.stack([of_table[0], own[0], of_table[2], own[1]])), "a row of its own is not scaled"
    assert same_bits(embed(table, 40, 2.0, 1, own=False, **parts).values, of_table), "per-layer embeddings"
