"""Processes that take their CPU for another one; instructions that this one lacks are emulated."""

import multiprocessing
import platform
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from support import TESTS, with_support

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

USUAL = ("Q8_0", "Q4_K", "Q6_K")
"""What most files hold: blocks of signed weights; super-blocks with minima, and of spans of 16 with offsets."""

EACH_KIND = (*USUAL, "Q5_0", "Q4_1", "IQ4_NL", "Q2_K", "IQ4_XS", "TQ2_0")
"""Formats of each kind: USUAL; blocks with an offset, with minima and with a table; super-blocks of spans of 16 with
minima, with a table, and of spans of 32 with an offset.

They are enough for a CPU that multiplies, shares registers or lays out tiles in another way than one on which all
formats are tested: what a format has of its own is how it is unpacked.
"""

UNPACKED_OTHERWISE = ("NVFP4", "TQ1_0", "IQ2_XS", "IQ3_S")
"""Formats that are unpacked in other ways than those of EACH_KIND: scales of 8 bits, base 3, look-ups in a grid."""


def some_of_each_kind(cpu: int, count: int) -> tuple[str, ...]:
    """USUAL and `count` more of EACH_KIND, by the number of a CPU: those of the next CPU come after them."""
    others = EACH_KIND[len(USUAL) :]
    first = cpu * count % len(others)
    return (*USUAL, *others[first : first + count])


NAMED = "from kquants.compiler.cpu import lowering; assert lowering() == {!r}, lowering()\n"


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
    environment = {k: v for k, v in with_support().items() if k not in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")}
    child = subprocess.run(
        [sys.executable, *arguments],
        cwd=TESTS,
        env={**environment, **cpu},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout[-2000:] + child.stderr[-2000:]
    return child.stdout


def listed(features: Iterable[str]) -> str:
    """Features in LLVM's notation."""
    return ",".join(f"+{feature}" for feature in features)


def pretended(name: str, features: Collection[str]) -> dict[str, str]:
    """The environment of a process that takes its CPU for an x86 one of that name, with these features.

    LLVM knows the name, and would use all else that such a CPU has, whatever this one lacks.
    """
    others = [f"-{feature}" for feature, is_here in llvm.get_host_cpu_features().items() if not is_here]
    without = [feature for feature in others if feature[1:] not in features]
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ",".join([listed(features), *without])}


def emulating(arm: str = "") -> str:
    """What a process must do first to run instructions that this CPU lacks."""
    skip_without(*AVX2)
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("emulation compiles in copies of its process")
    return f"from support import emulated; emulated.begin({arm!r})\n"


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
