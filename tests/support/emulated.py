"""Code for another CPU, run on an x86 CPU with AVX2: where it has instructions that this one lacks, it calls functions.

A process of its own must `begin` before it compiles anything: it pretends for good. Only instructions that kernels ask
for by name are emulated: what LLVM makes of its own operations on 512 bits is two operations on 256 here.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from kquants import jit
from kquants.compiler import compile_workers, host
from kquants.compiler.cache import KernelCache
from kquants.compiler.fingerprint import kernel_fingerprint
from support import arm_assembly

_NAMED = re.compile(r'@"?llvm\.((?:x86\.avx512(?:bf16)?|x86\.vgf2p8affineqb|aarch64\.neon)\.[\w.]+)"?')
"""An instruction of another CPU, in LLVM's code."""

_HELD = re.compile(r'call (<[^>]+>|i\d+) asm +(?:sideeffect )?"", "=[vr],0"\((.*)\)')
"""A value that goes through no instruction, yet in a register that this CPU may lack (see `kquants.simd.opaque`)."""

_parse = llvm.parse_assembly


@cache
def _written(name: str) -> str:
    """LLVM's code of the function that stands for an instruction."""
    from support.instructions import INSTRUCTIONS  # not before it is known which CPU is pretended

    emit, result, operands = INSTRUCTIONS[name]
    function = ir.Function(ir.Module(), ir.FunctionType(result, operands), _function(name))
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")  # inlined, it would take three times as long to compile kernels
    b = ir.IRBuilder(function.append_basic_block())
    b.ret(emit(b, *function.args))
    return str(function.module)


def _function(name: str) -> str:
    return f"emulated.{name}"


def _parsed(code: str, context: Any = None) -> Any:
    """What `llvm.parse_assembly` gives, with functions in place of instructions."""
    code = _HELD.sub(r"bitcast \2 to \1", code)
    module = _parse(_NAMED.sub(lambda found: f'@"{_function(found[1])}"', code), context)
    for name in set(_NAMED.findall(code)):
        module.link_in(_parse(_written(name), context))
    return module


@cache
def _this_cpu() -> Any:
    """LLVM's code generator for the CPU that there is."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), codemodel="jitdefault", jit=True
    )


def _compile(
    names: Sequence[str], on_compiled: Callable[[str, bytes], None], on_progress: Callable[[int], None]
) -> None:
    """Compile kernels in copies of this process."""
    from kquants.compiler import compile  # noqa: F401  copies need not import it

    count = min(os.cpu_count() or 1, len(names))
    with ProcessPoolExecutor(count, get_context("fork"), arm_assembly.collect_garbage_rarely) as pool:
        for name, code in zip(names, pool.map(_object_code, names), strict=True):
            on_compiled(name, code)


def _object_code(name: str) -> bytes:
    from kquants.compiler import compile

    return compile.object_code(name)


def _fingerprint(name: str, folder: KernelCache | None) -> str:
    """What a kept kernel depends on: also on how this CPU emulates."""
    parts = [kernel_fingerprint(name, folder), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    digest = hashlib.sha256("\0".join(parts).encode())
    for source in ("arm_assembly.py", "emulated.py", "instructions.py"):
        digest.update((Path(__file__).parent / source).read_bytes())
    return f"emulated-{digest.hexdigest()[:20]}"


def begin(arm: str = "") -> None:
    """Emulate from now on: the x86 CPU that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES tell, or an Arm CPU's features."""
    assert "kquants.simd" not in sys.modules, "kernels were already made for this CPU"
    if arm:
        arm_assembly.pretend(arm)
    jit.kernel_fingerprint, compile_workers.compile_missing = _fingerprint, _compile
    jit.target_machine = host.target_machine = _this_cpu  # the compiler is imported later, and finds it there
    llvm.parse_assembly = _parsed
