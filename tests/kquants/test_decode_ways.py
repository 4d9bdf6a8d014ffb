"""By which way decode multiplies: what was measured to be fastest, with AVX2 alone and with AVX-512."""

import pytest

from kquants.compiler import host
from support.cpus import AVX2, LOWERINGS, pretended, python, skip_without

pytestmark = pytest.mark.cpus

CODE = """
from kquants.formats.quantized import QUANTIZED
from kquants.matmul.row_by_row import multiply_row_by_row
from kquants.matmul.row_pairs import multiply_row_pairs
from kquants.matmul.row_per_lane import multiply_row_per_lane
from kquants.matmul.strategy import strategy_of
from kquants.tuning import tuning
strategies = {name: strategy_of(name, tuning()) for name in QUANTIZED}
for way in (multiply_row_pairs, multiply_row_by_row):
    print(*sorted(name for name, strategy in strategies.items() if strategy.decode_way(1, 1) is way))
for strategy in strategies.values():
    for rows, parts in ((1, 4), (2, 1), (8, 4)):
        assert strategy.decode_way(rows, parts) is multiply_row_per_lane
"""
GRIDS = "iq2_s iq2_xs iq2_xxs iq3_s iq3_xxs"
ROWS = """
from kquants.matmul.strategy import strategy_of
from kquants.tuning import tuning
print(*(strategy_of(name, tuning()).decode_rows for name in ("q4_k", "q6_k")))
"""


def test_ways_of_formats_with_avx2() -> None:
    skip_without(*AVX2)
    ways = python("-c", CODE, **pretended("znver3", AVX2))
    assert ways.splitlines() == ["iq4_nl mxfp4 q4_0 q4_k q5_k q8_0", f"{GRIDS} q6_k"]


def test_ways_of_formats_with_avx_vnni() -> None:
    skip_without()
    ways = python("-c", CODE, **pretended("x86-64", LOWERINGS["AVX-VNNI"]))
    assert ways.splitlines() == ["", GRIDS]


@pytest.mark.parametrize(("cpu", "features"), [("znver4", ["gfni"]), ("sapphirerapids", ["gfni"]), ("cascadelake", [])])
def test_no_other_way_with_avx512(cpu: str, features: list[str]) -> None:
    skip_without()
    ways = python("-c", CODE, **pretended(cpu, [*LOWERINGS["AVX-512 VNNI"], *features]))
    assert ways.splitlines() == [""] * 2


def test_no_other_way_without() -> None:
    skip_without("sse4.2")
    ways = python("-c", CODE, **pretended("x86-64", ["ssse3", "sse4.2"]))
    assert ways.splitlines() == [""] * 2


@pytest.mark.parametrize(
    ("cpu", "lowering", "rows"),
    [
        ("znver4", "AVX-512 VNNI", "8 4"),
        ("sapphirerapids", "AVX-512 VNNI", "4 4"),
        ("x86-64", "AVX-512", "2 2"),
        ("znver3", "AVX2", "2 2"),
    ],
)
def test_how_many_rows_are_multiplied_straight_from_weights(cpu: str, lowering: str, rows: str) -> None:
    skip_without()
    assert python("-c", ROWS, **pretended(cpu, LOWERINGS[lowering])).strip() == rows


@pytest.mark.skipif(not host._may_use_amx(), reason="no matrix tiles here")
def test_more_are_where_there_are_matrix_tiles() -> None:
    features = [*LOWERINGS["AVX-512 VNNI"], "amx-tile", "amx-int8"]
    assert python("-c", ROWS, **pretended("sapphirerapids", features)).strip() == "8 8"


CHAIN = """
from llvmlite import ir
from kquants.compiler import host
from kquants.simd import I32
from kquants.simd.dot2 import dot2
import llvmlite.binding as llvm
module = ir.Module()
function = ir.Function(module, ir.FunctionType(I32.vector, [I32.vector] * 2), "f")
b = ir.IRBuilder(function.append_basic_block())
total, x = function.args
for _ in range(3):
    total = dot2(b, total, x, x)
b.ret(total)
machine = host.target_machine()
assembly = machine.emit_assembly(llvm.parse_assembly(str(module)))
print(assembly.count("vpdpwssd"), assembly.count("vpmaddwd"))
"""


@pytest.mark.parametrize("cpu", ["sapphirerapids", "znver4"])
def test_a_sum_of_shorts_stays_one_instruction_in_a_chain_of_sums(cpu: str) -> None:
    skip_without()
    assert python("-c", CHAIN, **pretended(cpu, LOWERINGS["AVX-512 VNNI"])).split() == ["3", "0"]
