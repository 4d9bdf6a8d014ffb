"""How Numba compiles the functions of `kquants`: to LLVM's code, of which whole kernels alone become machine code.

Numba's own target runs what it compiles. So it optimizes every function together with all that it calls, makes machine
code of it, and does the same again for whoever calls it. Here a function's code stays as it was written, until
`kquants.compiler.compile` has that of a kernel and all its parts; to optimize that once takes half the time.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba.core import codegen, cpu, registry, target_extension

_FLAGS: dict[str, Any] = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",  # a division by zero gives Inf or NaN and never raises
    "boundscheck": False,
    "fastmath": False,  # the same bits, always: see edgellm's promise in the README
    "no_cpython_wrapper": True,  # nothing here is called from Python
    "no_cfunc_wrapper": True,
}


class _Library(codegen.AOTCodeLibrary):
    def add_ir_module(self, module: Any) -> None:
        """Take a function's code."""
        for function in module.functions:
            if not function.is_declaration:
                # LLVM may turn base + t · stride into an offset from the pointer t · stride. Where t is 0 that is null,
                # and it would drop the access as impossible, unless told that null is an address like any other. All
                # functions say so, or else one could not become part of another. (llvmlite's list lacks this word.)
                set.add(function.attributes, "null_pointer_is_valid")
        super().add_ir_module(module)

    def _optimize_functions(self, module: Any) -> None:
        """Leave the code to be optimized with that of a kernel."""

    def _optimize_final_module(self) -> None:
        """As above."""


class _Codegen(codegen.AOTCPUCodegen):
    _library_class = _Library


class _Context(cpu.CPUContext):
    def init(self) -> None:
        super().init()
        self._internal_codegen = _Codegen("kquants", "host")

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        """What stands for a function among those that others call: any one that no other function has."""
        library.finalize()
        return [].append


class _Descriptor(registry.CPUTarget):
    @cached_property
    def _toplevel_target_context(self) -> _Context:
        return _Context(self.typing_context, self._target_name)


class Function(registry.CPUDispatcher):
    """A function that kernels are made of; Numba compiles it for the types of the arguments it is called with."""

    targetdescr = _Descriptor("kquants")

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, targetoptions=_FLAGS)

    def compile(self, signature: Any) -> Any:
        """Compile it for arguments of these types."""
        with target_extension.target_override("kquants"):
            return super().compile(signature)


class _Kernels(target_extension.CPU):
    """Kernels, among the targets of Numba: its own functions that ours call are compiled like ours."""


target_extension.target_registry["kquants"] = _Kernels
target_extension.dispatcher_registry[_Kernels] = Function
target_extension.jit_registry[_Kernels] = lambda *_, **__: Function
