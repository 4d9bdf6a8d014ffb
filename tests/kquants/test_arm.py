"""What Arm CPUs would run: the assembly that LLVM makes of the kernels, as no such CPU may be at hand."""

import re
import subprocess
import sys

import pytest

from support import with_support
from support.cpus import EACH_KIND

pytestmark = pytest.mark.cpus

PLAIN, DOT, MATRIX = "+neon", "+neon,+dotprod", "+neon,+dotprod,+i8mm"
"""Features of a Raspberry Pi 4, an Apple M1, an Apple M2."""

UNPACKED_OTHERWISE = ("Q5_1", "Q3_K", "Q5_K", "MXFP4", "NVFP4", "Q1_0", "TQ1_0", "IQ1_S", "IQ2_XS", "IQ3_S")
"""Formats that are unpacked in other ways than those of EACH_KIND; the remaining ones are as one of these."""

# What a format has of its own is how it is unpacked, which is alike for all three; the others differ in the product.
FORMATS = {DOT: (*EACH_KIND, *UNPACKED_OTHERWISE)} | dict.fromkeys((PLAIN, MATRIX), EACH_KIND)
KERNELS = [(features, f"matmul_{name.lower()}") for features, names in FORMATS.items() for name in names]

ONE_BYTE = re.compile(r"^\s+(?:ldrs?b|ldurs?b|strb|sturb|umov|smov)\b|\bv\d+\.b(?:\[| \}\[)", re.MULTILINE)
"""An instruction that moves a single byte: what a loop over bytes cannot do without."""

SHORT_PRODUCT = r"(?:mul|mla|[su]mull2?|[su]mlal2?)\tv\d+\.8h,.*"


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """By (features, name): the kernels, and `dot4`, a product of unsigned bytes."""
    made = {}
    for features in (PLAIN, DOT, MATRIX):
        folder = tmp_path_factory.mktemp("arm")
        names = [*(name for of, name in KERNELS if of == features), "quantize", "dot4"]
        child = subprocess.run(
            [sys.executable, "-m", "support.arm_assembly", features, folder, *names],
            env=with_support(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == 0, child.stderr[-2000:]
        made.update({(features, name): (folder / f"{name}.s").read_text() for name in names})
    return made


Assembly = dict[tuple[str, str], str]


def count(instruction: str, code: str) -> int:
    return len(re.findall(rf"^\s+{instruction}\s", code, re.MULTILINE))


@pytest.mark.parametrize(("features", "name"), [kernel for kernel in KERNELS if kernel[0] != PLAIN])
def test_products_are_dot_products(assembly: Assembly, features: str, name: str) -> None:
    code = assembly[features, name]
    # A tile is 16 rows of 32 weights: 32 vectors of 16 bytes in decode, and prefill has a loop besides.
    assert count("u?sdot", code) > 32
    assert count(SHORT_PRODUCT, code) == 0, "multiplies integer vectors besides"


@pytest.mark.parametrize("line", ["ldrb\tw8, [x0, #1]", "mov\tv0.b[3], w9", "ld1\t{ v0.b }[2], [x8]", "strb\tw8, [x0]"])
def test_what_takes_single_bytes_is_found(line: str) -> None:
    assert ONE_BYTE.search(f"f:\n\t{line}\n")


@pytest.mark.parametrize(("features", "name"), [*KERNELS, *((features, "quantize") for features in FORMATS)])
def test_no_loop_takes_single_bytes(assembly: Assembly, features: str, name: str) -> None:
    assert ONE_BYTE.findall(assembly[features, name]) == []


@pytest.mark.parametrize("name", EACH_KIND)
def test_without_dot_products_bytes_are_multiplied_as_vectors(assembly: Assembly, name: str) -> None:
    code = assembly[PLAIN, f"matmul_{name.lower()}"]
    assert count("u?sdot", code) == 0
    assert count(SHORT_PRODUCT, code) > 32


def test_unsigned_bytes_take_the_instruction_for_them(assembly: Assembly) -> None:
    # 64 bytes are four vectors; without usdot, each takes a product more, for what was taken off to make it signed.
    assert [count(i, assembly[MATRIX, "dot4"]) for i in ("usdot", "sdot")] == [4, 0]
    assert [count(i, assembly[DOT, "dot4"]) for i in ("usdot", "sdot")] == [0, 8]
