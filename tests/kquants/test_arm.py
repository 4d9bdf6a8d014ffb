"""What Arm CPUs would run: the assembly that LLVM makes of the kernels, as no such CPU may be at hand."""

import re
import subprocess
import sys
from typing import Any

import pytest

from support import with_support
from support.cpus import EACH_KIND, UNPACKED_OTHERWISE

pytestmark = pytest.mark.cpus

PLAIN, DOT, MATRIX = "+neon", "+neon,+dotprod", "+neon,+dotprod,+i8mm"
"""Features of a Raspberry Pi 4, an Apple M1, an Apple M2."""

OTHERS = ("Q5_1", "Q3_K", "Q5_K", "MXFP4", "Q1_0", "IQ1_S")
"""Formats that are unpacked in ways of their own besides; the remaining ones are as one of these."""

# What a format has of its own is how it is unpacked, which is alike for all three; the others differ in the product,
# of blocks and of super-blocks. Q6_K is among those of one of the others.
SOME = {DOT: ("Q8_0", "Q4_K", "NVFP4", "IQ3_S"), PLAIN: ("Q8_0", "Q4_K"), MATRIX: ("Q8_0", "Q6_K")}
ALL = {DOT: (*EACH_KIND, *UNPACKED_OTHERWISE, *OTHERS), PLAIN: EACH_KIND, MATRIX: EACH_KIND}


def kernels(*cpus: str) -> list[Any]:
    """Parameters (features, name): kernels of SOME for these features, and the rest of ALL with `exhaustive`."""
    return [
        pytest.param(features, f"matmul_{name.lower()}", marks=[] if name in SOME[features] else pytest.mark.exhaustive)
        for features in cpus
        for name in ALL[features]
    ]


ONE_BYTE = re.compile(r"^\s+(?:ldrs?b|ldurs?b|strb|sturb|umov|smov)\b|\bv\d+\.b(?:\[| \}\[)", re.MULTILINE)
"""An instruction that moves a single byte: what a loop over bytes cannot do without."""

SHORT_PRODUCT = r"(?:mul|mla|[su]mull2?|[su]mlal2?)\tv\d+\.8h,.*"


@pytest.fixture(scope="module")
def assembly(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """By (features, name): the kernels of the chosen tests, and `dot4`, a product of unsigned bytes."""
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    made = {}
    for features in ALL:
        folder = tmp_path_factory.mktemp("arm")
        names = ["quantize", "dot4", *{params["name"]: 0 for params in chosen if params.get("features") == features}]
        child = subprocess.run(
            [sys.executable, "-m", "support.kept_arm_assembly", features, folder, *dict.fromkeys(names)],
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


@pytest.mark.parametrize(("features", "name"), kernels(DOT, MATRIX))
def test_products_are_dot_products(assembly: Assembly, features: str, name: str) -> None:
    code = assembly[features, name]
    # A tile is 16 rows of 32 weights: 32 vectors of 16 bytes in decode, and prefill has a loop besides.
    assert count("u?sdot", code) > 32
    assert count(SHORT_PRODUCT, code) == 0, "multiplies integer vectors besides"


@pytest.mark.parametrize("line", ["ldrb\tw8, [x0, #1]", "mov\tv0.b[3], w9", "ld1\t{ v0.b }[2], [x8]", "strb\tw8, [x0]"])
def test_what_takes_single_bytes_is_found(line: str) -> None:
    assert ONE_BYTE.search(f"f:\n\t{line}\n")


@pytest.mark.parametrize(("features", "name"), [*kernels(*ALL), *((features, "quantize") for features in ALL)])
def test_no_loop_takes_single_bytes(assembly: Assembly, features: str, name: str) -> None:
    assert ONE_BYTE.findall(assembly[features, name]) == []


@pytest.mark.parametrize(("features", "name"), kernels(PLAIN))
def test_without_dot_products_bytes_are_multiplied_as_vectors(assembly: Assembly, features: str, name: str) -> None:
    code = assembly[features, name]
    assert count("u?sdot", code) == 0
    assert count(SHORT_PRODUCT, code) > 32


def test_unsigned_bytes_take_the_instruction_for_them(assembly: Assembly) -> None:
    # 64 bytes are four vectors; without usdot, each takes a product more, for what was taken off to make it signed.
    assert [count(i, assembly[MATRIX, "dot4"]) for i in ("usdot", "sdot")] == [4, 0]
    assert [count(i, assembly[DOT, "dot4"]) for i in ("usdot", "sdot")] == [0, 8]
