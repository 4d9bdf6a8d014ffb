"""`python -m kquants.compile FOLDER NAME…`: compile kernels to object files; run as a child by `kquants.jit`."""

import re
import sys
from pathlib import Path

import llvmlite.binding as llvm

from kquants import jit
from kquants.kernels import KERNELS

_OUTSIDE = re.compile(r'^declare .*@"?([^"(]+)"?\(', re.MULTILINE)


def object_code(name: str) -> bytes:
    """The kernel as an object file with one C function, named like the kernel:

    `int32 NAME(void *result, void *error, int64…)`. The two leading pointers are Numba's; kernels return
    nothing and raise nothing, so callers pass a spare word for the one and null for the other.
    """
    machine = jit.target_machine()  # first: it gives LLVM the assembler that Numba needs for inline assembly
    function, signature = KERNELS[name]
    function.compile(signature)
    compiled = function.overloads[signature.args]
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    outside = [s for s in _OUTSIDE.findall(str(module)) if not s.startswith("llvm.")]
    if outside:
        raise jit.KernelError(f"{name} calls {', '.join(outside)}, which a kernel must not")
    module.get_function(compiled.fndesc.llvm_func_name).name = name
    return bytes(machine.emit_object(module))


def main(folder: Path, names: list[str]) -> None:
    """Compile the named kernels into `folder`; the name of each that is done goes to stdout."""
    for name in names:
        code = object_code(name)
        try:
            jit.store(folder, name, code)
        except OSError:
            sys.exit(jit.NOT_KEPT)
        print(name, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
