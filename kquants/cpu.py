"""What the CPU that kernels are compiled for can do. Imports no compiler."""

from functools import cache

import llvmlite.binding as llvm

from kquants import jit

_LOWERINGS = {
    "AVX-512 VNNI": "avx512vnni",
    "AVX-VNNI": "avxvnni",
    "AVX-512": "avx512bw",
    "AVX2": "avx2",
    "SSSE3": "ssse3",
    "Arm dot product": "dotprod",
}
"""Ways to multiply bytes, best first, and the feature each needs."""


@cache
def has(feature: str) -> bool:
    """Whether the CPU has a feature, by LLVM's name for it."""
    # LLVM lists no features on a Mac, but it names the CPU, and all of Apple's have this one.
    if feature == "dotprod" and jit.cpu_name().startswith("apple-m"):
        return True
    return f"+{feature}" in jit.cpu_features().split(",")


def is_x86() -> bool:
    """Whether it is a 64-bit x86 CPU: the only ones that may lack half floats and fused products."""
    return str(llvm.get_default_triple()).startswith("x86_64")


def is_arm() -> bool:
    """Whether it is a 64-bit Arm CPU: they all have NEON."""
    return str(llvm.get_default_triple()).startswith(("aarch64", "arm64"))


@cache
def wants_first_level() -> bool:
    """Whether lines that will be read soon are best asked for into the first-level cache, not the second-level one.

    A request into the first level may hold one of the buffers that loads wait for, until the memory answers. Shares of
    the memory's bandwidth at which Q4_K_M files decode, first and second level: Zen 4 0.70 and 0.95; Zen 5, before
    rows came in parts, 0.88 and 0.80. A Sapphire Rapids is faster with the second level, too. So others are taken to
    be, Arm among them, which was not measured. (Where another CPU is pretended, it is that one's level.)
    """
    return jit.cpu_name() == "znver5"


def lowering() -> str:
    """What products of bytes are made of: a name that `kquants.dot4` explains."""
    return next((name for name, feature in _LOWERINGS.items() if has(feature)), "plain vectors")
