"""All tests of single kernels once more, for lesser CPUs than this one, and each way to multiply bytes, of any CPU.

What a process has compiled for stays with it: each CPU is a process of its own. Instructions that this CPU lacks are
emulated.
"""

import multiprocessing
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from math import inf
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from conftest import ModelFile

KERNEL_TESTS = [f"test_kquants_{part}.py" for part in ("formats", "matmul", "elementwise", "attention")]
KERNEL_TESTS += ["test_formats.py", "-k", "not chunks and not refused_by_name"]

AVX = ("ssse3", "sse4.2", "popcnt", "avx", "fma", "f16c")
AVX2 = (*AVX, "avx2", "bmi", "bmi2")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl")
ZEN_4 = ("avx512vnni", "avx512vbmi", "gfni", "avx512bf16")
LOWERINGS = {
    "plain vectors": ("avx", "fma", "f16c"),  # LLVM knows that AVX implies the rest, our choice does not
    "SSSE3": AVX,
    "AVX2": AVX2,  # of Intel, which is asked for lines row by row as well; others are among LESSER
    "AVX-VNNI": (*AVX2, "avxvnni", "gfni"),
    "AVX-512": AVX512,
    "AVX-512 VNNI": (*AVX512, "avx512vnni"),
    "AVX-512 VNNI, with VBMI, GFNI and BF16": (*AVX512, *ZEN_4),
    "AVX-512 VNNI, of a Zen 4": (*AVX512, *ZEN_4, "sse4a"),
    "AVX-512 VNNI, of a Zen 5": (*AVX512, *ZEN_4, "avxvnni"),  # where rows come in parts
    "plain vectors, of Arm": ("neon",),
    "Arm dot product": ("neon", "dotprod"),
    "Arm dot product, with I8MM": ("neon", "dotprod", "i8mm"),
}
"""The features of a CPU for each; what follows a comma is not in the name of the lowering."""

NAMES = {
    "AVX2": "haswell",
    "AVX-512 VNNI, with VBMI, GFNI and BF16": "sapphirerapids",
    "AVX-512 VNNI, of a Zen 4": "znver4",
    "AVX-512 VNNI, of a Zen 5": "znver5",
}
"""LLVM's names for CPUs where something depends on the name."""

LESSER = {"SSSE3": ("ssse3", "sse4.2", "popcnt"), "AVX2": AVX2}
"""The first has no instructions for half floats or fused products."""

# Formats of each kind: signed weights, minima, an offset, spans of 16 with offsets and with a minimum, tables. Those
# with minima and no super-blocks come in parts nowhere else, if this CPU is one of Intel's or a Zen 4 with AVX-512.
PRODUCT_TESTS = """
import sys, kernels, pytest
formats = ["F32", "F16", "BF16", "Q8_0", "Q4_K", "Q5_K", "Q5_0", "Q6_K", "Q3_K", "Q2_K", "IQ4_NL", "IQ4_XS"]
formats += ["Q4_0", "Q4_1", "Q5_1", "MXFP4"]
kernels.NAMES[:] = ["quantize", *(f"matmul_{name.lower()}" for name in formats)]
chosen = " or ".join(["dot4", "are_quantized", "super_blocks", "inf_show", "tiny", "largest_super", *formats])
files = ["dot4", "kquants_matmul", "kquants_float_products", "kquants_elementwise"]
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-k", chosen, *(f"test_{file}.py" for file in files)]))
"""
LOGITS = """
import sys, hashlib, itertools, pathlib
from test_bit_equality import logits_bits
for path, kv_type in itertools.product(map(pathlib.Path, sys.argv[1:]), ("f16", "q8_0")):
    whole = logits_bits(path, 2, None, kv_type)
    for chunk in (1, 3, 7, 9):
        assert (logits_bits(path, 2, chunk, kv_type) == whole).all(), f"chunks of {chunk}"
    print(hashlib.sha256(whole).hexdigest())
"""
NAMED = "from kquants.compiler.cpu import lowering; assert lowering() == {!r}, lowering()\n"


pytestmark = pytest.mark.timeout(1800)  # at first, each process compiles kernels for a CPU of its own


def lacking(*features: str) -> list[str]:
    """Which of these features this CPU lacks."""
    host = llvm.get_host_cpu_features()
    return [feature for feature in features if not host.get(feature)]


