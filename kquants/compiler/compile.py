"""`python -m kquants.compiler.compile FINGERPRINT`: a compile worker, started by `kquants.compiler.compile_workers`.

FINGERPRINT is the parent's fingerprint of the sources. The worker reads names of kernels, one a line, and for each
prints a line with its object code in Base64. It ends when stdin does, and so with its parent, however that ends.
"""

import base64
import gc
import os
import sys
import threading
from io import FileIO
from queue import SimpleQueue
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from kquants.compiler.errors import CHANGED, KernelError
from kquants.compiler.fingerprint import fingerprint
from kquants.compiler.host import target_machine
from kquants.compiler.kernels import KERNELS
from kquants.compiler.target import whole_module

_STACK = 64
"""Bytes to which kernels align the stack: the largest vector."""


def optimized(name: str, machine: Any) -> Any:
    """LLVM's optimized code of a kernel and all that it calls, for a code generator of LLVM.

    It holds one C function, `int32 NAME(void *result, void *error, int64…)`. The two leading pointers are Numba's;
    kernels return nothing and raise nothing, so callers pass the address of an unused word and null.
    """
    function, signature = KERNELS[name]
    function.compile(signature)
    compiled = function.overloads[signature.args]
    module = whole_module(compiled.library)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    _align_stack(module, compiled.fndesc.llvm_func_name, name, len(signature.args))
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    external = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if external:
        raise KernelError(f"{name} calls {', '.join(external)}, which a kernel must not")
    return module


def _align_stack(module: Any, function: str, name: str, arguments: int) -> None:
    """Add an entry point NAME that aligns the stack to 64 bytes and calls the function; the module relies on that.

    Otherwise vectors spilled to the stack lie at any multiple of 16: many cross cache lines, some cross pages, and a
    store across pages is slow. (Measured on Zen 4 with AVX2: Q6_K decodes 6 to 15 % slower, by where the stack of a
    thread begins.) LLVM can align the stack in each function itself, but that takes a register (with AVX-512, split-K
    of Q4_K had 7 % more instructions). It heeds the module's flag on x86 only: Arm needs no more than 16.
    """
    entry = ir.Module()
    entry.triple, entry.data_layout = module.triple, module.data_layout
    pointer, long = ir.IntType(8).as_pointer(), ir.IntType(64)
    kind = ir.FunctionType(ir.IntType(32), [pointer, pointer, *[long] * arguments])
    outer, inner = ir.Function(entry, kind, name), ir.Function(entry, kind, function)
    # All functions have this attribute, see `kquants.compiler.target`; without any, llvmlite omits the alignment, too.
    set.add(outer.attributes, "null_pointer_is_valid")
    outer.attributes.alignstack = _STACK
    b = ir.IRBuilder(outer.append_basic_block())
    b.ret(b.call(inner, outer.args, tail="notail"))  # a jump in place of the call would leave the stack unaligned
    # 1: linking a module with another value is an error.
    flag = [ir.IntType(32)(1), "override-stack-alignment", ir.IntType(32)(_STACK)]
    entry.add_named_metadata("llvm.module.flags", flag)
    module.link_in(llvm.parse_assembly(str(entry)))
    aligned = module.get_function(function)
    aligned.linkage = "internal"
    aligned.add_function_attribute("noinline")


def object_code(name: str) -> bytes:
    """The kernel as an object file for this CPU."""
    machine = target_machine()  # first: it gives LLVM the assembler that Numba needs for inline assembly
    return bytes(machine.emit_object(optimized(name, machine)))


def main(expected: str) -> None:
    """Compile the kernels named on stdin until it ends.

    Ends with the exit code CHANGED if the fingerprint of the sources is not `expected`. The sources are hashed after
    all of them are imported, so the code that is compiled is the code that the fingerprint names.
    """
    names: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read_names, args=(names,), daemon=True).start()
    if fingerprint() != expected:
        sys.exit(CHANGED)
    # Garbage collection at Python's rate takes a tenth of the time; none at all takes more memory and saves no more.
    gc.freeze()
    gc.set_threshold(20_000)
    while True:
        print(base64.b64encode(object_code(names.get())).decode(), flush=True)  # noqa: T201


def _read_names(names: "SimpleQueue[str]") -> None:
    # Not from sys.stdin: its lock, held by a thread that waits, would abort an interpreter that ends with an error.
    for line in FileIO(0, closefd=False):
        names.put(line.decode().strip())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
