"""`python -m support.arm_assembly FEATURES FOLDER KERNEL…`: write NAME.s for each kernel, as a 64-bit Arm CPU runs it.

KERNEL may also be `dot4`, a product of full unsigned bytes. A process of its own must run this: it pretends for good.
"""

import gc
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from kquants.compiler import cpu, host

TRIPLE, CPU = "aarch64-unknown-linux-gnu", "generic"


def pretend(features: str) -> Any:
    """Make kquants emit code for an Arm CPU with these features; return LLVM's code generator for it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu.is_x86, cpu.is_arm = (lambda: False), (lambda: True)
    host.cpu_name, host.cpu_features = (lambda: CPU), (lambda: features)
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=CPU, features=features, opt=3)


def collect_garbage_rarely() -> None:
    """As in a compile worker (see `kquants.compiler.compile`)."""
    gc.freeze()
    gc.set_threshold(20_000)


def product(machine: Any) -> Any:
    """LLVM's code of one product of unsigned bytes."""
    from support.byte_dots import written

    module = llvm.parse_assembly(str(written(8, False, 1)))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return module


def main(features: str, folder: Path, names: list[str]) -> None:
    machine = pretend(features)
    from kquants.compiler import compile

    collect_garbage_rarely()
    for name in names:
        module = product(machine) if name == "dot4" else compile.optimized(name, machine)
        (folder / f"{name}.s").write_text(machine.emit_assembly(module))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