def skip_without(*features: str) -> None:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("pretends to be another CPU on one of x86")
    if missing := lacking(*features):
        pytest.skip(f"this CPU has no {', '.join(missing)}")


def python(*arguments: str | Path, **cpu: str) -> str:
    """What a Python process prints that takes its CPU for another one."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")}
    child = subprocess.run(
        [sys.executable, *arguments],
        cwd=Path(__file__).parent,
        env={**environment, "PYTHONPATH": ".", **cpu},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout[-2000:] + child.stderr[-2000:]
    return child.stdout


def listed(features: Iterable[str]) -> str:
    """Features in LLVM's notation."""
    return ",".join(f"+{feature}" for feature in features)


def pretended(name: str, features: Iterable[str]) -> dict[str, str]:
    """The environment of a process that takes its CPU for an x86 one of that name."""
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": listed(features)}


def emulating(arm: str = "") -> str:
    """What a process must do first to run instructions that this CPU lacks."""
    skip_without(*AVX2)
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("emulation compiles in copies of its process")
    return f"import emulated; emulated.begin({arm!r})\n"


def python_with(lowering: str, code: str, *arguments: str | Path) -> str:
    """What code prints where a lowering is in force."""
    features, code = LOWERINGS[lowering], NAMED.format(lowering.split(",")[0]) + code
    if "Arm" in lowering:
        return python("-c", emulating(listed(features)) + code, *arguments)
    skip_without()
    begin = emulating() if lacking(*features) else ""
    return python("-c", begin + code, *arguments, **pretended(NAMES.get(lowering, "x86-64"), features))


def python_on_lesser(lowering: str, code: str, *arguments: str) -> str:
    """What code prints on the one of LESSER that has a lowering."""
    features = LESSER[lowering]
    skip_without(*features)
    return python("-c", NAMED.format(lowering) + code, *arguments, **pretended("x86-64", features))


@pytest.mark.parametrize("lowering", LESSER)
def test_kernels_are_right_on_a_lesser_cpu(lowering: str) -> None:
    code = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    python_on_lesser(lowering, code, "-q", "-x", "-p", "no:cacheprovider", *KERNEL_TESTS)


TILES = [("sapphirerapids", "avx512vnni", inf), ("alderlake", "avxvnni", inf), ("znver3", "avx2", inf)]
TILES += [("znver5", "avx512vnni", 20), ("generic", "dotprod", 20), ("ivybridge", "ssse3", inf), ("x86-64", "avx", inf)]


@pytest.mark.parametrize(("cpu", "feature", "size"), TILES)
def test_how_large_tiles_stay_whole(cpu: str, feature: str, size: float) -> None:
    code = "from kquants.products.parts import LARGE, WHOLE; print('inf' if WHOLE else LARGE / 1024)"
    assert float(python("-c", code, NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES=f"+{feature}")) == size


CHOICES = """
from kquants.formats import q4_k, q6_k, q8_0
from kquants.products.parts import choices
print(*map(choices, (q4_k, q6_k, q8_0)))
"""


@pytest.mark.parametrize(
    ("cpu", "choices"),
    [("znver5", "[4] [16, 4] [8, 4]"), ("znver4", "[] [4] []"), ("sapphirerapids", "[] [] []")],
)
def test_in_how_many_parts_rows_may_come(cpu: str, choices: str) -> None:
    features = listed(LOWERINGS["AVX-512 VNNI"])
    assert python("-c", CHOICES, NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES=features).strip() == choices


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_products_are_right_in_each_lowering(lowering: str) -> None:
    python_with(lowering, PRODUCT_TESTS)


@pytest.fixture(scope="module")
def models(model_file: ModelFile) -> list[Path]:
    return [model_file(types=recipe) for recipe in ("Q8_0", "Q4_K", "F16")]  # too narrow to come in parts


@pytest.fixture(scope="module")
def bits(models: list[Path]) -> str:
    """Those of this CPU."""
    return python("-c", LOGITS, *models)


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_models_have_the_same_bits_in_each_lowering(lowering: str, models: list[Path], bits: str) -> None:
    assert python_with(lowering, LOGITS, *models) == bits
