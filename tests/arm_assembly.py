"""`python arm_assembly.py FEATURES FOLDER KERNEL…`: write NAME.s for each kernel as a 64-bit Arm CPU would run it.

LLVM makes code for any CPU, but Numba compiles for this one and loads the result: it is stopped before. KERNEL may
also be `dot4`, a product of full unsigned bytes. A process of its own must run this: it pretends for good.
"""

import re
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.cpu import CPUContext

from kquants import cpu, jit

TRIPLE, CPU = "aarch64-unknown-linux-gnu", "generic"


def pretend(features: str) -> Any:
    """Make kquants emit code for an Arm CPU with these features; return LLVM's code generator for it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu.is_x86, cpu.is_arm = (lambda: False), (lambda: True)
    jit.cpu_name, jit.cpu_features = (lambda: CPU), (lambda: features)
    JITCodeLibrary._finalize_specific = lambda library: None
    CPUContext.get_executable = finished
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=CPU, features=features, opt=3)


def finished(context: Any, library: Any, description: Any, environment: Any) -> Any:
    """Let Numba optimize a function, and give it any other one as its address."""
    library._ensure_finalized()
    return [].append


def kernel(name: str) -> str:
    """LLVM's code of a kernel."""
    from kquants.kernels import KERNELS

    function, signature = KERNELS[name]
    function.compile(signature)
    return str(function.overloads[signature.args].library.get_llvm_str())


def product() -> str:
    """LLVM's code of one product of unsigned bytes."""
    from test_dot4 import written

    return str(written(8, False, 1))


def main(features: str, folder: Path, names: list[str]) -> None:
    machine = pretend(features)
    for name in names:
        code = product() if name == "dot4" else kernel(name)
        module = llvm.parse_assembly(re.sub(r"^target .*", "", code, flags=re.MULTILINE))
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        (folder / f"{name}.s").write_text(machine.emit_assembly(module))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
