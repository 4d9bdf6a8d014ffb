"""`python -m kquants.compiler.compile FINGERPRINT`: compile kernels to object files.

A child of `kquants.compiler.compilers`, whose fingerprint of the sources it is given. Names of kernels come in, one a
line; for each a line with its object code in Base64 goes out. It ends with its parent, however that ends: then nobody
holds the other end of stdin any more.
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
    """LLVM's code of a kernel and what it calls, optimized for a code generator of LLVM: one C function of that name,

    `int32 NAME(void *result, void *error, int64…)`. The two leading pointers are Numba's; kernels return
    nothing and raise nothing, so callers pass a spare word for the one and null for the other.
    """
    function, signature = KERNELS[name]
    function.compile(signature)
    compiled = function.overloads[signature.args]
    module = whole_module(compiled.library)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    _align_stack(module, compiled.fndesc.llvm_func_name, name, len(signature.args))
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    outside = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if outside:
        raise KernelError(f"{name} calls {', '.join(outside)}, which a kernel must not")
    return module


def _align_stack(module: Any, function: str, name: str, arguments: int) -> None:
    """Let a function be called as NAME: by way of one that aligns the stack to 64 bytes, on which the module relies.

    Or else vectors that leave their registers lie at any multiple of 16: many across two cache lines, some across two
    pages, and a store to those takes long. Q6_K decoded 6 to 15 % slower so on a Zen 4 with AVX2, by where a thread's
    stack began. (LLVM can align the stack itself, in functions told to beforehand. But that takes a register: with
    AVX-512, Q4_K in parts had 7 % more instructions. It heeds the module's flag on x86 alone: those of Arm need no more
    than 16.)
    """
    entry = ir.Module()
    entry.triple, entry.data_layout = module.triple, module.data_layout
    pointer, long = ir.IntType(8).as_pointer(), ir.IntType(64)
    kind = ir.FunctionType(ir.IntType(32), [pointer, pointer, *[long] * arguments])
    outer, inner = ir.Function(entry, kind, name), ir.Function(entry, kind, function)
    # As all functions have it: see `kquants.compiler.target`. (Without one llvmlite leaves out the alignment, too.)
    set.add(outer.attributes, "null_pointer_is_valid")
    outer.attributes.alignstack = _STACK
    b = ir.IRBuilder(outer.append_basic_block())
    b.ret(b.call(inner, outer.args, tail="notail"))  # never a jump, which would leave the stack as it was
    flag = [ir.IntType(32)(1), "override-stack-alignment", ir.IntType(32)(_STACK)]  # 1: an error if another differs
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
    """Compile the kernels named on stdin until that ends.

    Ends with the exit code CHANGED if the sources are not those of which `expected` is the fingerprint. They are hashed
    when all of them are imported, so what is compiled is what its name says.
    """
    names: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(names,), daemon=True).start()
    if fingerprint() != expected:
        sys.exit(CHANGED)
    # Frequent garbage collection takes a tenth of the time. Without any, a process needs more memory and is no faster.
    gc.freeze()
    gc.set_threshold(20_000)
    while True:
        print(base64.b64encode(object_code(names.get())).decode(), flush=True)  # noqa: T201


def _listen(names: "SimpleQueue[str]") -> None:
    # Not from sys.stdin: its lock, held by a thread that waits, would abort an interpreter that ends with an error.
    for line in FileIO(0, closefd=False):
        names.put(line.decode().strip())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
