"""What the CPU that kernels are compiled for can do. Imports no compiler."""

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


def cpu_name() -> str:
    """LLVM's name for the CPU."""
    return host.cpu_name()


def is_x86() -> bool:
    """Whether it is a 64-bit x86 CPU: the only ones that may lack half floats and fused products."""
    return str(llvm.get_default_triple()).startswith("x86_64")


def is_arm() -> bool:
    """Whether it is a 64-bit Arm CPU: they all have NEON."""
    return str(llvm.get_default_triple()).startswith(("aarch64", "arm64"))


def is_intel() -> bool:
    """Whether LLVM's name for it is one of Intel's. (To LLVM all makers but Intel and AMD are "generic".)"""
    return is_x86() and not host.cpu_name().startswith(_NOT_INTEL)


def has_amx() -> bool:
    """Whether it has Intel's AMX, and this process may use it."""
    return is_intel() and has("avx512vnni") and has("amx-tile") and has("amx-int8")


def lowering() -> str:
    """What products of bytes are made of: a name that `kquants.simd.dot4` explains."""
    return next((name for name, feature in _LOWERINGS.items() if has(feature)), "plain vectors")
