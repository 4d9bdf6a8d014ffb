"""What the CPU that kernels are compiled for can do. Imports no compiler."""

from enum import IntEnum
from functools import cache

import llvmlite.binding as llvm

from kquants.compiler import host

_LOWERINGS = {
    "AVX-512 VNNI": "avx512vnni",
    "AVX-VNNI": "avxvnni",
    "AVX-512": "avx512bw",
    "AVX2": "avx2",
    "SSSE3": "ssse3",
    "Arm dot product": "dotprod",
}
"""Ways to multiply bytes, best first, and the feature each needs."""

_NOT_INTEL = ("x86-64", "generic", "znver", "bdver", "btver", "amdfam", "barcelona", "k8", "opteron", "athlon")
"""How LLVM's names of 64-bit x86 CPUs begin that are AMD's, or of no certain maker."""


@cache
def has(feature: str) -> bool:
    """Whether the CPU has a feature, by LLVM's name for it."""
    # LLVM lists no features on a Mac, but it names the CPU, and all of Apple's have this one.
    if feature == "dotprod" and host.cpu_name().startswith("apple-m"):
        return True
    return f"+{feature}" in host.cpu_features().split(",")


def is_x86() -> bool:
    """Whether it is a 64-bit x86 CPU: the only ones that may lack half floats and fused products."""
    return str(llvm.get_default_triple()).startswith("x86_64")


def is_arm() -> bool:
    """Whether it is a 64-bit Arm CPU: they all have NEON."""
    return str(llvm.get_default_triple()).startswith(("aarch64", "arm64"))


def is_intel() -> bool:
    """Whether LLVM's name for it is one of Intel's. (To LLVM all makers but Intel and AMD are "generic".)"""
    return is_x86() and not host.cpu_name().startswith(_NOT_INTEL)


class Level(IntEnum):
    """How near a cache line is asked for, in LLVM's terms."""

    NON_TEMPORAL = 0
    """Near, and not to be kept after it was read."""
    SECOND = 2
    """Into the second-level cache."""
    FIRST = 3
    """Into the first-level cache."""


def level_soon() -> Level:
    """How near a line that will be read soon is best asked for.

    A request into the first level may hold one of the buffers that loads wait for, until the memory answers. Shares of
    the memory's bandwidth at which Q4_K_M files decode, first and second level: Zen 4 0.70 and 0.95; Zen 5, before
    rows came in parts, 0.88 and 0.80; Granite Rapids 0.82 and 0.86. So others are taken to want the second, Arm among
    them, which was not measured. (Where another CPU is pretended, it is that one's level.)
    """
    return Level.FIRST if _is_zen_5() else Level.SECOND


def level_once() -> Level:
    """How near a line is best asked for that is read once in a step of decoding.

    As non-temporal, it takes no room on a Zen 5 but in the first-level cache, and all else that steps need stays in the
    others, such as Python's code: between two steps of a large model 70 µs pass instead of 120, and it reads faster.
    Decode gains 2 to 3 %; with models of 8 to 24 MB, which fit into the third-level cache, it stays within 2 %. (If
    prefill asks so, too, eight sequences decode 2 to 3 % slower; long prompts are the same.) One thread of a Granite
    Rapids reads 12 GB/s of lines that were asked for so, and 20 of those asked for into the second level. A Zen 4
    decodes Q4_K_M at 0.68 of its speed if lines are asked for so, Q8_0 at 0.84.
    """
    return Level.NON_TEMPORAL if _is_zen_5() else Level.SECOND


def _is_zen_5() -> bool:
    return host.cpu_name() == "znver5"


def decode_rows() -> int:
    """Up to so many rows of x are multiplied straight from W: to unpack it for them takes more time than that saves.

    In GB/s, by two threads of a Zen 4 with AVX-512, weights of 2,048 columns in the caches, and the same unpacked:

        rows of x      1       2       3         4         6         8
        Q4_K          59      50      42, 14    34, 14    26, 15    20, 13
        Q6_K          53      40      32, 20    24, 21    20, 21    16, 21
        Q8_0          55      52      41, 18    35, 18    26, 18    21, 18

    So three and four rows, too, wait for the memory, or nearly: from there all formats gain 1.2 (Q6_K) to 2.4 times
    (Q2_K, Q4_0). Float weights, which are read for each row anew, gain as well: four rows of F16 are as fast in both
    ways, three 1.3 times as fast, of BF16 1.5 and 1.7. Six and eight gain less, or lose; and each number of rows has
    code of its own: with that of four, kernels take two fifths longer to compile. With AVX2 alone four rows are as fast
    in both ways. Others with AVX-512 VNNI are taken to be like a Zen 4. (Exceptions are in
    `kquants.matmul.tiled_decode.rows_of`.)
    """
    return 4 if lowering() == "AVX-512 VNNI" else 2


def is_wide_zen_4() -> bool:
    """Whether it is a Zen 4 with AVX-512, which not all systems show."""
    return host.cpu_name() == "znver4" and lowering() == "AVX-512 VNNI"


def is_wide_intel() -> bool:
    """Whether it is one of Intel's with AVX-512 VNNI."""
    return is_intel() and lowering() == "AVX-512 VNNI"


def has_matrix_tiles() -> bool:
    """Whether it has Intel's AMX, and this process may use it."""
    return is_wide_intel() and has("amx-tile") and has("amx-int8")


def lowering() -> str:
    """What products of bytes are made of: a name that `kquants.simd.dot4` explains."""
    return next((name for name, feature in _LOWERINGS.items() if has(feature)), "plain vectors")
