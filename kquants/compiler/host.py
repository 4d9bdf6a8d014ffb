"""The CPU that kernels are compiled for, in LLVM's terms, and LLVM's code generator for it. Imports no compiler."""

import ctypes
import os
import sys
from functools import cache
from typing import Any

import llvmlite.binding as llvm


def cpu_name() -> str:
    """LLVM's name of the CPU to compile for, or NUMBA_CPU_NAME, which Numba itself obeys, too."""
    return os.environ.get("NUMBA_CPU_NAME") or str(llvm.get_host_cpu_name())


def cpu_features() -> str:
    """The features to compile for in LLVM's notation, or NUMBA_CPU_FEATURES."""
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        # For another CPU's name LLVM knows the features; those of the host belong to the host's name only.
        features = "" if os.environ.get("NUMBA_CPU_NAME") else str(llvm.get_host_cpu_features().flatten())
    return features if _may_use_amx() else features.replace("+amx", "-amx")


@cache
def _may_use_amx() -> bool:
    """Whether this process may use matrix tiles; on Linux a process must request the room to save them, once.

    Source: x86/xstate.rst of the kernel's documentation.
    """
    if not sys.platform.startswith("linux") or "+amx-tile" not in str(llvm.get_host_cpu_features().flatten()):
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


@cache
def target_machine() -> Any:
    """LLVM's code generator for this CPU. For kernels only: all its modules get the stack alignment of the first."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    target, features = llvm.Target.from_default_triple(), cpu_features()
    if {"+avx512vnni", "+avxvnni"} & set(features.split(",")):
        # Without this feature LLVM splits vpdpwssd into a product and a sum where its result is added to another sum.
        # That shortens a single chain of sums; kernels have many chains at once, where fewer instructions count.
        # (Measured on Emerald Rapids: Q6_K is 1.04 times as fast. LLVM's tuning for AMD's CPUs has the feature.)
        features += ",+fast-dpwssd"
    return target.create_target_machine(
        cpu=cpu_name(), features=features, opt=3, reloc="default", codemodel="jitdefault", jit=True
    )
