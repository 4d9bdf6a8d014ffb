"""What holds for LLVM's code and the machine code of every kernel."""

import re
import subprocess
import sys
from typing import Any

import pytest
from llvmlite import ir
from numba import types

from kquants import jit
from kquants.compiler.cpu import is_x86
from kquants.compiler.decorators import KERNELS, kernel
from support import ROOT
from support.kernels import compile_kernel


def test_a_kernel_that_calls_an_external_function() -> None:
    from kquants.simd import call, define

    @define(types.none, types.int64)
    def call_elsewhere(b: ir.IRBuilder, to: Any) -> None:
        call(b, "elsewhere", ir.VoidType(), to)

    def outward(to: int) -> None:
        call_elsewhere(to)

    with pytest.raises(jit.KernelError, match=r"^outward calls elsewhere, which a kernel must not"):
        compile_kernel(outward)


def test_null_is_a_valid_address_in_every_part_of_a_kernel() -> None:
    """Without the attribute, LLVM leaves out an access at an offset of 0, or does not inline the part."""
    from kquants.compiler import compile

    code = str(compile.optimized("rope_store_q8_0", jit.target_machine()))
    groups = dict(re.findall(r"^attributes (#\d+) = \{(.*)\}", code, re.MULTILINE))
    parts = re.findall(r"^define .*@.*(#\d+) ", code, re.MULTILINE)
    assert parts
    assert all("null_pointer_is_valid" in groups[part] for part in parts)


def test_no_kernel_reads_a_variable_before_it_is_assigned() -> None:
    """Such a variable would be undefined: stack slots are not cleared."""
    code = """
import gc, warnings
from numba.core import bytecode, config, errors, interpreter, postproc, ssa
from kquants.compiler.target import Function
import kquants.compiler.kernels
config.ALWAYS_WARN_UNINIT_VAR = 1
warnings.simplefilter("error", errors.NumbaWarning)
def check(function):
    identity = bytecode.FunctionIdentity.from_function(function)
    code = interpreter.Interpreter(identity).interpret(bytecode.ByteCode(identity))
    postproc.PostProcessor(code).run()
    ssa.reconstruct_ssa(code)
def wrong(n):
    for i in range(n):
        last = i
    return last
try:
    check(wrong)
except errors.NumbaWarning:
    print("warned")
functions = [part for part in gc.get_objects() if isinstance(part, Function)]
for part in functions:
    check(part.py_func)
print(len(functions) > 500)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout.split() == ["warned", "True"], done.stderr[-1000:]


@pytest.mark.skipif(not is_x86(), reason="reads the assembly of x86")
def test_the_stack_is_aligned_once_where_a_kernel_is_entered() -> None:
    """The function with the vector on its stack is called by the entry point, and aligns nothing itself."""
    from kquants.compiler import compile
    from kquants.simd import I32, define, pointer

    long = ir.IntType(64)

    @define(types.none, types.int64)
    def tell_place(b: ir.IRBuilder, to: Any) -> None:
        place = b.alloca(I32.vector)
        place.align = 64
        b.store(b.ptrtoint(place, long), pointer(b, to, long))

    def aligned(to: int) -> None:
        tell_place(to)

    kernel("aligned", arguments=1)(aligned)
    machine = jit.target_machine.__wrapped__()  # its own: another's first module may have been without the flag
    try:
        code = machine.emit_assembly(compile.optimized("aligned", machine))
    finally:
        del KERNELS["aligned"]
    assert re.findall(r"\band\w*\s+\$-\d+, %rsp", code) == ["andq\t$-64, %rsp"]
    entry = re.search(r"^_?aligned:.*?\bret", code, re.MULTILINE | re.DOTALL)
    assert entry and re.search(r"\$-64, %rsp.*\bcall", entry[0], re.DOTALL)
