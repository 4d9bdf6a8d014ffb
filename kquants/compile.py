"""`python -m kquants.compile FOLDER`: compile kernels to object files; run as a child by `kquants.jit`.

Their names come in, one a line; each goes out again when its kernel is in the folder.
"""

import gc
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from kquants import jit
from kquants.kernels import KERNELS


def optimized(name: str, machine: Any) -> Any:
    """LLVM's code of a kernel and what it calls, optimized for a code generator of LLVM: one C function of that name,

    `int32 NAME(void *result, void *error, int64…)`. The two leading pointers are Numba's; kernels return
    nothing and raise nothing, so callers pass a spare word for the one and null for the other.
    """
    function, signature = KERNELS[name]
    function.compile(signature)
    compiled = function.overloads[signature.args]
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.get_function(compiled.fndesc.llvm_func_name).name = name
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    outside = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if outside:
        raise jit.KernelError(f"{name} calls {', '.join(outside)}, which a kernel must not")
    return module


def object_code(name: str) -> bytes:
    """The kernel as an object file for this CPU."""
    machine = jit.target_machine()  # first: it gives LLVM the assembler that Numba needs for inline assembly
    return bytes(machine.emit_object(optimized(name, machine)))


def main(folder: Path) -> None:
    """Compile the kernels named on stdin into `folder`."""
    gc.freeze()  # the compiler stays: to look for garbage in it again and again takes a tenth of the time
    for line in sys.stdin:
        name = line.strip()
        code = object_code(name)
        try:
            jit.store(folder, name, code)
        except OSError:
            sys.exit(jit.NOT_KEPT)
        print(name, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
