"""Numba's target for `kquants`: functions are compiled to LLVM's code; only whole kernels become machine code.

Numba's own target runs what it compiles. It therefore links, optimizes and generates machine code for every function
together with all that it calls, and again for each caller. Here a function's code is left unoptimized until
`whole_module` links a kernel with all its parts, once; `kquants.compiler.compile` then optimizes the result.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, registry, target_extension

from kquants.compiler.pipeline import Pipeline, TargetContext, TypingContext

_FLAGS: dict[str, Any] = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",  # a division by zero gives Inf or NaN and never raises
    "boundscheck": False,
    "fastmath": False,  # the same bits, always: see edgellm's promise in the README
    "no_cpython_wrapper": True,  # nothing here is called from Python
    "no_cfunc_wrapper": True,
    "_nrt": False,  # nothing here is reference-counted
    # NUMBA_DEBUGINFO is ignored: with it, variables would lie where `pipeline` does not put them.
    "debug": False,
    "_dbg_extend_lifetimes": False,
}


class _Library(codegen.AOTCodeLibrary):
    def add_ir_module(self, module: Any) -> None:
        """Add a function's code."""
        for function in module.functions:
            if not function.is_declaration:
                # LLVM may turn base + t · stride into an offset from the pointer t · stride, which is null where t is
                # 0, and would then drop the access as impossible, unless told that null is a valid address. All
                # functions have the attribute, as LLVM inlines no function into one with other attributes. (llvmlite's
                # list of attributes lacks it.)
                set.add(function.attributes, "null_pointer_is_valid")
        super().add_ir_module(module)

    def add_linking_library(self, library: Any) -> None:
        """Note the library of a function that this one calls."""
        self._linking_libraries.append(library)

    def finalize(self) -> None:
        """Leave the code as it is: `whole_module` links callers with what they call."""
        self._raise_if_finalized()
        self._finalized = True

    def _optimize_functions(self, module: Any) -> None:
        """Do nothing: the code is optimized as part of a kernel."""


def whole_module(library: Any) -> Any:
    """The code of a function and of all that it calls, as one LLVM module in which only that function is visible.

    The libraries of these functions are not changed: other kernels use them, too.
    """
    whole = llvm.parse_assembly("")
    for one in _with_called(library, {}):
        module = one._final_module.clone()
        for function in module.functions:
            if function.linkage == llvm.Linkage.external and not function.is_declaration and one is not library:
                function.linkage = "linkonce_odr"  # several modules may define it, and LLVM drops it once it is inlined
        whole.link_in(module)
    return whole


def _with_called(library: Any, found: dict[Any, None]) -> dict[Any, None]:
    """A library and all that it calls, each once, in depth-first order."""
    found[library] = None
    for called in library._linking_libraries:
        if called not in found:
            _with_called(called, found)
    return found


class _Codegen(codegen.AOTCPUCodegen):
    _library_class = _Library


class _Context(TargetContext):
    def init(self) -> None:
        super().init()
        self._internal_codegen = _Codegen("kquants", "host")

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        """A unique dummy, of the type that Numba's dispatcher takes; Numba uses it only as an identity."""
        library.finalize()
        return [].append


class _Descriptor(registry.CPUTarget):
    @cached_property
    def _toplevel_target_context(self) -> _Context:
        return _Context(self.typing_context, self._target_name)

    @cached_property
    def _toplevel_typing_context(self) -> TypingContext:
        return TypingContext()


class Function(registry.CPUDispatcher):
    """A part of kernels; Numba compiles it for the types of the arguments that it is called with."""

    targetdescr = _Descriptor("kquants")

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, targetoptions=_FLAGS, pipeline_class=Pipeline)

    def compile(self, signature: Any) -> Any:
        """Compile it for arguments of these types."""
        with target_extension.target_override("kquants"):
            return super().compile(signature)


class _Kernels(target_extension.CPU):
    """The target in Numba's registry, so that Numba's own functions are compiled like ours when ours call them."""


target_extension.target_registry["kquants"] = _Kernels
target_extension.dispatcher_registry[_Kernels] = Function
target_extension.jit_registry[_Kernels] = lambda *_, **__: Function
