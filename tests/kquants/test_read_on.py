"""What matmuls prefetch at the end of a group's matrix and of a thread's share: the next matrix, or the next share."""

import numpy as np

from edgellm.engine.native_engine import NativeEngine
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from kquants.matmul import read_on
from kquants.matmul.products import product_of
from kquants.records import FIRST_ARGUMENT, NEXT_MATMUL, OpHeader
from kquants.simd import store_i64
from support.kernels import compile_kernel
from support.matmul import group_list, product_record
from support.model_file import ModelFile


@compile_kernel
def reading(op: int, scratch: int, result: int) -> None:
    end, next_offset = read_on.next_matmul_share(op, scratch)
    store_i64(result, end)
    store_i64(result + 8, next_offset)


def next_matmul_share(op: int, scratch: int) -> tuple[int, int]:
    """Where a thread's share of an op ends, and how far from there it reads on."""
    result = np.zeros(2, np.int64)
    reading(op, scratch, result.ctypes.data)
    return int(result[0]), int(result[1])


def test_a_thread_reads_on_at_its_own_share_of_the_next_product() -> None:
    then = product_record(units=70, w=50_000_000, rows=70 * 16, row_bytes=1152)
    op = product_record(units=100, w=10_000_000, rows=100 * 16, row_bytes=144, next_matmul=then.ctypes.data)
    header = np.array([66, 2, 3], np.int64)  # a chunk of the second of three shares, taken by the third thread
    end, next_offset = next_matmul_share(op.ctypes.data, header.ctypes.data)
    assert end == 10_000_000 + 66 * 16 * 144
    assert end + next_offset == 50_000_000 + 70 * 2 // 3 * 16 * 1152
    assert next_matmul_share(then.ctypes.data, header.ctypes.data) == (50_000_000 + 66 * 16 * 1152, 0)


@compile_kernel
def reading_on(op: int, group: int, scratch: int, result: int) -> None:
    end, next_offset = read_on.read_on(op, product_of(op, 9, group), group, scratch)
    store_i64(result, end)
    store_i64(result + 8, next_offset)


def test_a_thread_reads_on_at_the_matrix_of_the_next_group_and_then_at_its_share_of_the_next_product() -> None:
    listed = group_list([(3, 1), (0, 2), (7, 6)])
    of_groups = {"rows": 70, "groups": listed.ctypes.data, "matrix_bytes": 1_000_000}  # 5 tiles, and so 15 units
    then = product_record(units=5, w=50_000_000, row_bytes=1152, **of_groups)
    op = product_record(units=5, w=10_000_000, row_bytes=144, next_matmul=then.ctypes.data, **of_groups)
    then[OpHeader._fields.index("units_factor")] = listed.ctypes.data
    header = np.array([12, 1, 3], np.int64)  # a share that ends in the third group; the second of three threads
    result = np.zeros(2, np.int64)
    ends = []
    for group in range(3):
        reading_on(op.ctypes.data, group, header.ctypes.data, result.ctypes.data)
        ends.append((int(result[0]), int(result.sum())))
    first, second, third = (10_000_000 + matrix * 1_000_000 for matrix in (3, 0, 7))
    of_next = 50_000_000  # the second of three shares begins at unit 5, the first of the second group
    tile = 16 * 144
    assert ends == [(first + 5 * tile, second), (second + 5 * tile, third), (third + 2 * tile, of_next)]


def test_a_thread_reads_on_at_the_first_matrix_where_no_groups_are_listed_yet() -> None:
    nothing = np.zeros(3, np.int64)  # a list of no groups, as a new buffer has it
    of_groups = {"groups": nothing.ctypes.data, "matrix_bytes": 1_000_000}
    then = product_record(units=5, w=50_000_000, rows=70, row_bytes=1152, **of_groups)
    then[OpHeader._fields.index("units_factor")] = nothing.ctypes.data
    op = product_record(units=100, w=10_000_000, rows=100 * 16, row_bytes=144, next_matmul=then.ctypes.data)
    header = np.array([66, 2, 3], np.int64)
    assert sum(next_matmul_share(op.ctypes.data, header.ctypes.data)) == 50_000_000


def test_each_product_knows_the_next_one(model_file: ModelFile) -> None:
    sizes = {"width": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 256, "layers": 2, "types": "Q4_K"}
    with GGUFFile.open(model_file(**sizes)) as file:
        engine = NativeEngine(file, threads=1, ctx=64, kv_type="f16", cache=cache_folder())
        cpu = engine._runner.cpu
        weights = {t.data.ctypes.data: name for name, t in file.tensors.items()}
        places = {op.ctypes.data: op for op in cpu._ops}
        op, order = cpu._ops[2], []  # after the embeddings and a norm
        for _ in range(16):
            order.append(weights[int(op[FIRST_ARGUMENT])].removesuffix(".weight"))
            op = places[int(op[NEXT_MATMUL])]
        engine.close()
    layer = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    head = [order[14]]
    assert order == [f"blk.{i}.{name}" for i in range(2) for name in layer] + head + ["blk.0.attn_q"]
    assert head[0] in ("output", "token_embd")
